//! Pausing an endpoint and resuming it: what is published meanwhile waits for it.

use super::{EndpointAction, find, flow::read_rate, update};
use crate::{
    ids::{EndpointId, Ref},
    line::Line,
    manage::{Refusal, refuse_faults},
    model::{AuditAction, Author, ClockReset, Endpoint, RateLimit},
};

/// The fastest that a drain can be asked to be: past it, none is needed.
const DRAIN_PER_SECOND_MAX: i64 = 10_000;

/// Sends nothing more to an endpoint until it is resumed. Its deliveries are made and wait; what is under way ends. One that is paused stays so.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such endpoint.
pub async fn pause(line: &Line, by: &Author, of: &Ref<EndpointId>) -> Result<Endpoint, Refusal> {
    let found = find(line, by.organization, of).await?;
    if found.paused_at.is_some() {
        return Ok(found);
    }
    let pause = |endpoint: &mut Endpoint, now| {
        // Somebody may have been faster: then it is paused since then.
        endpoint.paused_at.get_or_insert(now);
        endpoint.drain = None;
        Ok(())
    };
    update(line, EndpointAction { by, action: AuditAction::EndpointPause }, found, pause).await
}

/// Resumes an endpoint. What gathered is sent at once, or at so many requests a second until it is done. One that is not paused is not changed,
/// unless it drains at another rate.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such endpoint, [`Refusal::Invalid`] if the rate is out of its range.
pub async fn resume(line: &Line, by: &Author, of: &Ref<EndpointId>, requests_per_second: Option<i64>) -> Result<Endpoint, Refusal> {
    let found = find(line, by.organization, of).await?;
    let mut faults = Vec::new();
    let rate = read_rate("rate_limit.requests_per_second", requests_per_second, DRAIN_PER_SECOND_MAX, &mut faults);
    refuse_faults(faults)?;
    let drain = rate.map(|requests| RateLimit::per_second(requests, None));
    if found.paused_at.is_none() && found.drain == drain {
        return Ok(found);
    }
    let resume = |endpoint: &mut Endpoint, _| {
        endpoint.paused_at = None;
        endpoint.drain = drain;
        Ok(())
    };
    if found.paused_at.is_some() {
        // Nothing was sent meanwhile, so that it cannot have worked again: it gets the whole time once more. Before it is resumed: if that fails, asking again
        // does both again.
        line.ports.statistics.forget_failures(found.id.into(), ClockReset::ByOwner).await?;
    }
    update(line, EndpointAction { by, action: AuditAction::EndpointResume }, found, resume).await
}
