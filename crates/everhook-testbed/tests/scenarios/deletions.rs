//! Deleting an application or an organization while things wait for it.

use everhook_core::{
    ids::Ref,
    line::publish::PublishError,
    manage::{applications, organizations},
    model::EndpointState,
    ports::Clock,
};
use everhook_testbed::{World, faults::Kind, hours, mins, secs};

#[tokio::test]
async fn what_waits_for_a_deleted_application_is_cancelled_also_after_a_crash_and_a_failure() {
    for crashes in [false, true] {
        // Given an application with endpoints that fail, so that deliveries wait for hours.
        let mut world = World::new().await;
        let shop = world.another_application().await;
        let mut receivers = Vec::new();
        for _ in 0..3 {
            receivers.push(world.endpoint().of(shop).answering(500).retrying_after([hours(5)]).create().await);
        }
        let other = world.endpoint().create().await;
        let event = world.event("order.paid").to(shop).publish().await;
        world.pass(secs(1)).await;
        // When it is deleted, and the store fails or the process dies before more is done.
        world.faults.plan(1, Kind::Before);
        applications::delete(world.line(), &world.author(), &Ref::Id(shop)).await.expect("it is deleted");
        if crashes {
            world.crash().await;
        }
        let refused = world.event("order.paid").to(shop).try_publish().await;
        assert!(matches!(refused, Err(PublishError::NoSuchApplication)), "{refused:?}");
        world.pass(mins(1)).await;
        // Then everything that waited is cancelled, nothing more is sent, and others are as they were.
        assert_eq!(world.stages(event.event).await, ["cancelled: destination_deleted"; 3], "crashes: {crashes}");
        let next = world.event("order.paid").publish().await;
        world.pass(hours(6)).await;
        assert_eq!(world.stages(next.event).await, ["delivered"]);
        assert!(receivers.iter().all(|receiver| world.arrivals_of(receiver).len() == 1));
        assert_eq!(world.arrivals_of(&other).len(), 1);
    }
}

#[tokio::test]
async fn what_waits_for_a_deleted_organization_is_cancelled_and_its_alerts_stop_nobody() {
    let mut world = World::new().await;
    let receiver = world.endpoint().answering(500).retrying_after([hours(5)]).create().await;
    let event = world.event("order.paid").publish().await;
    world.pass(secs(1)).await;
    let refused = organizations::delete(world.line(), &world.author(), &Ref::Id(world.organization)).await;
    match refused {
        Ok(_) => {
            world.pass(mins(1)).await;
            assert_eq!(world.stages(event.event).await, ["cancelled: destination_deleted"]);
            assert_eq!(world.arrivals_of(&receiver).len(), 1);
            let late = world.event("order.paid").try_publish().await;
            assert!(matches!(late, Err(PublishError::NoSuchApplication)), "{late:?}");
        }
        Err(refused) => panic!("the world's organization is not built in: {refused}"),
    }
}

#[tokio::test]
async fn events_in_the_spool_of_a_deleted_application_are_set_aside_and_hold_up_nobody() {
    // Given events of two applications that wait for the store.
    let mut world = World::spooling(1 << 20).await;
    let (shop, other) = (world.another_application().await, world.endpoint().create().await);
    let receiver = world.endpoint().of(shop).create().await;
    world.event("order.paid").to(shop).publish().await;
    world.event("order.paid").publish().await;
    world.pass(secs(1)).await;
    world.faults.set_away(true);
    let lost = world.event("order.paid").to(shop).spool().await;
    let kept = world.event("order.paid").spool().await;
    // When one is deleted, at another node, before this one reaches the store again.
    let applications = world.bare_ports().applications;
    let entry = everhook_core::model::AuditEntry {
        id: everhook_core::ids::AuditEntryId::from_uuid(*lost.event.as_uuid()),
        organization: world.organization,
        at: everhook_core::ports::Clock::now(&*world.clock),
        actor: everhook_core::model::Actor::Server,
        action: everhook_core::model::AuditAction::ApplicationDelete,
        resource: *shop.as_uuid(),
        note: Default::default(),
    };
    applications.delete_application(world.organization, shop, entry).await.expect("the store answers");
    world.line().catalog.forget(shop);
    world.line().deletions_bell.notify_one();
    world.faults.set_away(false);
    world.pass(secs(20)).await;
    // Then its event is set aside, and the other's arrives.
    let arrived = |receiver| world.arrivals_of(receiver).into_iter().map(|arrival| arrival.event).collect::<Vec<_>>();
    assert!(arrived(&other).contains(&kept.event.to_string()));
    assert!(!arrived(&receiver).contains(&lost.event.to_string()));
    let spool = world.line().ports.spool.clone().expect("a spool");
    assert_eq!(spool.status().events, 0, "nothing waits any more");
    // While the store is away once more, nothing is taken for it.
    let refused = world.event("order.paid").to(shop).try_publish().await;
    assert!(matches!(refused, Err(PublishError::NoSuchApplication)), "{refused:?}");
    world.faults.set_away(true);
    let refused = world.event("order.paid").to(shop).accept().await;
    assert!(refused.is_err(), "{refused:?}");
    world.event("order.paid").spool().await;
    // The store stays away.
    world.leaves_work_over();
}

#[tokio::test]
async fn an_application_with_many_endpoints_is_deleted_in_steps_while_others_are_delivered_to() {
    // Given an application with two thousand endpoints, ten times what one step deletes, and another that is in use.
    const MANY: usize = 2_000;
    let mut world = World::new().await;
    let shop = world.another_application().await;
    let mut last = None;
    for _ in 0..MANY {
        last = Some(world.endpoint().of(shop).answering(500).retrying_after([hours(5)]).create().await);
    }
    let other = world.endpoint().create().await;
    let waiting = world.event("order.paid").to(shop).publish().await;
    world.pass(secs(5)).await;
    // When it is deleted.
    applications::delete(world.line(), &world.author(), &Ref::Id(shop)).await.expect("it is deleted");
    let deleted_at = Clock::now(&*world.clock);
    let published = world.event("order.paid").publish().await;
    world.pass(secs(1)).await;
    // Then the other's event is delivered meanwhile,
    assert_eq!(world.stages(published.event).await, ["delivered"]);
    assert!(world.arrivals_of(&other).iter().all(|arrival| arrival.at.since(deleted_at) < secs(1)));
    // and all endpoints are deleted, and what waited is cancelled, within seconds.
    world.pass(secs(30)).await;
    let last = Ref::Id(last.expect("many").id);
    let found = world.line().ports.endpoints.endpoint(world.organization, &last).await.expect("the store answers");
    assert!(matches!(found.expect("its row stays").state, EndpointState::Deleted { .. }));
    let stages = world.stages(waiting.event).await;
    assert_eq!((stages.len(), stages.iter().filter(|stage| *stage == "cancelled: destination_deleted").count()), (MANY, MANY));
}
