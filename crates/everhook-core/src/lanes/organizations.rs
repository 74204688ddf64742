//! What all lanes of an organization share: how many requests may be under way, and how many may start a minute. Pure.
//!
//! Where nodes share a store, they share that too: what this node may do of it is in `limits::budgets`, and the buckets here count only while the counters
//! cannot be reached.

use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    ids::OrganizationId,
    limits::budgets::{self, Budgets},
    model::OrganizationLimits,
    policy::bucket::Bucket,
    time::Timestamp,
};

/// How many organizations are remembered before those are forgotten that a new start would treat the same.
const IDLE_MAX: usize = 10_000;

/// Whose turn a queue takes. Everhook's own events to an organization are not counted against its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FairShareKey {
    pub(super) organization: OrganizationId,
    pub(super) exempt: bool,
}

/// The organizations that have something under way, or a limit.
#[derive(Default)]
pub(super) struct Organizations {
    gates: FxHashMap<OrganizationId, Gate>,
    /// What this node has of the limits, where others draw from them too.
    shared: Option<Arc<Budgets>>,
    /// Who may start nothing before more is granted.
    refused: BTreeSet<FairShareKey>,
}

#[derive(Default)]
struct Gate {
    in_flight: u32,
    limits: OrganizationLimits,
    concurrency: Option<NonZeroU32>,
    bucket: Option<Bucket>,
}

impl Organizations {
    /// Organizations whose limits hold over all nodes.
    pub(super) fn sharing(budgets: Arc<Budgets>) -> Self {
        budgets.forget_flights();
        Self { shared: Some(budgets), ..Self::default() }
    }

    /// Those who could start nothing and may be able to now: more was granted, or each node counts for itself.
    pub(super) fn take_refused(&mut self) -> BTreeSet<FairShareKey> {
        std::mem::take(&mut self.refused)
    }

    /// Goes by these limits from now on.
    pub(super) fn adopt(&mut self, organization: OrganizationId, limits: &OrganizationLimits, now: Timestamp) {
        if limits.concurrency.is_none() && limits.deliveries_per_minute.is_none() && !self.gates.contains_key(&organization) {
            return;
        }
        let gate = self.gates.entry(organization).or_default();
        gate.limits = *limits;
        gate.concurrency = budgets::concurrency(limits);
        match (gate.bucket.as_mut(), budgets::deliveries(limits)) {
            (Some(bucket), Some(limit)) => bucket.change(limit, now),
            (_, limit) => gate.bucket = limit.map(|limit| Bucket::new(limit, now)),
        }
        if let Some(budgets) = &self.shared {
            budgets.note_flights(organization, limits, gate.in_flight, now);
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
    pub(super) fn may_start(&mut self, party: FairShareKey, now: Timestamp) -> bool {
        let Some(gate) = self.gates.get(&party.organization).filter(|_| !party.exempt) else { return true };
        if let Some(budgets) = self.shared.as_ref().filter(|_| gate.is_limited()) {
            // Asked also while nobody answers: whoever misses something is why the counters are tried again.
            let may_start = budgets.may_start(party.organization, &gate.limits, now);
            if !budgets.are_away() {
                if !may_start {
                    self.refused.insert(party);
                }
                return may_start;
            }
        }
        let has_room = gate.concurrency.is_none_or(|most| gate.in_flight < most.get());
        has_room && gate.bucket.as_ref().is_none_or(|bucket| bucket.flows_from(now) <= now)
    }

    /// When its bucket has a token again, if that is what it waits for.
    pub(super) fn flows_from(&self, party: FairShareKey, now: Timestamp) -> Option<Timestamp> {
        if let Some(budgets) = self.counted_together() {
            return budgets.flows_from(party.organization).filter(|from| *from > now);
        }
        let bucket = self.gates.get(&party.organization)?.bucket.as_ref()?;
        Some(bucket.flows_from(now)).filter(|from| *from > now)
    }

    /// A request starts. The caller saw that it may.
    pub(super) fn start(&mut self, party: FairShareKey, now: Timestamp) {
        if party.exempt {
            return;
        }
        let is_counted_together = self.counted_together().is_some();
        let gate = self.gates.entry(party.organization).or_default();
        gate.in_flight += 1;
        gate.tell_flights(self.shared.as_deref(), party.organization, now);
        if is_counted_together {
            self.shared.iter().for_each(|budgets| budgets.start(party.organization, now));
        } else if let Some(bucket) = &mut gate.bucket {
            // It was seen to have a token.
            let _ = bucket.try_take(now);
        }
    }

    /// A request ended.
    pub(super) fn land(&mut self, party: FairShareKey, now: Timestamp) {
        if party.exempt {
            return;
        }
        let Some(gate) = self.gates.get_mut(&party.organization) else { return };
        gate.in_flight -= 1;
        gate.tell_flights(self.shared.as_deref(), party.organization, now);
        if gate.in_flight == 0 && gate.concurrency.is_none() && gate.bucket.is_none() {
            self.gates.remove(&party.organization);
        }
    }

    /// A request that was started was not made: its token is good for another.
    pub(super) fn unmade(&mut self, party: FairShareKey, now: Timestamp) {
        if party.exempt {
            return;
        }
        if let Some(budgets) = self.counted_together() {
            budgets.unmade(party.organization, now);
        } else if let Some(bucket) = self.gates.get_mut(&party.organization).and_then(|gate| gate.bucket.as_mut()) {
            bucket.give_back();
        }
    }

    /// What this node was granted, if that is what counts now.
    fn counted_together(&self) -> Option<&Budgets> {
        self.shared.as_deref().filter(|budgets| !budgets.are_away())
    }
}

impl Gate {
    fn is_limited(&self) -> bool {
        self.concurrency.is_some() || self.bucket.is_some()
    }

    fn tell_flights(&self, shared: Option<&Budgets>, organization: OrganizationId, now: Timestamp) {
        if let Some(budgets) = shared.filter(|_| self.concurrency.is_some()) {
            budgets.note_flights(organization, &self.limits, self.in_flight, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::{
        model::TokenGrant,
        ports::{Grant, Wanted},
    };

    const NOW: Timestamp = Timestamp::from_secs(1_000);
    const PARTY: FairShareKey = FairShareKey { organization: OrganizationId::from_uuid(Uuid::from_u128(1)), exempt: false };

    /// Organizations of a node that shares limits, of which one has these.
    fn sharing(limits: OrganizationLimits) -> (Arc<Budgets>, Organizations) {
        let budgets = Arc::new(Budgets::default());
        let mut organizations = Organizations::sharing(budgets.clone());
        organizations.adopt(PARTY.organization, &limits, NOW);
        (budgets, organizations)
    }

    /// Answers everything that is asked for: so many slots, so many tokens.
    fn grant(budgets: &Budgets, slots: u32, tokens: u32, now: Timestamp) -> usize {
        let asks = budgets.asks(now);
        let grant = |wanted: Wanted| match wanted {
            Wanted::Slots(_) => Grant::Slots(slots),
            Wanted::Tokens(..) => Grant::Tokens(TokenGrant { granted: tokens, ..TokenGrant::default() }),
        };
        budgets.granted(&asks, &asks.iter().map(|ask| grant(ask.what)).collect::<Vec<_>>(), now, || 0.5);
        asks.len()
    }

    #[test]
    fn nothing_starts_before_it_is_granted_and_no_more_than_was() {
        let limits = OrganizationLimits { concurrency: Some(10), deliveries_per_minute: Some(600), ..OrganizationLimits::default() };
        let (budgets, mut organizations) = sharing(limits);
        assert!(!organizations.may_start(PARTY, NOW));
        assert!(organizations.may_start(FairShareKey { exempt: true, ..PARTY }, NOW), "Everhook's own events are not counted");
        assert_eq!(grant(&budgets, 2, 3, NOW), 2);
        assert_eq!(organizations.take_refused(), BTreeSet::from([PARTY]));
        for _ in 0..2 {
            assert!(organizations.may_start(PARTY, NOW));
            organizations.start(PARTY, NOW);
        }
        assert!(!organizations.may_start(PARTY, NOW), "there is a token, and no slot");
        organizations.land(PARTY, NOW);
        assert!(organizations.may_start(PARTY, NOW));
        organizations.start(PARTY, NOW);
        organizations.land(PARTY, NOW);
        assert!(!organizations.may_start(PARTY, NOW), "there is a slot, and no token");
    }

    #[test]
    fn while_nobody_answers_the_node_goes_by_the_whole_limit_and_asks_again() {
        let (budgets, mut organizations) = sharing(OrganizationLimits { concurrency: Some(2), ..OrganizationLimits::default() });
        assert!(!organizations.may_start(PARTY, NOW));
        assert_eq!(budgets.asks(NOW).len(), 1);
        budgets.failed();
        for _ in 0..2 {
            assert!(organizations.may_start(PARTY, NOW));
            organizations.start(PARTY, NOW);
        }
        assert!(!organizations.may_start(PARTY, NOW), "the whole limit, and not more");
        let later = NOW + Duration::from_secs(1);
        assert_eq!(grant(&budgets, 1, 0, later), 1, "who misses something is why it is asked for again");
        organizations.land(PARTY, later);
        assert!(!organizations.may_start(PARTY, later), "one is under way, and one is allowed");
    }

    #[test]
    fn a_limit_that_was_lifted_holds_nobody_back() {
        let (budgets, mut organizations) = sharing(OrganizationLimits { concurrency: Some(2), ..OrganizationLimits::default() });
        assert!(!organizations.may_start(PARTY, NOW));
        organizations.adopt(PARTY.organization, &OrganizationLimits::default(), NOW);
        assert!(organizations.may_start(PARTY, NOW));
        assert_eq!(budgets.asks(NOW), []);
    }
}
