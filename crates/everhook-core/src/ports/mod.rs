//! What the core needs from the outside: one small trait a file, named by its part in the line.
//!
//! A port's answer is an enum that names every outcome; `Err` means that *we* failed. One port call is atomic.

mod alert_signals;
mod alert_store;
mod alone;
mod api_key_store;
mod app_health_store;
mod application_store;
mod approval_store;
mod archive;
mod audit_log;
mod auto_replay_store;
mod backfill_store;
mod breaker_store;
mod breaker_votes;
mod breaker_windows;
mod bulk_erasure;
mod call_records;
mod changes;
mod channel_store;
mod clock;
mod configuration_reader;
mod delivery_control;
mod delivery_queue;
mod endpoint_health_store;
mod endpoint_store;
mod entropy;
mod event_store;
mod event_type_store;
mod health_connections;
mod health_metrics;
mod history;
mod job_store;
mod lanes;
mod leases;
mod manifest_store;
mod notifier;
mod operation_candidates;
mod operation_store;
mod organization_store;
mod outbox;
mod outcomes;
mod parked_deliveries;
mod remote_hints;
mod requester;
mod retention;
mod retry_schedule_store;
mod sealing_store;
mod source_store;
mod spans;
mod spool;
mod statistics;
mod store_error;
mod store_measurements;
mod throttle_store;
mod transport;
mod vault;
mod wake_up;

use std::sync::Arc;

pub use alert_signals::{AlertSignals, LaneMinute, Signal, SignalPage, SignalPlace, SourceMinute, WatchedLane};
pub use alert_store::{AlertChange, AlertFilter, AlertRulePut, AlertRuleStore, AlertStore};
pub use alone::SingleNode;
pub use api_key_store::ApiKeyStore;
pub use app_health_store::AppHealthStore;
pub use application_store::{ApplicationStore, ContentsDeleted, Deletion};
pub use approval_store::{ApprovalFilter, ApprovalRequested, ApprovalStore, Decided};
pub use archive::{Archive, ArchiveError, ArchiveRecord, ArchiveStatus};
pub use audit_log::{ActorFilter, AuditFilter, AuditLog, Effect};
pub use auto_replay_store::{AutoReplayStore, DueDeadLetters};
pub use backfill_store::{BackfillStore, KeptBackfill};
pub use breaker_store::{BreakerChange, BreakerKept, BreakerRow, BreakerStore, OpenPeriod};
pub use breaker_votes::{BreakerVote, BreakerVotes};
pub use breaker_windows::{BreakerWindows, LaneWindow, WINDOW_GOOD_FOR};
pub use bulk_erasure::{BulkErasure, ErasureBatch, ErasureStep};
pub use call_records::CallRecords;
pub use changes::{CHANGES_EVERY, Change, ChangeCursor, Changed, Changes};
pub use channel_store::ChannelStore;
pub use clock::{Clock, Offset, Reading, within};
pub use configuration_reader::{
    APPLICATION_CONFIG_BYTES_MAX, ApplicationRow, CONFIG_ENDPOINT_BYTES, CONFIG_PAGE_BYTES, CONFIG_PAGE_ENDPOINTS, ConfigCursor,
    ConfigPage, ConfigRead, ConfigVersion, ConfigurationReader, Definitions,
};
pub use delivery_control::{
    BringForward, BroughtForward, CancelDelivery, DeliveryCancelled, DeliveryControl, ForwardedDelivery, WaitingBacklog, WaitingRow,
};
pub use delivery_queue::{
    AlertCondition, AlertFacts, CancelWaiting, DeliveryQueue, Disabling, DueQueue, DueRead, DueRequest, FailedItem, Freed, FreedHeads,
    LaneHead, Replay, ReplayAnswer, ReplayBy, ReplayItem, Replayed, Settled, Settlement, SettlementAlert,
};
pub use endpoint_health_store::{EndpointHealthStore, FailingEndpoint, FailingRequest, HealthReport};
pub use endpoint_store::{EndpointFilter, EndpointStore, EndpointUpdated, UidsRead};
pub use entropy::Entropy;
pub use event_store::{
    Erased, Erasure, EventAlias, EventStore, FreedInLane, KeyOrigin, KeyReused, NewDelivery, NewEvent, Original, Recorded,
};
pub use event_type_store::EventTypeStore;
pub use health_connections::{Connected, ConnectionFilter, EndedRefresh, HealthConnections, HealthUser, RefreshOutcome};
pub use health_metrics::{HealthMetrics, MetricFilter, MetricWrite, MetricsWritten, ProfileErased, RecordOf};
pub use history::{
    DeadLetterFilter, DeliveryFilter, DeliveryStatus, Discarded, EventFilter, EventSummary, History, ReceivedFilter, ReceivedSummary,
    TimeRange,
};
pub use job_store::{JobAnswered, JobProgressed, JobStore};
pub use lanes::{InLane, LaneReport, Lanes, Withdrawal};
pub use leases::{
    Departure, Heartbeat, Held, LEASE_GOOD_FOR, LEASE_RENEWED_EVERY, LEASE_TRUSTED_FOR, LEASE_WATCHED_FOR, LeaseRequest, Leases, Renewed,
    Roles, Terms,
};
pub use manifest_store::{ManifestBounds, ManifestChange, ManifestPut, ManifestStore, SecretsChange};
pub use notifier::{EmailMessage, Notifier};
pub use operation_candidates::{EventCandidate, OperationCandidates, Scan, Scanned};
pub use operation_store::{Begun, Cleared, Ending, OpenOperation, OperationEnded, OperationItem, OperationStore, Phase, SelectionStep};
pub use organization_store::{NewOrganization, OrganizationStore};
pub use outbox::{Alert, AlertId, Outbox};
pub use outcomes::{Created, Deleted, Updated};
pub use parked_deliveries::{OrphanedLane, ParkedDeliveries, Release, Unparked};
pub use remote_hints::{RemoteHints, WaitingQueue};
pub use requester::{request, requester, set_requester};
pub use retention::{Expiring, ExpiringId, Place, Purge, Purged, Retention, RetentionClass, RowCount, Stored, StoredTable};
pub use retry_schedule_store::{MoveEndpoints, Moved, RetryScheduleStore, ScheduleDeleted, ScheduleRef};
pub use sealing_store::{PassEnd, RESEAL_BYTES, RESEAL_ROWS, Resealed, RotationBegun, SealingStore};
pub use source_store::SourceStore;
pub use spans::{SpanCounts, Spans};
pub use spool::{IncomingEvent, KnownPublisher, PublisherCache, Spool, SpoolStatus, SpooledEvent, Taken};
pub use statistics::Statistics;
pub use store_error::{FullDisk, StoreError};
pub use store_measurements::{QueueMeasurements, StoreMeasurements};
pub use throttle_store::{ASKS_MAX, Ask, Grant, ThrottleStore, Wanted};
pub use transport::{FETCH_BYTES_MAX, OutgoingHeader, OutgoingMethod, OutgoingRequest, Transport, host_first};
pub use vault::{Vault, VaultError, VaultKeys};
pub use wake_up::{Committed, Forwarded, WakeUp};

/// Everything outside, as one value. Built in two places only: the binary's wiring and the testbed's world.
#[derive(Clone)]
pub struct Ports {
    /// Where events are recorded.
    pub events: Arc<dyn EventStore>,
    /// Where deliveries wait and are settled.
    pub deliveries: Arc<dyn DeliveryQueue>,
    /// What a person does to deliveries that have not ended.
    pub delivery_control: Arc<dyn DeliveryControl>,
    /// What ends the parking of deliveries.
    pub parked: Arc<dyn ParkedDeliveries>,
    /// Operational events that are to be published.
    pub outbox: Arc<dyn Outbox>,
    /// The state of breakers.
    pub breakers: Arc<dyn BreakerStore>,
    /// Organizations.
    pub organizations: Arc<dyn OrganizationStore>,
    /// Applications.
    pub applications: Arc<dyn ApplicationStore>,
    /// Endpoints.
    pub endpoints: Arc<dyn EndpointStore>,
    /// The configuration that publishing and sending go by.
    pub configuration: Arc<dyn ConfigurationReader>,
    /// Retry schedules.
    pub retry_schedules: Arc<dyn RetryScheduleStore>,
    /// Event types.
    pub event_types: Arc<dyn EventTypeStore>,
    /// API keys.
    pub api_keys: Arc<dyn ApiKeyStore>,
    /// Where notifications are sent.
    pub channels: Arc<dyn ChannelStore>,
    /// Where webhooks come in.
    pub sources: Arc<dyn SourceStore>,
    /// Which profile a health provider's user is.
    pub health_connections: Arc<dyn HealthConnections>,
    /// What was measured.
    pub health_metrics: Arc<dyn HealthMetrics>,
    /// What applications answer when they are called.
    pub manifests: Arc<dyn ManifestStore>,
    /// The health checks of apps.
    pub app_health: Arc<dyn AppHealthStore>,
    /// What calls leave behind.
    pub call_records: Arc<dyn CallRecords>,
    /// What is kept of jobs beside their events.
    pub jobs: Arc<dyn JobStore>,
    /// Calls that people decide about.
    pub approvals: Arc<dyn ApprovalStore>,
    /// Who changed what.
    pub audit_log: Arc<dyn AuditLog>,
    /// What happened.
    pub history: Arc<dyn History>,
    /// What happened, in numbers.
    pub statistics: Arc<dyn Statistics>,
    /// How much is in the store.
    pub store_measurements: Arc<dyn StoreMeasurements>,
    /// Which endpoints fail for long.
    pub endpoint_health: Arc<dyn EndpointHealthStore>,
    /// What organizations say about alert rules.
    pub alert_rules: Arc<dyn AlertRuleStore>,
    /// The state of alert rules.
    pub alerts: Arc<dyn AlertStore>,
    /// What alert rules are measured from.
    pub alert_signals: Arc<dyn AlertSignals>,
    /// Where bulk actions are kept.
    pub operations: Arc<dyn OperationStore>,
    /// What bulk actions select from.
    pub operation_candidates: Arc<dyn OperationCandidates>,
    /// How far backfills of health data have come.
    pub backfills: Arc<dyn BackfillStore>,
    /// Bulk actions that erase.
    pub bulk_erasure: Arc<dyn BulkErasure>,
    /// Which dead letters come back by themselves.
    pub auto_replays: Arc<dyn AutoReplayStore>,
    /// What removes what is old.
    pub retention: Arc<dyn Retention>,
    /// Where some of it is kept outside the store; `None` where nobody asked for that.
    pub archive: Option<Arc<dyn Archive>>,
    /// Which key values are sealed with.
    pub sealing: Arc<dyn SealingStore>,
    /// Who holds which shards and duties.
    pub leases: Arc<dyn Leases>,
    /// How nodes notify each other of what to check.
    pub remote_hints: Arc<dyn RemoteHints>,
    /// What other nodes changed.
    pub changes: Arc<dyn Changes>,
    /// Where events wait on this node while the store is away; `None` where the store is as near as the spool would be.
    pub spool: Option<Arc<dyn Spool>>,
    /// What closed breakers have counted.
    pub breaker_windows: Arc<dyn BreakerWindows>,
    /// What nodes report to each other about the apps that they call.
    pub breaker_votes: Arc<dyn BreakerVotes>,
    /// What nodes draw from together.
    pub throttle: Arc<dyn ThrottleStore>,
    /// How requests go out.
    pub transport: Arc<dyn Transport>,
    /// How mail goes out; `None` where no mail server is set up.
    pub notifier: Option<Arc<dyn Notifier>>,
    /// Where spans of traces go; `None` where nobody collects them.
    pub spans: Option<Arc<dyn Spans>>,
    /// How secrets are kept.
    pub vault: Arc<dyn Vault>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}

/// Every port that a store implements, as one.
pub trait StorePorts:
    EventStore
    + DeliveryQueue
    + DeliveryControl
    + ParkedDeliveries
    + Outbox
    + BreakerStore
    + OrganizationStore
    + ApplicationStore
    + EndpointStore
    + ConfigurationReader
    + RetryScheduleStore
    + EventTypeStore
    + ApiKeyStore
    + ChannelStore
    + SourceStore
    + HealthConnections
    + HealthMetrics
    + ManifestStore
    + AppHealthStore
    + CallRecords
    + JobStore
    + ApprovalStore
    + AuditLog
    + History
    + Statistics
    + StoreMeasurements
    + EndpointHealthStore
    + AlertRuleStore
    + AlertStore
    + AlertSignals
    + OperationStore
    + OperationCandidates
    + BackfillStore
    + BulkErasure
    + AutoReplayStore
    + Retention
    + SealingStore
{
}

impl<T> StorePorts for T where
    T: EventStore
        + DeliveryQueue
        + DeliveryControl
        + ParkedDeliveries
        + Outbox
        + BreakerStore
        + OrganizationStore
        + ApplicationStore
        + EndpointStore
        + ConfigurationReader
        + RetryScheduleStore
        + EventTypeStore
        + ApiKeyStore
        + ChannelStore
        + SourceStore
        + HealthConnections
        + HealthMetrics
        + ManifestStore
        + AppHealthStore
        + CallRecords
        + JobStore
        + ApprovalStore
        + AuditLog
        + History
        + Statistics
        + StoreMeasurements
        + EndpointHealthStore
        + AlertRuleStore
        + AlertStore
        + AlertSignals
        + OperationStore
        + OperationCandidates
        + BackfillStore
        + BulkErasure
        + AutoReplayStore
        + Retention
        + SealingStore
{
}
