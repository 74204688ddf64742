//! How organizations share the limit of a provider: all of them ask with the operator's one registration, so that one that has much to ask, or asks in vain,
//! would have the others wait for days. Pure. Counted in memory, on each node for itself: the limit itself is in the store.
//!
//! While others had to wait, in this window or the one before, an organization has its equal share of the window's first minutes. What is left after them is
//! whoever's asks.

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::{
    health::limits::{self, QUARTER},
    ids::OrganizationId,
    model::health::{Provider, ProviderRate},
    time::Timestamp,
};

/// How long into a window shares hold: those who waited for it come in its first half minute.
const SHARED_FOR: Duration = Duration::from_secs(5 * 60);

/// What organizations took of the current window, and who waits.
#[derive(Default)]
pub(super) struct ProviderShares {
    /// When the window ends.
    until: Option<Timestamp>,
    uses: FxHashMap<(Provider, OrganizationId), Use>,
}

#[derive(Clone, Copy, Default)]
struct Use {
    taken: u32,
    waiting: u32,
    has_waited_before: bool,
}

impl Use {
    const fn has_waited(self) -> bool {
        self.waiting > 0 || self.has_waited_before
    }
}

impl ProviderShares {
    /// Whether an organization may take a place, as far as the others are concerned; if not, when it may.
    pub(super) fn may_take(&mut self, of: (Provider, OrganizationId), rate: &ProviderRate, now: Timestamp) -> Result<(), Timestamp> {
        let until = self.turn(now);
        let shared_until = until - (QUARTER - SHARED_FOR);
        let taken = self.uses.get(&of).map_or(0, |used| used.taken);
        let share = self.share(of, rate);
        // Alone it is held back by the limit itself, which says until when.
        if now >= shared_until || taken < share || share >= rate.quarter.limit { Ok(()) } else { Err(shared_until) }
    }

    /// It took a place.
    pub(super) fn took(&mut self, of: (Provider, OrganizationId), now: Timestamp) {
        self.turn(now);
        self.uses.entry(of).or_default().taken += 1;
    }

    /// Counts one more that waits for room, and says when it has a chance: behind the others of its organization.
    pub(super) fn line_up(&mut self, of: (Provider, OrganizationId), from: Timestamp, rate: &ProviderRate, now: Timestamp) -> Timestamp {
        self.turn(now);
        let share = self.share(of, rate);
        let used = self.uses.entry(of).or_default();
        let ahead = used.waiting;
        used.waiting = used.waiting.saturating_add(1);
        limits::place_in_line(from, ahead, share)
    }

    /// What an organization has of a window: as much as each other one that has waited.
    fn share(&self, of: (Provider, OrganizationId), rate: &ProviderRate) -> u32 {
        let is_other = |(who, used): &(&(Provider, OrganizationId), &Use)| **who != of && who.0 == of.0 && used.has_waited();
        let others = u32::try_from(self.uses.iter().filter(is_other).count()).unwrap_or(u32::MAX);
        (rate.quarter.limit / others.saturating_add(1)).max(1)
    }

    /// Begins the window of this instant, if it is another one by now. Says when it ends.
    fn turn(&mut self, now: Timestamp) -> Timestamp {
        let until = now.next_multiple_of(QUARTER);
        if self.until != Some(until) {
            let is_next = self.until.is_some_and(|before| before + QUARTER >= until);
            self.uses.retain(|_, used| {
                *used = Use { taken: 0, waiting: 0, has_waited_before: used.waiting > 0 && is_next };
                used.has_waited_before
            });
            self.until = Some(until);
        }
        until
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const START: Timestamp = Timestamp::from_secs(900 * 1_000);

    fn organization(n: u128) -> (Provider, OrganizationId) {
        (Provider::Strava, OrganizationId::from_uuid(Uuid::from_u128(n)))
    }

    /// How many of so many places an organization gets.
    fn take(shares: &mut ProviderShares, of: (Provider, OrganizationId), count: u32, now: Timestamp) -> u32 {
        let rate = limits::unseen(Provider::Strava, now);
        let mut took = 0;
        for _ in 0..count {
            if shares.may_take(of, &rate, now).is_ok() {
                shares.took(of, now);
                took += 1;
            }
        }
        took
    }

    #[test]
    fn whoever_is_alone_has_all_and_whoever_waited_has_a_share_of_the_next_window() {
        let (mut shares, greedy, small) = (ProviderShares::default(), organization(1), organization(2));
        assert_eq!(take(&mut shares, greedy, 100, START), 100);
        let rate = limits::unseen(Provider::Strava, START);
        assert_eq!(shares.may_take(greedy, &rate, START), Ok(()), "the limit says when there is more, and not the share");
        // The limit is used up, and the other one waits for the next window, behind nobody of its own.
        let next = START + QUARTER;
        for _ in 0..10_000 {
            shares.line_up(greedy, next, &rate, START);
        }
        assert_eq!(shares.line_up(small, next, &rate, START), next);
        assert!(shares.line_up(greedy, next, &rate, START) > next + QUARTER * 50);
        assert_eq!(take(&mut shares, greedy, 100, next), 50);
        assert_eq!(shares.may_take(greedy, &rate, next), Err(next + SHARED_FOR));
        assert_eq!(take(&mut shares, small, 100, next), 50);
        // What is left after some minutes is whoever's asks; and who has not waited for a window has no share of the one after it.
        assert_eq!(take(&mut shares, greedy, 7, next + SHARED_FOR), 7);
        assert_eq!(take(&mut shares, greedy, 100, next + QUARTER * 2), 100);
    }

    #[test]
    fn providers_are_apart() {
        let (mut shares, greedy) = (ProviderShares::default(), organization(1));
        let rate = limits::unseen(Provider::Garmin, START);
        shares.line_up((Provider::Garmin, organization(2).1), START + QUARTER, &rate, START);
        assert_eq!(take(&mut shares, greedy, 100, START), 100);
    }
}
