//! Whether and how an endpoint's deliveries keep their order.

use std::borrow::Cow;

use crate::{ids::DeliveryId, model::EventType};

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
            OrderingMode::None if self.behind_barrier => Some(Cow::Owned(format!("#{delivery}"))),
            OrderingMode::None => None,
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
}
