//! Whether a URL expects our requests: it is sent a signed challenge, and must return it. Asked before an endpoint that wants it is stored.
//!
//! Nothing is stored here, and no transaction is open. The transport vets the address as it does for every request.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    ids::EventId,
    line::{Line, request::USER_AGENT},
    manage::{Fault, Refusal},
    model::{Endpoint, Revision, Sent},
    ports::{OutgoingHeader, OutgoingMethod, OutgoingRequest},
    shape::Shape,
    signing::{self, Signable},
};

/// What the request is about.
const VERIFICATION_TYPE: &str = "endpoint.verification";

/// How long the challenge may take: somebody waits for the answer.
const VERIFICATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether a change makes a URL that has not proved anything yet.
pub(super) fn is_needed(before: &Endpoint, after: &Endpoint) -> bool {
    after.verify_url && (!before.verify_url || before.target.url != after.target.url)
}

/// Sends the challenge.
///
/// # Errors
/// [`Refusal::VerificationFailed`] says what the URL did instead of returning it; [`Refusal::Invalid`] that a URL of its kind cannot return one;
/// [`Refusal::OnDemand`] that too many were sent.
pub(super) async fn verify(line: &Line, endpoint: &Endpoint) -> Result<(), Refusal> {
    if endpoint.target.is_amqp() {
        // The consumer of its queue would get the challenge, and could return it to nobody.
        let reason = "is not supported for message brokers, which cannot return a challenge";
        return Err(Refusal::Invalid(vec![Fault::new("verify_url", reason)]));
    }
    let _counted = line.on_demand_limit.begin(endpoint.organization, line.ports.clock.now())?;
    let challenge: String = line.ports.entropy.secret_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let shape = Shape::open(endpoint.id, Revision::of(endpoint), &*line.ports.vault)?;
    let report = line.ports.transport.send(build(line, endpoint, &shape, &challenge)).await;
    let words = match report.sent {
        Sent::Answered(response) if !(200..300).contains(&response.status) => format!("answered {}", response.status),
        Sent::Answered(response) if returns(&response.body_sample, &challenge) => return Ok(()),
        Sent::Answered(_) => "the response did not contain the challenge".to_owned(),
        Sent::Failed { error, .. } | Sent::Refused { error, .. } => error,
        Sent::Parked { .. } => "the response did not contain the challenge".to_owned(),
        Sent::OutOfResources { error } => {
            line.log_shortage(&error);
            "Everhook has no free connection at the moment: try again".to_owned()
        }
    };
    let reason = format!("must return the challenge, as the body or as its JSON field `challenge`, with a 2xx within 5 s: {words}");
    Err(Refusal::VerificationFailed(Fault::new("url", reason)))
}

fn build(line: &Line, endpoint: &Endpoint, shape: &Shape, challenge: &str) -> OutgoingRequest {
    let at = line.ports.clock.now();
    let id = EventId::from_uuid(line.ports.entropy.uuid(at));
    let body = Bytes::from(json!({ "type": VERIFICATION_TYPE, "challenge": challenge }).to_string());
    let signable = Signable { event: id, at, body: &body, style: shape.signature_style };
    let signatures = signing::sign(&shape.keys, &signable);
    let ours: [(&'static str, String); 9] = [
        ("content-type", "application/json".to_owned()),
        ("user-agent", USER_AGENT.to_owned()),
        ("webhook-id", id.to_string()),
        ("webhook-timestamp", at.as_secs().to_string()),
        ("webhook-signature", signatures.webhook_signature),
        ("x-webhook-id", endpoint.id.to_string()),
        ("x-webhook-event", VERIFICATION_TYPE.to_owned()),
        ("x-webhook-timestamp", at.floor_to_second().to_string()),
        ("x-webhook-signature", signatures.x_webhook_signature),
    ];
    let ours = ours.into_iter().map(|(name, value)| (OutgoingHeader::from(name), Bytes::from(value)));
    let headers = ours.chain(shape.headers.iter().cloned()).collect();
    let target = shape.target.clone();
    OutgoingRequest {
        organization: endpoint.organization,
        method: OutgoingMethod::Post,
        target,
        headers,
        body,
        timeout: VERIFICATION_TIMEOUT,
    }
}

/// Whether a body is the challenge, or an object that has it.
fn returns(body: &[u8], challenge: &str) -> bool {
    let is_text = std::str::from_utf8(body).is_ok_and(|text| text.trim() == challenge);
    let field = || serde_json::from_slice::<Value>(body).ok().and_then(|value| Some(value.get("challenge")?.as_str()? == challenge));
    is_text || field() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_returned_as_the_body_or_as_a_field() {
        for (body, expected) in [
            ("abc", true),
            (" abc\n", true),
            (r#"{"challenge": "abc"}"#, true),
            (r#"{"ok": true, "challenge": "abc"}"#, true),
            (r#"{"challenge": "ab"}"#, false),
            (r#"{"challenge": 1}"#, false),
            (r#""abc""#, false),
            ("abcd", false),
            ("", false),
        ] {
            assert_eq!(returns(body.as_bytes(), "abc"), expected, "{body}");
        }
    }
}
