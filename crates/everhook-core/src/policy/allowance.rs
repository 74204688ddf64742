//! What a node has in hand of an organization's shared budgets: tokens and slots that it was granted, when it asks for more, and what it gives back. Pure.
//!
//! `limits::budgets` keeps one for each organization that has a limit and uses it, where nodes share a store. Nothing here ever lets more start than was
//! granted.

use std::{collections::VecDeque, num::NonZeroU32, time::Duration};

use crate::{
    model::{Credit, RateLimit, SlotRequest, TokenGrant, TokenRequest},
    time::Timestamp,
};

/// How much of a rate a node likes to have in hand, and how far ahead of their time it asks for tokens: a little more than two rounds of asking.
pub const AHEAD: Duration = Duration::from_millis(250);

/// How often a node asks while it wants something. Half of it to one and a half, by chance, so that no node is always the first at a token.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The most tokens of one ask, whatever the limit is.
const TAKE_MAX: u32 = 10_000;

/// How long a token is kept unused.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// For how long after a use a node keeps tokens in hand for the next.
const ACTIVE_FOR: Duration = Duration::from_millis(300);

/// How often slots are asked for again that are in use or in hand: they come free by themselves after five seconds.
const SLOTS_RENEWED_EVERY: Duration = Duration::from_millis(500);

/// What a node has in hand of a rate.
#[derive(Clone, Debug)]
pub struct Allowance {
    limit: RateLimit,
    ahead: Duration,
    hand: VecDeque<Grant>,
    /// Tokens that were used without having them: the next that are granted pay for them.
    owed: u32,
    /// Whether somebody wanted a token that was not there, since it was last asked for.
    is_short: bool,
    used_at: Option<Timestamp>,
    ask_at: Timestamp,
    /// Until when there is nothing to be had, as far as is known.
    dry_until: Timestamp,
}

/// Tokens that came together.
#[derive(Clone, Copy, Debug)]
struct Grant {
    at: Timestamp,
    /// When the next of them is good; the others follow, each after the time that one takes.
    good_at: Timestamp,
    left: u32,
}

impl Allowance {
    /// Nothing in hand. With `ahead`, tokens are asked for so long before they are needed; without, only when one is missing.
    pub fn new(limit: RateLimit, ahead: Duration, now: Timestamp) -> Self {
        Self { limit, ahead, hand: VecDeque::new(), owed: 0, is_short: false, used_at: None, ask_at: now, dry_until: now }
    }

    /// Goes by another limit from the next ask on.
    pub fn change(&mut self, limit: RateLimit) {
        self.limit = limit;
    }

    /// Takes a token that is good now.
    ///
    /// # Errors
    /// Why there is none.
    pub fn take(&mut self, now: Timestamp) -> Result<(), Missing> {
        self.look(now)?;
        if let Some(grant) = self.hand.front_mut() {
            grant.left -= 1;
            grant.good_at = grant.good_at + interval(self.limit);
        }
        self.hand.pop_front_if(|grant| grant.left == 0);
        self.used_at = Some(now);
        Ok(())
    }

    /// Takes a token that was there a moment ago. If it has been given back meanwhile, it is owed.
    pub fn take_or_owe(&mut self, now: Timestamp) {
        if self.take(now).is_err() {
            self.owed += 1;
        }
    }

    /// Puts a token back that was taken or is owed: the request was not made.
    pub fn put_back(&mut self, now: Timestamp) {
        let interval = interval(self.limit);
        match self.hand.front_mut() {
            _ if self.owed > 0 => self.owed -= 1,
            Some(grant) => (grant.left, grant.good_at) = (grant.left + 1, grant.good_at - interval),
            None => self.hand.push_back(Grant { at: now, good_at: now, left: 1 }),
        }
    }

    /// Whether [`Allowance::take`] succeeds now. If not, somebody misses a token.
    ///
    /// # Errors
    /// Why there is none.
    pub fn look(&mut self, now: Timestamp) -> Result<(), Missing> {
        let Some(good_at) = self.flows_from() else {
            let is_dry = now < self.dry_until;
            // An empty budget is asked again only for those who wait until it is not.
            self.is_short |= !is_dry || !self.ahead.is_zero();
            return Err(if is_dry { Missing::Dry(self.dry_until) } else { Missing::Asked });
        };
        if good_at <= now { Ok(()) } else { Err(Missing::Later(good_at)) }
    }

    /// When the next token in hand is good.
    pub fn flows_from(&self) -> Option<Timestamp> {
        self.hand.front().map(|grant| grant.good_at)
    }

    /// When it should be asked for: `None` if nothing is wanted and nothing is to be given back.
    pub fn ask_at(&self, now: Timestamp) -> Option<Timestamp> {
        if self.wanted(now) > 0 {
            return Some(self.ask_at);
        }
        self.hand.front().map(|grant| grant.at + KEPT_FOR)
    }

    /// What to ask for now. What is given back is no longer in hand.
    pub fn ask(&mut self, now: Timestamp) -> Option<TokenRequest> {
        let mut give_back: u32 = 0;
        while let Some(grant) = self.hand.front().filter(|grant| grant.at + KEPT_FOR <= now) {
            give_back = give_back.saturating_add(grant.left);
            self.hand.pop_front();
        }
        let take = if self.ask_at <= now { self.wanted(now) } else { 0 };
        (take > 0 || give_back > 0).then_some(TokenRequest { limit: self.limit, take, give_back, credit: Credit::Ahead(self.ahead) })
    }

    /// What came of an ask. `chance`, from 0 to 1, spreads the nodes.
    pub fn granted(&mut self, asked: &TokenRequest, drawn: TokenGrant, now: Timestamp, chance: f64) {
        if asked.take == 0 {
            return;
        }
        self.is_short = false;
        let paid = self.owed.min(drawn.granted);
        self.owed -= paid;
        let left = drawn.granted - paid;
        if left > 0 {
            // The first that come are what pays.
            let spread = interval(self.limit).saturating_mul(left - 1);
            self.hand.push_back(Grant { at: now, good_at: now + drawn.good_in - spread, left });
        }
        self.dry_until = if drawn.granted < asked.take { now + drawn.next_in } else { now };
        // Whoever misses a token that is not asked for ahead waits for the answer: only an empty budget is not asked at once.
        let pause = if self.ahead.is_zero() { Duration::ZERO } else { pause(chance) };
        self.ask_at = self.dry_until + pause;
    }

    /// Gives back everything.
    pub fn give_up(&mut self) -> Option<TokenRequest> {
        let give_back = self.hand.drain(..).fold(0u32, |sum, grant| sum.saturating_add(grant.left));
        (give_back > 0).then_some(TokenRequest { limit: self.limit, take: 0, give_back, credit: Credit::Ahead(Duration::ZERO) })
    }

    /// Whether a new one would do the same.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        self.hand.is_empty() && self.wanted(now) == 0 && self.dry_until <= now
    }

    fn wanted(&self, now: Timestamp) -> u32 {
        let is_active = !self.ahead.is_zero() && self.used_at.is_some_and(|at| now.since(at) < ACTIVE_FOR);
        let wanted = if self.is_short || is_active { comfortable(self.limit).saturating_sub(self.in_hand()) } else { 0 };
        wanted.saturating_add(self.owed)
    }

    fn in_hand(&self) -> u32 {
        self.hand.iter().fold(0, |sum, grant| sum.saturating_add(grant.left))
    }
}

/// Why there is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// One is in hand, and good then.
    Later(Timestamp),
    /// The budget was empty when it was last asked, and has one again then.
    Dry(Timestamp),
    /// The budget must be asked.
    Asked,
}

/// How long until it is asked again.
fn pause(chance: f64) -> Duration {
    ASK_EVERY.mul_f64(0.5 + chance.clamp(0.0, 1.0))
}

/// The time that one token takes.
fn interval(limit: RateLimit) -> Duration {
    Duration::from_micros(limit.per.as_micros() / u64::from(limit.requests.get()))
}

/// As many tokens as [`AHEAD`] takes, at least one.
fn comfortable(limit: RateLimit) -> u32 {
    let micros = u64::try_from(AHEAD.as_micros()).unwrap_or(u64::MAX);
    let tokens = micros.saturating_mul(u64::from(limit.requests.get())).div_ceil(limit.per.as_micros());
    u32::try_from(tokens).unwrap_or(TAKE_MAX).clamp(1, TAKE_MAX)
}

/// What a node has in hand of an organization's slots.
#[derive(Clone, Copy, Debug)]
pub struct SlotAllowance {
    limit: NonZeroU32,
    allowed: u32,
    in_flight: u32,
    /// The most that were under way since it was last asked for.
    peak: u32,
    is_short: bool,
    ask_at: Timestamp,
    renew_at: Timestamp,
}

impl SlotAllowance {
    /// Nothing in hand.
    pub fn new(limit: NonZeroU32, now: Timestamp) -> Self {
        Self { limit, allowed: 0, in_flight: 0, peak: 0, is_short: false, ask_at: now, renew_at: now }
    }

    /// Goes by another limit from the next ask on.
    pub fn change(&mut self, limit: NonZeroU32) {
        self.limit = limit;
    }

    /// Whether no request may start. If so, somebody misses a slot.
    pub fn lacks_room(&mut self) -> bool {
        let lacks_room = self.in_flight >= self.allowed;
        self.is_short |= lacks_room;
        lacks_room
    }

    /// So many requests are under way now.
    pub fn note(&mut self, in_flight: u32) {
        self.in_flight = in_flight;
        self.peak = self.peak.max(in_flight);
    }

    /// When it should be asked for; `None` if nothing is wanted, in use or in hand.
    pub fn ask_at(&self) -> Option<Timestamp> {
        if self.is_short {
            return Some(self.ask_at);
        }
        (self.in_flight > 0 || self.allowed > 0).then_some(self.renew_at)
    }

    /// What to ask for. Who was short would take all; else one more than there were.
    pub fn ask(&mut self) -> SlotRequest {
        let wanted = match self.peak {
            _ if self.is_short => self.limit.get(),
            0 => 0,
            peak => peak.saturating_add(1).min(self.limit.get()),
        };
        (self.is_short, self.peak) = (false, self.in_flight);
        SlotRequest { limit: self.limit, bound: self.in_flight.max(self.allowed), wanted }
    }

    /// What came of an ask. `chance`, from 0 to 1, spreads the nodes.
    pub fn granted(&mut self, allowed: u32, now: Timestamp, chance: f64) {
        self.allowed = allowed;
        self.ask_at = now + pause(chance);
        // What is no longer allowed comes free for others once the store hears that it is not used.
        self.renew_at = if self.in_flight > allowed { self.ask_at } else { now + SLOTS_RENEWED_EVERY };
    }

    /// Whether a new one would do the same.
    pub fn is_idle(&self) -> bool {
        !self.is_short && self.in_flight == 0 && self.allowed == 0
    }
}

#[cfg(test)]
mod tests;
