//! The built-in retry schedules, by name, and the older `retry_config` spelling of one.
//!
//! Presets are read-only. A number changed here is another schedule version: deliveries under way keep the one of their making.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    ids::ScheduleId,
    model::{Backoff, CallBackoff, Jitter, RetrySchedule, ScheduleName, Strategy},
    policy::retry::{DELAY_MAX, DELAY_MIN},
};

/// The presets' names; the first is meant where nothing is said.
pub const NAMES: [&str; 7] = ["standard", "backoff", "relay", "job", "ingest", "notify", "patient"];

/// What the schedule of jobs is called whose manifest says how they are retried: it is no preset either.
const MANIFEST_RETRY_NAME: &str = "manifest";

/// What a schedule made from a `retry_config` is called: it is no preset, and must not pass for one.
pub const RETRY_CONFIG_NAME: &str = "retry_config";

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// How the growing presets grow.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const DOUBLING: f64 = 2.0;
const BACKOFF_DELAY_MAX: Duration = Duration::from_secs(5 * MINUTE);

/// Client errors that no retry of the same request cures.
const HOPELESS: [u16; 9] = [400, 401, 403, 404, 410, 413, 414, 415, 451];

/// The preset of this name; `None` if there is none.
pub fn preset(name: &str) -> Option<RetrySchedule> {
    match name {
        "standard" => Some(standard()),
        "backoff" => Some(backoff()),
        "relay" => Some(relay()),
        JOB => Some(job()),
        "ingest" => Some(ingest()),
        "notify" => Some(notify()),
        "patient" => Some(patient()),
        _ => None,
    }
}

/// A preset's id: the same on every server, and older than any that is made, so that presets end every list, the default first.
pub fn id(name: &str) -> Option<ScheduleId> {
    // A UUIDv7 of the very first millisecond; numbers fall from 255, so that presets to come have room below.
    const FIRST: u128 = (0x7 << 76) | (0x2 << 62) | 0xff;
    let index = NAMES.iter().position(|known| *known == name)?;
    Some(ScheduleId::from_uuid(Uuid::from_u128(FIRST - index as u128)))
}

/// The default: quick to see a short outage end, and still trying after a day.
pub fn standard() -> RetrySchedule {
    let delays = seconds([5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR]);
    RetrySchedule { give_up_on: vec![410], ..named("standard", 8, delays) }
}

fn backoff() -> RetrySchedule {
    RetrySchedule {
        jitter: Jitter::Share(0.25),
        give_up_on: HOPELESS.to_vec(),
        ..named("backoff", 5, growing(FIRST_DELAY, DOUBLING, BACKOFF_DELAY_MAX))
    }
}

/// For forwarding to a service that is up or soon will be: also for telling the callers of jobs.
pub fn relay() -> RetrySchedule {
    RetrySchedule {
        jitter: Jitter::Later(Duration::from_millis(500)),
        timeout: Some(Duration::from_secs(5)),
        ..named("relay", 4, seconds([1, 2, 4]))
    }
}

/// The name of the preset for jobs.
pub const JOB: &str = "job";

/// The numbers of the preset `job`, which the operator may set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobRetry {
    /// How many attempts at most, the first included.
    pub max_attempts: u32,
    /// The first delay.
    pub initial_delay: Duration,
    /// The longest delay.
    pub max_delay: Duration,
    /// The factor from one delay to the next.
    pub multiplier: f64,
}

impl Default for JobRetry {
    fn default() -> Self {
        Self { max_attempts: 3, initial_delay: FIRST_DELAY, max_delay: Duration::from_secs(30), multiplier: DOUBLING }
    }
}

/// For jobs: what an app is asked later.
pub fn job() -> RetrySchedule {
    job_by(JobRetry::default())
}

/// The same with other numbers.
pub fn job_by(retry: JobRetry) -> RetrySchedule {
    RetrySchedule {
        jitter: Jitter::Share(0.3),
        timeout: Some(Duration::from_secs(30)),
        ..named(JOB, retry.max_attempts, growing(retry.initial_delay, retry.multiplier, retry.max_delay))
    }
}

/// For the jobs of a capability whose manifest says how often its app is asked, and how the delays between that grow.
pub fn job_retried(retry: JobRetry, max_attempts: u32, backoff: CallBackoff) -> RetrySchedule {
    let preset = job_by(retry);
    if (max_attempts, backoff) == (preset.max_attempts, CallBackoff::Exponential) {
        return preset;
    }
    let strategy = match backoff {
        CallBackoff::Exponential => preset.strategy,
        CallBackoff::Linear => seconds(1..=u64::from(max_attempts)),
        CallBackoff::Fixed => seconds([1]),
    };
    RetrySchedule { name: ScheduleName(MANIFEST_RETRY_NAME.to_owned()), strategy, max_attempts, ..preset }
}

/// For what providers sent, on its way into a processor.
pub fn ingest() -> RetrySchedule {
    named("ingest", 5, seconds([MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR]))
}

/// For e-mail and other channels to people: a mail server that is away for a day loses nothing.
pub fn notify() -> RetrySchedule {
    named("notify", 30, seconds([5, 30, 2 * MINUTE, 10 * MINUTE, HOUR]))
}

/// Thirty fast retries, each 5 s later than the one before it, then one an hour: the last delay repeats.
fn patient() -> RetrySchedule {
    let fast = (1..=30).map(|n| (5 * n).min(5 * MINUTE));
    RetrySchedule { give_up_on: vec![410], ..named("patient", 60, seconds(fast.chain([HOUR]))) }
}

fn named(name: &str, max_attempts: u32, strategy: Strategy) -> RetrySchedule {
    RetrySchedule {
        name: ScheduleName(name.to_owned()),
        strategy,
        max_attempts,
        jitter: Jitter::Share(0.1),
        give_up_on: vec![],
        timeout: None,
    }
}

fn seconds(delays: impl IntoIterator<Item = u64>) -> Strategy {
    Strategy::Custom(delays.into_iter().map(Duration::from_secs).collect())
}

fn growing(base: Duration, multiplier: f64, max: Duration) -> Strategy {
    Strategy::Exponential(Backoff::Growing { base, multiplier, max })
}

/// The older spelling of a schedule: the `backoff` preset with some of its numbers replaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetryConfig {
    /// How many attempts at most, the first included.
    pub max_attempts: Option<u32>,
    /// The first delay.
    pub base_delay: Option<Duration>,
    /// The longest delay.
    pub max_delay: Option<Duration>,
    /// The factor from one delay to the next.
    pub backoff_multiplier: Option<f64>,
    /// How long one attempt may take, where the endpoint does not say.
    pub timeout: Option<Duration>,
}

/// Why a `retry_config` was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` must be {expected}")]
pub struct RetryConfigFault {
    /// The field, as users spell it.
    pub field: &'static str,
    /// What would be right.
    pub expected: &'static str,
}

/// Makes the schedule that a `retry_config` means.
///
/// # Errors
/// [`RetryConfigFault`] names the first field that is out of its range.
pub fn from_retry_config(config: &RetryConfig) -> Result<RetrySchedule, RetryConfigFault> {
    let preset = backoff();
    let base = config.base_delay.unwrap_or(FIRST_DELAY);
    let max = config.max_delay.unwrap_or(BACKOFF_DELAY_MAX);
    let multiplier = config.backoff_multiplier.unwrap_or(DOUBLING);
    let max_attempts = config.max_attempts.unwrap_or(preset.max_attempts);
    let delays = DELAY_MIN..=DELAY_MAX;
    let timeouts = Duration::from_millis(100)..=Duration::from_secs(60);

    check((1..=100).contains(&max_attempts), "max_attempts", "1 to 100")?;
    check(delays.contains(&base), "base_delay_ms", "1000 (1 s) to 604800000 (1 week)")?;
    check(delays.contains(&max), "max_delay_ms", "1000 (1 s) to 604800000 (1 week)")?;
    check(base <= max, "max_delay_ms", "at least `base_delay_ms` (it is 300000 where it is not given)")?;
    check((1.0..=10.0).contains(&multiplier), "backoff_multiplier", "1 to 10")?;
    check(config.timeout.is_none_or(|timeout| timeouts.contains(&timeout)), "timeout_ms", "100 to 60000 (60 s)")?;

    let strategy = growing(base, multiplier, max);
    Ok(RetrySchedule { name: ScheduleName(RETRY_CONFIG_NAME.to_owned()), strategy, max_attempts, timeout: config.timeout, ..preset })
}

fn check(is_right: bool, field: &'static str, expected: &'static str) -> Result<(), RetryConfigFault> {
    if is_right { Ok(()) } else { Err(RetryConfigFault { field, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (&'static str, u32, Jitter, &'static [u16], Option<u64>);

    #[test]
    fn the_presets_are_those_of_the_table() {
        let later = Jitter::Later(Duration::from_millis(500));
        #[rustfmt::skip]
        let table: [Row; 7] = [
            // name, attempts, jitter, gives up at once on, timeout
            ("standard", 8,  Jitter::Share(0.1),  &[410],    None),
            ("backoff",  5,  Jitter::Share(0.25), &HOPELESS, None),
            ("relay",    4,  later,               &[],       Some(5)),
            ("job",      3,  Jitter::Share(0.3),  &[],       Some(30)),
            ("ingest",   5,  Jitter::Share(0.1),  &[],       None),
            ("notify",   30, Jitter::Share(0.1),  &[],       None),
            ("patient",  60, Jitter::Share(0.1),  &[410],    None),
        ];
        assert_eq!(table.map(|row| row.0), NAMES);
        for (name, max_attempts, jitter, give_up_on, timeout_secs) in table {
            let preset = preset(name).unwrap();
            assert_eq!(preset.name.0, name);
            assert_eq!(preset.max_attempts, max_attempts, "{name}");
            assert_eq!(preset.jitter, jitter, "{name}");
            assert_eq!(preset.give_up_on, give_up_on, "{name}");
            assert_eq!(preset.timeout, timeout_secs.map(Duration::from_secs), "{name}");
        }
        assert_eq!(preset("eager"), None);
    }

    #[test]
    fn the_jobs_of_a_manifest_are_retried_as_it_says_and_otherwise_as_the_preset_does() {
        assert_eq!(job_retried(JobRetry::default(), 3, CallBackoff::Exponential), job());
        let five = JobRetry { max_attempts: 5, ..JobRetry::default() };
        assert_eq!(job_retried(five, 5, CallBackoff::Exponential), job_by(five));
        let delays = |attempts, backoff| {
            let schedule = job_retried(JobRetry::default(), attempts, backoff);
            assert_eq!((schedule.max_attempts, schedule.jitter, schedule.timeout), (attempts, job().jitter, job().timeout));
            assert_eq!(schedule.name.0, "manifest");
            let delay = |n| crate::policy::retry::nominal_delay(&schedule, n).as_secs();
            (1..attempts).map(delay).collect::<Vec<_>>()
        };
        assert_eq!(delays(1, CallBackoff::Exponential), [0; 0]);
        assert_eq!(delays(7, CallBackoff::Exponential), [1, 2, 4, 8, 16, 30]);
        assert_eq!(delays(5, CallBackoff::Linear), [1, 2, 3, 4]);
        assert_eq!(delays(4, CallBackoff::Fixed), [1, 1, 1]);
    }

    #[test]
    fn a_retry_config_is_backoff_with_its_numbers_replaced() {
        let empty = from_retry_config(&RetryConfig::default()).unwrap();
        assert_eq!(empty, RetrySchedule { name: ScheduleName(RETRY_CONFIG_NAME.to_owned()), ..backoff() });

        let config = RetryConfig {
            max_attempts: Some(3),
            base_delay: Some(Duration::from_secs(2)),
            max_delay: Some(Duration::from_secs(20)),
            backoff_multiplier: Some(1.5),
            timeout: Some(Duration::from_secs(9)),
        };
        let schedule = from_retry_config(&config).unwrap();
        assert_eq!(schedule.max_attempts, 3);
        let growing = Backoff::Growing { base: Duration::from_secs(2), multiplier: 1.5, max: Duration::from_secs(20) };
        assert_eq!(schedule.strategy, Strategy::Exponential(growing));
        assert_eq!(schedule.timeout, Some(Duration::from_secs(9)));
        assert_eq!((schedule.jitter, schedule.give_up_on), (backoff().jitter, HOPELESS.to_vec()));
    }

    #[test]
    fn a_retry_config_out_of_range_is_refused_by_field() {
        let ms = |millis| Some(Duration::from_millis(millis));
        let none = RetryConfig::default;
        let cases = [
            (RetryConfig { max_attempts: Some(0), ..none() }, Err("max_attempts")),
            (RetryConfig { max_attempts: Some(1), ..none() }, Ok(())),
            (RetryConfig { max_attempts: Some(100), ..none() }, Ok(())),
            (RetryConfig { max_attempts: Some(101), ..none() }, Err("max_attempts")),
            (RetryConfig { base_delay: ms(999), ..none() }, Err("base_delay_ms")),
            (RetryConfig { base_delay: ms(1_000), ..none() }, Ok(())),
            (RetryConfig { base_delay: ms(604_800_001), ..none() }, Err("base_delay_ms")),
            (RetryConfig { base_delay: ms(300_001), ..none() }, Err("max_delay_ms")),
            (RetryConfig { base_delay: ms(2_000), max_delay: ms(1_000), ..none() }, Err("max_delay_ms")),
            (RetryConfig { max_delay: ms(604_800_000), ..none() }, Ok(())),
            (RetryConfig { max_delay: ms(604_800_001), ..none() }, Err("max_delay_ms")),
            (RetryConfig { backoff_multiplier: Some(0.99), ..none() }, Err("backoff_multiplier")),
            (RetryConfig { backoff_multiplier: Some(10.01), ..none() }, Err("backoff_multiplier")),
            (RetryConfig { backoff_multiplier: Some(f64::NAN), ..none() }, Err("backoff_multiplier")),
            (RetryConfig { timeout: ms(99), ..none() }, Err("timeout_ms")),
            (RetryConfig { timeout: ms(60_000), ..none() }, Ok(())),
            (RetryConfig { timeout: ms(60_001), ..none() }, Err("timeout_ms")),
        ];
        for (config, expected) in cases {
            let checked = from_retry_config(&config).map(|_| ()).map_err(|fault| fault.field);
            assert_eq!(checked, expected, "{config:?}");
        }
    }

    #[test]
    fn a_fault_says_what_would_be_right() {
        let fault = from_retry_config(&RetryConfig { max_attempts: Some(0), ..RetryConfig::default() }).unwrap_err();
        assert_eq!(fault.to_string(), "`max_attempts` must be 1 to 100");
    }
}
