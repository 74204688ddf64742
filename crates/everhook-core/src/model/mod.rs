//! The nouns of the product. Plain values: no serde, no SQL, no clock. Each wire and each store owns its own spelling.

mod alert;
mod api_key;
mod app_health;
mod approval;
mod attempt;
mod audit;
mod auto_replay;
mod breakdown;
mod breaker;
mod breaker_facts;
mod budget;
mod channel;
mod content_type;
mod dead_letter;
mod delivery;
mod delivery_counts;
mod duty;
mod email;
mod endpoint;
mod event;
mod event_type;
mod failing_clock;
mod fingerprint;
pub mod health;
mod histogram;
mod job;
mod lane_kind;
mod lane_policy;
mod manifest;
mod operation;
mod ordering;
mod organization;
mod page;
mod parking;
mod pool;
mod processor;
mod profile;
mod rate_limit;
mod received;
mod retention;
mod retry_schedule;
mod revision;
mod sealing;
mod secret;
mod shard;
mod source;
mod source_statistics;
mod statistics;
mod trace;

pub use alert::{
    ALERT_EPISODES_MAX, ALERT_RULES_MAX, AlertComparison, AlertEpisode, AlertMetric, AlertRecipients, AlertRule, AlertScope, AlertSeverity,
    AlertStage, AlertStatus, AlertUnit, OrganizationAlertRule,
};
pub use api_key::{ApiKey, ApiKeyHash, Scope, Scopes};
pub use app_health::{AppCheck, AppCheckPlan, AppHealth, AppStatus, CheckChange, FailingChecks};
pub use approval::{Approval, ApprovalDecision, ApprovalEnd, ApprovalStatus};
pub use attempt::{Attempt, AttemptStatus, Cut, FailureCategory, PhaseTimes, Report, Response, RetryAfter, Sent};
pub use audit::{Actor, AuditAction, AuditEntry, AuditNote, Author};
pub use auto_replay::AutoReplay;
pub use breakdown::{Breakdown, BreakdownKind, BreakdownTally};
pub use breaker::{BreakerConfig, BreakerFault, BreakerState, KeptBreaker, KeptSlice, KeptStage, KeptWindow, OpenPeriod, TripRule};
pub use breaker_facts::{BreakerCause, BreakerFacts, BreakerTransition, VoteCount};
pub use budget::{Budget, Credit, SlotRequest, TokenGrant, TokenRequest};
pub use channel::{
    ADMIN_EMAILS_MAX, CHANNEL_NAME_CHARS_MAX, CHANNELS_MAX, Channel, ChannelCredentials, ChannelName, ChannelTarget, NoticeSeverity,
    OWNER_EMAILS_MAX, ServiceChannel, ServiceKind,
};
pub use content_type::{CONTENT_TYPE_BYTES_MAX, ContentType};
pub use dead_letter::{DeadLetter, DeadLetterStatus};
pub use delivery::{CancelCause, DeathCause, Delivery, Due, InFlight, Stage};
pub use delivery_counts::{DeliveryCounts, DeliveryEnd};
pub use duty::{Duty, DutySet};
pub use email::{EmailAddress, EmailAddressFault, EmailSender};
pub use endpoint::{DisabledReason, Endpoint, EndpointState, PayloadStyle, SignatureStyle, Target};
pub use event::{Event, EventType, EventTypePattern, Priority};
pub use event_type::{EventTypeDefinition, EventTypeMark};
pub use failing_clock::{ClockReset, FailingClock, FailingRule, HEALTH_RECORDS_MAX, HealthRecord, HealthReportKind};
pub use fingerprint::{FINGERPRINT_BYTES, Fingerprint};
pub use histogram::{Histogram, LatencyHistogram, Lengths};
pub use job::{CapabilityLane, JOB_TOKENS_MAX, JobAnswer, JobAttempt, JobLane, JobOutcome, JobProgress, JobRecord, JobStatus, TokenHash};
pub use lane_kind::LaneKind;
pub use lane_policy::LanePolicy;
pub use manifest::{
    CacheAges, CacheKey, CachedAnswer, CallBackoff, CallMode, Canary, Capability, CapabilityName, FairDraw, FallbackStep, HealthPath,
    Hedge, HedgeDelay, KeptManifest, LaneAnswers, Manifest, PickCount, SlowCallRule, callback_lane,
};
pub use operation::{
    DeadLetterSelection, ErasureCandidate, ErasureSelection, EventSelection, NewestDelivery, Operation, OperationKind, OperationStatus,
    Selection, Wanted,
};
pub use ordering::{ORDERING_KEY_BYTES_MAX, Order, OrderedBy, Ordering, OrderingKey, OrderingMode, Placement};
pub use organization::{Application, ApplicationKind, DEFAULT_HEALTH_PATH, DEFAULT_ORGANIZATION_UID, Organization, OrganizationLimits};
pub use page::{Cursor, Page, PageRequest};
pub use parking::{AfterExpiry, Expiry, Parking, WAITS_FOR_BYTES_MAX, WaitsFor};
pub use pool::{PoolAssignment, PoolName};
pub use processor::{ProcessorKind, SourceProcessor};
pub use profile::Profile;
pub use rate_limit::{Period, RateLimit};
pub use received::{EXTERNAL_USER_BYTES_MAX, KEPT_HEADERS_BYTES_MAX, KEPT_HEADERS_MAX, Received};
pub use retention::{RetentionClass, RetentionPeriods};
pub use retry_schedule::{Backoff, Jitter, OrganizationSchedule, RetrySchedule, ScheduleName, Strategy};
pub use revision::Revision;
pub use sealing::{Rotation, SealKeyId, SealedKind, SealedPlace, Sealing};
pub use secret::{InvalidSecret, SealedSecret, SealedSecrets, Secret, SigningKey};
pub use shard::{Shard, ShardSet};
pub use source::{
    Dedupe, DedupeBy, KIND_CUSTOM, KIND_HMAC, PER_IP_PER_MINUTE, PauseMode, RecipeTexts, SOURCE_NAME_CHARS_MAX, Source, SourceActivity,
    SourceName, SourcePause, SourceRateLimit, SourceResponse,
};
pub use source_statistics::{EventCounts, REJECTION_REASONS_MAX, SOURCE_EVENT_TYPES_MAX, SourceStatistics, SourceTally};
pub use statistics::{AnswerCount, AnswerCounts, AttemptStatistics, CountedFailures, EndpointActivity, FailureCounts, Tally, minute_of};
pub use trace::{Span, SpanKind, SpanValue, TraceContext, TraceParent};
