//! What a job is made of and what an app says about it: the data of its event, the request's body, and the body of a callback. Pure.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use crate::model::JobOutcome;
use crate::policy::json_depth::depth;

/// The type of the events that jobs are.
pub const JOB_EVENT_TYPE: &str = "job.queued";

/// The label of a job whose caller is notified of its end. A label, because it is decided by it who gets the event, and the data is not parsed for that.
pub const CALLBACK_LABEL: &str = "everhook.callback";

/// The field of a request's body that says where to call back.
pub const CALLBACK_FIELD: &str = "callbackUrl";

/// How deep the JSON of a callback may nest: as deep as an answer.
const DEPTH_MAX: usize = 128;

/// How many characters of an app's own words are shown.
const WORDS_MAX: usize = 500;

/// How long an app may take to take over a job, or to do one that was queued.
pub const TAKE_OVER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take for a call that was queued because it failed.
pub const QUEUED_TIMEOUT: Duration = Duration::from_secs(10);

/// A job, as the data of its event holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDocument {
    /// Which capability.
    pub capability: String,
    /// Names the call: the `X-Request-ID` of all its requests.
    pub request_id: String,
    /// What this server's URLs begin with, for the app.
    pub server_url: String,
    /// Where the caller is notified of its end.
    pub callback_url: Option<String>,
    /// What the app is asked: a JSON text.
    pub payload: Bytes,
}

#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    capability: String,
    request_id: String,
    server_url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    callback_url: Option<String>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

impl JobDocument {
    /// As the data of an event. `None` if the payload is no JSON.
    pub fn write(&self) -> Option<Bytes> {
        let Self { capability, request_id, server_url, callback_url, payload } = self.clone();
        let payload: &RawValue = serde_json::from_slice(&payload).ok()?;
        serde_json::to_vec(&Wire { capability, request_id, server_url, callback_url, payload }).ok().map(Bytes::from)
    }

    /// From the data of an event; `None` if it is no job.
    pub fn read(data: &Bytes) -> Option<Self> {
        let Wire { capability, request_id, server_url, callback_url, payload } = serde_json::from_slice(data).ok()?;
        Some(Self { capability, request_id, server_url, callback_url, payload: data.slice_ref(payload.get().as_bytes()) })
    }
}

/// Why a payload cannot carry a callback URL; `None` if it can.
pub fn refusal_of_payload(payload: &[u8]) -> Option<&'static str> {
    let Ok(object) = serde_json::from_slice::<std::collections::BTreeMap<String, &RawValue>>(payload) else {
        return Some("must be a JSON object: the app of an `async` capability finds `callbackUrl` in it");
    };
    object.contains_key(CALLBACK_FIELD).then_some("must not have a field `callbackUrl`: Everhook sets it")
}

/// The body of a request: the payload as it came, and where to call back behind its last field.
pub fn with_callback(payload: &[u8], callback_url: &str) -> Bytes {
    let text = payload.trim_ascii_end();
    let open = text.strip_suffix(b"}").unwrap_or(text);
    let is_empty = open.trim_ascii() == b"{";
    let field = json!(callback_url).to_string();
    let comma = if is_empty { "" } else { "," };
    let mut body = Vec::with_capacity(open.len() + field.len() + CALLBACK_FIELD.len() + 6);
    body.extend_from_slice(open);
    body.extend_from_slice(format!("{comma}\"{CALLBACK_FIELD}\":{field}}}").as_bytes());
    Bytes::from(body)
}

/// What an app says when it calls back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// What it means.
    pub outcome: JobOutcome,
    /// The result, or the error: a JSON text.
    pub data: Bytes,
}

#[derive(Deserialize)]
struct CallbackWire<'a> {
    success: bool,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<CallbackError>,
}

#[derive(Serialize, Deserialize)]
struct CallbackError {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
}

impl Callback {
    /// Reads `{success, result?, error?}`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(body: &Bytes) -> Result<Self, String> {
        let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8".to_owned())?;
        if depth(text) > DEPTH_MAX {
            return Err(format!("the body nests deeper than {DEPTH_MAX} levels"));
        }
        let wanted = "the body must be `{\"success\": true, \"result\": …}` or `{\"success\": false, \"error\": {…}}`";
        let CallbackWire { success, result, error } = serde_json::from_str(text).map_err(|error| format!("{wanted}: {error}"))?;
        if success {
            let data = result.map_or(Bytes::from_static(b"null"), |result| Bytes::copy_from_slice(result.get().as_bytes()));
            return Ok(Self { outcome: JobOutcome::Completed, data });
        }
        let error = error.unwrap_or(CallbackError { code: None, message: None, retryable: None });
        let outcome = if error.retryable == Some(true) { JobOutcome::Retry } else { JobOutcome::Failed };
        let error = CallbackError { code: error.code.map(shorten), message: error.message.map(shorten), ..error };
        let data = serde_json::to_vec(&error).map_err(|error| error.to_string())?;
        Ok(Self { outcome, data: Bytes::from(data) })
    }
}

/// An error that an app reported, in words.
pub fn words_of_error(data: &[u8]) -> String {
    let error: Option<CallbackError> = serde_json::from_slice(data).ok();
    let (code, message) = error.map_or((None, None), |error| (error.code, error.message));
    match (code, message) {
        (Some(code), Some(message)) => format!("the app reported {code}: {message}"),
        (Some(one), None) | (None, Some(one)) => format!("the app reported: {one}"),
        (None, None) => "the app reported a failure without a reason".to_owned(),
    }
}

/// An error in our own words, as an app would have reported it.
pub fn error_in_words(reason: &str) -> Bytes {
    Bytes::from(json!({ "message": reason }).to_string())
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
    use super::*;

    #[test]
    fn a_job_is_read_as_it_was_written_and_its_payload_stays_byte_for_byte() {
        let payload = Bytes::from_static(br#"{ "n": 1.0e400,"list" :[ 1 ] }"#);
        let job = JobDocument {
            capability: "analytics".to_owned(),
            request_id: "r".to_owned(),
            server_url: "https://hooks.example".to_owned(),
            callback_url: None,
            payload,
        };
        assert_eq!(JobDocument::read(&job.write().unwrap()), Some(job.clone()));
        let with_callback = JobDocument { callback_url: Some("https://platform.example/done".to_owned()), ..job };
        assert_eq!(JobDocument::read(&with_callback.write().unwrap()), Some(with_callback));
        for other in ["{}", "[]", r#"{"capability": "a"}"#, ""] {
            assert_eq!(JobDocument::read(&Bytes::from_static(other.as_bytes())), None, "{other}");
        }
    }

    #[test]
    fn the_callback_url_stands_behind_the_payloads_own_fields() {
        let table = [
            (r#"{"a":1}"#, r#"{"a":1,"callbackUrl":"https://x/\"y"}"#),
            ("{ \"a\" : [ { } ] }\n", r#"{ "a" : [ { } ] ,"callbackUrl":"https://x/\"y"}"#),
            (" { } ", r#" { "callbackUrl":"https://x/\"y"}"#),
        ];
        for (payload, expected) in table {
            let body = with_callback(payload.as_bytes(), "https://x/\"y");
            assert_eq!(body, expected);
            serde_json::from_slice::<serde_json::Value>(&body).expect("it is JSON");
            assert_eq!(refusal_of_payload(payload.as_bytes()), None);
        }
        for other in ["[]", "1", "null", r#"{"callbackUrl": 1}"#, r#"{"callback\u0055rl": 1}"#] {
            assert!(refusal_of_payload(other.as_bytes()).is_some(), "{other}");
        }
    }

    #[test]
    fn a_callback_says_what_became_of_the_job() {
        use JobOutcome::{Completed, Failed, Retry};
        let table = [
            (r#"{"success": true, "result": { "n": 1.0 }}"#, Completed, r#"{ "n": 1.0 }"#),
            (r#"{"success": true}"#, Completed, "null"),
            (r#"{"success": false}"#, Failed, "{}"),
            (r#"{"success": false, "error": {"code": "X", "message": "no", "other": 1}}"#, Failed, r#"{"code":"X","message":"no"}"#),
            (r#"{"success": false, "error": {"retryable": true}}"#, Retry, r#"{"retryable":true}"#),
            (r#"{"success": false, "error": {"retryable": false}}"#, Failed, r#"{"retryable":false}"#),
        ];
        for (body, outcome, data) in table {
            let read = Callback::read(&Bytes::from_static(body.as_bytes())).expect(body);
            assert_eq!((read.outcome, &*read.data), (outcome, data.as_bytes()), "{body}");
        }
        let deep = format!("{{\"success\":true,\"result\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for bad in ["", "ok", "{}", "[]", r#"{"success": "yes"}"#, &deep] {
            assert!(Callback::read(&Bytes::copy_from_slice(bad.as_bytes())).is_err(), "{bad}");
        }
        assert_eq!(words_of_error(br#"{"code":"X","message":"no"}"#), "the app reported X: no");
        assert_eq!(words_of_error(b"{}"), "the app reported a failure without a reason");
        assert_eq!(words_of_error(&error_in_words("gone")), "the app reported: gone");
    }
}
