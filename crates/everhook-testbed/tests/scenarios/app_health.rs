//! Health checks of apps: each in its own turn, told when the app is away and back, and bounded whatever tenants set up.

use std::collections::BTreeMap;

use bytes::Bytes;
use everhook_core::{
    calls::{
        Found,
        answered::AnswerSource,
        call::{self, CallRequest},
    },
    ids::{ApplicationId, Ref},
    manage::{
        Change, app_health,
        channels::{self, ChannelChange},
        manifests,
        organizations::{self, OrganizationChange},
    },
    model::{AppStatus, FailureCategory, Secret},
    policy::{address::AddressRules, notice::pagerduty::PAGERDUTY_URL, target::TargetRules},
    ports::Clock as _,
};
use everhook_testbed::{Answer, World, faults::Kind, hours, mins, secs};
use serde_json::json;

const HEALTH: &str = "https://app.example/health";
const GOOD: Answer = Answer::Body(200, r#"{"success": true, "data": 1}"#);

async fn put(world: &World, application: ApplicationId, base_url: &str, health_path: Option<&str>) {
    let manifest = json!({ "base_url": base_url, "health_path": health_path, "capabilities": {
        "ask": { "path": "/ask", "timeout": "1s", "fallback": [{ "type": "default", "static": "instead" }] },
    } });
    let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
    manifests::put(world.line(), &world.author(), &Ref::Id(application), manifest.to_string(), &rules).await.expect("it is good");
}

async fn status(world: &World) -> (Option<AppStatus>, u32) {
    let facts = app_health::get(world.line(), world.organization, &Ref::Id(world.application)).await.unwrap();
    let failing = facts.check.and_then(|check| check.found).and_then(|found| found.failing);
    (facts.status, failing.map_or(0, |failing| failing.count))
}

async fn ask(world: &World) -> AnswerSource {
    let Found::Capability(capability) = world.line().calls.find(world.organization, &Ref::Id(world.application), "ask").await.unwrap()
    else {
        panic!("there is no such capability")
    };
    let (payload, arrived_at) = (Bytes::from_static(b"1"), world.clock.now());
    let request = CallRequest { payload, charge: None, cache_key: None, timeout: None, trace: None, callback_url: None, arrived_at };
    call::call(&world.line().calls, &capability, request).await.result.expect("it fails open").source
}

fn checks(world: &World) -> usize {
    world.network.arrivals().iter().filter(|arrival| arrival.url == HEALTH).count()
}

#[tokio::test]
async fn an_app_is_checked_every_five_minutes_and_told_once_when_it_is_away_and_when_it_is_back() {
    let mut world = World::new().await;
    world.network.script("https://app.example/ask", [], GOOD);
    let away = [Answer::Status(200), Answer::Status(500), Answer::Hangs, Answer::Fails(FailureCategory::Network), Answer::Status(404)];
    world.network.script(HEALTH, away, Answer::Body(200, r#"{"checks": {"db": {"status": "ok"}}}"#));
    put(&world, world.application, "https://app.example", Some("/health")).await;
    assert_eq!(status(&world).await, (None, 0), "it was not checked yet");
    world.pass(mins(5)).await;
    assert_eq!((checks(&world), status(&world).await), (1, (Some(AppStatus::Healthy), 0)));
    for failures in 1..=4 {
        world.pass(mins(5)).await;
        assert_eq!(status(&world).await, (Some(AppStatus::Unhealthy), failures));
    }
    let told = |types: Vec<String>| types.into_iter().filter(|name| name.starts_with("app.")).collect::<Vec<_>>();
    assert_eq!(told(world.operational_types().await), ["app.unhealthy"]);
    world.pass(mins(10)).await;
    assert_eq!((checks(&world), status(&world).await), (7, (Some(AppStatus::Healthy), 0)));
    let mut types = told(world.operational_types().await);
    types.sort_unstable();
    assert_eq!(types, ["app.healthy", "app.unhealthy"]);
    // A manifest without a health page ends it.
    put(&world, world.application, "https://app.example", None).await;
    world.pass(hours(1)).await;
    assert_eq!((checks(&world), status(&world).await), (7, (None, 0)));
    world.end().await;
}

#[tokio::test]
async fn the_breaker_opens_before_a_caller_has_waited_and_calls_close_it_again() {
    let mut world = World::new().await;
    world.network.script(HEALTH, [], Answer::Status(503));
    world.network.script("https://app.example/ask", [Answer::Hangs], GOOD);
    put(&world, world.application, "https://app.example", Some("/health")).await;
    world.pass(mins(15)).await;
    assert!(world.operational_types().await.contains(&"circuit.opened".to_owned()));
    let asked = |world: &World| world.network.arrivals().iter().filter(|arrival| arrival.url.ends_with("/ask")).count();
    assert_eq!((ask(&world).await, asked(&world)), (AnswerSource::Default, 0), "nobody waits for it");
    // The app is there again, whatever its health page says: a call finds out.
    world.network.script("https://app.example/ask", [], GOOD);
    world.pass(mins(2)).await;
    for _ in 0..3 {
        assert_eq!(ask(&world).await, AnswerSource::App);
    }
    world.pass(mins(30)).await;
    assert_eq!(ask(&world).await, AnswerSource::App, "further failed checks do not open it again");
    world.end().await;
}

#[tokio::test]
async fn an_app_whose_calls_are_answered_is_called_although_its_health_page_is_broken() {
    let mut world = World::new().await;
    world.network.script(HEALTH, [], Answer::Status(404));
    world.network.script("https://app.example/ask", [], GOOD);
    put(&world, world.application, "https://app.example", Some("/health")).await;
    for _ in 0..10 {
        world.pass(mins(3)).await;
        assert_eq!(ask(&world).await, AnswerSource::App);
    }
    assert_eq!(status(&world).await.0, Some(AppStatus::Unhealthy), "that it fails is told all the same");
    world.end().await;
}

#[tokio::test]
async fn a_check_survives_a_crash_and_a_store_that_fails_at_any_step() {
    let mut world = World::new().await;
    world.network.script(HEALTH, [], Answer::Status(500));
    put(&world, world.application, "https://app.example", Some("/health")).await;
    world.pass(mins(10)).await;
    assert_eq!(status(&world).await.1, 2);
    world.crash().await;
    world.pass(mins(5)).await;
    assert_eq!(status(&world).await.1, 3);
    world.faults.plan(1, Kind::Before);
    world.pass(mins(10)).await;
    assert!((4..=5).contains(&status(&world).await.1), "one may be lost, and the next is made");
    let types = world.operational_types().await;
    assert_eq!(types.iter().filter(|name| *name == "app.unhealthy").count(), 1);
    world.end().await;
}

/// A thousand apps of one tenant, all of them at one host that never answers, and an app of its own.
#[tokio::test]
async fn a_thousand_apps_at_one_host_are_spread_and_at_most_four_requests_are_there_at_once() {
    let mut world = World::new().await;
    put(&world, world.application, "https://app.example", Some("/health")).await;
    for n in 0..1_000 {
        let made = world.another_application().await;
        let path = format!("/health/{n}");
        world.network.script(&format!("https://victim.example{path}"), [], Answer::Hangs);
        put(&world, made, "https://victim.example", Some(&path)).await;
    }
    world.pass(mins(10)).await;
    let arrivals = world.network.arrivals();
    let at_victim: Vec<_> = arrivals.iter().filter(|arrival| arrival.url.contains("victim")).map(|arrival| arrival.at).collect();
    // Each hangs for five seconds: so many were there in any five seconds.
    let most =
        at_victim.iter().map(|begin| at_victim.iter().filter(|at| **at >= *begin && at.since(*begin) < secs(5)).count()).max().unwrap();
    assert!(most <= 4, "{most} at once");
    assert!((300..=500).contains(&at_victim.len()), "{} in ten minutes: they take turns", at_victim.len());
    assert!(checks(&world) >= 1, "and its other app is checked");
    let mut seconds: BTreeMap<i64, usize> = BTreeMap::new();
    for at in &at_victim {
        *seconds.entry(at.as_micros() / 1_000_000).or_default() += 1;
    }
    assert!(seconds.values().all(|count| *count <= 4), "no herd: {seconds:?}");
    world.end().await;
}

#[tokio::test]
async fn an_app_that_fails_its_checks_is_one_mail_and_one_incident_and_so_is_its_end() {
    let mut world = World::new().await;
    world.alert_interval = secs(30);
    world.crash().await;
    let emails = Change::Set(vec!["ops@example.com".to_owned()]);
    let asked = OrganizationChange { admin_emails: emails, ..OrganizationChange::default() };
    organizations::change(world.line(), &world.author(), &Ref::Id(world.organization), asked).await.expect("the address is set");
    // One integration gets what it gets by default, the other one asked for both kinds of events.
    for (name, patterns) in [("pager", None), ("all", Some(vec!["alert.*".to_owned(), "app.*".to_owned()]))] {
        let asked = ChannelChange {
            name: Change::Set(name.to_owned()),
            kind: Change::Set("pagerduty".to_owned()),
            routing_key: Change::Set(Secret::new(format!("{name:0<32}"))),
            event_types: patterns.map_or(Change::Keep, Change::Set),
            ..ChannelChange::default()
        };
        let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
        channels::create(world.line(), &rules, &world.author(), asked).await.expect("the channel is made");
    }
    world.network.script(PAGERDUTY_URL, [], Answer::Status(202));
    world.network.script("https://app.example/ask", [], GOOD);
    world.network.script(HEALTH, [Answer::Status(500); 3], Answer::Status(200));
    put(&world, world.application, "https://app.example", Some("/health")).await;
    // Its calls are answered: no breaker opens, which would be another trouble.
    for _ in 0..8 {
        world.pass(mins(2)).await;
        assert_eq!(ask(&world).await, AnswerSource::App);
    }
    let subjects = |world: &World| world.mail_server.taken().iter().map(|mail| mail.message.subject.clone()).collect::<Vec<_>>();
    let told = subjects(&world);
    assert!(told.len() == 1 && told[0].starts_with("[Everhook - Critical] Alert: app_health_check_failed"), "{told:?}");
    world.pass(mins(30)).await;
    let told = subjects(&world);
    assert!(told.len() == 2 && told[1].starts_with("[Everhook - Resolved] Alert Resolved: app_health_check_failed"), "{told:?}");
    let mut incidents: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for arrival in world.network.arrivals().iter().filter(|arrival| arrival.url == PAGERDUTY_URL) {
        let body: serde_json::Value = serde_json::from_slice(&arrival.request.body).expect("JSON");
        let text = |name: &str| body[name].as_str().expect("a text").to_owned();
        incidents.entry((text("routing_key"), text("dedup_key"))).or_default().push(text("event_action"));
    }
    let key = format!("everhook/{}/app_health_check_failed/{}", world.organization, world.application);
    assert_eq!(incidents.keys().map(|(_, incident)| incident.clone()).collect::<Vec<_>>(), [key.clone(), key.clone()], "one each");
    assert_eq!(incidents[&(format!("{:0<32}", "pager"), key)], ["trigger", "resolve"]);
    world.leaves_work_over();
    world.end().await;
}
