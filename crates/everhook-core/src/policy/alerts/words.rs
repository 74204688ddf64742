//! What an alert says to people, in one sentence.

use std::time::Duration;

use super::AlertReport;
use crate::{
    model::{AlertMetric, AlertRule, AlertUnit},
    policy::endpoint_health::in_words,
};

/// The longest name of a thing that a sentence has, in characters: names may have hundreds.
const NAME_CHARS_MAX: usize = 80;

/// One sentence about an alert.
pub fn summary(rule: &AlertRule, name: Option<&str>, value: f64, report: AlertReport) -> String {
    let subject = subject(rule, name);
    let (what, over) = (what(rule.metric), over(rule));
    if rule.metric == AlertMetric::CircuitOpen {
        return match report {
            AlertReport::Resolved => format!("The circuit breaker of {subject} is closed again."),
            _ if rule.pending_for.is_zero() => format!("The circuit breaker of {subject} is open."),
            _ => format!("The circuit breaker of {subject} has been open for more than {}.", in_words(rule.pending_for)),
        };
    }
    if let Some(sentence) = of_server(rule, value, report) {
        return sentence;
    }
    let side = rule.metric.comparison().as_str();
    let unit = rule.metric.unit();
    let threshold = written(rule.threshold, unit);
    match report {
        AlertReport::Resolved => format!("{what} of {subject}{over} is no longer {side} {threshold}."),
        AlertReport::Fired => format!("{what} of {subject}{over} is {}, {side} {threshold}.", written(value, unit)),
        AlertReport::Repeated => format!("{what} of {subject}{over} is still {}, {side} {threshold}.", written(value, unit)),
    }
}

/// What is away or fails is said without a comparison.
fn of_server(rule: &AlertRule, value: f64, report: AlertReport) -> Option<String> {
    let (length, count) = (in_words(Duration::from_secs(value as u64)), short(value));
    let (lasts, over) = match rule.metric {
        AlertMetric::WorkersBusy => (format!("{count} % of the workers are busy."), "Fewer workers are busy again."),
        AlertMetric::RedisAway => (format!("Redis has been away for {length}."), "Redis is back."),
        AlertMetric::RedisFallback => {
            (format!("Limits have been shared without Redis for {length}."), "Limits are shared through Redis again.")
        }
        AlertMetric::DatabaseAway => (format!("The database has been away for {length}."), "The database is back."),
        AlertMetric::DatabaseFailures => (format!("{count} reads of the database in a row have failed."), "The database answers again."),
        AlertMetric::DatabaseAndRedisAway => {
            (format!("The database and Redis have both been away for {length}."), "The database and Redis are no longer both away.")
        }
        AlertMetric::RabbitmqFailedReconnects => {
            (format!("{count} attempts in a row to connect to RabbitMQ have failed."), "RabbitMQ is connected again.")
        }
        _ => return None,
    };
    Some(if report == AlertReport::Resolved { over.to_owned() } else { lasts })
}

fn subject(rule: &AlertRule, name: Option<&str>) -> String {
    let scope = rule.scope.as_str();
    match name {
        Some(name) => format!("{scope} \"{}\"", name.chars().take(NAME_CHARS_MAX).collect::<String>()),
        None => format!("the {scope}"),
    }
}

const fn what(metric: AlertMetric) -> &'static str {
    match metric {
        AlertMetric::SuccessRate => "The success rate",
        AlertMetric::ErrorRate => "The error rate",
        AlertMetric::P95OfTimeout => "The 95th percentile of the duration, relative to the timeout,",
        AlertMetric::P95 => "The 95th percentile of the duration",
        AlertMetric::P99 => "The 99th percentile of the duration",
        AlertMetric::DnsFailureRate => "The share of attempts that failed in DNS",
        AlertMetric::CircuitOpen => "The circuit breaker",
        AlertMetric::DeadLetters => "The number of dead letters",
        AlertMetric::ProcessingP95 => "The 95th percentile of the processing time",
        AlertMetric::ProcessingFailureRate => "The share of attempts to process events that failed",
        AlertMetric::DeadEvents => "The number of events that became dead letters",
        AlertMetric::Depth => "The number of waiting deliveries",
        AlertMetric::BadSignatures => "The number of requests with a bad signature",
        AlertMetric::FailedHealthChecks => "The number of failed health checks in a row",
        AlertMetric::WorkersBusy => "The share of busy workers",
        AlertMetric::RedisAway => "The unavailability of Redis",
        AlertMetric::RedisFallback => "The time without shared limits in Redis",
        AlertMetric::DatabaseAway => "The unavailability of the database",
        AlertMetric::DatabaseFailures => "The number of failed database requests in a row",
        AlertMetric::DatabaseAndRedisAway => "The unavailability of both the database and Redis",
        AlertMetric::RabbitmqFailedReconnects => "The number of failed reconnects to RabbitMQ",
    }
}

fn over(rule: &AlertRule) -> String {
    match rule.window {
        Duration::ZERO => String::new(),
        window => format!(" over the last {}", in_words(window)),
    }
}

fn written(value: f64, unit: AlertUnit) -> String {
    match unit {
        AlertUnit::Percent => format!("{} %", short(value)),
        AlertUnit::Millis if value >= 10_000.0 => format!("{} s", short(value / 1_000.0)),
        AlertUnit::Millis => format!("{} ms", short(value)),
        AlertUnit::Seconds => format!("{} s", short(value)),
        AlertUnit::Count => short(value),
    }
}

/// With one decimal place, unless it is a whole number.
fn short(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    format!("{rounded}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::alerts::defaults::default_rule;

    #[test]
    fn an_alert_says_what_it_is_about_in_one_sentence() {
        use AlertReport::{Fired, Repeated, Resolved};
        #[rustfmt::skip]
        let table = [
            ("endpoint_success_rate_warning", Some("orders"), 82.456, Fired, "The success rate of endpoint \"orders\" over the last 60 minutes is 82.5 %, below 95 %."),
            ("endpoint_success_rate_warning", Some("orders"), 82.0, Repeated, "The success rate of endpoint \"orders\" over the last 60 minutes is still 82 %, below 95 %."),
            ("endpoint_success_rate_warning", None, 99.0, Resolved, "The success rate of the endpoint over the last 60 minutes is no longer below 95 %."),
            ("endpoint_circuit_opened", Some("a"), 1.0, Fired, "The circuit breaker of endpoint \"a\" is open."),
            ("endpoint_circuit_open_long", Some("a"), 1.0, Fired, "The circuit breaker of endpoint \"a\" has been open for more than 60 minutes."),
            ("endpoint_circuit_opened", Some("a"), 0.0, Resolved, "The circuit breaker of endpoint \"a\" is closed again."),
            ("dead_letters", Some("Acme"), 3.0, Fired, "The number of dead letters of organization \"Acme\" is 3, above 0."),
            ("server_depth", None, 12_000.0, Fired, "The number of waiting deliveries of the server is 12000, above 10000."),
            ("database_away", None, 31.04, Fired, "The database has been away for 31 seconds."),
            ("database_away", None, 86_431.0, Repeated, "The database has been away for 24 hours."),
            ("database_away", None, 0.0, Resolved, "The database is back."),
            ("database_failures", None, 5.0, Fired, "5 reads of the database in a row have failed."),
            ("server_workers_busy", None, 93.75, Fired, "93.8 % of the workers are busy."),
            ("rabbitmq_reconnects", None, 3.0, Fired, "3 attempts in a row to connect to RabbitMQ have failed."),
            ("source_processing_slow", Some("garmin"), 432_100.0, Fired, "The 95th percentile of the processing time of source \"garmin\" over the last 15 minutes is 432.1 s, above 300 s."),
        ];
        for (rule, name, value, report, expected) in table {
            let rule = default_rule(rule).expect("a default rule").rule();
            assert_eq!(summary(&rule, name, value, report), expected);
        }
    }

    #[test]
    fn a_long_name_does_not_make_a_long_sentence() {
        let rule = default_rule("dead_letters").expect("a default rule").rule();
        assert!(summary(&rule, Some(&"x".repeat(10_000)), 1.0, AlertReport::Fired).len() < 300);
    }
}
