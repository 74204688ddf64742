//! Whether and how an endpoint's deliveries keep their order.

use std::{borrow::Cow, hash::Hasher};

use rustc_hash::FxHasher;

use crate::{ids::DeliveryId, model::EventType};

/// What the key of a delivery that has one to itself begins with. No event type does.
const OWN_KEY: char = '#';

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
    /// All do.
    Strict,
}

impl OrderingMode {
    const ALL: [Self; 3] = [Self::None, Self::PerEventType, Self::Strict];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::PerEventType => "per_event_type",
            Self::Strict => "strict",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// Where a new delivery stands in its endpoint's order.
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

    /// Whether it has an order, or waits behind a barrier.
    pub fn is_ordered(&self) -> bool {
        self.mode != OrderingMode::None || self.behind_barrier
    }

    /// The key whose open deliveries go one after the other; `None` if it neither has an order nor waits behind a barrier.
    ///
    /// One without an order that waits behind a barrier has a key to itself: it is then freed as the others are.
    pub fn key<'a>(&self, event_type: &'a EventType, delivery: DeliveryId) -> Option<Cow<'a, str>> {
        match self.mode {
            OrderingMode::Strict => Some(Cow::Borrowed("")),
            OrderingMode::PerEventType => Some(Cow::Borrowed(event_type.as_str())),
            OrderingMode::None if self.behind_barrier => Some(Cow::Owned(format!("{OWN_KEY}{delivery}"))),
            OrderingMode::None => None,
        }
    }

    /// The same, as a lane's owner keeps it.
    pub fn order(&self, event_type: &EventType, delivery: DeliveryId) -> Option<Order> {
        self.key(event_type, delivery).map(|key| Order::of_key(&key))
    }
}

/// Which of its lane's deliveries must not be under way together with one that has an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All that have an order.
    Lane,
    /// Those of the same event type, by its digest: one is kept for each delivery in memory. Two types with the same digest wait for each other,
    /// which costs them a little time.
    Type(u32),
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
        Self::Type(digest.finish() as u32)
    }

    /// Whether the two must not be under way together. Two modes meet where the endpoint's was changed: what is of the new one was held behind a
    /// barrier until everything before it had ended.
    pub fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Type(one), Self::Type(other)) => one == other,
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
        let table = [
            (OrderingMode::None, false, None),
            (OrderingMode::None, true, Some(own)),
            (OrderingMode::PerEventType, false, Some("order.paid")),
            (OrderingMode::PerEventType, true, Some("order.paid")),
            (OrderingMode::Strict, false, Some("")),
            (OrderingMode::Strict, true, Some("")),
        ];
        for (mode, behind_barrier, expected) in table {
            let key = Placement { mode, behind_barrier }.key(&event_type, delivery);
            assert_eq!(key.as_deref(), expected, "{mode:?}, behind a barrier: {behind_barrier}");
            assert_eq!(Placement { mode, behind_barrier }.is_ordered(), expected.is_some());
        }
    }

    #[test]
    fn one_of_a_key_is_under_way_at_a_time_and_one_of_a_strict_lane() {
        let table = [
            ("", "", true),
            ("order.paid", "order.paid", true),
            ("order.paid", "order.sent", false),
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
