//! What people are told by e-mail about an event: its subject and its words, as text and as HTML. Pure; asked by the attempt of a channel's delivery.
//!
//! Every value in a notice may come from a tenant: in HTML it is escaped, and none becomes a link.

use std::fmt::Write as _;

use serde_json::Value;

use crate::model::EventType;

/// How much of one value is shown, in characters.
const VALUE_CHARS_MAX: usize = 300;

/// How far values are indented behind their names in the text.
const NAME_WIDTH: usize = 15;

/// What people read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What it is about, in one line.
    pub subject: String,
    /// All of it, as plain text.
    pub text: String,
    /// The same as HTML.
    pub html: String,
}

/// A notice before it is written: the same for text and HTML.
struct Words {
    subject: String,
    /// What happened, and what it means.
    summary: String,
    /// What is known about it, by name.
    facts: Vec<(&'static str, String)>,
    /// What to do, step by step. A second line of a step is a request.
    steps: Vec<(&'static str, Option<String>)>,
}

/// Whether people are told of events of this type.
pub fn has_words_for(event_type: &EventType) -> bool {
    matches!(event_type.as_str(), "endpoint.disabled" | "endpoint.warning" | "endpoint.recovered")
}

/// What people are told of an event; `None` if there are no words for its type.
pub fn of_event(event_type: &EventType, data: &Value) -> Option<Notice> {
    match event_type.as_str() {
        "endpoint.disabled" if data["reason"] == "failing" => Some(endpoint_failed(data).write()),
        "endpoint.disabled" => Some(endpoint_disabled(data).write()),
        "endpoint.warning" => Some(endpoint_warning(data).write()),
        "endpoint.recovered" => Some(endpoint_recovered(data).write()),
        _ => None,
    }
}

fn endpoint_disabled(data: &Value) -> Words {
    let id = text(data, "endpoint_id");
    let mut facts = facts_of_endpoint(data);
    facts.extend([("Disabled at", text(data, "disabled_at")), ("Last error", text(data, "last_error"))]);
    Words {
        subject: format!("[Everhook - Action Required] Endpoint Disabled: {}", shown(data)),
        summary: "An endpoint was disabled because it answered 410 Gone, which says that it wants no more events. \
                  Nothing is sent to it any more, and what waited for it is cancelled."
            .to_owned(),
        facts,
        steps: vec![
            ("If this was intended, nothing is left to do.", None),
            ("Otherwise repair the receiver, then enable the endpoint:", Some(format!("PUT /v1/endpoints/{id}  {{\"enabled\": true}}"))),
            ("Send what it missed:", Some(recovery(data, &text(data, "disabled_at")))),
        ],
    }
}

fn endpoint_warning(data: &Value) -> Words {
    let disable_in = text(data, "disable_in");
    let outlook = if disable_in.is_empty() {
        String::new()
    } else {
        format!(" If no attempt succeeds, it is automatically disabled in {disable_in}.")
    };
    let mut facts = facts_of_endpoint(data);
    facts.extend([
        ("First failure", text(data, "first_failure_at")),
        ("Failures", number(data, "failure_count")),
        ("Last attempt", text(data, "last_attempt_at")),
        ("Next attempt", text(data, "next_attempt_at")),
        ("Last error", text(data, "last_error")),
        ("Deadline", text(data, "disable_at")),
    ]);
    Words {
        subject: format!("[Everhook - Warning] Failing Endpoint: {}", shown(data)),
        summary: format!("An endpoint has been failing for the past {}: no attempt has succeeded.{outlook}", text(data, "failing_for")),
        facts,
        steps: vec![
            ("Check that the endpoint can be reached and answers as it should.", None),
            ("Make sure that it answers with a 2xx status within its timeout (15 seconds by default).", None),
            ("See what it answered:", Some(format!("GET /v1/endpoints/{}/deliveries", text(data, "endpoint_id")))),
        ],
    }
}

fn endpoint_failed(data: &Value) -> Words {
    let id = text(data, "endpoint_id");
    let mut facts = facts_of_endpoint(data);
    facts.extend([
        ("Disabled at", text(data, "disabled_at")),
        ("Failed for", text(data, "failing_for")),
        ("First failure", text(data, "first_failure_at")),
        ("Attempts", number(data, "failure_count")),
        ("Last error", text(data, "last_error")),
    ]);
    Words {
        subject: format!("[Everhook - Action Required] Endpoint Disabled: {}", shown(data)),
        summary: "An endpoint was automatically disabled because of repeated failures. \
                  Nothing is sent to it any more, and what waited for it is cancelled."
            .to_owned(),
        facts,
        steps: vec![
            ("Repair the endpoint.", None),
            ("Enable it again:", Some(format!("PUT /v1/endpoints/{id}  {{\"enabled\": true}}"))),
            ("Send what it missed:", Some(recovery(data, &text(data, "first_failure_at")))),
        ],
    }
}

fn endpoint_recovered(data: &Value) -> Words {
    let mut facts = facts_of_endpoint(data);
    facts.push(("Works since", text(data, "recovered_at")));
    Words {
        subject: format!("[Everhook - Info] Endpoint Recovered: {}", shown(data)),
        summary: "An endpoint works again: an attempt has succeeded.".to_owned(),
        facts,
        steps: vec![("Nothing has to be done. What it missed can be sent, from the time of your choice on:", Some(recovery(data, "…")))],
    }
}

/// What every notice about an endpoint says of it.
fn facts_of_endpoint(data: &Value) -> Vec<(&'static str, String)> {
    vec![
        ("Application", named(text(data, "application_name"), text(data, "application_id"))),
        ("Endpoint", named(text(data, "endpoint_name"), text(data, "endpoint_id"))),
        ("URL", text(data, "endpoint_url")),
        ("Description", text(data, "endpoint_description")),
    ]
}

/// The request that sends what was missed since then.
fn recovery(data: &Value, since: &str) -> String {
    format!("POST /v1/applications/{}/recover  {{\"since\": \"{since}\"}}", text(data, "application_id"))
}

/// How an endpoint is named in a subject.
fn shown(data: &Value) -> String {
    let name = text(data, "endpoint_name");
    if name.is_empty() { text(data, "endpoint_url") } else { name }
}

impl Words {
    fn write(self) -> Notice {
        let facts: Vec<_> = self.facts.iter().filter(|(_, value)| !value.is_empty()).collect();
        Notice { text: self.as_text(&facts), html: self.as_html(&facts), subject: self.subject }
    }

    fn as_text(&self, facts: &[&(&str, String)]) -> String {
        let mut text = format!("{}\n\n", self.summary);
        for (name, value) in facts {
            let _ = writeln!(text, "{:NAME_WIDTH$}{value}", format!("{name}:"));
        }
        text.push_str("\nWhat to do\n");
        for (index, (step, request)) in self.steps.iter().enumerate() {
            let _ = writeln!(text, "{}. {step}", index + 1);
            if let Some(request) = request {
                let _ = writeln!(text, "   {request}");
            }
        }
        let _ = write!(text, "\n{REASON}\n");
        text
    }

    fn as_html(&self, facts: &[&(&str, String)]) -> String {
        let mut html = String::from(
            "<!doctype html><html lang=\"en\"><body style=\"margin:0;padding:24px;font:15px/1.5 system-ui,sans-serif;max-width:640px\">",
        );
        let _ = write!(html, "<h1 style=\"font-size:18px\">{}</h1><p>{}</p>", escape(&self.subject), escape(&self.summary));
        html.push_str("<table style=\"border-collapse:collapse\">");
        for (name, value) in facts {
            let _ = write!(
                html,
                "<tr><th style=\"text-align:left;vertical-align:top;padding:2px 16px 2px 0\">{}</th><td style=\"word-break:break-word\">{}</td></tr>",
                escape(name),
                escape(value)
            );
        }
        html.push_str("</table><h2 style=\"font-size:16px\">What to do</h2><ol>");
        for (step, request) in &self.steps {
            let _ = write!(html, "<li>{}", escape(step));
            if let Some(request) = request {
                let _ = write!(html, "<br><code style=\"word-break:break-all\">{}</code>", escape(request));
            }
            html.push_str("</li>");
        }
        let _ = write!(html, "</ol><p style=\"font-size:13px\">{}</p></body></html>", escape(REASON));
        html
    }
}

/// Why somebody gets it.
const REASON: &str = "You get this because your address is among `admin_emails` of the organization.";

/// A name with its id, as far as they are known.
fn named(name: String, id: String) -> String {
    if name.is_empty() { id } else { format!("{name} ({id})") }
}

/// A value as one line; empty if there is none.
fn text(data: &Value, name: &str) -> String {
    let value = data[name].as_str().unwrap_or_default();
    value.chars().take(VALUE_CHARS_MAX).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// A number; empty if there is none.
fn number(data: &Value, name: &str) -> String {
    data[name].as_u64().map(|number| number.to_string()).unwrap_or_default()
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn disabled(data: &Value) -> Notice {
        let event_type = EventType::parse("endpoint.disabled").unwrap();
        assert!(has_words_for(&event_type));
        of_event(&event_type, data).unwrap()
    }

    #[test]
    fn a_disabled_endpoint_is_named_with_what_to_do() {
        let notice = disabled(&json!({
            "application_id": "a-1", "application_name": "Shop", "endpoint_id": "e-1", "endpoint_name": "Orders",
            "endpoint_url": "https://example.com/hook", "disabled_at": "2026-01-02T03:04:05Z", "last_error": "410 Gone",
        }));
        assert_eq!(notice.subject, "[Everhook - Action Required] Endpoint Disabled: Orders");
        for part in
            ["Application:   Shop (a-1)", "Endpoint:      Orders (e-1)", "URL:           https://example.com/hook", "PUT /v1/endpoints/e-1"]
        {
            assert!(notice.text.contains(part), "{part} is missing in {}", notice.text);
        }
        assert!(notice.html.contains("<td style=\"word-break:break-word\">Shop (a-1)</td>"));
        // Without a name, the URL says which one; without anything, it is still a mail.
        assert!(disabled(&json!({"endpoint_url": "https://example.com"})).subject.ends_with(": https://example.com"));
        assert!(!disabled(&json!({})).text.contains("URL:"));
    }

    #[test]
    fn what_a_tenant_wrote_is_neither_markup_nor_a_second_line() {
        let notice =
            disabled(&json!({"endpoint_name": "<script>\r\nBcc: x@y", "endpoint_url": "\"><img src=x>", "last_error": "a".repeat(10_000)}));
        assert_eq!(notice.subject, "[Everhook - Action Required] Endpoint Disabled: <script>  Bcc: x@y");
        assert!(!notice.html.contains("<script>") && !notice.html.contains("<img"));
        assert!(notice.html.len() < 4_000, "{}", notice.html.len());
    }

    #[test]
    fn there_are_no_words_for_other_types() {
        let other = EventType::parse("circuit.opened").unwrap();
        assert!(!has_words_for(&other) && of_event(&other, &json!({})).is_none());
    }
}
