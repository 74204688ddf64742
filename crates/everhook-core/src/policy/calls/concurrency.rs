//! How many requests an app is sent at once: as many as it answers without queueing them. Pure.
//!
//! A queue in front of the app shows in how long answers take. With `limit` requests under way of whose time a share is waiting ([`Pace`]), about
//! `limit × share` of them wait (the rule of TCP Vegas). The limit grows while few wait and shrinks while many do. Decision 0059 says why it is this rule.
//!
//! [`Pace`]: super::pace::Pace

use super::pace::Reading;

/// What a new limit begins with: enough for most apps, few enough for a small one.
const LIMIT_AT_FIRST: u32 = 20;
/// While fewer wait, the limit grows.
const WAITING_FEW: f64 = 1.0;
/// While more wait, it shrinks.
const WAITING_MANY: f64 = 3.0;
/// The same for large limits, as shares of them: times are never measured so well that one of a hundred could be seen to wait.
const SHARE_FEW: f64 = 0.025;
const SHARE_MANY: f64 = 0.08;
/// By how much the limit grows at most while as many answers come as it allows. More would overshoot before the queue shows.
const GROWTH_A_ROUND: f64 = 1.0;
/// What a failure by time leaves of the limit.
const AFTER_TIMEOUT: f64 = 0.9;
/// What is left of the limit when the best time is to be found out again: the app's queue runs empty, and the limit grows back while it does not show. Else
/// an app that is always busy would be believed to be as slow as its queue makes it, and would be sent more each minute.
const AFTER_A_MINUTE: f64 = 0.8;

/// An adaptive limit of requests under way.
#[derive(Clone, Copy, Debug)]
pub struct ConcurrencyLimit {
    limit: f64,
    max: u32,
    in_flight: u32,
}

impl ConcurrencyLimit {
    /// A limit that never exceeds `max`.
    pub fn new(max: u32) -> Self {
        let max = max.max(1);
        Self { limit: f64::from(LIMIT_AT_FIRST.min(max)), max, in_flight: 0 }
    }

    /// Goes by another maximum.
    pub fn change_max(&mut self, max: u32) {
        self.max = max.max(1);
        self.limit = self.limit.min(f64::from(self.max));
    }

    /// How many may be under way now.
    pub fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// How many are under way.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether a request may begin: fewer are under way than may be, and than `other` allows.
    pub fn may_begin(&self, other: Option<u32>) -> bool {
        self.in_flight < other.map_or(self.limit(), |other| other.min(self.limit())).max(1)
    }

    /// A request begins.
    pub fn begin(&mut self) {
        self.in_flight += 1;
    }

    /// A request ended and says nothing about how quick the app is: it was cancelled, refused, or never made.
    pub fn ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A request was not answered in time. It may be under way still.
    pub fn timed_out(&mut self) {
        self.limit = (self.limit * AFTER_TIMEOUT).max(1.0);
    }

    /// A request was answered.
    pub fn answered(&mut self, reading: Reading) {
        let was_used = f64::from(self.in_flight) * 2.0 >= self.limit;
        self.ended();
        if reading.is_outdated && was_used {
            self.limit *= AFTER_A_MINUTE;
        }
        let waiting = self.limit * reading.waiting;
        let (few, many) = (WAITING_FEW.max(self.limit * SHARE_FEW), WAITING_MANY.max(self.limit * SHARE_MANY));
        if waiting > many {
            self.limit -= (waiting - many).max(1.0) / self.limit;
        } else if waiting < few && was_used {
            // A limit that is not used says nothing about what would be too many.
            self.limit += GROWTH_A_ROUND * (1.0 - waiting / few) / self.limit;
        }
        self.limit = self.limit.clamp(1.0, f64::from(self.max));
    }
}

#[cfg(test)]
mod tests;
