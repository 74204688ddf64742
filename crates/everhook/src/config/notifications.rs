//! What notifications call the sender, where PagerDuty is, and where alerts about the server go.

use everhook_core::{
    line::NotificationSettings,
    manage::channels::check_routing_key,
    model::{Secret, Target},
    policy::{
        notice::BRAND_CHARS_MAX,
        target::{self, TargetRules},
    },
};

use super::check::Reader;

/// Where alerts about the server go beside the administrators' e-mail.
#[derive(Clone, Debug, Default)]
pub struct ServerAlertConfig {
    /// A URL that understands Slack's incoming webhooks. Whoever knows it can write there.
    pub slack_url: Option<Secret<Target>>,
    /// The key of an integration of PagerDuty.
    pub pagerduty_key: Option<Secret<String>>,
}

/// Reads them.
pub(super) fn read_server_alerts(reader: &mut Reader<'_>, targets: Option<&TargetRules>) -> ServerAlertConfig {
    let slack_url = reader.optional("slack_url", |text| match targets {
        Some(rules) => check_url(text, rules).map(|target| Some(Secret::new(target))),
        None => Ok(None),
    });
    let pagerduty_key = reader.optional("pagerduty_key", |text| check_routing_key(text).map(|()| Secret::new(text.to_owned())));
    ServerAlertConfig { slack_url: slack_url.flatten(), pagerduty_key }
}

/// Reads what all notifications have in common.
pub(super) fn read(reader: &mut Reader<'_>, targets: Option<&TargetRules>) -> Option<NotificationSettings> {
    let brand = reader.needed("brand", parse_brand);
    let pagerduty_url = reader.needed("pagerduty_url", |text| match targets {
        Some(rules) => check_url(text, rules).map(Some),
        // What is wrong with the rules is said already.
        None => Ok(None),
    });
    Some(NotificationSettings { brand: brand?, pagerduty_url: pagerduty_url.flatten()? })
}

/// Services are reached by HTTP, whatever endpoints may have.
fn check_url(text: &str, rules: &TargetRules) -> Result<Target, String> {
    let rules = TargetRules { allow_amqp: false, ..rules.clone() };
    target::check(text, &rules).map_err(|fault| fault.to_string())
}

/// It stands in subjects and in the first line of messages.
fn parse_brand(text: &str) -> Result<String, String> {
    let (text, chars) = (text.trim(), text.trim().chars().count());
    let is_plain = text.chars().all(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '.' | '_' | '&' | '\''));
    if (1..=BRAND_CHARS_MAX).contains(&chars) && is_plain {
        Ok(text.to_owned())
    } else {
        Err(format!("must be 1 to {BRAND_CHARS_MAX} letters, digits, blanks and - . _ & '"))
    }
}
