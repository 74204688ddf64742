//! What an order promises: of one key, one waits and the others are held, whatever becomes of the first.

use std::sync::Arc;

use everhook_core::{
    ids::{DeliveryId, EventId},
    model::{CancelCause, DeathCause, Order, OrderingKey, OrderingMode, Placement, Stage},
    ports::{
        CancelWaiting, EndpointUpdated, NewEvent, Recorded, Replay, ReplayAnswer, ReplayBy, ReplayItem, Replayed, Settled, Settlement,
    },
};

use super::given::{Given, NOW, after, entry, event_type, failure, settlement, success};

const STRICT: Placement = Placement { mode: OrderingMode::Strict, behind_barrier: false };
const PER_TYPE: Placement = Placement { mode: OrderingMode::PerEventType, behind_barrier: false };
const PER_KEY: Placement = Placement { mode: OrderingMode::PerKey, behind_barrier: false };

/// Publishes one event to the endpoint; says which delivery it made and whether that is held.
async fn publish(given: &Given, placement: Placement, named: &str) -> (DeliveryId, bool) {
    publish_about(given, placement, named, None).await
}

/// The same of an event with an ordering key.
async fn publish_about(given: &Given, placement: Placement, named: &str, ordering_key: Option<&str>) -> (DeliveryId, bool) {
    let mut new: NewEvent = given.event(&[given.endpoint]).await;
    new.event.event_type = event_type(named);
    new.event.ordering_key = ordering_key.map(|key| OrderingKey::parse(key).unwrap());
    new.deliveries[0].placement = placement;
    let delivery = new.deliveries[0].id;
    match given.store.record(vec![new]).await.remove(0).unwrap() {
        Recorded::Accepted { held, .. } => (delivery, held == [delivery]),
        other => panic!("{other:?}"),
    }
}

/// Ends a delivery and says what that freed.
async fn end(given: &Given, settlement: Settlement) -> Option<DeliveryId> {
    match given.store.settle(Arc::new(vec![Settlement { ordered: true, ..settlement }])).await.unwrap().remove(0) {
        Settled::Recorded { freed } => freed.map(|freed| freed.due.delivery),
        Settled::Stale => panic!("the delivery had moved on"),
    }
}

async fn event_of(given: &Given, delivery: DeliveryId) -> EventId {
    given.store.delivery(given.organization, delivery).await.unwrap().unwrap().0.event
}

fn delivered(given: &Given, delivery: DeliveryId) -> Settlement {
    settlement(delivery, given.endpoint, success(1), Stage::Delivered { at: NOW })
}

/// The deliveries that wait.
async fn waiting(given: &Given) -> Vec<DeliveryId> {
    given.due(given.endpoint, after(1_000), 100, 0).await.rows.into_iter().map(|due| due.delivery).collect()
}

#[tokio::test]
async fn in_a_strict_lane_one_waits_and_the_others_are_held_until_it_has_ended() {
    let given = Given::new().await;
    let (first, first_held) = publish(&given, STRICT, "a").await;
    let (second, second_held) = publish(&given, STRICT, "b").await;
    let (third, third_held) = publish(&given, STRICT, "a").await;
    assert_eq!([first_held, second_held, third_held], [false, true, true]);
    assert_eq!(waiting(&given).await, [first]);
    // A failed attempt frees nobody; success, death and cancellation do.
    let retry = settlement(first, given.endpoint, failure(1), Stage::Waiting { due_at: after(5) });
    assert_eq!(end(&given, retry).await, None);
    assert_eq!(waiting(&given).await, [first]);
    let dead = Stage::Dead { at: NOW, cause: DeathCause::RetriesExhausted };
    assert_eq!(end(&given, settlement(first, given.endpoint, failure(2), dead)).await, Some(second));
    assert_eq!(waiting(&given).await, [second]);
    assert_eq!(given.stage(third).await, Stage::Held);
    let given = given.reopened().await;
    assert_eq!(end(&given, delivered(&given, second)).await, Some(third));
    assert_eq!(end(&given, delivered(&given, third)).await, None);
}

#[tokio::test]
async fn in_a_lane_ordered_by_type_only_those_of_one_type_wait_for_each_other() {
    let given = Given::new().await;
    let (a1, _) = publish(&given, PER_TYPE, "a").await;
    let (a2, a2_held) = publish(&given, PER_TYPE, "a").await;
    let (b1, b1_held) = publish(&given, PER_TYPE, "b").await;
    assert_eq!((a2_held, b1_held), (true, false));
    assert_eq!(waiting(&given).await, [a1, b1]);
    assert_eq!(end(&given, delivered(&given, b1)).await, None);
    assert_eq!(end(&given, delivered(&given, a1)).await, Some(a2));
}

#[tokio::test]
async fn in_a_lane_ordered_by_key_only_those_of_one_key_wait_for_each_other() {
    let given = Given::new().await;
    let (a1, _) = publish_about(&given, PER_KEY, "a", Some("anna")).await;
    let (a2, a2_held) = publish_about(&given, PER_KEY, "b", Some("anna")).await;
    let (b1, b1_held) = publish_about(&given, PER_KEY, "a", Some("Anna")).await;
    let (c1, c1_held) = publish_about(&given, PER_KEY, "a", None).await;
    let (c2, c2_held) = publish_about(&given, PER_KEY, "a", None).await;
    assert_eq!([a2_held, b1_held, c1_held, c2_held], [true, false, false, false]);
    assert_eq!(waiting(&given).await, [a1, b1, c1, c2]);
    let given = given.reopened().await;
    assert_eq!(end(&given, delivered(&given, b1)).await, None);
    // What is done again finds its event's key, and joins at the tail.
    let dead = Stage::Dead { at: NOW, cause: DeathCause::GivenUp };
    assert_eq!(end(&given, settlement(a1, given.endpoint, failure(1), dead.clone())).await, Some(a2));
    let again = ReplayItem { placement: PER_KEY, of: Some(a1), ..given.replay_item(event_of(&given, a1).await).await };
    assert!(matches!(given.replay(vec![again]).await[..], [ReplayAnswer::Made { due: None, .. }]), "the second is before it");
    assert_eq!(end(&given, delivered(&given, a2)).await, Some(again.delivery));
    let dead = settlement(c1, given.endpoint, failure(1), dead);
    given.store.settle(Arc::new(vec![dead])).await.unwrap();
    let again = ReplayItem { placement: PER_KEY, of: Some(c1), ..given.replay_item(event_of(&given, c1).await).await };
    assert!(matches!(given.replay(vec![again]).await[..], [ReplayAnswer::Made { due: Some(_), .. }]), "it has no order");
}

#[tokio::test]
async fn behind_a_barrier_events_without_a_key_wait_too() {
    let given = Given::new().await;
    set_mode(&given, OrderingMode::PerKey).await;
    let (first, _) = publish_about(&given, PER_KEY, "a", None).await;
    assert_eq!(set_mode(&given, OrderingMode::Strict).await, EndpointUpdated::Updated);
    assert_eq!(set_mode(&given, OrderingMode::PerKey).await, EndpointUpdated::OrderSettles);
    let behind = Placement { behind_barrier: true, ..PER_KEY };
    let (bare, bare_held) = publish_about(&given, behind, "a", None).await;
    let (keyed, keyed_held) = publish_about(&given, behind, "a", Some("anna")).await;
    assert!(bare_held && keyed_held);
    given.store.settle(Arc::new(vec![delivered(&given, first)])).await.unwrap();
    assert_eq!(sorted(given.store.free_heads(after(2)).await.unwrap().deliveries), sorted(vec![bare, keyed]));
}

/// More than a look steps over.
#[tokio::test]
async fn however_many_keys_have_anything_held_each_is_looked_at_in_its_turn() {
    const KEYS: usize = 6_000;
    let given = Given::new().await;
    let mut events = Vec::new();
    for n in 0..2 * KEYS {
        let mut new = given.event(&[given.endpoint]).await;
        new.event.ordering_key = OrderingKey::parse(&format!("customer-{:05}", n % KEYS));
        new.deliveries[0].placement = PER_KEY;
        // The second of each stays when the first are cancelled.
        new.made_at = if n < KEYS { NOW } else { after(60) };
        events.push(new);
    }
    let of_last = events.last().unwrap().deliveries[0].id;
    given.record_all(events).await;
    assert_eq!(given.store.free_heads(after(61)).await.unwrap().deliveries, [], "each is behind another");
    let cause = CancelCause::EndpointDisabled;
    let cancel = CancelWaiting { lane_id: given.endpoint.into(), made_until: after(30), cause, at: after(30), limit: 2_000 };
    while given.store.cancel_waiting(cancel).await.unwrap() > 0 {}
    let mut freed = 0;
    for _ in 0..2 * KEYS {
        let look = given.store.free_heads(after(61)).await.unwrap();
        freed += look.deliveries.len();
        if freed == KEYS {
            break;
        }
    }
    assert_eq!(freed, KEYS);
    assert_eq!(given.stage(of_last).await, Stage::Waiting { due_at: after(61) });
}

#[tokio::test]
async fn a_dead_letter_that_is_brought_back_joins_at_the_tail() {
    let given = Given::new().await;
    let (first, _) = publish(&given, STRICT, "a").await;
    let (second, _) = publish(&given, STRICT, "a").await;
    let dead = Stage::Dead { at: NOW, cause: DeathCause::GivenUp };
    end(&given, settlement(first, given.endpoint, failure(1), dead)).await;
    let item = ReplayItem { placement: STRICT, of: Some(first), ..given.replay_item(event_of(&given, first).await).await };
    let replay = item.delivery;
    let stale = ReplayItem { config_version: item.config_version - 1, ..item };
    let asked = Replay { organization: given.organization, by: ReplayBy::Hand, items: vec![stale], at: NOW };
    assert!(matches!(given.store.replay(asked).await.unwrap(), Replayed::ConfigChanged(_)));
    assert!(matches!(given.replay(vec![item]).await[..], [ReplayAnswer::Made { due: None, .. }]), "the second is before it");
    let (third, _) = publish(&given, STRICT, "a").await;
    assert_eq!(end(&given, delivered(&given, second)).await, Some(replay));
    assert_eq!(end(&given, delivered(&given, replay)).await, Some(third));
}

#[tokio::test]
async fn what_is_held_is_cancelled_with_its_endpoint_and_what_came_later_is_freed() {
    let given = Given::new().await;
    let (first, _) = publish(&given, STRICT, "a").await;
    let (second, _) = publish(&given, STRICT, "a").await;
    let mut late = given.event(&[given.endpoint]).await;
    late.made_at = after(60);
    late.deliveries[0].placement = STRICT;
    let third = late.deliveries[0].id;
    given.store.record(vec![late]).await.remove(0).unwrap();
    let cause = CancelCause::EndpointDisabled;
    let cancel = CancelWaiting { lane_id: given.endpoint.into(), made_until: after(30), cause, at: after(30), limit: 1 };
    for expected in [1, 1, 0] {
        assert_eq!(given.store.cancel_waiting(cancel).await.unwrap(), expected);
    }
    for delivery in [first, second] {
        assert_eq!(given.stage(delivery).await, Stage::Cancelled { at: after(30), cause });
    }
    assert_eq!(given.stage(third).await, Stage::Held);
    assert_eq!(given.store.free_heads(after(61)).await.unwrap().deliveries, [third]);
    assert_eq!(given.stage(third).await, Stage::Waiting { due_at: after(61) });
    assert_eq!(given.store.free_heads(after(62)).await.unwrap().deliveries, []);
}

#[tokio::test]
async fn after_a_change_of_mode_new_work_waits_until_what_was_open_has_ended() {
    use OrderingMode::{None as Unordered, PerKey, Strict};
    for (from, to) in [(Unordered, Strict), (Strict, Unordered), (Strict, PerKey)] {
        let given = Given::new().await;
        let before = Placement { mode: from, behind_barrier: false };
        set_mode(&given, from).await;
        let (first, _) = publish(&given, before, "a").await;
        let (second, second_held) = publish(&given, before, "a").await;
        assert_eq!(second_held, from == OrderingMode::Strict);
        assert_eq!(set_mode(&given, to).await, EndpointUpdated::Updated);
        let endpoint = given.store.endpoint(given.organization, &everhook_core::ids::Ref::Id(given.endpoint)).await.unwrap().unwrap();
        let after_change = Placement::of(endpoint.ordering);
        assert_eq!(after_change, Placement { mode: to, behind_barrier: true });
        let (third, third_held) = publish(&given, after_change, "a").await;
        let (fourth, fourth_held) = publish(&given, after_change, "a").await;
        assert!(third_held && fourth_held);
        assert_eq!(set_mode(&given, OrderingMode::PerEventType).await, EndpointUpdated::OrderSettles);
        end(&given, delivered(&given, first)).await;
        assert_eq!(given.store.free_heads(after(1)).await.unwrap().deliveries, [], "{from:?} to {to:?}: the second is open");
        assert_eq!(end(&given, delivered(&given, second)).await, None);
        let freed = given.store.free_heads(after(2)).await.unwrap();
        // The events of this test have no ordering key.
        let expected = if to == OrderingMode::Strict { vec![third] } else { vec![third, fourth] };
        assert_eq!(sorted(freed.deliveries), sorted(expected), "{from:?} to {to:?}");
        assert_eq!(freed.applications, [given.application]);
        assert_eq!(set_mode(&given, OrderingMode::PerEventType).await, EndpointUpdated::Updated, "it can be changed again");
    }
}

#[tokio::test]
async fn a_change_that_somebody_else_was_faster_with_leaves_the_order_alone() {
    let given = Given::new().await;
    publish(&given, Placement::default(), "a").await;
    let of = everhook_core::ids::Ref::Id(given.endpoint);
    let mut endpoint = given.store.endpoint(given.organization, &of).await.unwrap().unwrap();
    endpoint.ordering.mode = OrderingMode::Strict;
    assert_eq!(given.store.update_endpoint(endpoint, after(1_000), entry()).await.unwrap(), EndpointUpdated::Changed);
    let endpoint = given.store.endpoint(given.organization, &of).await.unwrap().unwrap();
    assert_eq!(endpoint.ordering, everhook_core::model::Ordering::default());
}

fn sorted(mut deliveries: Vec<DeliveryId>) -> Vec<DeliveryId> {
    deliveries.sort();
    deliveries
}

async fn set_mode(given: &Given, mode: OrderingMode) -> EndpointUpdated {
    let of = everhook_core::ids::Ref::Id(given.endpoint);
    let mut endpoint = given.store.endpoint(given.organization, &of).await.unwrap().unwrap();
    let read_at = endpoint.updated_at;
    endpoint.ordering.mode = mode;
    endpoint.updated_at = everhook_core::time::Timestamp::from_micros(read_at.as_micros() + 1);
    given.store.update_endpoint(endpoint, read_at, entry()).await.unwrap()
}

#[tokio::test]
async fn whoever_hands_out_a_delivery_says_what_must_not_be_under_way_together_with_it() {
    let cases = [
        ("strict", STRICT, Some(Order::Lane)),
        ("by type", PER_TYPE, Some(Order::of_key("a"))),
        ("without an order", Placement::default(), None),
    ];
    for (case, placement, expected) in cases {
        let given = Given::new().await;
        let (first, _) = publish(&given, placement, "a").await;
        let (second, is_held) = publish(&given, placement, "a").await;
        let read = async || given.due(given.endpoint, after(1_000), 100, 0).await.rows.into_iter().map(|due| (due.delivery, due.order));
        assert_eq!(read().await.next(), Some((first, expected)), "{case}, read");
        // What settling frees says the same, and so does what is done again.
        let ended = Settlement { ordered: is_held, ..delivered(&given, first) };
        let settled = given.store.settle(Arc::new(vec![ended])).await.unwrap().remove(0);
        let Settled::Recorded { freed } = settled else { panic!("{settled:?}") };
        let freed = freed.map(|freed| (freed.due.delivery, freed.due.order));
        assert_eq!(freed, is_held.then_some((second, expected)), "{case}, freed");
        end(&given, delivered(&given, second)).await;
        let item = ReplayItem { placement, of: Some(first), ..given.replay_item(event_of(&given, first).await).await };
        let made = given.replay(vec![item]).await.remove(0);
        let ReplayAnswer::Made { due: Some(due), .. } = made else { panic!("{made:?}") };
        assert_eq!((due.order, read().await.next()), (expected, Some((due.delivery, expected))), "{case}, done again");
    }
}
