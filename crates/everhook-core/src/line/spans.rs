//! The spans of an event: that it was published or received, and each attempt at one of its deliveries.
//!
//! Their ids are mixed from those of the event and the delivery, so that an attempt on another node, years later, knows which span it follows from. Nothing is
//! kept for that, and nothing is put together for a trace that nobody records.

use crate::{
    ids::EventId,
    line::{
        Line,
        publish::{Acceptance, PublishError},
        request::{self, scatter},
    },
    model::{Attempt, Event, InFlight, Response, Span, SpanKind, SpanValue, TraceContext, TraceParent},
    ports::IncomingEvent,
    time::Timestamp,
};

/// The place of an event in its trace: that of its publisher, or one of its own.
fn context(id: EventId, traceparent: Option<&str>) -> TraceContext {
    let of_publisher = traceparent.and_then(TraceParent::parse).map(|parent| parent.context());
    of_publisher.unwrap_or(TraceContext { trace: id.as_uuid().as_u128(), parent: None, is_recorded: None })
}

/// The span in which an event was published.
fn publish_span(id: EventId) -> u64 {
    let (high, low) = id.as_uuid().as_u64_pair();
    // All zeros is no span.
    scatter(scatter(high) ^ low).max(1)
}

/// An event that is being published, as far as its span needs it.
pub(crate) struct Publishing {
    context: TraceContext,
    event: EventId,
    event_type: String,
    application: String,
    name: &'static str,
    kind: SpanKind,
    began_at: Timestamp,
}

impl Publishing {
    /// `None` if nobody records the trace of this event.
    pub(crate) fn of(line: &Line, incoming: &IncomingEvent) -> Option<Self> {
        let (spans, event) = (line.ports.spans.as_ref()?, &incoming.event);
        let context = context(event.id, event.traceparent.as_deref());
        let (name, kind) = if event.received.is_some() { ("receive", SpanKind::Server) } else { ("publish", SpanKind::Producer) };
        spans.wants(&context).then(|| Self {
            context,
            event: event.id,
            event_type: event.event_type.to_string(),
            application: event.application.to_string(),
            name,
            kind,
            began_at: event.created_at,
        })
    }

    /// It was answered.
    pub(crate) fn end(self, line: &Line, answer: &Result<Acceptance, PublishError>) {
        let Some(spans) = &line.ports.spans else { return };
        let mut attributes = vec![
            ("everhook.event.id", SpanValue::Text(self.event.to_string())),
            ("everhook.event.type", SpanValue::Text(self.event_type)),
            ("everhook.application.id", SpanValue::Text(self.application)),
        ];
        if let Ok(Acceptance::Recorded(published)) = answer {
            attributes.push(("everhook.deliveries", SpanValue::Number(published.deliveries.into())));
        }
        if let Ok(accepted) = answer
            && accepted.is_duplicate()
        {
            attributes.push(("everhook.duplicate_of", SpanValue::Text(accepted.event().to_string())));
        }
        spans.record(Span {
            context: self.context,
            id: publish_span(self.event),
            name: self.name,
            kind: self.kind,
            began_at: self.began_at,
            ended_at: line.ports.clock.now(),
            attributes,
            error: answer.as_ref().err().map(ToString::to_string),
        });
    }
}

/// An attempt that is being made, as far as its span needs it.
#[derive(Clone, Debug)]
pub struct Attempting {
    context: TraceContext,
    event_type: String,
}

impl Attempting {
    /// `None` if nobody records the trace of this event.
    pub(crate) fn of(line: &Line, event: &Event) -> Option<Self> {
        let (spans, context) = (line.ports.spans.as_ref()?, context(event.id, event.traceparent.as_deref()));
        spans.wants(&context).then(|| Self {
            context: TraceContext { parent: Some(publish_span(event.id)), ..context },
            event_type: event.event_type.to_string(),
        })
    }

    /// Which trace it is of, as logs show it.
    pub(crate) fn trace_id(&self) -> String {
        format!("{:032x}", self.context.trace)
    }

    /// The span of an attempt, as its request names it.
    pub(crate) fn span_id(flight: &InFlight, executed_at: Timestamp) -> u64 {
        request::span(flight.due.delivery, flight.attempt_number(), executed_at)
    }

    /// It ended.
    pub(crate) fn end(self, line: &Line, flight: &InFlight, attempt: &Attempt) {
        let Some(spans) = &line.ports.spans else { return };
        let mut attributes = vec![
            ("everhook.event.id", SpanValue::Text(flight.due.event.to_string())),
            ("everhook.event.type", SpanValue::Text(self.event_type)),
            ("everhook.delivery.id", SpanValue::Text(flight.due.delivery.to_string())),
            ("everhook.endpoint.id", SpanValue::Text(flight.lane_id.to_string())),
            ("everhook.attempt.number", SpanValue::Number(attempt.number.into())),
            ("everhook.attempt.status", SpanValue::Text(attempt.status.as_str().to_owned())),
        ];
        if let Some(Response { status, .. }) = attempt.response {
            attributes.push(("http.response.status_code", SpanValue::Number(status.into())));
        }
        if let Some(category) = attempt.failure_category {
            attributes.push(("error.type", SpanValue::Text(category.as_str().to_owned())));
        }
        spans.record(Span {
            context: self.context,
            id: Self::span_id(flight, attempt.executed_at),
            name: "attempt",
            kind: SpanKind::Client,
            began_at: attempt.executed_at,
            ended_at: attempt.executed_at + attempt.duration,
            attributes,
            error: attempt.failure_category.map(|_| attempt.error.clone().unwrap_or_default()),
        });
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_event_without_a_trace_has_one_of_its_own() {
        let id = EventId::from_uuid(Uuid::from_u128(7));
        assert_eq!(context(id, None), TraceContext { trace: 7, parent: None, is_recorded: None });
        assert_eq!(context(id, Some("nonsense")), context(id, None));
        let given = context(id, Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"));
        assert_eq!((given.parent, given.is_recorded), (Some(0x00f0_67aa_0ba9_02b7), Some(false)));
    }

    #[test]
    fn every_event_has_a_publish_span_of_its_own_and_it_is_always_the_same() {
        let ids = (0..1_000u128).map(|n| EventId::from_uuid(Uuid::from_u128(n << 64 | n)));
        let spans: std::collections::BTreeSet<u64> = ids.clone().map(publish_span).collect();
        assert_eq!(spans.len(), 1_000);
        assert!(!spans.contains(&0) && ids.map(publish_span).all(|span| spans.contains(&span)));
    }
}
