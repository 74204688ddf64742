//! How often an organization may retry by hand: the limit that `recall` asks, through `line::tokens`, before it makes anything.
//!
//! Where nodes share a store, they count together, one question for each request of a person. Otherwise, and while the shared counters cannot be reached,
//! it is a token bucket that holds a minute's retries, kept in memory: a restart forgives. Every delivery takes a token. A batch may take more than there
//! are, which `policy::bucket` has no notion of, and is then paid for before the next retry.

use std::{
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{ids::OrganizationId, model::OrganizationLimits, pruned::Pruned, time::Timestamp};

/// How many deliveries an organization may retry by hand a minute, unless its own limit says otherwise.
const DEFAULT_PER_MINUTE: NonZeroU32 = NonZeroU32::new(60).expect("60 is not zero");

/// What the limit counts in.
const PERIOD: Duration = Duration::from_secs(60);

/// For each organization the instant at which everything that it took is paid for: a token costs its share of a minute. One that
/// owes nothing may be forgotten: a new one would do the same.
#[derive(Default)]
pub struct RetryLimit(Mutex<Pruned<OrganizationId, Timestamp>>);

impl RetryLimit {
    /// Takes tokens for so many retries that start now.
    ///
    /// # Errors
    /// How long to wait, if there is no token; nothing was taken.
    pub fn take(&self, organization: OrganizationId, limits: OrganizationLimits, retries: u32, now: Timestamp) -> Result<(), Duration> {
        let per_minute = per_minute(limits);
        let mut paid_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let paid_at = paid_at.entry(organization, |at| *at > now, || now);
        // A whole minute's retries may come at once, because people retry in bursts: the last of them is taken when all others are unpaid.
        let credit = PERIOD - PERIOD / per_minute.get();
        let wait = paid_at.since(now + credit);
        if !wait.is_zero() {
            return Err(wait);
        }
        *paid_at = (*paid_at).max(now) + PERIOD * retries / per_minute.get();
        Ok(())
    }
}

/// How many an organization may retry by hand a minute.
pub(crate) fn per_minute(limits: OrganizationLimits) -> NonZeroU32 {
    limits.manual_retries_per_minute.and_then(NonZeroU32::new).unwrap_or(DEFAULT_PER_MINUTE)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000_000);

    fn organization(number: u128) -> OrganizationId {
        OrganizationId::from_uuid(Uuid::from_u128(number))
    }

    fn none() -> OrganizationLimits {
        OrganizationLimits::default()
    }

    #[test]
    fn sixty_may_come_at_once_and_then_one_a_second() {
        let limit = RetryLimit::default();
        for _ in 0..60 {
            assert_eq!(limit.take(organization(1), none(), 1, NOW), Ok(()));
        }
        assert_eq!(limit.take(organization(1), none(), 1, NOW), Err(Duration::from_secs(1)));
        assert_eq!(limit.take(organization(2), none(), 1, NOW), Ok(()), "another organization has a bucket of its own");
        assert_eq!(limit.take(organization(1), none(), 1, NOW + Duration::from_secs(1)), Ok(()));
    }

    #[test]
    fn a_large_batch_is_paid_for_before_the_next_retry() {
        let limit = RetryLimit::default();
        assert_eq!(limit.take(organization(1), none(), 1_000, NOW), Ok(()));
        assert_eq!(limit.take(organization(1), none(), 1, NOW), Err(Duration::from_secs(941)));
        let paid_at = NOW + Duration::from_secs(941);
        assert_eq!(limit.take(organization(1), none(), 1, paid_at), Ok(()));
        assert_eq!(limit.take(organization(1), none(), 1, paid_at), Err(Duration::from_secs(1)), "what it owed was not forgiven");
    }

    #[test]
    fn an_organization_may_have_a_limit_of_its_own() {
        let limit = RetryLimit::default();
        let one = OrganizationLimits { manual_retries_per_minute: Some(1), ..none() };
        assert_eq!(limit.take(organization(1), one, 1, NOW), Ok(()));
        assert_eq!(limit.take(organization(1), one, 1, NOW), Err(Duration::from_secs(60)));
    }
}
