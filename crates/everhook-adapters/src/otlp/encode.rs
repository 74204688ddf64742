//! Spans as OTLP writes them: the protobuf message `ExportTraceServiceRequest`, by hand. It is six messages, which never change; a library would bring a
//! code generator, a second HTTP client or both.

use everhook_core::model::{Span, SpanKind, SpanValue};

/// How fields are written: a number of varying length, eight bytes, or so many bytes.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

/// What is known of whoever sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// What the service is called.
    pub service: String,
    /// Which of its processes it is.
    pub node: String,
    /// Its version.
    pub version: String,
}

/// The whole message.
pub fn export_request(resource: &Resource, spans: &[Span]) -> Vec<u8> {
    let mut of_resource = Message::new();
    let known = [("service.name", &resource.service), ("service.instance.id", &resource.node), ("service.version", &resource.version)];
    for (key, value) in known {
        of_resource.message(1, &attribute(key, &SpanValue::Text(value.clone())));
    }
    let mut scope = Message::new();
    scope.text(1, "everhook");
    let mut of_scope = Message::new();
    of_scope.message(1, &scope);
    spans.iter().for_each(|one| of_scope.message(2, &span(one)));
    let mut resource_spans = Message::new();
    resource_spans.message(1, &of_resource);
    resource_spans.message(2, &of_scope);
    let mut request = Message::new();
    request.message(1, &resource_spans);
    request.0
}

fn span(span: &Span) -> Message {
    let mut message = Message::new();
    message.bytes(1, &span.context.trace.to_be_bytes());
    message.bytes(2, &span.id.to_be_bytes());
    if let Some(parent) = span.context.parent {
        message.bytes(4, &parent.to_be_bytes());
    }
    message.text(5, span.name);
    message.number(6, kind(span.kind));
    message.nanos(7, span.began_at.as_micros());
    message.nanos(8, span.ended_at.as_micros());
    for (key, value) in &span.attributes {
        message.message(9, &attribute(key, value));
    }
    if let Some(error) = &span.error {
        let mut status = Message::new();
        status.text(2, error);
        // An error.
        status.number(3, 2);
        message.message(15, &status);
    }
    message
}

const fn kind(kind: SpanKind) -> u64 {
    match kind {
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
    }
}

fn attribute(key: &str, value: &SpanValue) -> Message {
    let mut written = Message::new();
    match value {
        SpanValue::Text(text) => written.text(1, text),
        SpanValue::Number(number) => written.number(3, number.cast_unsigned()),
    }
    let mut message = Message::new();
    message.text(1, key);
    message.message(2, &written);
    message
}

/// A message of protobuf.
struct Message(Vec<u8>);

impl Message {
    const fn new() -> Self {
        Self(Vec::new())
    }

    fn number(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    fn nanos(&mut self, field: u32, micros: i64) {
        self.tag(field, FIXED64);
        let nanos = u64::try_from(micros).unwrap_or_default().saturating_mul(1_000);
        self.0.extend_from_slice(&nanos.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, BYTES);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    fn message(&mut self, field: u32, value: &Self) {
        self.bytes(field, &value.0);
    }

    fn tag(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
