//! Puts published events where they are safe: into the store, or into this node's spool while the store does not take them.
//!
//! It stands in front of [`EventStore::record`], so that `publish` knows nothing of the spool but that an event may be there. An event keeps the id under which
//! the store was asked to record it: if the store recorded it all the same, it knows that id when the event is forwarded.
//!
//! Order is promised within an application: whoever was answered from the spool reaches the store first.

use std::{sync::Arc, time::Duration};

use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::{
    ids::{ApplicationId, EventId},
    line::draft::Draft,
    metrics::Metrics,
    ports::{Clock, EventStore, IncomingEvent, KeyReused, NewEvent, Ports, Recorded, Spool, StoreError, Taken, within},
    spool::backlog::SpoolBacklog,
};

/// How long the store may take to answer before it counts as away, where there is a spool: longer than a commit on a busy server takes, and shorter
/// than publishers wait for an answer.
pub(crate) const STORE_PATIENCE: Duration = Duration::from_secs(3);

/// Takes events in.
pub struct Intake {
    store: Arc<dyn EventStore>,
    clock: Arc<dyn Clock>,
    spooling: Option<Spooling>,
    metrics: Arc<Metrics>,
}

/// Where events wait while the store does not take them.
struct Spooling {
    spool: Arc<dyn Spool>,
    backlog: Arc<SpoolBacklog>,
    /// Rung when something was put into the spool.
    bell: Arc<Notify>,
}

/// An event that was admitted.
pub(crate) enum Candidate {
    /// With the endpoints that get it.
    Matched(Draft),
    /// Of an application that is known, though the store is not asked who wants it: it is away, or the application is stalled.
    Unmatched(IncomingEvent),
}

/// Where an event is now.
pub(crate) enum Stored {
    /// What the store said of it.
    InStore(Recorded),
    /// On this node's disk.
    InSpool {
        /// The event; the one that waits already if this is a duplicate.
        event: EventId,
        /// Whether an event with the same key waits already.
        duplicate: bool,
    },
    /// Nowhere: the store does not take it, and the spool has no room for it.
    NoRoom,
}

/// What became of one event.
type Answer = Result<Stored, StoreError>;

impl Candidate {
    /// The event.
    pub(crate) fn incoming(&self) -> &IncomingEvent {
        match self {
            Self::Matched(draft) => &draft.incoming,
            Self::Unmatched(incoming) => incoming,
        }
    }

    /// The event alone.
    pub(crate) fn into_incoming(self) -> IncomingEvent {
        match self {
            Self::Matched(draft) => draft.incoming,
            Self::Unmatched(incoming) => incoming,
        }
    }

    fn to_new_event(&self) -> Option<NewEvent> {
        match self {
            Self::Matched(draft) => Some(draft.to_new_event()),
            Self::Unmatched(_) => None,
        }
    }
}

impl Intake {
    /// Over these ports.
    pub(crate) fn new(ports: &Ports, backlog: &Arc<SpoolBacklog>, bell: &Arc<Notify>, metrics: &Arc<Metrics>) -> Self {
        let spooling = |spool: &Arc<dyn Spool>| Spooling { spool: spool.clone(), backlog: backlog.clone(), bell: bell.clone() };
        Self {
            store: ports.events.clone(),
            clock: ports.clock.clone(),
            spooling: ports.spool.as_ref().map(spooling),
            metrics: metrics.clone(),
        }
    }

    /// Takes the events of one call: one answer for each, in their order.
    pub(crate) async fn take(&self, events: &[Candidate]) -> Vec<Answer> {
        match &self.spooling {
            Some(spooling) => self.take_or_spool(spooling, events).await,
            None => self.record(events.iter().filter_map(Candidate::to_new_event).collect()).await,
        }
    }

    /// Spools what must queue, records the rest, and spools what the store did not take of it.
    async fn take_or_spool(&self, spooling: &Spooling, events: &[Candidate]) -> Vec<Answer> {
        let (queueing, straight) = spooling.part(events);
        let mut answers: Vec<Option<Answer>> = events.iter().map(|_| None).collect();
        spooling.take(events, &queueing, &mut answers).await;
        let (mut unrecorded, mut failure) = (Vec::new(), None);
        for (place, answer) in straight.iter().copied().zip(self.record_in_time(events, &straight).await) {
            match answer {
                Ok(Stored::InStore(Recorded::ConfigChanged)) => unrecorded.push(place),
                Err(error @ StoreError::Unavailable(_)) => {
                    failure.get_or_insert(error);
                    unrecorded.push(place);
                }
                answer => answers[place] = Some(answer),
            }
        }
        if let Some(error) = failure {
            // Those that were to be matched again too, or they would come behind what followed them.
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                events = unrecorded.len(),
                "the store did not accept events; they are spooled"
            );
            spooling.take(events, &unrecorded, &mut answers).await;
        }
        answers.into_iter().map(|answer| answer.unwrap_or(Ok(Stored::InStore(Recorded::ConfigChanged)))).collect()
    }

    /// A store that does not answer in time counts as away: nobody is to wait for its time-outs.
    async fn record_in_time(&self, events: &[Candidate], places: &[usize]) -> Vec<Answer> {
        if places.is_empty() {
            return Vec::new();
        }
        let silence = || Err(StoreError::unavailable(format!("it did not answer within {STORE_PATIENCE:?}")));
        // Those that are not matched queue, so that they are not among these.
        let matched = places.iter().filter_map(|place| events[*place].to_new_event()).collect();
        let recorded = within(&*self.clock, STORE_PATIENCE, self.record(matched)).await;
        recorded.unwrap_or_else(|| places.iter().map(|_| silence()).collect())
    }

    async fn record(&self, events: Vec<NewEvent>) -> Vec<Answer> {
        let began_at = self.clock.uptime();
        let recorded = self.store.record(events).await;
        self.metrics.publish_commits.add(self.clock.uptime().saturating_sub(began_at).as_secs_f64());
        recorded.into_iter().map(|recorded| recorded.map(Stored::InStore)).collect()
    }
}

impl Spooling {
    /// Parts those that must go behind what waits in the spool from those that may go straight into the store: the places of both. Asked once for each
    /// application, or a later event of a batch could overtake an earlier one.
    fn part(&self, events: &[Candidate]) -> (Vec<usize>, Vec<usize>) {
        let unmatched = || events.iter().filter(|event| matches!(event, Candidate::Unmatched(_)));
        // What is in the spool or must go there is the exception.
        if self.spool.status().events == 0 && unmatched().next().is_none() {
            return (Vec::new(), (0..events.len()).collect());
        }
        let application = |event: &Candidate| event.incoming().event.application;
        // Who is stalled need not be known to anybody; with all others, the store is what is missing.
        let is_away = unmatched().any(|event| !self.backlog.is_stalled(application(event)));
        let mut must_queue: FxHashMap<ApplicationId, bool> = unmatched().map(|event| (application(event), true)).collect();
        (0..events.len()).partition(|place| {
            let application = application(&events[*place]);
            *must_queue.entry(application).or_insert_with(|| is_away || self.backlog.holds_up(application))
        })
    }

    /// Puts the events at these places into the spool and answers each.
    async fn take(&self, events: &[Candidate], places: &[usize], answers: &mut [Option<Answer>]) {
        let (fitting, refused): (Vec<usize>, Vec<usize>) =
            places.iter().copied().partition(|place| self.has_share(events[*place].incoming().event.application));
        refused.into_iter().for_each(|place| answers[place] = Some(Ok(Stored::NoRoom)));
        if fitting.is_empty() {
            return;
        }
        match self.spool.take(fitting.iter().map(|place| events[*place].incoming().clone()).collect()).await {
            Ok(taken) => {
                for (place, taken) in fitting.into_iter().zip(taken) {
                    answers[place] = Some(Ok(stored(events[place].incoming().event.id, taken)));
                }
                self.bell.notify_one();
            }
            Err(error) => {
                // Of a full disk the log hears once, from whoever watches it.
                if error.full_disk().is_none() {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "neither the store nor the spool accepted events; publishes are refused"
                    );
                }
                fitting.into_iter().for_each(|place| answers[place] = Some(Err(refusal(&error))));
            }
        }
    }

    /// Whether the spool is there for an application: for one that is stalled only while half of it is free, or those who need it when the store is away
    /// would find it full of what nobody can forward.
    fn has_share(&self, application: ApplicationId) -> bool {
        let status = self.spool.status();
        status.has_room_for(status.bytes_max / 2) || !self.backlog.is_stalled(application)
    }
}

fn stored(event: EventId, taken: Taken) -> Stored {
    match taken {
        Taken::Taken => Stored::InSpool { event, duplicate: false },
        Taken::Duplicate(first) => Stored::InSpool { event: first, duplicate: true },
        Taken::KeyReused(original) => Stored::InStore(Recorded::KeyReused(KeyReused { original, is_erased: false })),
        Taken::Full => Stored::NoRoom,
    }
}

fn refusal(error: &StoreError) -> StoreError {
    match error.full_disk() {
        Some(disk) => StoreError::disk_full(disk),
        None => StoreError::unavailable("neither the store nor the spool accepts events"),
    }
}
