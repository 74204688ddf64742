//! Step 3: the request is sent. No transaction is open here, and nothing is written.
//!
//! The destination is checked again just before the request, because it may have been disabled or paused while the delivery waited for its turn, and so
//! is the lease: another node may send for its lane by now, or another pool.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{
    catalog::{CapabilityDestination, ChannelDestination, Destination},
    ids::{RevisionNumber, SourceId},
    lifecycle,
    line::{
        Line, callback,
        email::{self, Unsendable},
        job, processing,
        request::{self, Outgoing, USER_AGENT},
        service,
        spans::Attempting,
    },
    metrics::{AttemptLabels, Counter, SourceCounts, SourceEvents},
    model::{
        AfterExpiry, Attempt, Breakdown, ChannelTarget, Endpoint, Event, EventType, FailureCategory, InFlight, PhaseTimes, Report,
        RetrySchedule, Sent, Stage,
    },
    policy::timeout,
    ports::StoreError,
    sources::ReceivedOutcome,
    time::Timestamp,
};

/// How long an attempt at a mail may take: mail servers scan a mail before they accept it.
const MAIL_TIMEOUT: Duration = Duration::from_secs(60);

/// What came of a flight's turn.
pub enum Attempted {
    /// A request was made.
    Sent {
        /// What it was made with; settling needs it again.
        with: AttemptContext,
        /// Its result.
        report: Report,
        /// When it was begun.
        executed_at: Timestamp,
        /// What shaped it; `None` if there was nothing to send.
        revision: Option<RevisionNumber>,
        /// Where the event came in, if a provider sent it.
        received: Option<ReceivedAt>,
        /// What it is counted under.
        labels: AttemptLabels,
        /// The type of its event, if that counts in the statistics by event type.
        event_type: Option<EventType>,
        /// Its span, if somebody records its trace.
        span: Option<Box<Attempting>>,
    },
    /// The endpoint was disabled, deleted or paused since, or its lane is no longer this node's: no request was made.
    Withheld,
    /// The event was erased since: no request was made, and none will be.
    Erased,
    /// This machine had nothing left to make a request with: none was made, and the delivery still waits.
    OutOfResources,
}

/// Where and when an event came in, for the statistics of its source.
#[derive(Clone, Debug)]
pub struct ReceivedAt {
    /// The source.
    pub source: SourceId,
    /// What kind of event.
    pub event_type: EventType,
    /// When it was accepted.
    pub at: Timestamp,
}

impl ReceivedAt {
    /// Of an event; `None` if no provider sent it.
    fn of(event: &Event) -> Option<Self> {
        let received = event.received.as_ref()?;
        Some(Self { source: received.source, event_type: event.event_type.clone(), at: event.created_at })
    }

    /// Counts an attempt that led to this stage. How long a replay comes after the receipt is a person's doing, and says nothing about processing.
    pub fn count(&self, line: &Line, flight: &InFlight, stage: &Stage) {
        let now = line.ports.clock.now();
        let latency = flight.due.replay_of.is_none().then(|| now.since(self.at));
        let Some(outcome) = ReceivedOutcome::of(stage, latency) else { return };
        line.sources.tallies.attempted(self.source, self.event_type.as_str(), outcome, now);
        let counts = line.metrics.sources.get(&self.source, SourceCounts::default);
        match outcome {
            ReceivedOutcome::Completed(latency) => {
                counts.count(SourceEvents::Completed, 1);
                latency.iter().for_each(|latency| counts.latency.add(latency.as_secs_f64()));
            }
            ReceivedOutcome::Failed => counts.count(SourceEvents::Failed, 1),
            ReceivedOutcome::Dead => {
                counts.count(SourceEvents::Failed, 1);
                counts.count(SourceEvents::Dead, 1);
            }
        }
    }
}

/// What an attempt needs beside the event.
#[derive(Clone)]
pub struct AttemptContext {
    /// Where to.
    pub destination: Destination,
    /// The schedule version of the delivery's making.
    pub schedule: Arc<RetrySchedule>,
}

impl AttemptContext {
    /// Counts an attempt in the statistics of its organization by retry schedule, event type and source.
    pub fn break_down(&self, line: &Line, attempt: &Attempt, event_type: Option<EventType>, source: Option<SourceId>) {
        let schedule = Breakdown::RetrySchedule(self.schedule.name.clone());
        let others = event_type.map(Breakdown::EventType).into_iter().chain(source.map(Breakdown::Source));
        line.breakdowns.count(self.destination.lane().organization, [schedule].into_iter().chain(others), attempt, line.ports.clock.now());
    }
}

/// Sends one delivery.
///
/// # Errors
/// [`StoreError`] if the event or the endpoint could not be read: no request was made, and the delivery still waits.
#[tracing::instrument(name = "attempt", level = "debug", skip_all, fields(delivery.id = %flight.due.delivery, lane.id = %flight.lane_id))]
pub async fn attempt(line: &Line, flight: &InFlight) -> Result<Attempted, StoreError> {
    let Some(with) = equip(line, flight).await? else { return Ok(Attempted::Withheld) };
    if let Some(then) = flight.due.expired {
        let answered = match &with.destination {
            Destination::Capability(_) => Box::pin(job::answer_after_expiry(line, flight)).await?,
            _ => None,
        };
        if let Some(report) = answered.or_else(|| expired(then)) {
            return Ok(unsent(line, flight, with, report));
        }
    }
    let event = match load(line, flight).await? {
        Loaded::Whole(event) => event,
        Loaded::Erased => return Ok(Attempted::Erased),
        Loaded::Missing => {
            return Ok(unsent(line, flight, with, missing_event()));
        }
    };
    let gets_events = lifecycle::cancellation(with.destination.state()).is_none() && !with.destination.is_paused();
    if !gets_events || !line.held_lease.may_send(&with.destination) {
        return Ok(Attempted::Withheld);
    }
    let revision = with.destination.endpoint().map(|endpoint| endpoint.revision);
    let executed_at = line.ports.clock.now();
    // The last look before the request: it may have been erased after it was read.
    if line.erasures.has(event.id, executed_at) {
        return Ok(Attempted::Erased);
    }
    let (received, labels) = (ReceivedAt::of(&event), labels(line, flight, &with, Some(&event.event_type)));
    let event_type = with.destination.gets_published_events().then(|| event.event_type.clone());
    let span = Attempting::of(line, &event).map(Box::new);
    let report = match &with.destination {
        Destination::Endpoint(to) => {
            let shape = line.catalog.shapes.open(&to.endpoint, &*line.ports.vault)?;
            let outgoing = Outgoing {
                organization: to.endpoint.organization,
                delivery: flight.due.delivery,
                attempt_number: flight.attempt_number(),
                replay_of: flight.due.replay_of,
                event: &event,
                shape: &shape,
                user_agent: Bytes::from_static(USER_AGENT.as_bytes()),
                at: executed_at,
            };
            let outgoing = request::build(&outgoing, attempt_timeout(flight, &to.endpoint, &with.schedule));
            drop((event, shape));
            line.ports.transport.send(outgoing).await
        }
        // On the heap, because it is rare: every attempt carries the room for it.
        Destination::Channel(to) => Box::pin(notify(line, flight, to, &event, &with.schedule)).await?,
        Destination::Processor(to) => Box::pin(processing::process(line, to, &event, &with.schedule)).await?,
        Destination::Capability(to) => Box::pin(job::ask(line, flight, to, &event, &with.schedule)).await?,
        Destination::Callback(to) => Box::pin(callback::report(line, flight, to, &event, &with.schedule)).await?,
    };
    if let Sent::OutOfResources { error } = &report.sent {
        line.log_shortage(error);
        return Ok(Attempted::OutOfResources);
    }
    Ok(Attempted::Sent { with, report, executed_at, revision, received, labels, event_type, span })
}

/// An attempt that ends without a request.
fn unsent(line: &Line, flight: &InFlight, with: AttemptContext, report: Report) -> Attempted {
    let labels = labels(line, flight, &with, None);
    let executed_at = line.ports.clock.now();
    Attempted::Sent { with, report, executed_at, revision: None, received: None, labels, event_type: None, span: None }
}

/// What an attempt is counted under.
fn labels(line: &Line, flight: &InFlight, with: &AttemptContext, event_type: Option<&EventType>) -> AttemptLabels {
    let organization = with.destination.lane().organization;
    let labels = line.metrics.labels(organization, event_type, flight.due.retry_schedule, &with.schedule.name.0);
    match (&with.destination, event_type) {
        (Destination::Channel(_), Some(name)) => {
            AttemptLabels { notifications: Some(line.metrics.notifications.get(name, Counter::new)), ..labels }
        }
        _ => labels,
    }
}

/// Sends a notification: by e-mail, or through the service that the organization set up.
async fn notify(
    line: &Line,
    flight: &InFlight,
    to: &ChannelDestination,
    event: &Event,
    schedule: &RetrySchedule,
) -> Result<Report, StoreError> {
    let address = match &to.channel.to {
        ChannelTarget::Admin(address) | ChannelTarget::Owner(address) => address,
        ChannelTarget::Service(service) => return service::notify(line, flight, to, service, event).await,
    };
    let Some(notifier) = &line.ports.notifier else { return Ok(email::unsendable(Unsendable::NoMailServer)) };
    let timeout = schedule.timeout.unwrap_or(MAIL_TIMEOUT);
    match email::build(event, flight.due.delivery, address, &line.notifications.brand, timeout) {
        Some(mail) => Ok(notifier.send(&mail).await),
        None => Ok(email::unsendable(Unsendable::NoWords)),
    }
}

/// The destination as it is now, and the schedule version of the delivery; `None` if the destination is gone.
pub async fn equip(line: &Line, flight: &InFlight) -> Result<Option<AttemptContext>, StoreError> {
    let Some(view) = line.catalog.application(flight.application).await? else { return Ok(None) };
    let Some(destination) = view.destination(flight.lane_id) else { return Ok(None) };
    let destination = match destination {
        Destination::Capability(to) => Destination::Capability(Arc::new(Box::pin(name_capability(line, &to)).await?)),
        other => other,
    };
    let schedule = line.catalog.schedule(view.application.organization, flight.due.retry_schedule).await?;
    Ok(Some(AttemptContext { destination, schedule }))
}

/// A capability with the name that the manifest gives it: its dead letter is to say which it was.
async fn name_capability(line: &Line, to: &CapabilityDestination) -> Result<CapabilityDestination, StoreError> {
    let found = line.calls.of_lane(to.lane.organization, to.lane.application, to.lane.lane_id).await?;
    Ok(to.named(found.map(|capability| capability.name.clone())))
}

/// An event, as far as it could be read.
enum Loaded {
    /// All of it.
    Whole(Arc<Event>),
    /// No data, because somebody wanted it gone.
    Erased,
    /// The store does not hold it whole: trying again would not heal that, and would hold up everything behind it.
    Missing,
}

async fn load(line: &Line, flight: &InFlight) -> Result<Loaded, StoreError> {
    if let Some(event) = &flight.due.loaded {
        return Ok(Loaded::Whole(event.clone()));
    }
    let id = flight.due.event;
    match line.ports.events.event(id).await {
        Ok(Some(event)) => Ok(Loaded::Whole(Arc::new(event))),
        Ok(None) if line.ports.events.is_erased(id).await? => Ok(Loaded::Erased),
        Ok(None) => {
            tracing::error!(event.id = %id, "the event {id} is missing from the store; its delivery fails");
            Ok(Loaded::Missing)
        }
        Err(error @ StoreError::Corrupt(_)) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, event.id = %id, "the event {id} is damaged in the store; its delivery fails");
            Ok(Loaded::Missing)
        }
        Err(error) => Err(error),
    }
}

/// What a delivery waited for did not come in time: no request is made, and this is what its attempt says. `None` if it is attempted then.
fn expired(then: AfterExpiry) -> Option<Report> {
    let (category, error, response) = (FailureCategory::Timeout, "timed out while parked".to_owned(), None);
    let sent = match then {
        AfterExpiry::Fails => Sent::Failed { category, error, response },
        AfterExpiry::GivesUp => Sent::Refused { category, error, response },
        AfterExpiry::TriesAgain => return None,
    };
    Some(Report { sent, duration: Duration::ZERO, phases: PhaseTimes::default() })
}

fn attempt_timeout(flight: &InFlight, endpoint: &Endpoint, schedule: &RetrySchedule) -> Duration {
    timeout::attempt_timeout(endpoint.timeout, schedule.timeout, endpoint.timeout_growth_factor, flight.attempt_number())
}

/// An event that a delivery names and the store does not hold is a fault of ours. It is recorded as a failure, so that it is seen and ends.
fn missing_event() -> Report {
    let error = "the data of this event was removed".to_owned();
    let sent = Sent::Failed { category: FailureCategory::Network, error, response: None };
    Report { sent, duration: Duration::ZERO, phases: PhaseTimes::default() }
}
