//! Processors: built-in code that handles received events. A source's processor is a destination of deliveries, as an endpoint is.

use crate::ids::{ApplicationId, ScheduleVersion, SourceId};

/// Which built-in code handles the events of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessorKind {
    /// Makes health metrics of what providers of health data push.
    Health,
}

impl ProcessorKind {
    /// All processors.
    pub const ALL: [Self; 1] = [Self::Health];

    /// Its name on every wire and in every store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Health => "health",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The kinds of sources whose events it understands.
    pub const fn source_kinds(self) -> &'static [&'static str] {
        match self {
            Self::Health => &["garmin", "strava"],
        }
    }
}

/// The processor of one source, as sending goes by it. Its lane has the source's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceProcessor {
    /// The source, whose id is also that of the lane.
    pub source: SourceId,
    /// The application that the source's events are published to.
    pub application: ApplicationId,
    /// Which code.
    pub kind: ProcessorKind,
    /// The kind of the source: who sent its events.
    pub source_kind: String,
    /// The version of the retry schedule that new deliveries keep.
    pub retry_schedule: ScheduleVersion,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::health::Provider;

    #[test]
    fn a_processor_is_read_by_its_name_and_understands_the_kinds_of_its_providers() {
        for kind in ProcessorKind::ALL {
            assert_eq!(ProcessorKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(ProcessorKind::Health.source_kinds(), Provider::ALL.map(Provider::as_str));
    }
}
