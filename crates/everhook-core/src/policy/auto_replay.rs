//! When a dead letter is tried again without a person. Asked by `jobs::operations` for each number of deaths. Pure.

use std::time::Duration;

use crate::{model::AutoReplay, time::Timestamp};

/// Until when a dead letter that died so often must have died last to be tried again now; `None` if it is left to people.
///
/// The first pause is `after`, and each further one is twice as long.
pub fn died_until(settings: &AutoReplay, failures: u32, now: Timestamp) -> Option<Timestamp> {
    if !settings.enabled || failures == 0 || failures > settings.max_tries {
        return None;
    }
    Some(now - pause(settings.after, failures))
}

fn pause(after: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1);
    1_u32.checked_shl(doublings).map_or(Duration::MAX, |times| after.saturating_mul(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_the_tries_are_used_up() {
        let now = Timestamp::from_secs(1_000_000);
        let on = AutoReplay { enabled: true, ..AutoReplay::default() };
        let ago = |hours: u64| Some(now - Duration::from_secs(hours * 3_600));
        let table = [(0, None), (1, ago(1)), (2, ago(2)), (3, ago(4)), (6, ago(32)), (7, None), (u32::MAX, None)];
        for (failures, expected) in table {
            assert_eq!(died_until(&on, failures, now), expected, "{failures} deaths");
        }
        assert_eq!(died_until(&AutoReplay::default(), 1, now), None, "it is off unless it is switched on");
        let endless = AutoReplay { max_tries: u32::MAX, ..on };
        assert!(died_until(&endless, 40, now).is_some_and(|until| until < Timestamp::EPOCH), "a pause that is too long is never over");
    }
}
