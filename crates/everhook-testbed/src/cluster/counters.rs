//! What the nodes of a scenario draw from together, in memory and on simulated time: the port `ThrottleStore`.

use std::collections::BTreeMap;

use async_trait::async_trait;
use everhook_core::{
    ids::OrganizationId,
    model::Budget,
    policy::{
        shared_bucket::SharedBucket,
        shared_slots::{self, Holding},
    },
    ports::{Ask, Grant, StoreError, ThrottleStore, Wanted},
    time::Timestamp,
};
use uuid::Uuid;

use super::registry::Member;

/// What is left, and who holds what.
#[derive(Default)]
pub(super) struct Counters {
    buckets: BTreeMap<(OrganizationId, Budget), SharedBucket>,
    slots: BTreeMap<OrganizationId, Vec<Holding>>,
    /// Whether nobody answers.
    pub(super) are_away: bool,
}

impl Counters {
    fn answer(&mut self, holder: Uuid, ask: &Ask, now: Timestamp) -> Grant {
        match ask.what {
            Wanted::Tokens(budget, draw) => {
                let bucket = self.buckets.entry((ask.organization, budget)).or_insert_with(|| SharedBucket::new(draw.limit, now));
                Grant::Tokens(bucket.draw(&draw, now))
            }
            Wanted::Slots(slots) => Grant::Slots(shared_slots::share(self.slots.entry(ask.organization).or_default(), holder, slots, now)),
        }
    }
}

#[async_trait]
impl ThrottleStore for Member {
    async fn exchange(&self, asks: Vec<Ask>) -> Result<Vec<Grant>, StoreError> {
        self.reach().await;
        let now = self.registry.clock.now();
        let holder = Uuid::from_u128(self.node as u128);
        let counters = &mut self.registry.state().counters;
        if counters.are_away {
            return Err(StoreError::unavailable("the counters are away"));
        }
        Ok(asks.iter().map(|ask| counters.answer(holder, ask, now)).collect())
    }
}
