//! Whether and how an endpoint's deliveries keep their order.

use std::{borrow::Cow, fmt, hash::Hasher};

use rustc_hash::FxHasher;

use crate::{ids::DeliveryId, model::EventType};

/// What the key of a delivery that has one to itself begins with. No event type does.
const OWN_KEY: char = '#';
/// What the key of a delivery begins with that its event's ordering key names. No event type does, either.
const NAMED_KEY: char = '=';

/// The longest ordering key that is taken, in bytes.
pub const ORDERING_KEY_BYTES_MAX: usize = 256;

/// What an event is about, by its publisher's word: endpoints ordered by it get events with the same one in order. 1 to 256 bytes, none of them of a
/// control character.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OrderingKey(String);

impl OrderingKey {
    /// Checks the bounds.
    pub fn parse(text: &str) -> Option<Self> {
        let is_good = (1..=ORDERING_KEY_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
        is_good.then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OrderingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an event says about the order of its deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedBy<'e> {
    /// Its type.
    pub event_type: &'e EventType,
    /// Its ordering key, if it has one.
    pub key: Option<&'e OrderingKey>,
}

/// An endpoint's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ordering {
    /// What new deliveries keep.
    pub mode: OrderingMode,
    /// Set while deliveries of an earlier mode are open: new ones, which have this position or a later one, wait until those have ended.
    pub barrier: Option<i64>,
}

/// Which deliveries of an endpoint go one after the other, in the order of their events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderingMode {
    /// None wait for each other.
    #[default]
    None,
    /// Those of one event type do.
    PerEventType,
    /// Those whose events have the same ordering key do; an event without one waits for nobody.
    PerKey,
    /// All do.
    Strict,
}

impl OrderingMode {
    const ALL: [Self; 4] = [Self::None, Self::PerEventType, Self::PerKey, Self::Strict];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::PerEventType => "per_event_type",
            Self::PerKey => "per_key",
            Self::Strict => "strict",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// The place of a new delivery in its endpoint's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The mode that holds for it, whatever the endpoint's becomes.
    pub mode: OrderingMode,
    /// Whether it waits behind a barrier, even if nothing of its own key is open.
    pub behind_barrier: bool,
}

impl Placement {
    /// What a delivery that is made now keeps.
    pub const fn of(ordering: Ordering) -> Self {
        Self { mode: ordering.mode, behind_barrier: ordering.barrier.is_some() }
    }

    /// Whether a delivery of such an event has an order, or waits behind a barrier.
    pub fn is_ordered(&self, by: OrderedBy<'_>) -> bool {
        let has_order = match self.mode {
            OrderingMode::None => false,
            OrderingMode::PerKey => by.key.is_some(),
            OrderingMode::PerEventType | OrderingMode::Strict => true,
        };
        has_order || self.behind_barrier
    }

    /// The key whose open deliveries go one after the other; `None` if it neither has an order nor waits behind a barrier.
    ///
    /// One without an order that waits behind a barrier has a key to itself: it is then freed as the others are.
    pub fn key<'e>(&self, by: OrderedBy<'e>, delivery: DeliveryId) -> Option<Cow<'e, str>> {
        match (self.mode, by.key) {
            (OrderingMode::Strict, _) => Some(Cow::Borrowed("")),
            (OrderingMode::PerEventType, _) => Some(Cow::Borrowed(by.event_type.as_str())),
            (OrderingMode::PerKey, Some(key)) => Some(Cow::Owned(format!("{NAMED_KEY}{key}"))),
            (OrderingMode::None | OrderingMode::PerKey, _) if self.behind_barrier => Some(Cow::Owned(format!("{OWN_KEY}{delivery}"))),
            (OrderingMode::None | OrderingMode::PerKey, _) => None,
        }
    }

    /// The same, as a lane's owner keeps it.
    pub fn order(&self, by: OrderedBy<'_>, delivery: DeliveryId) -> Option<Order> {
        self.key(by, delivery).map(|key| Order::of_key(&key))
    }
}

/// Which of its lane's deliveries must not be under way together with one that has an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All that have an order.
    Lane,
    /// Those of the same event type or ordering key, by its digest: one is kept for each delivery in memory. Two with the same digest wait for each
    /// other, which costs them a little time.
    Key(u32),
    /// Of its own mode none: it only waited behind a barrier.
    SingleNode,
}

impl Order {
    /// The order of deliveries with this key.
    pub fn of_key(key: &str) -> Self {
        if key.is_empty() {
            return Self::Lane;
        }
        if key.starts_with(OWN_KEY) {
            return Self::SingleNode;
        }
        let mut digest = FxHasher::default();
        digest.write(key.as_bytes());
        // The lower half is as good as the whole.
        Self::Key(digest.finish() as u32)
    }

    /// Whether the two must not be under way together. Two modes meet where the endpoint's was changed: what is of the new one was held behind a
    /// barrier until everything before it had ended.
    pub fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Key(one), Self::Key(other)) => one == other,
            (Self::SingleNode, Self::SingleNode) => false,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn every_mode_has_its_key() {
        let event_type = EventType::parse("order.paid").expect("a type");
        let delivery = DeliveryId::from_uuid(Uuid::nil());
        let own = "#00000000-0000-0000-0000-000000000000";
        let customer = OrderingKey::parse("customer-1").expect("a key");
        let (bare, keyed) = (None, Some(&customer));
        let table = [
            (OrderingMode::None, bare, false, None),
            (OrderingMode::None, keyed, false, None),
            (OrderingMode::None, keyed, true, Some(own)),
            (OrderingMode::PerEventType, keyed, false, Some("order.paid")),
            (OrderingMode::PerEventType, bare, true, Some("order.paid")),
            (OrderingMode::PerKey, keyed, false, Some("=customer-1")),
            (OrderingMode::PerKey, keyed, true, Some("=customer-1")),
            (OrderingMode::PerKey, bare, false, None),
            (OrderingMode::PerKey, bare, true, Some(own)),
            (OrderingMode::Strict, bare, false, Some("")),
            (OrderingMode::Strict, keyed, true, Some("")),
        ];
        for (mode, key, behind_barrier, expected) in table {
            let (placement, by) = (Placement { mode, behind_barrier }, OrderedBy { event_type: &event_type, key });
            assert_eq!(placement.key(by, delivery).as_deref(), expected, "{mode:?}, {key:?}, behind a barrier: {behind_barrier}");
            assert_eq!(placement.is_ordered(by), expected.is_some());
        }
    }

    #[test]
    fn an_ordering_key_is_1_to_256_bytes_without_control_characters() {
        for good in ["a", "customer 1/é", &"k".repeat(256)] {
            assert_eq!(OrderingKey::parse(good).expect(good).as_str(), good);
        }
        for bad in ["", "a\nb", "nul\0", "\u{85}", &"k".repeat(257), &"é".repeat(129)] {
            assert_eq!(OrderingKey::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn one_of_a_key_is_under_way_at_a_time_and_one_of_a_strict_lane() {
        let table = [
            ("", "", true),
            ("order.paid", "order.paid", true),
            ("order.paid", "order.sent", false),
            ("=customer-1", "=customer-1", true),
            ("=customer-1", "=customer-2", false),
            ("#1", "#2", false),
            // The mode was changed.
            ("", "order.paid", true),
            ("", "#1", true),
            ("order.paid", "#1", true),
        ];
        for (one, other, expected) in table {
            let (one, other) = (Order::of_key(one), Order::of_key(other));
            assert_eq!([one.excludes(other), other.excludes(one)], [expected; 2], "{one:?} and {other:?}");
        }
    }
}
