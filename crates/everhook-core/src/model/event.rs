//! Events: what happened, once.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;

use crate::{
    ids::{ApplicationId, EventId, is_name_byte},
    model::{ContentType, Fingerprint, OrderedBy, OrderingKey, Received},
    time::Timestamp,
};

/// Something that happened, as its publisher described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its identity, and the `webhook-id` of every request about it.
    pub id: EventId,
    /// The application it was published to.
    pub application: ApplicationId,
    /// What kind of thing happened.
    pub event_type: EventType,
    /// The publisher's JSON value, or what a provider sent, byte for byte.
    pub data: Bytes,
    /// What the data is.
    pub content_type: ContentType,
    /// Whether the data, and the kept headers of a received event, are encrypted where they are kept.
    pub sealed: bool,
    /// When it happened, by the publisher's word; when it was accepted, if it said nothing.
    pub timestamp: Timestamp,
    /// What makes publishing it twice the same as once. The event's id where the publisher gave none.
    pub idempotency_key: String,
    /// The part of the publisher's platform that it came from.
    pub source: Option<String>,
    /// How it shares an organization's capacity with other events.
    pub priority: Priority,
    /// What it is about: endpoints that are ordered by it get events with the same one in order.
    pub ordering_key: Option<OrderingKey>,
    /// Rises in each application, in the order of acceptance. Given at commit.
    pub sequence_number: i64,
    /// The publisher's trace, continued by every request about this event.
    pub traceparent: Option<String>,
    /// What the publisher said about it beside its data; endpoints ask for labels.
    pub labels: BTreeMap<String, String>,
    /// Added to every request about it, as the publisher wrote them. Checked: they override nothing of ours, and give way to the endpoint's.
    pub headers: Vec<(String, String)>,
    /// How it came in, if a provider sent it.
    pub received: Option<Box<Received>>,
    /// When it was accepted.
    pub created_at: Timestamp,
}

impl Event {
    /// Whether its data is a JSON value.
    pub fn has_json_data(&self) -> bool {
        self.content_type.is_json(&self.data)
    }

    /// Whether it says what an event before it said. It is recorded, and goes nowhere.
    pub fn is_duplicate(&self) -> bool {
        self.received.as_ref().is_some_and(|received| received.duplicate_of.is_some())
    }

    /// What distinguishes it from another event with the same idempotency key.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.event_type, &self.data)
    }

    /// What it says about the order of its deliveries.
    pub fn ordered_by(&self) -> OrderedBy<'_> {
        OrderedBy { event_type: &self.event_type, key: self.ordering_key.as_ref() }
    }
}

/// How events share an organization's capacity: of 21 deliveries under pressure, 16 are high, 4 normal, 1 low.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// 16 shares.
    High,
    /// 4 shares.
    #[default]
    Normal,
    /// 1 share: slow under pressure, never starved.
    Low,
}

impl Priority {
    /// All priorities, from the most to the least urgent.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.as_str() == name)
    }
}

/// The longest event type name that is taken.
pub const EVENT_TYPE_CHARS_MAX: usize = 128;

/// The name of a kind of event: `^[A-Za-z0-9_.:-]{1,128}$`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(String);

impl EventType {
    /// Checks the spelling.
    pub fn parse(name: &str) -> Option<Self> {
        let spelled = (1..=EVENT_TYPE_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_name_byte);
        spelled.then(|| Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which events an endpoint wants: one type, a family of types, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventTypePattern {
    /// `*`: every type.
    Any,
    /// `order.*`: every type that begins with `order.`.
    Family(String),
    /// `user.created`: that type alone.
    Exact(EventType),
}

impl EventTypePattern {
    /// Reads a pattern. A star may be the whole pattern or follow its final dot, nowhere else.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Any);
        }
        if let Some(family) = text.strip_suffix(".*") {
            return EventType::parse(family).map(|_| Self::Family(format!("{family}.")));
        }
        EventType::parse(text).map(Self::Exact)
    }
}

impl fmt::Display for EventTypePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Family(prefix) => write!(f, "{prefix}*"),
            Self::Exact(event_type) => event_type.fmt(f),
        }
    }
}
