//! What an answer that was kept is still good for, by its age. Pure.

use std::time::Duration;

use crate::model::CacheAges;

/// What may be done with an answer that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is the answer; the app is not asked.
    Fresh,
    /// It is the answer, and the app is asked for the next one.
    WhileRevalidating,
    /// It is the answer if the app fails.
    IfError,
    /// None.
    Expired,
}

/// What an answer of this age is good for.
pub fn use_of(ages: &CacheAges, age: Duration) -> Use {
    let stale_for = age.saturating_sub(ages.fresh);
    if age < ages.fresh {
        Use::Fresh
    } else if stale_for < ages.stale_while_revalidate {
        Use::WhileRevalidating
    } else if stale_for < ages.stale_if_error {
        Use::IfError
    } else {
        Use::Expired
    }
}

/// Whether an answer of this age may be used once the app has failed.
pub fn serves_errors(ages: &CacheAges, age: Duration) -> bool {
    // What may be answered without asking may be answered after asking in vain.
    use_of(ages, age) != Use::Expired
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ages_from_fresh_to_expired() {
        let secs = Duration::from_secs;
        let ages = CacheAges { fresh: secs(10), stale_while_revalidate: secs(20), stale_if_error: secs(60) };
        let table = [
            (0, Use::Fresh),
            (9, Use::Fresh),
            (10, Use::WhileRevalidating),
            (29, Use::WhileRevalidating),
            (30, Use::IfError),
            (69, Use::IfError),
            (70, Use::Expired),
        ];
        for (age, expected) in table {
            assert_eq!(use_of(&ages, secs(age)), expected, "after {age} s");
        }
        assert_eq!(ages.kept_for(), secs(70));
        let none = CacheAges::default();
        assert_eq!((use_of(&none, secs(0)), none.is_used()), (Use::Expired, false));
        let only_errors = CacheAges { stale_if_error: secs(300), ..none };
        assert_eq!(
            (use_of(&only_errors, secs(0)), serves_errors(&only_errors, secs(299)), serves_errors(&only_errors, secs(300))),
            (Use::IfError, true, false)
        );
    }
}
