//! What is reported to the caller of a job when it has ended: the body of the request to its `callback_url`. Pure.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{model::JobStatus, policy::calls::job::words_of_error};

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReport<'a> {
    /// The job's id.
    pub job: String,
    /// Which capability.
    pub capability: &'a str,
    /// Names the call.
    pub request_id: &'a str,
    /// How it stands: it has ended.
    pub status: JobStatus,
    /// How many attempts were recorded.
    pub attempts: u32,
    /// The result, a JSON text, if it is done.
    pub result: Option<&'a [u8]>,
    /// What the app reported, a JSON text.
    pub error: Option<&'a [u8]>,
    /// What the last attempt said, in words.
    pub last_error: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    job_id: &'a str,
    source: &'static str,
    status: &'static str,
    message: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    details: Details<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Details<'a> {
    capability: &'a str,
    request_id: &'a str,
    status: &'static str,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
}

impl JobReport<'_> {
    /// The body: `{jobId, source, status, message, error?, details}`.
    pub fn write(&self) -> Bytes {
        let message = match self.status {
            JobStatus::Completed => "the job is done",
            JobStatus::Failed => "the app reported that the job failed",
            JobStatus::Cancelled => "the job was cancelled",
            JobStatus::Dead => "the job was given up",
            JobStatus::Queued | JobStatus::Sent => "the job has not ended",
        };
        let is_done = self.status == JobStatus::Completed;
        let wire = Wire {
            job_id: &self.job,
            source: "everhook",
            status: if is_done { "success" } else { "failed" },
            message,
            error: self.words().filter(|_| !is_done),
            details: Details {
                capability: self.capability,
                request_id: self.request_id,
                status: self.status.as_str(),
                attempts: self.attempts,
                result: self.result.and_then(|result| serde_json::from_slice(result).ok()),
            },
        };
        Bytes::from(serde_json::to_vec(&wire).expect("texts and JSON values are written without fail"))
    }

    fn words(&self) -> Option<String> {
        self.error.map(words_of_error).or_else(|| self.last_error.map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(status: JobStatus, result: Option<&[u8]>, error: Option<&[u8]>, last_error: Option<&str>) -> String {
        let report = JobReport { job: "j".to_owned(), capability: "sum", request_id: "r", status, attempts: 2, result, error, last_error };
        String::from_utf8(report.write().to_vec()).unwrap()
    }

    #[test]
    fn the_caller_is_told_how_the_job_ended() {
        use JobStatus::{Cancelled, Completed, Dead, Failed};
        let table = [
            (
                written(Completed, Some(b"{ \"n\": 1.0 }"), None, Some("an earlier failure")),
                r#"{"jobId":"j","source":"everhook","status":"success","message":"the job is done","details":{"capability":"sum","requestId":"r","status":"completed","attempts":2,"result":{ "n": 1.0 }}}"#,
            ),
            (
                written(Failed, None, Some(br#"{"code":"NO"}"#), Some("the app reported: NO")),
                r#"{"jobId":"j","source":"everhook","status":"failed","message":"the app reported that the job failed","error":"the app reported: NO","details":{"capability":"sum","requestId":"r","status":"failed","attempts":2}}"#,
            ),
            (
                written(Dead, None, None, Some("the app answered 500")),
                r#"{"jobId":"j","source":"everhook","status":"failed","message":"the job was given up","error":"the app answered 500","details":{"capability":"sum","requestId":"r","status":"dead","attempts":2}}"#,
            ),
            (
                written(Cancelled, None, None, None),
                r#"{"jobId":"j","source":"everhook","status":"failed","message":"the job was cancelled","details":{"capability":"sum","requestId":"r","status":"cancelled","attempts":2}}"#,
            ),
        ];
        for (body, expected) in table {
            assert_eq!(body, expected);
        }
    }
}
