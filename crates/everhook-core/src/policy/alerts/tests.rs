//! How an alert goes from one state to the next, rule by rule and minute by minute.

use std::time::Duration;

use uuid::Uuid;

use super::{
    defaults::{DEFAULT_RULES, default_rule},
    windows::{LaneWindow, SourceWindow, minute_number},
    *,
};
use crate::{
    ids::{AlertStatusId, OrganizationId},
    model::{AlertMetric, AlertScope, AttemptStatistics, FailureCategory, SourceStatistics},
};

const START: Timestamp = Timestamp::from_secs(1_700_000_040);

fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn mins(count: u64) -> Duration {
    secs(count * 60)
}

fn hours(count: u64) -> Duration {
    mins(count * 60)
}

fn blank(rule: &AlertRule) -> AlertStatus {
    AlertStatus {
        id: AlertStatusId::from_uuid(Uuid::nil()),
        organization: OrganizationId::from_uuid(Uuid::nil()),
        rule: rule.clone(),
        target: Uuid::nil(),
        application: None,
        stage: AlertStage::Ok,
        since: START,
        value: 0.0,
        updated_at: START,
        reported_at: None,
        silenced_until: None,
        episodes: Vec::new(),
        revision: 0,
    }
}

/// An alert under evaluation.
struct Judged {
    rule: AlertRule,
    status: AlertStatus,
}

impl Judged {
    fn new(rule: AlertRule) -> Self {
        Self { status: blank(&rule), rule }
    }

    /// Measures it that long after the start.
    fn at(&mut self, after: Duration, measured: Measured) -> Option<AlertReport> {
        let next = step(Some(&self.rule), &self.status, measured, START + after)?;
        self.status = next.status;
        next.report
    }
}

fn broken() -> Measured {
    Measured::Value(50.0)
}

fn fine() -> Measured {
    Measured::Value(99.0)
}

fn rate_rule(pending_for: Duration) -> AlertRule {
    AlertRule { pending_for, ..default_rule("endpoint_success_rate_warning").expect("it is there").rule() }
}

/// A value on either side of a default rule's threshold: the nearest that fires, and the threshold itself, which does not.
fn values_around(rule: &AlertRule) -> (Measured, Measured) {
    let beyond = match rule.metric.comparison() {
        crate::model::AlertComparison::Below => rule.threshold - 0.1,
        crate::model::AlertComparison::Above => rule.threshold + 0.1,
    };
    (Measured::Value(beyond), Measured::Value(rule.threshold))
}

/// Every default rule by name: fires on its condition, not before, once, again after a day, and says when it is over.
#[test]
fn every_default_rule_fires_on_its_condition_not_before_once_and_resolves() {
    #[rustfmt::skip]
    let named = [
        "endpoint_success_rate_warning", "endpoint_success_rate_critical", "endpoint_success_rate_drop", "endpoint_error_rate",
        "endpoint_p95_near_timeout", "endpoint_p99_slow", "endpoint_circuit_opened", "endpoint_circuit_open_long", "endpoint_dns_failures",
        "capability_success_rate_warning", "capability_success_rate_critical", "capability_success_rate_drop", "capability_error_rate",
        "capability_p95_near_timeout", "capability_p99_slow", "capability_circuit_opened", "capability_circuit_open_long", "capability_dns_failures",
        "dead_letters", "dead_letters_over_100", "dead_letters_over_1000",
        "source_processing_slow", "source_processing_failures", "source_dead_events", "source_depth", "source_bad_signatures",
        "app_health_check_failed",
        "server_depth", "server_workers_busy", "redis_away", "redis_fallback", "database_away", "database_failures",
        "infrastructure_dual_failure", "rabbitmq_reconnects",
    ];
    assert_eq!(DEFAULT_RULES.map(|rule| rule.name), named);
    for default in &DEFAULT_RULES {
        let (name, rule) = (default.name, default.rule());
        let (bad, good) = values_around(&rule);
        let mut judged = Judged::new(rule.clone());
        assert_eq!(judged.at(secs(0), good), None, "{name}: the threshold itself is fine");
        if !rule.pending_for.is_zero() {
            assert_eq!(judged.at(secs(10), bad), None, "{name}");
            assert_eq!(judged.at(secs(10) + rule.pending_for - secs(1), bad), None, "{name}: not before it lasted long enough");
        }
        let fired = secs(10) + rule.pending_for;
        assert_eq!(judged.at(fired, bad), Some(AlertReport::Fired), "{name}");
        assert_eq!(judged.at(fired + mins(1), bad), None, "{name}: once");
        assert_eq!(judged.at(fired + hours(23), bad), None, "{name}: once a day at most");
        assert_eq!(judged.at(fired + hours(24), bad), Some(AlertReport::Repeated), "{name}");
        assert_eq!(judged.at(fired + hours(25), good), Some(AlertReport::Resolved), "{name}");
        assert_eq!(judged.at(fired + hours(26), good), None, "{name}");
        let [episode] = judged.status.episodes[..] else { panic!("{name}: {:?}", judged.status.episodes) };
        assert_eq!((episode.fired_at, episode.resolved_at), (START + fired, Some(START + fired + hours(25))), "{name}");
    }
}

#[test]
fn what_is_over_before_it_lasted_long_enough_is_not_reported() {
    let mut judged = Judged::new(rate_rule(mins(5)));
    assert_eq!(judged.at(secs(0), broken()), None);
    assert_eq!(judged.status.stage, AlertStage::Pending);
    assert_eq!(judged.at(mins(4), fine()), None);
    assert_eq!((judged.status.stage, judged.status.is_empty()), (AlertStage::Ok, true));
    // It begins again.
    assert_eq!(judged.at(mins(4) + secs(30), broken()), None);
    assert_eq!(judged.at(mins(9), broken()), None);
    assert_eq!(judged.at(mins(9) + secs(30), broken()), Some(AlertReport::Fired));
}

#[test]
fn a_silenced_alert_is_reported_when_the_silence_ends_if_it_still_fires() {
    let mut judged = Judged::new(rate_rule(Duration::ZERO));
    judged.status.silenced_until = Some(START + hours(2));
    assert_eq!(judged.at(secs(0), broken()), None);
    assert_eq!((judged.status.stage, judged.status.reported_at), (AlertStage::Firing, None));
    assert_eq!(judged.at(hours(1), broken()), None);
    assert_eq!(judged.at(hours(2), broken()), Some(AlertReport::Fired));
    // Nobody heard of one that began and ended in silence.
    let mut judged = Judged::new(rate_rule(Duration::ZERO));
    judged.status.silenced_until = Some(START + hours(2));
    assert_eq!(judged.at(secs(0), broken()), None);
    assert_eq!(judged.at(hours(1), fine()), None);
    assert_eq!(judged.status.episodes.len(), 1, "it is in the history all the same");
    // Whoever was notified of a problem is notified of its end.
    let mut judged = Judged::new(rate_rule(Duration::ZERO));
    assert_eq!(judged.at(secs(0), broken()), Some(AlertReport::Fired));
    judged.status.silenced_until = Some(START + hours(48));
    assert_eq!(judged.at(hours(25), broken()), None, "it is not repeated");
    assert_eq!(judged.at(hours(26), fine()), Some(AlertReport::Resolved));
}

#[test]
fn without_samples_nothing_fires_and_what_fires_waits_a_day_before_it_is_over() {
    let mut judged = Judged::new(rate_rule(Duration::ZERO));
    assert_eq!(judged.at(secs(0), Measured::TooFewSamples), None);
    assert_eq!(judged.at(secs(1), broken()), Some(AlertReport::Fired));
    assert_eq!(judged.at(mins(1), Measured::TooFewSamples), None);
    assert_eq!(judged.status.stage, AlertStage::TooFewSamples);
    assert_eq!(judged.at(mins(2), broken()), None, "it still fires, and was reported");
    assert_eq!(judged.status.stage, AlertStage::Firing);
    assert_eq!(judged.at(mins(3), Measured::TooFewSamples), None);
    assert_eq!(judged.at(mins(2) + hours(24), Measured::TooFewSamples), None);
    assert_eq!(judged.at(mins(3) + hours(24), Measured::TooFewSamples), Some(AlertReport::Resolved));
}

#[test]
fn the_end_of_a_rule_ends_its_alerts() {
    let mut judged = Judged::new(rate_rule(Duration::ZERO));
    assert_eq!(judged.at(secs(0), broken()), Some(AlertReport::Fired));
    let gone = step(None, &judged.status, broken(), START + mins(1)).expect("it ends");
    assert_eq!((gone.report, gone.status.stage), (Some(AlertReport::Resolved), AlertStage::Ok));
    judged.rule.enabled = false;
    assert_eq!(judged.at(mins(1), broken()), Some(AlertReport::Resolved));
    assert_eq!(judged.at(mins(2), broken()), None);
}

#[test]
fn a_changed_threshold_is_applied_at_once() {
    let mut judged = Judged::new(rate_rule(Duration::ZERO));
    assert_eq!(judged.at(secs(0), Measured::Value(90.0)), Some(AlertReport::Fired));
    judged.rule.threshold = 80.0;
    assert_eq!(judged.at(mins(1), Measured::Value(90.0)), Some(AlertReport::Resolved));
    assert_eq!(judged.status.rule.threshold, 80.0);
}

#[test]
fn the_value_of_an_open_alert_is_written_every_few_minutes_at_most() {
    let mut judged = Judged::new(rate_rule(Duration::ZERO));
    judged.at(secs(0), Measured::Value(50.0));
    let writes = (1..=20).filter(|n| {
        let next = step(Some(&judged.rule), &judged.status, Measured::Value(50.0 + *n as f64), START + secs(30 * n));
        next.map(|next| judged.status = next.status).is_some()
    });
    assert_eq!(writes.count(), 2, "ten minutes");
}

#[test]
fn the_history_is_bounded() {
    let mut judged = Judged::new(rate_rule(Duration::ZERO));
    for n in 0..50 {
        judged.at(mins(2 * n), broken());
        judged.at(mins(2 * n + 1), fine());
    }
    assert_eq!(judged.status.episodes.len(), ALERT_EPISODES_MAX);
    assert_eq!(judged.status.episodes[0].fired_at, START + mins(98));
}

fn attempts(successes: u64, failures: u64, category: FailureCategory, took: Duration) -> AttemptStatistics {
    let mut statistics = AttemptStatistics::default();
    (0..successes).for_each(|_| statistics.count(None, took, START));
    (0..failures).for_each(|_| statistics.count(Some(category), took, START));
    statistics
}

#[test]
fn rates_and_percentiles_are_of_the_minutes_of_their_window() {
    let mut window = LaneWindow::default();
    let minute = minute_number(START);
    window.put(minute - 30, &attempts(100, 0, FailureCategory::Dns, secs(1)));
    window.put(minute, &attempts(0, 25, FailureCategory::Dns, secs(8)));
    #[rustfmt::skip]
    let table = [
        (AlertMetric::SuccessRate, hours(1), None, Measured::Value(80.0)),
        (AlertMetric::SuccessRate, mins(5), None, Measured::Value(0.0)),
        (AlertMetric::ErrorRate, hours(1), None, Measured::Value(20.0)),
        (AlertMetric::DnsFailureRate, mins(10), None, Measured::Value(100.0)),
        (AlertMetric::P95OfTimeout, mins(5), None, Measured::TooFewSamples),
        (AlertMetric::DeadLetters, mins(5), None, Measured::TooFewSamples),
    ];
    for (metric, length, timeout, expected) in table {
        assert_eq!(window.measure(metric, length, timeout, START), expected, "{metric:?} over {length:?}");
    }
    let Measured::Value(p99) = window.measure(AlertMetric::P99, mins(5), None, START) else { panic!("no percentile") };
    assert!((7_000.0..=10_000.0).contains(&p99), "{p99}");
    let Measured::Value(share) = window.measure(AlertMetric::P95OfTimeout, mins(5), Some(secs(10)), START) else { panic!("no share") };
    assert!((70.0..=100.0).contains(&share), "{share}");
    // What is reported of a minute again replaces what was reported before.
    window.put(minute, &attempts(0, 50, FailureCategory::Timeout, secs(8)));
    assert_eq!(window.measure(AlertMetric::DnsFailureRate, hours(1), None, START), Measured::Value(0.0));
    assert!(window.forget_old(START + mins(30)));
    assert!(!window.forget_old(START + mins(61)), "nothing is left");
}

#[test]
fn a_rate_of_nineteen_says_nothing() {
    let minute = minute_number(START);
    for (count, expected) in [(19, Measured::TooFewSamples), (20, Measured::Value(0.0))] {
        let mut window = LaneWindow::default();
        window.put(minute, &attempts(0, count, FailureCategory::Network, secs(1)));
        assert_eq!(window.measure(AlertMetric::SuccessRate, hours(1), None, START), expected);
    }
}

#[test]
fn a_source_is_measured_over_minutes_and_over_a_day() {
    let minute = minute_number(START);
    let mut window = SourceWindow::default();
    let mut old = SourceStatistics::default();
    old.events_mut("activity").dead = 11;
    window.put(minute - 20 * 60, &old);
    let mut new = SourceStatistics::default();
    new.reject("bad_signature", 21);
    new.reject("too_large", 5);
    new.events_mut("activity").completed = 27;
    new.events_mut("activity").failed = 3;
    (0..30).for_each(|_| new.took(secs(400)));
    window.put(minute, &new);
    assert_eq!(window.measure(AlertMetric::DeadEvents, hours(24), START), Measured::Value(11.0));
    assert_eq!(window.measure(AlertMetric::DeadEvents, hours(1), START), Measured::Value(0.0));
    assert_eq!(window.measure(AlertMetric::BadSignatures, mins(5), START), Measured::Value(21.0));
    assert_eq!(window.measure(AlertMetric::ProcessingFailureRate, mins(15), START), Measured::Value(10.0));
    let Measured::Value(p95) = window.measure(AlertMetric::ProcessingP95, mins(15), START) else { panic!("no percentile") };
    assert!((300_000.0..=524_288.0).contains(&p95), "{p95}");
}

#[test]
fn a_dry_run_says_when_a_rule_would_have_fired() {
    let rule = AlertRule { window: mins(5), ..rate_rule(Duration::ZERO) };
    let bad_minutes = [100..110, 300..305];
    let mut window = LaneWindow::default();
    let from = START;
    let first = minute_number(from);
    let fired = dry_run::replay(&blank(&rule), from, from + hours(10), |minute, at| {
        let failures = if bad_minutes.iter().any(|bad| bad.contains(&(minute - first))) { 30 } else { 0 };
        window.put(minute, &attempts(30, failures, FailureCategory::ServerError, secs(1)));
        window.forget_old(at);
        window.measure(rule.metric, rule.window, None, at)
    });
    let minutes: Vec<_> = fired.at.iter().map(|at| minute_number(*at) - first).collect();
    assert_eq!((fired.count, minutes), (2, vec![100, 300]));
    assert_eq!(rule.scope, AlertScope::Endpoint);
}
