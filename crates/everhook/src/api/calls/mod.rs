//! Calls: ask an app for an answer now, under a deadline.

mod answer;
mod batch;
mod contract;
mod request;
mod shadow;

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use everhook_core::{
    calls::{
        Found, OpenCapability,
        call::{self, CallRequest},
    },
    ids::{ApplicationId, Ref},
    manage::{
        Fault,
        approvals::PENDING_MAX,
        jobs::{self, Called, NotQueued},
        manifests,
    },
    ports::StoreError,
};
use http::StatusCode;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{
    answer::{CallOut, CallProblems, LaterOut, PendingOut, QueuedOut, render},
    request::{CallIn, caller_timeout, trace_of},
};
use super::{
    Api,
    access::{Caller, MayPublish, MayRead},
    body::{parse_object, read_json},
    error::{ApiError, ProblemKind, ReadProblems},
    manifests::OfApplication,
    publish::BESIDE_DATA_BYTES,
    run_to_completion,
    uids::Uids,
    wire::{NoParams, Params, json},
};
use crate::memory::Charge;

/// The routes.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default()
        .routes(routes!(call_capability))
        .routes(routes!(batch::call_batch))
        .routes(routes!(draw))
        .routes(routes!(shadow::list_differences))
        .routes(routes!(contract::check_contract))
}

/// How a call is answered.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CallQuery {
    /// Whether the response lists every step with its time: `true`, `false`, or nothing for `true`.
    #[param(value_type = Option<bool>)]
    explain: Option<String>,
}

impl CallQuery {
    /// Whether the steps are shown.
    fn explains(&self) -> bool {
        self.explain.as_deref().is_some_and(|text| !matches!(text, "false" | "0"))
    }
}

/// Calls a capability of an application. The response comes within the capability's timeout, or within a shorter one if the request sets it: from the app,
/// from the cache, from another step of the manifest's fallback, or as a problem with `source: error`.
#[utoipa::path(
    post, path = "/v1/applications/{id}/call/{capability}", tag = "calls", operation_id = "call_capability", request_body = CallIn,
    params(
        ("id" = String, Path, description = "The application's id or uid"),
        ("capability" = String, Path, description = "The capability's name"),
        CallQuery,
        ("X-Timeout-Ms" = Option<u32>, Header, description = "Same as the field `timeout_ms`, which takes precedence"),
        ("traceparent" = Option<String>, Header, description = "Your trace (W3C), continued by the requests to the app"),
    ),
    security(("api_key" = ["publish"])),
    responses(
        (status = 200, description = "The answer", body = CallOut),
        (status = 202, description = "The call is a job (see GET /v1/jobs/{id}), or a person decides about it (see GET /v1/approvals/{id})", body = LaterOut),
        CallProblems,
    ),
)]
async fn call_capability(
    State(api): State<Arc<Api>>,
    MayPublish(caller): MayPublish,
    Params(query): Params<CallQuery>,
    OfApplication(of, name): OfApplication,
    request: Request,
) -> Result<Response, ApiError> {
    let arrived_at = api.line.ports.clock.now();
    let capability = find(&api, &caller, &of, &name).await?;
    let (header_timeout, trace) = (caller_timeout(request.headers())?, trace_of(request.headers()));
    let charge = Charge::new(api.bodies.clone(), caller.organization);
    let (body, mut charge) = read_json(request, api.payload_bytes_max + BESIDE_DATA_BYTES, charge).await?;
    let asked: CallIn<'_> = parse_object(&body)?;
    let request = asked.into_request(&mut charge, api.payload_bytes_max, header_timeout, trace, arrived_at, &api.targets)?;
    drop((body, charge));
    let called = call(&api, &capability, request).await?;
    Ok(match &called {
        Called::Answered(answer) => render(answer, query.explains()),
        Called::Queued(queued) => json(StatusCode::ACCEPTED, &LaterOut::Queued(QueuedOut::new(queued, query.explains()))),
        Called::Pending(pending) => json(StatusCode::ACCEPTED, &LaterOut::Pending(PendingOut::new(pending, query.explains()))),
    })
}

/// Makes a call. One that may become a job, or wait for a person, runs to its end, whatever becomes of the request.
async fn call(api: &Arc<Api>, capability: &Arc<OpenCapability>, request: CallRequest) -> Result<Called, ApiError> {
    let is_answered_at_once = !capability.spec.may_answer_later();
    if is_answered_at_once && request.callback_url.is_some() {
        let reason = "cannot be used: a call of this capability always ends at once, because it is neither `async` nor has the fallback `queue` or `manual`";
        return Err(ApiError::invalid(vec![Fault::new("callback_url", reason)]));
    }
    if is_answered_at_once {
        return Ok(Called::Answered(call::call(&api.line.calls, capability, request).await));
    }
    let (api, capability) = (api.clone(), capability.clone());
    let calling = async move { jobs::call(&api.line, &capability, request, &api.callbacks_url).await };
    run_to_completion(calling).await?.map_err(|error| match error {
        NotQueued::Payload(reason) => ApiError::invalid(vec![Fault::new("payload", reason)]),
        NotQueued::Publish(error) => error.into(),
        NotQueued::TooManyPending => {
            let words = format!("{PENDING_MAX} calls of the application wait for a person: approve or reject some");
            ApiError::new(ProblemKind::TooManyApprovals, words)
        }
    })
}

/// Finds what is called.
async fn find(api: &Api, caller: &Caller, of: &Ref<ApplicationId>, name: &str) -> Result<Arc<OpenCapability>, ApiError> {
    found(api.line.calls.find(caller.organization, of, name).await)
}

fn found(found: Result<Found, StoreError>) -> Result<Arc<OpenCapability>, ApiError> {
    match found? {
        Found::Capability(capability) => Ok(capability),
        Found::NoApplication => Err(ApiError::not_found("application")),
        Found::NoCapability => Err(ApiError::new(ProblemKind::NotFound, "the application's manifest has no capability with this name")),
        Found::NoBaseUrl => Err(ApiError::new(ProblemKind::AppNotCallable, "neither the application nor its manifest has a `base_url`")),
    }
}

/// A draw that answered a call: everything that is needed to make it again.
#[derive(serde::Serialize, ToSchema)]
pub struct DrawOut {
    #[schema(format = "uuid")]
    request_id: String,
    #[schema(format = "uuid")]
    application_id: String,
    #[schema(required = true)]
    application_uid: Option<String>,
    capability: String,
    #[schema(format = DateTime)]
    drawn_at: String,
    /// How the places follow from the seed: docs/calling.md has a script.
    algorithm: &'static str,
    /// 32 bytes, base64.
    seed: String,
    /// SHA-256 of the list's JSON text as received in the payload, base64.
    list_sha256: String,
    /// The number of items of the list.
    list_length: u32,
    /// The places of the picked items, in the order of picking, counted from zero.
    picks: Vec<u32>,
}

/// Returns the record of a draw (`random_pick`), so that it can be checked.
#[utoipa::path(
    get, path = "/v1/applications/{id}/draws/{request_id}", tag = "calls", operation_id = "get_draw",
    params(
        ("id" = String, Path, description = "The application's id or uid"),
        ("request_id" = String, Path, description = "The `request_id` of the call"),
    ),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The draw", body = DrawOut), ReadProblems),
)]
async fn draw(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    OfApplication(of, request_id): OfApplication,
) -> Result<Response, ApiError> {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use everhook_core::policy::calls::draw;
    let found = manifests::draw(&api.line, caller.organization, &of, &request_id).await?;
    let uids = Uids::of_applications(&api, caller.organization, [found.application]).await?;
    let out = DrawOut {
        request_id: found.request_id.to_string(),
        application_id: found.application.to_string(),
        application_uid: uids.application(found.application),
        capability: found.capability.to_string(),
        drawn_at: found.drawn_at.to_string(),
        algorithm: draw::ALGORITHM,
        seed: BASE64_STANDARD.encode(found.seed),
        list_sha256: BASE64_STANDARD.encode(found.list_hash),
        list_length: found.list_length,
        picks: draw::draw(&found.seed, found.list_length, found.picked),
    };
    Ok(json(StatusCode::OK, &out))
}
