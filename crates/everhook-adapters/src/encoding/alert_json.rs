//! How both stores spell alert rules, and the times that an alert fired: as JSON, each in one column.

use std::time::Duration;

use everhook_core::{
    model::{AlertEpisode, AlertMetric, AlertRecipients, AlertRule, AlertScope, AlertSeverity},
    time::Timestamp,
};
use serde_json::{Value, json};

pub(crate) fn rule(rule: &AlertRule) -> String {
    json!({
        "name": rule.name,
        "metric": rule.metric.as_str(),
        "scope": rule.scope.as_str(),
        "threshold": rule.threshold,
        "window": rule.window.as_secs(),
        "for": rule.pending_for.as_secs(),
        "severity": rule.severity.as_str(),
        "owner": rule.recipients.owner,
        "admins": rule.recipients.admins,
        "channels": rule.recipients.channels,
        "enabled": rule.enabled,
    })
    .to_string()
}

/// Reads a rule; `None` if nobody wrote that.
pub(crate) fn read_rule(written: &str) -> Option<AlertRule> {
    let value: Value = serde_json::from_str(written).ok()?;
    let channels = value["channels"].as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    Some(AlertRule {
        name: value["name"].as_str()?.to_owned(),
        metric: AlertMetric::parse(value["metric"].as_str()?)?,
        scope: AlertScope::parse(value["scope"].as_str()?)?,
        threshold: value["threshold"].as_f64()?,
        window: Duration::from_secs(value["window"].as_u64()?),
        pending_for: Duration::from_secs(value["for"].as_u64()?),
        severity: AlertSeverity::parse(value["severity"].as_str()?)?,
        recipients: AlertRecipients { owner: value["owner"].as_bool()?, admins: value["admins"].as_bool()?, channels },
        enabled: value["enabled"].as_bool()?,
    })
}

pub(crate) fn episodes(episodes: &[AlertEpisode]) -> String {
    let spell =
        |episode: &AlertEpisode| json!([episode.fired_at.as_micros(), episode.resolved_at.map(Timestamp::as_micros), episode.value]);
    Value::from_iter(episodes.iter().map(spell)).to_string()
}

/// Reads the times that an alert fired; `None` if nobody wrote that.
pub(crate) fn read_episodes(written: &str) -> Option<Vec<AlertEpisode>> {
    let read = |value: &Value| {
        Some(AlertEpisode {
            fired_at: Timestamp::from_micros(value[0].as_i64()?),
            resolved_at: match &value[1] {
                Value::Null => None,
                at => Some(Timestamp::from_micros(at.as_i64()?)),
            },
            value: value[2].as_f64()?,
        })
    };
    serde_json::from_str::<Vec<Value>>(written).ok()?.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use everhook_core::{model::ALERT_EPISODES_MAX, policy::alerts::defaults::DEFAULT_RULES};

    use super::*;

    /// As `definition` and `episodes` are bounded in both stores.
    const COLUMN_CHARS_MAX: usize = 4_096;

    #[test]
    fn rules_are_read_as_they_were_written() {
        for default in &DEFAULT_RULES {
            let written = AlertRule { enabled: false, ..default.rule() };
            assert_eq!(read_rule(&rule(&written)), Some(written));
        }
        let recipients = AlertRecipients { owner: false, admins: true, channels: vec!["ops".to_owned(), "\"x\"".to_owned()] };
        let written = AlertRule { recipients, threshold: 99.95, ..DEFAULT_RULES[0].rule() };
        assert_eq!(read_rule(&rule(&written)), Some(written));
        for bad in ["", "{}", "[]", "null"] {
            assert_eq!(read_rule(bad), None, "{bad}");
        }
    }

    #[test]
    fn as_many_episodes_as_are_kept_fit_their_column() {
        let at = Timestamp::from_micros(1_999_999_999_999_999);
        let episode = AlertEpisode { fired_at: at, resolved_at: Some(at), value: 99.999_999_999_999_99 };
        let mut kept = vec![episode; ALERT_EPISODES_MAX];
        kept[0].resolved_at = None;
        let written = episodes(&kept);
        assert!(written.len() <= COLUMN_CHARS_MAX, "{}", written.len());
        assert_eq!(read_episodes(&written), Some(kept));
        assert_eq!(read_episodes("{}"), None);
    }
}
