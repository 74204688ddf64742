//! How much each organization may do in a time, where that is counted in memory: one bucket each.
//!
//! Where nodes share a store, `budgets` counts, and these buckets only while the shared counters cannot be reached. `line::tokens` asks both.

use std::sync::{Mutex, PoisonError};

use crate::{ids::OrganizationId, model::RateLimit, policy::bucket::Bucket, pruned::Pruned, time::Timestamp};

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

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, time::Duration};

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
