//! When the breaker of a capability opens on all nodes because it has opened on some of them. Pure.
//!
//! What a node cannot reach may be there for the others: failures of the network never count, and calls that one node alone had no answer to in time do not
//! either, because packets that are dropped on the way look the same.

use crate::{model::VoteCount, policy::calls::answer::FailureKind};

/// How many of the last failures decide what opened a breaker: as many as open it by default.
const FAILURES_LOOKED_AT: usize = 5;

/// What opened a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripClass {
    /// The app answered, and the answers were no good: other nodes would get the same.
    Answers,
    /// It did not answer in time.
    NoAnswers,
    /// It could not be reached from here.
    Network,
}

/// The last failures of a capability on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastFailures {
    last: [Option<TripClass>; FAILURES_LOOKED_AT],
    next: usize,
}

impl LastFailures {
    /// Notes a failure that counts for the breaker.
    pub fn note(&mut self, kind: FailureKind) {
        let class = match kind {
            FailureKind::Network => TripClass::Network,
            FailureKind::Timeout => TripClass::NoAnswers,
            _ => TripClass::Answers,
        };
        self.last[self.next % FAILURES_LOOKED_AT] = Some(class);
        self.next = (self.next + 1) % FAILURES_LOOKED_AT;
    }

    /// What most of them were; `None` if there were none. Where that is even, what says less about the app.
    pub fn class(&self) -> Option<TripClass> {
        self.last.iter().any(Option::is_some).then(|| self.most())
    }

    fn most(&self) -> TripClass {
        let count = |class| self.last.iter().filter(|one| **one == Some(class)).count();
        let classes = [TripClass::Network, TripClass::NoAnswers, TripClass::Answers];
        let most = classes.map(count).into_iter().max().unwrap_or_default();
        classes.into_iter().find(|class| count(*class) == most).unwrap_or(TripClass::Network)
    }
}

/// Whether the breaker is to open on all nodes: it has on at least half of those with calls, and not on one alone that may just not reach the app.
pub fn opens_for_all(count: &VoteCount) -> bool {
    let opened = count.with_answers + count.without_answers;
    let is_half = opened > 0 && opened * 2 >= count.callers;
    is_half && (count.with_answers > 0 || count.without_answers > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_for_all_when_half_of_the_callers_agree_and_no_one_is_alone_with_his_network() {
        #[rustfmt::skip]
        let table = [
            // callers, with answers, without: opens for all
            (0, 0, 0, false),
            (1, 0, 0, false),
            (1, 1, 0, true),
            (1, 0, 1, false),
            (2, 1, 0, true),
            (2, 0, 1, false),
            (2, 0, 2, true),
            (2, 1, 1, true),
            (3, 1, 0, false),
            (3, 1, 1, true),
            (3, 0, 2, true),
            (5, 2, 0, false),
            (5, 0, 2, false),
            (5, 2, 1, true),
            (6, 3, 0, true),
        ];
        for (callers, with_answers, without_answers, expected) in table {
            let count = VoteCount { callers, with_answers, without_answers };
            assert_eq!(opens_for_all(&count), expected, "{count:?}");
        }
    }

    #[test]
    fn what_opened_a_breaker_is_what_most_of_the_last_failures_were() {
        use FailureKind::{BadAnswer, Network, Status, Timeout};
        let table = [
            (vec![Status], TripClass::Answers),
            (vec![Status, Network, Network, Network, Network], TripClass::Network),
            (vec![Network, Network, Network, Status, BadAnswer, Status, Timeout, BadAnswer], TripClass::Answers),
            (vec![Timeout, Timeout, Timeout, Status, Status], TripClass::NoAnswers),
            (vec![Status, Network], TripClass::Network),
        ];
        assert_eq!(LastFailures::default().class(), None);
        for (failures, expected) in table {
            let mut last = LastFailures::default();
            failures.iter().for_each(|kind| last.note(*kind));
            assert_eq!(last.class(), Some(expected), "{failures:?}");
        }
    }
}
