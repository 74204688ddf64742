//! Counters in a database of its own, for the conformance suite of `ThrottleStore`.

use std::{num::NonZeroU32, sync::Arc};

use everhook_core::{
    ids::OrganizationId,
    model::SlotRequest,
    ports::{Ask, Grant, ThrottleStore, Wanted},
};
use uuid::Uuid;

use crate::postgres::given::Given;

/// A database that several nodes count in.
pub struct Counters(Given);

impl Counters {
    /// An empty one.
    pub async fn create() -> Option<Self> {
        Some(Self(Given::new().await))
    }

    /// One more node.
    pub async fn node(&self) -> Arc<dyn ThrottleStore> {
        Arc::new(self.0.backing.node().await)
    }
}

#[tokio::test]
async fn after_the_servers_clock_was_set_back_a_dead_node_holds_its_slots_no_longer_than_ever() {
    let given = Given::new().await;
    let (dead, living) = (given.backing.node().await, given.backing.node().await);
    let slots = SlotRequest { limit: NonZeroU32::new(4).unwrap(), bound: 0, wanted: 4 };
    let ask = Ask { organization: OrganizationId::from_uuid(Uuid::from_u128(1)), what: Wanted::Slots(slots) };
    assert_eq!(dead.exchange(vec![ask]).await.unwrap(), [Grant::Slots(4)]);
    // An hour back is as if it had asked in an hour.
    given.tamper("UPDATE budget_slots SET held_until = held_until + 3600000000").await;
    assert_eq!(living.exchange(vec![ask]).await.unwrap(), [Grant::Slots(0)], "it may be alive");
    let are_held = "SELECT FROM budget_slots WHERE held_until > extract(epoch FROM clock_timestamp()) * 1000000 + 5000000";
    given.tamper(&format!("DO $$ BEGIN IF EXISTS ({are_held}) THEN RAISE 'held for more than five seconds'; END IF; END $$")).await;
}
