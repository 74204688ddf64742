//! Part of step 3: asks an app to do a job, instead of sending an event to an endpoint.
//!
//! What the app says is kept before its attempt is settled, and every attempt looks first for what was said: a crash in between, or a callback that was
//! quicker than the answer, costs no second effect. Only attempts end the delivery.

use std::time::Duration;

use aws_lc_rs::digest;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;

use crate::{
    calls::{JobRequest, NOT_CHECKED, OpenCapability},
    catalog::CapabilityDestination,
    limits::evaluations::Busy,
    line::Line,
    model::{
        AfterExpiry, CallMode, Cut, Event, Expiry, FailureCategory, InFlight, JobAnswer, JobAttempt, JobOutcome, JobRecord, Parking,
        PhaseTimes, Report, Response, RetrySchedule, SealedSecret, Sent, TokenHash, TraceParent, WaitsFor,
    },
    policy::calls::{
        answer::{self, AppAnswer, AppFailure, FailureKind},
        job::{JobDocument, QUEUED_TIMEOUT, TAKE_OVER_TIMEOUT, callback_url, with_callback, words_of_error},
    },
    ports::{JobAnswered, StoreError},
};

/// What a delivery of a job is parked for.
pub fn awaited_callback(delivery: crate::ids::DeliveryId) -> WaitsFor {
    WaitsFor::parse(&format!("job:{delivery}")).expect("it is short and has no control characters")
}

/// What a token is found by.
pub fn token_hash(token: &str) -> TokenHash {
    sha256(token.as_bytes())
}

/// The SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().expect("a SHA-256 has 32 bytes")
}

/// Has an app do a job, unless it is known what became of it.
///
/// # Errors
/// [`StoreError`] if the store failed: that is no attempt.
pub(crate) async fn ask(
    line: &Line,
    flight: &InFlight,
    to: &CapabilityDestination,
    event: &Event,
    schedule: &RetrySchedule,
) -> Result<Report, StoreError> {
    let Some(job) = JobDocument::read(&event.data) else {
        return Ok(without_request(refused("the event is not a job: only calls can be sent to a capability".to_owned())));
    };
    let token = BASE64_URL_SAFE_NO_PAD.encode(line.ports.entropy.secret_bytes());
    let record = line.ports.jobs.begin_job_attempt(new_attempt(line, flight, to, token_hash(&token))).await?;
    if let Some(answer) = &record.answer {
        return Ok(without_request(known(line, &record, answer)?));
    }
    let (organization, application) = (to.lane.organization, to.lane.application);
    let Some(capability) = line.calls.of_lane(organization, application, flight.lane_id).await? else {
        return Ok(without_request(refused(format!("the application's manifest no longer has the capability `{}`", job.capability))));
    };
    if capability.spec.mode == CallMode::Off {
        return Ok(without_request(failed(
            FailureCategory::ClientError,
            "calls of this capability are switched off (`mode: off`)".to_owned(),
        )));
    }
    let timeout = if capability.spec.is_async { schedule.timeout.unwrap_or(TAKE_OVER_TIMEOUT) } else { QUEUED_TIMEOUT };
    let body = if capability.spec.is_async {
        let url = callback_url(&job.server_url, &job.capability, flight.due.event, &token);
        with_callback(&job.payload, &url)
    } else {
        job.payload.clone()
    };
    let request = line.calls.build_job(JobRequest {
        capability: &capability,
        request_id: job.request_id.parse().unwrap_or(*flight.due.event.as_uuid()),
        body,
        attempt: (flight.scheduled_number(), schedule.max_attempts),
        timeout,
        trace: event.traceparent.as_deref().and_then(TraceParent::parse),
        at: line.ports.clock.now(),
    });
    let Some(request) = request else {
        return Ok(without_request(failed(
            FailureCategory::ClientError,
            "neither the application nor its manifest has a `base_url`".to_owned(),
        )));
    };
    let report = line.ports.transport.send(request).await;
    if matches!(report.sent, Sent::OutOfResources { .. }) {
        return Ok(report);
    }
    let sent = match capability.spec.is_async {
        true => taken_over(line, flight, &capability, &report),
        false => done(line, &record, &capability, &report).await?,
    };
    Ok(Report { sent, ..report })
}

/// What an attempt says whose parking is over: the callback may have come at the last moment.
///
/// # Errors
/// [`StoreError`] if the store failed: that is no attempt.
pub(crate) async fn answer_after_expiry(line: &Line, flight: &InFlight) -> Result<Option<Report>, StoreError> {
    let Some(record) = line.ports.jobs.job(flight.due.event).await? else { return Ok(None) };
    match &record.answer {
        Some(answer) if record.delivery == flight.due.delivery => Ok(Some(without_request(known(line, &record, answer)?))),
        _ => Ok(None),
    }
}

fn new_attempt(line: &Line, flight: &InFlight, to: &CapabilityDestination, token: TokenHash) -> JobAttempt {
    JobAttempt {
        job: flight.due.event,
        organization: to.lane.organization,
        application: to.lane.application,
        lane_id: flight.lane_id,
        delivery: flight.due.delivery,
        number: flight.attempt_number(),
        token,
        at: line.ports.clock.now(),
    }
}

/// What an answer means that is known already.
fn known(line: &Line, record: &JobRecord, answer: &JobAnswer) -> Result<Sent, StoreError> {
    if answer.outcome == JobOutcome::Completed {
        return Ok(Sent::Answered(acknowledged()));
    }
    let sealed = SealedSecret(answer.data.to_vec());
    let error = line.ports.vault.open(record.lane_id.as_uuid(), &sealed).map_err(StoreError::corrupt)?;
    let words = words_of_error(&error);
    Ok(match answer.outcome {
        JobOutcome::Retry => failed(FailureCategory::ClientError, words),
        JobOutcome::Completed | JobOutcome::Failed => refused(words),
    })
}

/// What the answer of an app means that calls back later: a success takes the job over.
fn taken_over(line: &Line, flight: &InFlight, capability: &OpenCapability, report: &Report) -> Sent {
    let response = match &report.sent {
        Sent::Answered(response) => response,
        _ => return of_failure(read_failure(report), None),
    };
    // Whatever its body is: only an app that says itself that it cannot has not taken it over.
    let is_success = (200..300).contains(&response.status);
    match answer::read(report) {
        AppAnswer::Failure(failure) if !is_success || failure.kind == FailureKind::AppError => of_failure(failure, Some(response)),
        _ => {
            let at = line.ports.clock.now() + capability.spec.timeout;
            let parking =
                Parking { waits_for: awaited_callback(flight.due.delivery), expiry: Some(Expiry { at, then: AfterExpiry::Fails }) };
            Sent::Parked { parking, response: Some(without_body(response)) }
        }
    }
}

/// What the answer of an app means that does the job at once: a success is its result, which is kept first.
async fn done(line: &Line, record: &JobRecord, capability: &OpenCapability, report: &Report) -> Result<Sent, StoreError> {
    let response = match &report.sent {
        Sent::Answered(response) => Some(response),
        _ => None,
    };
    let data = match answer::read(report) {
        AppAnswer::Success { data, .. } => data,
        AppAnswer::Failure(failure) => return Ok(of_failure(failure, response)),
    };
    match line.calls.misfit(capability, &data).await {
        Ok(None) => {}
        Ok(Some(reason)) => return Ok(of_failure(AppFailure { kind: FailureKind::BadAnswer, reason, retryable: false }, response)),
        // That is our shortage, and no attempt: the app is asked again with the same id.
        Err(Busy) => return Ok(Sent::OutOfResources { error: NOT_CHECKED.to_owned() }),
    }
    keep(line, record, JobOutcome::Completed, &data, sha256(&data)).await?;
    Ok(response.map_or_else(|| Sent::Answered(acknowledged()), |response| Sent::Answered(without_body(response))))
}

/// Keeps what an app said about a job.
///
/// # Errors
/// [`StoreError`] if the store failed.
pub async fn keep(line: &Line, record: &JobRecord, outcome: JobOutcome, data: &Bytes, hash: [u8; 32]) -> Result<JobAnswered, StoreError> {
    let SealedSecret(sealed) = line.ports.vault.seal(record.lane_id.as_uuid(), data);
    let answer = JobAnswer { outcome, data: sealed.into(), hash, at: line.ports.clock.now(), found_by: None };
    line.ports.jobs.answer_job(record.id, record.delivery, answer).await
}

fn read_failure(report: &Report) -> AppFailure {
    match answer::read(report) {
        AppAnswer::Failure(failure) => failure,
        AppAnswer::Success { .. } => AppFailure { kind: FailureKind::BadAnswer, reason: "there is no answer".to_owned(), retryable: true },
    }
}

/// A job has three attempts, whatever the app answers, unless it says itself that another is pointless.
fn of_failure(failure: AppFailure, response: Option<&Response>) -> Sent {
    let AppFailure { kind, reason, retryable } = failure;
    let category = match kind {
        FailureKind::Timeout => FailureCategory::Timeout,
        FailureKind::Network | FailureKind::OutOfResources => FailureCategory::Network,
        FailureKind::RateLimit => FailureCategory::RateLimit,
        FailureKind::AppError | FailureKind::Off | FailureKind::Shadow => FailureCategory::ClientError,
        FailureKind::BadAnswer | FailureKind::Status | FailureKind::CircuitOpen | FailureKind::AtCapacity => FailureCategory::ServerError,
    };
    let response = response.map(without_body);
    match kind {
        FailureKind::AppError | FailureKind::Status if !retryable => Sent::Refused { category, error: reason, response },
        _ => Sent::Failed { category, error: reason, response },
    }
}

/// Results are kept sealed: no attempt shows them.
fn without_body(response: &Response) -> Response {
    let cut = Cut { body: response.cut.body || !response.body_sample.is_empty(), ..response.cut };
    Response { body_sample: Bytes::new(), cut, ..response.clone() }
}

fn acknowledged() -> Response {
    Response { status: 200, headers: Vec::new(), body_sample: Bytes::new(), cut: Cut::default(), retry_after: None }
}

fn refused(error: String) -> Sent {
    Sent::Refused { category: FailureCategory::ClientError, error, response: None }
}

fn failed(category: FailureCategory, error: String) -> Sent {
    Sent::Failed { category, error, response: None }
}

fn without_request(sent: Sent) -> Report {
    Report { sent, duration: Duration::ZERO, phases: PhaseTimes::default() }
}
