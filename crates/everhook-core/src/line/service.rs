//! The request that goes out for a delivery to a channel of a service, and what the service's answer means. `email` is the same for mail.
//!
//! The body is the same for every attempt, and has the same key for the same event: a service that was notified twice because a crash came in between shows it
//! once where it can (PagerDuty by its key, webhooks by `webhook-id`).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use url::Url;

use crate::{
    catalog::ChannelDestination,
    ids::{ChannelId, EventId, OrganizationId},
    line::{
        Line,
        email::{self, Unsendable},
        request::USER_AGENT,
    },
    model::{
        ChannelCredentials, Event, EventType, FailureCategory, InFlight, PhaseTimes, Report, Response, Sent, ServiceChannel, ServiceKind,
        SignatureStyle, SigningKey, Target,
    },
    policy::notice::{self, Notice, pagerduty, slack, teams, webhook},
    ports::{OutgoingHeader, OutgoingMethod, OutgoingRequest, StoreError},
    signing::{self, Keys, Signable},
    time::Timestamp,
};

/// How long a service may take. They answer within a second.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(15);

/// How much of an answer is quoted in an error, in characters.
const QUOTED_CHARS_MAX: usize = 200;

/// What would be answered the same to the same request. It is a dead letter at once, to be brought back when the channel was corrected.
const HOPELESS: [u16; 10] = [400, 401, 403, 404, 405, 410, 413, 414, 415, 422];

/// An event, as a service is notified of it.
pub(crate) struct ServiceEvent<'a> {
    /// Its id, by which a service knows one that it had before.
    pub id: EventId,
    /// Its type.
    pub event_type: &'a EventType,
    /// Its data.
    pub data: &'a [u8],
    /// When it happened.
    pub at: Timestamp,
    /// The delivery and the number of the attempt, where it is one.
    pub attempt: Option<(String, u32)>,
}

/// Notifies a service of an event.
///
/// # Errors
/// [`StoreError`] if its credentials cannot be opened: that is no attempt.
pub(crate) async fn notify(
    line: &Line,
    flight: &InFlight,
    to: &ChannelDestination,
    service: &ServiceChannel,
    event: &Event,
) -> Result<Report, StoreError> {
    let event = ServiceEvent {
        id: event.id,
        event_type: &event.event_type,
        data: &event.data,
        at: event.timestamp,
        attempt: Some((flight.due.delivery.to_string(), flight.scheduled_number())),
    };
    send(line, to.lane.organization, to.channel.id, service, &event).await
}

/// The same without a delivery: the event was not published.
pub(crate) async fn send(
    line: &Line,
    organization: OrganizationId,
    id: ChannelId,
    service: &ServiceChannel,
    event: &ServiceEvent<'_>,
) -> Result<Report, StoreError> {
    let to = OpenedService { kind: service.kind, name: service.name.as_str(), credentials: open(line, id, service)? };
    Ok(send_opened(line, organization, &to, event).await)
}

/// A service whose credentials are at hand.
pub(crate) struct OpenedService<'a> {
    /// What it is.
    pub kind: ServiceKind,
    /// What the channel is called.
    pub name: &'a str,
    /// What reaches it.
    pub credentials: ChannelCredentials,
}

/// The same, where nothing must be opened first: it needs neither the store nor the vault.
pub(crate) async fn send_opened(line: &Line, organization: OrganizationId, to: &OpenedService<'_>, event: &ServiceEvent<'_>) -> Report {
    let data: Value = serde_json::from_slice(event.data).unwrap_or_default();
    let Some(notice) = notice::of_event(event.event_type, &data) else { return email::unsendable(Unsendable::NoWords) };
    let credentials = &to.credentials;
    let body = body(line, to, &notice, event);
    let Some(target) = target(line, to.kind, credentials) else { return refused("the URL of the channel is not one") };
    let headers = headers(line, credentials, event, &body);
    let timeout = SERVICE_TIMEOUT;
    let request =
        OutgoingRequest { organization, method: OutgoingMethod::Post, target: target.clone(), headers: headers.clone(), body, timeout };
    let report = judge(to.kind, line.ports.transport.send(request).await);
    if let Some(body) = incident_to_end(to.kind, credentials, &notice, event, &report) {
        // Nobody is to be woken by a trial. If this fails, its incident is closed by hand.
        let _ =
            line.ports.transport.send(OutgoingRequest { organization, method: OutgoingMethod::Post, target, headers, body, timeout }).await;
    }
    report
}

/// The credentials of a channel.
///
/// # Errors
/// [`StoreError::Corrupt`] if they were sealed with another key.
pub(crate) fn open(line: &Line, id: ChannelId, service: &ServiceChannel) -> Result<ChannelCredentials, StoreError> {
    let opened = line.ports.vault.open(id.as_uuid(), &service.credentials).map_err(StoreError::corrupt)?;
    let text = String::from_utf8(opened).map_err(StoreError::corrupt)?;
    Ok(ChannelCredentials::read(&text))
}

fn body(line: &Line, to: &OpenedService<'_>, notice: &Notice, event: &ServiceEvent<'_>) -> Bytes {
    let brand = &line.notifications.brand;
    let (id, at) = (event.id.to_string(), event.at.to_string());
    match to.kind {
        ServiceKind::Slack => slack::write(notice, brand),
        ServiceKind::Teams => teams::write(notice, brand),
        ServiceKind::PagerDuty => {
            let of = pagerduty::PagerDutyEvent {
                routing_key: to.credentials.target.expose(),
                event_type: event.event_type,
                at: &at,
                event_id: &id,
            };
            pagerduty::write(notice, brand, &of)
        }
        ServiceKind::Webhook => {
            let (channel, event_type) = (to.name, event.event_type.as_str());
            webhook::write(notice, &webhook::WebhookEvent { channel, id: &id, event_type, at: &at, data: event.data })
        }
    }
}

fn target(line: &Line, kind: ServiceKind, credentials: &ChannelCredentials) -> Option<Arc<Target>> {
    if kind == ServiceKind::PagerDuty {
        return Some(Arc::new(line.notifications.pagerduty_url.clone()));
    }
    let written = credentials.target.expose().clone();
    let url = Url::parse(&written).ok()?;
    Some(Arc::new(Target { written, url }))
}

/// Those of a webhook where there is a secret to sign with.
fn headers(line: &Line, credentials: &ChannelCredentials, event: &ServiceEvent<'_>, body: &Bytes) -> Vec<(OutgoingHeader, Bytes)> {
    let mut texts = vec![("content-type", "application/json".to_owned()), ("user-agent", USER_AGENT.to_owned())];
    let secret = credentials.signing_secret.as_ref().and_then(|secret| SigningKey::parse(secret.expose()).ok());
    if let Some(current) = secret {
        let at = line.ports.clock.now();
        let signable = Signable { event: event.id, at, body, style: SignatureStyle::Timestamped };
        let signatures = signing::sign(&Keys { current, previous: None }, &signable);
        texts.extend([
            ("webhook-id", event.id.to_string()),
            ("webhook-timestamp", at.as_secs().to_string()),
            ("webhook-signature", signatures.webhook_signature),
            ("x-webhook-event", event.event_type.as_str().to_owned()),
            ("x-webhook-signature", signatures.x_webhook_signature),
        ]);
        if let Some((delivery, number)) = &event.attempt {
            texts.extend([("x-webhook-delivery", delivery.clone()), ("x-webhook-attempt", number.to_string())]);
        }
    }
    texts.into_iter().map(|(name, value)| (name.into(), Bytes::from(value))).collect()
}

/// The body of the request that ends the incident which a trial opened.
fn incident_to_end(
    kind: ServiceKind,
    credentials: &ChannelCredentials,
    notice: &Notice,
    event: &ServiceEvent<'_>,
    report: &Report,
) -> Option<Bytes> {
    let is_trial = kind == ServiceKind::PagerDuty && event.event_type.as_str() == notice::TEST_EVENT_TYPE;
    let is_open = matches!(&report.sent, Sent::Answered(response) if response.status == 202);
    let key = notice.dedupe_key.as_ref().filter(|_| is_trial && is_open)?;
    Some(pagerduty::resolve(credentials.target.expose(), key))
}

/// What an answer means in the words of this service.
fn judge(kind: ServiceKind, report: Report) -> Report {
    let Report { sent, duration, phases } = report;
    let sent = match sent {
        Sent::Answered(response) => judge_answer(kind, response),
        other => other,
    };
    Report { sent, duration, phases }
}

fn judge_answer(kind: ServiceKind, response: Response) -> Sent {
    let error = format!("{} answered {}: {}", kind.title(), response.status, quoted(&response));
    match response.status {
        200..=299 if is_taken(kind, &response) => Sent::Answered(response),
        200..=299 => Sent::Failed { category: FailureCategory::ClientError, error, response: Some(response) },
        status if HOPELESS.contains(&status) => {
            let category = if status == 413 { FailureCategory::PayloadTooLarge } else { FailureCategory::ClientError };
            Sent::Refused { category, error, response: Some(response) }
        }
        // Judged by its status: `Retry-After` is honored.
        _ => Sent::Answered(response),
    }
}

/// Whether a 2xx says that the message was taken: some say otherwise in the body.
fn is_taken(kind: ServiceKind, response: &Response) -> bool {
    let body = String::from_utf8_lossy(&response.body_sample);
    let body = body.trim();
    match kind {
        // Slack, Mattermost and Discord answer `ok`, Rocket.Chat an object.
        ServiceKind::Slack => body == "ok" || says_success(body),
        ServiceKind::PagerDuty => response.status == 202,
        // The service before workflows answered 200 with the error of what is behind it.
        ServiceKind::Teams => matches!(response.status, 200 | 202) && !body.to_ascii_lowercase().contains("failed"),
        ServiceKind::Webhook => true,
    }
}

fn says_success(body: &str) -> bool {
    let object: Value = serde_json::from_str(body).unwrap_or_default();
    object["success"] == true || object["ok"] == true
}

/// The beginning of an answer, in one line.
fn quoted(response: &Response) -> String {
    let body = String::from_utf8_lossy(&response.body_sample);
    let line: String = body.chars().take(QUOTED_CHARS_MAX).map(|char| if char.is_control() { ' ' } else { char }).collect();
    let line = line.trim();
    if line.is_empty() { "no text".to_owned() } else { line.to_owned() }
}

fn refused(error: &str) -> Report {
    let sent = Sent::Refused { category: FailureCategory::ClientError, error: error.to_owned(), response: None };
    Report { sent, duration: Duration::ZERO, phases: PhaseTimes::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Cut;

    fn judged(kind: ServiceKind, status: u16, body: &'static str) -> &'static str {
        let body_sample = Bytes::from_static(body.as_bytes());
        match judge_answer(kind, Response { status, headers: Vec::new(), body_sample, cut: Cut::default(), retry_after: None }) {
            Sent::Answered(_) if (200..300).contains(&status) => "taken",
            Sent::Answered(_) => "by its status",
            Sent::Failed { .. } => "later",
            Sent::Refused { .. } => "never",
            Sent::Parked { .. } | Sent::OutOfResources { .. } => "?",
        }
    }

    #[test]
    fn each_service_says_in_its_own_way_that_it_took_a_message() {
        use ServiceKind::{PagerDuty, Slack, Teams, Webhook};
        let cases = [
            (Slack, 200, "ok", "taken"),
            (Slack, 200, " ok\n", "taken"),
            (Slack, 200, r#"{"success":true}"#, "taken"),
            (Slack, 200, "", "later"),
            (Slack, 200, "<html>log in</html>", "later"),
            (Slack, 404, "no_service", "never"),
            (Slack, 410, "channel_is_archived", "never"),
            (Slack, 429, "rate_limited", "by its status"),
            (Slack, 500, "", "by its status"),
            (Slack, 302, "", "by its status"),
            (PagerDuty, 202, r#"{"status":"success"}"#, "taken"),
            (PagerDuty, 200, "ok", "later"),
            (PagerDuty, 400, r#"{"status":"invalid event"}"#, "never"),
            (PagerDuty, 429, "", "by its status"),
            (Teams, 202, "", "taken"),
            (Teams, 200, "1", "taken"),
            (Teams, 200, "Webhook message delivery failed with error: HTTP error 429", "later"),
            (Teams, 401, "", "never"),
            (Webhook, 200, "", "taken"),
            (Webhook, 204, "", "taken"),
            (Webhook, 413, "", "never"),
            (Webhook, 503, "", "by its status"),
        ];
        for (kind, status, body, expected) in cases {
            assert_eq!(judged(kind, status, body), expected, "{kind:?} {status} {body}");
        }
    }
}
