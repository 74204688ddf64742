//! Waiting, settling, dying and coming back.

use std::sync::Arc;

use bytes::Bytes;
use everhook_core::{
    ids::{DeliveryId, EndpointId, EventId, OrganizationId, Ref, ScheduleVersion},
    model::{
        CancelCause, DeadLetter, DeadLetterStatus, DeathCause, DisabledReason, Due, EndpointState, FailureCategory, Priority, Shard,
        ShardSet, Stage,
    },
    ports::{Alert, CancelWaiting, DueQueue, DueRead, DueRequest, EventStore, LaneHead, ReplayAnswer, ReplayItem, Settled, Settlement},
    time::Timestamp,
};
use rustc_hash::FxHashSet;

use super::given::{Given, NOW, after, disabling, event_type, failure, id, replay_of, settlement, success};

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
        let queues = vec![DueQueue { endpoint, priority: Priority::Normal, limit, known: FxHashSet::default() }];
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
        let request =
            CancelWaiting { endpoint: self.endpoint, made_until: after(60), cause: CancelCause::EndpointDisabled, at: after(5), limit };
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
    let lane = |endpoint, priority, delivery, next_due_at| LaneHead {
        organization: given.organization,
        application: given.application,
        endpoint,
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
    lanes.sort_by_key(|lane| (lane.endpoint, lane.priority != Priority::High));
    assert_eq!(lanes, expected);
    // Each shard has its own, and together they have them all.
    for shard in ShardSet::ALL.iter() {
        let mut of_shard = given.store.lanes([shard].into_iter().collect()).await.unwrap();
        of_shard.sort_by_key(|lane| (lane.endpoint, lane.priority != Priority::High));
        assert_eq!(of_shard, expected.iter().filter(|head| Shard::of(head.endpoint) == shard).copied().collect::<Vec<_>>(), "{shard:?}");
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
    let queue = |endpoint, known| DueQueue { endpoint, priority: Priority::Normal, limit: 10, known };
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
    let queue =
        |&(endpoint, priority, ..): &(_, _, EventId, DeliveryId)| DueQueue { endpoint, priority, limit: 10, known: FxHashSet::default() };
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
async fn a_settled_delivery_no_longer_waits() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    assert_eq!(given.settle_one(settlement(delivery, given.endpoint, success(1), DELIVERED)).await, Told::Recorded);
    assert_eq!(given.stage(delivery).await, DELIVERED);
    assert_eq!(given.store.lanes(ShardSet::ALL).await.unwrap(), []);
}

#[tokio::test]
async fn a_failed_delivery_waits_for_its_next_attempt() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    given.settle_one(settlement(delivery, given.endpoint, failure(1), waiting(after(5)))).await;
    assert_eq!(given.store.lanes(ShardSet::ALL).await.unwrap()[0].next_due_at, after(5));
    let read = given.due(given.endpoint, after(5), 10, 0).await;
    assert_eq!((read.rows[0].delivery, read.rows[0].attempts, read.rows[0].due_at), (delivery, 1, after(5)));
}

#[tokio::test]
async fn an_attempt_is_recorded_only_if_it_is_the_deliverys_next() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    let retry = settlement(delivery, given.endpoint, failure(1), waiting(after(5)));
    let skipped = settlement(delivery, given.endpoint, failure(3), waiting(after(9)));
    let done = settlement(delivery, given.endpoint, success(2), DELIVERED);
    let unknown = settlement(DeliveryId::from_uuid(id()), given.endpoint, success(1), DELIVERED);
    let batch = vec![retry.clone(), retry, skipped, done.clone(), done, unknown];
    let answers = given.settle(batch).await;
    use Told::{Recorded, Stale};
    assert_eq!(answers, [Recorded, Stale, Stale, Recorded, Stale, Stale]);
    let (_, attempts) = given.store.delivery(given.organization, delivery).await.unwrap().unwrap();
    assert_eq!(attempts, [failure(1), success(2)]);
}

#[tokio::test]
async fn nothing_follows_from_a_stale_settlement() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    given.cancel(10).await;
    let mut late = settlement(delivery, given.endpoint, failure(1), dead(NOW));
    late.disables = Some(disabling());
    late.alerts = vec![alert(given.organization)];
    let version = given.config_version().await;
    assert_eq!(given.settle_one(late).await, Told::Stale);
    assert_eq!(given.store.dead_letter(given.organization, delivery).await.unwrap(), None);
    assert_eq!(given.store.pending_alerts(10).await.unwrap(), []);
    assert_eq!(given.config_version().await, version);
}

#[tokio::test]
async fn a_delivery_that_gives_up_leaves_a_dead_letter() {
    let given = Given::new().await;
    let (event, delivery) = given.published().await;
    given.settle_one(settlement(delivery, given.endpoint, failure(1), waiting(NOW))).await;
    given.settle_one(settlement(delivery, given.endpoint, failure(2), dead(after(9)))).await;
    let expected = DeadLetter {
        id: delivery,
        organization: given.organization,
        application: given.application,
        event,
        event_type: event_type("user.created"),
        endpoint: given.endpoint,
        url: "https://shop.example/hooks".to_owned(),
        last_delivery: delivery,
        status: DeadLetterStatus::Dead,
        cause: DeathCause::RetriesExhausted,
        failure_category: FailureCategory::ServerError,
        last_error: "attempt 2 was answered 503".to_owned(),
        attempts: 2,
        failures: 1,
        first_failure_at: after(9),
        last_failure_at: after(9),
        requeued_at: None,
    };
    assert_eq!(given.dead_letter(delivery).await, expected);
}

#[tokio::test]
async fn a_dead_letter_that_is_recalled_waits_again_with_fresh_attempts() {
    let given = Given::new().await;
    let dead_letter = given.died().await;
    let ReplayAnswer::Made { due, priority } = given.recall(dead_letter).await else { panic!("it is dead") };
    let due = due.expect("it waits");
    let told = given.dead_letter(dead_letter).await;
    assert_eq!((told.status, told.requeued_at, told.last_delivery), (DeadLetterStatus::Retrying, Some(after(60)), due.delivery));
    assert_eq!((priority, due.attempts, due.due_at, due.replay_of), (Priority::Normal, 0, after(60), Some(dead_letter)));
    let read = given.due(given.endpoint, after(60), 10, 0).await;
    assert_eq!(format!("{:?}", read.rows), format!("{:?}", [due]));
}

#[tokio::test]
async fn only_a_dead_letter_of_the_organization_that_is_dead_can_be_recalled() {
    let given = Given::new().await;
    let (dead_letter, _) = given.recalled().await;
    assert!(matches!(given.recall(dead_letter).await, ReplayAnswer::NotDead(DeadLetterStatus::Retrying)));
    assert!(matches!(given.recall(DeliveryId::from_uuid(id())).await, ReplayAnswer::NotFound));
    let (event, _) = given.published().await;
    let never_dead = ReplayItem { only_dead: true, ..given.replay_item(event).await };
    assert!(matches!(given.replay(vec![never_dead]).await[..], [ReplayAnswer::NotFound]));
    let item = given.replay_item(given.dead_letter(dead_letter).await.event).await;
    let stranger = Given { organization: OrganizationId::from_uuid(id()), ..given };
    assert!(matches!(stranger.replay(vec![item]).await[..], [ReplayAnswer::NotFound]));
}

#[tokio::test]
async fn a_dead_letter_is_resolved_by_the_delivery_that_brought_it_back() {
    let given = Given::new().await;
    let (dead_letter, delivery) = given.recalled().await;
    given.settle_one(replay_of(dead_letter, settlement(delivery, given.endpoint, failure(1), waiting(NOW)))).await;
    assert_eq!(given.dead_letter(dead_letter).await.status, DeadLetterStatus::Retrying);
    given.settle_one(replay_of(dead_letter, settlement(delivery, given.endpoint, success(2), DELIVERED))).await;
    let resolved = given.dead_letter(dead_letter).await;
    assert_eq!((resolved.status, resolved.attempts, resolved.failures), (DeadLetterStatus::Resolved, 3, 1));
}

#[tokio::test]
async fn a_dead_letter_that_fails_again_stays_one_dead_letter() {
    let given = Given::new().await;
    let (dead_letter, delivery) = given.recalled().await;
    given.settle_one(replay_of(dead_letter, settlement(delivery, given.endpoint, failure(1), dead(after(99))))).await;
    let again = given.dead_letter(dead_letter).await;
    assert_eq!((again.status, again.attempts, again.failures), (DeadLetterStatus::Dead, 2, 2));
    assert_eq!((again.first_failure_at, again.last_failure_at), (NOW, after(99)));
    assert_eq!(again.last_delivery, delivery);
    assert_eq!(given.store.dead_letter(given.organization, delivery).await.unwrap(), None);
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
    let expected = [cancelled, cancelled, waiting(after(3))];
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
    let request = CancelWaiting { endpoint: other, made_until: after(9), cause: CancelCause::EndpointDeleted, at: after(20), limit: 10 };
    assert_eq!(given.store.cancel_waiting(request).await.unwrap(), 0);
    assert_eq!(given.store.cancel_waiting(CancelWaiting { endpoint: given.endpoint, ..request }).await.unwrap(), 1);
    assert_eq!(given.stage(old).await, Stage::Cancelled { at: after(20), cause: CancelCause::EndpointDeleted });
    for delivery in late {
        assert_eq!(given.stage(delivery).await, waiting(after(10)));
    }
    assert_eq!(given.store.cancel_waiting(CancelWaiting { made_until: after(10), ..request }).await.unwrap(), 3);
}

#[tokio::test]
async fn a_dead_letter_whose_retry_is_cancelled_is_dead_again() {
    let given = Given::new().await;
    let (swept, _) = given.recalled().await;
    given.cancel(10).await;
    let (settled, delivery) = given.recalled().await;
    let stage = Stage::Cancelled { at: NOW, cause: CancelCause::EndpointDisabled };
    given.settle_one(replay_of(settled, settlement(delivery, given.endpoint, failure(1), stage))).await;
    for (dead_letter, attempts) in [(swept, 1), (settled, 2)] {
        let found = given.dead_letter(dead_letter).await;
        assert_eq!((found.status, found.attempts, found.failures), (DeadLetterStatus::Dead, attempts, 1));
    }
}

#[tokio::test]
async fn a_settlement_can_disable_its_endpoint_which_is_a_new_configuration() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    let version = given.config_version().await;
    let gone = Stage::Dead { at: after(7), cause: DeathCause::Gone };
    let disabling = Settlement { disables: Some(disabling()), ..settlement(delivery, given.endpoint, failure(1), gone) };
    given.settle_one(disabling).await;
    let endpoint = given.store.endpoint(given.organization, &Ref::Id(given.endpoint)).await.unwrap().unwrap();
    assert_eq!(endpoint.state, EndpointState::Disabled { at: after(7), reason: DisabledReason::Gone });
    assert!(endpoint.updated_at > NOW, "an owner's change that was based on the enabled endpoint must be refused");
    assert_eq!(given.config_version().await, version + 1);
}

#[tokio::test]
async fn an_endpoint_that_has_moved_is_not_disabled_by_what_its_old_address_answered() {
    let given = Given::new().await;
    let gone = Stage::Dead { at: after(7), cause: DeathCause::Gone };
    let (exhausted, disabled) = (alert(given.organization), disabled_alert(given.organization));
    for (url, disables) in [("https://old.example/hooks", false), ("https://shop.example/hooks", true)] {
        let (_, delivery) = given.published().await;
        let before = (given.config_version().await, given.store.pending_alerts(10).await.unwrap().len());
        let alerts = vec![Alert { id: id(), ..exhausted.clone() }, Alert { id: id(), ..disabled.clone() }];
        let settlement = settlement(delivery, given.endpoint, failure(1), gone);
        let settlement = Settlement { url: url.to_owned(), disables: Some(disabling()), alerts, ..settlement };
        assert_eq!(given.settle_one(settlement).await, Told::Recorded);
        let endpoint = given.store.endpoint(given.organization, &Ref::Id(given.endpoint)).await.unwrap().unwrap();
        assert_eq!(endpoint.state != EndpointState::Enabled, disables, "{url}");
        // Nobody is told of what did not happen.
        let after = (given.config_version().await, given.store.pending_alerts(10).await.unwrap().len());
        assert_eq!(after, (before.0 + i64::from(disables), before.1 + 1 + usize::from(disables)), "{url}");
    }
}

#[tokio::test]
async fn alerts_wait_until_they_are_told() {
    let given = Given::new().await;
    let (_, delivery) = given.published().await;
    let alerts = vec![alert(given.organization), alert(given.organization)];
    let telling = Settlement { alerts: alerts.clone(), ..settlement(delivery, given.endpoint, failure(1), dead(NOW)) };
    given.settle_one(telling).await;
    let given = given.reopened().await;
    assert_eq!(given.store.pending_alerts(10).await.unwrap(), alerts);
    assert_eq!(given.store.pending_alerts(1).await.unwrap(), alerts[..1]);
    given.store.alerts_told(vec![alerts[0].id]).await.unwrap();
    assert_eq!(given.store.pending_alerts(10).await.unwrap(), alerts[1..]);
}

fn alert(organization: OrganizationId) -> Alert {
    let event_type = event_type("message.attempt.exhausted");
    Alert { id: id(), organization, event_type, data: Bytes::from_static(b"{}") }
}

fn disabled_alert(organization: OrganizationId) -> Alert {
    Alert { event_type: event_type(Alert::ENDPOINT_DISABLED), ..alert(organization) }
}
