//! Takes what publishing and retrying by hand cost of the organization's limits.
//!
//! Called by `admission` and by everything that retries. Where nodes share a store, they count together; the node counts by itself otherwise, and while
//! the shared counters cannot be reached.

use std::time::Duration;

use crate::{
    ids::OrganizationId,
    limits::retry_limit,
    line::Line,
    model::{Budget, Credit, OrganizationLimits, RateLimit, TokenGrant, TokenRequest},
    policy::allowance::Missing,
    ports::{Ask, Grant, Wanted},
    time::Timestamp,
};

/// How long a publisher waits for the counters that nodes share, if this node has nothing in hand. Then the node's own count is good enough.
const PUBLISHER_WAITS_FOR: Duration = Duration::from_millis(50);

/// How long a person waits for the counters that nodes share. Then the node's own count is good enough.
const PERSON_WAITS_FOR: Duration = Duration::from_millis(250);

/// Takes what publishing one event costs: of what this node has in hand where nodes share a store, else of its own bucket.
///
/// # Errors
/// How long until there is some again.
pub(crate) async fn take_event(line: &Line, organization: OrganizationId, limit: RateLimit) -> Result<(), Duration> {
    let clock = &line.ports.clock;
    let by_itself = |now: Timestamp| line.publish_rates.take(organization, limit, now).map_err(|until| until.since(now));
    if !line.held_lease.is_shared() {
        return by_itself(clock.now());
    }
    let mut answers = line.budgets.answers();
    let deadline = clock.now() + PUBLISHER_WAITS_FOR;
    loop {
        let now = clock.now();
        match line.budgets.take(organization, Budget::Events, limit, now) {
            Ok(()) => return Ok(()),
            Err(_) if line.budgets.are_away() => return by_itself(now),
            Err(Missing::Later(until) | Missing::Dry(until)) => return Err(until.since(now)),
            Err(Missing::Asked) => {}
        }
        tokio::select! {
            biased;
            // `Line` owns the sender, so the channel cannot close here.
            _ = answers.changed() => {}
            () = clock.sleep_until(deadline) => return by_itself(clock.now()),
        }
    }
}

/// Takes tokens for so many retries that start now, of what all nodes count together if they share a store.
///
/// # Errors
/// How long to wait, if there is no token; nothing was taken.
pub(crate) async fn take_retries(
    line: &Line,
    organization: OrganizationId,
    limits: OrganizationLimits,
    retries: u32,
) -> Result<(), Duration> {
    if line.held_lease.is_shared()
        && let Some(grant) = request_tokens(line, organization, limits, retries).await
    {
        return if grant.granted > 0 { Ok(()) } else { Err(grant.next_in) };
    }
    line.retry_limit.take(organization, limits, retries, line.ports.clock.now())
}

/// `None` if the counters cannot be reached.
async fn request_tokens(line: &Line, organization: OrganizationId, limits: OrganizationLimits, retries: u32) -> Option<TokenGrant> {
    let per_minute = retry_limit::per_minute(limits);
    let limit = RateLimit::per_minute(per_minute, Some(per_minute));
    let request = TokenRequest { limit, take: retries, give_back: 0, credit: Credit::Owed };
    let clock = &line.ports.clock;
    let answer = tokio::select! {
        biased;
        answer = line.ports.throttle.exchange(vec![Ask { organization, what: Wanted::Tokens(Budget::Retries, request) }]) => answer.ok()?,
        () = clock.sleep_until(clock.now() + PERSON_WAITS_FOR) => return None,
    };
    match answer.first() {
        Some(Grant::Tokens(grant)) => Some(*grant),
        _ => None,
    }
}
