//! Alert rules over simulated time: an alert is reported once, repeated after a day, and reported as resolved; never twice, and never about itself.

use std::time::Duration;

use everhook_core::{
    ids::{AlertRuleId, LaneId, Ref, Uid},
    manage::{
        Change,
        alert_rules::{self, AlertRuleChange, RuleReach},
        alerts,
    },
    model::{AlertStage, AlertStatus, Cursor, Duty, FailingRule, FailureCategory, PageRequest, Tally, minute_of},
    ports::{AlertFilter, Clock, EventFilter},
};
use everhook_testbed::{Receiver, World, cluster::Cluster, faults::Kind, hours, mins, secs};
use serde_json::Value;

/// More calls than the short story makes.
const CALLS_MAX: u32 = 300;

const PAGE: PageRequest = PageRequest { limit: 100, cursor: Cursor::Newest };

/// A world in which rules are evaluated.
pub(super) async fn settled_world() -> World {
    let mut world = World::new().await;
    world.alert_interval = secs(30);
    world.crash().await;
    world
}

/// Counts attempts of this minute, as if they had been made.
async fn attempts(world: &World, lane_id: impl Into<LaneId>, successes: u32, failures: u32) {
    let at = world.clock.now();
    let mut tally = Tally::new(lane_id.into(), minute_of(at));
    (0..successes).for_each(|_| tally.count(None, Duration::from_millis(20), at));
    (0..failures).for_each(|_| tally.count(Some(FailureCategory::ServerError), Duration::from_millis(20), at));
    world.line().ports.statistics.add(vec![tally], FailingRule::default()).await.expect("the store answers");
}

/// How many health checks of the app have failed in a row.
pub(super) async fn status_of_app(world: &World) -> u32 {
    let check = world.line().ports.app_health.app_check(world.application).await.expect("the store answers");
    check.and_then(|check| check.found).and_then(|found| found.failing).map_or(0, |failing| failing.count)
}

/// What was reported of a rule, oldest first.
pub(super) async fn told(world: &World, rule: &str) -> Vec<(String, Value)> {
    let filter = EventFilter { application: Some(world.operational), ..EventFilter::default() };
    let events = world.line().ports.history.events(world.organization, filter, PAGE).await.expect("the store answers").rows;
    let mut told = Vec::new();
    for summary in events.iter().rev().filter(|event| event.event_type.as_str().starts_with("alert.")) {
        let found = world.line().ports.history.event(world.organization, summary.id).await.expect("the store answers");
        let event = found.and_then(|(_, event)| event).expect("it is kept");
        let data: Value = serde_json::from_slice(&event.data).expect("JSON");
        if data["rule"] == rule {
            told.push((summary.event_type.to_string(), data));
        }
    }
    told
}

pub(super) async fn types(world: &World, rule: &str) -> Vec<String> {
    told(world, rule)
        .await
        .into_iter()
        .map(|(event_type, data)| if data["repeat"] == true { "repeated".to_owned() } else { event_type })
        .collect()
}

async fn statuses(world: &World) -> Vec<AlertStatus> {
    world.line().ports.alerts.alerts(world.organization, AlertFilter::default(), PAGE).await.expect("the store answers").rows
}

async fn status(world: &World, rule: &str) -> AlertStatus {
    statuses(world).await.into_iter().find(|status| status.rule.name == rule).expect("it is kept")
}

fn named(rule: &str) -> Ref<AlertRuleId> {
    Ref::Uid(Uid::parse(rule).expect("a name"))
}

/// Four minutes of traffic, a part of which fails.
async fn minutes(world: &mut World, receiver: &Receiver, count: u32, successes: u32, failures: u32) {
    for _ in 0..count {
        attempts(world, receiver.id, successes, failures).await;
        world.pass(mins(1)).await;
    }
}

const DROP: &str = "endpoint_success_rate_drop";

#[tokio::test]
async fn a_drop_of_the_success_rate_is_reported_once_repeated_after_a_day_and_reported_as_resolved() {
    let mut world = settled_world().await;
    let receiver = world.endpoint().create().await;
    minutes(&mut world, &receiver, 2, 100, 5).await;
    assert_eq!(types(&world, DROP).await, [""; 0], "95 % is fine");
    minutes(&mut world, &receiver, 1, 0, 40).await;
    let fired = told(&world, DROP).await;
    let [(event_type, data)] = &fired[..] else { panic!("{fired:?}") };
    assert_eq!(event_type, "alert.fired");
    let status = status(&world, DROP).await;
    let expected = serde_json::json!({
        "alert_id": status.id.to_string(),
        "dedupe_key": format!("everhook/{}/{DROP}/{}", world.organization, receiver.id),
        "organization_id": world.organization.to_string(),
        "rule": DROP,
        "severity": "warning",
        "metric": "success_rate",
        "scope": "endpoint",
        "target_id": receiver.id.to_string(),
        "target_name": data["target_name"],
        "application_id": world.application.to_string(),
        "value": status.value,
        "threshold": 90.0,
        "comparison": "below",
        "unit": "percent",
        "window_seconds": 300,
        "fired_at": status.since.to_string(),
        "repeat": false,
        "summary": data["summary"],
        "recipients": { "owner": true, "owner_email": null, "admins": false, "channels": [] },
    });
    assert_eq!(*data, expected);
    assert!(data["summary"].as_str().unwrap().contains("below 90 %"), "{}", data["summary"]);
    // A day of it: reported once more, when the day is over.
    for hour in 0..25 {
        minutes(&mut world, &receiver, 3, 0, 40).await;
        let expected = if hour < 24 { vec!["alert.fired"] } else { vec!["alert.fired", "repeated"] };
        assert_eq!(types(&world, DROP).await, expected, "after {hour} hours");
        world.pass(mins(57)).await;
    }
    minutes(&mut world, &receiver, 7, 100, 0).await;
    let resolved = told(&world, DROP).await.pop().expect("it is reported");
    assert_eq!(resolved.0, "alert.resolved");
    assert_eq!((&resolved.1["dedupe_key"], resolved.1["resolved_at"].is_string()), (&expected["dedupe_key"], true));
    minutes(&mut world, &receiver, 5, 100, 0).await;
    assert_eq!(types(&world, DROP).await, ["alert.fired", "repeated", "alert.resolved"]);
    world.end().await;
}

#[tokio::test]
async fn a_restart_reads_the_last_hour_again_and_reports_nothing_twice() {
    let mut world = settled_world().await;
    let receiver = world.endpoint().create().await;
    minutes(&mut world, &receiver, 2, 0, 30).await;
    assert_eq!(types(&world, DROP).await, ["alert.fired"]);
    world.crash().await;
    world.pass(mins(2)).await;
    assert_eq!(types(&world, DROP).await, ["alert.fired"]);
    assert_eq!(status(&world, DROP).await.stage, AlertStage::Firing);
    assert_eq!(types(&world, "endpoint_success_rate_critical").await, ["alert.fired"]);
    world.end().await;
}

#[tokio::test]
async fn without_traffic_an_alert_waits_a_day_before_it_is_over() {
    let mut world = settled_world().await;
    let receiver = world.endpoint().create().await;
    minutes(&mut world, &receiver, 1, 0, 30).await;
    world.pass(mins(10)).await;
    assert_eq!(status(&world, DROP).await.stage, AlertStage::TooFewSamples);
    world.pass(hours(23)).await;
    assert_eq!(types(&world, DROP).await, ["alert.fired"]);
    world.pass(hours(1)).await;
    assert_eq!(types(&world, DROP).await, ["alert.fired", "alert.resolved"]);
    world.end().await;
}

#[tokio::test]
async fn a_silenced_alert_is_reported_when_the_silence_is_over() {
    let mut world = settled_world().await;
    let receiver = world.endpoint().create().await;
    minutes(&mut world, &receiver, 1, 0, 30).await;
    let id = status(&world, DROP).await.id;
    alerts::silence(world.line(), &world.author(), id, hours(2)).await.expect("it is silenced");
    minutes(&mut world, &receiver, 7, 100, 0).await;
    assert_eq!(types(&world, DROP).await, ["alert.fired", "alert.resolved"], "who was told hears of its end");
    minutes(&mut world, &receiver, 3, 0, 200).await;
    assert_eq!(types(&world, DROP).await.len(), 2, "it fires again, in silence");
    assert_eq!(status(&world, DROP).await.stage, AlertStage::Firing);
    alerts::unsilence(world.line(), &world.author(), id).await.expect("it is heard again");
    minutes(&mut world, &receiver, 1, 0, 200).await;
    assert_eq!(types(&world, DROP).await, ["alert.fired", "alert.resolved", "alert.fired"]);
    assert_eq!(status(&world, DROP).await.episodes.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn rules_of_an_organization_are_applied_and_their_end_ends_their_alerts() {
    let mut world = settled_world().await;
    let receiver = world.endpoint().create().await;
    let off = AlertRuleChange { enabled: Change::Set(false), ..AlertRuleChange::default() };
    alert_rules::change(world.line(), &world.author(), RuleReach::Organization, &named(DROP), off).await.expect("it is off");
    let set = |text: &str| Change::Set(text.to_owned());
    let mine = AlertRuleChange {
        name: set("mine"),
        metric: set("error_rate"),
        scope: set("endpoint"),
        threshold: Change::Set(1.0),
        window: Change::Set(mins(2)),
        pending_for: Change::Set(mins(3)),
        severity: set("critical"),
        channels: Change::Set(vec!["ops".to_owned()]),
        ..AlertRuleChange::default()
    };
    alert_rules::create(world.line(), &world.author(), mine).await.expect("it is written");
    minutes(&mut world, &receiver, 2, 98, 2).await;
    assert_eq!((types(&world, "mine").await.len(), status(&world, "mine").await.stage), (0, AlertStage::Pending));
    minutes(&mut world, &receiver, 3, 98, 2).await;
    let told_once = told(&world, "mine").await;
    assert_eq!(told_once.len(), 1);
    assert_eq!(
        told_once[0].1["recipients"],
        serde_json::json!({ "owner": true, "owner_email": null, "admins": false, "channels": ["ops"] })
    );
    minutes(&mut world, &receiver, 1, 0, 300).await;
    assert_eq!(types(&world, DROP).await, [""; 0], "it is off");
    alert_rules::delete(world.line(), &world.author(), RuleReach::Organization, &named("mine")).await.expect("it is gone");
    minutes(&mut world, &receiver, 1, 0, 30).await;
    assert_eq!(types(&world, "mine").await, ["alert.fired", "alert.resolved"]);
    world.end().await;
}

#[tokio::test]
async fn an_open_circuit_and_dead_letters_are_reported_and_what_is_operational_is_not() {
    let mut world = settled_world().await;
    let telling = world.operational;
    let deaf = world.endpoint().of(telling).wanting("*").answering(500).retrying_after([]).create().await;
    let receiver = world.endpoint().answering(500).retrying_after([]).create().await;
    for _ in 0..25 {
        world.event("order.paid").publish().await;
    }
    world.pass(mins(1)).await;
    assert_eq!(types(&world, "endpoint_circuit_opened").await, ["alert.fired"]);
    assert_eq!(types(&world, "dead_letters").await, [""; 0], "not for five minutes yet");
    world.pass(mins(6)).await;
    assert_eq!(types(&world, "dead_letters").await, ["alert.fired"]);
    assert_eq!(types(&world, "endpoint_circuit_open_long").await, [""; 0]);
    world.pass(mins(60)).await;
    assert_eq!(types(&world, "endpoint_circuit_open_long").await.len(), 1);
    let about: Vec<_> = statuses(&world).await.into_iter().map(|status| status.target).collect();
    assert!(about.contains(receiver.id.as_uuid()) && !about.contains(deaf.id.as_uuid()), "nothing about those who hear of alerts");
    world.leaves_work_over();
}

/// The same among nodes.
async fn minutes_of_cluster(cluster: &mut Cluster, receiver: &Receiver, count: u32, successes: u32, failures: u32) {
    for _ in 0..count {
        attempts(cluster, receiver.id, successes, failures).await;
        cluster.pass(mins(1)).await;
    }
}

#[tokio::test]
async fn several_nodes_report_once_also_when_the_one_that_evaluates_dies() {
    let mut cluster = Cluster::of(0).await;
    cluster.alert_interval = secs(30);
    for _ in 0..3 {
        cluster.start().await;
    }
    cluster.pass(secs(10)).await;
    let receiver = cluster.endpoint().create().await;
    minutes_of_cluster(&mut cluster, &receiver, 2, 0, 30).await;
    assert_eq!(types(&cluster, DROP).await, ["alert.fired"]);
    let dutiful = (0..3).find(|node| cluster.node(*node).line.held_lease.does(Duty::AlertRules)).expect("one has the duty");
    cluster.kill(dutiful).await;
    minutes_of_cluster(&mut cluster, &receiver, 3, 0, 30).await;
    assert_eq!(types(&cluster, DROP).await, ["alert.fired"]);
    minutes_of_cluster(&mut cluster, &receiver, 8, 100, 0).await;
    assert_eq!(types(&cluster, DROP).await, ["alert.fired", "alert.resolved"]);
    cluster.leaves_work_over();
}

#[tokio::test]
async fn whatever_call_of_the_store_fails_an_alert_is_reported_once() {
    for kind in [Kind::Before, Kind::After] {
        let mut passing = 0;
        loop {
            assert!(passing < CALLS_MAX, "the story makes fewer calls");
            let mut world = settled_world().await;
            let receiver = world.endpoint().create().await;
            attempts(&world, receiver.id, 0, 30).await;
            world.faults.plan(passing, kind);
            world.pass(mins(2)).await;
            let has_struck = world.faults.has_struck();
            world.faults.forget();
            world.pass(mins(2)).await;
            assert_eq!(types(&world, DROP).await, ["alert.fired"], "{kind:?} after {passing} calls");
            world.leaves_work_over();
            if !has_struck {
                break;
            }
            passing += 1;
        }
    }
}

/// `ENDPOINTS=100000 cargo test --release … -- --nocapture` says what an evaluation costs.
#[tokio::test]
async fn an_evaluation_of_many_endpoints_finds_the_one_that_fails() {
    let count = std::env::var("ENDPOINTS").map_or(300, |count| count.parse().expect("`ENDPOINTS` is a number"));
    let mut world = World::new().await;
    let mut receivers = Vec::new();
    for _ in 0..count {
        receivers.push(world.endpoint().wanting("never").create().await);
    }
    let at = world.clock.now();
    let tallies = receivers.iter().enumerate().map(|(n, receiver)| {
        let mut tally = Tally::new(receiver.id.into(), minute_of(at));
        let failure = (n == count / 2).then_some(FailureCategory::ServerError);
        (0..30).for_each(|_| tally.count(failure, Duration::from_millis(20), at));
        tally
    });
    world.line().ports.statistics.add(tallies.collect(), FailingRule::default()).await.expect("the store answers");
    world.alert_interval = secs(30);
    world.crash().await;
    for what in ["the first evaluation, which reads an hour", "the second"] {
        let begun_at = std::time::Instant::now();
        world.pass(secs(30)).await;
        world.let_run(count as u32).await;
        eprintln!("{count} endpoints, {what}: {:?}", begun_at.elapsed());
    }
    world.pass(secs(30)).await;
    let failing = receivers[count / 2].id;
    let about: Vec<_> = statuses(&world).await.into_iter().filter(|status| status.rule.name == DROP).map(|status| status.target).collect();
    assert_eq!(about, [*failing.as_uuid()]);
    world.end().await;
}
