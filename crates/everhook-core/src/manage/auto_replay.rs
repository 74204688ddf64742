//! Whether an organization's dead letters are retried by themselves: settings, changed by its owner and used by `jobs::operations`.

use std::{num::NonZeroU32, time::Duration};

use super::{Change, Refusal, refuse_faults};
use crate::{ids::OrganizationId, line::Line, model::AutoReplay, ports::StoreError};

/// How short and how long the first pause may be.
const AFTER_MIN: Duration = Duration::from_secs(60);
const AFTER_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);

/// How fast it may go at most: more would be live traffic.
const RATE_MAX: u32 = 1_000;

/// How often one dead letter may be tried at most. Pauses double, so that the twentieth would come after decades.
const TRIES_MAX: u32 = 20;

/// What is asked of the automatic replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoReplayChange {
    /// Whether it is on.
    pub enabled: Change<bool>,
    /// The first pause.
    pub after: Change<Duration>,
    /// How many a second.
    pub requests_per_second: Change<u32>,
    /// How often one is tried.
    pub max_tries: Change<u32>,
}

/// How it is set; off, if it never was.
///
/// # Errors
/// [`StoreError`] if the store cannot be reached.
pub async fn find(line: &Line, organization: OrganizationId) -> Result<AutoReplay, StoreError> {
    Ok(line.ports.auto_replays.auto_replay(organization).await?.unwrap_or_default())
}

/// Checks what is asked for against how it is set; nothing is written.
///
/// # Errors
/// [`Refusal::Invalid`] lists every fault.
pub async fn check(line: &Line, organization: OrganizationId, asked: Change<AutoReplayChange>) -> Result<Option<AutoReplay>, Refusal> {
    let asked = match asked {
        Change::Keep => return Ok(None),
        Change::Clear => return Ok(Some(AutoReplay::default())),
        Change::Set(asked) => asked,
    };
    let (default, mut settings, mut faults) = (AutoReplay::default(), find(line, organization).await?, Vec::new());
    asked.enabled.apply(&mut settings.enabled, default.enabled);
    asked.after.check("dlq_auto_replay.after", &mut faults, check_after).apply(&mut settings.after, default.after);
    let rate = asked.requests_per_second.check("dlq_auto_replay.requests_per_second", &mut faults, check_rate);
    rate.apply(&mut settings.requests_per_second, default.requests_per_second);
    let tries = asked.max_tries.check("dlq_auto_replay.max_tries", &mut faults, check_tries);
    tries.apply(&mut settings.max_tries, default.max_tries);
    refuse_faults(faults)?;
    Ok(Some(settings))
}

/// Sets it, from now on.
///
/// # Errors
/// [`StoreError`] if it could not be stored.
pub async fn set(line: &Line, organization: OrganizationId, settings: AutoReplay) -> Result<(), StoreError> {
    line.ports.auto_replays.set_auto_replay(organization, settings).await?;
    line.operations_bell.notify_one();
    Ok(())
}

fn check_after(after: Duration) -> Result<Duration, String> {
    if (AFTER_MIN..=AFTER_MAX).contains(&after) { Ok(after) } else { Err("must be from 1m to 7d".to_owned()) }
}

fn check_rate(rate: u32) -> Result<NonZeroU32, String> {
    NonZeroU32::new(rate).filter(|rate| rate.get() <= RATE_MAX).ok_or_else(|| format!("must be 1 to {RATE_MAX}"))
}

fn check_tries(tries: u32) -> Result<u32, String> {
    if (1..=TRIES_MAX).contains(&tries) { Ok(tries) } else { Err(format!("must be 1 to {TRIES_MAX}")) }
}
