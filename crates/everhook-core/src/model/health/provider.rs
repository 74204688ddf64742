//! The providers whose data is understood.

/// Who measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// Garmin Health: pushes whole summaries.
    Garmin,
    /// Strava: says which activity changed; the activity is fetched.
    Strava,
}

impl Provider {
    /// All providers.
    pub const ALL: [Self; 2] = [Self::Garmin, Self::Strava];

    /// Its name on every wire, in every store and in the dedupe hash. The kind of its sources has the same name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Garmin => "garmin",
            Self::Strava => "strava",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == name)
    }
}
