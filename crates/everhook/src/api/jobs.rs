//! Jobs: the state of calls that the app answers later, and the route at which apps call back.
//!
//! The door asks for no API key: the token in its URL, which only the app was given, says that it may.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, Query, Request, State, rejection::PathRejection},
    response::{IntoResponse as _, Response},
    routing::post,
};
use everhook_core::{
    ids::{ApplicationId, EventId},
    manage::jobs::{self, CallbackFor, CallbackRefusal, Job},
    time::Timestamp,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::MayRead,
    body::read_json,
    error::{ApiError, ProblemKind, ReadProblems},
    page::{List, PageQuery},
    run_to_completion,
    uids::Uids,
    wire::{Identified, Named, NoParams, Params, json},
    words::JobStatusWord,
};
use crate::memory::Charge;

/// The largest callback: as large as the answer to a call may be.
const CALLBACK_BYTES_MAX: usize = 256 * 1024;

/// The routes that the OpenAPI document describes.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default().routes(routes!(get)).routes(routes!(list))
}

/// Where apps call back. It is not in the OpenAPI document: only an app that was given the URL calls it. docs/apps.md describes it.
pub(super) fn door() -> Router<Arc<Api>> {
    Router::new().route("/api/v1/callbacks/{capability}/{job_id}", post(call_back))
}

/// A call that became a job.
#[derive(Serialize, ToSchema)]
pub struct JobOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(format = "uuid")]
    application_id: String,
    #[schema(required = true)]
    application_uid: Option<String>,
    /// The capability; null if the event of the job was erased and the manifest no longer has it.
    #[schema(required = true)]
    capability: Option<String>,
    /// The app saw it as `X-Request-ID`. Null in lists.
    #[schema(format = "uuid", required = true)]
    request_id: Option<String>,
    /// `queued` (waiting to be sent to the app), `sent` (the app has it and is to call back), `completed`, `failed` (the app said
    /// so), `dead` (given up) or `cancelled`.
    #[schema(value_type = JobStatusWord)]
    status: &'static str,
    /// The number of attempts so far; a missing callback counts as an attempt.
    attempt_count: u32,
    /// The result: any JSON value. Null in lists.
    #[schema(value_type = Option<serde_json::Value>, required = true)]
    result: Option<Box<RawValue>>,
    /// What the app reported: `{code?, message?, retryable?}`.
    #[schema(value_type = Option<serde_json::Value>, required = true)]
    error: Option<Box<RawValue>>,
    /// How much is done, in percent, as the app last reported since it was last asked; null if it did not.
    #[schema(required = true, minimum = 0, maximum = 100, example = 40)]
    progress: Option<u8>,
    /// What it said beside that.
    #[schema(required = true)]
    progress_message: Option<String>,
    /// When it reported that.
    #[schema(format = DateTime, required = true)]
    progress_at: Option<String>,
    /// The error of the last attempt, in words.
    #[schema(required = true)]
    last_error: Option<String>,
    /// The delivery that asks the app: its attempts, retry and cancellation are those of every delivery.
    #[schema(format = "uuid")]
    delivery_id: String,
    #[schema(format = DateTime, required = true)]
    next_attempt_at: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime, required = true)]
    ended_at: Option<String>,
}

impl JobOut {
    fn new(job: Job, uids: &Uids) -> Self {
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
        let raw = |json: Option<bytes::Bytes>| {
            json.and_then(|json| String::from_utf8(json.to_vec()).ok()).and_then(|text| RawValue::from_string(text).ok())
        };
        Self {
            id: job.id.to_string(),
            application_id: job.application.to_string(),
            application_uid: uids.application(job.application),
            capability: job.capability,
            request_id: job.request_id,
            status: job.status.as_str(),
            attempt_count: job.attempts,
            result: raw(job.result),
            error: raw(job.error),
            progress: job.progress.as_ref().map(|progress| progress.percent),
            progress_at: text(job.progress.as_ref().map(|progress| progress.at)),
            progress_message: job.progress.and_then(|progress| progress.message),
            last_error: job.last_error,
            delivery_id: job.delivery.to_string(),
            next_attempt_at: text(job.next_attempt_at),
            created_at: job.created_at.to_string(),
            ended_at: text(job.ended_at),
        }
    }
}

/// A page of them.
pub type JobList = List<JobOut>;

/// Returns a job with its result.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", tag = "calls", operation_id = "get_job", params(("id" = String, Path, description = "The job's id")),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The job", body = JobOut), ReadProblems),
)]
async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Identified(id): Identified<EventId>,
) -> Result<Response, ApiError> {
    let job = jobs::get(&api.line, caller.organization, id).await?.ok_or_else(|| ApiError::not_found("job"))?;
    let uids = Uids::of_applications(&api, caller.organization, [job.application]).await?;
    Ok(json(StatusCode::OK, &JobOut::new(job, &uids)))
}

/// Lists the jobs of an application, newest first.
#[utoipa::path(
    get, path = "/v1/applications/{id}/jobs", tag = "calls", operation_id = "list_jobs",
    params(("id" = String, Path, description = "The application's id or uid"), PageQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of jobs", body = JobList), ReadProblems),
)]
async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Params(query): Params<PageQuery>,
    Named(of): Named<ApplicationId>,
) -> Result<Response, ApiError> {
    let application = api.line.ports.applications.application(caller.organization, &of).await?;
    let application = application.ok_or_else(|| ApiError::not_found("application"))?.id;
    let page = query.read()?.fetch(|page| jobs::list(&api.line, caller.organization, application, page)).await?;
    let uids = Uids::of_applications(&api, caller.organization, [application]).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(|job| JobOut::new(job, &uids)))))
}

/// How many callbacks are looked up in the store at once: strangers may post there, and others need its connections.
static LOOK_UPS: Semaphore = Semaphore::const_new(32);

/// What the URL of a callback carries beside its path.
#[derive(Deserialize)]
struct CallbackQuery {
    #[serde(default)]
    token: String,
}

type Segments = Result<Path<(String, String)>, PathRejection>;

async fn call_back(
    State(api): State<Arc<Api>>,
    segments: Segments,
    query: Result<Query<CallbackQuery>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Response {
    let (Ok(Path((capability, job))), Ok(Query(query))) = (segments, query) else { return no_such_job().into_response() };
    match take(&api, capability, &job, query.token, request).await {
        Ok(()) => json(StatusCode::OK, &serde_json::json!({ "received": true })),
        Err(error) => error.into_response(),
    }
}

async fn take(api: &Arc<Api>, capability: String, job: &str, token: String, request: Request) -> Result<(), ApiError> {
    let job: EventId = job.parse().map_err(|_| no_such_job())?;
    // Strangers may post here: nothing is read of who does not have the token.
    let of = CallbackFor { capability: &capability, job, token: &token };
    let look_up = LOOK_UPS.acquire().await;
    let record = jobs::find_answerable(&api.line, of).await.map_err(problem)?;
    drop(look_up);
    let charge = Charge::new(api.bodies.clone(), record.organization);
    let (body, charge) = read_json(request, CALLBACK_BYTES_MAX, charge).await?;
    let line = api.line.clone();
    let taking = async move {
        let taken = jobs::call_back(&line, &record, &body).await;
        drop(charge);
        taken
    };
    run_to_completion(taking).await?.map_err(problem)
}

fn problem(refusal: CallbackRefusal) -> ApiError {
    match refusal {
        CallbackRefusal::NotFound => no_such_job(),
        CallbackRefusal::Ended => ApiError::new(
            ProblemKind::JobEnded,
            "the job has already ended, or a different result was reported before; this result is ignored",
        ),
        CallbackRefusal::Invalid(reason) => ApiError::new(ProblemKind::InvalidFields, reason),
        CallbackRefusal::TooSoon { wait } => ApiError::too_many(
            ProblemKind::ProgressRateLimit,
            "progress was reported less than a second ago: this report is not used",
            wait,
        ),
        CallbackRefusal::Busy => ApiError::evaluation_busy(),
        CallbackRefusal::Store(error) => error.into(),
    }
}

fn no_such_job() -> ApiError {
    ApiError::new(ProblemKind::NotFound, "no job has this id and token")
}
