//! Why an event has no delivery at a destination whatever an endpoint's settings are: what follows from the event itself, and from destinations that are
//! no endpoints.
//!
//! As elsewhere, a missing delivery is explained by the settings of now: those of then are not kept.

use super::Why;
use crate::{
    ids::EventId,
    model::{Channel, EventType, SourceName},
    policy::notice::routing::{self, Omission},
    time::Timestamp,
};

/// What an event itself says about where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// A source received the same before, as this event. A repetition is recorded and goes nowhere.
    Nobody(EventId),
    /// Its source, of this name, does not forward events to endpoints.
    ProcessorOnly(SourceName),
    /// It is a job, which goes to its capability.
    CapabilityOnly,
    /// It is the message that a call has ended, which goes to the caller.
    CallerOnly,
    /// Whoever wants it.
    Anybody,
}

/// Why no endpoint has a delivery of an event; `None` if that depends on the endpoint.
pub fn at_endpoints(addressee: &Addressee) -> Option<Why> {
    match addressee {
        Addressee::Anybody => None,
        Addressee::Nobody(original) => Some(of_duplicate(*original)),
        Addressee::ProcessorOnly(source) => {
            let words = format!("no delivery because the source `{source}` does not forward its events to endpoints (`forward` is false)");
            Some(Why::new("not_forwarded", words))
        }
        Addressee::CapabilityOnly => {
            Some(Why::new("addressed", "no delivery because the event is a job, which is sent to its capability only"))
        }
        Addressee::CallerOnly => {
            let words = "no delivery because the event reports the end of a call, which is sent to the `callback_url` of the call only";
            Some(Why::new("addressed", words))
        }
    }
}

/// Why a repetition has no delivery anywhere.
pub fn of_duplicate(original: EventId) -> Why {
    Why::new("duplicate", format!("no delivery because the event is a duplicate: the source received the same before, as event {original}"))
}

/// Why the processor of a source has no delivery of an event that the source received. `has_processor` is what the source says now; `None` if it is deleted.
pub fn at_processor(has_processor: Option<bool>) -> Why {
    match has_processor {
        Some(true) => {
            Why::new("changed_since", "no delivery, although the source has a processor now: it had none when the event was received")
        }
        Some(false) => Why::new("no_processor", "no delivery because the source has no processor"),
        None => {
            Why::new("no_processor", "no delivery because the source had no processor when the event was received; it was deleted since")
        }
    }
}

/// Why a capability has no delivery of a job of its.
pub fn at_capability() -> Why {
    Why::new("destination_deleted", "no delivery because the manifest did not have the capability any more when the job was recorded")
}

/// Why the caller of a job is not notified of its end.
pub fn at_callback(is_requested: bool) -> Why {
    if is_requested {
        let words = "no delivery, although the call has a `callback_url`: the application had no manifest when the event was recorded";
        return Why::new("destination_deleted", words);
    }
    Why::new("not_requested", "no delivery because the call has no `callback_url`")
}

/// Why a channel of the organization has no delivery of an operational event, accepted at this instant. `channels` are all of the organization.
pub fn at_channel(
    channel: &Channel,
    channels: &[Channel],
    event_type: &EventType,
    data: &serde_json::Value,
    accepted_at: Timestamp,
) -> Why {
    if let Some(made_at) = channel.service().map(|service| service.created_at).filter(|made_at| *made_at > accepted_at) {
        return Why::new("channel_is_newer", format!("no delivery because the channel was created at {made_at}, after the event"));
    }
    let others: Vec<&Channel> = channels.iter().collect();
    match routing::omission(channel, &others, event_type, data) {
        Some(Omission::NoText) => {
            Why::new("type_differs", format!("no delivery because there are no notifications about events of the type `{event_type}`"))
        }
        Some(Omission::Disabled) => Why::new("channel_disabled", "no delivery because the channel is disabled"),
        Some(Omission::TypeDiffers) => {
            Why::new("type_differs", format!("no delivery because the channel does not get events of the type `{event_type}`"))
        }
        Some(Omission::LessSerious) => {
            Why::new("less_serious", "no delivery because the event is less serious than the channel's `min_severity`")
        }
        Some(Omission::NotARecipient) => Why::new("not_a_recipient", "no delivery because the alert rule names other recipients"),
        None => {
            Why::new("changed_since", "no delivery, although the channel would get the event with its current settings: it had others then")
        }
    }
}

/// Why a channel has no delivery of an event that has no data any more.
pub fn at_channel_of_erased(erased_at: Timestamp) -> Why {
    Why::new("erased", format!("no delivery; the reason is unknown, because the event's data was erased at {erased_at}"))
}
