//! When a provider may be asked: its limits, learnt from its answers.
//!
//! Strava says with every answer how many requests a quarter of an hour and a day may have, and how many they have had; until it has said so, its published
//! limits hold. Refused requests count, too, so that none is made that would be refused. Whoever asks takes a place with [`admit`] first, in a state that all
//! nodes share, and puts in with [`learn`] what the answer said.

use std::time::Duration;

use crate::{
    model::health::{Provider, ProviderRate, RateWindow},
    time::Timestamp,
};

/// How long the shorter window is.
pub const QUARTER: Duration = Duration::from_secs(15 * 60);
/// How long the longer window is.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// What is believed of a provider's word about its limits: more is as good as none, and none at all would never be asked about again.
const LIMIT_MAX: u32 = 1_000_000;
/// Those who wait for a window do not all begin in its first second.
const SPREAD: Duration = Duration::from_secs(30);

/// How many windows ahead somebody waits at the most: a day. Whoever finds no room then waits again.
const WINDOWS_AHEAD_MAX: u32 = 96;

/// What Strava publishes for reading; both providers' limit for a quarter of an hour.
const PER_QUARTER: u32 = 100;
const STRAVA_PER_DAY: u32 = 1_000;

/// Whether a request may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes: this is the state with the request in it. Keep it before the request is made.
    Granted(ProviderRate),
    /// Not before this instant.
    NotBefore(Timestamp),
}

/// What an answer says about limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateNotice {
    /// For a quarter of an hour and for a day: how many requests there may be, and how many there were.
    pub said: Option<SaidRate>,
    /// Whether it was refused for too many requests.
    pub is_refused: bool,
    /// When it asked to be tried again.
    pub retry_at: Option<Timestamp>,
}

/// Limits and use of both windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaidRate {
    /// Of a quarter of an hour.
    pub quarter: SaidWindow,
    /// Of a day.
    pub day: SaidWindow,
}

/// Limit and use of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaidWindow {
    /// How many requests there may be.
    pub limit: u32,
    /// How many there were.
    pub used: u32,
}

/// When somebody who finds `ahead` others waiting for room has a chance: each window takes as many as its limit says, so that those who wait do not all come
/// back at once and in vain. `share` is how many of them each window takes.
pub fn place_in_line(until: Timestamp, ahead: u32, share: u32) -> Timestamp {
    until + QUARTER * (ahead / share.max(1)).min(WINDOWS_AHEAD_MAX)
}

/// What is believed before a provider has said anything.
pub fn unseen(provider: Provider, now: Timestamp) -> ProviderRate {
    let per_day = match provider {
        Provider::Strava => STRAVA_PER_DAY,
        Provider::Garmin => LIMIT_MAX,
    };
    let window = |length, limit| RateWindow { number: number(now, length), used: 0, limit };
    ProviderRate { quarter: window(QUARTER, PER_QUARTER), day: window(DAY, per_day) }
}

/// Whether a request may be made now. `dice` spreads those who have to wait.
pub fn admit(rate: ProviderRate, now: Timestamp, dice: u64) -> Admission {
    let mut rate = current(rate, now);
    for (window, length) in [(rate.day, DAY), (rate.quarter, QUARTER)] {
        if window.used >= window.limit {
            let spread = Duration::from_millis(dice % u64::try_from(SPREAD.as_millis()).unwrap_or(1));
            return Admission::NotBefore(now.next_multiple_of(length) + spread);
        }
    }
    rate.quarter.used += 1;
    rate.day.used = rate.day.used.saturating_add(1);
    Admission::Granted(rate)
}

/// Whether a request may be made now that nobody waits for: the quarter's second half is left to events, and of the day a quarter.
pub fn admit_background(rate: ProviderRate, now: Timestamp, dice: u64) -> Admission {
    let known = current(rate, now);
    let keep_back = |window: RateWindow, kept: u32| RateWindow { limit: window.limit - kept.min(window.limit), ..window };
    let narrowed =
        ProviderRate { quarter: keep_back(known.quarter, known.quarter.limit / 2), day: keep_back(known.day, known.day.limit / 4) };
    match admit(narrowed, now, dice) {
        Admission::Granted(_) => admit(known, now, dice),
        refused @ Admission::NotBefore(_) => refused,
    }
}

/// What is known after an answer that came at `now`.
///
/// The provider counts those who ask beside us as well, and we count those whose answers are still to come: the larger number is the safer one. A refusal
/// that does not say why uses up the quarter; one that asks for more time than is left of it, the day.
pub fn learn(rate: ProviderRate, notice: RateNotice, now: Timestamp) -> ProviderRate {
    let mut rate = current(rate, now);
    if let Some(said) = notice.said {
        rate.quarter = rate.quarter.told(said.quarter);
        rate.day = rate.day.told(said.day);
    }
    if notice.is_refused {
        rate.quarter.used = rate.quarter.used.max(rate.quarter.limit);
        if notice.retry_at.is_some_and(|at| at > now.next_multiple_of(QUARTER) + QUARTER) {
            rate.day.used = rate.day.used.max(rate.day.limit);
        }
    }
    rate
}

/// Reads Strava's headers, `"100,1000"` each. Of the limits for reading and those for everything, the ones with less left count.
pub fn strava_notice<'h>(header: impl Fn(&str) -> Option<&'h [u8]>) -> Option<SaidRate> {
    let said = |limit: &str, used: &str| {
        let (limits, uses) = (pair(header(limit)?)?, pair(header(used)?)?);
        let window = |limit: u32, used| SaidWindow { limit: limit.clamp(1, LIMIT_MAX), used };
        Some(SaidRate { quarter: window(limits.0, uses.0), day: window(limits.1, uses.1) })
    };
    let read = said("x-readratelimit-limit", "x-readratelimit-usage");
    let overall = said("x-ratelimit-limit", "x-ratelimit-usage");
    match (read, overall) {
        (Some(read), Some(overall)) => {
            Some(SaidRate { quarter: read.quarter.tighter(overall.quarter), day: read.day.tighter(overall.day) })
        }
        (read, overall) => read.or(overall),
    }
}

fn pair(value: &[u8]) -> Option<(u32, u32)> {
    let (quarter, day) = std::str::from_utf8(value).ok()?.split_once(',')?;
    Some((quarter.trim().parse().ok()?, day.trim().parse().ok()?))
}

impl SaidWindow {
    fn left(self) -> u32 {
        self.limit.saturating_sub(self.used)
    }

    fn tighter(self, other: Self) -> Self {
        if other.left() < self.left() { other } else { self }
    }
}

impl RateWindow {
    fn told(self, said: SaidWindow) -> Self {
        Self { limit: said.limit, used: self.used.max(said.used), ..self }
    }

    fn at(self, now: Timestamp, length: Duration) -> Self {
        let number = number(now, length);
        // A clock that was set back finds a window that has not come: what was counted for it holds until it is over.
        if self.number >= number { self } else { Self { number, used: 0, ..self } }
    }
}

/// The state as of now: what was counted in windows that are over does not matter.
fn current(rate: ProviderRate, now: Timestamp) -> ProviderRate {
    ProviderRate { quarter: rate.quarter.at(now, QUARTER), day: rate.day.at(now, DAY) }
}

fn number(now: Timestamp, length: Duration) -> i64 {
    now.as_secs().div_euclid(i64::try_from(length.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
