//! From what is asked of an alert rule to a rule that can be evaluated.

use std::time::Duration;

use super::AlertRuleChange;
use crate::{
    manage::{Change, Fault, Refusal, refuse_faults},
    model::{AlertMetric, AlertRecipients, AlertRule, AlertScope, AlertSeverity, AlertUnit},
    policy::alerts::defaults::default_rule,
};

/// How long a name may be, of a rule and of a channel, and how many channels a rule may name.
const NAME_CHARS_MAX: usize = 64;
const CHANNELS_MAX: usize = 10;

const MINUTE: Duration = Duration::from_secs(60);

/// What a rule is measured over that does not say it.
const WINDOW_DEFAULT: Duration = Duration::from_secs(300);

/// For how long a value may have to be on the wrong side.
const FOR_MAX: Duration = Duration::from_secs(7 * 86_400);

/// The greatest thresholds. Counts stop there.
const PERCENT_MAX: f64 = 100.0;
const OF_TIMEOUT_MAX: f64 = 1_000.0;
const COUNT_MAX: f64 = 10_000.0;
const SERVER_COUNT_MAX: f64 = 100_000.0;
const MILLIS_MAX: f64 = 86_400_000.0;

/// A new rule.
pub fn new_rule(asked: AlertRuleChange) -> Result<AlertRule, Refusal> {
    let mut faults = Vec::new();
    let name = needed(asked.name.clone(), "name", &mut faults, check_name);
    let metric = needed(asked.metric.clone(), "metric", &mut faults, parse_metric);
    let scope = needed(asked.scope.clone(), "scope", &mut faults, parse_scope);
    if let (Some(metric), Some(scope)) = (metric, scope)
        && !metric.scopes().contains(&scope)
    {
        let scopes: Vec<_> = metric.scopes().iter().map(|scope| scope.as_str()).collect();
        faults.push(Fault::new("scope", format!("must be one of {} for this metric", scopes.join(", "))));
    }
    if asked.threshold == Change::Keep {
        faults.push(Fault::new("threshold", "is required"));
    }
    let (Some(name), Some(metric), Some(scope)) = (name, metric, scope) else { return Err(Refusal::Invalid(faults)) };
    let blank = AlertRule {
        name,
        metric,
        scope,
        threshold: 0.0,
        window: metric.window_max().min(WINDOW_DEFAULT),
        pending_for: Duration::ZERO,
        severity: AlertSeverity::Warning,
        recipients: AlertRecipients { owner: true, ..AlertRecipients::default() },
        enabled: true,
    };
    let same = AlertRuleChange { name: Change::Keep, metric: Change::Keep, scope: Change::Keep, ..asked };
    apply(same, &blank, &blank, faults)
}

/// A rule with what is asked of it. Null means the value of the default rule, or that of a new rule.
pub fn changed_rule(asked: AlertRuleChange, rule: &AlertRule) -> Result<AlertRule, Refusal> {
    let default = default_rule(&rule.name).map_or_else(
        || AlertRule {
            window: rule.metric.window_max().min(WINDOW_DEFAULT),
            pending_for: Duration::ZERO,
            severity: AlertSeverity::Warning,
            recipients: AlertRecipients { owner: true, ..AlertRecipients::default() },
            enabled: true,
            ..rule.clone()
        },
        |default| default.rule(),
    );
    let mut faults = Vec::new();
    let fixed = [
        ("name", &asked.name, rule.name.as_str()),
        ("metric", &asked.metric, rule.metric.as_str()),
        ("scope", &asked.scope, rule.scope.as_str()),
    ];
    for (field, asked, is) in fixed {
        if !matches!(asked, Change::Keep) && !matches!(asked, Change::Set(asked) if asked == is) {
            faults.push(Fault::new(field, "cannot be changed: write another rule instead"));
        }
    }
    if asked.threshold == Change::Clear && default_rule(&rule.name).is_none() {
        faults.push(Fault::new("threshold", "must not be null"));
    }
    apply(asked, rule, &default, faults)
}

fn apply(asked: AlertRuleChange, rule: &AlertRule, default: &AlertRule, mut faults: Vec<Fault>) -> Result<AlertRule, Refusal> {
    let mut changed = rule.clone();
    let metric = rule.metric;
    asked
        .threshold
        .check("threshold", &mut faults, |value| check_threshold(metric, rule.scope, value))
        .apply(&mut changed.threshold, default.threshold);
    asked.window.check("window", &mut faults, |window| check_window(metric, window)).apply(&mut changed.window, default.window);
    asked.pending_for.check("for", &mut faults, check_for).apply(&mut changed.pending_for, default.pending_for);
    asked.severity.check("severity", &mut faults, |word| parse_severity(&word)).apply(&mut changed.severity, default.severity);
    asked.owner.apply(&mut changed.recipients.owner, default.recipients.owner);
    asked.admins.apply(&mut changed.recipients.admins, default.recipients.admins);
    let channels = asked.channels.check("recipients.channels", &mut faults, check_channels);
    channels.apply(&mut changed.recipients.channels, default.recipients.channels.clone());
    asked.enabled.apply(&mut changed.enabled, default.enabled);
    refuse_faults(faults)?;
    Ok(changed)
}

fn needed<T>(
    asked: Change<String>,
    field: &'static str,
    faults: &mut Vec<Fault>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let reason = match asked {
        Change::Keep => "is required".to_owned(),
        Change::Clear => "must not be null".to_owned(),
        Change::Set(text) => match parse(&text) {
            Ok(value) => return Some(value),
            Err(reason) => reason,
        },
    };
    faults.push(Fault::new(field, reason));
    None
}

fn check_name(name: &str) -> Result<String, String> {
    let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.');
    // `dry-run` is a route of its own.
    if (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_fit) && uuid::Uuid::try_parse(name).is_err() && name != "dry-run" {
        Ok(name.to_owned())
    } else {
        Err(format!("must be 1 to {NAME_CHARS_MAX} of the characters a-z 0-9 _ - . and neither `dry-run` nor a UUID"))
    }
}

fn parse_metric(word: &str) -> Result<AlertMetric, String> {
    let is_ours = |metric: &AlertMetric| metric.scopes().iter().any(|scope| *scope != AlertScope::Server);
    let metrics = || AlertMetric::ALL.into_iter().filter(is_ours);
    metrics().find(|metric| metric.as_str() == word).ok_or_else(|| one_of(metrics().map(AlertMetric::as_str)))
}

fn parse_scope(word: &str) -> Result<AlertScope, String> {
    let scopes = || AlertScope::ALL.into_iter().filter(|scope| *scope != AlertScope::Server);
    scopes().find(|scope| scope.as_str() == word).ok_or_else(|| one_of(scopes().map(AlertScope::as_str)))
}

fn parse_severity(word: &str) -> Result<AlertSeverity, String> {
    AlertSeverity::parse(word).ok_or_else(|| one_of(AlertSeverity::ALL.into_iter().map(AlertSeverity::as_str)))
}

fn one_of(words: impl Iterator<Item = &'static str>) -> String {
    format!("must be one of {}", words.collect::<Vec<_>>().join(", "))
}

fn check_threshold(metric: AlertMetric, scope: AlertScope, value: f64) -> Result<f64, String> {
    let max = match metric.unit() {
        AlertUnit::Count if scope == AlertScope::Server => SERVER_COUNT_MAX,
        AlertUnit::Percent if metric == AlertMetric::P95OfTimeout => OF_TIMEOUT_MAX,
        AlertUnit::Percent => PERCENT_MAX,
        AlertUnit::Count => COUNT_MAX,
        AlertUnit::Millis | AlertUnit::Seconds => MILLIS_MAX,
    };
    if value.is_finite() && (0.0..=max).contains(&value) { Ok(value) } else { Err(format!("must be from 0 to {max}")) }
}

fn check_window(metric: AlertMetric, window: Duration) -> Result<Duration, String> {
    let max = metric.window_max();
    if max.is_zero() {
        return if window.is_zero() { Ok(window) } else { Err("must be absent: the metric is a current value".to_owned()) };
    }
    let is_whole = window.subsec_nanos() == 0 && window.as_secs().is_multiple_of(MINUTE.as_secs());
    if is_whole && (MINUTE..=max).contains(&window) {
        Ok(window)
    } else {
        Err(format!("must be whole minutes, from 1m to {}m for this metric", max.as_secs() / MINUTE.as_secs()))
    }
}

fn check_for(length: Duration) -> Result<Duration, String> {
    if length <= FOR_MAX && length.subsec_nanos() == 0 { Ok(length) } else { Err("must be whole seconds, at most 7d".to_owned()) }
}

fn check_channels(names: Vec<String>) -> Result<Vec<String>, String> {
    let is_fit = |name: &String| crate::ids::Uid::parse(name).is_some() && name.len() <= NAME_CHARS_MAX;
    if names.len() <= CHANNELS_MAX && names.iter().all(is_fit) {
        Ok(names)
    } else {
        Err(format!("must be at most {CHANNELS_MAX} names of at most {NAME_CHARS_MAX} of the characters A-Z a-z 0-9 _ . : -"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> AlertRuleChange {
        let set = |text: &str| Change::Set(text.to_owned());
        let (name, metric, scope) = (set("mine"), set("success_rate"), set("endpoint"));
        AlertRuleChange { name, metric, scope, threshold: Change::Set(99.0), ..AlertRuleChange::default() }
    }

    fn faults(asked: AlertRuleChange) -> Vec<String> {
        match new_rule(asked) {
            Err(Refusal::Invalid(faults)) => faults.into_iter().map(|fault| fault.field).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_rule_needs_a_name_a_metric_a_scope_and_a_threshold() {
        assert_eq!(faults(AlertRuleChange::default()), ["name", "metric", "scope", "threshold"]);
        let rule = new_rule(asked()).expect("it is well-formed");
        assert_eq!((rule.window, rule.pending_for, rule.severity), (WINDOW_DEFAULT, Duration::ZERO, AlertSeverity::Warning));
        assert!(rule.enabled && rule.recipients.owner && !rule.recipients.admins);
    }

    #[test]
    fn what_cannot_be_evaluated_is_refused() {
        let set = |text: &str| Change::Set(text.to_owned());
        let secs = |count| Change::Set(Duration::from_secs(count));
        let table = [
            (AlertRuleChange { name: set("Mine"), ..asked() }, "name"),
            (AlertRuleChange { name: set("dry-run"), ..asked() }, "name"),
            (AlertRuleChange { name: set(&"x".repeat(65)), ..asked() }, "name"),
            (AlertRuleChange { metric: set("laundry"), ..asked() }, "metric"),
            (AlertRuleChange { metric: set("redis_away"), ..asked() }, "metric"),
            (AlertRuleChange { scope: set("server"), ..asked() }, "scope"),
            (AlertRuleChange { scope: set("source"), ..asked() }, "scope"),
            (AlertRuleChange { threshold: Change::Set(100.5), ..asked() }, "threshold"),
            (AlertRuleChange { threshold: Change::Set(-1.0), ..asked() }, "threshold"),
            (AlertRuleChange { threshold: Change::Set(f64::NAN), ..asked() }, "threshold"),
            (AlertRuleChange { window: secs(90), ..asked() }, "window"),
            (AlertRuleChange { window: secs(7_200), ..asked() }, "window"),
            (AlertRuleChange { window: secs(0), ..asked() }, "window"),
            (AlertRuleChange { metric: set("circuit_open"), window: secs(60), ..asked() }, "window"),
            (AlertRuleChange { metric: set("p99"), window: secs(1_800), ..asked() }, "window"),
            (AlertRuleChange { pending_for: secs(8 * 86_400), ..asked() }, "for"),
            (AlertRuleChange { severity: set("urgent"), ..asked() }, "severity"),
            (AlertRuleChange { channels: Change::Set(vec!["a b".to_owned()]), ..asked() }, "recipients.channels"),
            (AlertRuleChange { channels: Change::Set(vec!["a".to_owned(); 11]), ..asked() }, "recipients.channels"),
        ];
        for (asked, field) in table {
            assert_eq!(faults(asked.clone()), [field], "{asked:?}");
        }
    }

    #[test]
    fn null_brings_a_default_rule_back_field_by_field() {
        let default = default_rule("dead_letters").expect("it is there").rule();
        let change = AlertRuleChange { threshold: Change::Set(7.0), enabled: Change::Set(false), ..AlertRuleChange::default() };
        let changed = changed_rule(change, &default).expect("it is changed");
        assert_eq!((changed.threshold, changed.enabled, changed.pending_for), (7.0, false, default.pending_for));
        let back = AlertRuleChange { threshold: Change::Clear, enabled: Change::Clear, ..AlertRuleChange::default() };
        assert_eq!(changed_rule(back, &changed).expect("it is back"), default);
        let other = AlertRuleChange { metric: Change::Set("depth".to_owned()), ..AlertRuleChange::default() };
        assert!(changed_rule(other, &default).is_err());
    }
}
