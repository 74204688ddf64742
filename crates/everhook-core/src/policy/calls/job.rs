//! What a job is made of and what an app says about it: the data of its event, the request's body, and the body of a callback. Pure.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use crate::ids::EventId;
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

/// Where an app calls back about a job.
pub fn callback_url(server_url: &str, capability: &str, job: EventId, token: &str) -> String {
    format!("{server_url}/api/v1/callbacks/{capability}/{job}?token={token}")
}

/// What an app says when it calls back: how its job ended, or how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callback {
    /// The job has ended.
    End {
        /// What it means.
        outcome: JobOutcome,
        /// The result, or the error: a JSON text.
        data: Bytes,
    },
    /// It has not.
    Progress {
        /// How much is done.
        percent: u8,
        /// In the app's words, bounded.
        message: Option<String>,
    },
}

#[derive(Deserialize)]
struct CallbackWire<'a> {
    #[serde(default)]
    success: Option<bool>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<CallbackError>,
    // Read only where there is no `success`: whoever says that a job has ended may say anything else beside it.
    #[serde(borrow, default)]
    progress: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
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

/// What a callback may be.
const WANTED: &str = "the body must be `{\"success\": true, \"result\": …}`, `{\"success\": false, \"error\": {…}}` or `{\"progress\": 0 to 100, \"message\": \"…\"}`";

impl Callback {
    /// Reads `{success, result?, error?}` or `{progress, message?}`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(body: &Bytes) -> Result<Self, String> {
        let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8".to_owned())?;
        if depth(text) > DEPTH_MAX {
            return Err(format!("the body nests deeper than {DEPTH_MAX} levels"));
        }
        let CallbackWire { success, result, error, progress, message } =
            serde_json::from_str(text).map_err(|error| format!("{WANTED}: {error}"))?;
        match (success, progress) {
            (Some(true), _) => {
                let data = result.map_or(Bytes::from_static(b"null"), |result| Bytes::copy_from_slice(result.get().as_bytes()));
                Ok(Self::End { outcome: JobOutcome::Completed, data })
            }
            (Some(false), _) => read_error(error),
            (None, Some(progress)) => read_progress(progress, message),
            (None, None) => Err(format!("{WANTED}: it has neither `success` nor `progress`")),
        }
    }
}

fn read_error(error: Option<CallbackError>) -> Result<Callback, String> {
    let error = error.unwrap_or(CallbackError { code: None, message: None, retryable: None });
    let outcome = if error.retryable == Some(true) { JobOutcome::Retry } else { JobOutcome::Failed };
    let error = CallbackError { code: error.code.map(shorten), message: error.message.map(shorten), ..error };
    let data = serde_json::to_vec(&error).map_err(|error| error.to_string())?;
    Ok(Callback::End { outcome, data: Bytes::from(data) })
}

/// Apps divide what is done by what there is to do: a fraction of a percent is not counted.
fn read_progress(progress: &RawValue, message: Option<&RawValue>) -> Result<Callback, String> {
    let percent = serde_json::from_str::<f64>(progress.get()).ok().filter(|percent| (0.0..=100.0).contains(percent));
    let percent = percent.ok_or("`progress` must be a number from 0 to 100")?;
    let message: Option<String> = match message {
        None => None,
        Some(message) => serde_json::from_str(message.get()).map_err(|_| "`message` must be a text".to_owned())?,
    };
    let message = message.map(|message| shorten(message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()));
    Ok(Callback::Progress { percent: whole_percent(percent), message })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a number from 0 to 100")]
const fn whole_percent(percent: f64) -> u8 {
    percent as u8
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

/// What an app reports that no app does: why a callback of a contract test was refused.
const REFUSED_CALLBACK: &str = "everhook.callback_refused";

/// Why a callback of a contract test was refused, as what is kept of it.
pub fn refused_callback(reason: &str) -> Bytes {
    Bytes::from(json!({ "code": REFUSED_CALLBACK, "message": reason }).to_string())
}

/// Why it was refused; `None` if it was not.
pub fn reason_of_refused(data: &[u8]) -> Option<String> {
    let CallbackError { code, message, .. } = serde_json::from_slice(data).ok()?;
    message.filter(|_| code.as_deref() == Some(REFUSED_CALLBACK))
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
            (r#"{"success": true, "progress": "all", "message": 1}"#, Completed, "null"),
            (r#"{"success": false}"#, Failed, "{}"),
            (r#"{"success": false, "error": {"code": "X", "message": "no", "other": 1}}"#, Failed, r#"{"code":"X","message":"no"}"#),
            (r#"{"success": false, "error": {"retryable": true}}"#, Retry, r#"{"retryable":true}"#),
            (r#"{"success": false, "error": {"retryable": false}}"#, Failed, r#"{"retryable":false}"#),
        ];
        for (body, outcome, data) in table {
            let read = Callback::read(&Bytes::from_static(body.as_bytes())).expect(body);
            assert_eq!(read, Callback::End { outcome, data: Bytes::from_static(data.as_bytes()) }, "{body}");
        }
        let deep = format!("{{\"success\":true,\"result\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for bad in ["", "ok", "{}", "[]", r#"{"success": "yes"}"#, &deep] {
            assert!(Callback::read(&Bytes::copy_from_slice(bad.as_bytes())).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_callback_without_success_says_how_far_the_app_is() {
        let table = [
            (r#"{"progress": 0}"#, 0, None),
            (r#"{"progress": 99.9, "message": null}"#, 99, None),
            (r#"{"progress": 1e2, "message": "step\u0000\n2", "other": 1}"#, 100, Some("step  2")),
        ];
        for (body, percent, message) in table {
            let read = Callback::read(&Bytes::from_static(body.as_bytes())).expect(body);
            assert_eq!(read, Callback::Progress { percent, message: message.map(str::to_owned) }, "{body}");
        }
        let long = format!(r#"{{"progress": 1, "message": "{}"}}"#, "ä".repeat(600));
        let Ok(Callback::Progress { message: Some(message), .. }) = Callback::read(&Bytes::from(long)) else { panic!("it is good") };
        assert_eq!(message.chars().count(), WORDS_MAX + 1);
        for bad in [
            r#"{"progress": -1}"#,
            r#"{"progress": 100.1}"#,
            r#"{"progress": "50"}"#,
            r#"{"progress": null}"#,
            r#"{"progress": 1, "message": 2}"#,
        ] {
            assert!(Callback::read(&Bytes::from_static(bad.as_bytes())).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_is_told_in_words() {
        assert_eq!(words_of_error(br#"{"code":"X","message":"no"}"#), "the app reported X: no");
        assert_eq!(reason_of_refused(&refused_callback("no result")).as_deref(), Some("no result"));
        assert_eq!(reason_of_refused(br#"{"code":"X","message":"no"}"#), None);
        assert_eq!(words_of_error(b"{}"), "the app reported a failure without a reason");
        assert_eq!(words_of_error(&error_in_words("gone")), "the app reported: gone");
    }
}
