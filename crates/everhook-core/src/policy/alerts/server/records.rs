//! What the store keeps of alerts about the server: one row for each rule, for all nodes together. Each node reports what it notices; the first to record it
//! makes the event, and the others find it there.

use super::ServerReport;
use crate::{
    model::{ALERT_EPISODES_MAX, AlertEpisode, AlertStage, AlertStatus},
    policy::alerts::{AlertReport, REPEATED_EVERY},
    time::Timestamp,
};

/// How much earlier than a day after the last report another node may repeat it: nodes evaluate at different moments.
const REPEATED_EARLY: std::time::Duration = std::time::Duration::from_secs(60);

/// What is kept after a report; `None` if another node has recorded the same.
pub fn recorded(kept: Option<AlertStatus>, report: &ServerReport) -> Option<AlertStatus> {
    let mut next = kept.unwrap_or_else(|| AlertStatus { episodes: Vec::new(), revision: 0, ..report.status.clone() });
    let is_open = next.revision > 0 && next.stage == AlertStage::Firing;
    match report.report {
        AlertReport::Fired if !is_open && !overlaps(&next, report.fired_at()) => begin(&mut next, report),
        AlertReport::Repeated if is_open && is_repeatable(&next, report.at) => next.reported_at = Some(report.at),
        AlertReport::Resolved if is_open => end(&mut next, report.at),
        _ => return None,
    }
    (next.rule, next.value, next.updated_at) = (report.status.rule.clone(), report.status.value, report.at);
    Some(next)
}

/// Whether a begin is recorded already, by this very report: the store's answer was lost.
pub fn is_recorded(kept: &AlertStatus, report: &ServerReport) -> bool {
    report.report == AlertReport::Fired && kept.stage == AlertStage::Firing && kept.reported_at == Some(report.at)
}

/// A record of an alert that still fires, as it is renewed now and then, so that it does not look as if its node had died.
pub fn renewed(kept: &AlertStatus, value: f64, now: Timestamp) -> AlertStatus {
    AlertStatus { value, updated_at: now, ..kept.clone() }
}

/// Whether what began then was over for another node only later: it is the same trouble.
fn overlaps(kept: &AlertStatus, fired_at: Timestamp) -> bool {
    kept.episodes.first().and_then(|episode| episode.resolved_at).is_some_and(|resolved_at| resolved_at >= fired_at)
}

fn is_repeatable(kept: &AlertStatus, at: Timestamp) -> bool {
    kept.reported_at.is_none_or(|reported_at| at.since(reported_at) + REPEATED_EARLY >= REPEATED_EVERY)
}

fn begin(next: &mut AlertStatus, report: &ServerReport) {
    let fired_at = report.fired_at();
    (next.stage, next.since, next.reported_at) = (AlertStage::Firing, fired_at, Some(report.at));
    let value = report.status.episodes.first().map_or(report.status.value, |episode| episode.value);
    next.episodes.insert(0, AlertEpisode { fired_at, resolved_at: None, value });
    next.episodes.truncate(ALERT_EPISODES_MAX);
}

fn end(next: &mut AlertStatus, at: Timestamp) {
    (next.stage, next.since, next.reported_at) = (AlertStage::Ok, at, None);
    if let Some(episode) = next.episodes.first_mut() {
        episode.resolved_at = Some(at);
    }
}
