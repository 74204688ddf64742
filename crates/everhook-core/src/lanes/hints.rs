//! Hints to the engine, in process: a channel that never blocks a publisher.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use crate::{
    ids::{ApplicationId, EventId, LaneId, OrganizationId},
    ports::{Committed, Departure, Forwarded, InLane, LaneReport, Lanes, WaitingQueue, WakeUp, Withdrawal},
    time::Timestamp,
};

/// The messages to the engine.
pub(super) enum Hint {
    /// These deliveries are durable and waiting.
    Committed(Vec<Committed>),
    /// These deliveries are due earlier than they were.
    Forwarded(Vec<Forwarded>),
    /// Something that waited for this endpoint was cancelled by another node.
    Cancelled(LaneId),
    /// Another node made something durable in these queues.
    Waiting(Vec<WaitingQueue>),
    /// This endpoint was changed.
    Changed(ApplicationId, LaneId),
    /// The data of these events was erased.
    Erased(Vec<EventId>),
    /// These organizations went to another worker pool.
    Departing(Vec<Departure>),
    /// The limits of an organization were changed: all lanes are looked at.
    Survey,
    /// Anything may have been changed: breakers are read again, too.
    Everything,
    /// Somebody wants to know how this lane stands.
    Report(LaneId, oneshot::Sender<Option<LaneReport>>),
    /// Somebody is about to cancel this delivery.
    Withdraw(InLane, oneshot::Sender<Withdrawal>),
    /// That is over; the delivery is due at the instant if it was not cancelled.
    EndWithdrawal(InLane, Option<Timestamp>),
}

impl Hint {
    /// How many queues another node hinted at with this.
    pub(super) fn remote_queues(&self) -> usize {
        match self {
            Self::Waiting(queues) => queues.len(),
            _ => 0,
        }
    }
}

/// How many queues that other nodes hinted at may wait. Such hints can be forged, and the engine may lag: more are dropped, and the next survey finds
/// what they said.
const REMOTE_QUEUES_MAX: usize = 8_192;

/// How many hints may wait with their events.
const WAITING_WITH_EVENTS_MAX: usize = 1_000;

/// The engine's end of the channel.
pub struct Hints {
    pub(super) receiver: mpsc::UnboundedReceiver<Hint>,
    /// How many hints wait: the engine counts down what it takes.
    pub(super) waiting: Arc<AtomicUsize>,
    /// How many queues of other nodes' hints wait: the same.
    pub(super) remote: Arc<AtomicUsize>,
}

/// Makes the channel: what publishers hold, and what the engine is started with.
///
/// It never blocks a publisher, whose event is durable already. While the engine lags, events are left behind and only ids pass: what the channel
/// holds is then small, and is gone as soon as the engine, which does little more than take it in, has a moment.
pub fn hints() -> (Arc<HintSender>, Hints) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (waiting, remote) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    (Arc::new(HintSender { sender, waiting: waiting.clone(), remote: remote.clone() }), Hints { receiver, waiting, remote })
}

/// What publishers hold.
pub struct HintSender {
    sender: mpsc::UnboundedSender<Hint>,
    /// How many hints wait.
    waiting: Arc<AtomicUsize>,
    /// How many queues of other nodes' hints wait.
    remote: Arc<AtomicUsize>,
}

impl HintSender {
    /// A hint to an engine that has stopped is dropped: the store keeps what it was about.
    fn send(&self, hint: Hint) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.sender.send(hint);
    }
}

impl WakeUp for HintSender {
    fn committed(&self, mut deliveries: Vec<Committed>) {
        if self.waiting.load(Ordering::Relaxed) > WAITING_WITH_EVENTS_MAX {
            deliveries.iter_mut().for_each(|committed| committed.due.loaded = None);
        }
        self.send(Hint::Committed(deliveries));
    }

    fn forwarded(&self, deliveries: Vec<Forwarded>) {
        self.send(Hint::Forwarded(deliveries));
    }

    fn cancelled(&self, lane_id: LaneId) {
        self.send(Hint::Cancelled(lane_id));
    }

    fn waiting(&self, mut queues: Vec<WaitingQueue>) {
        let room = REMOTE_QUEUES_MAX.saturating_sub(self.remote.load(Ordering::Relaxed));
        queues.truncate(room);
        if queues.is_empty() {
            return;
        }
        queues.shrink_to_fit();
        self.remote.fetch_add(queues.len(), Ordering::Relaxed);
        self.send(Hint::Waiting(queues));
    }

    fn changed(&self, application: ApplicationId, lane_id: LaneId) {
        self.send(Hint::Changed(application, lane_id));
    }

    fn organization_changed(&self, _organization: OrganizationId) {
        self.send(Hint::Survey);
    }

    fn departing(&self, departures: Vec<Departure>) {
        self.send(Hint::Departing(departures));
    }

    fn everything_changed(&self) {
        self.send(Hint::Everything);
    }

    fn erased(&self, events: Vec<EventId>) {
        self.send(Hint::Erased(events));
    }
}

#[async_trait]
impl Lanes for HintSender {
    async fn report(&self, lane_id: LaneId) -> Option<LaneReport> {
        let (answer, answered) = oneshot::channel();
        self.send(Hint::Report(lane_id, answer));
        // An engine that has stopped answers nobody.
        answered.await.ok().flatten()
    }

    async fn withdraw(&self, delivery: InLane) -> Withdrawal {
        let (answer, answered) = oneshot::channel();
        self.send(Hint::Withdraw(delivery, answer));
        // An engine that has stopped sends nothing.
        answered.await.unwrap_or(Withdrawal::Elsewhere)
    }

    fn end_withdrawal(&self, delivery: InLane, due_at: Option<Timestamp>) {
        self.send(Hint::EndWithdrawal(delivery, due_at));
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::Priority;

    #[test]
    fn what_other_nodes_hint_is_dropped_beyond_a_bound_while_the_engine_lags() {
        let (sender, mut hints) = hints();
        let queue = |number: u128| WaitingQueue {
            application: ApplicationId::from_uuid(Uuid::nil()),
            lane_id: LaneId::from_uuid(Uuid::from_u128(number)),
            priority: Priority::Normal,
            due_from: Timestamp::from_secs(1),
        };
        for _ in 0..100 {
            sender.waiting((0..4_096).map(queue).collect());
        }
        sender.organization_changed(OrganizationId::from_uuid(Uuid::nil()));
        let waiting: Vec<Hint> = std::iter::from_fn(|| hints.receiver.try_recv().ok()).collect();
        assert_eq!(waiting.iter().map(Hint::remote_queues).sum::<usize>(), REMOTE_QUEUES_MAX);
        assert!(matches!(waiting.last(), Some(Hint::Survey)), "what is no hint of another node is kept");
    }
}
