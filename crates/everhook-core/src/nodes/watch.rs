//! Which of the other nodes have stopped to renew their leases, as this one has seen for itself. Used by the keeper alone. It knows nothing of
//! calendars: time is uptime, given by whoever asks.

use std::{collections::BTreeMap, time::Duration};

use uuid::Uuid;

use crate::ports::{Heartbeat, LEASE_WATCHED_FOR};

/// What was seen of the leases of others.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// How often each was renewed, and since when it is known that this is so.
    seen: BTreeMap<Uuid, (u64, Duration)>,
}

impl Watch {
    /// Notes what was asked for and answered at these moments, and says whose leases have not been renewed for so long that they are over. From
    /// the answer to the next question: for as long at least, nothing changed.
    pub(super) fn overdue(&mut self, others: &[Heartbeat], asked: Duration, answered: Duration) -> Vec<Heartbeat> {
        let mut seen = BTreeMap::new();
        let mut overdue = Vec::new();
        for other in others {
            let known = self.seen.get(&other.boot).filter(|(renewals, _)| *renewals == other.renewals);
            let since = known.map_or(answered, |(_, since)| *since);
            if asked.saturating_sub(since) >= LEASE_WATCHED_FOR {
                overdue.push(*other);
            }
            seen.insert(other.boot, (other.renewals, since));
        }
        self.seen = seen;
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeat(boot: u128, renewals: u64) -> Heartbeat {
        Heartbeat { boot: Uuid::from_u128(boot), renewals }
    }

    #[test]
    fn a_lease_is_overdue_once_it_was_seen_unrenewed_for_four_seconds_and_a_half() {
        let mut watch = Watch::default();
        // When it was asked, in milliseconds, how often the lease had been renewed, and whether it is over. Answers take 100 ms.
        let table = [
            (1_000, 7, false),
            (2_000, 7, false),
            (5_590, 7, false),
            (5_600, 7, true),
            (6_000, 8, false),
            (10_000, 8, false),
            (10_500, 9, false),
            (14_900, 9, false),
            (15_100, 9, true),
        ];
        for (asked, renewals, expected) in table {
            let (asked, answered) = (Duration::from_millis(asked), Duration::from_millis(asked + 100));
            let overdue = watch.overdue(&[heartbeat(1, renewals), heartbeat(2, asked.as_secs())], asked, answered);
            let expected = if expected { vec![heartbeat(1, renewals)] } else { Vec::new() };
            assert_eq!(overdue, expected, "{asked:?}");
        }
    }

    #[test]
    fn a_node_that_has_just_started_takes_nobody_for_dead() {
        let late = Duration::from_secs(9_000);
        assert_eq!(Watch::default().overdue(&[heartbeat(1, 0)], late, late), []);
    }
}
