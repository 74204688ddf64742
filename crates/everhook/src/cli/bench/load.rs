//! The publishing end of `bench`: keep-alive connections that publish as fast as they are answered, or at a fixed rate.
//!
//! The same code publishes to a server and, for the limit of the machine, straight into the sink. A publish whose answer was lost is
//! not repeated: it may or may not have been taken, and is reported as such.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use http::{HeaderName, HeaderValue, Method};
use serde_json::Value;

use super::{
    marker::{Marker, now_ns},
    receive::PushTarget,
};
use crate::cli::client::{Answer, Connection, Refusal, Server};

/// What to publish, and how.
pub struct Load {
    /// Tells this run's arrivals from others'.
    pub run: u64,
    /// How many events.
    pub events: u64,
    /// How many publishers, each with a connection of its own.
    pub connections: u32,
    /// The size of each event's `data`, in bytes.
    pub data_bytes: usize,
    /// Where each request goes and how its body is written.
    pub door: PublishPath,
    /// Events a second over all publishers, whatever the answers take; `None` publishes as fast as answered.
    pub rate: Option<f64>,
}

/// The ways in.
pub enum PublishPath {
    /// Straight into the sink, past the server: the limit of the machine.
    Sink,
    /// `POST /v1/events`.
    Single {
        /// The type that only this run's endpoints want.
        event_type: String,
    },
    /// `POST /v1/events/batch`.
    Batch {
        /// The type that only this run's endpoints want.
        event_type: String,
        /// Events a request.
        batch: u64,
    },
    /// `POST /in/{source}`, as providers do, in turns at these sources.
    Sources(Vec<PushTarget>),
}

impl PublishPath {
    fn path(&self, number: u64) -> &str {
        match self {
            Self::Sink => "/e/0",
            Self::Single { .. } => "/v1/events",
            Self::Batch { .. } => "/v1/events/batch",
            Self::Sources(targets) => &PushTarget::of(targets, number).path,
        }
    }

    fn headers(&self, number: u64, body: &[u8]) -> Vec<(HeaderName, HeaderValue)> {
        match self {
            Self::Sink | Self::Single { .. } | Self::Batch { .. } => Vec::new(),
            Self::Sources(targets) => PushTarget::of(targets, number).provider.headers(number, body),
        }
    }

    const fn events_per_request(&self) -> u64 {
        match self {
            Self::Sink | Self::Single { .. } | Self::Sources(_) => 1,
            Self::Batch { batch, .. } => *batch,
        }
    }
}

/// What became of a load, or of one publisher's part of it.
#[derive(Default)]
pub struct Published {
    /// The numbers of the events that were answered with a yes.
    pub accepted: Vec<u64>,
    /// How many were answered with a no.
    pub refused: u64,
    /// How many were not answered: the server may or may not have them.
    pub unanswered: u64,
    /// The last no or lost answer.
    pub last_error: Option<String>,
    /// How long each accepted request took to be answered.
    pub answer_us: Vec<u32>,
    /// When the first publisher began.
    pub began_ns: u64,
    /// When the last answer came.
    pub ended_ns: u64,
}

/// Publishes the whole load and returns when the last answer came.
///
/// # Errors
/// When the first connection cannot be opened. Later losses are counted in the result.
pub async fn publish(load: Arc<Load>, server: &Arc<Server>) -> anyhow::Result<Published> {
    let mut connections = Vec::new();
    for _ in 0..load.connections {
        let mut connection = Connection::new(server.clone());
        connection.open().await?;
        connections.push(connection);
    }
    let mut whole = Published { began_ns: now_ns(), ..Published::default() };
    let line = Arc::new(Line { load, next: AtomicU64::new(0), began_at: Instant::now() });
    let publishers: Vec<_> = connections.into_iter().map(|connection| tokio::spawn(publish_part(line.clone(), connection))).collect();
    for publisher in publishers {
        whole.add(publisher.await.context("a publisher panicked")?);
    }
    whole.ended_ns = now_ns();
    Ok(whole)
}

/// What the publishers share.
struct Line {
    load: Arc<Load>,
    next: AtomicU64,
    began_at: Instant,
}

async fn publish_part(line: Arc<Line>, mut connection: Connection) -> Published {
    let mut part = Published::default();
    let load = &line.load;
    let step = load.door.events_per_request();
    loop {
        let first = line.next.fetch_add(step, Ordering::Relaxed);
        if first >= load.events {
            return part;
        }
        let numbers = first..load.events.min(first + step);
        if let Some(rate) = load.rate {
            let due_at = line.began_at + Duration::from_secs_f64(first as f64 / rate);
            tokio::time::sleep_until(due_at.into()).await;
        }
        let asked_at = Instant::now();
        let body = body_of(load, numbers.clone());
        let headers = load.door.headers(first, &body);
        match connection.send_with(Method::POST, load.door.path(first), &headers, body).await {
            Ok(answer) => part.answered(&load.door, numbers, &answer, asked_at.elapsed()),
            Err(cause) => {
                part.unanswered += numbers.end - numbers.start;
                part.last_error = Some(format!("{cause:#}"));
            }
        }
    }
}

/// Room for a marker, an envelope and the commas of a batch.
const ENVELOPE_BYTES: usize = 128;

fn body_of(load: &Load, numbers: std::ops::Range<u64>) -> Vec<u8> {
    let count = usize::try_from(numbers.end - numbers.start).unwrap_or(1);
    let mut body = Vec::with_capacity(count * (load.data_bytes + ENVELOPE_BYTES));
    let marker = |number| Marker { run: load.run, number, sent_ns: now_ns() };
    match &load.door {
        PublishPath::Sink => marker(numbers.start).write_payload(load.data_bytes, &mut body),
        PublishPath::Single { event_type } => write_event(event_type, &marker(numbers.start), load.data_bytes, &mut body),
        PublishPath::Sources(targets) => {
            let number = numbers.start;
            PushTarget::of(targets, number).provider.write_body(&marker(number), load.data_bytes, &mut body);
        }
        PublishPath::Batch { event_type, .. } => {
            body.extend_from_slice(br#"{"events":["#);
            for number in numbers.clone() {
                if number > numbers.start {
                    body.push(b',');
                }
                write_event(event_type, &marker(number), load.data_bytes, &mut body);
            }
            body.extend_from_slice(b"]}");
        }
    }
    body
}

fn write_event(event_type: &str, marker: &Marker, data_bytes: usize, body: &mut Vec<u8>) {
    body.extend_from_slice(br#"{"type":""#);
    body.extend_from_slice(event_type.as_bytes());
    body.extend_from_slice(br#"","data":"#);
    marker.write_payload(data_bytes, body);
    body.push(b'}');
}

impl Published {
    fn answered(&mut self, door: &PublishPath, numbers: std::ops::Range<u64>, answer: &Answer, took: Duration) {
        if !answer.status.is_success() {
            self.refused += numbers.end - numbers.start;
            self.last_error = Some(Refusal::read(answer.status, &answer.body).to_string());
            return;
        }
        self.answer_us.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        match door {
            PublishPath::Sink | PublishPath::Single { .. } | PublishPath::Sources(_) => self.accepted.extend(numbers),
            PublishPath::Batch { .. } => self.batch_answered(numbers, &answer.body),
        }
    }

    /// Each item of a batch is answered alone: one may be refused and the rest taken.
    fn batch_answered(&mut self, numbers: std::ops::Range<u64>, body: &[u8]) {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let items = answer["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (position, number) in numbers.enumerate() {
            match items.get(position) {
                Some(item) if item.get("error").is_none() => self.accepted.push(number),
                refused => {
                    self.refused += 1;
                    self.last_error =
                        Some(refused.map_or("the response to a batch has fewer items than the batch".to_owned(), Value::to_string));
                }
            }
        }
    }

    fn add(&mut self, part: Self) {
        self.accepted.extend(part.accepted);
        self.answer_us.extend(part.answer_us);
        self.refused += part.refused;
        self.unanswered += part.unanswered;
        self.last_error = part.last_error.or(self.last_error.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(door: PublishPath) -> Load {
        Load { run: 1, events: 3, connections: 1, data_bytes: 100, door, rate: None }
    }

    #[test]
    fn every_door_gets_json_in_its_own_shape() {
        let read = |body: Vec<u8>| serde_json::from_slice::<Value>(&body).expect("JSON");
        let event_type = || "bench.1".to_owned();
        assert!(read(body_of(&load(PublishPath::Sink), 0..1))["id"].is_string());
        assert_eq!(read(body_of(&load(PublishPath::Single { event_type: event_type() }), 1..2))["type"], "bench.1");
        let batch = read(body_of(&load(PublishPath::Batch { event_type: event_type(), batch: 3 }), 0..3));
        assert_eq!(batch["events"].as_array().map(Vec::len), Some(3));
        assert_eq!(batch["events"][2]["data"].to_string().len(), 100);
    }

    #[test]
    fn a_batch_counts_item_by_item() {
        let mut published = Published::default();
        published.batch_answered(10..13, br#"{"data":[{"id":"a"},{"error":{"status":422}}]}"#);
        assert_eq!(published.accepted, [10]);
        assert_eq!(published.refused, 2);
    }
}
