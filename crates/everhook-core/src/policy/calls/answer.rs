//! What an app's answer means: `{success: true, data}`, `{success: false, error}`, or neither, with any status. Pure.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    model::{FailureCategory, Report, Response, Sent},
    policy::json_depth::depth,
};

/// How many characters of an app's own words are shown.
const WORDS_MAX: usize = 500;

/// How deep the JSON of an answer may nest: what every parser behind us can be trusted to take.
const DEPTH_MAX: usize = 128;

/// What came of a request to an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppAnswer {
    /// An answer as the contract asks for.
    Success {
        /// Its `data`, a JSON text; `null` if it has none.
        data: Bytes,
        /// What the app wants to be known.
        warning: Option<String>,
    },
    /// Something else.
    Failure(AppFailure),
}

/// Why an app's answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppFailure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// What was wrong, in words.
    pub reason: String,
    /// Whether the same request may succeed a moment later.
    pub retryable: bool,
}

/// Kinds of failures of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// No answer in time.
    Timeout,
    /// The app said that it cannot, as the contract asks for: it works.
    AppError,
    /// An answer that is not as the contract asks for.
    BadAnswer,
    /// A status that is no success.
    Status,
    /// The app asked to be left alone (`429`).
    RateLimit,
    /// The app could not be reached.
    Network,
    /// This machine lacked what the request needs.
    OutOfResources,
    /// The breaker is open.
    CircuitOpen,
    /// As many requests are under way as the app takes.
    AtCapacity,
    /// The manifest says that the app's answer is only compared.
    Shadow,
    /// The manifest says that the app is not asked.
    Off,
}

impl FailureKind {
    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::AppError => "app_error",
            Self::BadAnswer => "bad_answer",
            Self::Status => "status",
            Self::RateLimit => "rate_limit",
            Self::Network => "network",
            Self::OutOfResources => "out_of_resources",
            Self::CircuitOpen => "circuit_open",
            Self::AtCapacity => "at_capacity",
            Self::Shadow => "shadow",
            Self::Off => "off",
        }
    }

    /// Whether it says that the app is ill. One that says itself that it cannot, or asks to be left alone, works; what we lack is not its fault.
    pub const fn counts_for_breaker(self) -> bool {
        matches!(self, Self::Timeout | Self::BadAnswer | Self::Status | Self::Network)
    }
}

/// The contract.
#[derive(Deserialize)]
struct Contract<'a> {
    success: bool,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<ContractError>,
    #[serde(default)]
    warning: Option<String>,
}

#[derive(Deserialize)]
struct ContractError {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    retryable: Option<bool>,
}

/// Reads what came of a request.
pub fn read(report: &Report) -> AppAnswer {
    match &report.sent {
        Sent::Answered(response) => read_response(response),
        Sent::Failed { category, error, .. } | Sent::Refused { category, error, .. } => {
            let kind = if *category == FailureCategory::Timeout { FailureKind::Timeout } else { FailureKind::Network };
            // An address that is not allowed is not allowed a moment later either.
            failure(kind, error.clone(), *category != FailureCategory::BlockedAddress)
        }
        Sent::Parked { .. } => failure(FailureKind::BadAnswer, "the transport parked a call".to_owned(), false),
        Sent::OutOfResources { error } => failure(FailureKind::OutOfResources, error.clone(), false),
    }
}

fn read_response(response: &Response) -> AppAnswer {
    let status = response.status;
    let is_success = (200..300).contains(&status);
    if response.cut.body {
        return failure(FailureKind::BadAnswer, format!("the answer ({status}) is larger than it may be"), false);
    }
    let contract = match read_contract(&response.body_sample) {
        Ok(contract) => contract,
        Err(reason) if is_success => return failure(FailureKind::BadAnswer, reason, false),
        Err(_) => return of_status(status),
    };
    match contract {
        Contract { success: true, data, warning, .. } if is_success => {
            let data = data.map_or(Bytes::from_static(b"null"), |data| response.body_sample.slice_ref(data.get().as_bytes()));
            AppAnswer::Success { data, warning: warning.map(shorten) }
        }
        Contract { success: true, .. } => {
            failure(FailureKind::BadAnswer, format!("the answer says `success: true` with the status {status}"), false)
        }
        Contract { error, .. } if status == 429 => failure(FailureKind::RateLimit, words(status, error.as_ref()), false),
        Contract { error, .. } => {
            let retryable = error.as_ref().and_then(|error| error.retryable).unwrap_or(status >= 500 || is_success);
            // With a 5xx the app says that it is ill, however well it says it.
            let kind = if status >= 500 { FailureKind::Status } else { FailureKind::AppError };
            failure(kind, words(status, error.as_ref()), retryable)
        }
    }
}

/// Reads an answer's body. What it nests is bounded before anybody else parses it.
fn read_contract(body: &[u8]) -> Result<Contract<'_>, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the answer is not UTF-8".to_owned())?;
    if text.trim_start().as_bytes().first() != Some(&b'{') {
        return Err("the answer is not a JSON object".to_owned());
    }
    if depth(text) > DEPTH_MAX {
        return Err(format!("the answer nests deeper than {DEPTH_MAX} levels"));
    }
    serde_json::from_str(text).map_err(|error| {
        let wanted = "the answer must be `{\"success\": true, \"data\": …}` or `{\"success\": false, \"error\": {…}}`";
        format!("{wanted}: {}", shorten(error.to_string()))
    })
}

fn of_status(status: u16) -> AppAnswer {
    let words = format!("the app answered {status}");
    match status {
        408 => failure(FailureKind::Timeout, words, true),
        429 => failure(FailureKind::RateLimit, words, false),
        _ => failure(FailureKind::Status, words, status >= 500),
    }
}

fn words(status: u16, error: Option<&ContractError>) -> String {
    let part = |text: Option<&String>| text.filter(|text| !text.is_empty()).map(|text| shorten(text.clone()));
    let code = error.and_then(|error| part(error.code.as_ref()));
    let message = error.and_then(|error| part(error.message.as_ref()));
    match (code, message) {
        (Some(code), Some(message)) => format!("the app answered {status}, {code}: {message}"),
        (Some(one), None) | (None, Some(one)) => format!("the app answered {status}: {one}"),
        (None, None) => format!("the app answered {status} with `success: false`"),
    }
}

fn failure(kind: FailureKind, reason: String, retryable: bool) -> AppAnswer {
    AppAnswer::Failure(AppFailure { kind, reason, retryable })
}

fn shorten(mut words: String) -> String {
    if let Some((end, _)) = words.char_indices().nth(WORDS_MAX) {
        words.truncate(end);
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{Cut, PhaseTimes};

    fn answered(status: u16, body: &str) -> AppAnswer {
        let response = Response {
            status,
            headers: Vec::new(),
            body_sample: Bytes::copy_from_slice(body.as_bytes()),
            cut: Cut::default(),
            retry_after: None,
        };
        read(&Report { sent: Sent::Answered(response), duration: Duration::ZERO, phases: PhaseTimes::default() })
    }

    #[test]
    fn an_answer_is_used_only_if_it_keeps_the_contract() {
        use FailureKind::{AppError, BadAnswer, RateLimit, Status, Timeout};
        let deep = format!("{{\"success\":true,\"data\":{}{}}}", "[".repeat(200), "]".repeat(200));
        #[rustfmt::skip]
        let failures: [(u16, &str, FailureKind, bool); 19] = [
            (200, "",                                                        BadAnswer, false),
            (200, "ok",                                                      BadAnswer, false),
            (200, "[]",                                                      BadAnswer, false),
            (200, "{}",                                                      BadAnswer, false),
            (200, r#"{"success": "yes"}"#,                                   BadAnswer, false),
            (200, r#"{"success": true, "success": true}"#,                   BadAnswer, false),
            (200, r#"{"success": true} trailing"#,                           BadAnswer, false),
            (200, &deep,                                                     BadAnswer, false),
            (204, "",                                                        BadAnswer, false),
            (500, r#"{"success": true, "data": 1}"#,                         BadAnswer, false),
            (200, r#"{"success": false}"#,                                   AppError,  true),
            (200, r#"{"success": false, "error": {"retryable": false}}"#,    AppError,  false),
            (422, r#"{"success": false, "error": {"code": "X"}}"#,           AppError,  false),
            (422, r#"{"success": false, "error": {"retryable": true}}"#,     AppError,  true),
            (503, r#"{"success": false, "error": {"message": "busy"}}"#,     Status,    true),
            (503, r#"{"success": false, "error": {"retryable": false}}"#,    Status,    false),
            (502, "<html>",                                                  Status,    true),
            (404, "<html>",                                                  Status,    false),
            (408, "",                                                        Timeout,   true),
        ];
        for (status, body, kind, retryable) in failures {
            match answered(status, body) {
                AppAnswer::Failure(failure) => assert_eq!((failure.kind, failure.retryable), (kind, retryable), "{status} {body}"),
                AppAnswer::Success { .. } => panic!("{status} {body} was taken"),
            }
        }
        for body in ["", r#"{"success": false}"#] {
            assert!(matches!(answered(429, body), AppAnswer::Failure(failure) if failure.kind == RateLimit && !failure.retryable));
        }
    }

    #[test]
    fn data_comes_byte_for_byte() {
        let body = r#" {"success":true,"data":{"n": 1.0e400, "a":[ 1 ]},"processingTime":12,"warning":"slow","other":1}"#;
        let AppAnswer::Success { data, warning } = answered(201, body) else { panic!("it is good") };
        assert_eq!((&*data, warning.as_deref()), (&br#"{"n": 1.0e400, "a":[ 1 ]}"#[..], Some("slow")));
        let AppAnswer::Success { data, .. } = answered(200, r#"{"success":true}"#) else { panic!("it is good") };
        assert_eq!(&*data, b"null");
    }

    #[test]
    fn an_app_is_quoted_within_a_bound() {
        let long = format!(r#"{{"success":false,"error":{{"code":"C","message":"{}"}}}}"#, "ä".repeat(10_000));
        let AppAnswer::Failure(failure) = answered(200, &long) else { panic!("it is an error") };
        assert!(failure.reason.starts_with("the app answered 200, C: ää") && failure.reason.chars().count() < 600);
    }
}
