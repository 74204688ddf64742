//! Owners of applications: they get the alerts that are for them, administrators the others, and nobody gets what is not meant for him.

use std::time::Duration;

use everhook_core::{
    ids::Ref,
    manage::{
        Change, applications,
        applications::ApplicationChange,
        manifests,
        organizations::{self, OrganizationChange},
    },
    model::{FailingRule, FailureCategory, Tally, minute_of},
    policy::{address::AddressRules, target::TargetRules},
    ports::Clock,
};
use everhook_testbed::{Answer, Receiver, World, mins};
use serde_json::{Value, json};

use super::alert_rules::settled_world;

fn rules() -> TargetRules {
    TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() }
}

async fn change(world: &World, asked: ApplicationChange) {
    let of = Ref::Id(world.application);
    applications::change(world.line(), &rules(), &world.author(), &of, asked).await.expect("it is changed");
}

async fn set_owner(world: &World, owner: &str) {
    change(world, ApplicationChange { owner_email: Change::Set(owner.to_owned()), ..ApplicationChange::default() }).await;
}

async fn put(world: &World, manifest: Value) {
    let of = Ref::Id(world.application);
    manifests::put(world.line(), &world.author(), &of, manifest.to_string(), &rules()).await.expect("it is good");
}

/// A world with an administrator, and with rules that are evaluated.
async fn administered() -> (World, Receiver) {
    let mut world = settled_world().await;
    let emails = Change::Set(vec!["ops@example.com".to_owned()]);
    let asked = OrganizationChange { admin_emails: emails, ..OrganizationChange::default() };
    organizations::change(world.line(), &world.author(), &Ref::Id(world.organization), asked).await.expect("it is changed");
    let receiver = world.endpoint().create().await;
    (world, receiver)
}

/// A minute in which so many of a hundred attempts fail.
async fn failures(world: &mut World, receiver: &Receiver, count: u32) {
    let at = world.clock.now();
    let mut tally = Tally::new(receiver.id.into(), minute_of(at));
    (0..100).for_each(|n| tally.count((n < count).then_some(FailureCategory::ServerError), Duration::from_millis(20), at));
    world.line().ports.statistics.add(vec![tally], FailingRule::default()).await.expect("the store answers");
    world.pass(mins(1)).await;
}

/// Who got mails about a rule.
fn told(world: &World, rule: &str) -> Vec<String> {
    let taken = world.mail_server.taken().into_iter();
    let about = taken.filter(|mail| mail.message.subject.contains(&format!("{rule}:")));
    let mut addresses: Vec<String> = about.map(|mail| mail.message.to.to_string()).collect();
    addresses.sort();
    addresses
}

const WARNING: &str = "endpoint_success_rate_warning";
const CRITICAL: &str = "endpoint_success_rate_critical";

#[tokio::test]
async fn a_warning_reaches_the_owner_alone_and_a_critical_alert_the_administrators_as_well() {
    let (mut world, receiver) = administered().await;
    set_owner(&world, "shop@example.com").await;
    failures(&mut world, &receiver, 8).await;
    assert_eq!((told(&world, WARNING), told(&world, CRITICAL)), (vec!["shop@example.com".to_owned()], vec![]));
    failures(&mut world, &receiver, 90).await;
    assert_eq!(told(&world, CRITICAL), ["ops@example.com", "shop@example.com"]);
    assert_eq!(told(&world, WARNING), ["shop@example.com"], "once");
    world.leaves_work_over();
}

#[tokio::test]
async fn administrators_stand_in_for_an_owner_without_an_address() {
    let (mut world, receiver) = administered().await;
    failures(&mut world, &receiver, 8).await;
    assert_eq!(told(&world, WARNING), ["ops@example.com"]);
    world.leaves_work_over();
}

#[tokio::test]
async fn the_owner_that_the_manifest_names_wins_and_one_who_was_replaced_gets_nothing_any_more() {
    let (mut world, receiver) = administered().await;
    set_owner(&world, "shop@example.com").await;
    put(&world, json!({ "owner_email": "app@example.com", "capabilities": {} })).await;
    failures(&mut world, &receiver, 8).await;
    assert_eq!(told(&world, WARNING), ["app@example.com"]);
    put(&world, json!({ "capabilities": {} })).await;
    for _ in 0..5 {
        failures(&mut world, &receiver, 0).await;
    }
    assert_eq!(told(&world, WARNING), ["app@example.com", "shop@example.com"], "its end is told to who owns it now");
    world.leaves_work_over();
}

#[tokio::test]
async fn what_is_no_alert_goes_to_the_administrators_alone() {
    let (mut world, _) = administered().await;
    set_owner(&world, "shop@example.com").await;
    world.endpoint().answering(410).wanting("order.*").create().await;
    world.event("order.paid").publish().await;
    world.pass(mins(1)).await;
    let subjects: Vec<_> = world.mail_server.taken().into_iter().map(|mail| (mail.message.to.to_string(), mail.message.subject)).collect();
    let disabled: Vec<_> =
        subjects.iter().filter(|(_, subject)| subject.contains("Endpoint Disabled")).map(|(to, _)| to.as_str()).collect();
    assert_eq!(disabled, ["ops@example.com"], "{subjects:?}");
    world.leaves_work_over();
}

#[tokio::test]
async fn an_app_is_checked_where_the_application_says_until_it_says_otherwise() {
    let mut world = World::new().await;
    let at = |path: &'static str| move |world: &World| world.network.arrivals().iter().filter(|arrival| arrival.url == path).count();
    let (first, second) = (at("https://app.example/health"), at("https://new.example/up"));
    for url in ["https://app.example/health", "https://new.example/up"] {
        world.network.script(url, [], Answer::Status(204));
    }
    let set = |text: &str| Change::Set(text.to_owned());
    let base_url = ApplicationChange { base_url: set("https://app.example"), health_path: set("/health"), ..ApplicationChange::default() };
    change(&world, base_url).await;
    world.pass(mins(10)).await;
    assert_eq!(first(&world), 0, "nothing is called there: it has no manifest");
    put(&world, json!({ "capabilities": { "ask": { "path": "/ask" } } })).await;
    world.pass(mins(10)).await;
    assert_eq!(first(&world), 2);
    change(&world, ApplicationChange { base_url: set("https://new.example"), health_path: set("/up"), ..ApplicationChange::default() })
        .await;
    world.pass(mins(10)).await;
    assert_eq!((first(&world), second(&world)), (2, 2));
    put(&world, json!({ "health_path": null, "capabilities": { "ask": { "path": "/ask" } } })).await;
    world.pass(mins(20)).await;
    assert_eq!((first(&world), second(&world)), (2, 2), "the manifest turned it off");
    world.end().await;
}
