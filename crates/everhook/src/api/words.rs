//! The closed sets of words that requests and answers use, as named schemas of the OpenAPI document, so that generated clients have types for them.
//!
//! The ending `Word`, which keeps them apart from the types of the core, is left out in the document. Fields stay texts: what a request says is checked by the core, which names every fault. A type here stands for such a field in the document alone.

use std::{borrow::Cow, collections::BTreeSet};

use everhook_core::{
    calls::contract::CHECK_NAMES,
    model::{
        AlertComparison, AlertMetric, AlertScope, AlertSeverity, AlertUnit, ApprovalStatus, AuditAction, DeadLetterStatus, DedupeBy,
        FailureCategory, JobStatus, LaneKind, NoticeSeverity, OperationKind, PauseMode, Priority, ProcessorKind, Scope, SealedKind,
        health::{ChunkOutcome, MetricType, Provider},
    },
    policy::why::REASONS,
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

macro_rules! words {
    ($($(#[doc = $doc:literal])+ $name:ident = $words:expr;)+) => {$(
        $(#[doc = $doc])+
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let words = $words.into_iter().map(serde_json::Value::from);
                let description = [$($doc.trim()),+].join(" ");
                ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).description(Some(description)).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name).trim_end_matches("Word"))
            }
        }
    )+};
}

words! {
    /// What an alert rule compares with its threshold.
    AlertMetricWord = AlertMetric::ALL.map(AlertMetric::as_str);
    /// What an alert rule watches.
    AlertScopeWord = AlertScope::ALL.map(AlertScope::as_str);
    /// How much an alert matters.
    AlertSeverityWord = AlertSeverity::ALL.map(AlertSeverity::as_str);
    /// On which side of the threshold an alert fires.
    AlertComparisonWord = AlertComparison::ALL.map(AlertComparison::as_str);
    /// What values and thresholds are measured in.
    AlertUnitWord = AlertUnit::ALL.map(AlertUnit::as_str);
    /// The state of an alert. `pending`: the condition holds, but not for long enough yet. `too_few_samples`: it was firing, and there is now too little
    /// traffic to judge.
    AlertStateWord = super::alerts::STATE_WORDS;
    /// What a channel leads to.
    ChannelKindWord = ["email", "slack", "pagerduty", "teams", "webhook"];
    /// How serious the cause of a notification is.
    NoticeSeverityWord = NoticeSeverity::ALL.map(NoticeSeverity::as_str);
    /// Who answered a call.
    CallSourceWord = ["app", "cache", "default"];
    /// The status of a call that a person decides about.
    ApprovalStatusWord = ApprovalStatus::ALL.map(ApprovalStatus::as_str);
    /// What a person decides about a call.
    ApprovalActionWord = ["approve", "reject"];
    /// The status of a delivery.
    DeliveryStatusWord = ["waiting", "held", "parked", "delivered", "dead", "cancelled"];
    /// The status by which deliveries are filtered: `pending` is `waiting` or `held`, `failed` is `waiting` after a failed attempt.
    DeliveryStatusFilter = super::deliveries::STATUS_WORDS;
    /// Why a delivery is dead or cancelled.
    EndReason = ["retries_exhausted", "given_up", "gone", "tls_failed", "endpoint_disabled", "destination_deleted", "erased", "by_person"];
    /// How an attempt ended; `circuit_blocked` is a note that the circuit breaker prevented an attempt.
    AttemptStatusWord = ["success", "failed", "exhausted", "parked", "circuit_blocked"];
    /// Why an attempt failed.
    FailureCategoryWord = FailureCategory::ALL.map(FailureCategory::as_str);
    /// How soon an event is sent where requests must wait.
    PriorityWord = Priority::ALL.map(Priority::as_str);
    /// What an API key may do.
    ScopeWord = Scope::ALL.map(Scope::as_str);
    /// The status of a dead letter.
    DeadLetterStatusWord = DeadLetterStatus::ALL.map(DeadLetterStatus::as_str);
    /// The status by which dead letters are filtered.
    DeadLetterStatusFilter = ["dead", "retrying", "resolved", "discarded", "any"];
    /// What a delivery goes to.
    DestinationKindWord = LaneKind::ALL.map(LaneKind::as_str);
    /// Why a delivery gave up.
    DeadLetterReason = ["retries_exhausted", "given_up", "gone", "tls_failed"];
    /// What an operation does.
    OperationKindWord = OperationKind::ALL.map(OperationKind::as_str);
    /// The result of a request of a backfill.
    ChunkOutcomeWord = ChunkOutcome::ALL.map(ChunkOutcome::as_str);
    /// The status of a rotation of the sealing key.
    RotationStatus = ["running", "cancelled"];
    /// The status of a job.
    JobStatusWord = JobStatus::ALL.map(JobStatus::as_str);
    /// The health of an app.
    AppStatusWord = ["healthy", "degraded", "unhealthy", "unknown"];
    /// The status of an operation.
    OperationStatusWord = ["pending", "running", "finished", "cancelled", "failed"];
    /// What an application is for.
    ApplicationKindWord = ["default", "operational", "custom"];
    /// Who made a change.
    ActorKind = ["api_key", "server"];
    /// What was changed, and how.
    AuditActionWord = AuditAction::ALL.iter().map(|action| action.as_str());
    /// The kind of thing that was changed.
    AuditResource = AuditAction::ALL.iter().map(|action| action.noun()).collect::<BTreeSet<_>>();
    /// Which deliveries of an endpoint go one after the other.
    OrderingWord = ["none", "per_event_type", "per_key", "strict"];
    /// How `X-Webhook-Signature` is written.
    SignatureStyleWord = ["timestamped", "sha256", "hex"];
    /// What kind of key signs.
    SignatureKeyWord = ["hmac", "ed25519"];
    /// What the body of a request is.
    PayloadStyleWord = ["envelope", "raw"];
    /// Who disabled an endpoint.
    DisabledReason = ["by_owner", "gone", "failing"];
    /// What a pause of a source means.
    SourcePauseMode = PauseMode::ALL.map(PauseMode::as_str);
    /// The value by which duplicates are recognized.
    DedupeByWord = DedupeBy::NAMES;
    /// The built-in code that handles the events of a source.
    ProcessorWord = ProcessorKind::ALL.map(ProcessorKind::as_str);
    /// Who measured.
    HealthProviderWord = Provider::ALL.map(Provider::as_str);
    /// What was measured.
    MetricTypeWord = MetricType::ALL.map(MetricType::as_str);
    /// The status of a source's handshake.
    HandshakeStatus = ["none", "awaiting", "answered"];
    /// The hash of a signature.
    HmacAlgorithm = ["sha1", "sha256", "sha512"];
    /// How a signature is written.
    HmacEncoding = ["hex", "base64", "base64url"];
    /// When a circuit breaker opens.
    BreakerRule = ["window", "consecutive"];
    /// What to do with a circuit breaker.
    BreakerAction = ["reset", "force_open", "force_close"];
    /// The state of a circuit breaker.
    BreakerStateWord = ["closed", "open", "half_open"];
    /// The health of an endpoint.
    HealthStatus = ["healthy", "failing", "warned", "paused", "disabled"];
    /// What was reported about an endpoint.
    HealthReportWord = ["warned", "disabled", "recovered"];
    /// How the delays of a retry schedule grow.
    StrategyWord = ["exponential", "linear", "custom"];
    /// A time until now.
    StatsWindow = ["1h", "24h", "7d"];
    /// What a number of rows means.
    RowCountWord = ["exact", "about", "more_than"];
    /// How a server is.
    ServerStatus = ["ok", "degraded"];
    /// What answered a call that became a job.
    QueuedSourceWord = ["queued"];
    /// What answered a call that nothing could answer.
    ErrorSourceWord = ["error"];
    /// What was tried for a call.
    CallStep = ["cache", "app", "static", "random_pick", "http", "queue", "manual", "error"];
    /// How that went.
    CallStepOutcome = ["hit", "stale", "miss", "answered", "queued", "pending", "failed", "skipped", "shadowed"];
    /// A check of a contract test.
    ContractCheckName = CHECK_NAMES;
    /// The table that a rotation of the sealing key processes.
    RotationStep = SealedKind::ALL.map(SealedKind::as_str);
    /// Which deliveries are replayed.
    ReplayStatus = ["any", "failed"];
    /// Why an event reached a destination, did not yet, or never will.
    WhyReason = REASONS;
    /// A destination that is not an endpoint.
    OtherDestinationWord = ["processor", "capability", "callback", "channel"];
}
