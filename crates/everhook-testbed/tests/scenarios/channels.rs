//! Channels: an endpoint that answered 410 is disabled, and the organization's administrators get one mail each, whatever fails in between.

use std::{collections::BTreeSet, time::Duration};

use everhook_core::{
    ids::Ref,
    manage::{
        Change,
        organizations::{self, OrganizationChange},
    },
    model::Stage,
};
use everhook_testbed::{World, faults::Kind, hours, mins, scripted_mail_server::Handling, secs};

const ADMINS: [&str; 2] = ["dev@example.com", "ops@example.com"];

/// More calls than the scenario makes.
const CALLS_MAX: u32 = 300;

async fn set_admins(world: &World, addresses: &[&str]) {
    let emails = Change::Set(addresses.iter().map(ToString::to_string).collect());
    let asked = OrganizationChange { admin_emails: emails, ..OrganizationChange::default() };
    organizations::change(world.line(), &world.author(), &Ref::Id(world.organization), asked).await.expect("the addresses are set");
}

/// A world with two administrators, and an endpoint that is gone.
async fn with_admins() -> World {
    let mut world = World::new().await;
    set_admins(&world, &ADMINS).await;
    world.endpoint().answering(410).wanting("order.*").create().await;
    world
}

/// How the deliveries to channels stand, in words.
async fn mails(world: &World) -> Vec<&'static str> {
    let deliveries = world.deliveries().await;
    deliveries.iter().filter(|delivery| delivery.application == world.operational).map(|delivery| delivery.stage.as_str()).collect()
}

fn sorted(mut addresses: Vec<String>) -> Vec<String> {
    addresses.sort();
    addresses
}

#[tokio::test]
async fn each_administrator_is_told_once_that_an_endpoint_was_disabled() {
    let mut world = with_admins().await;
    for _ in 0..3 {
        world.event("order.paid").publish().await;
    }
    world.pass(secs(5)).await;
    let taken = world.mail_server.taken();
    assert_eq!(sorted(world.mail_server.taken_for()), ADMINS);
    let message = &taken[0].message;
    assert!(message.subject.starts_with("[Everhook - Action Required] Endpoint Disabled: http"), "{}", message.subject);
    assert!(message.text.contains("410 Gone") && message.text.contains("/v1/endpoints/"), "{}", message.text);
    assert!(message.html.as_ref().is_some_and(|html| html.contains("410 Gone")));
    assert_eq!(mails(&world).await, ["delivered", "delivered"]);
    // Three deliveries died, the endpoint was disabled once, and nothing is told about the telling.
    assert_eq!(world.operational_types().await.iter().filter(|name| *name == "endpoint.disabled").count(), 1);
    world.end().await;
}

#[tokio::test]
async fn a_mail_server_that_is_away_for_an_hour_loses_no_mail_and_repeats_none() {
    let mut world = with_admins().await;
    world.mail_server.script([], Handling::IsAway);
    world.event("order.paid").publish().await;
    world.pass(mins(30)).await;
    world.crash().await;
    world.pass(mins(30)).await;
    assert!(world.mail_server.taken().is_empty() && world.mail_server.asked() > 4, "{}", world.mail_server.asked());
    assert_eq!(mails(&world).await, ["waiting", "waiting"]);
    world.mail_server.script([], Handling::Takes(secs(1)));
    world.pass(hours(2)).await;
    assert_eq!(sorted(world.mail_server.taken_for()), ADMINS);
    assert_eq!(mails(&world).await, ["delivered", "delivered"]);
    // The same mail all the time: mail programs know it by its id.
    assert!(world.dead_letters().await.iter().all(|letter| letter.application != world.operational));
    world.end().await;
}

#[tokio::test]
async fn a_certificate_that_is_mended_later_is_early_enough() {
    let mut world = with_admins().await;
    world.mail_server.script([], Handling::IsNotBelieved);
    world.event("order.paid").publish().await;
    world.pass(mins(15)).await;
    assert_eq!(world.mail_server.asked(), 10, "five times each, where an endpoint would have been given up after three");
    world.mail_server.script([], Handling::Takes(secs(0)));
    world.pass(mins(70)).await;
    assert_eq!(sorted(world.mail_server.taken_for()), ADMINS);
    world.end().await;
}

#[tokio::test]
async fn a_mail_that_is_refused_is_a_dead_letter_that_can_be_brought_back_and_raises_no_alert() {
    let mut world = with_admins().await;
    world.mail_server.script([Handling::Refuses, Handling::Refuses], Handling::Takes(secs(0)));
    world.event("order.paid").publish().await;
    world.pass(mins(10)).await;
    assert_eq!(world.mail_server.asked(), 2, "it is not tried again");
    let letters: Vec<_> = world.dead_letters().await.into_iter().filter(|letter| letter.application == world.operational).collect();
    assert_eq!(letters.len(), 2);
    assert_eq!(sorted(world.operational_types().await), ["endpoint.disabled", "message.attempt.exhausted"], "both of the endpoint");
    everhook_core::line::recall::recall(world.line(), world.organization, letters[0].id).await.expect("it is brought back");
    world.pass(secs(1)).await;
    assert_eq!(world.mail_server.taken().len(), 1);
    world.end().await;
}

#[tokio::test]
async fn what_waits_for_an_administrator_who_was_removed_is_cancelled_and_one_who_comes_back_gets_what_is_new() {
    let mut world = with_admins().await;
    world.mail_server.script([], Handling::IsAway);
    world.event("order.paid").publish().await;
    world.pass(secs(1)).await;
    set_admins(&world, &["ops@example.com"]).await;
    world.pass(mins(1)).await;
    let stages: Vec<Stage> = world
        .deliveries()
        .await
        .into_iter()
        .filter(|delivery| delivery.application == world.operational)
        .map(|delivery| delivery.stage)
        .collect();
    let cancelled = stages.iter().filter(|stage| matches!(stage, Stage::Cancelled { .. })).count();
    assert_eq!((stages.len(), cancelled), (2, 1), "{stages:?}");
    set_admins(&world, &ADMINS).await;
    world.mail_server.script([], Handling::Takes(secs(0)));
    world.endpoint().answering(410).wanting("user.*").create().await;
    world.event("user.created").publish().await;
    world.pass(mins(15)).await;
    assert_eq!(sorted(world.mail_server.taken_for()), ["dev@example.com", "ops@example.com", "ops@example.com"]);
    world.end().await;
}

#[tokio::test]
async fn an_address_gets_thirty_mails_a_minute_and_the_others_later() {
    let mut world = World::new().await;
    set_admins(&world, &ADMINS[..1]).await;
    for n in 0..100 {
        world.endpoint().answering(410).wanting(&format!("order.n{n}")).create().await;
        world.event(&format!("order.n{n}")).publish().await;
    }
    world.pass(secs(20)).await;
    let first = world.mail_server.taken().len();
    assert!((30..=40).contains(&first), "{first}");
    world.pass(mins(5)).await;
    assert_eq!(world.mail_server.taken().len(), 100);
    world.end().await;
}

#[tokio::test]
async fn a_crash_while_a_mail_is_transferred_repeats_that_mail_at_most() {
    let mut world = with_admins().await;
    // Taken at once, but told after ten seconds: the process dies in between.
    world.mail_server.script([], Handling::Takes(secs(10)));
    world.event("order.paid").publish().await;
    world.pass(secs(5)).await;
    world.crash().await;
    world.pass(mins(1)).await;
    let addresses = sorted(world.mail_server.taken_for());
    assert!(ADMINS.iter().all(|admin| addresses.iter().any(|address| address == admin)), "{addresses:?}");
    assert!(addresses.len() <= 4, "{addresses:?}");
    assert_eq!(mails(&world).await, ["delivered", "delivered"]);
    let ids: BTreeSet<_> = world.mail_server.taken().iter().map(|mail| mail.message.id).collect();
    assert_eq!(ids.len(), 2, "a repeated mail has the id of the first");
    world.end().await;
}

/// One run with one failing call. Says whether the fault struck.
async fn with_one_fault(passing: u32, kind: Kind) -> bool {
    let mut world = with_admins().await;
    world.faults.plan(passing, kind);
    world.event("order.paid").keyed("k").try_publish().await.ok();
    world.pass(secs(1)).await;
    world.event("order.paid").keyed("k").try_publish().await.ok();
    world.pass(mins(2)).await;
    let has_struck = world.faults.has_struck();
    let addresses = sorted(world.mail_server.taken_for());
    assert_eq!(addresses, ADMINS, "with call {passing} failing {kind:?}");
    world.end().await;
    has_struck
}

#[tokio::test]
async fn each_administrator_is_told_once_whichever_call_fails() {
    for kind in [Kind::Before, Kind::After] {
        let made = {
            let mut passing = 0;
            while with_one_fault(passing, kind).await {
                passing += 1;
                assert!(passing < CALLS_MAX, "the scenario makes more than {CALLS_MAX} calls");
            }
            passing
        };
        assert!(made > 8, "the scenario made only {made} calls");
    }
}

/// One run in which the process dies at one call of the store. Says whether it did, before both mails were delivered.
async fn with_one_death(passing: u32, kind: Kind) -> bool {
    let mut world = with_admins().await;
    world.mail_server.script([], Handling::Takes(secs(1)));
    // What the call does is the same as in a process that is killed just before or after it: it asks the store for nothing more.
    world.faults.plan_last(passing, kind);
    world.event("order.paid").keyed("k").try_publish().await.ok();
    for _ in 0..100 {
        if world.faults.has_struck() {
            break;
        }
        world.pass(Duration::from_millis(50)).await;
    }
    let has_struck = world.faults.has_struck();
    let taken_before = world.mail_server.taken().len();
    world.kill().await;
    world.faults.forget();
    world.faults.set_away(false);
    world.start_again();
    world.event("order.paid").keyed("k").try_publish().await.expect("the store is there");
    world.pass(mins(2)).await;
    let (context, addresses) = (format!("dead at call {passing}, {kind:?}"), sorted(world.mail_server.taken_for()));
    assert!(ADMINS.iter().all(|admin| addresses.iter().any(|address| address == admin)), "{context}: {addresses:?}");
    // What was taken before may be sent again, because nobody knows that it was: each once, with the same id.
    assert!(addresses.len() <= ADMINS.len() + taken_before.min(ADMINS.len()), "{context}: {addresses:?}, {taken_before} of them before");
    let ids: BTreeSet<_> = world.mail_server.taken().iter().map(|mail| mail.message.id).collect();
    assert_eq!(ids.len(), ADMINS.len(), "{context}: a repeated mail has the id of the first");
    assert_eq!(mails(&world).await, ["delivered", "delivered"], "{context}");
    world.end().await;
    has_struck
}

#[tokio::test]
async fn no_mail_is_lost_wherever_the_process_dies() {
    for kind in [Kind::Before, Kind::After] {
        let mut passing = 0;
        while with_one_death(passing, kind).await {
            passing += 1;
            assert!(passing < CALLS_MAX, "the scenario makes more than {CALLS_MAX} calls");
        }
        assert!(passing > 8, "the scenario made only {passing} calls");
    }
}
