//! What can be said about a retry schedule, and the rules for each of its fields. Pure.

use std::time::Duration;

use super::super::{Change, Fault, Refusal, check_name, check_timeout, refuse_faults};
use crate::{
    ids::ScheduleId,
    model::{Backoff, Jitter, RetrySchedule, ScheduleName, Strategy},
    policy::{
        presets,
        retry::{DELAY_MAX, DELAY_MIN},
    },
};

/// How many delays a list may have: there are no more than 100 attempts to be apart.
const INTERVALS_MAX: usize = 100;
/// How many attempts a schedule may name, and how many it has if it says nothing.
const ATTEMPTS_MAX: u64 = 100;
const ATTEMPTS_DEFAULT: u32 = 8;
/// How far delays are moved if nothing is said.
const JITTER_DEFAULT: f64 = 0.1;
/// How many statuses a schedule may give up on: all that HTTP knows are fewer.
const GIVE_UP_ON_MAX: usize = 100;

/// What the schedule that one endpoint has to itself is called in stores.
pub const INLINE_NAME: &str = "inline";

/// What is asked of a schedule, as written.
#[derive(Clone, Debug, Default)]
pub struct ScheduleChange {
    /// Unique in the organization; needed at creation.
    pub name: Change<String>,
    /// `exponential`, `linear` or `custom`.
    pub strategy: Change<String>,
    /// The delays between attempts; needed at creation.
    pub intervals: Change<Intervals>,
    /// How many attempts at most, the first included.
    pub max_attempts: Change<u64>,
    /// How far a delay may be moved, as a share of it.
    pub jitter: Change<f64>,
    /// HTTP statuses that end a delivery at once.
    pub give_up_on: Change<Vec<i64>>,
    /// How long one attempt may take, where the endpoint does not say.
    pub timeout: Change<Duration>,
}

/// Delays between attempts, as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Intervals {
    /// In seconds, used as they are; past the end the last one repeats.
    List(Vec<f64>),
    /// A rule that makes them.
    Rule(Growth),
}

/// `base × multiplierⁿ`, at most `max`; the linear rule has a base alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth {
    /// The first delay.
    pub base: Option<Duration>,
    /// The factor from one delay to the next.
    pub multiplier: Option<f64>,
    /// The longest delay.
    pub max: Option<Duration>,
}

/// Makes the schedule that is asked for, out of the one that is there.
///
/// # Errors
/// [`Refusal::Invalid`] lists every field that is not acceptable.
pub(super) fn apply(asked: ScheduleChange, current: Option<&RetrySchedule>) -> Result<RetrySchedule, Refusal> {
    let mut faults = missing(&asked, current.is_none());
    let mut policy = current.cloned().unwrap_or_else(blank);
    asked.name.check("name", &mut faults, check_schedule_name).apply(&mut policy.name, ScheduleName(String::new()));
    if let Some(strategy) = read_strategy(asked.strategy, asked.intervals, current, &mut faults) {
        policy.strategy = strategy;
    }
    asked.max_attempts.check("max_attempts", &mut faults, check_attempts).apply(&mut policy.max_attempts, ATTEMPTS_DEFAULT);
    asked.jitter.check("jitter", &mut faults, check_jitter).apply(&mut policy.jitter, Jitter::Share(JITTER_DEFAULT));
    asked.give_up_on.check("give_up_on", &mut faults, check_statuses).apply(&mut policy.give_up_on, Vec::new());
    asked.timeout.check("timeout_ms", &mut faults, check_timeout).apply_to_option(&mut policy.timeout);
    refuse_faults(faults)?;
    Ok(policy)
}

/// Makes the schedule that one endpoint has to itself. It has no name, and no other endpoint can use it.
///
/// # Errors
/// [`Refusal::Invalid`] lists every field that is not acceptable.
pub(in super::super) fn inline(asked: ScheduleChange) -> Result<RetrySchedule, Refusal> {
    if asked.name != Change::Keep {
        refuse_faults(vec![Fault::new("name", "belongs to schedules of the organization: this one is the endpoint's own")])?;
    }
    let unnamed = ScheduleName(INLINE_NAME.to_owned());
    let policy = apply(ScheduleChange { name: Change::Set("unnamed".to_owned()), ..asked }, None)?;
    Ok(RetrySchedule { name: unnamed, ..policy })
}

fn blank() -> RetrySchedule {
    RetrySchedule {
        name: ScheduleName(String::new()),
        strategy: Strategy::Custom(Vec::new()),
        max_attempts: ATTEMPTS_DEFAULT,
        jitter: Jitter::Share(JITTER_DEFAULT),
        give_up_on: Vec::new(),
        timeout: None,
    }
}

/// The fields that have no default.
fn missing(asked: &ScheduleChange, is_new: bool) -> Vec<Fault> {
    let fields = [
        ("name", asked.name == Change::Keep, asked.name == Change::Clear),
        ("intervals", asked.intervals == Change::Keep, asked.intervals == Change::Clear),
    ];
    let fault = |(field, absent, null)| match (absent && is_new, null) {
        (true, _) => Some(Fault::new(field, "is required")),
        (_, true) => Some(Fault::new(field, "must not be null")),
        _ => None,
    };
    fields.into_iter().filter_map(fault).collect()
}

/// A name must not be another way to say something else in a path or a field.
fn check_schedule_name(name: String) -> Result<ScheduleName, String> {
    if presets::NAMES.contains(&name.as_str()) || [presets::RETRY_CONFIG_NAME, super::DEFAULT_NAME, INLINE_NAME].contains(&name.as_str()) {
        return Err(format!("`{name}` is a reserved name"));
    }
    if name.parse::<ScheduleId>().is_ok() {
        return Err("must not be a UUID".to_owned());
    }
    check_name(name).map(ScheduleName)
}

/// The strategy and its delays, which must fit each other; `None` if neither is to change, or what is asked is wrong.
fn read_strategy(
    strategy: Change<String>,
    intervals: Change<Intervals>,
    current: Option<&RetrySchedule>,
    faults: &mut Vec<Fault>,
) -> Option<Strategy> {
    if strategy == Change::Keep && intervals == Change::Keep {
        return None;
    }
    let backoff = match (intervals, current) {
        (Change::Set(Intervals::List(seconds)), _) => check_list(&seconds, faults).map(Written::List),
        (Change::Set(Intervals::Rule(rule)), _) => Some(Written::Rule(rule)),
        (_, Some(current)) => Some(written(&current.strategy)),
        (_, None) => None,
    };
    let name = match (strategy, current) {
        (Change::Set(name), _) => name,
        (Change::Keep, Some(current)) => strategy_name(&current.strategy).to_owned(),
        _ => if matches!(backoff, Some(Written::Rule(_))) { "exponential" } else { "custom" }.to_owned(),
    };
    let Some(backoff) = backoff else {
        check_strategy_name(&name, faults);
        return None;
    };
    match (name.as_str(), backoff) {
        ("custom", Written::List(delays)) => Some(Strategy::Custom(delays)),
        ("exponential", Written::List(delays)) => Some(Strategy::Exponential(Backoff::Intervals(delays))),
        ("linear", Written::List(delays)) => Some(Strategy::Linear(Backoff::Intervals(delays))),
        ("exponential", Written::Rule(rule)) => exponential(&rule, faults).map(Strategy::Exponential),
        ("linear", Written::Rule(rule)) => linear(&rule, faults).map(Strategy::Linear),
        ("custom", Written::Rule(_)) => {
            faults.push(Fault::new("intervals", "must be a list of seconds if `strategy` is `custom`"));
            None
        }
        (other, _) => {
            check_strategy_name(other, faults);
            None
        }
    }
}

/// Delays that were read, still without their strategy.
enum Written {
    List(Vec<Duration>),
    Rule(Growth),
}

fn written(strategy: &Strategy) -> Written {
    match strategy {
        Strategy::Custom(delays) | Strategy::Exponential(Backoff::Intervals(delays)) | Strategy::Linear(Backoff::Intervals(delays)) => {
            Written::List(delays.clone())
        }
        Strategy::Exponential(Backoff::Growing { base, multiplier, max }) => {
            Written::Rule(Growth { base: Some(*base), multiplier: Some(*multiplier), max: Some(*max) })
        }
        Strategy::Linear(Backoff::Growing { base, .. }) => Written::Rule(Growth { base: Some(*base), multiplier: None, max: None }),
    }
}

fn strategy_name(strategy: &Strategy) -> &'static str {
    match strategy {
        Strategy::Exponential(_) => "exponential",
        Strategy::Linear(_) => "linear",
        Strategy::Custom(_) => "custom",
    }
}

fn check_strategy_name(name: &str, faults: &mut Vec<Fault>) {
    if !matches!(name, "exponential" | "linear" | "custom") {
        faults.push(Fault::new("strategy", "must be `exponential`, `linear` or `custom`"));
    }
}

fn check_list(seconds: &[f64], faults: &mut Vec<Fault>) -> Option<Vec<Duration>> {
    let delay = |seconds: &f64| Duration::try_from_secs_f64(*seconds).ok().filter(|delay| (DELAY_MIN..=DELAY_MAX).contains(delay));
    let delays: Option<Vec<Duration>> = seconds.iter().map(delay).collect();
    let delays = delays.filter(|delays| (1..=INTERVALS_MAX).contains(&delays.len()));
    if delays.is_none() {
        faults.push(Fault::new("intervals", format!("must be 1 to {INTERVALS_MAX} delays in seconds, each 1 to 604800 (1 week)")));
    }
    delays
}

fn exponential(rule: &Growth, faults: &mut Vec<Fault>) -> Option<Backoff> {
    let Growth { base: Some(base), multiplier: Some(multiplier), max: Some(max) } = *rule else {
        faults.push(Fault::new("intervals", "must have `base_ms`, `multiplier` and `max_ms`"));
        return None;
    };
    let delays = DELAY_MIN..=DELAY_MAX;
    let rules = [
        ("intervals.base_ms", delays.contains(&base), "must be 1000 (1 s) to 604800000 (1 week)"),
        ("intervals.multiplier", (1.0..=10.0).contains(&multiplier), "must be 1 to 10"),
        ("intervals.max_ms", delays.contains(&max) && base <= max, "must be at least `base_ms`, and at most 604800000 (1 week)"),
    ];
    let broken = rules.into_iter().filter(|(_, holds, _)| !holds).map(|(field, _, reason)| Fault::new(field, reason));
    let before = faults.len();
    faults.extend(broken);
    (faults.len() == before).then_some(Backoff::Growing { base, multiplier, max })
}

/// The same delay again and again: a factor or a longest delay would have no meaning, and is refused rather than ignored.
fn linear(rule: &Growth, faults: &mut Vec<Fault>) -> Option<Backoff> {
    let Growth { base: Some(base), multiplier: None, max: None } = *rule else {
        faults.push(Fault::new("intervals", "must have only `base_ms` if `strategy` is `linear`"));
        return None;
    };
    if !(DELAY_MIN..=DELAY_MAX).contains(&base) {
        faults.push(Fault::new("intervals.base_ms", "must be 1000 (1 s) to 604800000 (1 week)"));
        return None;
    }
    Some(Backoff::Growing { base, multiplier: 1.0, max: base })
}

fn check_attempts(attempts: u64) -> Result<u32, String> {
    match u32::try_from(attempts) {
        Ok(n) if (1..=ATTEMPTS_MAX).contains(&attempts) => Ok(n),
        _ => Err(format!("must be 1 to {ATTEMPTS_MAX}")),
    }
}

fn check_jitter(share: f64) -> Result<Jitter, String> {
    if (0.0..=1.0).contains(&share) { Ok(Jitter::Share(share)) } else { Err("must be 0 to 1".to_owned()) }
}

fn check_statuses(statuses: Vec<i64>) -> Result<Vec<u16>, String> {
    let status = |status: &i64| u16::try_from(*status).ok().filter(|status| (300..=599).contains(status));
    let read: Option<Vec<u16>> = statuses.iter().map(status).collect();
    match read {
        Some(mut statuses) if statuses.len() <= GIVE_UP_ON_MAX => {
            statuses.sort_unstable();
            statuses.dedup();
            Ok(statuses)
        }
        _ => Err(format!("must be at most {GIVE_UP_ON_MAX} HTTP statuses, each 300 to 599")),
    }
}

#[cfg(test)]
mod tests;
