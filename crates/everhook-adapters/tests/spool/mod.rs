//! What the port `Spool` promises, on a real file.

mod binding;
mod opening;
mod publisher_cache;
mod queue;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use everhook_adapters::{
    spool::{SpoolSettings, SqliteSpool},
    sqlite::WriterMode,
    vault::AesVault,
};
use everhook_core::{
    ids::{ApplicationId, EndpointId, EventId, OrganizationId, SourceId},
    model::{ContentType, Event, EventType, OrderingKey, Priority, Received, WaitsFor},
    ports::{IncomingEvent, KeyOrigin},
    time::Timestamp,
};
use tempfile::TempDir;
use uuid::Uuid;

/// The tests' present.
const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
/// Room for all events of a test.
const ROOMY: u64 = 64 << 20;

/// Above the ids that `event` gives to its organization and application.
static IDS: AtomicU64 = AtomicU64::new(100);

/// A new id.
fn id() -> Uuid {
    Uuid::from_u128(u128::from(IDS.fetch_add(1, Ordering::Relaxed)))
}

fn settings(folder: &TempDir, bytes_max: u64) -> SpoolSettings {
    SpoolSettings { folder: folder.path().join("spool"), bytes_max, mode: WriterMode::Thread }
}

fn open(folder: &TempDir) -> SqliteSpool {
    let spool = SqliteSpool::open(settings(folder, ROOMY)).unwrap();
    spool.seal_with(Arc::new(AesVault::from_key([7; 32])));
    spool
}

/// An event whose every field is set.
fn event(key: &str) -> IncomingEvent {
    let event = Event {
        id: EventId::from_uuid(id()),
        application: ApplicationId::from_uuid(Uuid::from_u128(7)),
        event_type: EventType::parse("order.paid").unwrap(),
        data: Bytes::from_static(b"{\"a\" :  1.50, \"a\": 2}"),
        content_type: ContentType::parse("application/vnd.shop+json").unwrap(),
        sealed: false,
        timestamp: Timestamp::from_micros(1_234_567_890_123_457),
        idempotency_key: key.to_owned(),
        source: Some("billing".to_owned()),
        priority: Priority::High,
        sequence_number: 0,
        ordering_key: OrderingKey::parse("customer \u{fc}"),
        traceparent: Some("00-abc-def-01".to_owned()),
        labels: [("region".to_owned(), "\u{fc}".to_owned())].into(),
        headers: vec![("X-Key".to_owned(), "a\"b".to_owned()), ("X-Key".to_owned(), String::new())],
        received: Some(Box::new(Received {
            source: SourceId::from_uuid(Uuid::from_u128(9)),
            external_user: Some("user \u{fc}".to_owned()),
            duplicate_of: Some(EventId::from_uuid(Uuid::from_u128(10))),
            headers: vec![("x-id".to_owned(), "a\"b".to_owned())],
        })),
        created_at: NOW,
    };
    let only = Some(EndpointId::from_uuid(id()));
    let key = KeyOrigin::Given { valid_since: NOW };
    IncomingEvent { organization: OrganizationId::from_uuid(Uuid::from_u128(8)), event, key, only, parked: WaitsFor::parse("source:7") }
}
