//! What an attempt sent, built again by the code that built it then, from rows that are kept. Called by the API; it reads and changes nothing.

use std::time::Duration;

use bytes::Bytes;

use crate::{
    line::{
        Line,
        request::{self, Outgoing},
    },
    model::{Attempt, Delivery, Event, LaneKind},
    policy::notice::{self, email::EmailNotice},
    ports::{EventSummary, OutgoingHeader, StoreError},
    shape::Shape,
};

/// A request of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRequest {
    /// Where it went.
    pub url: String,
    /// Every header as it went over the wire, in order. A borrowed name is one of ours; values under an owned one may be credentials.
    pub headers: Vec<(OutgoingHeader, Bytes)>,
    /// The body; `None` if the event's data is gone, and then the signatures and the length, which come from it, are not among the headers.
    pub body: Option<Bytes>,
}

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// This.
    Request(PastRequest),
    /// There was none: built-in code handled the event.
    Processed,
    /// It asked an app to do a job: its token is kept nowhere, so that it cannot be built again.
    Job,
    /// It was an e-mail.
    Email(EmailNotice),
    /// It was a notification to a service, in these words. What the service was sent has credentials.
    Notification(EmailNotice),
    /// Everhook failed, before or while making it: nobody knows whether one went out.
    Unknown,
    /// The event is no longer held, and most of the request came from it.
    EventGone,
}

/// The request, or the e-mail, of one of a delivery's attempts.
///
/// # Errors
/// [`StoreError`] if what shaped it cannot be read or opened.
pub async fn sent(line: &Line, delivery: &Delivery, attempt: &Attempt) -> Result<Sent, StoreError> {
    match delivery.kind {
        LaneKind::Channel => return notified(line, delivery).await,
        LaneKind::Processor => return Ok(Sent::Processed),
        LaneKind::Capability => return Ok(Sent::Job),
        LaneKind::Endpoint => {}
    }
    let Some(number) = attempt.revision else { return Ok(Sent::Unknown) };
    let revision = line.ports.endpoints.revision(delivery.organization, delivery.lane_id.endpoint(), number).await?;
    let missing = || StoreError::corrupt(format!("revision {} of the endpoint {} is missing", number.0, delivery.lane_id.endpoint()));
    let shape = Shape::open(delivery.lane_id.endpoint(), revision.ok_or_else(missing)?, &*line.ports.vault)?;
    let found = line.ports.history.event(delivery.organization, delivery.event).await?;
    let Some((summary, event)) = found else { return Ok(Sent::EventGone) };
    let is_erased = event.is_none();
    let event = event.unwrap_or_else(|| tombstone(summary));
    let outgoing = Outgoing {
        organization: delivery.organization,
        delivery: delivery.id,
        attempt_number: attempt.number,
        replay_of: delivery.replay_of,
        event: &event,
        shape: &shape,
        user_agent: Bytes::copy_from_slice(attempt.user_agent.as_bytes()),
        at: attempt.executed_at,
    };
    let request = if is_erased { without_body(&outgoing) } else { whole(&outgoing) };
    Ok(Sent::Request(request))
}

/// The text of a notification. A channel may be gone: the id of one that leads to an address follows from the address, which its version says.
async fn notified(line: &Line, delivery: &Delivery) -> Result<Sent, StoreError> {
    let found = line.ports.history.event(delivery.organization, delivery.event).await?;
    let Some((_, Some(event))) = found else { return Ok(Sent::EventGone) };
    let data = serde_json::from_slice(&event.data).unwrap_or_default();
    let Some(notice) = notice::of_event(&event.event_type, &data) else { return Ok(Sent::Unknown) };
    let written = notice::email::write(&notice, &line.notifications.brand);
    let is_mail = delivery.lane_id.as_uuid().get_version_num() == 8;
    Ok(if is_mail { Sent::Email(written) } else { Sent::Notification(written) })
}

/// What is left of an erased event: nothing that its publisher said but its type and its name.
fn tombstone(summary: EventSummary) -> Event {
    Event {
        id: summary.id,
        application: summary.application,
        event_type: summary.event_type,
        data: Bytes::new(),
        content_type: summary.content_type,
        sealed: false,
        timestamp: summary.timestamp,
        idempotency_key: summary.idempotency_key,
        source: summary.source,
        priority: summary.priority,
        sequence_number: summary.sequence_number,
        ordering_key: None,
        traceparent: None,
        labels: Default::default(),
        headers: Vec::new(),
        received: None,
        created_at: summary.created_at,
    }
}

fn whole(outgoing: &Outgoing<'_>) -> PastRequest {
    let built = request::build(outgoing, Duration::ZERO);
    let headers = built.wire_headers().map(|(name, value)| (name.clone(), value)).collect();
    PastRequest { url: built.target.requested().to_owned(), headers, body: Some(built.body) }
}

fn without_body(outgoing: &Outgoing<'_>) -> PastRequest {
    let url = outgoing.shape.target.requested().to_owned();
    PastRequest { url, headers: request::headers_without_body(outgoing), body: None }
}
