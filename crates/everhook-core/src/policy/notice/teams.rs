//! A notice as a message to a workflow of Microsoft Teams: an Adaptive Card.
//!
//! Values stand in `TextRun`s, which know no markup: in other elements of a card, `[a](b)` is a link.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Notice, NoticeState};
use crate::model::NoticeSeverity;

/// Writes a notice as the body of a request.
pub fn write(notice: &Notice, brand: &str) -> Bytes {
    let mut body = vec![
        json!({ "type": "RichTextBlock", "inlines": [run(&notice.subject(brand), json!({ "weight": "Bolder", "size": "Medium", "color": color(notice) }))] }),
        json!({ "type": "RichTextBlock", "inlines": [run(&notice.summary, json!({}))] }),
    ];
    body.extend(notice.facts.iter().map(|(name, value)| {
        let inlines = [run(&format!("{name}: "), json!({ "isSubtle": true })), run(value, json!({ "fontType": "Monospace" }))];
        json!({ "type": "RichTextBlock", "spacing": "Small", "inlines": inlines })
    }));
    body.extend(notice.steps.iter().map(|step| {
        let mut inlines = vec![run(step.words, json!({}))];
        if let Some(request) = &step.request {
            inlines.push(run(&format!(" {request}"), json!({ "fontType": "Monospace" })));
        }
        json!({ "type": "RichTextBlock", "inlines": inlines })
    }));
    let card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "msteams": { "width": "Full" },
    });
    let attachment = json!({ "contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": null, "content": card });
    Bytes::from(json!({ "type": "message", "attachments": [attachment] }).to_string())
}

fn run(text: &str, mut style: Value) -> Value {
    style["type"] = json!("TextRun");
    style["text"] = json!(plain(text));
    style
}

/// `{{…}}` and `${…}` are dates and expressions of cards.
fn plain(text: &str) -> String {
    text.replace("{{", "{\u{200b}{").replace("${", "$\u{200b}{")
}

const fn color(notice: &Notice) -> &'static str {
    match (notice.state, notice.severity) {
        (NoticeState::Resolved, _) => "Good",
        (NoticeState::Info, _) | (NoticeState::Problem, NoticeSeverity::Info) => "Accent",
        (NoticeState::Problem, NoticeSeverity::Warning) => "Warning",
        (NoticeState::Problem, NoticeSeverity::Critical) => "Attention",
    }
}
