//! How many requests on demand an organization may send: challenges that verify a URL, test events, and contract tests of apps. Asked by `manage` before each.
//!
//! Such a request goes out because somebody called the API, beside the lanes that bound deliveries: without a bound of its own, an organization could have
//! hundreds of requests at a stranger's server at once. Counted in memory, on each node for itself: a restart forgives.

use std::{
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{ids::OrganizationId, model::RateLimit, policy::bucket::Bucket, pruned::Pruned, time::Timestamp};

/// How many of an organization are under way at once: people try one endpoint at a time, and an import one after another.
const PER_ORGANIZATION_MAX: u32 = 2;

/// How many are under way in all. Each takes a connection, and five seconds at most; a contract test takes one after the other, for each of its requests.
const TOTAL_MAX: u32 = 64;

/// How many an organization may send a minute. All of them may come at once, because an import brings many endpoints.
const PER_MINUTE: NonZeroU32 = NonZeroU32::new(60).expect("60 is not zero");

/// When it is worth trying again while too many are under way: most end in less.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Counts requests on demand. An organization that sent none lately may be forgotten, which changes nothing for it.
#[derive(Default)]
pub struct OnDemandLimit(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    organizations: Pruned<OrganizationId, OfOrganization>,
    under_way: u32,
}

struct OfOrganization {
    bucket: Bucket,
    under_way: u32,
}

/// One under way, until it is dropped.
pub(crate) struct OnDemand<'a> {
    limit: &'a OnDemandLimit,
    organization: OrganizationId,
}

/// Why a request is not sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OnDemandRefusal {
    /// The organization's others have not ended.
    #[error("{PER_ORGANIZATION_MAX} verifications, test events or contract tests of the organization are in progress: wait for one to end")]
    UnderWay,
    /// It has sent as many as it may.
    #[error("the organization has reached the limit of {PER_MINUTE} verifications, test events and contract tests per minute")]
    TooMany {
        /// How long until it may send one again.
        retry_after: Duration,
    },
    /// The server has enough of them under way.
    #[error("{TOTAL_MAX} verifications, test events and contract tests are in progress on this server: try again")]
    Busy,
    /// The organization has as many requests to apps under way as it may have.
    #[error("the organization has as many requests to apps in progress as it may have on this server now: try again")]
    NoSlot,
}

impl OnDemandRefusal {
    /// When it is worth trying again.
    pub fn retry_after(self) -> Duration {
        match self {
            Self::TooMany { retry_after } => retry_after,
            Self::UnderWay | Self::Busy | Self::NoSlot => TRY_AGAIN_AFTER,
        }
    }
}

impl OnDemandLimit {
    /// Counts a request that starts now.
    ///
    /// # Errors
    /// [`OnDemandRefusal`] says why it must not; nothing was counted.
    pub(crate) fn begin(&self, organization: OrganizationId, now: Timestamp) -> Result<OnDemand<'_>, OnDemandRefusal> {
        let mut counts = self.lock();
        let Counts { organizations, under_way } = &mut *counts;
        let limit = RateLimit::per_minute(PER_MINUTE, Some(PER_MINUTE));
        let is_needed = |of: &OfOrganization| of.under_way > 0 || !of.bucket.is_full(now);
        let of = organizations.entry(organization, is_needed, || OfOrganization { bucket: Bucket::new(limit, now), under_way: 0 });
        if of.under_way >= PER_ORGANIZATION_MAX {
            return Err(OnDemandRefusal::UnderWay);
        }
        if *under_way >= TOTAL_MAX {
            return Err(OnDemandRefusal::Busy);
        }
        of.bucket.try_take(now).map_err(|until| OnDemandRefusal::TooMany { retry_after: until.since(now) })?;
        of.under_way += 1;
        *under_way += 1;
        Ok(OnDemand { limit: self, organization })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OnDemand<'_> {
    fn drop(&mut self) {
        let mut counts = self.limit.lock();
        counts.under_way -= 1;
        // It is needed for as long as it counts this one, and so is not forgotten.
        if let Some(of) = counts.organizations.get_mut(&self.organization) {
            of.under_way -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000_000);

    fn organization(number: u128) -> OrganizationId {
        OrganizationId::from_uuid(Uuid::from_u128(number))
    }

    #[test]
    fn two_are_under_way_at_once_and_the_next_waits_for_one_to_end() {
        let limit = OnDemandLimit::default();
        let first = limit.begin(organization(1), NOW).ok();
        let _second = limit.begin(organization(1), NOW).expect("two may be under way");
        assert_eq!(limit.begin(organization(1), NOW).err(), Some(OnDemandRefusal::UnderWay));
        assert!(limit.begin(organization(2), NOW).is_ok(), "another organization has its own");
        drop(first);
        assert!(limit.begin(organization(1), NOW).is_ok());
    }

    #[test]
    fn sixty_may_be_sent_at_once_and_then_one_a_second() {
        let limit = OnDemandLimit::default();
        for _ in 0..60 {
            assert!(limit.begin(organization(1), NOW).is_ok());
        }
        let refused = limit.begin(organization(1), NOW).err();
        assert_eq!(refused, Some(OnDemandRefusal::TooMany { retry_after: Duration::from_secs(1) }));
        assert!(limit.begin(organization(1), NOW + Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn all_organizations_together_have_a_bound() {
        let limit = OnDemandLimit::default();
        let held: Vec<_> = (0..64).map(|n| limit.begin(organization(n), NOW).expect("there is room")).collect();
        assert_eq!(limit.begin(organization(64), NOW).err(), Some(OnDemandRefusal::Busy));
        drop(held);
        assert!(limit.begin(organization(64), NOW).is_ok());
    }
}
