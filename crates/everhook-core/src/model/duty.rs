//! Work that concerns the whole store and not one lane: one node does each at a time.

/// Something that is done again and again, by one node at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Duty {
    /// Carries out what people asked for in bulk.
    Operations,
    /// Brings dead letters back without a person, for organizations that want that.
    AutomaticReplay,
    /// Publishes the alerts that were recorded for organizations.
    Alerts,
    /// Frees deliveries that are held behind nothing.
    FreeHeads,
    /// Forgets idempotency keys that are past their window.
    ForgetKeys,
    /// Removes what is past its time.
    Retention,
    /// Warns of endpoints that fail for days, and disables them.
    EndpointHealth,
    /// Checks the health of apps.
    HealthChecks,
    /// Evaluates alert rules.
    AlertRules,
}

impl Duty {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Operations,
        Self::AutomaticReplay,
        Self::Alerts,
        Self::FreeHeads,
        Self::ForgetKeys,
        Self::Retention,
        Self::EndpointHealth,
        Self::HealthChecks,
        Self::AlertRules,
    ];

    /// Its name, for stores and logs. Never changed once it was stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::AutomaticReplay => "automatic_replay",
            Self::Alerts => "alerts",
            Self::FreeHeads => "free_heads",
            Self::ForgetKeys => "forget_keys",
            Self::Retention => "retention",
            Self::EndpointHealth => "endpoint_health",
            Self::HealthChecks => "health_checks",
            Self::AlertRules => "alert_rules",
        }
    }

    /// The duty of this name; `None` if there is none, as in a store that a newer version wrote to.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|duty| duty.as_str() == name)
    }
}

/// Some of the duties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DutySet(u32);

impl DutySet {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self((1 << Duty::ALL.len()) - 1);

    /// Whether this one is among them.
    pub const fn contains(self, duty: Duty) -> bool {
        self.0 & (1 << duty as u32) != 0
    }

    /// These and those.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These but not those.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them, in the order of [`Duty::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Duty> {
        Duty::ALL.into_iter().filter(move |duty| self.contains(*duty))
    }
}

impl FromIterator<Duty> for DutySet {
    fn from_iter<I: IntoIterator<Item = Duty>>(duties: I) -> Self {
        duties.into_iter().fold(Self::NONE, |set, duty| Self(set.0 | 1 << duty as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_duties_are_sets() {
        let set: DutySet = [Duty::Alerts, Duty::Operations].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [Duty::Operations, Duty::Alerts]);
        assert_eq!(DutySet::ALL.without(set).with(set), DutySet::ALL);
        assert_eq!(DutySet::ALL.iter().count(), Duty::ALL.len());
        assert!(set.without(set).is_empty() && !set.contains(Duty::ForgetKeys));
    }

    #[test]
    fn a_duty_is_found_by_its_name() {
        for duty in Duty::ALL {
            assert_eq!(Duty::parse(duty.as_str()), Some(duty));
        }
        assert_eq!(Duty::parse("laundry"), None);
    }
}
