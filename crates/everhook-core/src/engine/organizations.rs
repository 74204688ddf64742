//! What all lanes of an organization share: how many requests may be under way, and how many may start a minute. Pure.

use std::num::NonZeroU32;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    ids::OrganizationId,
    model::{OrganizationLimits, RateLimit},
    policy::bucket::Bucket,
    time::Timestamp,
};

/// How many organizations are remembered before those are forgotten that a new start would treat the same.
const IDLE_MAX: usize = 10_000;

/// Whose turn a queue takes. Everhook's own events to an organization are not counted against its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Party {
    pub(super) organization: OrganizationId,
    pub(super) exempt: bool,
}

/// The organizations that have something under way, or a limit.
#[derive(Default)]
pub(super) struct Organizations {
    gates: FxHashMap<OrganizationId, Gate>,
}

#[derive(Default)]
struct Gate {
    in_flight: u32,
    concurrency: Option<NonZeroU32>,
    bucket: Option<Bucket>,
}

impl Organizations {
    /// Goes by these limits from now on.
    pub(super) fn adopt(&mut self, organization: OrganizationId, limits: &OrganizationLimits, now: Timestamp) {
        if limits.concurrency.is_none() && limits.deliveries_per_minute.is_none() && !self.gates.contains_key(&organization) {
            return;
        }
        let gate = self.gates.entry(organization).or_default();
        gate.concurrency = limits.concurrency.and_then(NonZeroU32::new);
        match (
            gate.bucket.as_mut(),
            limits.deliveries_per_minute.and_then(NonZeroU32::new).map(|requests| RateLimit::per_minute(requests, None)),
        ) {
            (Some(bucket), Some(limit)) => bucket.change(limit, now),
            (_, limit) => gate.bucket = limit.map(|limit| Bucket::new(limit, now)),
        }
    }

    /// Forgets organizations that have nothing under way, a full bucket and no lane, once there are many. `with_lanes` is asked only then.
    pub(super) fn prune(&mut self, now: Timestamp, with_lanes: impl FnOnce() -> FxHashSet<OrganizationId>) {
        if self.gates.len() < IDLE_MAX {
            return;
        }
        let with_lanes = with_lanes();
        let is_full = |gate: &Gate| gate.bucket.as_ref().is_none_or(|bucket| bucket.is_full(now));
        self.gates.retain(|organization, gate| gate.in_flight > 0 || !is_full(gate) || with_lanes.contains(organization));
    }

    /// Whether a request may start.
    pub(super) fn may_start(&self, party: Party, now: Timestamp) -> bool {
        let Some(gate) = self.gates.get(&party.organization).filter(|_| !party.exempt) else { return true };
        let has_room = gate.concurrency.is_none_or(|most| gate.in_flight < most.get());
        has_room && gate.bucket.as_ref().is_none_or(|bucket| bucket.flows_from(now) <= now)
    }

    /// When its bucket has a token again, if that is what it waits for.
    pub(super) fn flows_from(&self, party: Party, now: Timestamp) -> Option<Timestamp> {
        let bucket = self.gates.get(&party.organization)?.bucket.as_ref()?;
        Some(bucket.flows_from(now)).filter(|from| *from > now)
    }

    /// A request starts. The caller saw that it may.
    pub(super) fn start(&mut self, party: Party, now: Timestamp) {
        if party.exempt {
            return;
        }
        let gate = self.gates.entry(party.organization).or_default();
        gate.in_flight += 1;
        if let Some(bucket) = &mut gate.bucket {
            // It was seen to have a token.
            let _ = bucket.try_take(now);
        }
    }

    /// A request ended.
    pub(super) fn land(&mut self, party: Party) {
        if party.exempt {
            return;
        }
        let Some(gate) = self.gates.get_mut(&party.organization) else { return };
        gate.in_flight -= 1;
        if gate.in_flight == 0 && gate.concurrency.is_none() && gate.bucket.is_none() {
            self.gates.remove(&party.organization);
        }
    }
}
