//! What waits: which lanes have something, what of it is due, and how it is cancelled. And what the tests of the queue share.

use std::sync::Arc;

use bytes::Bytes;
use everhook_core::{
    ids::{DeliveryId, EndpointId, EventId, ScheduleVersion},
    model::{CancelCause, DeadLetter, DeathCause, Due, Priority, Shard, ShardSet, Stage},
    ports::{CancelWaiting, DueQueue, DueRead, DueRequest, EventStore, LaneHead, ReplayAnswer, ReplayItem, Settled, Settlement},
    time::Timestamp,
};
use rustc_hash::FxHashSet;

use super::given::{Given, NOW, after, failure, id, settlement, success};

pub const DELIVERED: Stage = Stage::Delivered { at: NOW };

pub fn waiting(due_at: Timestamp) -> Stage {
    Stage::Waiting { due_at }
}

pub fn dead(at: Timestamp) -> Stage {
    Stage::Dead { at, cause: DeathCause::RetriesExhausted }
}

/// What became of a settlement, as far as a test compares it.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    Recorded,
    Freed(DeliveryId),
    Stale,
}

impl From<Settled> for Told {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Recorded { freed: None } => Self::Recorded,
            Settled::Recorded { freed: Some(freed) } => Self::Freed(freed.due.delivery),
            Settled::Stale => Self::Stale,
        }
    }
}

impl Given {
    pub async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Told> {
        self.store.settle(Arc::new(settlements)).await.unwrap().into_iter().map(Told::from).collect()
    }

    pub async fn settle_one(&self, settlement: Settlement) -> Told {
        self.settle(vec![settlement]).await.remove(0)
    }

    pub async fn due(&self, endpoint: EndpointId, due_by: Timestamp, limit: u32, event_bytes_max: usize) -> DueRead {
        self.due_between(endpoint, (Timestamp::EPOCH, due_by), limit, event_bytes_max).await
    }

    pub async fn due_between(
        &self,
        endpoint: EndpointId,
        (due_from, due_by): (Timestamp, Timestamp),
        limit: u32,
        event_bytes_max: usize,
    ) -> DueRead {
        let queues = vec![DueQueue { lane_id: endpoint.into(), priority: Priority::Normal, due_from, limit, known: FxHashSet::default() }];
        self.store.due(DueRequest { queues, due_by, event_bytes_max }).await.unwrap().remove(0)
    }

    pub async fn stage(&self, delivery: DeliveryId) -> Stage {
        self.store.delivery(self.organization, delivery).await.unwrap().unwrap().0.stage
    }

    pub async fn dead_letter(&self, id: DeliveryId) -> DeadLetter {
        self.store.dead_letter(self.organization, id).await.unwrap().unwrap()
    }

    /// A delivery that died at its first attempt.
    pub async fn died(&self) -> DeliveryId {
        let (_, delivery) = self.published().await;
        assert_eq!(self.settle_one(settlement(delivery, self.endpoint, failure(1), dead(NOW))).await, Told::Recorded);
        delivery
    }

    /// Brings a dead letter back.
    pub async fn recall(&self, dead_letter: DeliveryId) -> ReplayAnswer {
        let found = self.store.dead_letter(self.organization, dead_letter).await.unwrap();
        let event = found.map_or(EventId::from_uuid(id()), |found| found.event);
        let item = ReplayItem { of: Some(dead_letter), only_dead: true, ..self.replay_item(event).await };
        self.replay(vec![item]).await.remove(0)
    }

    /// A dead letter and the delivery that brings it back.
    pub async fn recalled(&self) -> (DeliveryId, DeliveryId) {
        let dead_letter = self.died().await;
        match self.recall(dead_letter).await {
            ReplayAnswer::Made { due, .. } => (dead_letter, due.unwrap().delivery),
            other => panic!("the dead letter did not come back: {other:?}"),
        }
    }

    pub async fn cancel(&self, limit: u32) -> u32 {
        let request = CancelWaiting {
            lane_id: self.endpoint.into(),
            made_until: after(60),
            cause: CancelCause::EndpointDisabled,
            at: after(5),
            limit,
        };
        self.store.cancel_waiting(request).await.unwrap()
    }
}

#[tokio::test]
async fn every_queue_with_anything_waiting_is_a_lane_however_many_wait_in_it() {
    let given = Given::new().await;
    let other = given.another_endpoint().await;
    let idle = given.another_endpoint().await;
    let mut heads = Vec::new();
    for priority in [Priority::Normal, Priority::High] {
        let mut new = given.event(&vec![given.endpoint; 700]).await;
        new.event.priority = priority;
        heads.push(new.deliveries[0].id);
        given.record(new).await;
    }
    let mut later = given.event(&[other]).await;
    later.made_at = after(5);
    heads.push(later.deliveries[0].id);
    given.record(later).await;
    let (_, done) = given.published().await;
    given.settle_one(settlement(done, idle, success(1), DELIVERED)).await;
    let lane = |endpoint: EndpointId, priority, delivery, next_due_at| LaneHead {
        organization: given.organization,
        application: given.application,
        lane_id: endpoint.into(),
        priority,
        delivery,
        next_due_at,
    };
    let expected = [
        lane(given.endpoint, Priority::High, heads[1], NOW),
        lane(given.endpoint, Priority::Normal, heads[0], NOW),
        lane(other, Priority::Normal, heads[2], after(5)),
    ];
    let mut lanes = given.store.lanes(ShardSet::ALL).await.unwrap();
    lanes.sort_by_key(|lane| (lane.lane_id, lane.priority != Priority::High));
    assert_eq!(lanes, expected);
    // Each shard has its own, and together they have them all.
    for shard in ShardSet::ALL.iter() {
        let mut of_shard = given.store.lanes([shard].into_iter().collect()).await.unwrap();
        of_shard.sort_by_key(|lane| (lane.lane_id, lane.priority != Priority::High));
        assert_eq!(of_shard, expected.iter().filter(|head| Shard::of(head.lane_id) == shard).copied().collect::<Vec<_>>(), "{shard:?}");
    }
}

#[tokio::test]
async fn lanes_that_are_read_together_share_their_events_and_get_none_that_they_have() {
    let given = Given::new().await;
    let other = given.another_endpoint().await;
    let [first, second] = [given.event(&[given.endpoint, other]).await, given.event(&[given.endpoint, other]).await];
    let known: FxHashSet<DeliveryId> = [first.deliveries[0].id].into_iter().collect();
    let bytes = first.event.data.len() + second.event.data.len();
    given.record(first).await;
    given.record(second).await;
    let queue = |endpoint: EndpointId, known| DueQueue {
        lane_id: endpoint.into(),
        priority: Priority::Normal,
        due_from: Timestamp::EPOCH,
        limit: 10,
        known,
    };
    let queues = vec![queue(given.endpoint, known), queue(other, FxHashSet::default())];
    // There is room for each of the two once.
    let reads = given.store.due(DueRequest { queues, due_by: NOW, event_bytes_max: bytes }).await.unwrap();
    let [here, there]: [Vec<_>; 2] = [0, 1].map(|place: usize| reads[place].rows.iter().map(|due| due.loaded.as_ref()).collect());
    assert!(here[0].is_none(), "it is known");
    assert!(Arc::ptr_eq(here[1].unwrap(), there[1].unwrap()), "both share it");
    assert!(there[0].is_some());
}

#[tokio::test]
async fn what_is_due_is_of_one_queue_of_one_endpoint() {
    let given = Given::new().await;
    let other = given.another_endpoint().await;
    let mut queues = Vec::new();
    for (endpoint, priority) in [given.endpoint, other].into_iter().flat_map(|at| Priority::ALL.map(|priority| (at, priority))) {
        let mut new = given.event(&[endpoint]).await;
        new.event.priority = priority;
        queues.push((endpoint, priority, new.event.id, new.deliveries[0].id));
        given.record(new).await;
    }
    let queue = |&(endpoint, priority, ..): &(EndpointId, _, EventId, DeliveryId)| DueQueue {
        lane_id: endpoint.into(),
        priority,
        due_from: Timestamp::EPOCH,
        limit: 10,
        known: FxHashSet::default(),
    };
    let request = DueRequest { queues: queues.iter().map(queue).collect(), due_by: NOW, event_bytes_max: 0 };
    let reads = given.store.due(request).await.unwrap();
    for (place, (.., event, delivery)) in queues.into_iter().enumerate() {
        let read = &reads[place];
        let due = Due {
            delivery,
            event,
            loaded: None,
            retry_schedule: ScheduleVersion(7),
            attempts: 0,
            parkings: 0,
            expired: None,
            due_at: NOW,
            replay_of: None,
            order: None,
        };
        assert_eq!(format!("{:?}", read.rows), format!("{:?}", [due]));
        assert_eq!(read.next_due_at, None);
    }
}

#[tokio::test]
async fn what_is_due_comes_oldest_first_and_tells_when_the_next_is() {
    let given = Given::new().await;
    let mut deliveries = Vec::new();
    for secs in [30, 10, 20] {
        let mut new = given.event(&[given.endpoint]).await;
        new.made_at = after(secs);
        deliveries.push(new.deliveries[0].id);
        given.record(new).await;
    }
    let [thirty, ten, twenty] = deliveries[..] else { panic!("three were made") };
    let cases = [
        // due by, limit → deliveries, next due
        (after(5), 10, vec![], Some(after(10))),
        (after(10), 10, vec![ten], Some(after(20))),
        (after(25), 1, vec![ten], Some(after(20))),
        (after(30), 3, vec![ten, twenty, thirty], None),
        (after(30), 0, vec![], Some(after(10))),
    ];
    for (due_by, limit, expected, next_due_at) in cases {
        let read = given.due(given.endpoint, due_by, limit, 0).await;
        let found: Vec<_> = read.rows.iter().map(|due| due.delivery).collect();
        assert_eq!((found, read.next_due_at), (expected, next_due_at), "due by {due_by}, at most {limit}");
    }
    let cases = [
        // due from, due by, limit → deliveries, next due
        (after(10), after(10), 10, vec![ten], Some(after(20))),
        (after(11), after(30), 10, vec![twenty, thirty], None),
        (after(11), after(30), 1, vec![twenty], Some(after(30))),
        (after(15), after(10), 10, vec![], Some(after(20))),
        (after(31), after(40), 10, vec![], None),
    ];
    for (due_from, due_by, limit, expected, next_due_at) in cases {
        let read = given.due_between(given.endpoint, (due_from, due_by), limit, 0).await;
        let found: Vec<_> = read.rows.iter().map(|due| due.delivery).collect();
        assert_eq!((found, read.next_due_at), (expected, next_due_at), "due from {due_from} by {due_by}, at most {limit}");
    }
}

#[tokio::test]
async fn events_come_along_while_the_byte_budget_lasts() {
    let given = Given::new().await;
    for _ in 0..3 {
        let mut new = given.event(&[given.endpoint]).await;
        new.event.data = Bytes::from(vec![b'1'; 100]);
        given.record(new).await;
    }
    for (budget, loaded) in [(0, 0), (99, 0), (100, 1), (250, 2), (300, 3), (10_000, 3)] {
        let read = given.due(given.endpoint, NOW, 10, budget).await;
        let with_events = read.rows.iter().take_while(|due| due.loaded.is_some()).count();
        assert_eq!((with_events, read.rows.len()), (loaded, 3), "{budget} bytes");
    }
    let read = given.due(given.endpoint, NOW, 1, 10_000).await;
    let event = read.rows[0].loaded.clone().unwrap();
    assert_eq!(EventStore::event(&*given.store, read.rows[0].event).await.unwrap().as_ref(), Some(&*event));
}

#[tokio::test]
async fn cancelling_takes_the_oldest_first_and_says_when_none_are_left() {
    let given = Given::new().await;
    let mut deliveries = Vec::new();
    for (secs, priority) in [(1, Priority::Low), (2, Priority::Normal), (3, Priority::High)] {
        let mut new = given.event(&[given.endpoint]).await;
        (new.made_at, new.event.priority) = (after(secs), priority);
        deliveries.push(new.deliveries[0].id);
        given.record(new).await;
    }
    assert_eq!(given.cancel(2).await, 2);
    let cancelled = Stage::Cancelled { at: after(5), cause: CancelCause::EndpointDisabled };
    let expected = [cancelled.clone(), cancelled, waiting(after(3))];
    for (delivery, stage) in deliveries.iter().zip(expected) {
        assert_eq!(given.stage(*delivery).await, stage);
    }
    assert_eq!(given.cancel(2).await, 1);
    assert_eq!(given.cancel(2).await, 0);
}

#[tokio::test]
async fn cancelling_touches_one_endpoint_and_what_was_made_until_then() {
    let given = Given::new().await;
    let (old, other) = (given.published().await.1, given.another_endpoint().await);
    let mut late = Vec::new();
    for priority in Priority::ALL {
        let mut new = given.event(&[given.endpoint, other]).await;
        (new.made_at, new.event.priority) = (after(10), priority);
        late.extend(new.deliveries.iter().map(|delivery| delivery.id));
        given.record(new).await;
    }
    let request =
        CancelWaiting { lane_id: other.into(), made_until: after(9), cause: CancelCause::DestinationDeleted, at: after(20), limit: 10 };
    assert_eq!(given.store.cancel_waiting(request).await.unwrap(), 0);
    assert_eq!(given.store.cancel_waiting(CancelWaiting { lane_id: given.endpoint.into(), ..request }).await.unwrap(), 1);
    assert_eq!(given.stage(old).await, Stage::Cancelled { at: after(20), cause: CancelCause::DestinationDeleted });
    for delivery in late {
        assert_eq!(given.stage(delivery).await, waiting(after(10)));
    }
    assert_eq!(given.store.cancel_waiting(CancelWaiting { made_until: after(10), ..request }).await.unwrap(), 3);
}
