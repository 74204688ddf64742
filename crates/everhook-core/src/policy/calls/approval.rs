//! What is reported to the caller of a call when a person has decided about it and it has ended with that: the data of an event, and in it the body of the
//! request to its `callback_url`. Pure.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::ApprovalStatus;

/// The type of the events that tell callers, and what their requests name.
pub const APPROVAL_EVENT_TYPE: &str = "approval.ended";

/// How a call ended about which a person decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalReport<'a> {
    /// The approval's id.
    pub approval: String,
    /// Which capability.
    pub capability: &'a str,
    /// Names the call.
    pub request_id: String,
    /// How it was decided.
    pub status: ApprovalStatus,
    /// Why, in the words of whoever decided.
    pub reason: Option<&'a str>,
    /// What the person gave as the answer, a JSON text.
    pub result: Option<&'a [u8]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    approval_id: &'a str,
    source: &'static str,
    status: &'static str,
    message: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    details: Details<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Details<'a> {
    capability: &'a str,
    request_id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
}

impl ApprovalReport<'_> {
    /// The body: `{approvalId, source, status, message, error?, details}`.
    fn body(&self) -> Box<RawValue> {
        let message = match self.status {
            ApprovalStatus::Approved => "the call was approved",
            ApprovalStatus::Rejected => "the call was rejected",
            ApprovalStatus::Expired => "the call expired before a decision was made",
            ApprovalStatus::Pending => "the call waits for a decision",
        };
        let is_approved = self.status == ApprovalStatus::Approved;
        let wire = Wire {
            approval_id: &self.approval,
            source: "everhook",
            status: if is_approved { "success" } else { "failed" },
            message,
            error: self.reason.filter(|_| !is_approved),
            details: Details {
                capability: self.capability,
                request_id: &self.request_id,
                status: self.status.as_str(),
                result: self.result.and_then(|result| serde_json::from_slice(result).ok()),
            },
        };
        serde_json::value::to_raw_value(&wire).expect("texts and JSON values are written without fail")
    }
}

/// A message to a caller, as the data of its event holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalMessage {
    /// Where to.
    pub callback_url: String,
    /// The body of the request.
    pub body: Bytes,
}

#[derive(Serialize)]
struct WrittenMessage<'a> {
    callback_url: &'a str,
    body: &'a RawValue,
}

#[derive(Deserialize)]
struct ReadMessage<'a> {
    callback_url: String,
    #[serde(borrow)]
    body: &'a RawValue,
}

impl ApprovalMessage {
    /// The data of the event that tells a caller.
    pub fn write(callback_url: &str, report: &ApprovalReport<'_>) -> Bytes {
        let written = serde_json::to_vec(&WrittenMessage { callback_url, body: &report.body() });
        Bytes::from(written.expect("texts and JSON values are written without fail"))
    }

    /// From the data of an event; `None` if it is no such message.
    pub fn read(data: &Bytes) -> Option<Self> {
        let ReadMessage { callback_url, body } = serde_json::from_slice(data).ok()?;
        Some(Self { callback_url, body: data.slice_ref(body.get().as_bytes()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_is_told_what_was_decided_and_why() {
        use ApprovalStatus::{Approved, Expired, Rejected};
        let report = |status, reason, result| ApprovalReport {
            approval: "a".to_owned(),
            capability: "winner",
            request_id: "r".to_owned(),
            status,
            reason,
            result,
        };
        let table: [(ApprovalReport<'_>, &str); 3] = [
            (
                report(Approved, Some("checked by hand"), Some(b"{ \"winner\": 1.0 }")),
                r#"{"approvalId":"a","source":"everhook","status":"success","message":"the call was approved","details":{"capability":"winner","requestId":"r","status":"approved","result":{ "winner": 1.0 }}}"#,
            ),
            (
                report(Rejected, Some("the list is wrong"), None),
                r#"{"approvalId":"a","source":"everhook","status":"failed","message":"the call was rejected","error":"the list is wrong","details":{"capability":"winner","requestId":"r","status":"rejected"}}"#,
            ),
            (
                report(Expired, None, None),
                r#"{"approvalId":"a","source":"everhook","status":"failed","message":"the call expired before a decision was made","details":{"capability":"winner","requestId":"r","status":"expired"}}"#,
            ),
        ];
        for (report, expected) in table {
            let data = ApprovalMessage::write("https://platform.example/done", &report);
            let message = ApprovalMessage::read(&data).expect("it is one");
            assert_eq!((&*message.callback_url, &*message.body), ("https://platform.example/done", expected.as_bytes()));
        }
        for other in ["", "{}", r#"{"callback_url": "x"}"#, "[]"] {
            assert_eq!(ApprovalMessage::read(&Bytes::from_static(other.as_bytes())), None, "{other}");
        }
    }
}
