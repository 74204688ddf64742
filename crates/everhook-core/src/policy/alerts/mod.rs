//! What becomes of an alert when its value is measured: nothing, a wait, a report, a repetition, its end. Pure; called by the job that evaluates alert rules,
//! and by dry runs.

pub mod defaults;
pub mod dry_run;
pub mod server;
pub mod windows;
pub mod words;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::{
    model::{ALERT_EPISODES_MAX, AlertEpisode, AlertRule, AlertStage, AlertStatus},
    time::Timestamp,
};

/// How many samples a rate or a percentile needs.
pub const SAMPLES_MIN: u64 = 20;

/// How long an alert that still fires is not reported again.
pub const REPEATED_EVERY: Duration = Duration::from_secs(24 * 3_600);

/// How long an alert that was firing stays open while there is too little traffic to measure.
pub const UNMEASURED_MAX: Duration = Duration::from_secs(24 * 3_600);

/// How old the value that is shown of an alert may be: writing it with each evaluation would be a write for each alert that is open.
const VALUE_GOOD_FOR: Duration = Duration::from_secs(300);

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// The value.
    Value(f64),
    /// Fewer samples than say anything.
    TooFewSamples,
}

/// What is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertReport {
    /// That it fires.
    Fired,
    /// That it still does.
    Repeated,
    /// That it is over.
    Resolved,
}

/// A change of how an alert stands.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertStep {
    /// How it stands from now on.
    pub status: AlertStatus,
    /// What is reported of it.
    pub report: Option<AlertReport>,
}

/// What a measurement means to a rule.
#[derive(Clone, Copy, PartialEq)]
enum Condition {
    Broken(f64),
    Fine(f64),
    Unknown,
    /// The rule is disabled, or there is none.
    Over,
}

/// Whether something must be looked at that is `ok` so far.
pub fn is_broken(rule: &AlertRule, measured: Measured) -> bool {
    rule.enabled && matches!(measured, Measured::Value(value) if rule.is_broken_by(value))
}

/// What becomes of an alert; `None` if it stays as it is. A rule that is gone or disabled ends its alerts.
pub fn step(rule: Option<&AlertRule>, status: &AlertStatus, measured: Measured, now: Timestamp) -> Option<AlertStep> {
    let mut next = status.clone();
    if let Some(rule) = rule {
        next.rule = rule.clone();
    }
    let report = match (status.stage, condition(rule, measured)) {
        (AlertStage::Ok, Condition::Broken(value)) if next.rule.pending_for.is_zero() => fire(&mut next, value, now),
        (AlertStage::Ok, Condition::Broken(value)) => {
            (next.stage, next.since, next.value) = (AlertStage::Pending, now, value);
            None
        }
        (AlertStage::Ok, _) => return None,
        (AlertStage::Pending, Condition::Broken(value)) if now.since(status.since) >= next.rule.pending_for => fire(&mut next, value, now),
        (AlertStage::Pending, Condition::Broken(_)) => return None,
        (AlertStage::Pending, _) => {
            (next.stage, next.since) = (AlertStage::Ok, now);
            None
        }
        (AlertStage::Firing, Condition::Broken(value)) => {
            let report = report_while_firing(&mut next, now);
            if report.is_none() && (value == status.value || now.since(status.updated_at) < VALUE_GOOD_FOR) {
                return None;
            }
            next.value = value;
            report
        }
        (AlertStage::Firing, Condition::Unknown) => {
            (next.stage, next.since) = (AlertStage::TooFewSamples, now);
            None
        }
        (AlertStage::TooFewSamples, Condition::Broken(value)) => {
            (next.stage, next.since, next.value) = (AlertStage::Firing, now, value);
            report_while_firing(&mut next, now)
        }
        (AlertStage::TooFewSamples, Condition::Unknown) if now.since(status.since) < UNMEASURED_MAX => return None,
        (AlertStage::Firing | AlertStage::TooFewSamples, condition) => resolve(&mut next, condition, now),
    };
    next.updated_at = now;
    Some(AlertStep { status: next, report })
}

fn condition(rule: Option<&AlertRule>, measured: Measured) -> Condition {
    match (rule.filter(|rule| rule.enabled), measured) {
        (None, _) => Condition::Over,
        (Some(_), Measured::TooFewSamples) => Condition::Unknown,
        (Some(rule), Measured::Value(value)) if rule.is_broken_by(value) => Condition::Broken(value),
        (Some(_), Measured::Value(value)) => Condition::Fine(value),
    }
}

fn fire(status: &mut AlertStatus, value: f64, now: Timestamp) -> Option<AlertReport> {
    (status.stage, status.since, status.value, status.reported_at) = (AlertStage::Firing, now, value, None);
    status.episodes.insert(0, AlertEpisode { fired_at: now, resolved_at: None, value });
    status.episodes.truncate(ALERT_EPISODES_MAX);
    report_while_firing(status, now)
}

/// Reports it if that was not done yet, or long ago. One that is silenced is reported when the silence ends, if it still fires then.
fn report_while_firing(status: &mut AlertStatus, now: Timestamp) -> Option<AlertReport> {
    if status.is_silenced(now) {
        return None;
    }
    let report = match status.reported_at {
        None => AlertReport::Fired,
        Some(at) if now.since(at) >= REPEATED_EVERY => AlertReport::Repeated,
        Some(_) => return None,
    };
    status.reported_at = Some(now);
    Some(report)
}

/// Whoever was notified of a problem is notified of its end, also while the alert is silenced.
fn resolve(status: &mut AlertStatus, condition: Condition, now: Timestamp) -> Option<AlertReport> {
    if let Condition::Fine(value) = condition {
        status.value = value;
    }
    if let Some(episode) = status.episodes.first_mut() {
        episode.resolved_at = Some(now);
    }
    let was_reported = status.reported_at.take().is_some();
    (status.stage, status.since) = (AlertStage::Ok, now);
    was_reported.then_some(AlertReport::Resolved)
}
