//! How the rules about the server stand on one node, in its memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{ServerFacts, ServerReport, covered_by};
use crate::{
    model::{AlertMetric, AlertRule, AlertStage, AlertStatus},
    policy::alerts::{AlertReport, Measured, is_broken, step},
    time::Timestamp,
};

/// How old the record of an alert that fires may become before it counts as left behind by a node that died. Nodes renew theirs every five minutes.
pub const ABANDONED_AFTER: Duration = Duration::from_secs(15 * 60);

/// How long after another node recorded the end of an alert one that still fires here is an alert of its own.
const REOPENED_AFTER: Duration = Duration::from_secs(5 * 60);

/// The rules in the order in which they are evaluated: what covers others comes first.
const ORDER: [AlertMetric; 4] =
    [AlertMetric::DatabaseAndRedisAway, AlertMetric::DatabaseAway, AlertMetric::DatabaseFailures, AlertMetric::RedisAway];

/// How each rule stands, by name.
#[derive(Debug, Default)]
pub struct ServerStatuses {
    statuses: BTreeMap<String, AlertStatus>,
    /// The rules whose alerts fire here as well as on another node, which recorded them first and reports them from then on.
    followed: BTreeSet<String>,
}

/// What is known from the store, and was perhaps known long ago.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The rules in force.
    pub rules: &'a [AlertRule],
    /// What is recorded of alerts, of all nodes.
    pub records: &'a [AlertStatus],
}

impl ServerStatuses {
    /// Evaluates all rules and says what is to be reported. `blank` makes the status of a rule of which nothing is known.
    pub fn evaluate(
        &mut self,
        known: Known<'_>,
        facts: &ServerFacts,
        now: Timestamp,
        mut blank: impl FnMut(&AlertRule) -> AlertStatus,
    ) -> Vec<ServerReport> {
        let mut rules: Vec<&AlertRule> = known.rules.iter().collect();
        rules.sort_by_key(|rule| ORDER.iter().position(|metric| *metric == rule.metric).unwrap_or(ORDER.len()));
        let mut reports = Vec::new();
        for rule in rules {
            let measured = facts.measure(rule.metric, now);
            let mut status = self.statuses.remove(&rule.name).unwrap_or_else(|| blank(rule));
            if let Some(record) = known.records.iter().find(|record| record.rule.name == rule.name) {
                follow(&mut status, record, rule, measured, now, &mut blank);
            }
            let is_covered = self.is_covered(rule.metric);
            reports.extend(advance(rule, &mut status, measured, now, is_covered));
            self.statuses.insert(rule.name.clone(), status);
        }
        reports
    }

    /// Notes who recorded the begin of an alert first: this node, or another one.
    pub fn note_begin(&mut self, rule: &str, is_ours: bool) {
        if is_ours {
            self.followed.remove(rule);
        } else {
            self.followed.insert(rule.to_owned());
        }
    }

    /// Whether a repetition or an end is for another node to report, which is known to be alive by its record.
    pub fn is_followed(&self, rule: &str, records: &[AlertStatus], now: Timestamp) -> bool {
        let record = records.iter().find(|record| record.rule.name == rule);
        self.followed.contains(rule) && record.is_some_and(|record| now.since(record.updated_at) <= ABANDONED_AFTER)
    }

    /// Those that fire and were reported.
    pub fn reported(&self) -> impl Iterator<Item = &AlertStatus> {
        self.statuses.values().filter(|status| is_reported(status))
    }

    fn is_covered(&self, metric: AlertMetric) -> bool {
        self.reported().any(|status| covered_by(metric).contains(&status.rule.metric))
    }
}

fn is_reported(status: &AlertStatus) -> bool {
    status.stage != AlertStage::Ok && status.reported_at.is_some()
}

/// Heeds what is recorded of an alert: whether it is silenced, and what other nodes have reported of it.
fn follow(
    status: &mut AlertStatus,
    record: &AlertStatus,
    rule: &AlertRule,
    measured: Measured,
    now: Timestamp,
    blank: &mut impl FnMut(&AlertRule) -> AlertStatus,
) {
    (status.id, status.silenced_until) = (record.id, record.silenced_until);
    let is_fine = measured != Measured::TooFewSamples && !is_broken(rule, measured);
    let is_open = record.stage == AlertStage::Firing;
    let begin = |status: &AlertStatus| status.episodes.first().map(|episode| episode.fired_at);
    // What was ended here may not be recorded yet.
    let is_news = begin(status) != begin(record);
    if is_open && is_news && status.stage == AlertStage::Ok && is_fine && now.since(record.updated_at) > ABANDONED_AFTER {
        // Whoever reported it is gone: its end is reported by whoever finds it.
        *status = record.clone();
    }
    let was_ended = !is_open && is_reported(status) && status.fired_at().is_some_and(|fired_at| record.since >= fired_at);
    if was_ended && now.since(record.since) > REOPENED_AFTER {
        *status = AlertStatus { id: record.id, silenced_until: record.silenced_until, ..blank(rule) };
    }
}

fn advance(rule: &AlertRule, status: &mut AlertStatus, measured: Measured, now: Timestamp, is_covered: bool) -> Option<ServerReport> {
    let next = step(Some(rule), status, measured, now)?;
    let reported_before = status.reported_at;
    *status = next.status;
    let report = next.report?;
    if is_covered && report != AlertReport::Resolved {
        // Reported when it is no longer covered, if it still fires then.
        status.reported_at = reported_before;
        return None;
    }
    Some(ServerReport { report, status: status.clone(), at: now })
}
