//! Measures what a delivery's life costs the embedded store: event and delivery recorded, attempt and outcome settled.
//!
//! `cargo run --release -p everhook-adapters --example sqlite_lifecycle -- [folder [one|ten|batch|thousand]]`

#![allow(clippy::print_stdout)]

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use everhook_adapters::sqlite::{SqliteSettings, SqliteStore, WriterMode};
use everhook_core::{
    ids::{ApplicationId, AuditEntryId, DeliveryId, EndpointId, EventId, LaneId, OrganizationId, RevisionNumber, ScheduleVersion},
    model::{
        Actor, Application, ApplicationKind, Attempt, AttemptStatus, AuditAction, AuditEntry, AuditNote, ContentType, Cut, Endpoint,
        EndpointState, Event, EventType, EventTypePattern, Organization, PayloadStyle, PhaseTimes, Priority, Response, SealedSecret,
        SealedSecrets, SignatureStyle, Stage, Target,
    },
    ports::{
        ConfigurationReader, DeliveryQueue, EndpointStore, EventStore, KeyOrigin, NewDelivery, NewEvent, NewOrganization,
        OrganizationStore, Settlement,
    },
    time::Timestamp,
};
use uuid::Uuid;

/// A payload of about the usual size.
const DATA_BYTES: usize = 1_000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One thing to measure: commits like those of a busy server, the same in every run, so that two builds can be compared.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    endpoints: usize,
    /// How many deliveries an event has.
    fan_out: usize,
    /// How many events are published.
    events: usize,
    /// How many calls publish at once: the writer takes them together.
    calls: usize,
    /// How many events one call holds.
    batch: usize,
    /// After how many commits the gathered outcomes are settled, together with that commit's events.
    settle_every: usize,
}

/// What `everhook bench` does, as the store sees it.
const LOADS: [Load; 4] = [
    Load { name: "one", endpoints: 1, fan_out: 1, events: 40_000, calls: 12, batch: 1, settle_every: 7 },
    Load { name: "ten", endpoints: 10, fan_out: 10, events: 10_000, calls: 12, batch: 1, settle_every: 2 },
    Load { name: "batch", endpoints: 1, fan_out: 1, events: 40_000, calls: 1, batch: 500, settle_every: 1 },
    Load { name: "thousand", endpoints: 1_000, fan_out: 1, events: 20_000, calls: 12, batch: 1, settle_every: 7 },
];

/// How many outcomes the engine hands over in one call, at most.
const SETTLE_BATCH: usize = 512;

// One thread, so that the calls of a group reach the writer one right after the other.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(|| std::env::temp_dir().join("everhook-lifecycle"), PathBuf::from);
    let only: Vec<String> = arguments.collect();
    for load in LOADS.iter().filter(|load| only.is_empty() || only.iter().any(|name| name == load.name)) {
        measure(&folder, *load).await?;
    }
    Ok(())
}

async fn measure(folder: &std::path::Path, load: Load) -> Result<(), Failure> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    let store = Arc::new(SqliteStore::open(SqliteSettings { data: folder.to_owned(), mode: WriterMode::Thread })?);
    let place = prepare(&store, load.endpoints).await?;
    let (busy_before, written_before) = (writer_busy(), bytes_written());
    let begun = Instant::now();
    let deliveries = live(&store, &place, load).await?;
    let whole = begun.elapsed();
    let busy = writer_busy() - busy_before;
    let written = bytes_written() - written_before;
    drop(store);
    let bytes = std::fs::metadata(folder.join("everhook.db"))?.len();
    println!(
        "{:>8}: a delivery took {:>5.2} µs of the writer's processor, {:>5} bytes written (log and file), {:>4} bytes kept; {:>6.0} deliveries/s",
        load.name,
        busy.as_secs_f64() * 1e6 / deliveries as f64,
        written / deliveries,
        bytes / deliveries,
        deliveries as f64 / whole.as_secs_f64(),
    );
    Ok(())
}

/// Publishes in groups, and settles what the group before has made. Says how many deliveries lived.
async fn live(store: &Arc<SqliteStore>, place: &Place, load: Load) -> Result<u64, Failure> {
    let mut made = Vec::new();
    let mut deliveries = 0;
    let groups = load.events / (load.calls * load.batch);
    for group in 1..=groups {
        let mut writes = tokio::task::JoinSet::new();
        if group % load.settle_every == 0 || group == groups {
            settle(store, std::mem::take(&mut made), &mut writes);
        }
        for call in 0..load.calls {
            let first = (group * load.calls + call) * load.batch;
            let events: Vec<_> = (first..first + load.batch).map(|number| event(place, number, load.fan_out)).collect();
            made.extend(events.iter().flat_map(|new| new.deliveries.iter().map(|delivery| (delivery.id, delivery.lane_id))));
            let store = Arc::clone(store);
            writes.spawn(async move { store.record(events).await.into_iter().try_for_each(|recorded| recorded.map(drop)) });
        }
        deliveries += load.calls * load.batch * load.fan_out;
        while let Some(written) = writes.join_next().await {
            written??;
        }
    }
    Ok(deliveries as u64)
}

/// Settles deliveries, not quite in the order in which they were made: answers overtake each other.
fn settle(
    store: &Arc<SqliteStore>,
    mut made: Vec<(DeliveryId, LaneId)>,
    writes: &mut tokio::task::JoinSet<Result<(), everhook_core::ports::StoreError>>,
) {
    made.chunks_mut(OVERTAKING).for_each(<[_]>::reverse);
    for outcomes in made.chunks(SETTLE_BATCH) {
        let settlements = Arc::new(outcomes.iter().map(|(delivery, endpoint)| settlement(*delivery, *endpoint)).collect());
        let store = Arc::clone(store);
        writes.spawn(async move { store.settle(settlements).await.map(drop) });
    }
}

/// How far answers overtake each other.
const OVERTAKING: usize = 5;

/// How long the writer's thread has kept a processor busy; zero where the system does not tell.
fn writer_busy() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let is_writer =
        |task: &std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "sqlite-writer\n");
    let spent =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok();
    Duration::from_nanos(tasks.filter(is_writer).filter_map(spent).sum())
}

/// How many bytes this process has written; zero where the system does not tell.
fn bytes_written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or(0)
}

/// Where events are published to.
struct Place {
    organization: OrganizationId,
    application: ApplicationId,
    lanes: Vec<LaneId>,
    config_version: i64,
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
        content_type: ContentType::JSON,
        sealed: false,
        timestamp: now,
        idempotency_key: id.to_string(),
        source: None,
        priority: Priority::Normal,
        sequence_number: 0,
        ordering_key: None,
        traceparent: None,
        labels: Default::default(),
        headers: Vec::new(),
        received: None,
        created_at: now,
    };
    let delivery = |step| NewDelivery {
        id: DeliveryId::from_uuid(self::id()),
        lane_id: place.lanes[(number * fan_out + step) % place.lanes.len()],
        retry_schedule: ScheduleVersion(1),
        placement: everhook_core::model::Placement::default(),
    };
    NewEvent {
        organization: place.organization,
        event,
        key: KeyOrigin::Made,
        config_version: place.config_version,
        made_at: now,
        deliveries: (0..fan_out).map(delivery).collect(),
        parked: None,
    }
}

fn settlement(delivery: DeliveryId, lane_id: LaneId) -> Settlement {
    let at = now();
    let headers = [("content-type", "text/plain"), ("content-length", "2"), ("date", "Sun, 06 Nov 1994 08:49:37 GMT")];
    let response = Response {
        status: 200,
        headers: headers.map(|(name, value)| (name.to_owned(), Bytes::from_static(value.as_bytes()))).to_vec(),
        body_sample: Bytes::from_static(b"ok"),
        cut: Cut::default(),
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
        revision: Some(RevisionNumber::FIRST),
        node: "node-1".to_owned(),
        user_agent: "Everhook/1".into(),
        breaker: everhook_core::model::BreakerState::Closed,
    };
    Settlement {
        delivery,
        lane_id,
        replay_of: None,
        ordered: false,
        attempt,
        stage: Stage::Delivered { at },
        target: String::new(),
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
        strict_event_types: false,
        owner_email: None,
        base_url: None,
        health_path: None,
        created_at: now(),
    };
    let new = NewOrganization {
        organization: Organization {
            id: organization,
            uid: None,
            name: "Acme".to_owned(),
            limits: Default::default(),
            worker_pool: Default::default(),
            admin_emails: Vec::new(),
            created_at: now(),
        },
        default: application(ApplicationKind::Default, "default"),
        operational: application(ApplicationKind::Operational, "operational"),
    };
    let application = new.default.id;
    store.create_organization(new, entry()).await?;
    let mut ids = Vec::new();
    for _ in 0..endpoints {
        let endpoint = endpoint(organization, application)?;
        ids.push(LaneId::from(endpoint.id));
        store.create_endpoint(endpoint, entry()).await?;
    }
    let row = store.application_row(application).await?.ok_or("the application is not there")?;
    Ok(Place { organization, application, lanes: ids, config_version: row.config_version })
}

/// What the audit log gets, which is not measured here.
fn entry() -> AuditEntry {
    AuditEntry {
        id: AuditEntryId::from_uuid(Uuid::now_v7()),
        organization: OrganizationId::from_uuid(Uuid::now_v7()),
        at: now(),
        actor: Actor::Server,
        action: AuditAction::EndpointCreate,
        resource: Uuid::now_v7(),
        note: AuditNote::default(),
    }
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
        revision: RevisionNumber::FIRST,
        metadata: None,
        retry_schedule: ScheduleVersion(1),
        follows: None,
        labels: Default::default(),
        filter: None,
        verify_url: false,
        timeout: None,
        timeout_growth_factor: 1.0,
        max_concurrency: 5,
        ordering: everhook_core::model::Ordering::default(),
        rate_limit: None,
        breaker: everhook_core::model::BreakerConfig::window(),
        drain: None,
        paused_at: None,
        state: EndpointState::Enabled,
        created_at: now(),
        updated_at: now(),
    })
}
