//! The mail that goes out for a delivery to a channel, as `request` is what goes out to an endpoint. Pure, and the same for every attempt: mail programs
//! show a mail once that came twice.

use std::time::Duration;

use serde_json::Value;

use crate::{
    ids::DeliveryId,
    model::{EmailAddress, Event, FailureCategory, PhaseTimes, Report, Sent},
    policy::notice,
    ports::EmailMessage,
};

/// The mail about an event; `None` if there are no words for its type, as after a change of the program.
pub fn build(event: &Event, delivery: DeliveryId, to: &EmailAddress, brand: &str, timeout: Duration) -> Option<EmailMessage> {
    let data: Value = serde_json::from_slice(&event.data).unwrap_or_default();
    let notice = notice::email::write(&notice::of_event(&event.event_type, &data)?, brand);
    Some(EmailMessage {
        id: *delivery.as_uuid(),
        to: to.clone(),
        subject: notice.subject,
        text: notice.text,
        html: Some(notice.html),
        created_at: event.created_at,
        timeout,
    })
}

/// What is recorded where there is nothing to say, or nobody to say it.
pub fn unsendable(reason: Unsendable) -> Report {
    let sent = match reason {
        Unsendable::NoWords => Sent::Refused {
            category: FailureCategory::ClientError,
            error: "there is no notification for events of this type".to_owned(),
            response: None,
        },
        Unsendable::NoMailServer => Sent::Failed {
            category: FailureCategory::Network,
            error: "this node has no mail server: set `smtp`".to_owned(),
            response: None,
        },
    };
    Report { sent, duration: Duration::ZERO, phases: PhaseTimes::default() }
}

/// Why no mail was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsendable {
    /// There are no words for the event's type.
    NoWords,
    /// The node has no mail server. It may get one.
    NoMailServer,
}
