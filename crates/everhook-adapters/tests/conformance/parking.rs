//! What a parking promises, for every kind of lane: not attempted, not ended, found by what it waits for, and never forgotten.

use everhook_core::{
    ids::DeliveryId,
    model::{
        AfterExpiry, Attempt, AttemptStatus, CancelCause, Cursor, Expiry, OrderingMode, PageRequest, Parking, Placement, ShardSet, Stage,
        WaitsFor,
    },
    ports::{
        BringForward, BroughtForward, CancelDelivery, CancelWaiting, DeliveryCancelled, DeliveryFilter, DeliveryStatus, History, NewEvent,
        Release, ReplayAnswer, RetentionClass, Settlement, Unparked,
    },
    time::Timestamp,
};

use super::{
    delivery_queue::{DELIVERED, Told},
    given::{Given, NOW, after, entry, failure, settlement, success},
    lane_kinds::KINDS,
};

fn name(text: &str) -> WaitsFor {
    WaitsFor::parse(text).unwrap()
}

fn parked(waits_for: &str, expiry: Option<(u64, AfterExpiry)>) -> Stage {
    let expiry = expiry.map(|(secs, then)| Expiry { at: after(secs), then });
    Stage::Parked(Parking { waits_for: name(waits_for), expiry })
}

/// An attempt that found that something must come first, begun at an instant.
fn parking(number: u32, executed_at: Timestamp) -> Attempt {
    let (error, scheduled_at) = (Some("waits for it".to_owned()), executed_at);
    Attempt { status: AttemptStatus::Parked, error, scheduled_at, picked_at: scheduled_at, executed_at, ..success(number) }
}

impl Given {
    /// Parks a delivery by its next attempt.
    async fn park(&self, delivery: DeliveryId, number: u32, stage: Stage) {
        let settlement = settlement(delivery, self.endpoint, parking(number, NOW), stage);
        assert_eq!(self.settle_one(settlement).await, Told::Recorded);
    }

    /// Publishes an event, and parks its delivery.
    async fn parked(&self, waits_for: &str, expiry: Option<(u64, AfterExpiry)>) -> DeliveryId {
        let (_, delivery) = self.published().await;
        self.park(delivery, 1, parked(waits_for, expiry)).await;
        delivery
    }

    async fn release(&self, waits_for: &str, at: Timestamp, limit: u32) -> (Vec<DeliveryId>, bool) {
        let release = Release { organization: self.organization, waits_for: name(waits_for), at, limit };
        ids(self.store.release(release).await.unwrap())
    }

    async fn all_due(&self) -> Vec<DeliveryId> {
        self.due(self.endpoint, after(100_000), 100, 0).await.rows.into_iter().map(|due| due.delivery).collect()
    }
}

fn ids(unparked: Unparked) -> (Vec<DeliveryId>, bool) {
    (unparked.deliveries.into_iter().map(|one| one.freed.due.delivery).collect(), unparked.may_be_more)
}

#[tokio::test]
async fn a_parked_delivery_is_shown_and_not_attempted_until_what_it_waits_for_is_there() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let stage = parked("user ü", Some((60, AfterExpiry::GivesUp)));
        let (_, delivery) = given.published().await;
        given.park(delivery, 1, stage.clone()).await;
        let given = given.reopened().await;
        assert_eq!(given.all_due().await, [], "{kind}");
        assert_eq!(given.store.lanes(ShardSet::ALL).await.unwrap(), [], "{kind}");
        let (found, attempts) = given.store.delivery(given.organization, delivery).await.unwrap().expect(kind);
        assert_eq!((found.stage, found.attempts, found.last_error.as_deref()), (stage, 1, Some("waits for it")), "{kind}");
        assert_eq!(attempts, [parking(1, NOW)], "{kind}");
        let backlog = given.store.waiting_backlog(given.endpoint.into(), 10).await.unwrap();
        assert_eq!((backlog.count, backlog.parked), (1, 1), "{kind}");
        let page = PageRequest { limit: 10, cursor: Cursor::Newest };
        for (status, listed) in [(DeliveryStatus::Parked, 1), (DeliveryStatus::Pending, 0), (DeliveryStatus::Waiting, 0)] {
            let filter = DeliveryFilter { status: Some(status), endpoint: Some(given.endpoint), ..DeliveryFilter::default() };
            let found = given.store.deliveries(given.organization, filter, page).await.unwrap().rows;
            assert_eq!(found.len(), listed, "{kind}, {status:?}");
        }
        // An outcome that comes late does not move it.
        let late = settlement(delivery, given.endpoint, success(2), DELIVERED);
        assert_eq!(given.settle_one(late.clone()).await, Told::Stale, "{kind}");
        assert_eq!(given.release("user ü", after(5), 10).await, (vec![delivery], false), "{kind}");
        assert_eq!(given.stage(delivery).await, Stage::Waiting { due_at: after(5) }, "{kind}");
        let due = given.due(given.endpoint, after(5), 10, 0).await.rows.remove(0);
        assert_eq!((due.attempts, due.parkings, due.expired), (1, 1, None), "{kind}");
        assert_eq!(given.settle_one(late).await, Told::Recorded, "{kind}");
    }
}

#[tokio::test]
async fn a_release_is_of_one_organization_and_one_name_and_goes_on_in_steps() {
    let given = Given::new().await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(given.parked("a", None).await);
    }
    let other = given.parked("b", None).await;
    let stranger = super::given::organization();
    let organization = stranger.organization.id;
    given.store.create_organization(stranger, entry()).await.unwrap();
    let foreign = Release { organization, waits_for: name("a"), at: after(1), limit: 10 };
    assert_eq!(ids(given.store.release(foreign).await.unwrap()), (vec![], false));
    assert_eq!(given.release("a", after(2), 2).await, (waiting[..2].to_vec(), true));
    // The process ends here: the rest is released all the same.
    let given = given.reopened().await;
    assert_eq!(ids(given.store.resume_releases(after(3), 2).await.unwrap()), (waiting[2..4].to_vec(), true));
    assert_eq!(ids(given.store.resume_releases(after(4), 2).await.unwrap()).0, waiting[4..]);
    assert_eq!(given.all_due().await, waiting);
    assert_eq!(given.stage(other).await, parked("b", None));
}

#[tokio::test]
async fn what_is_parked_for_something_that_came_during_its_attempt_waits_again_at_once() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let (_, delivery) = given.published().await;
        assert_eq!(given.release("a", after(1), 10).await, (vec![], false), "{kind}");
        // Its attempt was begun before.
        given.park(delivery, 1, parked("a", None)).await;
        assert!(matches!(given.stage(delivery).await, Stage::Waiting { .. }), "{kind}");
        let due = given.due(given.endpoint, after(60), 10, 0).await.rows.remove(0);
        assert_eq!((due.attempts, due.parkings), (1, 1), "{kind}");
        // The next one was begun after: it waits for the next time that it comes.
        let again = settlement(delivery, given.endpoint, parking(2, after(2)), parked("a", None));
        assert_eq!(given.settle_one(again).await, Told::Recorded, "{kind}");
        assert_eq!(given.stage(delivery).await, parked("a", None), "{kind}");
        // A second look finds what was parked at the moment of the release, and a week later all of that is forgotten.
        assert_eq!(ids(given.store.resume_releases(after(60), 10).await.unwrap()), (vec![delivery], false), "{kind}");
        given.release("b", after(700_000), 10).await;
        given.store.resume_releases(after(701_000), 10).await.unwrap();
        let late = settlement(delivery, given.endpoint, parking(3, NOW), parked("a", None));
        assert_eq!(given.settle_one(late).await, Told::Recorded, "{kind}");
        assert_eq!(given.stage(delivery).await, parked("a", None), "{kind}: that it came is forgotten");
    }
}

#[tokio::test]
async fn a_parking_whose_time_is_over_ends_as_it_said() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let fails = given.parked("a", Some((60, AfterExpiry::Fails))).await;
        let gives_up = given.parked("a", Some((70, AfterExpiry::GivesUp))).await;
        let patient = given.parked("a", None).await;
        assert_eq!(ids(given.store.expire(after(59), 10).await.unwrap()), (vec![], false), "{kind}");
        assert_eq!(ids(given.store.expire(after(100), 1).await.unwrap()), (vec![fails], true), "{kind}");
        assert_eq!(ids(given.store.expire(after(100), 10).await.unwrap()), (vec![gives_up], false), "{kind}");
        let given = given.reopened().await;
        let due = given.due(given.endpoint, after(100), 10, 0).await.rows;
        let told: Vec<_> = due.iter().map(|due| (due.delivery, due.expired, due.parkings)).collect();
        assert_eq!(told, [(fails, Some(AfterExpiry::Fails), 1), (gives_up, Some(AfterExpiry::GivesUp), 1)], "{kind}");
        // What follows is an attempt like any other; then it is parked no longer.
        let retry = settlement(fails, given.endpoint, failure(2), Stage::Waiting { due_at: after(200) });
        assert_eq!(given.settle_one(retry).await, Told::Recorded, "{kind}");
        let due = given.due(given.endpoint, after(300), 10, 0).await.rows;
        assert_eq!(due.iter().find(|due| due.delivery == fails).map(|due| due.expired), Some(None), "{kind}");
        assert_eq!(given.stage(patient).await, parked("a", None), "{kind}");
    }
}

#[tokio::test]
async fn one_that_waited_for_the_time_alone_is_attempted_when_it_has_come() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let delivery = given.parked("limit:strava", Some((60, AfterExpiry::TriesAgain))).await;
        assert_eq!(given.stage(delivery).await, parked("limit:strava", Some((60, AfterExpiry::TriesAgain))), "{kind}");
        assert_eq!(ids(given.store.expire(after(60), 10).await.unwrap()), (vec![delivery], false), "{kind}");
        let due = given.due(given.endpoint, after(100), 10, 0).await.rows;
        let told: Vec<_> = due.iter().map(|due| (due.delivery, due.expired, due.attempts, due.parkings)).collect();
        assert_eq!(told, [(delivery, None, 1, 1)], "{kind}: its schedule has not begun");
    }
}

#[tokio::test]
async fn the_next_look_is_due_when_a_parking_is_over_or_a_release_is_looked_at_again() {
    let given = Given::new().await;
    let next = async || given.store.next_look().await.unwrap();
    given.parked("forever", None).await;
    assert_eq!(next().await, None);
    given.parked("later", Some((90, AfterExpiry::Fails))).await;
    given.parked("sooner", Some((60, AfterExpiry::Fails))).await;
    assert_eq!(next().await, Some(after(60)));
    // That something came is looked at once more a little later, and then no more.
    given.release("it", after(5), 10).await;
    assert!(next().await.is_some_and(|at| at > after(5) && at < after(60)));
    given.store.resume_releases(after(50), 10).await.unwrap();
    assert_eq!(next().await, Some(after(60)));
    given.store.expire(after(60), 10).await.unwrap();
    assert_eq!(next().await, Some(after(90)));
}

#[tokio::test]
async fn those_behind_a_parked_one_stay_held_and_one_can_be_cancelled_like_any_other() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let mut made = Vec::new();
        for _ in 0..3 {
            let mut new: NewEvent = given.event(&[given.endpoint]).await;
            new.deliveries[0].placement = Placement { mode: OrderingMode::Strict, behind_barrier: false };
            made.push(new.deliveries[0].id);
            given.record(new).await;
        }
        let ordered = Settlement { ordered: true, ..settlement(made[0], given.endpoint, parking(1, NOW), parked("a", None)) };
        assert_eq!(given.settle_one(ordered).await, Told::Recorded, "{kind}");
        assert_eq!(given.store.free_heads(after(1)).await.unwrap().deliveries, [], "{kind}");
        assert_eq!(given.stage(made[1]).await, Stage::Held, "{kind}");
        let forward = BringForward { deliveries: vec![(given.endpoint.into(), made[0])], at: after(2), entry: entry() };
        assert_eq!(given.store.bring_forward(forward).await.unwrap(), [BroughtForward::Parked], "{kind}");
        let event = given.store.delivery(given.organization, made[0]).await.unwrap().unwrap().0.event;
        let item = everhook_core::ports::ReplayItem { of: Some(made[0]), ..given.replay_item(event).await };
        assert!(matches!(given.replay(vec![item]).await[..], [ReplayAnswer::Open]), "{kind}");
        let cancel = CancelDelivery {
            delivery: made[0],
            lane_id: given.endpoint.into(),
            application: given.application,
            cause: CancelCause::ByPerson,
            at: after(3),
            entry: entry(),
        };
        let DeliveryCancelled::Cancelled { freed } = given.store.cancel_delivery(cancel).await.unwrap() else { panic!("{kind}") };
        assert_eq!(freed.map(|freed| freed.due.delivery), Some(made[1]), "{kind}");
        assert_eq!(given.release("a", after(4), 10).await.0, [], "{kind}: it has ended");
    }
}

#[tokio::test]
async fn closing_and_erasing_end_what_is_parked_and_retention_keeps_it() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let (event, erased) = given.published().await;
        given.park(erased, 1, parked("a", None)).await;
        given.erase(event).await;
        assert!(matches!(given.stage(erased).await, Stage::Cancelled { cause: CancelCause::Erased, .. }), "{kind}");
        let (event, kept) = given.published().await;
        given.park(kept, 1, parked("a", None)).await;
        given.purge(RetentionClass::Events, after(1_000)).await;
        assert!(History::event(&*given.store, given.organization, event).await.unwrap().is_some(), "{kind}");
        let (made_until, cause, at) = (after(60), CancelCause::DestinationDeleted, after(5));
        let cancel = CancelWaiting { lane_id: given.endpoint.into(), made_until, cause, at, limit: 10 };
        assert_eq!(given.store.cancel_waiting(cancel).await.unwrap(), 1, "{kind}");
        assert_eq!(given.stage(kept).await, Stage::Cancelled { at, cause }, "{kind}");
    }
}
