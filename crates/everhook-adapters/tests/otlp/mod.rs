//! What the exporter of spans promises: what it sends can be read, and a collector that is away or hangs costs nobody anything.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use everhook_adapters::otlp::{OtlpExporter, OtlpSettings, Resource, Sampler};
use everhook_core::{
    model::{Span, SpanKind, SpanValue, Target, TraceContext},
    ports::{SpanCounts, Spans},
    time::Timestamp,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Spans gather for a second; this machine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// One field of a protobuf message: its number, and its value as bytes, or as a number.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

/// Reads a message by the rules of protobuf alone.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (first, rest) = bytes.split_first().expect("the number ends");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_at(8);
                bytes = rest;
                Value::Number(u64::from_le_bytes(number.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(value.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        found.push((tag >> 3, value));
    }
    found
}

fn all(message: &[(u64, Value)], field: u64) -> Vec<Vec<u8>> {
    let bytes = |(number, value): &(u64, Value)| match value {
        Value::Bytes(bytes) if *number == field => Some(bytes.clone()),
        _ => None,
    };
    message.iter().filter_map(bytes).collect()
}

fn one(message: &[(u64, Value)], field: u64) -> Vec<u8> {
    all(message, field).first().cloned().unwrap_or_else(|| panic!("no field {field} in {message:?}"))
}

fn number(message: &[(u64, Value)], field: u64) -> u64 {
    let found = message.iter().find(|(number, _)| *number == field);
    let Some((_, Value::Number(value))) = found else { panic!("no number {field} in {message:?}") };
    *value
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// The attributes of a message, as texts.
fn attributes(message: &[(u64, Value)], field: u64) -> Vec<(String, String)> {
    let read = |bytes: Vec<u8>| {
        let attribute = fields(&bytes);
        let value = fields(&one(&attribute, 2));
        let value = match &value[..] {
            [(1, Value::Bytes(bytes))] => text(bytes.clone()),
            [(3, Value::Number(number))] => number.cast_signed().to_string(),
            other => panic!("{other:?}"),
        };
        (text(one(&attribute, 1)), value)
    };
    all(message, field).into_iter().map(read).collect()
}

fn span(id: u64) -> Span {
    Span {
        context: TraceContext { trace: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10, parent: Some(7), is_recorded: Some(true) },
        id,
        name: "attempt",
        kind: SpanKind::Client,
        began_at: Timestamp::from_micros(1_000_001),
        ended_at: Timestamp::from_micros(1_500_000),
        attributes: vec![("a.text", SpanValue::Text("é".repeat(100))), ("a.number", SpanValue::Number(-3))],
        error: Some("it failed".to_owned()),
    }
}

fn settings(url: &str) -> OtlpSettings {
    OtlpSettings {
        target: Target { written: url.to_owned(), url: url.parse().unwrap() },
        headers: vec![("authorization".to_owned(), "Bearer collector".to_owned())],
        sampler: Sampler::parse("parentbased_always_on", 1.0).unwrap(),
        resource: Resource { service: "everhook".to_owned(), node: "here:1".to_owned(), version: "9".to_owned() },
    }
}

/// What a collector got: heads, and bodies.
type Requests = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A collector that keeps what it gets, on one connection after the other.
async fn collector() -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let got = Requests::default();
    let keeping = got.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            while let Some(request) = read_request(&mut stream).await {
                keeping.lock().unwrap().push(request);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            }
        }
    });
    (url, got)
}

/// The next request of a connection; `None` when it ends.
async fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length").parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, body))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_is_read_back_by_the_rules_of_protobuf() {
    let (url, got) = collector().await;
    let exporter = OtlpExporter::start(settings(&url)).unwrap();
    exporter.record(span(42));
    exporter.record(Span { context: TraceContext { parent: None, ..span(1).context }, error: None, ..span(43) });
    exporter.stop(PATIENCE).await;
    assert_eq!(exporter.counts(), SpanCounts { exported: 2, dropped: 0 });
    let (head, body) = got.lock().unwrap()[0].clone();
    for expected in ["POST /v1/traces HTTP/1.1", "content-type: application/x-protobuf", "authorization: Bearer collector"] {
        assert!(head.lines().any(|line| line == expected), "{expected} is not in {head}");
    }
    let of_resource = fields(&one(&fields(&body), 1));
    let known = attributes(&fields(&one(&of_resource, 1)), 1);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(known, [pair("service.name", "everhook"), pair("service.instance.id", "here:1"), pair("service.version", "9")]);
    let of_scope = fields(&one(&of_resource, 2));
    assert_eq!(text(one(&fields(&one(&of_scope, 1)), 1)), "everhook");
    let spans: Vec<_> = all(&of_scope, 2).iter().map(|bytes| fields(bytes)).collect();
    assert_eq!(spans.len(), 2);
    let first = &spans[0];
    assert_eq!(one(first, 1), (1..=16).collect::<Vec<u8>>());
    assert_eq!((one(first, 2), one(first, 4)), (42u64.to_be_bytes().to_vec(), 7u64.to_be_bytes().to_vec()));
    assert_eq!((text(one(first, 5)), number(first, 6)), ("attempt".to_owned(), 3));
    assert_eq!((number(first, 7), number(first, 8)), (1_000_001_000, 1_500_000_000));
    assert_eq!(attributes(first, 9), [pair("a.text", &"é".repeat(100)), pair("a.number", "-3")]);
    let status = fields(&one(first, 15));
    assert_eq!((text(one(&status, 2)), number(&status, 3)), ("it failed".to_owned(), 2));
    assert!(all(&spans[1], 4).is_empty() && all(&spans[1], 15).is_empty(), "neither a parent nor an error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_costs_a_bounded_queue_and_no_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    // It takes connections and never answers.
    let _hanging = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok(connection) = listener.accept().await {
            held.push(connection);
        }
    });
    let exporter = OtlpExporter::start(settings(&url)).unwrap();
    for n in 0..50_000 {
        exporter.record(span(n));
    }
    let counts = exporter.counts();
    assert_eq!(counts.exported, 0);
    assert!(counts.dropped >= 50_000 - 8_192 - 2 * 512, "{counts:?}");
    let began = std::time::Instant::now();
    exporter.stop(Duration::from_millis(200)).await;
    assert!(began.elapsed() < Duration::from_secs(5), "a stop does not wait for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_collector_that_is_away_does_not_take_is_dropped_and_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    drop(listener);
    let exporter = OtlpExporter::start(settings(&url)).unwrap();
    (0..10).for_each(|n| exporter.record(span(n)));
    exporter.stop(PATIENCE).await;
    assert_eq!(exporter.counts(), SpanCounts { exported: 0, dropped: 10 });
    exporter.record(span(11));
    assert_eq!(exporter.counts().dropped, 11, "after its stop it takes nothing");
}

#[tokio::test]
async fn spans_are_wanted_as_the_sampler_says() {
    let (url, _) = collector().await;
    let exporter = OtlpExporter::start(settings(&url)).unwrap();
    let context = span(1).context;
    assert!(exporter.wants(&context));
    assert!(!exporter.wants(&TraceContext { is_recorded: Some(false), ..context }));
}
