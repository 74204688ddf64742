//! What notifications call the sender, and where PagerDuty is.

use everhook_core::{
    line::NotificationSettings,
    policy::{
        notice::BRAND_CHARS_MAX,
        target::{self, TargetRules},
    },
};

use super::check::Reader;

/// Reads both.
pub(super) fn read(reader: &mut Reader<'_>, targets: Option<&TargetRules>) -> Option<NotificationSettings> {
    let brand = reader.needed("brand", parse_brand);
    let pagerduty_url = reader.needed("pagerduty_url", |text| match targets {
        Some(rules) => {
            let rules = TargetRules { allow_amqp: false, ..rules.clone() };
            target::check(text, &rules).map(Some).map_err(|fault| fault.to_string())
        }
        // What is wrong with the rules is said already.
        None => Ok(None),
    });
    Some(NotificationSettings { brand: brand?, pagerduty_url: pagerduty_url.flatten()? })
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
