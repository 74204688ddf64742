//! Publishing: matching, idempotency, sequence.

use everhook_core::{
    ids::ApplicationId,
    line::{
        publish::{Acceptance, Publication, PublishError, Published, publish},
        request::header,
    },
    model::EventTypePattern,
    ports::{Clock as _, KeyReused},
};
use everhook_testbed::{Answer, World, faults::Kind, hours, mins, secs};

#[tokio::test]
async fn an_event_reaches_every_endpoint_that_wants_it() {
    let mut world = World::new().await;
    let everything = world.endpoint().create().await;
    let orders = world.endpoint().wanting("order.*").create().await;
    let refunds = world.endpoint().wanting("order.refunded").create().await;
    let event = world.event("order.paid").publish().await;
    world.pass(secs(1)).await;
    assert_eq!(event.deliveries, 2);
    let arrived = [&everything, &orders, &refunds].map(|receiver| world.arrivals_of(receiver).len());
    assert_eq!(arrived, [1, 1, 0]);
}

#[tokio::test]
async fn the_same_key_is_the_same_event_for_a_day() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    let first = world.event("order.paid").keyed("k-1").publish().await;
    let again = world.event("order.paid").keyed("k-1").publish().await;
    assert_eq!(again, Published { duplicate: true, ..first });
    world.pass(hours(25)).await;
    let later = world.event("order.paid").keyed("k-1").publish().await;
    assert!(!later.duplicate && later.event != first.event);
    world.pass(secs(1)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 2);
}

#[tokio::test]
async fn another_event_under_the_same_key_is_refused_and_not_swallowed() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    let first = world.event("order.paid").keyed("k-1").publish().await;
    let made = world.event("order.paid").publish().await;
    let reused = |original| PublishError::KeyReused(KeyReused { original, is_erased: false }).to_string();
    for (other, original) in [
        (world.event("order.paid").keyed("k-1").data("{\"other\":true}"), first.event),
        (world.event("order.refunded").keyed("k-1"), first.event),
        (world.event("order.refunded").keyed(&made.event.to_string()), made.event),
    ] {
        let refusal = other.try_publish().await.expect_err("it is another event");
        assert_eq!(refusal.to_string(), reused(original));
    }
    // In one batch, too: the first has the key, and what says the same as the first is its duplicate.
    let batch = ["1", "2", "1"].map(|data| world.event("order.paid").keyed("k-2").data(data).publication());
    let answers = publish(world.line(), batch.to_vec()).await;
    assert!(matches!(answers[..], [Ok(_), Err(PublishError::KeyReused(_)), Ok(_)]), "{answers:?}");
    assert!(answers[2].as_ref().is_ok_and(Acceptance::is_duplicate));
    // Whatever is not compared may differ.
    let again = world.event("order.paid").keyed("k-1").label("try", "2").publish().await;
    assert_eq!(again, Published { duplicate: true, ..first });
    world.pass(secs(1)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 3);
}

#[tokio::test]
async fn nobody_but_everhook_publishes_to_the_operational_application() {
    let mut world = World::new().await;
    let forged = world.event("message.attempt.exhausted").to(world.operational).try_publish().await;
    assert!(matches!(forged, Err(PublishError::Operational)), "{forged:?}");
    world.pass(secs(1)).await;
    assert_eq!(world.operational_types().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_key_that_we_made_is_as_good_as_one_that_was_given() {
    let mut world = World::new().await;
    world.endpoint().create().await;
    let first = world.event("order.paid").publish().await;
    let again = world.event("order.paid").keyed(&first.event.to_string()).publish().await;
    assert_eq!(again, Published { duplicate: true, ..first });
}

#[tokio::test]
async fn an_endpoint_made_between_two_events_gets_the_second() {
    let mut world = World::new().await;
    world.endpoint().create().await;
    assert_eq!(world.event("order.paid").publish().await.deliveries, 1);
    world.endpoint().create().await;
    assert_eq!(world.event("order.paid").publish().await.deliveries, 2);
}

#[tokio::test]
async fn what_was_recorded_of_a_batch_is_accepted_and_sent_though_the_rest_failed() {
    // Given a store that fails in the middle of a batch.
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    let batch: Vec<_> = (0..4).map(|n| world.event("order.paid").keyed(&format!("order-{n}")).publication()).collect();
    world.faults.plan(0, Kind::Midway);
    // When it is published.
    let answers = publish(world.line(), batch.clone()).await;
    world.settle_down().await;
    // Then the first half is accepted and sent at once, and the publisher is told to bring the rest again.
    assert!(matches!(answers[..], [Ok(_), Ok(_), Err(PublishError::Store(_)), Err(PublishError::Store(_))]), "{answers:?}");
    assert_eq!(world.arrivals_at(&endpoint), [secs(0); 2]);
    // When the whole batch comes again, each event has been published once.
    let again: Vec<_> = publish(world.line(), batch).await.into_iter().map(|answer| answer.expect("accepted").is_duplicate()).collect();
    assert_eq!(again, [true, true, false, false]);
    world.pass(secs(1)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 4);
}

#[tokio::test]
async fn an_event_for_no_application_takes_none_of_its_batch_down() {
    let world = World::new().await;
    let good = world.event("order.paid").publication();
    let stray = Publication { application: ApplicationId::from_uuid(*world.organization.as_uuid()), ..good.clone() };
    let answers = publish(world.line(), vec![good.clone(), stray, good]).await;
    assert!(matches!(answers[..], [Ok(_), Err(PublishError::NoSuchApplication), Ok(_)]), "{answers:?}");
}

#[tokio::test]
async fn sequence_numbers_rise() {
    let world = World::new().await;
    let mut last = 0;
    for _ in 0..10 {
        let number = world.event("order.paid").publish().await.sequence_number;
        assert!(number > last, "{number} after {last}");
        last = number;
    }
}

#[tokio::test]
async fn an_events_own_headers_are_sent_with_every_attempt_also_after_a_restart() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering_in_turn([Answer::Status(500)]).adding("X-Team", "the endpoint's").create().await;
    world.event("order.paid").header("x-team", "the event's").header("X-Batch", "7").publish().await;
    world.settle_down().await;
    world.crash().await;
    world.pass(mins(1)).await;
    let arrivals = world.arrivals_of(&endpoint);
    assert_eq!(arrivals.len(), 2);
    for arrival in arrivals {
        let sent = |name: &str| arrival.request.headers.iter().filter(|(known, _)| known == name).count();
        assert_eq!((sent("x-team"), sent("x-batch")), (1, 1));
        assert_eq!(header(&arrival.request.headers, "x-team"), Some("the endpoint's"));
        assert_eq!(header(&arrival.request.headers, "x-batch"), Some("7"));
    }
}

#[tokio::test]
async fn an_event_goes_once_to_each_endpoint_one_of_whose_patterns_wants_it() {
    let mut world = World::new().await;
    for patterns in ["order.paid", "order.*", "order.paid.*", "*", "order", "Order.*"] {
        world.endpoint().wanting(patterns).create().await;
    }
    let both = world.endpoint().wanting("order.*").create().await;
    world
        .change(&both, |endpoint| endpoint.event_types.extend(["*", "order.paid"].map(|text| EventTypePattern::parse(text).unwrap())))
        .await;
    for (event_type, deliveries) in
        [("order.paid", 4), ("order.paid.late", 4), ("order.", 3), ("order", 3), ("orders.paid", 2), ("user.created", 2)]
    {
        assert_eq!(world.event(event_type).publish().await.deliveries, deliveries, "{event_type}");
    }
}

#[tokio::test]
async fn a_batch_for_many_endpoints_is_recorded_in_parts_and_in_order() {
    // Given so many endpoints that a batch makes more deliveries than are made at once. They are paused: nothing is sent.
    let mut world = World::new().await;
    for _ in 0..150 {
        let receiver = world.endpoint().create().await;
        let now = world.clock.now();
        world.change(&receiver, |endpoint| endpoint.paused_at = Some(now)).await;
    }
    // When it is published, with one event in the middle that is refused.
    let batch = (0..200).map(|n| {
        let event = world.event("order.paid").keyed(&format!("key {n}"));
        let event = if n == 150 { event.keyed("key 1").data("2") } else { event };
        event.publication()
    });
    let answers = publish(world.line(), batch.collect()).await;
    // Then each is answered in its place, and the numbers rise.
    assert_eq!(answers.len(), 200);
    let mut numbers = Vec::new();
    for (n, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(Acceptance::Recorded(published)) => {
                assert_eq!((published.deliveries, published.duplicate), (150, false), "event {n}");
                numbers.push(published.sequence_number);
            }
            other => assert!(n == 150 && matches!(other, Err(PublishError::KeyReused(_))), "event {n}: {other:?}"),
        }
    }
    assert!(numbers.len() == 199 && numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}
