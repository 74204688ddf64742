//! Breakers of capabilities among several nodes: which capabilities this node has calls of, its vote when its own breaker opens, and what the others say.
//!
//! Each node trips by itself and tells why. Where at least half of the nodes with calls agree, each of them opens too, without failures of its own.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use uuid::Uuid;

use super::{Calls, OpenCapability};
use crate::{
    gates::CapabilityGate,
    model::{KeptStage, VoteCount},
    policy::{
        breaker::Transition,
        calls::quorum::{TripClass, opens_for_all},
    },
    ports::{BreakerRow, BreakerVote, BreakerVotes, Clock, Entropy, StoreError, within},
    time::Timestamp,
};

/// How often a node says which capabilities it has calls of.
pub const CALLERS_NOTED_EVERY: Duration = Duration::from_secs(10);

/// For how long a node counts as one that has calls, after it had one: several times as long as until it says so again.
const CALLER_FOR: Duration = Duration::from_secs(60);

/// How long a vote counts after the breaker's sleep: until the probes that follow it have ended.
const VOTE_GRACE: Duration = Duration::from_secs(30);

/// How long the store may take to say how others have voted, where a caller waits.
const VOTES_PATIENCE: Duration = Duration::from_millis(20);

/// How long votes are kept that nobody counts any more, and how many are removed at once.
const VOTES_KEPT_FOR: Duration = Duration::from_secs(3_600);
const FORGET_BATCH: u32 = 500;

/// The other nodes, as calls see them.
pub(super) struct Quorum {
    votes: Arc<dyn BreakerVotes>,
    /// Who this node is, until it ends.
    node: OnceLock<Uuid>,
    is_shared: bool,
}

impl Quorum {
    pub(super) fn new(votes: Arc<dyn BreakerVotes>, is_shared: bool) -> Self {
        Self { votes, node: OnceLock::new(), is_shared }
    }

    fn node(&self, clock: &dyn Clock, entropy: &dyn Entropy) -> Uuid {
        *self.node.get_or_init(|| entropy.uuid(clock.now()))
    }
}

impl Calls {
    /// Tells the other nodes which capabilities this one has had calls of since it last did.
    ///
    /// # Errors
    /// [`StoreError`] if that could not be written: the others then take this node for one without calls.
    pub async fn note_callers(&self) -> Result<(), StoreError> {
        if !self.quorum.is_shared {
            return Ok(());
        }
        let lanes = self.gates.take_called();
        if lanes.is_empty() {
            return Ok(());
        }
        self.quorum.votes.note_callers(self.quorum.node(&*self.clock, &*self.entropy), lanes, self.clock.now()).await
    }

    /// This node's breaker has opened, and that is kept. Votes, unless it may be this node's network, and tells the others if they are to open theirs.
    pub(super) async fn vote(&self, capability: &OpenCapability, gate: &CapabilityGate, transition: Transition) {
        if !self.quorum.is_shared || !transition.opens() {
            return;
        }
        let has_answers = match gate.trip_class() {
            Some(TripClass::Network) => return,
            Some(TripClass::NoAnswers) => false,
            // Without failures it was too slow, and answered.
            Some(TripClass::Answers) | None => true,
        };
        // Neither a person nor the page about an app's health is a node's own calls.
        let (KeptStage::Open { until }, true) = (gate.to_keep().0.stage, transition.cause.is_by_calls()) else { return };
        let (node, at) = (self.quorum.node(&*self.clock, &*self.entropy), transition.at);
        let vote = BreakerVote { node, lane_id: capability.lane_id, has_answers, at, until: until + VOTE_GRACE };
        if let Err(error) = self.cast(capability, vote).await {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, lane.id = %capability.lane_id, "cannot tell other nodes that the circuit breaker of a capability is open here");
        }
    }

    async fn cast(&self, capability: &OpenCapability, vote: BreakerVote) -> Result<(), StoreError> {
        self.quorum.votes.vote(vote).await?;
        if opens_for_all(&self.count_votes(capability, vote.at).await?) {
            tracing::debug!(lane.id = %capability.lane_id, "the circuit breaker of a capability opens on all nodes");
            self.quorum.votes.report_breaker(capability.application, capability.lane_id).await?;
        }
        Ok(())
    }

    async fn count_votes(&self, capability: &OpenCapability, now: Timestamp) -> Result<VoteCount, StoreError> {
        self.quorum.votes.votes(capability.lane_id, now - CALLER_FOR, now).await
    }

    /// Opens the breaker of this node if that of a capability is open elsewhere, and enough nodes agree.
    pub(super) async fn apply_votes(&self, capability: &OpenCapability, gate: &CapabilityGate, row: &BreakerRow) {
        let now = self.clock.now();
        if !self.quorum.is_shared || !gate.may_open_for(row, now) {
            return;
        }
        let counted = within(&*self.clock, VOTES_PATIENCE, self.count_votes(capability, now)).await;
        if counted.and_then(Result::ok).is_some_and(|count| opens_for_all(&count)) {
            gate.open_for(row, now);
        }
    }

    /// Removes votes of nodes that have no calls any more.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be written to.
    pub(super) async fn forget_votes(&self, now: Timestamp) -> Result<(), StoreError> {
        if self.quorum.is_shared {
            while self.quorum.votes.forget_votes(now - VOTES_KEPT_FOR, FORGET_BATCH).await? == FORGET_BATCH {}
        }
        Ok(())
    }
}
