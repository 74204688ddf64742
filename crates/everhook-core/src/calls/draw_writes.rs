//! How many draws of an organization are written: a call with a fair draw needs nothing but its fallback, so that nothing else would hold its writes back from
//! the queue in which events wait. Counted in memory, on each node for itself.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{ids::OrganizationId, model::RateLimit, policy::bucket::Bucket, pruned::Pruned, time::Timestamp};

/// How many draws of an organization wait to be written.
const PER_ORGANIZATION_MAX: u32 = 16;

/// How many draws of all organizations do.
const TOTAL_MAX: u32 = 128;

/// How many draws of an organization are written in a minute, and how many of them at once: a hundred a second, kept for a year, are a few bytes each.
const PER_MINUTE: NonZeroU32 = NonZeroU32::new(6_000).expect("6000 is not zero");
const BURST: NonZeroU32 = NonZeroU32::new(1_000).expect("1000 is not zero");

/// Counts writes of draws. An organization that drew nothing lately may be forgotten, which changes nothing for it.
#[derive(Clone, Default)]
pub(super) struct DrawWrites(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    organizations: Pruned<OrganizationId, OfOrganization>,
    waiting: u32,
}

struct OfOrganization {
    bucket: Bucket,
    waiting: u32,
}

/// One that waits, until it is dropped.
pub(super) struct DrawWrite {
    writes: DrawWrites,
    organization: OrganizationId,
}

impl DrawWrites {
    /// Counts a draw that is about to be written; `None` if it must not be.
    pub(super) fn begin(&self, organization: OrganizationId, now: Timestamp) -> Option<DrawWrite> {
        let mut counts = self.lock();
        if counts.waiting >= TOTAL_MAX {
            return None;
        }
        let make = || OfOrganization { bucket: Bucket::new(RateLimit::per_minute(PER_MINUTE, Some(BURST)), now), waiting: 0 };
        let is_needed = |of: &OfOrganization| of.waiting > 0 || !of.bucket.is_full(now);
        let of = counts.organizations.entry(organization, is_needed, make);
        if of.waiting >= PER_ORGANIZATION_MAX || of.bucket.try_take(now).is_err() {
            return None;
        }
        of.waiting += 1;
        counts.waiting += 1;
        Some(DrawWrite { writes: self.clone(), organization })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DrawWrite {
    fn drop(&mut self) {
        let mut counts = self.writes.lock();
        counts.waiting -= 1;
        if let Some(of) = counts.organizations.get_mut(&self.organization) {
            of.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    fn organization(n: u128) -> OrganizationId {
        OrganizationId::from_uuid(Uuid::from_u128(n))
    }

    #[test]
    fn an_organization_has_few_that_wait_and_so_has_everybody_together() {
        let writes = DrawWrites::default();
        let begun = |of, count| (0..count).filter_map(|_| writes.begin(organization(of), NOW)).collect::<Vec<_>>();
        let mut first = begun(1, 100);
        assert_eq!(first.len(), 16);
        first.pop();
        assert_eq!(begun(1, 100).len(), 1);
        let others: Vec<_> = (2..100).flat_map(|of| begun(of, 2)).collect();
        assert_eq!(first.len() + others.len(), 128);
        drop(others);
        assert_eq!(begun(2, 100).len(), 16);
    }

    #[test]
    fn an_organization_writes_no_more_than_its_rate() {
        let writes = DrawWrites::default();
        let written = |now, tries| (0..tries).filter(|_| writes.begin(organization(1), now).is_some()).count();
        assert_eq!(written(NOW, 5_000), 1_000);
        assert_eq!(written(NOW + Duration::from_secs(1), 5_000), 100);
        assert!(writes.begin(organization(2), NOW).is_some());
    }
}
