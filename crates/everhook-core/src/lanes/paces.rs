//! How quickly endpoints answered whose lanes are no longer in memory. Pure, and bounded.

use rustc_hash::FxHashMap;

use crate::{ids::LaneId, lanes::lane::Pace};

/// How many paces each of the two maps keeps: together 100,000 lanes, in at most 3 MB. An endpoint that is forgotten counts as unknown, which has slots of its
/// own: nobody gains by crowding others out.
const PACES_MAX: usize = 50_000;

/// The paces of lanes that were left, at least of the last [`PACES_MAX`].
#[derive(Default)]
pub(super) struct Paces {
    recent: FxHashMap<LaneId, Pace>,
    /// What was recent before the recent ones were too many.
    older: FxHashMap<LaneId, Pace>,
}

impl Paces {
    /// A lane leaves memory.
    pub(super) fn remember(&mut self, lane_id: LaneId, pace: Pace) {
        if pace == Pace::Unknown {
            return;
        }
        if self.recent.len() >= PACES_MAX {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(lane_id, pace);
    }

    /// The pace of a lane that is made.
    pub(super) fn take(&mut self, lane_id: LaneId) -> Pace {
        let older = self.older.remove(&lane_id);
        self.recent.remove(&lane_id).or(older).unwrap_or(Pace::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_last_ones_are_remembered_and_the_first_are_forgotten() {
        let lane_id = |n: usize| LaneId::from_uuid(Uuid::from_u128(n as u128));
        let mut paces = Paces::default();
        (0..5 * PACES_MAX).for_each(|n| paces.remember(lane_id(n), if n % 2 == 0 { Pace::Quick } else { Pace::Slow }));
        assert!(paces.recent.len() + paces.older.len() <= 2 * PACES_MAX);
        assert_eq!(paces.take(lane_id(0)), Pace::Unknown);
        assert!((4 * PACES_MAX..5 * PACES_MAX).all(|n| paces.take(lane_id(n)) != Pace::Unknown));
        assert_eq!(paces.take(lane_id(5 * PACES_MAX - 1)), Pace::Unknown, "it is the lane's again");
    }
}
