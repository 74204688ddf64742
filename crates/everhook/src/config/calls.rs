//! What holds for calls where a manifest does not say.

use std::{ops::RangeInclusive, time::Duration};

use everhook_core::{
    line::HealthCheckSettings,
    model::{BreakerConfig, TripRule},
    policy::{
        calls::{manifest::ManifestDefaults, timeouts::TimeoutsByName},
        presets::JobRetry,
        retry::{DELAY_MAX, DELAY_MIN},
    },
};

use super::{
    check::{Reader, in_range},
    units,
};

/// How long a call may take: somebody waits.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);
/// How long a job may take: nobody waits for it.
const ASYNC_TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
/// How long a breaker may stay open.
const SLEEP: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(86_400);
const FAILURES: RangeInclusive<u32> = 1..=100_000;
const SUCCESSES: RangeInclusive<u32> = 1..=100;

/// How often a job may be attempted, and how its delays may grow: as in other retry schedules.
const JOB_ATTEMPTS: RangeInclusive<u32> = 1..=100;
const JOB_DELAY: RangeInclusive<Duration> = DELAY_MIN..=DELAY_MAX;
const JOB_MULTIPLIER: RangeInclusive<f64> = 1.0..=10.0;

/// How often an app may be checked, and how long one check may take.
const CHECK_INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
const CHECK_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(10);

/// How often alert rules may be evaluated.
const ALERT_INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);

/// Reads how often alert rules are evaluated; `None` if that could not be read.
pub(super) fn read_alert_interval(reader: &mut Reader<'_>) -> Option<Duration> {
    reader.needed("alert_interval", |text| in_range(units::parse_duration(text)?, ALERT_INTERVAL))
}

/// Reads when apps are checked; `None` if that could not be read.
pub(super) fn read_health_checks(reader: &mut Reader<'_>) -> Option<HealthCheckSettings> {
    let interval = reader.needed("app_health_check_interval", |text| in_range(units::parse_duration(text)?, CHECK_INTERVAL));
    let timeout = reader.needed("app_health_check_timeout", |text| in_range(units::parse_duration(text)?, CHECK_TIMEOUT));
    Some(HealthCheckSettings { interval: interval?, timeout: timeout? })
}

/// Reads the settings; `None` if one could not be read, and then its fault is among the others.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<ManifestDefaults> {
    let timeout = |reader: &mut Reader<'_>, name| reader.needed(name, |text| in_range(units::parse_duration(text)?, TIMEOUT));
    let quiz_answer = timeout(reader, "call_timeout_quiz_answer");
    let winner_selection = timeout(reader, "call_timeout_winner_selection");
    let participant_registration = timeout(reader, "call_timeout_participant_registration");
    let notification = timeout(reader, "call_timeout_notification");
    let other = timeout(reader, "call_timeout");
    let async_job = reader.needed("call_timeout_async", |text| in_range(units::parse_duration(text)?, ASYNC_TIMEOUT));
    let failure_threshold = reader.needed("call_breaker_failures", |text| number(text, FAILURES));
    let sleep = reader.needed("call_breaker_sleep", |text| in_range(units::parse_duration(text)?, SLEEP));
    let success_threshold = reader.needed("call_breaker_successes", |text| number(text, SUCCESSES));
    let job_retry = read_job_retry(reader);
    let timeouts = TimeoutsByName {
        quiz_answer: quiz_answer?,
        winner_selection: winner_selection?,
        participant_registration: participant_registration?,
        notification: notification?,
        other: other?,
        async_job: async_job?,
    };
    let rule = TripRule::Consecutive { failure_threshold: failure_threshold?, success_threshold: success_threshold? };
    let sleep = sleep?;
    let breaker = BreakerConfig { rule, sleep, sleep_max: sleep, ..ManifestDefaults::default().breaker };
    Some(ManifestDefaults { timeouts, breaker, job_retry: job_retry? })
}

/// Reads the numbers of the preset `job`; `None` if one could not be read.
fn read_job_retry(reader: &mut Reader<'_>) -> Option<JobRetry> {
    let max_attempts = reader.needed("job_retry_max_attempts", |text| number(text, JOB_ATTEMPTS));
    let delay = |reader: &mut Reader<'_>, name| reader.needed(name, |text| in_range(units::parse_duration(text)?, JOB_DELAY));
    let initial_delay = delay(reader, "job_retry_initial_delay");
    let max_delay = delay(reader, "job_retry_max_delay");
    let multiplier = reader.needed("job_retry_multiplier", multiplier);
    let retry = JobRetry { max_attempts: max_attempts?, initial_delay: initial_delay?, max_delay: max_delay?, multiplier: multiplier? };
    if retry.initial_delay > retry.max_delay {
        reader.faults.push("job_retry_initial_delay: must not be longer than job_retry_max_delay".to_owned());
    }
    Some(retry)
}

fn multiplier(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|number| JOB_MULTIPLIER.contains(number));
    number.ok_or_else(|| format!("must be a number from {} to {}", JOB_MULTIPLIER.start(), JOB_MULTIPLIER.end()))
}

fn number(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("must be {} to {}", range.start(), range.end()))
}
