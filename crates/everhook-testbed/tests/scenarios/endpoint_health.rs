//! Endpoints that fail for days: their owners are warned, they are disabled, and their owners hear when they work again. Each once.

use std::{collections::BTreeSet, time::Duration};

use everhook_core::{
    ids::{EndpointId, LaneId, Ref},
    line::recall::recall,
    manage::{
        Change,
        endpoints::{self, EndpointChange, Health, HealthStatus},
        organizations::{self, OrganizationChange},
    },
    model::{CountedFailures, DisabledReason, Duty, EndpointState, FailingRule, HealthReportKind, OrderingMode, Tally, minute_of},
    policy::{
        address::AddressRules,
        cron::CronSchedule,
        endpoint_health::{EndpointHealthSettings, HealthPhase},
        target::TargetRules,
    },
    ports::Clock,
};
use everhook_testbed::{Answer, Receiver, World, cluster::Cluster, faults::Kind, hours, mins, secs};

const ADMINS: [&str; 2] = ["dev@example.com", "ops@example.com"];

/// More calls than the short story makes.
const CALLS_MAX: u32 = 400;

fn days(count: u64) -> Duration {
    hours(count * 24)
}

/// The whole story in half a minute: every failure starts the clock, and it is checked each second.
fn in_seconds() -> EndpointHealthSettings {
    EndpointHealthSettings {
        rule: FailingRule { window: hours(1), spread: Duration::ZERO, failures_min: 1 },
        warning_after: secs(6),
        disable_after: secs(10),
        schedule: CronSchedule::parse("* * * * * *").expect("a schedule"),
        ..EndpointHealthSettings::default()
    }
}

async fn world_with(settings: EndpointHealthSettings) -> World {
    let mut world = World::new().await;
    world.endpoint_health = settings;
    world.crash().await;
    world
}

async fn set_admins(world: &World) {
    let emails = Change::Set(ADMINS.iter().map(ToString::to_string).collect());
    let asked = OrganizationChange { admin_emails: emails, ..OrganizationChange::default() };
    organizations::change(world.line(), &world.author(), &Ref::Id(world.organization), asked).await.expect("the addresses are set");
}

async fn enable(world: &World, receiver: &Receiver) {
    let rules = TargetRules { allow_http: true, addresses: AddressRules::public_only(), allow_amqp: false };
    let found = endpoints::find(world.line(), world.organization, &Ref::Id(receiver.id)).await.expect("it is there");
    let asked = EndpointChange { enabled: Change::Set(true), ..EndpointChange::default() };
    endpoints::change(world.line(), &rules, &world.author(), found, asked).await.expect("it is enabled");
}

async fn health(world: &World, receiver: &Receiver) -> Health {
    endpoints::health(world.line(), world.organization, &Ref::Id(receiver.id)).await.expect("the endpoint is there")
}

async fn state(world: &World, receiver: &Receiver) -> EndpointState {
    endpoints::find(world.line(), world.organization, &Ref::Id(receiver.id)).await.expect("it is there").state
}

/// The operational events about health, in order.
async fn told(world: &World) -> Vec<String> {
    world.operational_types().await.into_iter().filter(|name| name.starts_with("endpoint.")).collect()
}

/// The mails, with what differs between runs replaced, each after its instant and its recipient.
fn mails(world: &World, receiver: &Receiver) -> String {
    let mails = world.mail_server.taken();
    let for_one = mails.iter().filter(|mail| mail.message.to.to_string() == ADMINS[0]);
    let written = for_one.map(|mail| format!("{} {}\n\n{}", mail.at, mail.message.subject, mail.message.text));
    let text = written.collect::<Vec<_>>().join("\n----\n");
    text.replace(&receiver.id.to_string(), "ENDPOINT").replace(&world.application.to_string(), "APPLICATION")
}

#[tokio::test]
async fn an_endpoint_that_fails_for_days_is_warned_of_disabled_and_reported_when_it_works_again() {
    let mut world = World::new().await;
    set_admins(&world).await;
    let receiver = world.endpoint().answering(503).without_breaker().create().await;
    let mut seen = Vec::new();
    for _ in 0..7 {
        world.event("order.paid").publish().await;
        world.pass(days(1)).await;
        seen.push(health(&world, &receiver).await.status);
    }
    use HealthStatus::{Disabled, Failing, Warned};
    assert_eq!(seen, [Failing, Failing, Failing, Warned, Warned, Disabled, Disabled]);
    assert_eq!(told(&world).await, ["endpoint.warning", "endpoint.disabled"]);
    let waiting = world.deliveries().await.into_iter().filter(|delivery| delivery.stage.as_str() == "waiting").count();
    assert_eq!(waiting, 0, "what waited for it is cancelled");
    // Enabled again, it has the whole time once more, and its first success is reported.
    enable(&world, &receiver).await;
    assert_eq!(health(&world, &receiver).await.activity.clock.failing_since, None);
    world.network.script(&receiver.url, [], Answer::Status(200));
    world.event("order.paid").publish().await;
    world.pass(secs(5)).await;
    assert_eq!(told(&world).await, ["endpoint.warning", "endpoint.disabled", "endpoint.recovered"]);
    let history: Vec<_> = health(&world, &receiver).await.history.iter().map(|record| record.kind).collect();
    assert_eq!(history, [HealthReportKind::Recovered, HealthReportKind::Disabled, HealthReportKind::Warned]);
    world.pass(days(1)).await;
    assert_eq!(world.mail_server.taken().len(), 3 * ADMINS.len(), "each was told once of each");
    insta::assert_snapshot!(mails(&world, &receiver));
    world.end().await;
}

#[tokio::test]
async fn one_success_in_between_is_enough() {
    let mut world = world_with(EndpointHealthSettings { warning_after: secs(8), disable_after: secs(20), ..in_seconds() }).await;
    let answers = [Answer::Status(500), Answer::Status(200)];
    let receiver = world.endpoint().answering_in_turn(answers).always(Answer::Status(500)).without_breaker().create().await;
    world.event("order.paid").publish().await;
    world.pass(secs(4)).await;
    let before = health(&world, &receiver).await;
    assert!(before.activity.clock.failing_since.is_some() && before.disable_at.is_some());
    // Its second attempt, after five seconds, succeeds; the third fails again.
    world.pass(secs(3)).await;
    assert_eq!(health(&world, &receiver).await.activity.clock.failing_since, None);
    world.event("order.paid").publish().await;
    world.pass(secs(5)).await;
    assert_eq!(told(&world).await, [""; 0], "twelve seconds after the first failure, five after the one that followed the success");
    world.pass(secs(5)).await;
    assert_eq!(told(&world).await, ["endpoint.warning"]);
    world.leaves_work_over();
}

#[tokio::test]
async fn a_paused_endpoint_is_left_alone_and_gets_the_whole_time_when_it_is_resumed() {
    let mut world = world_with(in_seconds()).await;
    let receiver = world.endpoint().answering(500).without_breaker().create().await;
    world.event("order.paid").publish().await;
    world.pass(secs(3)).await;
    assert!(health(&world, &receiver).await.warning_at.is_some());
    endpoints::pause(world.line(), &world.author(), &Ref::Id(receiver.id)).await.expect("it is paused");
    world.pass(mins(2)).await;
    let paused = health(&world, &receiver).await;
    assert_eq!((paused.status, paused.warning_at, paused.disable_at), (HealthStatus::Paused, None, None));
    assert_eq!((told(&world).await, state(&world, &receiver).await), (Vec::new(), EndpointState::Enabled));
    endpoints::resume(world.line(), &world.author(), &Ref::Id(receiver.id), None).await.expect("it goes on");
    world.pass(secs(4)).await;
    assert_eq!(told(&world).await, [""; 0], "its clock began with the first failure after the pause");
    world.pass(secs(5)).await;
    assert_eq!(told(&world).await, ["endpoint.warning"]);
    world.leaves_work_over();
}

#[tokio::test]
async fn each_phase_goes_as_far_as_it_says() {
    let cases: [(HealthPhase, &[&str]); 4] = [
        (HealthPhase::Off, &[]),
        (HealthPhase::Observe, &[]),
        (HealthPhase::Warn, &["endpoint.warning"]),
        (HealthPhase::Disable, &["endpoint.warning", "endpoint.disabled"]),
    ];
    for (phase, expected) in cases {
        let mut world = world_with(EndpointHealthSettings { phase, ..in_seconds() }).await;
        let receiver = world.endpoint().answering(500).create().await;
        world.event("order.paid").publish().await;
        world.pass(mins(1)).await;
        assert_eq!(told(&world).await, expected, "{phase:?}");
        let is_enabled = state(&world, &receiver).await == EndpointState::Enabled;
        assert_eq!(is_enabled, phase != HealthPhase::Disable, "{phase:?}");
        world.leaves_work_over();
    }
}

#[tokio::test]
async fn who_begins_to_disable_leaves_those_that_failed_before_the_time_that_the_warning_says() {
    let mut world = world_with(EndpointHealthSettings { phase: HealthPhase::Observe, ..in_seconds() }).await;
    let receiver = world.endpoint().answering(500).create().await;
    world.event("order.paid").publish().await;
    world.pass(mins(3)).await;
    world.endpoint_health = in_seconds();
    world.crash().await;
    world.pass(secs(3)).await;
    assert_eq!(told(&world).await, ["endpoint.warning"]);
    let promised = health(&world, &receiver).await.disable_at.expect("it is to be disabled");
    world.pass(promised.since(world.clock.now()) - secs(1)).await;
    assert_eq!(state(&world, &receiver).await, EndpointState::Enabled);
    world.pass(secs(2)).await;
    assert_eq!(state(&world, &receiver).await, EndpointState::Disabled { at: promised, reason: DisabledReason::Failing });
    world.end().await;
}

#[tokio::test]
async fn what_a_person_brings_back_does_not_count_toward_disabling() {
    let mut world = World::new().await;
    let receiver = world.endpoint().answering(500).retrying_after([]).create().await;
    world.event("order.paid").publish().await;
    world.pass(secs(2)).await;
    for _ in 0..5 {
        world.pass(hours(4)).await;
        let letter = world.dead_letters().await[0].id;
        recall(world.line(), world.organization, letter).await.expect("it is brought back");
        world.pass(secs(2)).await;
    }
    let health = health(&world, &receiver).await;
    assert_eq!((health.activity.consecutive_failures, health.activity.clock.failing_since), (6, None));
    world.end().await;
}

#[tokio::test]
async fn an_endpoint_for_operational_events_is_neither_warned_of_nor_disabled() {
    let mut world = world_with(in_seconds()).await;
    let tower = world.operational;
    let watching = world.endpoint().of(tower).answering(500).create().await;
    let gone = world.endpoint().answering(410).create().await;
    world.event("order.paid").publish().await;
    world.pass(mins(1)).await;
    assert!(matches!(state(&world, &gone).await, EndpointState::Disabled { reason: DisabledReason::Gone, .. }));
    let health = health(&world, &watching).await;
    assert!(health.activity.clock.failing_since.is_some() && health.disable_at.is_none());
    assert_eq!((told(&world).await, state(&world, &watching).await), (vec!["endpoint.disabled".to_owned()], EndpointState::Enabled));
    world.leaves_work_over();
}

/// Fails, is warned of, is disabled, is enabled and works, with one fault in between. Says whether the fault struck.
async fn short_story(passing: u32, kind: Kind) -> bool {
    let mut world = world_with(in_seconds()).await;
    let receiver = world.endpoint().answering(500).create().await;
    world.event("order.paid").publish().await;
    world.pass(secs(2)).await;
    world.faults.plan(passing, kind);
    world.pass(secs(20)).await;
    let has_struck = world.faults.has_struck();
    world.faults.forget();
    assert_eq!(told(&world).await, ["endpoint.warning", "endpoint.disabled"], "with call {passing} failing {kind:?}");
    enable(&world, &receiver).await;
    world.network.script(&receiver.url, [], Answer::Status(200));
    world.event("order.paid").publish().await;
    world.faults.plan(passing, kind);
    world.pass(secs(10)).await;
    let expected = ["endpoint.warning", "endpoint.disabled", "endpoint.recovered"];
    assert_eq!(told(&world).await, expected, "with call {passing} failing {kind:?}");
    world.end().await;
    has_struck
}

#[tokio::test]
async fn nothing_is_reported_twice_or_never_whichever_call_fails() {
    for kind in [Kind::Before, Kind::After] {
        let calls = {
            let mut passing = 0;
            while short_story(passing, kind).await {
                passing += 1;
                assert!(passing < CALLS_MAX, "the story makes more calls");
            }
            passing
        };
        assert!(calls > 10, "the story made only {calls} calls");
    }
}

#[tokio::test]
async fn several_nodes_report_each_thing_once_also_if_the_one_that_checks_dies() {
    let mut cluster = Cluster::of(0).await;
    cluster.endpoint_health = in_seconds();
    for _ in 0..3 {
        cluster.start().await;
    }
    cluster.pass(secs(10)).await;
    set_admins(&cluster).await;
    let receiver = cluster.endpoint().answering(503).without_breaker().create().await;
    cluster.event("order.paid").publish().await;
    cluster.pass(secs(8)).await;
    assert_eq!(told(&cluster).await, ["endpoint.warning"]);
    // The node whose duty it is dies before it disables the endpoint; another takes over.
    let dutiful = (0..3).find(|node| cluster.node(*node).line.held_lease.does(Duty::EndpointHealth)).expect("one has the duty");
    cluster.kill(dutiful).await;
    cluster.pass(mins(3)).await;
    assert_eq!(told(&cluster).await, ["endpoint.warning", "endpoint.disabled"]);
    assert_eq!(cluster.mail_server.taken().len(), 2 * ADMINS.len());
    assert!(matches!(state(&cluster, &receiver).await, EndpointState::Disabled { reason: DisabledReason::Failing, .. }));
    cluster.leaves_work_over();
}

#[tokio::test]
async fn an_organization_whose_endpoints_all_fail_is_told_of_each_once_in_one_check() {
    let count = std::env::var("ENDPOINTS").map_or(600, |count| count.parse().expect("`ENDPOINTS` is a number"));
    let mut world = World::new().await;
    let failed_at = world.clock.now();
    let mut lanes = Vec::new();
    for _ in 0..count {
        lanes.push(LaneId::from(world.endpoint().wanting("never").create().await.id));
    }
    let tallies = lanes.iter().map(|lane_id| {
        let mut tally = Tally::new(*lane_id, minute_of(failed_at));
        tally.counted = CountedFailures { count: 1, first_at: Some(failed_at), last_at: Some(failed_at) };
        tally
    });
    world.line().ports.statistics.add(tallies.collect(), in_seconds().rule).await.expect("the store answers");
    let begun_at = std::time::Instant::now();
    world.endpoint_health = in_seconds();
    world.crash().await;
    world.pass(secs(8)).await;
    world.let_run(20 * count as u32).await;
    eprintln!("{count} warnings in {:?}", begun_at.elapsed());
    let activities = world.line().ports.statistics.activities(lanes.clone()).await.expect("the store answers");
    let warned: BTreeSet<_> = activities.iter().map(|activity| activity.clock.warned_at).collect();
    assert_eq!(warned.len(), 1, "all of them by one check: {warned:?}");
    assert!(warned.iter().all(Option::is_some));
    world.pass(secs(6)).await;
    // The world takes a long check, which nothing outside shows, for stillness: it is given the time that it needs.
    world.let_run(20 * count as u32).await;
    eprintln!("{count} warnings and disablings in {:?}", begun_at.elapsed());
    let activities = world.line().ports.statistics.activities(lanes.clone()).await.expect("the store answers");
    let running = activities.iter().filter(|activity| activity.clock.failing_since.is_some()).count();
    let owed = activities.iter().filter(|activity| activity.clock.owes_recovery).count();
    assert_eq!((running, owed), (0, count), "all are disabled");
    for lane_id in [lanes[0], lanes[count - 1]] {
        let endpoint = EndpointId::from_uuid(*lane_id.as_uuid());
        let history = world.line().ports.endpoint_health.health_history(endpoint).await.expect("the store answers");
        assert_eq!(history.len(), 2, "one warning, one disabling");
    }
    world.leaves_work_over();
}

#[tokio::test]
async fn the_last_error_is_named_also_if_many_newer_deliveries_wait_without_an_attempt() {
    let mut world = world_with(in_seconds()).await;
    set_admins(&world).await;
    // In order: the others are held behind the first.
    world.endpoint().answering(500).in_order(OrderingMode::Strict).create().await;
    for _ in 0..15 {
        world.event("order.paid").publish().await;
    }
    world.pass(secs(8)).await;
    let mails = world.mail_server.taken();
    let warning = mails.iter().find(|mail| mail.message.subject.contains("Failing Endpoint")).expect("they were warned");
    assert!(warning.message.text.contains("Last error:    the endpoint answered 500"), "{}", warning.message.text);
    assert!(warning.message.text.contains("Next attempt:"), "{}", warning.message.text);
    world.leaves_work_over();
    world.end().await;
}
