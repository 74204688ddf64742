//! Several calls with one deadline.

use std::{fmt, sync::Arc};

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
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    answer::{CallOut, CallProblem, CallProblems, PendingOut, QueuedOut, body_of},
    call, found,
    request::{CallIn, caller_timeout, trace_of},
};
use crate::{
    api::{
        Api,
        access::MayPublish,
        body::{parse_large_object, read_json},
        error::{ApiError, Problem},
        wire::{Named, NoParams, json},
    },
    memory::Charge,
};

/// How many calls one batch may have: what one page of a platform asks for.
const CALLS_MAX: usize = 20;

/// What a call may have beside its payload: the other fields, and the blanks and commas between.
const BESIDE_PAYLOAD_BYTES: usize = 4 * 1024;

/// The largest body: as many calls as there may be, each with the largest payload, but no larger than other batches.
fn bytes_max(api: &Api) -> usize {
    (CALLS_MAX * (api.payload_bytes_max + BESIDE_PAYLOAD_BYTES)).min(api.batch_bytes_max)
}

/// Several calls.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"calls": [{"capability": "greeting", "payload": {}}, {"capability": "prices", "payload": {"sku": 1}}], "timeout_ms": 500}))]
pub struct CallBatchIn<'a> {
    /// 1 to 20 calls.
    #[serde(borrow, default)]
    #[schema(value_type = Vec<BatchCallIn>)]
    calls: BatchCalls<'a>,
    /// How long you wait for all of them, in milliseconds. Each also has its manifest's timeout.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 600_000)]
    timeout_ms: Option<i64>,
}

/// The calls of a batch. Those beyond the bound are only counted: a body full of tiny ones would take many times its size.
#[derive(Default)]
struct BatchCalls<'a> {
    calls: Vec<BatchCallIn<'a>>,
    count: usize,
}

impl<'de: 'a, 'a> Deserialize<'de> for BatchCalls<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(CallsVisitor)
    }
}

struct CallsVisitor;

impl<'de> Visitor<'de> for CallsVisitor {
    type Value = BatchCalls<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of calls")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut sequence: S) -> Result<BatchCalls<'de>, S::Error> {
        let mut calls = Vec::new();
        while calls.len() < CALLS_MAX
            && let Some(call) = sequence.next_element()?
        {
            calls.push(call);
        }
        let mut count = calls.len();
        while sequence.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(BatchCalls { calls, count })
    }
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
    /// It waits for a person.
    Pending(Box<PendingOut>),
    /// Nothing answered it.
    Failed {
        /// The reason.
        error: Box<CallProblem>,
    },
    /// The call was refused.
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
    request: Request,
) -> Result<Response, ApiError> {
    let arrived_at = api.line.ports.clock.now();
    if api.line.calls.app(caller.organization, &of).await?.is_none() {
        return Err(ApiError::not_found("application"));
    }
    let (header_timeout, trace) = (caller_timeout(request.headers())?, trace_of(request.headers()));
    let charge = Charge::new(api.bodies.clone(), caller.organization);
    let (body, mut charge) = read_json(request, bytes_max(&api), charge).await?;
    let batch: CallBatchIn<'_> = parse_large_object(&body)?;
    let BatchCalls { calls, count } = batch.calls;
    if !(1..=CALLS_MAX).contains(&count) {
        let reason = format!("must have 1 to {CALLS_MAX} calls, and has {count}");
        return Err(ApiError::invalid(vec![Fault::new("calls", reason)]));
    }
    let (timeout_ms, organization) = (batch.timeout_ms, caller.organization);
    let calls = calls.into_iter().map(|one| {
        let asked = CallIn { payload: one.payload, cache_key: one.cache_key, timeout_ms, callback_url: one.callback_url };
        let checked = asked.into_request(&mut charge, api.payload_bytes_max, header_timeout, trace.clone(), arrived_at, &api.targets);
        let (api, of, name) = (&api, &of, one.capability);
        async move {
            let capability: Arc<OpenCapability> = found(api.line.calls.find(organization, of, &name).await)?;
            let request = checked?;
            call(api, &capability, request).await
        }
    });
    let answer = |result| match result {
        Ok(Called::Queued(queued)) => BatchAnswer::Queued(Box::new(QueuedOut::new(&queued, false))),
        Ok(Called::Pending(pending)) => BatchAnswer::Pending(Box::new(PendingOut::new(&pending, false))),
        Ok(Called::Answered(answer)) => match body_of(&answer, false) {
            Ok(out) => BatchAnswer::Answered(Box::new(out)),
            Err((_, problem)) => BatchAnswer::Failed { error: problem },
        },
        Err(error) => BatchAnswer::Refused { error: ApiError::into_problem(error) },
    };
    // The payloads are copies with their own parts of the charge.
    let calls: Vec<_> = calls.collect();
    drop((body, charge));
    let data = join_all(calls).await.into_iter().map(answer).collect();
    Ok(json(StatusCode::OK, &CallBatchOut { data }))
}
