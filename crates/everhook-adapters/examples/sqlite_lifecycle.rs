//! Measures what a delivery's life costs the embedded store: event and delivery recorded, attempt and outcome settled.
//!
//! `cargo run --release -p everhook-adapters --example sqlite_lifecycle -- [folder]`

#![allow(clippy::print_stdout)]

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use everhook_adapters::sqlite::{SqliteSettings, SqliteStore, WriterMode};
use everhook_core::{
    ids::{ApplicationId, DeliveryId, EndpointId, EventId, OrganizationId, ScheduleVersion},
    model::{
        Application, ApplicationKind, Attempt, AttemptStatus, Endpoint, EndpointState, Event, EventType, EventTypePattern, Organization,
        PayloadStyle, PhaseTimes, Priority, Response, SealedSecret, SealedSecrets, SignatureStyle, Stage, Target,
    },
    ports::{DeliveryQueue, Directory, EventStore, KeyOrigin, NewDelivery, NewEvent, NewOrganization, Settlement},
    time::Timestamp,
};
use uuid::Uuid;

/// How many outcomes are settled in one call, at most.
const SETTLE_BATCH: usize = 256;
/// A payload of about the usual size.
const DATA_BYTES: usize = 1_000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One thing to measure.
#[derive(Clone, Copy)]
struct Load {
    events: usize,
    fan_out: usize,
    endpoints: usize,
    /// How many publish at once: the more there are, the more share a commit.
    publishers: usize,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let folder = std::env::args().nth(1).map_or_else(|| std::env::temp_dir().join("everhook-lifecycle"), PathBuf::from);
    for publishers in [32, 256] {
        for load in [
            Load { events: 40_000, fan_out: 1, endpoints: 1, publishers },
            Load { events: 10_000, fan_out: 10, endpoints: 10, publishers },
            Load { events: 20_000, fan_out: 1, endpoints: 1_000, publishers },
        ] {
            measure(&folder, load).await?;
        }
    }
    Ok(())
}

async fn measure(folder: &std::path::Path, load: Load) -> Result<(), Failure> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    let store = Arc::new(SqliteStore::open(SqliteSettings { data: folder.to_owned(), mode: WriterMode::Thread })?);
    let place = Arc::new(prepare(&store, load.endpoints).await?);
    let (made, outcomes) = tokio::sync::mpsc::channel(4_096);
    let begun = Instant::now();
    let settler = tokio::spawn(settle_all(Arc::clone(&store), outcomes));
    let mut publishers = Vec::new();
    for publisher in 0..load.publishers {
        publishers.push(tokio::spawn(publish(Arc::clone(&store), Arc::clone(&place), load, publisher, made.clone())));
    }
    drop(made);
    let mut waits = Vec::new();
    for publisher in publishers {
        waits.extend(publisher.await??);
    }
    let deliveries = settler.await??;
    let whole = begun.elapsed();
    let busy = writer_busy();
    drop(store);
    waits.sort_unstable();
    let megabytes = std::fs::metadata(folder.join("everhook.db"))?.len() / 1_000_000;
    println!(
        "{:>3} publishers, {:>6} events × {:>2} over {:>4} endpoints: {:>5.1} µs a delivery ({:.1} µs of the writer's processor), {:>6.0} \
         deliveries/s; accepted p50 {:.2} ms, p99 {:.2} ms; {megabytes} MB",
        load.publishers,
        load.events,
        load.fan_out,
        load.endpoints,
        whole.as_secs_f64() * 1e6 / deliveries as f64,
        busy.as_secs_f64() * 1e6 / deliveries as f64,
        deliveries as f64 / whole.as_secs_f64(),
        waits[waits.len() / 2].as_secs_f64() * 1e3,
        waits[waits.len() * 99 / 100].as_secs_f64() * 1e3,
    );
    Ok(())
}

/// How long the writer's thread has kept a processor busy; zero where the system does not tell.
fn writer_busy() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let is_writer =
        |task: &std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "sqlite-writer\n");
    let spent =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok();
    Duration::from_nanos(tasks.filter(is_writer).filter_map(spent).sum())
}

/// Where events are published to.
struct Place {
    organization: OrganizationId,
    application: ApplicationId,
    endpoints: Vec<EndpointId>,
    config_version: i64,
}

async fn publish(
    store: Arc<SqliteStore>,
    place: Arc<Place>,
    load: Load,
    publisher: usize,
    made: tokio::sync::mpsc::Sender<(DeliveryId, EndpointId)>,
) -> Result<Vec<Duration>, Failure> {
    let mut waits = Vec::new();
    for number in (publisher..load.events).step_by(load.publishers) {
        let new = event(&place, number, load.fan_out);
        let deliveries = new.deliveries.clone();
        let begun = Instant::now();
        for recorded in store.record(vec![new]).await {
            recorded?;
        }
        waits.push(begun.elapsed());
        for delivery in deliveries {
            made.send((delivery.id, delivery.endpoint)).await?;
        }
    }
    Ok(waits)
}

async fn settle_all(
    store: Arc<SqliteStore>,
    mut outcomes: tokio::sync::mpsc::Receiver<(DeliveryId, EndpointId)>,
) -> Result<usize, Failure> {
    let mut settled = 0;
    let mut batch = Vec::new();
    while outcomes.recv_many(&mut batch, SETTLE_BATCH).await > 0 {
        settled += batch.len();
        let settlements = batch.drain(..).map(|(delivery, endpoint)| settlement(delivery, endpoint)).collect();
        store.settle(Arc::new(settlements)).await?;
    }
    Ok(settled)
}

fn id() -> Uuid {
    Uuid::now_v7()
}

fn now() -> Timestamp {
    Timestamp::EPOCH + std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

fn event(place: &Place, number: usize, fan_out: usize) -> NewEvent {
    let id = EventId::from_uuid(id());
    let now = now();
    let event = Event {
        id,
        application: place.application,
        event_type: EventType::parse("user.created").expect("a type"),
        data: Bytes::from(vec![b'7'; DATA_BYTES]),
        timestamp: now,
        idempotency_key: id.to_string(),
        source: None,
        priority: Priority::Normal,
        sequence_number: 0,
        traceparent: None,
        created_at: now,
    };
    let delivery = |step| NewDelivery {
        id: DeliveryId::from_uuid(self::id()),
        endpoint: place.endpoints[(number * fan_out + step) % place.endpoints.len()],
        retry_schedule: ScheduleVersion(1),
    };
    NewEvent {
        organization: place.organization,
        event,
        key: KeyOrigin::Made,
        config_version: place.config_version,
        deliveries: (0..fan_out).map(delivery).collect(),
    }
}

fn settlement(delivery: DeliveryId, endpoint: EndpointId) -> Settlement {
    let at = now();
    let headers = [("content-type", "text/plain"), ("content-length", "2"), ("date", "Sun, 06 Nov 1994 08:49:37 GMT")];
    let response = Response {
        status: 200,
        headers: headers.map(|(name, value)| (name.to_owned(), Bytes::from_static(value.as_bytes()))).to_vec(),
        body_sample: Bytes::from_static(b"ok"),
        retry_after: None,
    };
    let attempt = Attempt {
        number: 1,
        status: AttemptStatus::Success,
        failure_category: None,
        error: None,
        response: Some(response),
        duration: Duration::from_millis(3),
        phases: PhaseTimes { first_byte: Some(Duration::from_millis(2)), ..PhaseTimes::default() },
        scheduled_at: at,
        picked_at: at,
        executed_at: at,
        next_retry_at: None,
        node: "node-1".to_owned(),
    };
    Settlement {
        delivery,
        endpoint,
        replay_of: None,
        attempt,
        stage: Stage::Delivered { at },
        url: String::new(),
        disables: None,
        alerts: Vec::new(),
    }
}

async fn prepare(store: &SqliteStore, endpoints: usize) -> Result<Place, Failure> {
    let organization = OrganizationId::from_uuid(id());
    let application = |kind, name: &str| Application {
        id: ApplicationId::from_uuid(id()),
        organization,
        uid: None,
        name: name.to_owned(),
        kind,
        created_at: now(),
    };
    let new = NewOrganization {
        organization: Organization { id: organization, uid: None, name: "Acme".to_owned(), created_at: now() },
        default: application(ApplicationKind::Default, "default"),
        operational: application(ApplicationKind::Operational, "operational"),
    };
    let application = new.default.id;
    store.create_organization(new).await?;
    let mut ids = Vec::new();
    for _ in 0..endpoints {
        let endpoint = endpoint(organization, application)?;
        ids.push(endpoint.id);
        store.create_endpoint(endpoint).await?;
    }
    let row = store.application_row(application).await?.ok_or("the application is not there")?;
    Ok(Place { organization, application, endpoints: ids, config_version: row.config_version })
}

fn endpoint(organization: OrganizationId, application: ApplicationId) -> Result<Endpoint, Failure> {
    let written = "https://shop.example/hooks".to_owned();
    Ok(Endpoint {
        id: EndpointId::from_uuid(id()),
        organization,
        application,
        uid: None,
        name: None,
        description: None,
        target: Target { url: written.parse()?, written },
        event_types: vec![EventTypePattern::Any],
        secrets: SealedSecrets { current: SealedSecret(vec![0; 60]), previous: None },
        signature_style: SignatureStyle::Timestamped,
        payload_style: PayloadStyle::Envelope,
        headers: Vec::new(),
        metadata: None,
        retry_schedule: ScheduleVersion(1),
        timeout: None,
        timeout_growth_factor: 1.0,
        max_concurrency: 5,
        state: EndpointState::Enabled,
        created_at: now(),
        updated_at: now(),
    })
}
