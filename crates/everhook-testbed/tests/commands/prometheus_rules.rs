//! The alert rules for Prometheus that follow from Everhook's own default rules: `deploy/prometheus/alerts.yaml` is written from the table of these.
//!
//! `EVERHOOK_TEST_UPDATE=1` writes the file; otherwise it is compared. What is watched only from outside is in `deploy/prometheus/nodes.yaml`, by hand.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf, time::Duration};

use everhook_core::{
    model::{AlertComparison, AlertMetric as Metric, AlertScope as Scope},
    policy::alerts::{
        SAMPLES_MIN,
        defaults::{DEFAULT_RULES, DefaultRule},
    },
};

/// What stands above the rules.
const HEAD: &str = "\
# Alert rules for Prometheus, written from the table of Everhook's own default rules: change that, not this file. docs/monitoring.md explains the metrics.
# Load it with `rule_files`, with nodes.yaml beside it, and scrape the nodes as the job `everhook`.
#
# Everhook's own alerts know each endpoint, capability and source. Prometheus sees attempts by organization, and durations by node.
";

/// Attempts of an organization that ended, of all outcomes or of some.
const ATTEMPTS: &str = "webhook_deliveries_total{status=~\"success|failed|exhausted\"}";
const FAILURES: &str = "webhook_deliveries_total{status=~\"failed|exhausted\"}";
const DNS_FAILURES: &str = "webhook_deliveries_total{failure_category=\"dns\"}";

/// How Prometheus sees a rule.
enum Seen {
    /// By this expression, which says who it is about and where its value stands.
    By(Expression),
    /// Not at all, because of this.
    Not(&'static str),
}

struct Expression {
    /// What is compared with the threshold, or whole if it says itself when it fires.
    text: String,
    /// How long it must hold.
    pending_for: Duration,
    /// What is written to people.
    summary: &'static str,
}

const CALLS_BY_ANSWER: &str = "calls are counted by what they were answered with, not by capability";
const ATTEMPTS_BY_ORGANIZATION: &str = "attempts are counted by organization, not by source";

/// How Prometheus sees a metric of a scope.
fn seen(rule: &DefaultRule) -> Seen {
    let by = |text: String, summary| Seen::By(Expression { text, pending_for: rule.pending_for, summary });
    // What Everhook measures in seconds, Prometheus waits for.
    let lasting =
        |text: &str, summary| Seen::By(Expression { text: text.to_owned(), pending_for: Duration::from_secs_f64(rule.threshold), summary });
    match (rule.scope, rule.metric) {
        // By those that fail: where none has ever succeeded, there is no series of successes.
        (Scope::Endpoint, Metric::SuccessRate) => by(
            compared(rule, &format!("100 - {}", share(FAILURES, rule))),
            "{{ $value | humanize }} % of the attempts of organization {{ $labels.tenant_id }} succeed",
        ),
        (Scope::Endpoint, Metric::ErrorRate) => by(
            compared(rule, &share(FAILURES, rule)),
            "{{ $value | humanize }} % of the attempts of organization {{ $labels.tenant_id }} fail",
        ),
        (Scope::Endpoint, Metric::DnsFailureRate) => by(
            compared(rule, &share(DNS_FAILURES, rule)),
            "The names of endpoints of organization {{ $labels.tenant_id }} cannot be resolved in {{ $value | humanize }} % of the attempts",
        ),
        (Scope::Endpoint, Metric::P99) => by(
            compared(rule, "1000 * max by (instance) (webhook_delivery_duration_seconds{percentile=\"p99\"})"),
            "One attempt of {{ $labels.instance }} in a hundred takes longer than {{ $value | humanize }} ms",
        ),
        (Scope::Endpoint, Metric::P95OfTimeout) => Seen::Not("durations are not told apart by endpoint, and timeouts are not exported"),
        (Scope::Endpoint, Metric::CircuitOpen) => {
            by(compared(rule, &open_circuit(rule)), "The circuit breaker of endpoint {{ $labels.webhook_id }} is open")
        }
        (Scope::Capability, Metric::CircuitOpen) => {
            Seen::Not("breakers of calls are not exported; those of jobs are, as those of endpoints")
        }
        (Scope::Capability, _) => Seen::Not(CALLS_BY_ANSWER),
        (Scope::Organization, Metric::DeadLetters) => by(
            compared(rule, "max by (tenant_id) (webhook_dlq_size)"),
            "Organization {{ $labels.tenant_id }} has {{ $value }} dead letters",
        ),
        (Scope::Source, Metric::BadSignatures) => by(
            compared(
                rule,
                &format!(
                    "sum by (source_id) (increase(everhook_source_requests_total{{reason=\"bad_signature\"}}[{}]))",
                    span(rule.window)
                ),
            ),
            "Source {{ $labels.source_id }} received {{ $value | humanize }} requests with wrong signatures",
        ),
        (Scope::Source, Metric::ProcessingP95) => Seen::Not("the time from receipt to the end of processing is not exported"),
        (Scope::Source, Metric::Depth) => Seen::Not("the depth of the queue is exported by priority, not by source"),
        (Scope::Source, _) => Seen::Not(ATTEMPTS_BY_ORGANIZATION),
        (Scope::Application, _) => Seen::Not("health checks of apps are not exported"),
        (Scope::Server, Metric::Depth) => {
            by(compared(rule, "sum(max by (priority) (webhook_queue_depth))"), "{{ $value }} deliveries wait for an attempt")
        }
        (Scope::Server, Metric::WorkersBusy) => by(
            compared(rule, "100 * max by (instance, pool_id) (webhook_worker_pool_utilization)"),
            "{{ $labels.instance }} has {{ $value | humanize }} % of its requests in progress",
        ),
        (Scope::Server, Metric::RedisAway) => {
            lasting("max by (instance) (everhook_redis_away) > 0", "{{ $labels.instance }} cannot use Redis")
        }
        (Scope::Server, Metric::RedisFallback) => lasting(
            "max by (instance) (webhook_circuit_breaker_redis_fallback_active) > 0",
            "Circuit breakers of {{ $labels.instance }} count on that node alone",
        ),
        (Scope::Server, Metric::DatabaseAway) => {
            lasting("max by (instance) (everhook_store_available) < 1", "{{ $labels.instance }} cannot use its store")
        }
        (Scope::Server, Metric::DatabaseAndRedisAway) => lasting(
            "max by (instance) (everhook_store_available) < 1 and max by (instance) (everhook_redis_away) > 0",
            "{{ $labels.instance }} can use neither its store nor Redis",
        ),
        (Scope::Server, Metric::DatabaseFailures) => {
            Seen::Not("failures in a row are not exported; database_away sees the same after its time")
        }
        (Scope::Server, Metric::RabbitmqFailedReconnects) => {
            Seen::Not("attempts to reconnect are not exported; rabbitmq_away in nodes.yaml sees the same after two minutes")
        }
        (scope, metric) => panic!("{}: say how Prometheus sees {} of {}, or why not", rule.name, metric.as_str(), scope.as_str()),
    }
}

/// The share of some attempts among all, in percent, where there are enough to say anything.
fn share(of: &str, rule: &DefaultRule) -> String {
    let window = span(rule.window);
    let enough = format!("{SAMPLES_MIN} / {}", rule.window.as_secs());
    format!("100 * sum by (tenant_id) (rate({of}[{window}])) / (sum by (tenant_id) (rate({ATTEMPTS}[{window}])) >= {enough})")
}

/// Over a longer time, a breaker that lets probes through between has not closed.
fn open_circuit(rule: &DefaultRule) -> String {
    if rule.pending_for.is_zero() {
        "max by (webhook_id) (webhook_circuit_breaker_state{state=\"open\"})".to_owned()
    } else {
        "max by (webhook_id) (max_over_time(webhook_circuit_breaker_state{state=~\"open|half_open\"}[5m]))".to_owned()
    }
}

fn compared(rule: &DefaultRule, value: &str) -> String {
    let sign = match rule.comparison {
        AlertComparison::Below => '<',
        AlertComparison::Above => '>',
    };
    format!("{value} {sign} {}", rule.threshold)
}

/// A length of time as Prometheus writes it.
fn span(of: Duration) -> String {
    match of.as_secs() {
        secs if secs % 3_600 == 0 => format!("{}h", secs / 3_600),
        secs if secs % 60 == 0 => format!("{}m", secs / 60),
        secs => format!("{secs}s"),
    }
}

/// The whole file.
fn file() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("#\n# Not visible to Prometheus:\n");
    for rule in &DEFAULT_RULES {
        if let Seen::Not(reason) = seen(rule) {
            let _ = writeln!(text, "# - {}: {reason}", rule.name);
        }
    }
    text.push_str("groups:\n  - name: everhook-defaults\n    rules:\n");
    for rule in &DEFAULT_RULES {
        let Seen::By(expression) = seen(rule) else { continue };
        let _ = write!(text, "      - alert: {}\n        expr: >-\n          {}\n", rule.name, expression.text);
        if !expression.pending_for.is_zero() {
            let _ = writeln!(text, "        for: {}", span(expression.pending_for));
        }
        let _ = writeln!(text, "        labels: {{ severity: {} }}", rule.severity.as_str());
        let _ = writeln!(text, "        annotations: {{ summary: \"{}\" }}", expression.summary);
    }
    text
}

fn path() -> PathBuf {
    super::deploy::deploy().join("prometheus/alerts.yaml")
}

#[test]
fn the_rules_for_prometheus_are_those_of_the_table() {
    let wanted = file();
    if std::env::var_os("EVERHOOK_TEST_UPDATE").is_some() {
        fs::write(path(), &wanted).expect("the file is written");
    }
    let found = fs::read_to_string(path()).expect("deploy/prometheus/alerts.yaml");
    assert!(found == wanted, "deploy/prometheus/alerts.yaml is not what the table says: run this test with EVERHOOK_TEST_UPDATE=1");
}

#[test]
fn every_default_rule_is_in_the_file_once_or_it_says_why_not() {
    let text = fs::read_to_string(path()).expect("deploy/prometheus/alerts.yaml");
    let names: BTreeSet<_> = DEFAULT_RULES.iter().map(|rule| rule.name).collect();
    for name in &names {
        let alerts = text.lines().filter(|line| line.trim() == format!("- alert: {name}")).count();
        let reasons = text.lines().filter(|line| line.starts_with(&format!("# - {name}: "))).count();
        assert_eq!(alerts + reasons, 1, "{name}");
    }
    // What is watched from outside has other names, so that no alert is there twice.
    let nodes = fs::read_to_string(super::deploy::deploy().join("prometheus/nodes.yaml")).expect("deploy/prometheus/nodes.yaml");
    for name in nodes.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(!names.contains(name), "{name} is in both files");
    }
}
