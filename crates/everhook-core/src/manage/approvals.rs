//! Approvals: calls that a person decides about. Requested by `jobs`, decided by the API, and continued by `jobs::approvals` beside the line, should this
//! process end in between.
//!
//! A decision is one write, and names the event that follows from it: the job, or the message to the caller. That event is published afterwards, under the
//! id that the decision has given it: publishing it again finds it, so that there is exactly one even if processes are killed in between.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use uuid::Uuid;

use super::{Conflict, Fault, Noun, Refusal, audit, check_text, jobs::job_publication, refuse_faults};
use crate::{
    calls::{OpenCapability, answered::CallAnswer, call::CallRequest},
    ids::{ApprovalId, EventId, OrganizationId},
    limits::evaluations::Busy,
    line::{
        Line,
        publish::{Publication, PublishError, publish_as},
    },
    model::{
        Approval, ApprovalDecision, ApprovalEnd, AuditAction, Author, ContentType, EventType, Page, PageRequest, Priority, SealedSecret,
        callback_lane,
    },
    policy::{
        self,
        audit::Facts,
        calls::{
            approval::{APPROVAL_EVENT_TYPE, ApprovalMessage, ApprovalReport},
            job::JobDocument,
        },
        labels::Labels,
    },
    ports::{Alert, ApprovalFilter, ApprovalRequested, Decided, StoreError, within},
    time::Timestamp,
};

/// How many calls of one application may wait for people: what a person can work off in a day, and a quarter of a gigabyte of the largest payloads.
pub const PENDING_MAX: u32 = 1_000;

/// How long the store may take to keep a call that waits for a person. Past it the caller gets an error, although it may be kept.
const KEEP_PATIENCE: Duration = Duration::from_secs(2);

/// The longest reason.
const REASON_CHARS_MAX: usize = 1_000;

/// How many decisions of which the event is not published yet are read at once: each may hold the largest payload.
const UNPUBLISHED_READ: u32 = 20;

/// How many that are past their time are ended in one go.
const EXPIRED_READ: u32 = 100;

/// Why a call does not wait for a person.
#[derive(Debug)]
pub enum NotRequested {
    /// As many calls of its application wait as may.
    TooMany,
    /// The application was deleted meanwhile.
    NoSuchApplication,
    /// Its payload cannot be kept.
    Payload(&'static str),
    /// The store failed.
    Store(StoreError),
}

/// A call that waits for a person, as shown to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requested {
    /// Its approval.
    pub approval: ApprovalId,
    /// Until when it waits.
    pub expires_at: Timestamp,
}

/// Has a call wait for a person. Durable when it returns.
pub(super) async fn request(
    line: &Line,
    capability: &OpenCapability,
    answer: &CallAnswer,
    asked: &CallRequest,
    expires_after: Duration,
    server_url: &str,
) -> Result<Requested, NotRequested> {
    let now = line.ports.clock.now();
    let call = JobDocument {
        capability: capability.name.as_str().to_owned(),
        request_id: answer.request_id.to_string(),
        server_url: server_url.to_owned(),
        callback_url: asked.callback_url.clone(),
        payload: asked.payload.clone(),
    };
    let call = call.write().ok_or(NotRequested::Payload("must be JSON"))?;
    let SealedSecret(sealed) = line.ports.vault.seal(capability.lane_id.as_uuid(), &call);
    let cause = answer.failure.as_ref().map_or_else(String::new, |failure| format!("{}: {}", failure.kind.as_str(), failure.reason));
    let approval = Approval {
        id: ApprovalId::from_uuid(line.ports.entropy.uuid(now)),
        organization: capability.organization,
        application: capability.application,
        capability: capability.name.clone(),
        lane_id: capability.lane_id,
        request_id: answer.request_id,
        cause,
        call: Some(sealed.into()),
        requested_at: now,
        expires_at: now + expires_after,
        decision: None,
    };
    let requested = Requested { approval: approval.id, expires_at: approval.expires_at };
    let alert = alert(line, &approval);
    let keeping = line.ports.approvals.request_approval(approval, PENDING_MAX, alert);
    let kept = within(&*line.ports.clock, KEEP_PATIENCE, keeping).await;
    match kept.unwrap_or_else(|| Err(StoreError::unavailable("keeping a call that waits for a person took too long"))) {
        Ok(ApprovalRequested::Kept) => {
            line.approvals_bell.notify_one();
            Ok(requested)
        }
        Ok(ApprovalRequested::TooMany) => Err(NotRequested::TooMany),
        Ok(ApprovalRequested::NoSuchApplication) => Err(NotRequested::NoSuchApplication),
        Err(error) => Err(NotRequested::Store(error)),
    }
}

fn alert(line: &Line, approval: &Approval) -> Alert {
    let data = json!({
        "organization_id": approval.organization.to_string(),
        "application_id": approval.application.to_string(),
        "capability": approval.capability.as_str(),
        "approval_id": approval.id.to_string(),
        "request_id": approval.request_id.to_string(),
        "reason": approval.cause,
        "requested_at": approval.requested_at.to_string(),
        "expires_at": approval.expires_at.to_string(),
    });
    Alert {
        id: line.ports.entropy.uuid(approval.requested_at),
        organization: approval.organization,
        event_type: EventType::parse("approval.requested").expect("our own event types are well-formed"),
        data: Bytes::from(data.to_string()),
    }
}

/// An approval, as people see it.
#[derive(Clone, Debug)]
pub struct ApprovalView {
    /// What is kept.
    pub approval: Approval,
    /// What the app would be asked, a JSON text; `None` in lists, and once nothing needs it any more.
    pub payload: Option<Bytes>,
    /// Where the caller is notified of the end, if it asked for that and it is not done.
    pub callback_url: Option<String>,
    /// What a person gave as the answer, a JSON text; `None` in lists.
    pub data: Option<Bytes>,
}

/// One approval of an organization, with its payload.
///
/// # Errors
/// [`Refusal::NotFound`] if there is none with this id.
pub async fn get(line: &Line, organization: OrganizationId, id: ApprovalId) -> Result<ApprovalView, Refusal> {
    let approval = line.ports.approvals.approval(organization, id).await?.ok_or(Refusal::NotFound(Noun::Approval))?;
    Ok(opened(line, approval)?)
}

/// Lists approvals, newest first, without payloads and answers, which may be large.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn list(
    line: &Line,
    organization: OrganizationId,
    filter: ApprovalFilter,
    page: PageRequest,
) -> Result<Page<ApprovalView>, StoreError> {
    let found = line.ports.approvals.approvals(organization, filter, page).await?;
    Ok(found.map(|approval| ApprovalView { approval, payload: None, callback_url: None, data: None }))
}

/// What a person decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The app is to be asked for it, as a job.
    Queue,
    /// The call ends with this JSON text.
    Answer(Bytes),
    /// The call ends without an answer.
    Reject,
}

/// Decides about a call. The same decision again is answered the same. It must run to its end: callers that may be dropped half-way spawn it.
///
/// # Errors
/// [`Refusal`] says what is wrong, that there is no such approval, or that it was decided otherwise.
pub async fn decide(line: &Line, by: &Author, id: ApprovalId, verdict: Verdict, reason: Option<String>) -> Result<ApprovalView, Refusal> {
    let approval = line.ports.approvals.approval(by.organization, id).await?.ok_or(Refusal::NotFound(Noun::Approval))?;
    if approval.decision.is_some() {
        return decided_before(line, approval, &verdict);
    }
    check(line, &approval, &verdict, reason.as_ref()).await?;
    if verdict == Verdict::Queue {
        // What cannot be read any more cannot become a job.
        call_of(line, &approval)?;
    }
    let decision = decision(line, by, &approval, &verdict, reason);
    let action = if verdict == Verdict::Reject { AuditAction::ApprovalReject } else { AuditAction::ApprovalApprove };
    let kept = keep(line, by, &approval, &decision, action).await.inspect_err(|_| {
        // It may be durable all the same: the task beside the line finds out.
        line.approvals_bell.notify_one();
    });
    match kept? {
        Decided::Decided => {
            let approval = Approval { decision: Some(decision), ..approval };
            if let Err(error) = publish_end(line, &approval).await {
                // What was decided is durable. The task beside the line completes it.
                tracing::debug!(error = &error as &dyn std::error::Error, approval.id = %id, "a decision is published a moment later");
                line.approvals_bell.notify_one();
            }
            get(line, by.organization, id).await
        }
        Decided::Before(other) => decided_before(line, *other, &verdict),
        Decided::NotFound => Err(Refusal::NotFound(Noun::Approval)),
    }
}

async fn check(line: &Line, approval: &Approval, verdict: &Verdict, reason: Option<&String>) -> Result<(), Refusal> {
    let mut faults = Vec::new();
    if let Some(Err(words)) = reason.map(|reason| check_text(reason.clone(), REASON_CHARS_MAX)) {
        faults.push(Fault::new("reason", words));
    }
    if let Verdict::Answer(data) = verdict
        && let Some(capability) = line.calls.of_lane(approval.organization, approval.application, approval.lane_id).await?
        && let Some(words) = line.calls.misfit(&capability, data).await.map_err(|Busy| Refusal::Busy)?
    {
        faults.push(Fault::new("data", words));
    }
    refuse_faults(faults)
}

/// What a verdict means for a call, with the event that follows from it.
fn decision(line: &Line, by: &Author, approval: &Approval, verdict: &Verdict, reason: Option<String>) -> ApprovalDecision {
    let at = line.ports.clock.now();
    let event = EventId::from_uuid(line.ports.entropy.uuid(at));
    // The caller of a call that cannot be decrypted any more cannot be notified; that the call has ended is recorded all the same.
    let call = call_of(line, approval).inspect_err(|error| {
        tracing::error!(error = error as &dyn std::error::Error, approval.id = %approval.id, "cannot decrypt a call that waits for a decision; it ends, and its caller is not notified. Check that the server has the sealing key that encrypted it");
    });
    let notifies_caller = call.is_ok_and(|call| call.is_some_and(|call| call.callback_url.is_some()));
    let (end, unpublished) = match verdict {
        Verdict::Queue => (ApprovalEnd::Queued { job: event }, Some(event)),
        Verdict::Answer(data) => {
            let SealedSecret(sealed) = line.ports.vault.seal(approval.lane_id.as_uuid(), data);
            (ApprovalEnd::Answered { data: Some(sealed.into()) }, notifies_caller.then_some(event))
        }
        Verdict::Reject => (ApprovalEnd::Rejected, notifies_caller.then_some(event)),
    };
    ApprovalDecision { end, by: by.actor.clone(), reason, at, unpublished }
}

async fn keep(
    line: &Line,
    by: &Author,
    approval: &Approval,
    decision: &ApprovalDecision,
    action: AuditAction,
) -> Result<Decided, StoreError> {
    let decided = Approval { decision: Some(decision.clone()), ..approval.clone() };
    let note = policy::audit::changed(&facts(approval), &facts(&decided));
    let entry = audit::entry(line, by, action, approval.id.as_uuid(), note);
    line.ports.approvals.decide_approval(approval.organization, approval.id, decision.clone(), entry).await
}

/// What the audit log says. What a person gave as the answer may be about people, and is not in it.
fn facts(approval: &Approval) -> Facts {
    let decision = approval.decision.as_ref();
    let job = decision.and_then(|decision| match decision.end {
        ApprovalEnd::Queued { job } => Some(job.to_string()),
        ApprovalEnd::Answered { .. } | ApprovalEnd::Rejected | ApprovalEnd::Expired => None,
    });
    let has_data = decision.is_some_and(|decision| matches!(decision.end, ApprovalEnd::Answered { .. }));
    Facts::default()
        .plain("status", approval.status().as_str())
        .plain("reason", decision.and_then(|decision| decision.reason.clone()))
        .plain("job_id", job)
        .plain("with_data", has_data)
}

/// The answer to a decision about what was decided before.
fn decided_before(line: &Line, approval: Approval, verdict: &Verdict) -> Result<ApprovalView, Refusal> {
    let view = opened(line, approval)?;
    let Some(decision) = &view.approval.decision else { return Ok(view) };
    let is_same = match (&decision.end, verdict) {
        (ApprovalEnd::Queued { .. }, Verdict::Queue) | (ApprovalEnd::Rejected, Verdict::Reject) => true,
        (ApprovalEnd::Answered { .. }, Verdict::Answer(data)) => view.data.as_ref() == Some(data),
        _ => false,
    };
    if is_same {
        if decision.unpublished.is_some() {
            line.approvals_bell.notify_one();
        }
        return Ok(view);
    }
    let words = match decision.end {
        ApprovalEnd::Queued { .. } => "the call was approved, and is a job",
        ApprovalEnd::Answered { .. } => "the call was approved, and has ended with other data",
        ApprovalEnd::Rejected => "the call was rejected",
        ApprovalEnd::Expired => "the call expired before a decision was made",
    };
    Err(Refusal::Conflict(Conflict::ApprovalDecided, words.to_owned()))
}

/// The call that waits; `None` if it is not kept any more.
fn call_of(line: &Line, approval: &Approval) -> Result<Option<JobDocument>, StoreError> {
    let Some(sealed) = &approval.call else { return Ok(None) };
    let plain = open(line, approval, sealed)?;
    let unfit = || StoreError::corrupt(format!("the call of the approval {} cannot be understood", approval.id));
    JobDocument::read(&plain).map(Some).ok_or_else(unfit)
}

fn open(line: &Line, approval: &Approval, sealed: &Bytes) -> Result<Bytes, StoreError> {
    let plain = line.ports.vault.open(approval.lane_id.as_uuid(), &SealedSecret(sealed.to_vec()));
    plain.map(Bytes::from).map_err(StoreError::corrupt)
}

fn opened(line: &Line, approval: Approval) -> Result<ApprovalView, StoreError> {
    let call = call_of(line, &approval)?;
    let data = match approval.decision.as_ref().map(|decision| &decision.end) {
        Some(ApprovalEnd::Answered { data: Some(sealed) }) => Some(open(line, &approval, sealed)?),
        _ => None,
    };
    let (payload, callback_url) = call.map_or((None, None), |call| (Some(call.payload), call.callback_url));
    Ok(ApprovalView { approval, payload, callback_url, data })
}

/// Publishes what follows from a decision, under the id that it has: what was published before is found.
async fn publish_end(line: &Line, approval: &Approval) -> Result<(), PublishError> {
    let Some(ApprovalDecision { end, reason, unpublished: Some(event), .. }) = &approval.decision else { return Ok(()) };
    if let Some(call) = call_of(line, approval)? {
        let publication = match end {
            ApprovalEnd::Queued { .. } => job_publication(approval.organization, approval.application, approval.lane_id, &call),
            ApprovalEnd::Answered { .. } | ApprovalEnd::Rejected | ApprovalEnd::Expired => {
                message(line, approval, reason.as_deref(), &call)?
            }
        };
        if let Some(publication) = publication {
            match publish_as(line, *event, publication).await {
                // With its application, everybody is gone who would wait for it.
                Ok(_) | Err(PublishError::NoSuchApplication) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(line.ports.approvals.approval_published(approval.id, *event).await?)
}

/// The event that notifies the caller; `None` if the caller did not ask for one.
fn message(line: &Line, approval: &Approval, reason: Option<&str>, call: &JobDocument) -> Result<Option<Publication>, StoreError> {
    let Some(callback_url) = &call.callback_url else { return Ok(None) };
    let result = match approval.decision.as_ref().map(|decision| &decision.end) {
        Some(ApprovalEnd::Answered { data: Some(sealed) }) => Some(open(line, approval, sealed)?),
        _ => None,
    };
    let report = ApprovalReport {
        approval: approval.id.to_string(),
        capability: approval.capability.as_str(),
        request_id: approval.request_id.to_string(),
        status: approval.status(),
        reason,
        result: result.as_deref(),
    };
    Ok(Some(Publication {
        organization: approval.organization,
        application: approval.application,
        event_type: EventType::parse(APPROVAL_EVENT_TYPE).expect("our own event types are well-formed"),
        data: ApprovalMessage::write(callback_url, &report),
        content_type: ContentType::JSON,
        idempotency_key: None,
        idempotency_window: None,
        source: Some("everhook".to_owned()),
        priority: Priority::Normal,
        ordering_key: None,
        timestamp: None,
        traceparent: None,
        labels: Labels::new(),
        headers: Vec::new(),
        only: Some(callback_lane(approval.application).endpoint()),
        received: None,
        // It may hold what the platform knows about people, as answers do.
        sealed: true,
        parked: None,
    }))
}

/// Publishes what follows from decisions and is not published yet: the node that should have done it died, or the store was away. Says whether all of it
/// is.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub(crate) async fn publish_ends(line: &Line) -> Result<bool, StoreError> {
    let (mut after, mut has_failed) = (ApprovalId::from_uuid(Uuid::nil()), false);
    loop {
        let waiting = line.ports.approvals.unpublished_approvals(after, UNPUBLISHED_READ).await?;
        let is_all = waiting.len() < UNPUBLISHED_READ as usize;
        for approval in waiting {
            after = approval.id;
            if let Err(error) = publish_end(line, &approval).await {
                tracing::warn!(error = &error as &dyn std::error::Error, approval.id = %approval.id, "cannot publish what follows from a decision about a call; it is tried again");
                has_failed = true;
            }
        }
        if is_all {
            return Ok(!has_failed);
        }
    }
}

/// Ends calls that have waited for a person until their time was over. Says when the next one's is.
///
/// # Errors
/// [`StoreError`] if the store cannot be read or written to.
pub(crate) async fn expire(line: &Line) -> Result<Option<Timestamp>, StoreError> {
    loop {
        let waiting = line.ports.approvals.expiring_approvals(EXPIRED_READ).await?;
        let now = line.ports.clock.now();
        let next = waiting.iter().map(|approval| approval.expires_at).find(|at| *at > now);
        let is_all = waiting.len() < EXPIRED_READ as usize;
        for approval in waiting.into_iter().filter(|approval| approval.expires_at <= now) {
            expire_one(line, approval.organization, approval.id).await?;
        }
        if is_all || next.is_some() {
            return Ok(next);
        }
    }
}

async fn expire_one(line: &Line, organization: OrganizationId, id: ApprovalId) -> Result<(), StoreError> {
    let Some(approval) = line.ports.approvals.approval(organization, id).await? else { return Ok(()) };
    let by = Author::server(organization);
    let decided = decision(line, &by, &approval, &Verdict::Reject, None);
    let expired = ApprovalDecision { end: ApprovalEnd::Expired, ..decided };
    keep(line, &by, &approval, &expired, AuditAction::ApprovalExpire).await?;
    Ok(())
}
