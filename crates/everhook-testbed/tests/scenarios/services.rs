//! Channels of services: what an organization is told through them while they are away, and in which order.

use everhook_core::{
    manage::{
        Change,
        channels::{self, ChannelChange},
    },
    model::{FailureCategory, Secret, Stage},
    policy::{address::AddressRules, notice::pagerduty::PAGERDUTY_URL, target::TargetRules},
};
use everhook_testbed::{
    World,
    faults::Kind,
    hours, mins,
    network::{Answer, Arrival},
    secs,
};
use serde_json::Value;

const SLACK: &str = "https://hooks.slack.example/services/T/B/X";
const TEAMS: &str = "https://teams.example/workflows/1";
const WEBHOOK: &str = "https://ops.example/everhook";
const ROUTING_KEY: &str = "R0123456789abcdefghijklmnopqrstu";

/// More calls than the scenario makes.
const CALLS_MAX: u32 = 300;

fn rules() -> TargetRules {
    TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() }
}

async fn add(world: &World, name: &str, kind: &str, target: &str, patterns: &[&str]) {
    let target = Change::Set(Secret::new(target.to_owned()));
    let (url, routing_key) = if kind == "pagerduty" { (Change::Keep, target) } else { (target, Change::Keep) };
    let event_types = if patterns.is_empty() { Change::Keep } else { Change::Set(patterns.iter().map(ToString::to_string).collect()) };
    let (name, kind) = (Change::Set(name.to_owned()), Change::Set(kind.to_owned()));
    let asked = ChannelChange { name, kind, url, routing_key, event_types, ..ChannelChange::default() };
    channels::create(world.line(), &rules(), &world.author(), asked).await.expect("the channel is made");
}

/// A world with a channel of each kind, whose services work, and an endpoint that is gone.
async fn with_services() -> World {
    let mut world = World::new().await;
    add(&world, "slack", "slack", SLACK, &[]).await;
    add(&world, "pagerduty", "pagerduty", ROUTING_KEY, &[]).await;
    add(&world, "teams", "teams", TEAMS, &[]).await;
    add(&world, "webhook", "webhook", WEBHOOK, &[]).await;
    all_answer(&world, Answer::Body(200, "ok"), Answer::Status(202));
    world.endpoint().answering(410).wanting("order.*").create().await;
    world
}

/// Lets all services answer so, PagerDuty otherwise.
fn all_answer(world: &World, answer: Answer, of_pagerduty: Answer) {
    for url in [SLACK, TEAMS, WEBHOOK] {
        world.network.script(url, [], answer);
    }
    world.network.script(PAGERDUTY_URL, [], of_pagerduty);
}

/// What a service took.
fn taken(world: &World, url: &str) -> Vec<Arrival> {
    let is_taken = |arrival: &Arrival| match arrival.answer {
        Answer::Status(status) | Answer::Body(status, _) | Answer::Slow(status, _) => (200..300).contains(&status),
        _ => false,
    };
    world.network.arrivals().into_iter().filter(|arrival| arrival.url == url && is_taken(arrival)).collect()
}

fn body(arrival: &Arrival) -> Value {
    serde_json::from_slice(&arrival.request.body).expect("it is JSON")
}

fn expect_one_each(world: &World, about: &str) {
    for url in [SLACK, TEAMS, WEBHOOK, PAGERDUTY_URL] {
        let taken = taken(world, url);
        assert_eq!(taken.len(), 1, "{url} {about}");
        assert!(String::from_utf8_lossy(&taken[0].request.body).contains("Endpoint Disabled"), "{url}");
    }
}

async fn stages(world: &World) -> Vec<&'static str> {
    let deliveries = world.deliveries().await;
    deliveries.iter().filter(|delivery| delivery.application == world.operational).map(|delivery| delivery.stage.as_str()).collect()
}

#[tokio::test]
async fn each_service_is_told_once_in_its_own_words() {
    let mut world = with_services().await;
    world.event("order.paid").publish().await;
    world.pass(secs(5)).await;
    expect_one_each(&world, "");
    let slack = body(&taken(&world, SLACK)[0]);
    assert!(slack["text"].as_str().unwrap().contains("Action Required") && slack["attachments"][0]["color"] == "#dc4538", "{slack}");
    let pagerduty = body(&taken(&world, PAGERDUTY_URL)[0]);
    assert_eq!((&pagerduty["routing_key"], &pagerduty["event_action"]), (&Value::from(ROUTING_KEY), &Value::from("trigger")));
    let webhook = &taken(&world, WEBHOOK)[0];
    assert_eq!(body(webhook)["type"], "endpoint.disabled");
    let header = |name: &str| webhook.request.headers.iter().any(|(known, _)| known == name);
    assert!(header("webhook-signature") && header("webhook-id") && header("x-webhook-delivery"));
    assert!(taken(&world, SLACK)[0].request.headers.iter().all(|(name, _)| name == "content-type" || name == "user-agent"));
    assert_eq!(stages(&world).await, ["delivered"; 4]);
    world.end().await;
}

#[tokio::test]
async fn services_that_are_away_for_an_hour_lose_nothing_and_get_nothing_twice() {
    let mut world = with_services().await;
    all_answer(&world, Answer::Fails(FailureCategory::Network), Answer::Status(503));
    world.event("order.paid").publish().await;
    world.pass(mins(30)).await;
    world.crash().await;
    world.pass(mins(30)).await;
    assert!([SLACK, TEAMS, WEBHOOK, PAGERDUTY_URL].iter().all(|url| taken(&world, url).is_empty()));
    assert_eq!(stages(&world).await, ["waiting"; 4]);
    all_answer(&world, Answer::Body(200, "ok"), Answer::Status(202));
    world.pass(hours(2)).await;
    expect_one_each(&world, "after an hour");
    assert_eq!(stages(&world).await, ["delivered"; 4]);
    assert!(world.dead_letters().await.iter().all(|letter| letter.application != world.operational));
    world.end().await;
}

/// An incident that was resolved before it was triggered would stay open.
#[tokio::test]
async fn the_end_of_a_problem_never_overtakes_its_beginning() {
    let mut world = World::new().await;
    add(&world, "pagerduty", "pagerduty", ROUTING_KEY, &["circuit.*"]).await;
    world.network.script(PAGERDUTY_URL, [Answer::Status(500), Answer::Status(500)], Answer::Status(202));
    let receiver = world.endpoint().answering(200).create().await;
    let order = |action: &str| everhook_core::manage::endpoints::BreakerOrder { action: action.to_owned(), duration_seconds: None };
    let of = everhook_core::ids::Ref::Id(receiver.id);
    everhook_core::manage::endpoints::command_breaker(world.line(), &world.author(), &of, order("force_open")).await.expect("it opens");
    world.pass(secs(2)).await;
    everhook_core::manage::endpoints::command_breaker(world.line(), &world.author(), &of, order("reset")).await.expect("it closes");
    world.pass(mins(10)).await;
    let told: Vec<_> =
        taken(&world, PAGERDUTY_URL).iter().map(|arrival| body(arrival)["event_action"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told, ["trigger", "resolve"]);
    world.end().await;
}

#[tokio::test]
async fn a_service_that_asks_for_patience_gets_it() {
    let mut world = World::new().await;
    add(&world, "slack", "slack", SLACK, &[]).await;
    world.network.script(SLACK, [Answer::RetryAfter(429, secs(120))], Answer::Body(200, "ok"));
    world.endpoint().answering(410).wanting("order.*").create().await;
    world.event("order.paid").publish().await;
    world.pass(mins(10)).await;
    let at: Vec<_> = world.network.arrivals().into_iter().filter(|arrival| arrival.url == SLACK).map(|arrival| arrival.at).collect();
    assert_eq!(at.len(), 2);
    assert!(at[1].since(at[0]) >= secs(120), "{:?}", at[1].since(at[0]));
    world.end().await;
}

#[tokio::test]
async fn what_a_service_refuses_is_a_dead_letter_that_comes_back_when_the_channel_was_corrected() {
    let mut world = World::new().await;
    add(&world, "slack", "slack", SLACK, &[]).await;
    world.network.script(SLACK, [], Answer::Body(404, "no_service"));
    world.endpoint().answering(410).wanting("order.*").create().await;
    world.event("order.paid").publish().await;
    world.pass(mins(10)).await;
    let asked = world.network.arrivals().iter().filter(|arrival| arrival.url == SLACK).count();
    assert_eq!(asked, 1, "it is not tried again");
    let letters: Vec<_> = world.dead_letters().await.into_iter().filter(|letter| letter.application == world.operational).collect();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].last_error, "Slack answered 404: no_service");
    let moved = "https://hooks.slack.example/services/T/B/new";
    world.network.script(moved, [], Answer::Body(200, "ok"));
    let asked = ChannelChange { url: Change::Set(Secret::new(moved.to_owned())), ..ChannelChange::default() };
    channels::change(world.line(), &rules(), &world.author(), "slack", asked).await.expect("it is changed");
    everhook_core::line::recall::recall(world.line(), world.organization, letters[0].id).await.expect("it is brought back");
    world.pass(secs(5)).await;
    assert_eq!(taken(&world, moved).len(), 1);
    world.end().await;
}

#[tokio::test]
async fn what_waits_for_a_channel_that_is_turned_off_is_cancelled_and_what_comes_later_is_not_made() {
    let mut world = World::new().await;
    add(&world, "slack", "slack", SLACK, &[]).await;
    world.network.script(SLACK, [], Answer::Status(503));
    for name in ["order.a", "order.b"] {
        world.endpoint().answering(410).wanting(name).create().await;
    }
    world.event("order.a").publish().await;
    world.pass(secs(2)).await;
    let asked = ChannelChange { enabled: Change::Set(false), ..ChannelChange::default() };
    channels::change(world.line(), &rules(), &world.author(), "slack", asked).await.expect("it is changed");
    world.pass(mins(1)).await;
    world.event("order.b").publish().await;
    world.pass(mins(1)).await;
    let deliveries: Vec<_> =
        world.deliveries().await.into_iter().filter(|delivery| delivery.application == world.operational).map(|one| one.stage).collect();
    assert!(matches!(deliveries[..], [Stage::Cancelled { .. }]), "{deliveries:?}");
    world.end().await;
}

/// One run with one failing call. Says whether the fault struck.
async fn with_one_fault(passing: u32, kind: Kind) -> bool {
    let mut world = World::new().await;
    add(&world, "slack", "slack", SLACK, &[]).await;
    add(&world, "pagerduty", "pagerduty", ROUTING_KEY, &[]).await;
    world.network.script(PAGERDUTY_URL, [], Answer::Status(202));
    world.endpoint().answering(410).wanting("order.*").create().await;
    world.faults.plan(passing, kind);
    world.event("order.paid").keyed("k").try_publish().await.ok();
    world.pass(secs(1)).await;
    world.event("order.paid").keyed("k").try_publish().await.ok();
    world.pass(mins(2)).await;
    let has_struck = world.faults.has_struck();
    for url in [SLACK, PAGERDUTY_URL] {
        let events: std::collections::BTreeSet<_> = taken(&world, url).iter().map(|arrival| arrival.request.body.clone()).collect();
        assert_eq!(events.len(), 1, "{url} with call {passing} failing {kind:?}");
    }
    world.end().await;
    has_struck
}

#[tokio::test]
async fn each_service_is_told_of_it_whichever_call_fails() {
    for kind in [Kind::Before, Kind::After] {
        let mut passing = 0;
        while with_one_fault(passing, kind).await {
            passing += 1;
            assert!(passing < CALLS_MAX, "the scenario makes more than {CALLS_MAX} calls");
        }
        assert!(passing > 8, "the scenario made only {passing} calls");
    }
}
