//! What a user lets a provider pass on.

use std::collections::BTreeSet;

/// How many permissions of a user are kept: Garmin has six.
pub const PERMISSIONS_MAX: usize = 64;
/// The longest name of a permission that is kept, in bytes.
pub const PERMISSION_BYTES_MAX: usize = 64;

/// The permissions of a user, by the provider's names: unknown ones are kept as they are. Sorted, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions(BTreeSet<Box<str>>);

impl Permissions {
    /// Garmin: wellness data (dailies, sleeps, stress) may be passed on.
    pub const HEALTH_EXPORT: &str = "HEALTH_EXPORT";
    /// The same in another spelling that was seen.
    pub const WELLNESS_EXPORT: &str = "WELLNESS_EXPORT";
    /// Garmin: activities may be passed on.
    pub const ACTIVITY_EXPORT: &str = "ACTIVITY_EXPORT";
    /// Garmin: data from before the consent may be requested.
    pub const HISTORICAL_DATA_EXPORT: &str = "HISTORICAL_DATA_EXPORT";

    /// Strava: what the names of scopes that let activities be read have in common.
    const STRAVA_ACTIVITIES: &str = "activity:read";

    /// Takes names; what is empty, too long or no plain text is left out, and so is what comes after the bound.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let is_good = |name: &&str| (1..=PERMISSION_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
        let mut kept = BTreeSet::new();
        for name in names.into_iter().filter(is_good) {
            if kept.len() < PERMISSIONS_MAX {
                kept.insert(name.into());
            }
        }
        Self(kept)
    }

    /// The names in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Whether a permission is among them.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Whether Strava lets the user's activities be read, all or those that others may see. Scopes may have been given as one text.
    pub fn reads_strava_activities(&self) -> bool {
        self.iter().any(|name| name.contains(Self::STRAVA_ACTIVITIES))
    }

    /// Whether there is none: the user switched everything off.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_sorted_kept_once_and_bounded() {
        let long = "X".repeat(PERMISSION_BYTES_MAX + 1);
        let kept = Permissions::of(["HEALTH_EXPORT", "ACTIVITY_EXPORT", "", "HEALTH_EXPORT", "a\n", &long, "NEW_ONE"]);
        assert_eq!(kept.iter().collect::<Vec<_>>(), ["ACTIVITY_EXPORT", "HEALTH_EXPORT", "NEW_ONE"]);
        assert!(kept.has(Permissions::HEALTH_EXPORT) && !kept.has(Permissions::HISTORICAL_DATA_EXPORT));
        let names: Vec<String> = (0..PERMISSIONS_MAX * 2).map(|number| format!("P{number}")).collect();
        assert_eq!(Permissions::of(names.iter().map(String::as_str)).iter().count(), PERMISSIONS_MAX);
    }
}
