//! Jobs: calls that are put on the line instead of being answered at once, what apps call back about them, and their state. Called by the API.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use uuid::Uuid;

use super::approvals::{self, NotRequested, Requested};
use crate::{
    calls::{
        OpenCapability,
        answered::{CallAnswer, Handover, Step},
        call::{self, CallRequest},
    },
    ids::{ApplicationId, ApprovalId, EventId, LaneId, OrganizationId},
    limits::evaluations::Busy,
    line::{
        Line,
        job::{awaited_callback, keep, sha256, token_hash},
        job_state::{self, AnswerShown},
        parking,
        publish::{Acceptance, Publication, PublishError, publish},
    },
    model::{
        AnswerCount, BreakerState, CapabilityName, ContentType, EventType, JobOutcome, JobProgress, JobRecord, Page, PageRequest, Priority,
        TraceParent,
    },
    policy::calls::job::{CALLBACK_LABEL, Callback, JOB_EVENT_TYPE, JobDocument, refusal_of_payload, refused_callback},
    ports::{EventFilter, JobAnswered, JobProgressed, StoreError},
    time::Timestamp,
};

pub use crate::line::job_state::Job;

/// How many characters a job's token has: 32 bytes in Base64.
const TOKEN_CHARS: usize = 43;

/// How often an app may say how far it is with a job: each is a write, and nobody looks more often.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// What came of a call.
#[derive(Debug)]
pub enum Called {
    /// It was answered, or nothing answered it.
    Answered(CallAnswer),
    /// It is a job now.
    Queued(QueuedCall),
    /// It waits for a person.
    Pending(PendingCall),
}

/// A call that waits for a person.
#[derive(Clone, Debug)]
pub struct PendingCall {
    /// What a person decides about it.
    pub approval: ApprovalId,
    /// Until when it waits.
    pub expires_at: Timestamp,
    /// Names the call.
    pub request_id: Uuid,
    /// The state of the breaker.
    pub circuit: BreakerState,
    /// How long the caller waited.
    pub duration: Duration,
    /// Why the app's answer was not used.
    pub warning: Option<String>,
    /// What was tried, in order.
    pub steps: Vec<Step>,
}

/// A call that became a job.
#[derive(Clone, Debug)]
pub struct QueuedCall {
    /// The job.
    pub job: EventId,
    /// Names the call: the `X-Request-ID` that the app sees.
    pub request_id: Uuid,
    /// The state of the breaker.
    pub circuit: BreakerState,
    /// How long the caller waited.
    pub duration: Duration,
    /// Why the app's answer was not used, if it was asked.
    pub warning: Option<String>,
    /// What was tried, in order.
    pub steps: Vec<Step>,
}

/// Why a call neither became a job nor waits for a person.
#[derive(Debug)]
pub enum NotQueued {
    /// Its payload cannot be that of a job.
    Payload(&'static str),
    /// It could not be put on the line.
    Publish(PublishError),
    /// As many calls of its application wait for people as may.
    TooManyPending,
}

impl From<NotRequested> for NotQueued {
    fn from(reason: NotRequested) -> Self {
        match reason {
            NotRequested::TooMany => Self::TooManyPending,
            NotRequested::NoSuchApplication => Self::Publish(PublishError::NoSuchApplication),
            NotRequested::Payload(words) => Self::Payload(words),
            NotRequested::Store(error) => Self::Publish(error.into()),
        }
    }
}

/// Makes a call: of an `async` capability it is a job at once, of another one if its fallback says so; or it waits for a person. `server_url` is what this
/// server's URLs begin with. A job, or that it waits, is durable when this returns. It must run to its end: callers that may be dropped half-way spawn it.
///
/// # Errors
/// [`NotQueued`] if it should have become a job, or wait, and does not.
pub async fn call(line: &Line, capability: &Arc<OpenCapability>, request: CallRequest, server_url: &str) -> Result<Called, NotQueued> {
    if !capability.spec.is_async {
        let asked = request.clone();
        let answer = call::call(&line.calls, capability, request).await;
        return match answer.handed_over {
            None => Ok(Called::Answered(answer)),
            Some(handover) => hand_over(line, capability, handover, answer, &asked, server_url).await,
        };
    }
    if let Some(reason) = refusal_of_payload(&request.payload) {
        return Err(NotQueued::Payload(reason));
    }
    let request_id = line.ports.entropy.uuid(line.ports.clock.now());
    let job = queue(line, capability, request_id, &request, server_url).await;
    line.calls.count_handover(capability.lane_id, job.as_ref().ok().map(|_| AnswerCount::Queued), false);
    let job = job?;
    let duration = line.ports.clock.now().since(request.arrived_at);
    let circuit = line.calls.gate(capability).await.breaker_state(line.ports.clock.now());
    Ok(Called::Queued(QueuedCall { job, request_id, circuit, duration, warning: None, steps: Vec::new() }))
}

/// Makes a job of a call that nothing answered, or has it wait for a person.
async fn hand_over(
    line: &Line,
    capability: &OpenCapability,
    to: Handover,
    answer: CallAnswer,
    asked: &CallRequest,
    server_url: &str,
) -> Result<Called, NotQueued> {
    let warning = answer.failure.as_ref().map(|failure| format!("{}: {}", failure.kind.as_str(), failure.reason));
    let (request_id, circuit) = (answer.request_id, answer.circuit);
    let waited = || line.ports.clock.now().since(asked.arrived_at);
    let (called, what) = match to {
        Handover::Queue => {
            let job = queue(line, capability, request_id, asked, server_url).await;
            let queued = |job| Called::Queued(QueuedCall { job, request_id, circuit, duration: waited(), warning, steps: answer.steps });
            (job.map(queued), AnswerCount::Queued)
        }
        Handover::Manual { expires_after } => {
            let requested = approvals::request(line, capability, &answer, asked, expires_after, server_url).await;
            let pending = |Requested { approval, expires_at }| {
                let (duration, steps) = (waited(), answer.steps);
                Called::Pending(PendingCall { approval, expires_at, request_id, circuit, duration, warning, steps })
            };
            (requested.map(pending).map_err(NotQueued::from), AnswerCount::Pending)
        }
    };
    line.calls.count_handover(capability.lane_id, called.is_ok().then_some(what), true);
    called
}

/// Puts a call on the line: an event for the lane of its capability alone.
async fn queue(
    line: &Line,
    capability: &OpenCapability,
    request_id: Uuid,
    request: &CallRequest,
    server_url: &str,
) -> Result<EventId, NotQueued> {
    let document = JobDocument {
        capability: capability.name.as_str().to_owned(),
        request_id: request_id.to_string(),
        server_url: server_url.to_owned(),
        callback_url: request.callback_url.clone(),
        payload: request.payload.clone(),
    };
    let deliveries_wanted = if document.callback_url.is_none() { 1 } else { 2 };
    let publication = job_publication(capability.organization, capability.application, capability.lane_id, &document);
    let traceparent = request
        .trace
        .as_ref()
        .map(|TraceParent { trace, flags, .. }| format!("00-{trace}-{:016x}-{flags}", request_id.as_u64_pair().1.max(1)));
    let publication = Publication { traceparent, ..publication.ok_or(NotQueued::Payload("must be JSON"))? };
    let accepted = publish(line, vec![publication]).await.pop().expect("one publication has one answer");
    match accepted.map_err(NotQueued::Publish)? {
        // The lanes are made with the manifest. If one were not there, nobody would ever do the job, or report its end.
        Acceptance::Recorded(published) if published.deliveries < deliveries_wanted => Err(NotQueued::Publish(StoreError::Conflict.into())),
        accepted => Ok(accepted.event()),
    }
}

/// The event that a job is; `None` if its payload is no JSON.
pub(super) fn job_publication(
    organization: OrganizationId,
    application: ApplicationId,
    lane_id: LaneId,
    document: &JobDocument,
) -> Option<Publication> {
    Some(Publication {
        organization,
        application,
        event_type: job_type(),
        data: document.write()?,
        content_type: ContentType::JSON,
        idempotency_key: None,
        idempotency_window: None,
        source: Some("everhook".to_owned()),
        priority: Priority::Normal,
        ordering_key: None,
        timestamp: None,
        traceparent: None,
        labels: document.callback_url.iter().map(|_| (CALLBACK_LABEL.to_owned(), "true".to_owned())).collect(),
        headers: Vec::new(),
        only: Some(lane_id.endpoint()),
        received: None,
        // It may hold what the platform knows about people, as answers do.
        sealed: true,
        parked: None,
    })
}

fn job_type() -> EventType {
    EventType::parse(JOB_EVENT_TYPE).expect("our own event types are well-formed")
}

/// Why a callback was not taken.
#[derive(Debug)]
pub enum CallbackRefusal {
    /// There is no such job, or the token is not one of its.
    NotFound,
    /// The job has ended, or was answered otherwise.
    Ended,
    /// What it says cannot be read, or is not what the manifest says a result is.
    Invalid(String),
    /// The app said how far it is a moment ago.
    TooSoon {
        /// When it may say so again.
        wait: Duration,
    },
    /// It could not be checked, because too much is being evaluated; nothing was kept, and calling back again is safe.
    Busy,
    /// The store failed; nothing was kept, as far as is known, and calling back again is safe.
    Store(StoreError),
}

impl From<StoreError> for CallbackRefusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Busy> for CallbackRefusal {
    fn from(Busy: Busy) -> Self {
        Self::Busy
    }
}

/// Who calls back, and about what.
#[derive(Clone, Copy, Debug)]
pub struct CallbackFor<'a> {
    /// The capability, as the URL names it.
    pub capability: &'a str,
    /// The job.
    pub job: EventId,
    /// The token that the request carried.
    pub token: &'a str,
}

/// The job that somebody may call back about. Asked before anything of the callback is read: strangers may post there.
///
/// # Errors
/// [`CallbackRefusal::NotFound`] if there is none, or the token is not one of its.
pub async fn find_answerable(line: &Line, of: CallbackFor<'_>) -> Result<JobRecord, CallbackRefusal> {
    if of.token.len() != TOKEN_CHARS {
        return Err(CallbackRefusal::NotFound);
    }
    let record = line.ports.jobs.job(of.job).await?.ok_or(CallbackRefusal::NotFound)?;
    let lane = CapabilityName::parse(of.capability).map(|name| name.lane(record.application));
    let may_answer = lane == Some(record.lane_id) && record.tokens.contains(&token_hash(of.token));
    if may_answer { Ok(record) } else { Err(CallbackRefusal::NotFound) }
}

/// Takes what an app says about a job. Said again, it is taken again and changes nothing. It must run to its end: callers that may be dropped half-way
/// spawn it.
///
/// # Errors
/// [`CallbackRefusal`] says why it was not taken.
pub async fn call_back(line: &Line, record: &JobRecord, body: &Bytes) -> Result<(), CallbackRefusal> {
    if record.is_contract_test() {
        return call_back_in_test(line, record, body).await;
    }
    let (outcome, data) = match Callback::read(body).map_err(CallbackRefusal::Invalid)? {
        Callback::End { outcome, data } => (outcome, data),
        Callback::Progress { percent, message } => {
            let progress = JobProgress { percent, message, at: line.ports.clock.now() };
            return note_progress(line, record, progress).await;
        }
    };
    if outcome == JobOutcome::Completed
        && let Some(capability) = line.calls.of_lane(record.organization, record.application, record.lane_id).await?
        && let Some(reason) = line.calls.misfit(&capability, &data).await?
    {
        return Err(CallbackRefusal::Invalid(reason));
    }
    let hash = sha256(body);
    match keep(line, record, outcome, &data, hash).await? {
        JobAnswered::Kept => {}
        // The first caller may have been cut off before the delivery was let go.
        JobAnswered::Before(before) if before.hash == hash => {}
        JobAnswered::Before(_) | JobAnswered::Ended => return Err(CallbackRefusal::Ended),
    }
    // It is kept. If this fails, the delivery continues when its time is over.
    if let Err(error) = parking::release(line, record.organization, &awaited_callback(record.delivery)).await {
        line.log_delay("releasing a job whose app has called back", &error);
    }
    Ok(())
}

/// Takes what an app says in a contract test. The test, maybe on another node, is told what was wrong with it as well.
async fn call_back_in_test(line: &Line, record: &JobRecord, body: &Bytes) -> Result<(), CallbackRefusal> {
    let (outcome, data) = match Callback::read(body) {
        Ok(Callback::End { outcome, data }) => (outcome, data),
        Ok(Callback::Progress { .. }) => return Ok(()),
        Err(reason) => {
            keep(line, record, JobOutcome::Failed, &refused_callback(&reason), sha256(body)).await?;
            return Err(CallbackRefusal::Invalid(reason));
        }
    };
    let hash = sha256(body);
    match keep(line, record, outcome, &data, hash).await? {
        JobAnswered::Kept => Ok(()),
        JobAnswered::Before(before) if before.hash == hash => Ok(()),
        JobAnswered::Before(_) | JobAnswered::Ended => Err(CallbackRefusal::Ended),
    }
}

/// Keeps how far an app is with a job. Neither the job nor its deadline is touched: an app that reports and never ends must not hold a job open.
async fn note_progress(line: &Line, record: &JobRecord, progress: JobProgress) -> Result<(), CallbackRefusal> {
    let is_same = |last: &JobProgress| (last.percent, &last.message) == (progress.percent, &progress.message);
    let last_at_most = progress.at - PROGRESS_INTERVAL;
    // Most of an app that reports too often is refused without a write.
    if let Some(last) = record.progress.as_ref().filter(|last| record.answer.is_none() && !is_same(last) && last.at > last_at_most) {
        return Err(CallbackRefusal::TooSoon { wait: last.at.since(last_at_most) });
    }
    match line.ports.jobs.note_job_progress(record.id, record.delivery, progress.clone(), last_at_most).await? {
        JobProgressed::Noted => Ok(()),
        // It was said before, or two requests came at once.
        JobProgressed::TooSoon(last) if is_same(&last) => Ok(()),
        JobProgressed::TooSoon(last) => Err(CallbackRefusal::TooSoon { wait: last.at.since(last_at_most) }),
        JobProgressed::Ended => Err(CallbackRefusal::Ended),
    }
}

/// One job of an organization; `None` if there is none with this id.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn get(line: &Line, organization: OrganizationId, id: EventId) -> Result<Option<Job>, StoreError> {
    let Some((summary, event)) = line.ports.history.event(organization, id).await? else { return Ok(None) };
    let Some(mut job) = job_state::of_event(line, organization, (summary.id, summary.created_at), AnswerShown::Whole).await? else {
        return Ok(None);
    };
    if let Some(document) = event.and_then(|event| JobDocument::read(&event.data)) {
        job.capability = Some(document.capability);
        job.request_id = Some(document.request_id);
    }
    Ok(Some(job))
}

/// Jobs of an application, newest first, without their results, which may be large.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn list(
    line: &Line,
    organization: OrganizationId,
    application: ApplicationId,
    page: PageRequest,
) -> Result<Page<Job>, StoreError> {
    let filter = EventFilter { application: Some(application), event_type: Some(job_type()), ..EventFilter::default() };
    let found = line.ports.history.events(organization, filter, page).await?;
    let mut jobs = Vec::with_capacity(found.rows.len());
    for summary in found.rows {
        // An event that a publisher gave the same type to is no job.
        jobs.extend(job_state::of_event(line, organization, (summary.id, summary.created_at), AnswerShown::Error).await?);
    }
    Ok(Page { rows: jobs, next: found.next, prev: found.prev })
}
