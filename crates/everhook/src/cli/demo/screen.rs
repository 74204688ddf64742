//! What `demo` prints. Colors go through `anstream`, which drops them for `NO_COLOR` and where the output is no terminal.

use std::path::Path;

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use super::{
    receiver::{Answer, Attempt},
    script::EndpointNames,
};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const RETRIED: Style = AnsiColor::Yellow.on_default();
const DEAD: Style = AnsiColor::Red.on_default();
const ALARM: Style = AnsiColor::Red.on_default().invert().bold();

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events that the server accepted.
    pub events: u64,
    /// Requests that the receiver got.
    pub requests: u64,
    /// Those that it answered with 2xx.
    pub taken: u64,
    /// Dead letters.
    pub dead: u64,
    /// Requests whose signature was wrong.
    pub wrong_signatures: u64,
}

/// Where everything is, for the lines at the top.
pub struct Place<'a> {
    /// The server's address: `http://127.0.0.1:8080`.
    pub url: &'a str,
    /// The key that may do everything.
    pub admin_key: &'a str,
    /// The data folder.
    pub data: &'a Path,
    /// Whether the folder is removed at the end.
    pub is_temporary: bool,
    /// Set if the usual port was taken.
    pub port_note: Option<String>,
}

/// The lines at the top.
pub fn head(place: &Place<'_>) -> String {
    let Place { url, admin_key, data, .. } = place;
    let note = place.port_note.as_deref().map(|note| format!(" {DIM}({note}){DIM:#}")).unwrap_or_default();
    let kept = if place.is_temporary { "removed at the end; keep it with --data" } else { "kept" };
    [
        format!("{BOLD}Everhook demo{BOLD:#}: a server, a receiver with five endpoints, and sample events. Press Ctrl-C to stop."),
        String::new(),
        format!("  address    {url}{note}"),
        format!("  API docs   {url}/docs"),
        format!("  admin key  {admin_key}"),
        format!("  data       {} {DIM}({kept}){DIM:#}", data.display()),
        String::new(),
        "Try, in another terminal:".to_owned(),
        format!("  curl -X POST {url}/v1/events -H 'Authorization: Bearer {admin_key}' -H 'Content-Type: application/json' -d '{{\"type\":\"order.paid\",\"data\":{{\"id\":1}}}}'"),
        format!("  curl {url}/v1/dlq -H 'Authorization: Bearer {admin_key}'"),
        String::new(),
        format!("{DIM}{:<12}  {:<16}  {:<8}  {:<9}  answer{DIM:#}", "time (UTC)", "event", "endpoint", "attempt"),
    ]
    .join("\n")
}

/// One received request.
pub fn attempt(attempt: &Attempt) -> String {
    let Attempt { endpoint, event_type, number, answer } = attempt;
    let (style, answer) = match answer {
        Answer::Status(status) if status.is_success() => (GOOD, status.to_string()),
        Answer::Status(status) => (RETRIED, status.to_string()),
        Answer::Nothing => (RETRIED, "no response (the sender will time out)".to_owned()),
        Answer::WrongSignature => (ALARM, "THE SIGNATURE IS WRONG: this is a bug, please report it".to_owned()),
    };
    format!("{DIM}{}{DIM:#}  {event_type:<16}  {endpoint:<8}  attempt {number:<1}  {style}{answer}{style:#}", clock())
}

/// One delivery that gave up.
pub fn dead_letter(letter: &Value, names: &EndpointNames) -> String {
    let text = |name: &str| letter[name].as_str().unwrap_or("?");
    let endpoint = names.get(text("endpoint_id")).copied().unwrap_or("?");
    let attempts = letter["attempt_count"].as_u64().unwrap_or(0);
    let times = if attempts == 1 { "1 attempt".to_owned() } else { format!("{attempts} attempts") };
    let told = format!("dead letter after {times}: {}", letter["last_error"].as_str().unwrap_or(text("reason")));
    format!("{DIM}{}{DIM:#}  {:<16}  {endpoint:<8}  {DEAD}{told}{DEAD:#}", clock(), text("event_type"))
}

/// The last line.
pub fn summary(tally: &Tally) -> String {
    let Tally { events, requests, taken, dead, wrong_signatures } = tally;
    let alarm = if *wrong_signatures > 0 { format!(", {ALARM}{wrong_signatures} WRONG SIGNATURES{ALARM:#}") } else { String::new() };
    let [events, requests, dead] = [(events, "event"), (requests, "request"), (dead, "dead letter")].map(|(count, of)| counted(*count, of));
    format!("{BOLD}{events}, {requests}, {taken} delivered, {dead}{alarm}{BOLD:#}")
}

fn counted(count: u64, of: &str) -> String {
    if count == 1 { format!("1 {of}") } else { format!("{count} {of}s") }
}

fn clock() -> String {
    jiff::Timestamp::now().strftime("%H:%M:%S%.3f").to_string()
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;

    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn an_attempt_is_one_aligned_line() {
        let seen =
            Attempt { endpoint: "steady", event_type: "order.paid".into(), number: "1".into(), answer: Answer::Status(StatusCode::OK) };
        let line = plain(&attempt(&seen));
        assert_eq!(&line[12..], "  order.paid        steady    attempt 1  200 OK");
    }

    #[test]
    fn a_wrong_signature_is_loud() {
        let seen = Attempt { endpoint: "slow", event_type: "user.created".into(), number: "1".into(), answer: Answer::WrongSignature };
        assert!(attempt(&seen).contains("THE SIGNATURE IS WRONG"));
        assert!(summary(&Tally { wrong_signatures: 1, ..Tally::default() }).contains("1 WRONG SIGNATURES"));
    }

    #[test]
    fn the_last_line_counts_one_as_one() {
        let tally = Tally { events: 1, requests: 2, taken: 1, dead: 1, wrong_signatures: 0 };
        assert_eq!(plain(&summary(&tally)), "1 event, 2 requests, 1 delivered, 1 dead letter");
    }

    #[test]
    fn a_dead_letter_names_its_endpoint_and_its_last_error() {
        let names = EndpointNames::from([("e1".to_owned(), "broken")]);
        let letter = json!({"endpoint_id": "e1", "event_type": "invoice.overdue", "attempt_count": 2, "last_error": "answered 500"});
        let line = plain(&dead_letter(&letter, &names));
        assert_eq!(&line[12..], "  invoice.overdue   broken    dead letter after 2 attempts: answered 500");
    }
}
