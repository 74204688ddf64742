//! Every call of the delivery side works for every kind of lane. Only endpoints have a row of their own beside the lane: whatever looks for that row
//! would lose the deliveries of all others.

use std::sync::Arc;

use everhook_core::{
    ids::{DeliveryId, EndpointId, EventId},
    model::{
        BreakerConfig, CancelCause, ClockReset, Cursor, DeadLetterStatus, FailingRule, LaneKind, OrderingMode, PageRequest, Placement,
        ShardSet, Stage, Tally, callback_lane, minute_of,
    },
    policy::breaker::Breaker,
    ports::{
        BreakerChange, BreakerKept, CancelWaiting, DeadLetterFilter, DeliveryFilter, Erased, History, NewEvent, ReplayAnswer, ReplayItem,
        RetentionClass, Settled, Settlement,
    },
};

use super::{
    delivery_queue::{DELIVERED, Told, dead, waiting},
    given::{Given, NOW, after, failure, id, replay_of, settlement, success},
    store::{Backing as _, NewLane},
};

/// The kinds of destination. The lane of callbacks is one of an application whose row is that of a capability.
pub const KINDS: [&str; 5] = ["endpoint", "processor", "capability", "channel", "callback"];
const ALL: PageRequest = PageRequest { limit: 100, cursor: Cursor::Newest };

/// What a lane's row says of its kind.
pub fn stored_kind(kind: &str) -> &str {
    if kind == "callback" { "capability" } else { kind }
}

impl Given {
    /// A store whose one destination is of this kind, under the name that the helpers have for it.
    pub async fn of_kind(kind: &str) -> Self {
        let given = Self::new().await;
        if kind == "endpoint" {
            return given;
        }
        let destination = match kind {
            "callback" => EndpointId::from_uuid(*callback_lane(given.application).as_uuid()),
            _ => EndpointId::from_uuid(id()),
        };
        let kind = stored_kind(kind);
        let lane = NewLane { id: destination.into(), kind, organization: given.organization, application: given.application };
        given.backing.create_lane(&lane).await;
        Self { endpoint: destination, ..given }
    }

    async fn settle_as(&self, settlement: Settlement, told: Told, kind: &str) {
        assert_eq!(self.settle_one(settlement).await, told, "{kind}");
    }
}

#[tokio::test]
async fn a_delivery_is_found_read_retried_and_delivered() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let (event, delivery) = given.published().await;
        let heads = given.store.lanes(ShardSet::ALL).await.unwrap();
        let found = heads.iter().map(|head| (head.organization, head.application, head.lane_id, head.delivery)).collect::<Vec<_>>();
        assert_eq!(found, [(given.organization, given.application, given.endpoint.into(), delivery)], "{kind}");
        let read = given.due(given.endpoint, NOW, 10, 1 << 20).await.rows;
        assert_eq!(read.iter().map(|due| (due.delivery, due.loaded.is_some())).collect::<Vec<_>>(), [(delivery, true)], "{kind}");
        given.settle_as(settlement(delivery, given.endpoint, failure(1), waiting(after(5))), Told::Recorded, kind).await;
        given.settle_as(settlement(delivery, given.endpoint, success(2), DELIVERED), Told::Recorded, kind).await;
        let (found, attempts) = given.store.delivery(given.organization, delivery).await.unwrap().expect(kind);
        assert_eq!((found.lane_id, found.stage, attempts.len()), (given.endpoint.into(), DELIVERED, 2), "{kind}");
        for filter in [
            DeliveryFilter::default(),
            DeliveryFilter { event: Some(event), ..DeliveryFilter::default() },
            DeliveryFilter { endpoint: Some(given.endpoint), ..DeliveryFilter::default() },
        ] {
            let listed = given.store.deliveries(given.organization, filter, ALL).await.unwrap().rows;
            assert_eq!(listed.iter().map(|found| found.id).collect::<Vec<_>>(), [delivery], "{kind}");
        }
    }
}

#[tokio::test]
async fn a_delivery_that_dies_leaves_a_dead_letter_that_comes_back() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let letter = given.died().await;
        let filter = DeadLetterFilter { endpoint: Some(given.endpoint), ..DeadLetterFilter::default() };
        let listed = given.store.dead_letters(given.organization, filter, ALL).await.unwrap().rows;
        assert_eq!(listed.iter().map(|found| (found.id, found.lane_id)).collect::<Vec<_>>(), [(letter, given.endpoint.into())], "{kind}");
        assert_eq!((listed[0].kind.as_str(), listed[0].target.as_str()), (stored_kind(kind), "https://shop.example/hooks"));
        for wanted in LaneKind::ALL {
            let filter = DeadLetterFilter { kind: Some(wanted), ..DeadLetterFilter::default() };
            for filter in [filter.clone(), DeadLetterFilter { endpoint: Some(given.endpoint), ..filter }] {
                let found = given.store.dead_letters(given.organization, filter, ALL).await.unwrap().rows;
                assert_eq!(found.len(), usize::from(wanted.as_str() == stored_kind(kind)), "{kind}, asked for {wanted:?}");
            }
        }
        let again = match given.recall(letter).await {
            ReplayAnswer::Made { due, .. } => due.expect(kind).delivery,
            other => panic!("{kind}: {other:?}"),
        };
        given.settle_as(replay_of(letter, settlement(again, given.endpoint, success(1), DELIVERED)), Told::Recorded, kind).await;
        assert_eq!(given.dead_letter(letter).await.status, DeadLetterStatus::Resolved, "{kind}");
        let event = given.dead_letter(letter).await.event;
        let newest = given.store.newest_deliveries(given.organization, event).await.unwrap().expect(kind);
        assert_eq!(newest.newest.len(), 1, "{kind}");
        let item = ReplayItem { of: Some(again), ..given.replay_item(event).await };
        assert!(matches!(given.replay(vec![item]).await[..], [ReplayAnswer::Made { .. }]), "{kind}");
    }
}

#[tokio::test]
async fn an_ordered_delivery_is_held_freed_and_cancelled() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let mut made = Vec::new();
        for _ in 0..3 {
            let mut new: NewEvent = given.event(&[given.endpoint]).await;
            new.deliveries[0].placement = Placement { mode: OrderingMode::Strict, behind_barrier: false };
            made.push(new.deliveries[0].id);
            given.record(new).await;
        }
        assert_eq!(given.stage(made[1]).await, Stage::Held, "{kind}");
        let first = Settlement { ordered: true, ..settlement(made[0], given.endpoint, success(1), DELIVERED) };
        let Settled::Recorded { freed } = given.store.settle(Arc::new(vec![first])).await.unwrap().remove(0) else { panic!("{kind}") };
        assert_eq!(freed.map(|freed| freed.due.delivery), Some(made[1]), "{kind}");
        let (made_until, cause, at) = (after(60), CancelCause::EndpointDisabled, after(5));
        let cancel = CancelWaiting { lane_id: given.endpoint.into(), made_until, cause, at, limit: 1 };
        assert_eq!(given.store.cancel_waiting(cancel).await.unwrap(), 1, "{kind}");
        assert_eq!(given.store.free_heads(after(6)).await.unwrap().deliveries, [made[2]], "{kind}");
    }
}

#[tokio::test]
async fn breakers_and_statistics_are_kept() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let lane_id = given.endpoint.into();
        let mut breaker = Breaker::new(BreakerConfig::window(), NOW);
        let transition = Some(breaker.force_open(None, after(1)));
        let (application, kept) = (given.application, breaker.keep());
        let change = BreakerChange { application, lane_id, revision: 1, kept, transition, alerts: Vec::new(), entry: None };
        assert_eq!(given.store.keep(vec![change]).await.unwrap(), [BreakerKept::Kept], "{kind}");
        assert_eq!(given.store.breaker(lane_id).await.unwrap().map(|row| row.kept), Some(kept), "{kind}");
        assert_eq!(given.store.open_periods(lane_id, NOW, 10).await.unwrap().len(), 1, "{kind}");
        let mut tally = Tally::new(lane_id, minute_of(NOW));
        tally.add(&failure(1), NOW);
        given.store.add(vec![tally], FailingRule::default()).await.unwrap();
        assert_eq!(given.store.attempt_statistics(lane_id, NOW, after(60)).await.unwrap().total(), 1, "{kind}");
        assert_eq!(given.store.activities(vec![lane_id]).await.unwrap()[0].consecutive_failures, 1, "{kind}");
        given.store.forget_failures(lane_id, ClockReset::ByOwner).await.unwrap();
        assert_eq!(given.store.activities(vec![lane_id]).await.unwrap()[0].consecutive_failures, 0, "{kind}");
        assert_eq!(given.purge(RetentionClass::Rollups, after(600)).await, 3, "{kind}: its own, its application's and its organization's");
    }
}

#[tokio::test]
async fn erasing_ends_what_waits_and_retention_keeps_what_is_open() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let (erased, waits): (EventId, DeliveryId) = given.published().await;
        assert!(matches!(given.erase(erased).await, Erased::Erased(_)), "{kind}");
        assert!(matches!(given.stage(waits).await, Stage::Cancelled { cause: CancelCause::Erased, .. }), "{kind}");
        let (open, _) = given.published().await;
        let (ended, delivery) = given.published().await;
        given.settle_as(settlement(delivery, given.endpoint, failure(1), dead(NOW)), Told::Recorded, kind).await;
        let (gone, delivery) = given.published().await;
        given.settle_as(settlement(delivery, given.endpoint, success(1), DELIVERED), Told::Recorded, kind).await;
        given.purge(RetentionClass::Events, after(1_000)).await;
        for (event, stays) in [(open, true), (ended, true), (gone, false)] {
            let found = History::event(&*given.store, given.organization, event).await.unwrap();
            assert_eq!(found.is_some(), stays, "{kind}");
        }
    }
}
