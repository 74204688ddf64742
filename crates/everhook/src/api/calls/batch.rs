//! Several calls with one deadline.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use everhook_core::{
    calls::OpenCapability,
    ids::ApplicationId,
    manage::{Fault, jobs::Called},
};
use futures_util::future::join_all;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    answer::{CallOut, CallProblem, CallProblems, QueuedOut, body_of},
    call, found,
    request::{CallIn, caller_timeout, trace_of},
};
use crate::{
    api::{
        Api,
        access::MayPublish,
        body::{parse_large_object, read_json},
        error::{ApiError, Problem},
        sources::UrlBase,
        wire::{Named, NoParams, json},
    },
    memory::Charge,
};

/// How many calls one batch may have: what one page of a platform asks for.
const CALLS_MAX: usize = 20;

/// Several calls.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"calls": [{"capability": "greeting", "payload": {}}, {"capability": "prices", "payload": {"sku": 1}}], "timeout_ms": 500}))]
pub struct CallBatchIn<'a> {
    /// 1 to 20 calls.
    #[serde(borrow, default)]
    calls: Vec<BatchCallIn<'a>>,
    /// How long you wait for all of them, in milliseconds. Each also has its manifest's timeout.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 600_000)]
    timeout_ms: Option<i64>,
}

/// One call of a batch.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchCallIn<'a> {
    /// The capability's name.
    capability: String,
    /// The request payload for the app: any JSON value. Required.
    #[serde(borrow, default)]
    #[schema(value_type = serde_json::Value, required = true)]
    payload: Option<&'a RawValue>,
    /// The key under which the answer is cached. At most 512 bytes.
    #[serde(default)]
    cache_key: Option<String>,
    /// If the call becomes a job: where its end is posted to.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "uri")]
    callback_url: Option<String>,
}

/// The result of one call of a batch.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum BatchAnswer {
    /// It was answered.
    Answered(Box<CallOut>),
    /// It became a job.
    Queued(Box<QueuedOut>),
    /// Nothing answered it.
    Failed {
        /// The reason.
        error: Box<CallProblem>,
    },
    /// It was not made.
    Refused {
        /// The reason.
        error: Problem,
    },
}

/// The results of a batch, in the order of its calls.
#[derive(Serialize, ToSchema)]
pub struct CallBatchOut {
    data: Vec<BatchAnswer>,
}

/// Calls up to 20 capabilities of an application at once, with one deadline. The results are in the order of the calls.
#[utoipa::path(
    post, path = "/v1/applications/{id}/call-batch", tag = "calls", operation_id = "call_batch", request_body = CallBatchIn,
    params(
        ("id" = String, Path, description = "The application's id or uid"),
        ("X-Timeout-Ms" = Option<u32>, Header, description = "Same as the field `timeout_ms`, which takes precedence"),
        ("traceparent" = Option<String>, Header, description = "Your trace (W3C), continued by the requests to the app"),
    ),
    security(("api_key" = ["publish"])),
    responses((status = 200, description = "The result of each call", body = CallBatchOut), CallProblems),
)]
pub async fn call_batch(
    State(api): State<Arc<Api>>,
    MayPublish(caller): MayPublish,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
    url: UrlBase,
    request: Request,
) -> Result<Response, ApiError> {
    let arrived_at = api.line.ports.clock.now();
    if api.line.calls.app(caller.organization, &of).await?.is_none() {
        return Err(ApiError::not_found("application"));
    }
    let (header_timeout, trace) = (caller_timeout(request.headers())?, trace_of(request.headers()));
    let charge = Charge::new(api.bodies.clone(), caller.organization);
    let (body, charge) = read_json(request, api.batch_bytes_max, charge).await?;
    let batch: CallBatchIn<'_> = parse_large_object(&body)?;
    if !(1..=CALLS_MAX).contains(&batch.calls.len()) {
        let reason = format!("must have 1 to {CALLS_MAX} calls, and has {}", batch.calls.len());
        return Err(ApiError::invalid(vec![Fault::new("calls", reason)]));
    }
    let (timeout_ms, organization) = (batch.timeout_ms, caller.organization);
    let calls = batch.calls.into_iter().map(|one| {
        let (api, of, body, trace, url) = (&api, &of, &body, trace.clone(), &url);
        async move {
            let asked = CallIn { payload: one.payload, cache_key: one.cache_key, timeout_ms, callback_url: one.callback_url };
            let capability: Arc<OpenCapability> = found(api.line.calls.find(organization, of, &one.capability).await)?;
            let request = asked.into_request(body, api.payload_bytes_max, header_timeout, trace, arrived_at, &api.targets)?;
            call(api, &capability, request, url).await
        }
    });
    let answer = |result| match result {
        Ok(Called::Queued(queued)) => BatchAnswer::Queued(Box::new(QueuedOut::new(&queued, false))),
        Ok(Called::Answered(answer)) => match body_of(&answer, false) {
            Ok(out) => BatchAnswer::Answered(Box::new(out)),
            Err((_, problem)) => BatchAnswer::Failed { error: problem },
        },
        Err(error) => BatchAnswer::Refused { error: ApiError::into_problem(error) },
    };
    let data = join_all(calls).await.into_iter().map(answer).collect();
    drop(charge);
    Ok(json(StatusCode::OK, &CallBatchOut { data }))
}
