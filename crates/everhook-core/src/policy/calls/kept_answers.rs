//! How many answers organizations may have in the store, and which go when there are more: of each capability the oldest. Pure.

use crate::{ids::LaneId, model::LaneAnswers};

/// How many answers one capability may have, and how many bytes of them.
const ANSWERS_OF_LANE_MAX: u64 = 10_000;
const BYTES_OF_LANE_MAX: u64 = 64 << 20;

/// How many answers all capabilities of an organization may have, and how many bytes of them.
const ANSWERS_OF_ORGANIZATION_MAX: u64 = 100_000;
const BYTES_OF_ORGANIZATION_MAX: u64 = 512 << 20;

/// How many answers are to go from which lanes of one organization. Where bytes are too many, it is reckoned that all answers of a lane have the same.
pub fn excess(lanes: &[LaneAnswers]) -> Vec<(LaneId, u64)> {
    let kept: Vec<u64> = lanes.iter().map(kept_of_lane).collect();
    let (answers, bytes) = (kept.iter().sum::<u64>(), lanes.iter().zip(&kept).map(|(lane, kept)| bytes_of(lane, *kept)).sum::<u64>());
    // Every lane gives the same share.
    let scaled = |kept: u64, most: u64, all: u64| if all > most { share(kept, most, all) } else { kept };
    let kept =
        kept.into_iter().map(|kept| scaled(kept, ANSWERS_OF_ORGANIZATION_MAX, answers).min(scaled(kept, BYTES_OF_ORGANIZATION_MAX, bytes)));
    lanes.iter().zip(kept).map(|(lane, kept)| (lane.lane_id, lane.answers - kept)).filter(|(_, excess)| *excess > 0).collect()
}

fn kept_of_lane(lane: &LaneAnswers) -> u64 {
    let by_bytes = if lane.bytes > BYTES_OF_LANE_MAX { share(lane.answers, BYTES_OF_LANE_MAX, lane.bytes) } else { lane.answers };
    by_bytes.min(ANSWERS_OF_LANE_MAX)
}

fn bytes_of(lane: &LaneAnswers, answers: u64) -> u64 {
    share(lane.bytes, answers, lane.answers.max(1))
}

/// `part` of `whole` of a number, rounded down.
fn share(of: u64, part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(of) * u128::from(part) / u128::from(whole)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn lane(n: u128, answers: u64, bytes: u64) -> LaneAnswers {
        LaneAnswers { lane_id: LaneId::from_uuid(Uuid::from_u128(n)), answers, bytes }
    }

    #[test]
    fn lanes_and_organizations_keep_as_many_as_they_may() {
        type Case = (&'static str, Vec<LaneAnswers>, Vec<u64>);
        let table: [Case; 6] = [
            ("nothing", vec![], vec![]),
            ("few", vec![lane(1, 10_000, 64 * MIB), lane(2, 5, 1)], vec![]),
            ("too many of a lane", vec![lane(1, 10_500, 1_000), lane(2, 5, 1)], vec![500]),
            ("too large", vec![lane(1, 256, 128 * MIB)], vec![128]),
            ("too many of an organization", (0..20).map(|n| lane(n, 10_000, 10)).collect(), vec![5_000; 20]),
            ("too large together", (0..16).map(|n| lane(n, 256, 64 * MIB)).collect(), vec![128; 16]),
        ];
        for (name, lanes, expected) in table {
            let excess: Vec<u64> = excess(&lanes).into_iter().map(|(_, excess)| excess).collect();
            assert_eq!(excess, expected, "{name}");
        }
    }
}
