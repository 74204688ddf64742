//! A scenario that leaves work over fails, and one that means to says so.

use std::panic::{AssertUnwindSafe, catch_unwind};

use everhook_core::ports::Clock;
use everhook_testbed::{Answer, World, hours, secs};

use super::deletions::deletion_of;

/// What a world says when it is dropped, if it does.
fn complaint(world: World) -> Option<String> {
    let panicked = catch_unwind(AssertUnwindSafe(|| drop(world))).err()?;
    Some(panicked.downcast_ref::<String>().expect("a sentence").clone())
}

/// A world on the embedded store, whatever the environment asks for: that one is looked at.
async fn world() -> World {
    World::spooling(1 << 20).await
}

#[tokio::test]
async fn a_delivery_that_is_overdue_is_a_leftover_and_one_that_is_to_come_is_not() {
    for (retried_after, is_overdue) in [(secs(5), true), (hours(5), false)] {
        let mut world = world().await;
        world.endpoint().answering(500).retrying_after([retried_after]).create().await;
        world.event("order.paid").publish().await;
        world.pass(secs(1)).await;
        // Nobody is there when it is due.
        world.kill().await;
        world.clock.move_to(world.clock.now() + secs(60));
        let complaint = complaint(world);
        assert_eq!(complaint.is_some_and(|words| words.contains("has waited in a lane that flows")), is_overdue);
    }
}

#[tokio::test]
async fn a_request_under_way_is_a_leftover_unless_the_scenario_means_it() {
    for means_it in [false, true] {
        let mut world = world().await;
        world.endpoint().always(Answer::Slow(200, secs(20))).create().await;
        world.event("order.paid").publish().await;
        world.pass(secs(1)).await;
        if means_it {
            world.leaves_work_over();
        }
        let complaint = complaint(world);
        assert_eq!(complaint.is_none(), means_it, "{complaint:?}");
        assert!(complaint.is_none_or(|words| words.contains("1 requests are under way")));
    }
}

#[tokio::test]
async fn a_deletion_that_is_not_worked_off_is_a_leftover() {
    let mut world = world().await;
    let ports = world.bare_ports();
    let shop = world.another_application().await;
    // The engine is gone before it looks.
    world.kill().await;
    ports.applications.delete_application(world.organization, shop, deletion_of(&world, shop)).await.expect("the store answers");
    drop(ports);
    let complaint = complaint(world).expect("something is left over");
    assert!(complaint.contains("is deleted, and its endpoints are not"), "{complaint}");
}

#[tokio::test]
async fn what_waits_behind_a_pause_is_no_leftover() {
    let mut world = world().await;
    let receiver = world.endpoint().create().await;
    world.change(&receiver, |endpoint| endpoint.paused_at = Some(endpoint.updated_at)).await;
    world.event("order.paid").publish().await;
    world.pass(secs(60)).await;
    assert_eq!(complaint(world), None);
}
