//! The spans of a call: the call itself, and each request to its app. The call's id in its trace is part of its request id, which a job that comes of it
//! continues.

use uuid::Uuid;

use super::{Calls, OpenCapability, answered::CallAnswer};
use crate::{
    model::{Report, Sent, Span, SpanKind, SpanValue, TraceContext, TraceParent},
    ports::OutgoingRequest,
    time::Timestamp,
};

/// The trace of the caller, or one of the call's own.
fn context(request_id: Uuid, caller: Option<&TraceParent>) -> TraceContext {
    let of_caller = caller.map(TraceParent::context);
    of_caller.unwrap_or(TraceContext { trace: request_id.as_u128(), parent: None, is_recorded: None })
}

/// The span of a call.
fn call_span(request_id: Uuid) -> u64 {
    request_id.as_u64_pair().1.max(1)
}

/// A call was answered.
pub(super) fn answered(
    calls: &Calls,
    capability: &OpenCapability,
    caller: Option<&TraceParent>,
    arrived_at: Timestamp,
    answer: &CallAnswer,
) {
    let Some(spans) = &calls.spans else { return };
    let context = context(answer.request_id, caller);
    if !spans.wants(&context) {
        return;
    }
    let source = answer.result.as_ref().map_or("error", |answer| answer.source.as_str());
    spans.record(Span {
        context,
        id: call_span(answer.request_id),
        name: "call",
        kind: SpanKind::Server,
        began_at: arrived_at,
        ended_at: arrived_at + answer.duration,
        attributes: vec![
            ("everhook.application.id", SpanValue::Text(capability.application.to_string())),
            ("everhook.capability", SpanValue::Text(capability.name.to_string())),
            ("everhook.call.source", SpanValue::Text(source.to_owned())),
        ],
        error: answer.result.is_err().then(|| "nothing could answer".to_owned()),
    });
}

/// A request to an app, as far as its span needs it.
pub(super) struct Asking {
    context: TraceContext,
    id: u64,
    capability: String,
    began_at: Timestamp,
}

impl Asking {
    /// `None` if nobody records the trace. The request says which span it is.
    pub(super) fn of(
        calls: &Calls,
        capability: &OpenCapability,
        call: (Uuid, Option<&TraceParent>),
        request: &OutgoingRequest,
    ) -> Option<Self> {
        let (spans, context) = (calls.spans.as_ref()?, context(call.0, call.1));
        if !spans.wants(&context) {
            return None;
        }
        let (_, traceparent) = request.headers.iter().find(|(name, _)| name == "traceparent")?;
        let named = TraceParent::parse(std::str::from_utf8(traceparent).ok()?)?;
        let context = TraceContext { parent: Some(call_span(call.0)), ..context };
        Some(Self { context, id: named.span, capability: capability.name.to_string(), began_at: calls.clock.now() })
    }

    /// It ended.
    pub(super) fn end(self, calls: &Calls, report: &Report) {
        let Some(spans) = &calls.spans else { return };
        let mut attributes = vec![("everhook.capability", SpanValue::Text(self.capability))];
        let error = match &report.sent {
            Sent::Answered(response) => {
                attributes.push(("http.response.status_code", SpanValue::Number(response.status.into())));
                (!(200..300).contains(&response.status)).then(|| format!("the app answered {}", response.status))
            }
            Sent::Failed { error, .. } | Sent::Refused { error, .. } | Sent::OutOfResources { error } => Some(error.clone()),
            Sent::Parked { .. } => None,
        };
        spans.record(Span {
            context: self.context,
            id: self.id,
            name: "request",
            kind: SpanKind::Client,
            began_at: self.began_at,
            ended_at: self.began_at + report.duration,
            attributes,
            error,
        });
    }
}
