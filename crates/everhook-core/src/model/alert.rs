//! Alert rules, and the state of each for each target that it watches. Plain values: what follows from them is decided in `policy::alerts`.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    ids::{AlertRuleId, AlertStatusId, ApplicationId, OrganizationId},
    time::Timestamp,
};

/// How many rules an organization may have beside the defaults: each is evaluated again and again for everything that it watches.
pub const ALERT_RULES_MAX: u32 = 100;

/// How many of the last times are kept that an alert fired.
pub const ALERT_EPISODES_MAX: usize = 20;

/// A set of words with their names.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident, $count:literal { $($(#[doc = $word_doc:literal])+ $word:ident = $text:literal;)+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[doc = $word_doc])+ $word,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: [Self; $count] = [$(Self::$word),+];

            /// Its name on every wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)+
                }
            }

            /// Reads its name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|word| word.as_str() == name)
            }
        }
    };
}

words! {
    /// What a rule compares with its threshold.
    AlertMetric, 21 {
        /// The share of attempts or calls that succeeded.
        SuccessRate = "success_rate";
        /// The share of attempts or calls that failed.
        ErrorRate = "error_rate";
        /// The 95th percentile of how long attempts took, as a share of their timeout.
        P95OfTimeout = "p95_of_timeout";
        /// The 95th percentile of how long attempts took.
        P95 = "p95";
        /// The 99th percentile of how long attempts took.
        P99 = "p99";
        /// The share of attempts that failed because the name could not be resolved.
        DnsFailureRate = "dns_failure_rate";
        /// Whether the circuit breaker is open: 1, or 0.
        CircuitOpen = "circuit_open";
        /// The dead letters that nobody has dealt with.
        DeadLetters = "dead_letters";
        /// The 95th percentile of the time from the receipt of an event to the end of its processing.
        ProcessingP95 = "processing_p95";
        /// The share of attempts to process or forward events that failed.
        ProcessingFailureRate = "processing_failure_rate";
        /// The events of a source that became dead letters.
        DeadEvents = "dead_events";
        /// What waits.
        Depth = "depth";
        /// The requests that were rejected because of their signature.
        BadSignatures = "bad_signatures";
        /// The health checks of an app that failed in a row.
        FailedHealthChecks = "failed_health_checks";
        /// The share of the concurrency that is in use.
        WorkersBusy = "workers_busy";
        /// How long Redis has been away.
        RedisAway = "redis_away";
        /// How long limits and breakers have been working without Redis.
        RedisFallback = "redis_fallback";
        /// How long the database has been away.
        DatabaseAway = "database_away";
        /// The requests to the database that failed in a row.
        DatabaseFailures = "database_failures";
        /// How long the database and Redis have both been away.
        DatabaseAndRedisAway = "database_and_redis_away";
        /// The attempts in a row to connect to RabbitMQ that failed.
        RabbitmqFailedReconnects = "rabbitmq_failed_reconnects";
    }
}

words! {
    /// What a rule watches: every one of an organization, each by itself.
    AlertScope, 6 {
        /// Endpoints.
        Endpoint = "endpoint";
        /// The capabilities of apps.
        Capability = "capability";
        /// Applications.
        Application = "application";
        /// The organization.
        Organization = "organization";
        /// Sources.
        Source = "source";
        /// This installation of Everhook.
        Server = "server";
    }
}

words! {
    /// How much an alert matters.
    AlertSeverity, 2 {
        /// It needs attention.
        Warning = "warning";
        /// Somebody must act.
        Critical = "critical";
    }
}

words! {
    /// On which side of the threshold a value raises an alert.
    AlertComparison, 2 {
        /// When it is lower.
        Below = "below";
        /// When it is higher.
        Above = "above";
    }
}

words! {
    /// What values and thresholds are measured in.
    AlertUnit, 4 {
        /// Hundredths of all.
        Percent = "percent";
        /// Milliseconds.
        Millis = "ms";
        /// How many.
        Count = "count";
        /// Seconds.
        Seconds = "seconds";
    }
}

words! {
    /// The state of a rule for one target.
    AlertStage, 4 {
        /// Nothing is wrong.
        Ok = "ok";
        /// The value is on the wrong side, not yet for long enough.
        Pending = "pending";
        /// It has been reported, or would have been, were it not silenced.
        Firing = "firing";
        /// It was firing, and there is too little traffic to judge whether it still should.
        TooFewSamples = "too_few_samples";
    }
}

impl AlertMetric {
    /// What it is measured in.
    pub const fn unit(self) -> AlertUnit {
        match self {
            Self::SuccessRate
            | Self::ErrorRate
            | Self::P95OfTimeout
            | Self::DnsFailureRate
            | Self::ProcessingFailureRate
            | Self::WorkersBusy => AlertUnit::Percent,
            Self::P95 | Self::P99 | Self::ProcessingP95 => AlertUnit::Millis,
            Self::RedisAway | Self::RedisFallback | Self::DatabaseAway | Self::DatabaseAndRedisAway => AlertUnit::Seconds,
            Self::CircuitOpen
            | Self::DeadLetters
            | Self::DeadEvents
            | Self::Depth
            | Self::BadSignatures
            | Self::FailedHealthChecks
            | Self::DatabaseFailures
            | Self::RabbitmqFailedReconnects => AlertUnit::Count,
        }
    }

    /// Which values are bad.
    pub const fn comparison(self) -> AlertComparison {
        match self {
            Self::SuccessRate => AlertComparison::Below,
            _ => AlertComparison::Above,
        }
    }

    /// What it can be measured of.
    pub const fn scopes(self) -> &'static [AlertScope] {
        use AlertScope::{Application, Capability, Endpoint, Organization, Server, Source};
        match self {
            Self::SuccessRate | Self::ErrorRate | Self::P95 | Self::P99 => &[Endpoint, Capability, Application],
            Self::P95OfTimeout | Self::DnsFailureRate | Self::CircuitOpen => &[Endpoint, Capability],
            Self::DeadLetters => &[Organization],
            Self::ProcessingP95 | Self::ProcessingFailureRate | Self::DeadEvents | Self::BadSignatures => &[Source],
            Self::Depth => &[Source, Server],
            Self::FailedHealthChecks => &[Application],
            Self::WorkersBusy
            | Self::RedisAway
            | Self::RedisFallback
            | Self::DatabaseAway
            | Self::DatabaseFailures
            | Self::DatabaseAndRedisAway
            | Self::RabbitmqFailedReconnects => &[Server],
        }
    }

    /// The longest time that it is measured over; zero if it is a value at an instant.
    pub const fn window_max(self) -> Duration {
        const MINUTE: u64 = 60;
        match self {
            Self::SuccessRate | Self::ErrorRate | Self::DnsFailureRate => Duration::from_secs(60 * MINUTE),
            // Percentiles need a histogram of every minute, which is large.
            Self::P95OfTimeout | Self::P95 | Self::P99 => Duration::from_secs(15 * MINUTE),
            Self::ProcessingP95 => Duration::from_secs(60 * MINUTE),
            Self::ProcessingFailureRate | Self::DeadEvents | Self::BadSignatures => Duration::from_secs(1_440 * MINUTE),
            _ => Duration::ZERO,
        }
    }

    /// Whether a few samples say nothing.
    pub const fn needs_samples(self) -> bool {
        matches!(
            self,
            Self::SuccessRate
                | Self::ErrorRate
                | Self::P95OfTimeout
                | Self::P95
                | Self::P99
                | Self::DnsFailureRate
                | Self::ProcessingP95
                | Self::ProcessingFailureRate
        )
    }

    /// Whether what it was in the past can be read from statistics.
    pub const fn is_in_statistics(self) -> bool {
        !self.window_max().is_zero()
    }
}

/// Who gets an alert, beside the subscribers of the application `operational`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertRecipients {
    /// The owner of what it is about.
    pub owner: bool,
    /// The administrators of the server.
    pub admins: bool,
    /// Channels, by name.
    pub channels: Vec<String>,
}

/// When something is reported.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertRule {
    /// Unique in the organization, and never changed.
    pub name: String,
    /// What is measured.
    pub metric: AlertMetric,
    /// Of what.
    pub scope: AlertScope,
    /// What it is compared with.
    pub threshold: f64,
    /// Over how long it is measured, in whole minutes; zero if it is a value at an instant.
    pub window: Duration,
    /// For how long the value must be on the wrong side.
    pub pending_for: Duration,
    /// How much it matters.
    pub severity: AlertSeverity,
    /// Who gets it.
    pub recipients: AlertRecipients,
    /// Whether it is evaluated.
    pub enabled: bool,
}

impl AlertRule {
    /// Whether a value is on the wrong side of the threshold.
    pub fn is_broken_by(&self, value: f64) -> bool {
        match self.metric.comparison() {
            AlertComparison::Below => value < self.threshold,
            AlertComparison::Above => value > self.threshold,
        }
    }
}

/// A rule that an organization wrote, or its own version of a default one.
#[derive(Clone, Debug, PartialEq)]
pub struct OrganizationAlertRule {
    /// Its identity, for the audit log.
    pub id: AlertRuleId,
    /// Whose.
    pub organization: OrganizationId,
    /// What it says.
    pub rule: AlertRule,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// One time that an alert fired.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlertEpisode {
    /// When it began.
    pub fired_at: Timestamp,
    /// When it ended.
    pub resolved_at: Option<Timestamp>,
    /// The value that it began with.
    pub value: f64,
}

/// The state of a rule for one target. Kept only while that is not `ok`, or it has a history.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertStatus {
    /// Its identity.
    pub id: AlertStatusId,
    /// Whose.
    pub organization: OrganizationId,
    /// The rule, as it was when this was last changed.
    pub rule: AlertRule,
    /// Which.
    pub target: Uuid,
    /// The application that it belongs to, if it does to one.
    pub application: Option<ApplicationId>,
    /// Its state.
    pub stage: AlertStage,
    /// Since when.
    pub since: Timestamp,
    /// What was measured last.
    pub value: f64,
    /// When that was written.
    pub updated_at: Timestamp,
    /// When it was last reported while it fires; `None` if that was not yet.
    pub reported_at: Option<Timestamp>,
    /// Until when it is not reported.
    pub silenced_until: Option<Timestamp>,
    /// The last times that it fired, the newest first.
    pub episodes: Vec<AlertEpisode>,
    /// Rises with each change: a writer that knows an older one does not write. 0: it is not kept yet.
    pub revision: u64,
}

impl AlertStatus {
    /// Whether it is not reported now.
    pub fn is_silenced(&self, now: Timestamp) -> bool {
        self.silenced_until.is_some_and(|until| until > now)
    }

    /// When it began to fire, if it has not ended.
    pub fn fired_at(&self) -> Option<Timestamp> {
        self.episodes.first().filter(|episode| episode.resolved_at.is_none()).map(|episode| episode.fired_at)
    }

    /// Whether it need not be kept: nothing is wrong, and nothing is to be reported.
    pub fn is_empty(&self) -> bool {
        self.stage == AlertStage::Ok && self.episodes.is_empty() && self.silenced_until.is_none()
    }
}
