//! Part of step 3: notifies the caller of a job of its end, at the URL that the call named; and the caller of a call that a person has ended.
//!
//! The job's event has a second delivery, made in the same write as the first, so that what was promised with the 202 is on disk. Its attempts look how the
//! job's state. Until it has ended they park the delivery; the settlement of the end releases it, and should that be lost, the parking ends by time.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use url::Url;

use crate::{
    catalog::CallbackDestination,
    ids::{EventId, OrganizationId},
    line::{
        Line,
        job_state::{self, AnswerShown, DELIVERIES_LOOKED_AT, Job},
        parking,
        request::{USER_AGENT, trace_and_flags},
    },
    model::{
        AfterExpiry, Cursor, Event, Expiry, FailureCategory, InFlight, PageRequest, Parking, PhaseTimes, Report, RetrySchedule, Sent,
        SignatureStyle, Target, WaitsFor, callback_lane,
    },
    policy::calls::{
        approval::{APPROVAL_EVENT_TYPE, ApprovalMessage},
        job::JobDocument,
        job_report::JobReport,
    },
    ports::{DeliveryFilter, OutgoingHeader, OutgoingMethod, OutgoingRequest, StoreError},
    signing::{self, Keys, Signable},
    time::Timestamp,
};

/// How long a caller's server may take where the retry schedule does not say.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a delivery waits before it looks again at a job whose end was not reported to it; doubled with each look,
const LOOK_DELAY: Duration = Duration::from_secs(30);
/// up to this.
const LOOK_DELAY_MAX: Duration = Duration::from_secs(60 * 60);

/// The type that the request names.
const ENDED_EVENT_TYPE: &str = "job.ended";

/// A job whose end is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedJob {
    /// The tenant.
    pub organization: OrganizationId,
    /// The job.
    pub job: EventId,
}

/// What the delivery to a caller is parked for.
fn awaited_end(job: EventId) -> WaitsFor {
    WaitsFor::parse(&format!("job_end:{job}")).expect("it is short and has no control characters")
}

/// Releases the deliveries that wait for the end of jobs. Called behind the write that ended them. If it fails, they look again by themselves.
pub(crate) async fn announce(line: Arc<Line>, ended: Vec<EndedJob>) {
    for EndedJob { organization, job } in ended {
        if let Err(error) = release(&line, organization, job).await {
            line.log_delay("notifying the caller of a job that it has ended", &error);
        }
    }
}

/// Most jobs have nobody who waits for them: these cost a read.
async fn release(line: &Line, organization: OrganizationId, job: EventId) -> Result<(), StoreError> {
    let filter = DeliveryFilter { event: Some(job), ..DeliveryFilter::default() };
    let page = PageRequest { limit: DELIVERIES_LOOKED_AT, cursor: Cursor::Newest };
    let deliveries = line.ports.history.deliveries(organization, filter, page).await?.rows;
    if deliveries.iter().any(|one| one.lane_id == callback_lane(one.application) && !one.stage.has_ended()) {
        parking::release(line, organization, &awaited_end(job)).await?;
    }
    Ok(())
}

/// Notifies the caller, if the job has ended. A message about an approval is an event of its own, and holds the body.
///
/// # Errors
/// [`StoreError`] if the store failed: that is no attempt.
pub(crate) async fn report(
    line: &Line,
    flight: &InFlight,
    to: &CallbackDestination,
    event: &Event,
    schedule: &RetrySchedule,
) -> Result<Report, StoreError> {
    let timeout = schedule.timeout.unwrap_or(CALLBACK_TIMEOUT);
    let organization = to.lane.organization;
    if event.event_type.as_str() == APPROVAL_EVENT_TYPE {
        let Some(ApprovalMessage { callback_url, body }) = ApprovalMessage::read(&event.data) else {
            return Ok(refused("the event is not about a decision"));
        };
        let Some(target) = target_of(&callback_url) else { return Ok(refused("the call has no `callback_url`")) };
        return send(line, flight, to, event, Message { target, body, timeout }).await;
    }
    let Some(document) = JobDocument::read(&event.data) else { return Ok(refused("the event is not a job")) };
    let Some(target) = document.callback_url.as_deref().and_then(target_of) else { return Ok(refused("the job has no `callback_url`")) };
    let Some(job) = job_state::of_event(line, organization, (event.id, event.created_at), AnswerShown::Whole).await? else {
        return Ok(refused("the event is not a job"));
    };
    if !job.status.has_ended() {
        return Ok(without_request(parked(flight, event.id, line.ports.clock.now())));
    }
    send(line, flight, to, event, Message { target, body: body_of(&job, &document), timeout }).await
}

fn target_of(url: &str) -> Option<Target> {
    Some(Target { written: url.to_owned(), url: Url::parse(url).ok()? })
}

/// What a caller is told, where, and how long its server may take.
struct Message {
    target: Target,
    body: Bytes,
    timeout: Duration,
}

async fn send(
    line: &Line,
    flight: &InFlight,
    to: &CallbackDestination,
    event: &Event,
    Message { target, body, timeout }: Message,
) -> Result<Report, StoreError> {
    let (organization, application) = (to.lane.organization, to.lane.application);
    let now = line.ports.clock.now();
    let Some(keys) = line.calls.keys(organization, application).await? else {
        return Ok(refused("the application no longer has a manifest, and with it no signing secret"));
    };
    let headers = headers(flight, event, &keys, &body, now);
    let request = OutgoingRequest { organization, method: OutgoingMethod::Post, target: Arc::new(target), headers, body, timeout };
    Ok(line.ports.transport.send(request).await)
}

fn parked(flight: &InFlight, job: EventId, now: Timestamp) -> Sent {
    let doublings = flight.due.parkings.min(8);
    let at = now + (LOOK_DELAY * (1 << doublings)).min(LOOK_DELAY_MAX);
    let parking = Parking { waits_for: awaited_end(job), expiry: Some(Expiry { at, then: AfterExpiry::TriesAgain }) };
    Sent::Parked { parking, response: None }
}

fn body_of(job: &Job, document: &JobDocument) -> Bytes {
    let report = JobReport {
        job: job.id.to_string(),
        capability: &document.capability,
        request_id: &document.request_id,
        status: job.status,
        attempts: job.attempts,
        result: job.result.as_deref(),
        error: job.error.as_deref(),
        last_error: job.last_error.as_deref(),
    };
    report.write()
}

/// Those of a webhook, so that receivers verify both alike. The job is the message: a caller that is notified twice recognizes it by its id.
fn headers(flight: &InFlight, event: &Event, keys: &Keys, body: &Bytes, now: Timestamp) -> Vec<(OutgoingHeader, Bytes)> {
    let signable = Signable { event: event.id, at: now, body, style: SignatureStyle::Hex };
    let signatures = signing::sign(keys, &signable);
    let (id, attempt) = (event.id.to_string(), flight.scheduled_number().to_string());
    let span = flight.due.delivery.as_uuid().as_u64_pair().1.max(1);
    let traceparent = match event.traceparent.as_deref().and_then(trace_and_flags) {
        Some((trace, flags)) => format!("00-{trace}-{span:016x}-{flags}"),
        None => format!("00-{}-{span:016x}-01", event.id.as_uuid().simple()),
    };
    let texts = [
        ("content-type", Some("application/json".to_owned())),
        ("user-agent", Some(USER_AGENT.to_owned())),
        ("webhook-id", Some(id)),
        ("webhook-timestamp", Some(now.as_secs().to_string())),
        ("webhook-signature", Some(signatures.webhook_signature)),
        ("x-webhook-event", Some(notified_type(event).to_owned())),
        ("x-webhook-delivery", Some(flight.due.delivery.to_string())),
        ("x-webhook-attempt", Some(attempt)),
        ("x-webhook-signature", Some(signatures.x_webhook_signature)),
        ("x-webhook-signature-next", signatures.x_webhook_signature_next),
        ("traceparent", Some(traceparent)),
    ];
    texts.into_iter().filter_map(|(name, value)| Some((name.into(), Bytes::from(value?)))).collect()
}

/// A job has ended, or a person has decided about a call.
fn notified_type(event: &Event) -> &'static str {
    if event.event_type.as_str() == APPROVAL_EVENT_TYPE { APPROVAL_EVENT_TYPE } else { ENDED_EVENT_TYPE }
}

fn refused(error: &str) -> Report {
    without_request(Sent::Refused { category: FailureCategory::ClientError, error: error.to_owned(), response: None })
}

fn without_request(sent: Sent) -> Report {
    Report { sent, duration: Duration::ZERO, phases: PhaseTimes::default() }
}
