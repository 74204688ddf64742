//! The state of a job: it follows from its deliveries and what its app said, and is kept nowhere. Used where it is shown, and by `callback`.

use bytes::Bytes;

use crate::{
    ids::{ApplicationId, DeliveryId, EventId, OrganizationId},
    line::Line,
    model::{Cursor, Delivery, JobOutcome, JobProgress, JobRecord, JobStatus, LaneKind, PageRequest, SealedSecret, Stage, callback_lane},
    ports::{DeliveryFilter, StoreError},
    time::Timestamp,
};

/// How many deliveries of a job are examined, the newest: each retry by hand makes one.
pub(super) const DELIVERIES_LOOKED_AT: u32 = 50;

/// A job, as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: EventId,
    /// Whose capability.
    pub application: ApplicationId,
    /// Which; `None` if its event was erased and the manifest does not name it any more.
    pub capability: Option<String>,
    /// Names the call that it was; `None` in lists, and if its event was erased.
    pub request_id: Option<String>,
    /// Its state.
    pub status: JobStatus,
    /// How many attempts were recorded.
    pub attempts: u32,
    /// The result, a JSON text, if it is done.
    pub result: Option<Bytes>,
    /// The error that the app reported, a JSON text.
    pub error: Option<Bytes>,
    /// How far the app said that it is, since it was last asked.
    pub progress: Option<JobProgress>,
    /// What the last attempt said, in words.
    pub last_error: Option<String>,
    /// The delivery that asks the app.
    pub delivery: DeliveryId,
    /// When the app is asked next.
    pub next_attempt_at: Option<Timestamp>,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// What is shown of the app's answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AnswerShown {
    /// All of it.
    Whole,
    /// The error alone: results may be large.
    Error,
}

/// The job that an event is, as its newest delivery and its app's answer have it, without what only its data says; `None` if it is none.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn of_event(
    line: &Line,
    organization: OrganizationId,
    (id, created_at): (EventId, Timestamp),
    shown: AnswerShown,
) -> Result<Option<Job>, StoreError> {
    let filter = DeliveryFilter { event: Some(id), ..DeliveryFilter::default() };
    let page = PageRequest { limit: DELIVERIES_LOOKED_AT, cursor: Cursor::Newest };
    let deliveries = line.ports.history.deliveries(organization, filter, page).await?.rows;
    let is_of_app = |delivery: &Delivery| delivery.kind == LaneKind::Capability && delivery.lane_id != callback_lane(delivery.application);
    let Some(newest) = deliveries.into_iter().find(is_of_app) else { return Ok(None) };
    let record = line.ports.jobs.job(id).await?.filter(|record| record.delivery == newest.id);
    let capability = line.calls.of_lane(organization, newest.application, newest.lane_id).await?;
    let status = status(&newest, record.as_ref());
    let (mut result, mut error) = (None, None);
    let answer = record.as_ref().and_then(|record| record.answer.as_ref());
    if let Some(answer) = answer.filter(|answer| shown == AnswerShown::Whole || answer.outcome != JobOutcome::Completed) {
        let data = line.ports.vault.open(newest.lane_id.as_uuid(), &SealedSecret(answer.data.to_vec())).map_err(StoreError::corrupt)?;
        match answer.outcome {
            JobOutcome::Completed => result = Some(Bytes::from(data)),
            JobOutcome::Failed | JobOutcome::Retry => error = Some(Bytes::from(data)),
        }
    }
    Ok(Some(Job {
        id,
        application: newest.application,
        capability: capability.map(|capability| capability.name.as_str().to_owned()),
        request_id: None,
        status,
        attempts: newest.attempts,
        result,
        error,
        progress: record.and_then(|record| record.progress),
        last_error: newest.last_error.clone(),
        delivery: newest.id,
        next_attempt_at: match newest.stage {
            Stage::Waiting { due_at } => Some(due_at),
            _ => None,
        },
        created_at,
        ended_at: match newest.stage {
            Stage::Delivered { at } | Stage::Dead { at, .. } | Stage::Cancelled { at, .. } => Some(at),
            Stage::Waiting { .. } | Stage::Held | Stage::Parked(_) => None,
        },
    }))
}

/// The state of a job: what the app said is what counts, and its delivery a moment later says the same.
fn status(delivery: &Delivery, record: Option<&JobRecord>) -> JobStatus {
    let said = record.and_then(|record| record.answer.as_ref()).map(|answer| answer.outcome);
    match (said, &delivery.stage) {
        (_, Stage::Cancelled { .. }) => JobStatus::Cancelled,
        (Some(JobOutcome::Completed), _) | (_, Stage::Delivered { .. }) => JobStatus::Completed,
        (Some(JobOutcome::Failed), _) => JobStatus::Failed,
        (_, Stage::Dead { .. }) => JobStatus::Dead,
        (_, Stage::Parked(_)) => JobStatus::Sent,
        (_, Stage::Waiting { .. } | Stage::Held) => JobStatus::Queued,
    }
}
