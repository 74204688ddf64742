//! Approvals: calls that people decide about.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use everhook_core::{
    ids::ApprovalId,
    manage::{
        Fault,
        approvals::{self, ApprovalView, Verdict},
    },
    model::{ApprovalEnd, ApprovalStatus},
    ports::ApprovalFilter,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{MayManage, MayRead},
    audit_log::ActorOut,
    body::{check_depth, parse_object, read_json},
    error::{ApiError, ChangeProblems, ReadProblems},
    page::{List, RequestedPage},
    publish::{BESIDE_DATA_BYTES, present},
    run_to_completion,
    uids::Uids,
    wire::{Identified, NoParams, Params, json, read},
};
use crate::{
    api::words::{ApprovalActionWord, ApprovalStatusWord},
    memory::Charge,
};

/// The routes.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default().routes(routes!(list)).routes(routes!(get, decide))
}

/// A call that a person decides about.
#[derive(Serialize, ToSchema)]
pub struct ApprovalOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(format = "uuid")]
    application_id: String,
    #[schema(required = true)]
    application_uid: Option<String>,
    capability: String,
    /// `pending` (it waits for a person), `approved` (it became a job, or has ended with `data`), `rejected`, or `expired` (no decision was made in time).
    #[schema(value_type = ApprovalStatusWord)]
    status: &'static str,
    /// Names the call: its answer has the same.
    #[schema(format = "uuid")]
    request_id: String,
    /// Why the app's answer was not used.
    cause: String,
    /// The payload of the call: any JSON value. Null in lists, and after the decision.
    #[schema(value_type = Option<serde_json::Value>, required = true)]
    payload: Option<Box<RawValue>>,
    #[schema(format = DateTime)]
    requested_at: String,
    /// Until when it waits.
    #[schema(format = DateTime)]
    expires_at: String,
    #[schema(format = DateTime, required = true)]
    decided_at: Option<String>,
    /// Who decided; null while it waits.
    #[schema(required = true)]
    decided_by: Option<ActorOut>,
    /// Why, in that one's words.
    #[schema(required = true)]
    reason: Option<String>,
    /// The job that it became: see `GET /v1/jobs/{id}`.
    #[schema(format = "uuid", required = true)]
    job_id: Option<String>,
    /// What the person gave as the answer: any JSON value. Null in lists.
    #[schema(value_type = Option<serde_json::Value>, required = true)]
    data: Option<Box<RawValue>>,
}

impl ApprovalOut {
    fn new(view: ApprovalView, uids: &Uids) -> Self {
        let raw = |json: Option<Bytes>| {
            json.and_then(|json| String::from_utf8(json.to_vec()).ok()).and_then(|text| RawValue::from_string(text).ok())
        };
        let ApprovalView { approval, payload, data, .. } = view;
        let status = approval.status().as_str();
        let is_pending = approval.decision.is_none();
        let (decided_at, decided_by, reason, job_id) = match approval.decision {
            None => (None, None, None, None),
            Some(decision) => {
                let job = match decision.end {
                    ApprovalEnd::Queued { job } => Some(job.to_string()),
                    ApprovalEnd::Answered { .. } | ApprovalEnd::Rejected | ApprovalEnd::Expired => None,
                };
                (Some(decision.at.to_string()), Some(ActorOut::from(decision.by)), decision.reason, job)
            }
        };
        Self {
            id: approval.id.to_string(),
            application_id: approval.application.to_string(),
            application_uid: uids.application(approval.application),
            capability: approval.capability.as_str().to_owned(),
            status,
            request_id: approval.request_id.to_string(),
            cause: approval.cause,
            payload: raw(payload.filter(|_| is_pending)),
            requested_at: approval.requested_at.to_string(),
            expires_at: approval.expires_at.to_string(),
            decided_at,
            decided_by,
            reason,
            job_id,
            data: raw(data),
        }
    }
}

/// A page of them.
pub type ApprovalList = List<ApprovalOut>;

/// Which approvals to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ApprovalQuery {
    /// By status: `pending`, `approved`, `rejected` or `expired`.
    #[param(value_type = Option<ApprovalStatusWord>)]
    status: Option<String>,
    /// By application: its id or uid.
    application_id: Option<String>,
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// The number of rows to skip: 0 to 10,000. Cannot be combined with `cursor`, which is faster.
    #[param(value_type = Option<u32>, maximum = 10_000)]
    offset: Option<String>,
}

/// Lists the calls that people decide about, newest first.
#[utoipa::path(
    get, path = "/v1/approvals", tag = "calls", operation_id = "list_approvals", params(ApprovalQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of approvals", body = ApprovalList), ReadProblems),
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Params(query): Params<ApprovalQuery>,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    let status = read(query.status.as_deref(), "status", &mut faults, |text| {
        let known = || ApprovalStatus::ALL.map(ApprovalStatus::as_str).join("`, `");
        ApprovalStatus::parse(text).ok_or_else(|| format!("must be one of `{}`", known()))
    });
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    let application = api.filter_application(&caller, query.application_id.as_deref()).await?;
    let filter = ApprovalFilter { application, status };
    let page = page.fetch(|page| approvals::list(&api.line, caller.organization, filter, page)).await?;
    let uids = Uids::of_applications(&api, caller.organization, page.rows.iter().map(|view| view.approval.application)).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(|view| ApprovalOut::new(view, &uids)))))
}

/// Returns an approval with the payload of its call.
#[utoipa::path(
    get, path = "/v1/approvals/{id}", tag = "calls", operation_id = "get_approval",
    params(("id" = String, Path, description = "The approval's id")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The approval", body = ApprovalOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Identified(id): Identified<ApprovalId>,
) -> Result<Response, ApiError> {
    let view = approvals::get(&api.line, caller.organization, id).await?;
    let uids = Uids::of_applications(&api, caller.organization, [view.approval.application]).await?;
    Ok(json(StatusCode::OK, &ApprovalOut::new(view, &uids)))
}

/// A decision.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"action": "approve", "reason": "Checked by hand."}))]
pub struct DecisionIn<'a> {
    /// `approve` or `reject`.
    #[serde(default)]
    #[schema(value_type = ApprovalActionWord, required = true)]
    action: Option<String>,
    /// Why: at most 1,000 characters.
    #[serde(default)]
    #[schema(max_length = 1000)]
    reason: Option<String>,
    /// With `approve`: the call ends with this answer, any JSON value, and the app is not called. Without it the call becomes a job.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schema(value_type = Option<serde_json::Value>)]
    data: Option<&'a RawValue>,
}

/// Approves or rejects a call. Repeating the same decision returns the same response; a different one is refused with `approval-decided`.
#[utoipa::path(
    post, path = "/v1/approvals/{id}", tag = "calls", operation_id = "decide_approval", request_body = DecisionIn,
    params(("id" = String, Path, description = "The approval's id")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "The approval as it was decided", body = ApprovalOut), ChangeProblems),
)]
pub async fn decide(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(id): Identified<ApprovalId>,
    request: Request,
) -> Result<Response, ApiError> {
    let charge = Charge::new(api.bodies.clone(), caller.organization);
    let (body, charge) = read_json(request, api.payload_bytes_max + BESIDE_DATA_BYTES, charge).await?;
    let (verdict, reason) = read_decision(&body, api.payload_bytes_max)?;
    let (by, organization, line) = (caller.author(), caller.organization, api.line.clone());
    let deciding = async move {
        let decided = approvals::decide(&line, &by, id, verdict, reason).await;
        drop(charge);
        decided
    };
    let view = run_to_completion(deciding).await??;
    let uids = Uids::of_applications(&api, organization, [view.approval.application]).await?;
    Ok(json(StatusCode::OK, &ApprovalOut::new(view, &uids)))
}

fn read_decision(body: &Bytes, data_bytes_max: usize) -> Result<(Verdict, Option<String>), ApiError> {
    let DecisionIn { action, reason, data } = parse_object(body)?;
    if let Some(data) = data {
        let length = data.get().len();
        if length > data_bytes_max {
            return Err(ApiError::too_large(format!("`data` may have at most {data_bytes_max} bytes, and has {length}")));
        }
        check_depth(data.get())?;
    }
    let verdict = match (action.as_deref(), data) {
        (Some("approve"), None) => Verdict::Queue,
        (Some("approve"), Some(data)) => Verdict::Answer(body.slice_ref(data.get().as_bytes())),
        (Some("reject"), None) => Verdict::Reject,
        (Some("reject"), Some(_)) => return Err(ApiError::invalid(vec![Fault::new("data", "cannot be set with `reject`")])),
        (None, _) => return Err(ApiError::invalid(vec![Fault::new("action", "is required")])),
        (Some(_), _) => return Err(ApiError::invalid(vec![Fault::new("action", "must be `approve` or `reject`")])),
    };
    Ok((verdict, reason))
}
