//! Step 5: an end that a person should know of becomes an event of the organization's `operational` application, and goes back to step 1.
//!
//! The alert is recorded in the write that settles, and published afterwards: a crash in between publishes it later, never twice, because its id is the
//! idempotency key of its event.

use bytes::Bytes;
use serde_json::json;

use crate::{
    catalog::{CallbackDestination, CapabilityDestination, Destination},
    ids::{ApplicationId, LaneId, OrganizationId},
    line::{
        Line,
        attempt::AttemptContext,
        publish::{Publication, PublishError, publish_own},
    },
    model::{
        ApplicationKind, CapabilityName, ContentType, DeathCause, Endpoint, EndpointActivity, EventType, FailingClock, HealthRecord,
        HealthReportKind, InFlight, Operation, OperationStatus, Priority, Stage,
    },
    policy::{breaker::Transition, endpoint_health::in_words, labels::Labels},
    ports::{Alert, AlertCondition, AlertId, SettlementAlert, StoreError},
    time::Timestamp,
};

/// How many alerts are published at once.
const ALERT_BATCH: u32 = 100;

/// What is reported to the organization about a settlement: nothing unless the delivery died. Operational deliveries raise none themselves, or an
/// endpoint for alerts that is down would feed on its own failures.
pub fn after(line: &Line, flight: &InFlight, with: &AttemptContext, stage: &Stage, now: Timestamp) -> Vec<SettlementAlert> {
    let Stage::Dead { cause, .. } = *stage else { return Vec::new() };
    if let Destination::Capability(to) = &with.destination {
        let alert = job_dead(line, flight, to, cause, now);
        return vec![SettlementAlert { alert, condition: AlertCondition::Always }];
    }
    if let Destination::Callback(to) = &with.destination {
        let alert = callback_failed(line, flight, to, cause, now);
        return vec![SettlementAlert { alert, condition: AlertCondition::Always }];
    }
    let Some(endpoint) = with.destination.endpoint().filter(|_| !with.destination.is_operational()) else { return Vec::new() };
    let reported = |alert, condition| SettlementAlert { alert, condition };
    let mut alerts = vec![reported(exhausted(line, flight, endpoint, cause, now), AlertCondition::Always)];
    if cause == DeathCause::Gone {
        alerts.push(reported(disabled(line, endpoint, now), AlertCondition::IfDisabledByThis));
    }
    if flight.due.replay_of.is_some() {
        alerts.push(reported(replay_failed(line, flight, endpoint, cause, now), AlertCondition::IfAutomaticReplay));
    }
    alerts
}

fn job_dead(line: &Line, flight: &InFlight, to: &CapabilityDestination, cause: DeathCause, now: Timestamp) -> Alert {
    let data = json!({
        "organization_id": to.lane.organization.to_string(),
        "application_id": to.lane.application.to_string(),
        "capability": to.name.as_ref().map(CapabilityName::as_str),
        "job_id": flight.due.event.to_string(),
        "delivery_id": flight.due.delivery.to_string(),
        "attempts": flight.attempt_number(),
        "reason": cause.as_str(),
        "died_at": now.to_string(),
    });
    Alert {
        id: line.ports.entropy.uuid(now),
        organization: to.lane.organization,
        event_type: EventType::parse("job.dead").expect("our own event types are well-formed"),
        data: Bytes::from(data.to_string()),
    }
}

fn callback_failed(line: &Line, flight: &InFlight, to: &CallbackDestination, cause: DeathCause, now: Timestamp) -> Alert {
    let data = json!({
        "organization_id": to.lane.organization.to_string(),
        "application_id": to.lane.application.to_string(),
        "job_id": flight.due.event.to_string(),
        "delivery_id": flight.due.delivery.to_string(),
        "attempts": flight.attempt_number(),
        "reason": cause.as_str(),
        "died_at": now.to_string(),
    });
    Alert {
        id: line.ports.entropy.uuid(now),
        organization: to.lane.organization,
        event_type: EventType::parse("job.callback_failed").expect("our own event types are well-formed"),
        data: Bytes::from(data.to_string()),
    }
}

fn exhausted(line: &Line, flight: &InFlight, endpoint: &Endpoint, cause: DeathCause, now: Timestamp) -> Alert {
    let mut data = about(endpoint);
    data["message_id"] = json!(flight.due.event.to_string());
    data["delivery_id"] = json!(flight.due.delivery.to_string());
    data["attempts"] = json!(flight.attempt_number());
    data["reason"] = json!(cause.as_str());
    new_alert(line, endpoint, "message.attempt.exhausted", &data, now)
}

/// That a dead letter came back by itself and died again.
fn replay_failed(line: &Line, flight: &InFlight, endpoint: &Endpoint, cause: DeathCause, now: Timestamp) -> Alert {
    let exhausted = exhausted(line, flight, endpoint, cause, now);
    Alert { event_type: EventType::parse("dlq.replay_failed").expect("our own event types are well-formed"), ..exhausted }
}

/// What is reported about an endpoint's health, and to whom.
pub struct HealthStory<'a> {
    /// About which endpoint.
    pub endpoint: &'a Endpoint,
    /// What.
    pub record: HealthRecord,
    /// How it does.
    pub activity: EndpointActivity,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// When it is attempted again.
    pub next_attempt_at: Option<Timestamp>,
}

/// What is reported to an organization about an endpoint that fails for days, or works again.
pub fn of_health(line: &Line, story: &HealthStory<'_>) -> Alert {
    let HealthStory { endpoint, record, activity, .. } = story;
    let settings = &line.endpoint_health;
    let instant = |at: Option<Timestamp>| json!(at.map(|at| at.to_string()));
    let mut data = about(endpoint);
    name(line, endpoint, &mut data);
    data["failure_count"] = json!(record.failures);
    data["last_success_at"] = instant(activity.last_success_at);
    data["last_attempt_at"] = instant(activity.last_success_at.max(activity.last_failure_at));
    let event_type = match record.kind {
        HealthReportKind::Warned => {
            data["failing_since"] = instant(record.failing_since);
            data["first_failure_at"] = instant(activity.first_failure_at);
            data["next_attempt_at"] = instant(story.next_attempt_at);
            data["last_error"] = json!(story.last_error);
            data["failing_for"] = json!(failing_for(record));
            let warned = FailingClock { warned_at: Some(record.at), ..activity.clock };
            if let (_, Some(disable_at)) = settings.deadlines(&warned) {
                data["disable_in"] = json!(in_words(disable_at.since(record.at)));
                data["disable_at"] = json!(disable_at.to_string());
            }
            "endpoint.warning"
        }
        HealthReportKind::Disabled => {
            data["failing_since"] = instant(record.failing_since);
            data["first_failure_at"] = instant(activity.first_failure_at);
            data["disabled_at"] = json!(record.at.to_string());
            data["reason"] = json!("failing");
            data["failing_for"] = json!(failing_for(record));
            data["last_error"] = json!(story.last_error);
            "endpoint.disabled"
        }
        HealthReportKind::Recovered => {
            data["recovered_at"] = instant(activity.clock.recovered_at);
            "endpoint.recovered"
        }
    };
    new_alert(line, endpoint, event_type, &data, record.at)
}

fn failing_for(record: &HealthRecord) -> Option<String> {
    record.failing_since.map(|since| in_words(record.at.since(since)))
}

/// Names for those who read it; not worth a read of the store.
fn name(line: &Line, endpoint: &Endpoint, data: &mut serde_json::Value) {
    data["endpoint_name"] = json!(endpoint.name);
    data["endpoint_description"] = json!(endpoint.description);
    data["application_name"] = json!(line.catalog.known(endpoint.application).map(|view| view.application.name.clone()));
}

fn disabled(line: &Line, endpoint: &Endpoint, now: Timestamp) -> Alert {
    let mut data = about(endpoint);
    name(line, endpoint, &mut data);
    data["disabled_at"] = json!(now.to_string());
    data["reason"] = json!("gone");
    data["last_error"] = json!("the endpoint answered 410 Gone");
    new_alert(line, endpoint, "endpoint.disabled", &data, now)
}

/// What is reported to the organization about a breaker: that it opened, and that it closed again.
///
/// # Errors
/// [`StoreError`] if the endpoint cannot be read.
pub async fn of_breaker(
    line: &Line,
    application: ApplicationId,
    lane_id: LaneId,
    transition: Transition,
) -> Result<Vec<Alert>, StoreError> {
    let (event_type, at_field) = match transition {
        _ if transition.opens() => ("circuit.opened", "opened_at"),
        _ if transition.closes() => ("circuit.closed", "closed_at"),
        _ => return Ok(Vec::new()),
    };
    let view = line.catalog.application(application).await?;
    let destination = view.as_ref().and_then(|view| view.destination(lane_id));
    // Nobody is notified of a deleted endpoint's breaker.
    let destination = destination.filter(|destination| !destination.is_operational());
    let Some(endpoint) = destination.as_ref().and_then(Destination::endpoint) else { return Ok(Vec::new()) };
    let mut data = about(endpoint);
    data["reason"] = json!(transition.cause.as_str());
    data[at_field] = json!(transition.at.to_string());
    Ok(vec![new_alert(line, endpoint, event_type, &data, transition.at)])
}

/// What is reported to the organization about the end of an operation.
pub fn of_operation(line: &Line, operation: &Operation, status: OperationStatus, now: Timestamp) -> Alert {
    let data = json!({
        "organization_id": operation.organization.to_string(),
        "operation_id": operation.id.to_string(),
        "kind": operation.kind.as_str(),
        "status": status.as_str(),
        "total": operation.total,
        "done": operation.done,
        "failed": operation.failed,
        "skipped": operation.skipped,
        "created_at": operation.created_at.to_string(),
        "finished_at": now.to_string(),
    });
    Alert {
        id: line.ports.entropy.uuid(now),
        organization: operation.organization,
        event_type: EventType::parse("operation.finished").expect("our own event types are well-formed"),
        data: Bytes::from(data.to_string()),
    }
}

/// What every alert about an endpoint says.
fn about(endpoint: &Endpoint) -> serde_json::Value {
    json!({
        "organization_id": endpoint.organization.to_string(),
        "application_id": endpoint.application.to_string(),
        "endpoint_id": endpoint.id.to_string(),
        "subscription_id": endpoint.id.to_string(),
        "endpoint_url": endpoint.target.written,
    })
}

fn new_alert(line: &Line, endpoint: &Endpoint, event_type: &str, data: &serde_json::Value, now: Timestamp) -> Alert {
    Alert {
        id: line.ports.entropy.uuid(now),
        organization: endpoint.organization,
        event_type: EventType::parse(event_type).expect("our own event types are well-formed"),
        data: Bytes::from(data.to_string()),
    }
}

/// Notifies an organization at once of something that no write records, such as a queue that cannot be consumed. A crash meanwhile loses it.
///
/// # Errors
/// [`PublishError`] if it could not be published.
pub async fn publish_now(
    line: &Line,
    organization: OrganizationId,
    event_type: &'static str,
    data: &serde_json::Value,
) -> Result<(), PublishError> {
    let alert = Alert {
        id: line.ports.entropy.uuid(line.ports.clock.now()),
        organization,
        event_type: EventType::parse(event_type).expect("our own event types are well-formed"),
        data: Bytes::from(data.to_string()),
    };
    let publication = publication(line, alert).await?.ok_or(PublishError::NoSuchApplication)?;
    publish_own(line, vec![publication]).await.pop().expect("one publication has one answer").map(|_| ())
}

/// Publishes every alert that waits.
///
/// # Errors
/// [`StoreError`] if the store cannot be reached; what was not published yet still waits.
pub async fn publish_pending(line: &Line) -> Result<(), StoreError> {
    loop {
        let pending = line.ports.outbox.pending(ALERT_BATCH).await?;
        if pending.is_empty() {
            return Ok(());
        }
        let PublishedAlerts { over, failure } = publish(line, pending).await;
        if !over.is_empty() {
            line.ports.outbox.done(over).await?;
        }
        // Continuing would read the same alerts again at once.
        if let Some(error) = failure {
            return Err(error);
        }
    }
}

/// The result of publishing some alerts.
#[derive(Default)]
struct PublishedAlerts {
    /// Those that need not be published again: they were, or cannot be.
    over: Vec<AlertId>,
    /// Why others still wait, if any do.
    failure: Option<StoreError>,
}

async fn publish(line: &Line, pending: Vec<Alert>) -> PublishedAlerts {
    let mut published = PublishedAlerts::default();
    let mut ids = Vec::with_capacity(pending.len());
    let mut publications = Vec::with_capacity(pending.len());
    for alert in pending {
        let id = alert.id;
        match publication(line, alert).await {
            Ok(Some(publication)) => {
                ids.push(id);
                publications.push(publication);
            }
            Ok(None) => published.note(id, Err(PublishError::NoSuchApplication)),
            Err(error) => published.note(id, Err(error.into())),
        }
    }
    let answers = publish_own(line, publications).await;
    ids.into_iter().zip(answers).for_each(|(id, answer)| published.note(id, answer.map(|_| ())));
    published
}

impl PublishedAlerts {
    fn note(&mut self, id: AlertId, answer: Result<(), PublishError>) {
        match answer {
            Ok(()) => self.over.push(id),
            Err(PublishError::Store(error) | PublishError::NotKnown(error)) => {
                self.failure.get_or_insert(error);
            }
            Err(PublishError::SpoolFull) => {
                self.failure.get_or_insert_with(|| StoreError::unavailable("the spool is full"));
            }
            // Its organization was deleted.
            Err(PublishError::NoSuchApplication) => self.over.push(id),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "cannot publish the alert {id}; it is dropped");
                self.over.push(id);
            }
        }
    }
}

async fn publication(line: &Line, alert: Alert) -> Result<Option<Publication>, StoreError> {
    let operational = line.ports.applications.built_in_application(alert.organization, ApplicationKind::Operational).await?;
    Ok(operational.map(|application| Publication {
        organization: alert.organization,
        application: application.id,
        event_type: alert.event_type,
        data: alert.data,
        content_type: ContentType::JSON,
        idempotency_key: Some(alert.id.to_string()),
        idempotency_window: None,
        source: Some("everhook".to_owned()),
        priority: Priority::Normal,
        timestamp: None,
        ordering_key: None,
        traceparent: None,
        labels: Labels::new(),
        headers: Vec::new(),
        only: None,
        received: None,
        sealed: false,
        parked: None,
    }))
}
