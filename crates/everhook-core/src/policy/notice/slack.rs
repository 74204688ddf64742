//! A notice as a message of Slack's incoming webhooks, in the form that Mattermost, Rocket.Chat and Discord (under `/slack`) understand, too.
//!
//! Values stand in code, where nothing is a mention, a link or markup; what stands outside is made harmless first.

use bytes::Bytes;
use serde_json::json;

use super::{Notice, NoticeState};
use crate::model::NoticeSeverity;

/// Shows nothing, and keeps what stands before and behind it apart.
const ZERO_WIDTH_SPACE: char = '\u{200b}';

/// Writes a notice as the body of a request.
pub fn write(notice: &Notice, brand: &str) -> Bytes {
    let subject = plain(&notice.subject(brand));
    let fields: Vec<_> = notice
        .facts
        .iter()
        .map(|(name, value)| json!({ "title": name, "value": code(value), "short": value.chars().count() <= 40 }))
        .collect();
    let mut text = plain(&notice.summary);
    for step in &notice.steps {
        text.push_str("\n• ");
        text.push_str(&plain(step.words));
        if let Some(request) = &step.request {
            text.push(' ');
            text.push_str(&code(request));
        }
    }
    let body = json!({
        "text": subject,
        // Nothing that looks like a name or a URL becomes one, and nothing is fetched to be shown.
        "parse": "none",
        "link_names": false,
        "unfurl_links": false,
        "unfurl_media": false,
        "attachments": [{
            "fallback": subject,
            "color": color(notice),
            "text": text,
            "fields": fields,
            "mrkdwn_in": ["text", "fields"],
        }],
    });
    Bytes::from(body.to_string())
}

const fn color(notice: &Notice) -> &'static str {
    match (notice.state, notice.severity) {
        (NoticeState::Resolved, _) => "#1d8a4e",
        (NoticeState::Info, _) | (NoticeState::Problem, NoticeSeverity::Info) => "#3a7bd5",
        (NoticeState::Problem, NoticeSeverity::Warning) => "#c27803",
        (NoticeState::Problem, NoticeSeverity::Critical) => "#dc4538",
    }
}

/// Text outside of code: no mention, no link and no markup comes of it.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' | '<' | '>' => escape(char, &mut plain),
            '`' => plain.push('\''),
            // A mention; a scheme or an emoji; markup.
            '@' | ':' | '*' | '_' | '~' | '[' => plain.extend([char, ZERO_WIDTH_SPACE]),
            other => plain.push(other),
        }
    }
    // What begins so is a link even without a scheme.
    plain.replace("www.", "www\u{200b}.")
}

/// Text inside of code.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len() + 2);
    code.push('`');
    for char in text.chars() {
        match char {
            '`' => code.push('\''),
            other => escape(other, &mut code),
        }
    }
    code.push('`');
    code
}

fn escape(char: char, into: &mut String) {
    match char {
        '&' => into.push_str("&amp;"),
        '<' => into.push_str("&lt;"),
        '>' => into.push_str("&gt;"),
        other => into.push(other),
    }
}
