//! Statistics of an organization, broken down by what its attempts have in common beside their lane.
//!
//! Each part has a number among the lanes, under an id that follows from what it is of, so that its rollups are kept, folded and removed as those of any lane.

use aws_lc_rs::digest;

use crate::{
    ids::{LaneId, OrganizationId, SourceId},
    model::{AttemptStatistics, EventType, ScheduleName},
    time::Timestamp,
};

/// What the attempts of a part of an organization have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Breakdown {
    /// The type of their events.
    EventType(EventType),
    /// The retry schedule of their deliveries, by the name that it had when these were created: whatever its versions say.
    RetrySchedule(ScheduleName),
    /// The source that their events came in at.
    Source(SourceId),
}

/// The kinds of breakdowns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BreakdownKind {
    /// By event type.
    EventType,
    /// By retry schedule.
    RetrySchedule,
    /// By source.
    Source,
}

impl BreakdownKind {
    /// How stores spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EventType => "event_type",
            Self::RetrySchedule => "retry_schedule",
            Self::Source => "source",
        }
    }

    /// How many are told apart in an organization; all others are counted together. Event types are chosen by whoever publishes. The names of schedules
    /// outlive the schedules, of which there may be 200 beside the presets. Nobody has more sources than were made.
    pub const fn told_apart_max(self) -> Option<u32> {
        match self {
            Self::EventType => Some(50),
            Self::RetrySchedule => Some(300),
            Self::Source => None,
        }
    }

    /// Under which id those of an organization are counted that are not told apart.
    pub fn others(self, organization: OrganizationId) -> LaneId {
        // No event type and no schedule has an empty name.
        lane_of(self, organization, b"")
    }
}

impl Breakdown {
    /// What kind it is.
    pub const fn kind(&self) -> BreakdownKind {
        match self {
            Self::EventType(_) => BreakdownKind::EventType,
            Self::RetrySchedule(_) => BreakdownKind::RetrySchedule,
            Self::Source(_) => BreakdownKind::Source,
        }
    }

    /// Under which id it is counted. Computed, so that nobody needs to look it up.
    pub fn lane(&self, organization: OrganizationId) -> LaneId {
        match self {
            Self::EventType(name) => lane_of(self.kind(), organization, name.as_str().as_bytes()),
            Self::RetrySchedule(ScheduleName(name)) => lane_of(self.kind(), organization, name.as_bytes()),
            Self::Source(source) => lane_of(self.kind(), organization, source.as_uuid().as_bytes()),
        }
    }
}

fn lane_of(kind: BreakdownKind, organization: OrganizationId, of: &[u8]) -> LaneId {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(b"everhook statistics by ");
    hash.update(kind.as_str().as_bytes());
    hash.update(organization.as_uuid().as_bytes());
    hash.update(of);
    let hash = hash.finish();
    let bytes: [u8; 16] = hash.as_ref()[..16].try_into().expect("a SHA-256 has 32 bytes");
    LaneId::from_uuid(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// What happened in a part of an organization in a part of one minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakdownTally {
    /// Whose.
    pub organization: OrganizationId,
    /// What the attempts have in common.
    pub of: Breakdown,
    /// The first instant of the minute.
    pub minute: Timestamp,
    /// What happened.
    pub statistics: AttemptStatistics,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use uuid::Uuid;

    use super::*;

    #[test]
    fn every_part_of_every_organization_has_an_id_of_its_own() {
        let mut lanes = BTreeSet::new();
        for organization in [1, 2].map(|n| OrganizationId::from_uuid(Uuid::from_u128(n))) {
            let parts = ["a", "b"].into_iter().flat_map(|name| {
                [Breakdown::EventType(EventType::parse(name).unwrap()), Breakdown::RetrySchedule(ScheduleName(name.to_owned()))]
            });
            let parts: Vec<Breakdown> = parts.chain([Breakdown::Source(SourceId::from_uuid(Uuid::from_u128(3)))]).collect();
            lanes.extend(parts.iter().map(|part| part.lane(organization)));
            lanes.extend([BreakdownKind::EventType, BreakdownKind::RetrySchedule].map(|kind| kind.others(organization)));
            assert!(parts.iter().all(|part| part.lane(organization) == part.clone().lane(organization)));
        }
        assert_eq!(lanes.len(), 14);
    }
}
