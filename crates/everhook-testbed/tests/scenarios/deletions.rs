//! Deleting an application or an organization while things wait for it.

use std::time::Duration;

use everhook_core::{
    ids::{ApplicationId, AuditEntryId, OperationId, OrganizationId, Ref},
    line::publish::PublishError,
    manage::{Conflict, Refusal, applications, operations, organizations},
    model::{
        Actor, AuditAction, AuditEntry, AuditNote, Cursor, EndpointState, ErasureSelection, Operation, OperationKind, OperationStatus,
        PageRequest, Priority, Selection,
    },
    ports::{Clock, Deletion},
};
use everhook_testbed::{World, faults::Kind, hours, mins, secs};

/// What another node writes with the deletion of an application.
pub(super) fn deletion_of(world: &World, application: ApplicationId) -> Deletion {
    let now = Clock::now(&*world.clock);
    let entry = AuditEntry {
        id: AuditEntryId::from_uuid(*application.as_uuid()),
        organization: world.organization,
        at: now,
        actor: Actor::Server,
        action: AuditAction::ApplicationDelete,
        resource: *application.as_uuid(),
        note: AuditNote::default(),
    };
    let operation = Operation {
        id: OperationId::from_uuid(*application.as_uuid()),
        organization: world.organization,
        application: Some(application),
        endpoint: None,
        kind: OperationKind::DeleteData,
        status: OperationStatus::Pending,
        total: 0,
        done: 0,
        failed: 0,
        skipped: 0,
        rate: None,
        priority: Priority::Low,
        start_at: None,
        created_at: now,
        started_at: None,
        finished_at: None,
    };
    let all = ErasureSelection { deleted_organization: None, application: Some(application), label: None, from: None, to: now + hours(1) };
    Deletion { entry, operation, selection: Selection::Erasure(all) }
}

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
    applications.delete_application(world.organization, shop, deletion_of(&world, shop)).await.expect("the store answers");
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

/// The only operation that erases what something deleted has left, as an organization sees it.
async fn erasing_operation(world: &World, organization: OrganizationId) -> Operation {
    let page = PageRequest { limit: 10, cursor: Cursor::Newest };
    let found = world.line().ports.operations.operations(organization, None, page).await.expect("the store answers").rows;
    let mut found = found.into_iter().filter(|operation| operation.kind == OperationKind::DeleteData);
    let operation = found.next().expect("one has begun");
    assert!(found.next().is_none(), "one has begun and no more");
    operation
}

#[tokio::test]
async fn the_data_of_a_deleted_applications_events_is_erased_wherever_the_process_dies() {
    const EVENTS: usize = 60;
    // The operation begins after a minute: at which of its calls the store fails then.
    for failing_call in 0..8 {
        // Given events of an application, of which one waits, and an event of another.
        let mut world = World::new().await;
        let shop = world.another_application().await;
        world.endpoint().of(shop).answering(500).retrying_after([hours(5)]).create().await;
        world.endpoint().create().await;
        let kept = world.event("order.paid").publish().await;
        let mut events = Vec::new();
        for _ in 0..EVENTS {
            events.push(world.event("order.paid").to(shop).publish().await.event);
        }
        world.pass(secs(1)).await;
        // When the application is deleted, and the process dies at once, and again while the events are erased: a call of the store fails, before it is
        // repeated the process is gone.
        applications::delete(world.line(), &world.author(), &Ref::Id(shop)).await.expect("it is deleted");
        world.crash().await;
        world.pass(secs(59)).await;
        if failing_call > 0 {
            world.faults.plan(failing_call, if failing_call % 2 == 0 { Kind::After } else { Kind::Before });
        }
        world.pass(Duration::from_millis(1_500)).await;
        world.crash().await;
        let begun = erasing_operation(&world, world.organization).await;
        // Then its operation cannot be cancelled,
        if !begun.status.is_over() {
            let refused = operations::cancel(world.line(), &world.author(), begun.id).await;
            assert!(matches!(refused, Err(Refusal::Conflict(Conflict::OperationRequired, _))), "{refused:?}");
        }
        world.pass(mins(5)).await;
        // erases each event once and no other's, and is finished.
        let ended = erasing_operation(&world, world.organization).await;
        assert_eq!((ended.application, ended.status), (Some(shop), OperationStatus::Finished), "call {failing_call}");
        assert_eq!((ended.done + ended.skipped, ended.failed), (EVENTS as u64, 0), "call {failing_call}");
        for event in events {
            let found = world.line().ports.history.event(world.organization, event).await.expect("the store answers");
            let (summary, data) = found.expect("its row stays");
            assert!(data.is_none() && summary.erased_at.is_some(), "call {failing_call}: {event} has its data");
        }
        let found = world.line().ports.history.event(world.organization, kept.event).await.expect("the store answers");
        assert!(found.expect("it is there").1.is_some(), "the other application's event has lost its data");
    }
}

#[tokio::test]
async fn the_data_of_a_deleted_organization_is_erased_by_an_operation_of_the_default_one() {
    let mut world = World::new().await;
    world.endpoint().answering(500).retrying_after([hours(5)]).create().await;
    let (shop, organization) = (world.another_application().await, world.organization);
    let events = [world.event("order.paid").publish().await.event, world.event("order.paid").to(shop).publish().await.event];
    world.pass(secs(1)).await;
    organizations::delete(world.line(), &world.author(), &Ref::Id(organization)).await.expect("it is deleted");
    world.crash().await;
    world.pass(mins(5)).await;
    let default = organizations::ensure_default(world.line(), None).await.expect("the store answers").id;
    let ended = erasing_operation(&world, default).await;
    assert_eq!((ended.application, ended.status, ended.failed), (None, OperationStatus::Finished, 0));
    assert!(ended.done >= 2, "{ended:?}");
    for event in events {
        let found = world.line().ports.history.event(organization, event).await.expect("the store answers");
        assert!(found.expect("its row stays").1.is_none(), "{event} has its data");
    }
}
