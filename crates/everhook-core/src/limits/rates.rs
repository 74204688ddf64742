//! How much each organization may do in a time, where that is counted in memory: one bucket each.
//!
//! Where nodes share a store, `budgets` counts, and these buckets only while the shared counters cannot be reached.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{
    ids::OrganizationId,
    line::Line,
    model::{Budget, RateLimit},
    policy::{allowance::Missing, bucket::Bucket},
    pruned::Pruned,
    time::Timestamp,
};

/// How long a publisher waits for the counters that nodes share, if this node has nothing in hand. Then the node's own count is good enough.
const ANSWER_AWAITED_FOR: Duration = Duration::from_millis(50);

/// A bucket for each organization that has a limit. One that has used nothing lately may be forgotten, which changes nothing for it.
#[derive(Default)]
pub struct Rates {
    buckets: Mutex<Pruned<OrganizationId, Bucket>>,
}

impl Rates {
    /// Takes one of what the organization may do by this limit.
    ///
    /// # Errors
    /// When there is one again.
    pub fn take(&self, organization: OrganizationId, limit: RateLimit, now: Timestamp) -> Result<(), Timestamp> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.entry(organization, |bucket| !bucket.is_full(now), || Bucket::new(limit, now));
        if bucket.limit() != limit {
            bucket.change(limit, now);
        }
        bucket.try_take(now)
    }
}

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
    let deadline = clock.now() + ANSWER_AWAITED_FOR;
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
            // The line lives, and so does who tells.
            _ = answers.changed() => {}
            () = clock.sleep_until(deadline) => return by_itself(clock.now()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use uuid::Uuid;

    use super::*;

    #[test]
    fn each_organization_has_its_own_bucket() {
        let rates = Rates::default();
        let limit = RateLimit::per_minute(NonZeroU32::MIN, None);
        let [one, other] = [1, 2].map(|n| OrganizationId::from_uuid(Uuid::from_u128(n)));
        let now = Timestamp::from_secs(1_000);
        assert_eq!(rates.take(one, limit, now), Ok(()));
        assert_eq!(rates.take(one, limit, now), Err(now + Duration::from_secs(60)));
        assert_eq!(rates.take(other, limit, now), Ok(()));
        assert_eq!(rates.take(one, limit, now + Duration::from_secs(60)), Ok(()));
    }
}
