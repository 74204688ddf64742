//! Canaries: which calls go to another version of an app, and when that one is withdrawn. Pure.
//!
//! Both versions are counted side by side, in rounds of 50 calls of the canary. The more calls it had, the smaller a difference says that it is worse.

/// How many calls of the canary are one round. What happened before does not excuse what happens now.
const ROUND: u32 = 50;

/// From so many calls on, so many points more failures in a hundred than the stable app has are clearly more.
const CLEARLY_MORE: [(u32, f64); 3] = [(5, 50.0), (20, 20.0), (ROUND, 10.0)];

/// Which version a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The app as it is.
    Stable,
    /// The version on trial.
    Canary,
}

/// Which version a call goes to: by a number that is the same for calls with the same key, so that one user sees one version.
pub const fn side(percent: u32, number: u64) -> Side {
    if number % 100 < percent as u64 { Side::Canary } else { Side::Stable }
}

/// How a canary does beside the stable app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    stable: Counts,
    canary: Counts,
    is_over: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    calls: u32,
    failures: u32,
}

impl Counts {
    fn percentage(self) -> f64 {
        if self.calls == 0 { 0.0 } else { f64::from(self.failures) * 100.0 / f64::from(self.calls) }
    }
}

/// Why a canary was withdrawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Withdrawal {
    /// Its calls of this round, and how many of them failed.
    pub canary: (u32, u32),
    /// The same of the stable app, meanwhile.
    pub stable: (u32, u32),
}

impl Trial {
    /// Whether calls still go to the canary.
    pub const fn is_running(&self) -> bool {
        !self.is_over
    }

    /// Counts a call. Says why, if the canary is to be withdrawn now.
    pub fn count(&mut self, side: Side, is_failure: bool) -> Option<Withdrawal> {
        let counts = match side {
            Side::Stable => &mut self.stable,
            Side::Canary => &mut self.canary,
        };
        counts.calls = counts.calls.saturating_add(1);
        counts.failures = counts.failures.saturating_add(u32::from(is_failure));
        if self.is_over || side == Side::Stable {
            return None;
        }
        let more = self.canary.percentage() - self.stable.percentage();
        let withdrawal =
            Withdrawal { canary: (self.canary.calls, self.canary.failures), stable: (self.stable.calls, self.stable.failures) };
        self.is_over = CLEARLY_MORE.iter().any(|(calls, points)| self.canary.calls >= *calls && more >= *points);
        if self.canary.calls >= ROUND && !self.is_over {
            (self.stable, self.canary) = (Counts::default(), Counts::default());
        }
        self.is_over.then_some(withdrawal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many of its calls a canary is withdrawn, if every so manieth call of each side fails (0: none), with nine stable calls to each of it.
    fn withdrawn_after(canary_fails_each: u32, stable_fails_each: u32, calls: u32) -> Option<u32> {
        let mut trial = Trial::default();
        let fails = |number: u32, each: u32| each > 0 && number.is_multiple_of(each);
        (1..=calls).find(|number| {
            for stable in 0..9 {
                trial.count(Side::Stable, fails(number * 9 + stable, stable_fails_each));
            }
            trial.count(Side::Canary, fails(*number, canary_fails_each)).is_some()
        })
    }

    #[test]
    fn a_bad_canary_is_withdrawn_within_fifty_calls_and_a_good_one_is_not() {
        #[rustfmt::skip]
        let table = [
            // canary fails each, stable fails each, withdrawn after
            (1, 0, Some(5)),
            (2, 0, Some(6)),
            (3, 0, Some(20)),
            (5, 0, Some(20)),
            (8, 0, Some(50)),
            (0, 0, None),
            (100, 0, None),
            (20, 20, None),
            (1, 1, None),
            (0, 1, None),
        ];
        for (canary, stable, expected) in table {
            assert_eq!(withdrawn_after(canary, stable, 1_000), expected, "{canary} {stable}");
        }
    }

    #[test]
    fn a_canary_that_becomes_bad_later_is_withdrawn_all_the_same() {
        let mut trial = Trial::default();
        for _ in 0..10_000 {
            trial.count(Side::Stable, false);
            assert_eq!(trial.count(Side::Canary, false), None);
        }
        let failed = (1..=50).find(|_| trial.count(Side::Canary, true).is_some());
        assert!(failed.is_some_and(|calls| calls <= 50), "{failed:?}");
        assert!(!trial.is_running());
        assert_eq!(trial.count(Side::Canary, true), None, "it is withdrawn once");
    }

    #[test]
    fn the_share_of_calls_is_the_percentage_and_one_key_has_one_side() {
        for percent in [1, 10, 50] {
            let canary = (0..10_000_u64).filter(|number| side(percent, *number) == Side::Canary).count();
            assert_eq!(canary, percent as usize * 100);
        }
    }
}
