//! Hints to the engine, in process: a channel that never blocks a publisher.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use crate::{
    ids::{ApplicationId, EndpointId, EventId, OrganizationId},
    ports::{Committed, Departure, LaneReport, Lanes, WaitingQueue, WakeUp},
};

/// What the engine is told.
pub(super) enum Hint {
    /// These deliveries are durable and waiting.
    Committed(Vec<Committed>),
    /// Another node made something durable in these queues.
    Waiting(Vec<WaitingQueue>),
    /// This endpoint was changed.
    Changed(ApplicationId, EndpointId),
    /// The data of these events was erased.
    Erased(Vec<EventId>),
    /// These organizations went to another worker pool.
    Departing(Vec<Departure>),
    /// The limits of an organization were changed: all lanes are looked at.
    Survey,
    /// Anything may have been changed: breakers are read again, too.
    Everything,
    /// Somebody wants to know how this lane stands.
    Report(EndpointId, oneshot::Sender<Option<LaneReport>>),
}

/// How many hints may wait with their events.
const WAITING_WITH_EVENTS_MAX: usize = 1_000;

/// The engine's end of the channel.
pub struct Hints {
    pub(super) receiver: mpsc::UnboundedReceiver<Hint>,
    /// How many hints wait: the engine counts down what it takes.
    pub(super) waiting: Arc<AtomicUsize>,
}

/// Makes the channel: what publishers hold, and what the engine is started with.
///
/// It never blocks a publisher, whose event is durable already. While the engine lags, events are left behind and only ids pass: what the channel
/// holds is then small, and is gone as soon as the engine, which does little more than take it in, has a moment.
pub fn hints() -> (Arc<HintSender>, Hints) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (Arc::new(HintSender { sender, waiting: waiting.clone() }), Hints { receiver, waiting })
}

/// What publishers hold.
pub struct HintSender {
    sender: mpsc::UnboundedSender<Hint>,
    /// How many hints wait.
    waiting: Arc<AtomicUsize>,
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

    fn waiting(&self, queues: Vec<WaitingQueue>) {
        self.send(Hint::Waiting(queues));
    }

    fn changed(&self, application: ApplicationId, endpoint: EndpointId) {
        self.send(Hint::Changed(application, endpoint));
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
    async fn report(&self, endpoint: EndpointId) -> Option<LaneReport> {
        let (answer, answered) = oneshot::channel();
        self.send(Hint::Report(endpoint, answer));
        // An engine that has stopped answers nobody.
        answered.await.ok().flatten()
    }
}
