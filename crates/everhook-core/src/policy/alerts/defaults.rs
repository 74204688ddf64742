//! The alert rules that exist without anybody's doing. A plain table, from which rules of other systems are generated as well.
//!
//! Each can be changed or disabled by an organization, under its name. Those of the scope `server` concern whoever runs Everhook: the organization `default`
//! changes them, and every node evaluates them by itself.

use std::time::Duration;

use crate::model::{
    AlertComparison, AlertMetric, AlertRecipients, AlertRule, AlertScope,
    AlertSeverity::{self, Critical, Warning},
};

/// A rule that exists by default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DefaultRule {
    /// Its name. Never changed: organizations change the rule by it.
    pub name: &'static str,
    /// What is measured.
    pub metric: AlertMetric,
    /// Of what.
    pub scope: AlertScope,
    /// On which side of the threshold it fires.
    pub comparison: AlertComparison,
    /// What is compared, in the unit of the metric.
    pub threshold: f64,
    /// Over how long it is measured; zero if it says how something stands at an instant.
    pub window: Duration,
    /// For how long the value must be on the wrong side.
    pub pending_for: Duration,
    /// How much it matters.
    pub severity: AlertSeverity,
    /// Who gets it.
    pub recipients: DefaultRecipients,
}

/// Who gets a default alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultRecipients {
    /// The owner of what it is about.
    Owner,
    /// Those who run the server.
    Admins,
    /// Both.
    OwnerAndAdmins,
}

use DefaultRecipients::{Admins, Owner, OwnerAndAdmins};

impl DefaultRule {
    /// As an organization has it that changed nothing.
    pub fn rule(&self) -> AlertRule {
        let (owner, admins) = match self.recipients {
            Owner => (true, false),
            Admins => (false, true),
            OwnerAndAdmins => (true, true),
        };
        AlertRule {
            name: self.name.to_owned(),
            metric: self.metric,
            scope: self.scope,
            threshold: self.threshold,
            window: self.window,
            pending_for: self.pending_for,
            severity: self.severity,
            recipients: AlertRecipients { owner, admins, channels: Vec::new() },
            enabled: true,
        }
    }
}

/// The default rule of a name.
pub fn default_rule(name: &str) -> Option<&'static DefaultRule> {
    DEFAULT_RULES.iter().find(|rule| rule.name == name)
}

/// The default rules that concern organizations, with what one says instead and beside.
pub fn in_force(own: Vec<AlertRule>) -> Vec<AlertRule> {
    let is_replaced = |name: &str| own.iter().any(|other| other.name == name);
    let defaults = DEFAULT_RULES.iter().filter(|rule| rule.scope != Server && !is_replaced(rule.name));
    defaults.map(DefaultRule::rule).chain(own.iter().filter(|rule| rule.scope != Server).cloned()).collect()
}

/// The rules about the server, with what the organization `default` says instead. There are none beside the defaults.
pub fn server_in_force(own: &[AlertRule]) -> Vec<AlertRule> {
    let changed = |name: &str| own.iter().find(|other| other.name == name && other.scope == Server).cloned();
    DEFAULT_RULES.iter().filter(|rule| rule.scope == Server).map(|rule| changed(rule.name).unwrap_or_else(|| rule.rule())).collect()
}

const AT_ONCE: Duration = Duration::ZERO;
const INSTANT: Duration = Duration::ZERO;
const MINUTES_5: Duration = Duration::from_secs(5 * 60);
const MINUTES_10: Duration = Duration::from_secs(10 * 60);
const MINUTES_15: Duration = Duration::from_secs(15 * 60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Five minutes, in milliseconds.
const PROCESSING_MILLIS_MAX: f64 = 300_000.0;

const fn rule(
    name: &'static str,
    (scope, metric): (AlertScope, AlertMetric),
    threshold: f64,
    (window, pending_for): (Duration, Duration),
    severity: AlertSeverity,
    recipients: DefaultRecipients,
) -> DefaultRule {
    DefaultRule { name, metric, scope, comparison: metric.comparison(), threshold, window, pending_for, severity, recipients }
}

use AlertMetric as M;
use AlertScope::{Application, Capability, Endpoint, Organization, Server, Source};

/// Every default rule.
#[rustfmt::skip]
pub static DEFAULT_RULES: [DefaultRule; 35] = [
    rule("endpoint_success_rate_warning",    (Endpoint, M::SuccessRate),        95.0, (HOUR, AT_ONCE),       Warning,  Owner),
    rule("endpoint_success_rate_critical",   (Endpoint, M::SuccessRate),        90.0, (HOUR, AT_ONCE),       Critical, OwnerAndAdmins),
    rule("endpoint_success_rate_drop",       (Endpoint, M::SuccessRate),        90.0, (MINUTES_5, AT_ONCE),  Warning,  Owner),
    rule("endpoint_error_rate",              (Endpoint, M::ErrorRate),           5.0, (HOUR, AT_ONCE),       Warning,  Owner),
    rule("endpoint_p95_near_timeout",        (Endpoint, M::P95OfTimeout),       80.0, (MINUTES_5, AT_ONCE),  Warning,  Owner),
    rule("endpoint_p99_slow",                (Endpoint, M::P99),             5_000.0, (MINUTES_5, AT_ONCE),  Warning,  Owner),
    rule("endpoint_circuit_opened",          (Endpoint, M::CircuitOpen),         0.0, (INSTANT, AT_ONCE),    Critical, OwnerAndAdmins),
    rule("endpoint_circuit_open_long",       (Endpoint, M::CircuitOpen),         0.0, (INSTANT, HOUR),       Critical, OwnerAndAdmins),
    rule("endpoint_dns_failures",            (Endpoint, M::DnsFailureRate),     80.0, (MINUTES_10, AT_ONCE), Warning,  Owner),
    rule("capability_success_rate_warning",  (Capability, M::SuccessRate),      95.0, (HOUR, AT_ONCE),       Warning,  Owner),
    rule("capability_success_rate_critical", (Capability, M::SuccessRate),      90.0, (HOUR, AT_ONCE),       Critical, OwnerAndAdmins),
    rule("capability_success_rate_drop",     (Capability, M::SuccessRate),      90.0, (MINUTES_5, AT_ONCE),  Warning,  Owner),
    rule("capability_error_rate",            (Capability, M::ErrorRate),         5.0, (HOUR, AT_ONCE),       Warning,  Owner),
    rule("capability_p95_near_timeout",      (Capability, M::P95OfTimeout),     80.0, (MINUTES_5, AT_ONCE),  Warning,  Owner),
    rule("capability_p99_slow",              (Capability, M::P99),           5_000.0, (MINUTES_5, AT_ONCE),  Warning,  Owner),
    rule("capability_circuit_opened",        (Capability, M::CircuitOpen),       0.0, (INSTANT, AT_ONCE),    Critical, OwnerAndAdmins),
    rule("capability_circuit_open_long",     (Capability, M::CircuitOpen),       0.0, (INSTANT, HOUR),       Critical, OwnerAndAdmins),
    rule("capability_dns_failures",          (Capability, M::DnsFailureRate),   80.0, (MINUTES_10, AT_ONCE), Warning,  Owner),
    rule("dead_letters",                     (Organization, M::DeadLetters),     0.0, (INSTANT, MINUTES_5),  Warning,  Owner),
    rule("dead_letters_over_100",            (Organization, M::DeadLetters),   100.0, (INSTANT, AT_ONCE),    Warning,  Owner),
    rule("dead_letters_over_1000",           (Organization, M::DeadLetters), 1_000.0, (INSTANT, AT_ONCE),    Critical, OwnerAndAdmins),
    rule("source_processing_slow",           (Source, M::ProcessingP95), PROCESSING_MILLIS_MAX, (MINUTES_15, AT_ONCE), Warning, Owner),
    rule("source_processing_failures",       (Source, M::ProcessingFailureRate), 10.0, (MINUTES_15, AT_ONCE), Warning, Owner),
    rule("source_dead_events",               (Source, M::DeadEvents),           10.0, (DAY, AT_ONCE),        Warning,  Owner),
    rule("source_depth",                     (Source, M::Depth),               100.0, (INSTANT, AT_ONCE),    Warning,  Owner),
    rule("source_bad_signatures",            (Source, M::BadSignatures),        20.0, (MINUTES_5, AT_ONCE),  Warning,  Owner),
    rule("app_health_check_failed",          (Application, M::FailedHealthChecks), 2.0, (INSTANT, AT_ONCE),  Critical, OwnerAndAdmins),
    rule("server_depth",                     (Server, M::Depth),            10_000.0, (INSTANT, AT_ONCE),    Critical, Admins),
    rule("server_workers_busy",              (Server, M::WorkersBusy),          80.0, (INSTANT, MINUTES_5),  Warning,  Admins),
    rule("redis_away",                       (Server, M::RedisAway),           120.0, (INSTANT, AT_ONCE),    Critical, Admins),
    rule("redis_fallback",                   (Server, M::RedisFallback),       300.0, (INSTANT, AT_ONCE),    Warning,  Admins),
    rule("database_away",                    (Server, M::DatabaseAway),         30.0, (INSTANT, AT_ONCE),    Critical, Admins),
    rule("database_failures",                (Server, M::DatabaseFailures),      4.0, (INSTANT, AT_ONCE),    Critical, Admins),
    rule("infrastructure_dual_failure",      (Server, M::DatabaseAndRedisAway),  0.0, (INSTANT, AT_ONCE),    Critical, Admins),
    rule("rabbitmq_reconnects",              (Server, M::RabbitmqFailedReconnects), 2.0, (INSTANT, AT_ONCE), Warning,  Admins),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_default_rule_is_one_that_an_organization_could_have_written() {
        let names: BTreeSet<_> = DEFAULT_RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), DEFAULT_RULES.len(), "names are unique");
        for rule in &DEFAULT_RULES {
            assert!(rule.metric.scopes().contains(&rule.scope), "{}", rule.name);
            assert!(
                rule.window <= rule.metric.window_max() && rule.window.is_zero() == rule.metric.window_max().is_zero(),
                "{}",
                rule.name
            );
            assert_eq!(rule.comparison, rule.metric.comparison(), "{}", rule.name);
            assert_eq!(default_rule(rule.name), Some(rule));
        }
        assert_eq!(default_rule("laundry"), None);
    }

    #[test]
    fn critical_alerts_reach_the_administrators() {
        for rule in DEFAULT_RULES.iter().filter(|rule| rule.severity == Critical) {
            assert!(rule.rule().recipients.admins, "{}", rule.name);
        }
    }
}
