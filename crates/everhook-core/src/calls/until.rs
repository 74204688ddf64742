//! Until when a flight goes on: as long as the last of its callers waits. A caller who joins one that is about to end must not be answered by another one's
//! deadline, so that it is decided in one place whether it has ended or goes on.

use tokio::sync::watch;

use crate::{ports::Clock, time::Timestamp};

/// The end of a flight's time; `None` once it is over.
pub(super) struct Until(watch::Sender<Option<Timestamp>>);

impl Until {
    pub(super) fn new(until: Timestamp) -> Self {
        Self(watch::channel(Some(until)).0)
    }

    /// When its time is over, as far as is known now. Past, if it is.
    pub(super) fn get(&self) -> Timestamp {
        self.0.borrow().unwrap_or(Timestamp::EPOCH)
    }

    /// Somebody waits until then. Says whether the flight still goes on: else they need another one.
    pub(super) fn extend(&self, until: Timestamp) -> bool {
        let mut runs_on = false;
        self.0.send_if_modified(|kept| match kept {
            None => false,
            Some(at) => {
                runs_on = true;
                let is_later = until > *at;
                *at = until.max(*at);
                is_later
            }
        });
        runs_on
    }

    /// Waits for the end, which may be moved meanwhile. From then on nobody can join.
    pub(super) async fn over(&self, clock: &dyn Clock) {
        let mut changes = self.0.subscribe();
        loop {
            let Some(at) = *changes.borrow_and_update() else { return };
            tokio::select! {
                biased;
                // This has the sender, so the channel cannot close here.
                _ = changes.changed() => {}
                () = clock.sleep_until(at) => if self.end(clock.now()) { return },
            }
        }
    }

    /// Ends it, unless somebody waits for longer.
    fn end(&self, now: Timestamp) -> bool {
        let mut is_over = false;
        self.0.send_if_modified(|kept| {
            is_over = kept.is_none_or(|at| at <= now);
            if is_over {
                *kept = None;
            }
            false
        });
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_longer_moves_the_end_and_nobody_joins_afterwards() {
        let at = Timestamp::from_secs;
        let until = Until::new(at(10));
        assert!(until.extend(at(5)), "who waits for less joins");
        assert_eq!(until.get(), at(10));
        assert!(!until.end(at(9)));
        assert!(until.extend(at(20)));
        assert!(!until.end(at(10)), "somebody waits for longer by now");
        assert!(until.end(at(20)));
        assert!(!until.extend(at(30)), "it is over: another flight is needed");
        assert!(until.get() < at(1) && until.end(at(21)));
    }
}
