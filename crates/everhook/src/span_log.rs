//! Writes each span of a trace that is recorded to the log as well, with the ids that the collector gets: whoever has a `trace_id` finds its log lines, and
//! whoever has a log line finds its trace.
//!
//! Their target is `everhook::span`: `EVERHOOK_LOG=info,everhook::span=off` leaves them out.

use std::sync::Arc;

use everhook_core::{
    model::{Span, SpanValue, TraceContext},
    ports::{SpanCounts, Spans},
    time::millis,
};

/// Logs spans on their way to a collector.
pub struct SpanLog(pub Arc<dyn Spans>);

impl Spans for SpanLog {
    fn wants(&self, context: &TraceContext) -> bool {
        self.0.wants(context)
    }

    fn record(&self, span: Span) {
        write(&span);
        self.0.record(span);
    }

    fn counts(&self) -> SpanCounts {
        self.0.counts()
    }
}

/// Ids and outcomes, never payloads: a field that a span does not have is left out.
fn write(span: &Span) {
    let text = |name| match value(span, name) {
        Some(SpanValue::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let number = |name| match value(span, name) {
        Some(SpanValue::Number(number)) => Some(*number),
        _ => None,
    };
    tracing::info!(
        target: "everhook::span",
        trace_id = %format_args!("{:032x}", span.context.trace),
        span_id = %format_args!("{:016x}", span.id),
        parent_span_id = span.context.parent.map(|parent| format!("{parent:016x}")),
        application.id = text("everhook.application.id"),
        event.id = text("everhook.event.id"),
        delivery.id = text("everhook.delivery.id"),
        endpoint.id = text("everhook.endpoint.id"),
        capability = text("everhook.capability"),
        attempt = number("everhook.attempt.number"),
        status = number("http.response.status_code"),
        duration_ms = millis(span.ended_at.since(span.began_at)),
        error = span.error.as_deref(),
        "{} ended", span.name,
    );
}

fn value<'a>(span: &'a Span, name: &str) -> Option<&'a SpanValue> {
    span.attributes.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Mutex, PoisonError},
        time::Duration,
    };

    use everhook_core::{model::SpanKind, time::Timestamp};
    use serde_json::Value;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    /// Takes what is logged.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// Keeps the names of spans.
    #[derive(Default)]
    struct Kept(Mutex<Vec<&'static str>>);

    impl Spans for Kept {
        fn wants(&self, _context: &TraceContext) -> bool {
            true
        }

        fn record(&self, span: Span) {
            self.0.lock().unwrap().push(span.name);
        }

        fn counts(&self) -> SpanCounts {
            SpanCounts::default()
        }
    }

    fn span(name: &'static str, attributes: Vec<(&'static str, SpanValue)>) -> Span {
        let began_at = Timestamp::from_secs(1_700_000_000);
        Span {
            context: TraceContext { trace: 0x4bf9, parent: Some(7), is_recorded: Some(true) },
            id: 9,
            name,
            kind: SpanKind::Client,
            began_at,
            ended_at: began_at + Duration::from_millis(12),
            attributes,
            error: None,
        }
    }

    #[test]
    fn each_span_is_a_log_line_with_the_ids_that_the_collector_gets() {
        let (lines, kept) = (Lines::default(), Arc::new(Kept::default()));
        let subscriber = tracing_subscriber::fmt().json().flatten_event(true).with_writer(lines.clone()).finish();
        let log = SpanLog(kept.clone());
        tracing::subscriber::with_default(subscriber, || {
            for name in ["publish", "receive", "call"] {
                log.record(span(name, Vec::new()));
            }
            let text = |text: &str| SpanValue::Text(text.to_owned());
            let attributes = vec![
                ("everhook.delivery.id", text("d-1")),
                ("everhook.attempt.number", SpanValue::Number(2)),
                ("error.type", text("http")),
            ];
            log.record(Span { error: Some("the endpoint answered 500".to_owned()), ..span("attempt", attributes) });
        });
        assert_eq!(*kept.0.lock().unwrap(), ["publish", "receive", "call", "attempt"]);
        let written = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let written: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            written.iter().map(|line| line["message"].as_str().unwrap()).collect::<Vec<_>>(),
            ["publish ended", "receive ended", "call ended", "attempt ended"]
        );
        for line in &written {
            assert_eq!((&line["level"], &line["target"]), (&"INFO".into(), &"everhook::span".into()));
            assert_eq!(line["trace_id"], format!("{:032x}", 0x4bf9));
            assert_eq!((&line["span_id"], &line["parent_span_id"]), (&"0000000000000009".into(), &"0000000000000007".into()));
        }
        let attempt = &written[3];
        assert_eq!((&attempt["delivery.id"], &attempt["attempt"]), (&"d-1".into(), &2.into()));
        assert_eq!((&attempt["duration_ms"], &attempt["error"]), (&12.into(), &"the endpoint answered 500".into()));
        assert!(written[0].get("delivery.id").is_none() && written[0].get("error").is_none());
    }
}
