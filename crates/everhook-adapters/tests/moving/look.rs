//! Everything that can be read of a store through its ports, as texts that can be compared.

use std::{fmt::Debug, time::Duration};

use everhook_core::{
    ids::{ApplicationId, ApprovalId, LaneId, Ref, RevisionNumber, ScheduleVersion},
    model::{CacheKey, CapabilityName, Cursor, LaneKind, PageRequest, Priority, ShardSet, health::Provider},
    ports::{
        ApprovalFilter, AuditFilter, DeadLetterFilter, DeliveryFilter, DueDeadLetters, DueQueue, DueRequest, EndpointFilter, EventFilter,
        EventStore, History, Scan,
    },
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    moving::filled::{CACHED_HASH, DRAWN, Filled, JOB},
    sqlite::{
        conformance::given::{NOW, after},
        conformance::store::Store,
    },
};

/// More rows than any list of these tests has.
const ALL: PageRequest = PageRequest { limit: 1_000, cursor: Cursor::Newest };

const MINUTE: Duration = Duration::from_secs(60);

/// What a store says, question by question.
#[derive(Default)]
pub struct Told(Vec<(String, String)>);

impl Told {
    fn note(&mut self, question: &str, answer: impl Debug) {
        self.0.push((question.to_owned(), format!("{answer:?}")));
    }

    /// The first questions that two stores answer differently; and how many were asked.
    pub fn differences(&self, other: &Self) -> Vec<(String, String, String)> {
        assert_eq!(self.0.len(), other.0.len(), "as many questions");
        let pairs = self.0.iter().zip(&other.0).filter(|(ours, theirs)| ours != theirs);
        pairs.map(|(ours, theirs)| (ours.0.clone(), ours.1.clone(), theirs.1.clone())).collect()
    }

    /// Whether a delivery of this kind of lane in this stage was among the answers.
    pub fn has_delivery(&self, kind: LaneKind, stage: &str) -> bool {
        let of_kind = format!("kind: {kind:?},");
        let in_stage = format!("stage: {stage}");
        self.0.iter().any(|(question, answer)| question == "delivery" && answer.contains(&of_kind) && answer.contains(&in_stage))
    }

    /// How many questions were answered with something.
    pub fn with_something(&self) -> usize {
        self.0.iter().filter(|(_, answer)| !matches!(answer.as_str(), "[]" | "None")).count()
    }
}

/// Asks a store everything about what a filled folder has.
pub async fn look(store: &dyn Store, filled: &Filled) -> Told {
    let mut told = Told::default();
    look_at_directory(store, filled, &mut told).await;
    look_at_history(store, filled, &mut told).await;
    look_at_queues(store, filled, &mut told).await;
    look_at_operations(store, filled, &mut told).await;
    look_at_statistics(store, &lanes(filled), &mut told).await;
    told
}

/// The lanes of all destinations.
fn lanes(filled: &Filled) -> Vec<LaneId> {
    filled.endpoints.iter().map(|endpoint| LaneId::from(*endpoint)).chain(filled.lanes.iter().copied()).collect()
}

async fn look_at_directory(store: &dyn Store, filled: &Filled, told: &mut Told) {
    told.note("organizations", store.organizations(ALL).await.unwrap());
    for organization in &filled.organizations {
        told.note("applications", store.applications(*organization, ALL).await.unwrap());
        told.note("endpoints", store.endpoints(*organization, EndpointFilter::default(), ALL).await.unwrap());
        told.note("event types", store.event_types(*organization, None, ALL).await.unwrap());
        told.note("retry schedules", store.retry_schedules(*organization).await.unwrap());
        let sources = store.sources(*organization, None, ALL).await.unwrap();
        let ids = sources.rows.iter().map(|source| source.id).collect();
        told.note("source activity", store.source_activity(ids).await.unwrap());
        for source in &sources.rows {
            let statistics = store.source_statistics(source.id, NOW - MINUTE, after(600), MINUTE).await.unwrap();
            told.note("source statistics", statistics);
        }
        told.note("sources", sources);
        told.note("API keys", store.api_keys(*organization, ALL).await.unwrap());
        told.note("audit log", store.audit_log(*organization, AuditFilter::default(), ALL).await.unwrap());
    }
    told.note("job", store.job(JOB).await.unwrap());
    told.note("approvals", store.unpublished_approvals(ApprovalId::from_uuid(Uuid::nil()), 10).await.unwrap());
    for organization in &filled.organizations {
        for listed in store.approvals(*organization, ApprovalFilter::default(), ALL).await.unwrap().rows {
            told.note("approval", store.approval(*organization, listed.id).await.unwrap());
        }
    }
    told.note("provider rate", store.provider_rate(Provider::Strava).await.unwrap());
    told.note("draw", store.draw(filled.given.organization, DRAWN).await.unwrap());
    for application in &filled.applications {
        told.note("manifest", store.manifest(*application).await.unwrap());
        told.note("health check", store.app_check(*application).await.unwrap());
        told.note("application secrets", store.application_secrets(*application).await.unwrap());
        let lane_id = CapabilityName::parse("winnerSelection").unwrap().lane(*application);
        told.note("cached answer", store.cached_answer(CacheKey { lane_id, hash: CACHED_HASH }).await.unwrap());
        told.note("application row", row_of(store, *application).await);
    }
    for endpoint in &filled.endpoints {
        told.note("endpoint", store.endpoint(filled.given.organization, &Ref::Id(*endpoint)).await.unwrap());
        for number in 1..=3 {
            told.note("revision", store.revision(filled.given.organization, *endpoint, RevisionNumber(number)).await.unwrap());
        }
    }
    for version in 1..=3 {
        told.note("schedule", store.schedule(ScheduleVersion(version)).await.unwrap());
    }
    told.note("API key by hash", store.api_key(&filled.api_key).await.unwrap());
}

async fn row_of(store: &dyn Store, application: ApplicationId) -> impl Debug {
    let row = store.application_row(application).await.unwrap().unwrap();
    (row.application, row.config_version, row.limits, row.endpoints, row.event_types)
}

async fn look_at_history(store: &dyn Store, filled: &Filled, told: &mut Told) {
    let organization = filled.given.organization;
    let events = store.events(organization, EventFilter::default(), ALL).await.unwrap().rows;
    for event in &events {
        told.note("event", History::event(store, organization, event.id).await.unwrap());
        told.note("event for sending", EventStore::event(store, event.id).await.unwrap());
        told.note("newest deliveries", store.newest_deliveries(organization, event.id).await.unwrap());
        let of_event = DeliveryFilter { event: Some(event.id), ..DeliveryFilter::default() };
        told.note("deliveries of event", store.deliveries(organization, of_event, ALL).await.unwrap());
    }
    told.note("events", events);
    let deliveries = store.deliveries(organization, DeliveryFilter::default(), ALL).await.unwrap().rows;
    for delivery in &deliveries {
        told.note("delivery", store.delivery(organization, delivery.id).await.unwrap());
    }
    told.note("deliveries", deliveries);
    told.note("dead letters", store.dead_letters(organization, DeadLetterFilter::default(), ALL).await.unwrap());
}

async fn look_at_queues(store: &dyn Store, filled: &Filled, told: &mut Told) {
    let mut lanes = store.lanes(ShardSet::from_bits(u64::MAX)).await.unwrap();
    lanes.sort_by_key(|lane| (*lane.lane_id.as_uuid(), lane.priority));
    told.note("lanes", lanes);
    for lane_id in self::lanes(filled) {
        for priority in Priority::ALL {
            let queues = vec![DueQueue { lane_id, priority, due_from: Timestamp::EPOCH, limit: 100, known: Default::default() }];
            let request = DueRequest { queues, due_by: after(10_000), event_bytes_max: 1_000 };
            told.note("due", store.due(request).await.unwrap());
        }
        told.note("backlog", store.waiting_backlog(lane_id, 100).await.unwrap());
        let of_lane = DeliveryFilter { endpoint: Some(lane_id.endpoint()), ..DeliveryFilter::default() };
        told.note("deliveries of lane", store.deliveries(filled.given.organization, of_lane, ALL).await.unwrap());
    }
    told.note("next parking that ends", store.next_look().await.unwrap());
    told.note("lanes of removed processors", store.orphaned_lanes(100).await.unwrap());
    told.note("queues in numbers", store.queue_measurements(after(700), 1_000).await.unwrap());
    told.note("dead letters by organization", store.dead_letters_by_organization(100).await.unwrap());
    told.note("alerts", store.pending(100).await.unwrap());
    told.note("alert rules", store.alert_rules_after(None, 100).await.unwrap());
    told.note("open alerts", store.open_alerts(None, 100).await.unwrap());
}

async fn look_at_operations(store: &dyn Store, filled: &Filled, told: &mut Told) {
    let organization = filled.given.organization;
    told.note("operations", store.operations(organization, None, ALL).await.unwrap());
    told.note("open operations", store.open_operations(100).await.unwrap());
    told.note("open backfills", store.open_backfills(100).await.unwrap());
    for operation in &filled.operations {
        told.note("items", store.items(*operation, 100).await.unwrap());
        told.note("items to erase", store.next_for_erasure(*operation, 100).await.unwrap());
    }
    told.note("automatic replay", store.auto_replays().await.unwrap());
    let due = DueDeadLetters { organization, failures: 1, died_until: after(10_000), limit: 100 };
    told.note("due dead letters", store.due_dead_letters(due).await.unwrap());
    let scan = Scan { after: Uuid::nil(), limit: 1_000 };
    told.note("dead letters to select", store.scan_dead_letters(organization, scan).await.unwrap());
    let span = (Timestamp::EPOCH, after(10_000));
    told.note("events to select", store.scan_events(organization, filled.given.application, span, scan).await.unwrap());
}

async fn look_at_statistics(store: &dyn Store, lanes: &[LaneId], told: &mut Told) {
    told.note("breakers", store.breakers().await.unwrap());
    for lane_id in lanes {
        told.note("open periods", store.open_periods(*lane_id, Timestamp::EPOCH, 10).await.unwrap());
        told.note("statistics", store.attempt_statistics(*lane_id, NOW, after(10_000)).await.unwrap());
    }
    told.note("activities", store.activities(lanes.to_vec()).await.unwrap());
}
