//! Rules about the server itself: each fires on its condition, once, and is resolved; what the store cannot keep while it is away is recorded afterwards.

use std::sync::{Arc, Mutex};

use everhook_core::{
    ids::{AlertRuleId, Ref, Uid},
    jobs::server_alerts::{NodeReading, ServerAlertSettings, run},
    manage::{
        Change,
        alert_rules::{self, AlertRuleChange, RuleReach},
        alerts,
        organizations::{self, OrganizationChange},
    },
    model::{AlertStage, AlertStatus, Cursor, FailureCategory, PageRequest, Secret},
    policy::{
        address::AddressRules,
        alerts::defaults::DEFAULT_RULES,
        notice::pagerduty::PAGERDUTY_URL,
        target::{self, TargetRules},
    },
    ports::{AlertFilter, EventFilter},
};
use everhook_testbed::{World, faults::Kind, hours, mins, network::Answer, secs};
use serde_json::Value;
use tokio::task::JoinSet;

const SLACK: &str = "https://hooks.slack.example/services/server";
const PAGE: PageRequest = PageRequest { limit: 100, cursor: Cursor::Newest };

/// More calls than the story makes.
const CALLS_MAX: u32 = 300;

/// A node that watches its server, and what it reads of itself.
struct Watching {
    world: World,
    reading: Arc<Mutex<NodeReading>>,
    tasks: JoinSet<()>,
}

impl Watching {
    async fn start() -> Self {
        let world = World::new().await;
        let emails = Change::Set(vec!["ops@example.com".to_owned()]);
        let asked = OrganizationChange { admin_emails: emails, ..OrganizationChange::default() };
        organizations::change(world.line(), &world.author(), &Ref::Id(world.organization), asked).await.expect("the address is set");
        world.network.script(SLACK, [], Answer::Body(200, "ok"));
        world.network.script(PAGERDUTY_URL, [], Answer::Status(202));
        let mut watching = Self { world, reading: Arc::default(), tasks: JoinSet::new() };
        watching.add_node();
        watching
    }

    /// Another node on the same store that reads the same of itself.
    fn add_node(&mut self) {
        let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
        let settings = ServerAlertSettings {
            organization: self.world.organization,
            admin_emails: Vec::new(),
            slack_url: Some(Secret::new(target::check(SLACK, &rules).expect("a good URL"))),
            pagerduty_key: Some(Secret::new("R0123456789abcdefghijklmnopqrstu".to_owned())),
        };
        let reading = self.reading.clone();
        let read = Box::new(move || *reading.lock().expect("no test panicked here"));
        self.tasks.spawn(run(self.world.line().clone(), read, settings));
    }

    fn reads(&self, change: impl FnOnce(&mut NodeReading)) {
        change(&mut self.reading.lock().expect("no test panicked here"));
    }

    async fn pass(&mut self, span: std::time::Duration) {
        self.world.pass(span).await;
    }

    async fn change(&self, rule: &str, asked: AlertRuleChange) {
        let (of, reach) = (Ref::Uid(Uid::parse(rule).expect("a name")), RuleReach::Server);
        alert_rules::change(self.world.line(), &self.world.author(), reach, &of as &Ref<AlertRuleId>, asked).await.expect("it is changed");
    }

    /// What Slack was told, in order: the alert, or that it is over.
    fn told(&self) -> Vec<String> {
        let arrivals = self.world.network.arrivals();
        let texts = arrivals.iter().filter(|arrival| arrival.url == SLACK).map(|arrival| {
            let body: Value = serde_json::from_slice(&arrival.request.body).expect("JSON");
            let text = body["text"].as_str().expect("a text").replace('\u{200b}', "");
            text.split_once("] ").expect("a label").1.to_owned()
        });
        texts.collect()
    }

    /// What PagerDuty was told: what to do with which incident.
    fn incidents(&self) -> Vec<(String, String)> {
        let arrivals = self.world.network.arrivals();
        let events = arrivals.iter().filter(|arrival| arrival.url == PAGERDUTY_URL).map(|arrival| {
            let body: Value = serde_json::from_slice(&arrival.request.body).expect("JSON");
            let text = |name: &str| body[name].as_str().expect("a text").to_owned();
            (text("event_action"), text("dedup_key"))
        });
        events.collect()
    }

    /// The operational events about a rule, oldest first.
    async fn events(&self, rule: &str) -> Vec<(String, Value)> {
        let (history, organization) = (&self.world.line().ports.history, self.world.organization);
        let filter = EventFilter { application: Some(self.world.operational), ..EventFilter::default() };
        let mut found = Vec::new();
        for summary in history.events(organization, filter, PAGE).await.expect("the store answers").rows.iter().rev() {
            let (_, event) = history.event(organization, summary.id).await.expect("the store answers").expect("it is kept");
            let data: Value = serde_json::from_slice(&event.expect("it is kept").data).expect("JSON");
            if data["rule"] == rule {
                found.push((summary.event_type.to_string(), data));
            }
        }
        found
    }

    async fn types(&self, rule: &str) -> Vec<String> {
        self.events(rule).await.into_iter().map(|(event_type, _)| event_type).collect()
    }

    async fn record(&self, rule: &str) -> Option<AlertStatus> {
        let rows = self.world.line().ports.alerts.alerts(self.world.organization, AlertFilter::default(), PAGE).await;
        rows.expect("the store answers").rows.into_iter().find(|status| status.rule.name == rule)
    }

    async fn end(self) {
        let Self { world, tasks, .. } = self;
        drop(tasks);
        world.end().await;
    }
}

fn fired(rule: &str) -> String {
    format!("Alert: {rule}")
}

fn resolved(rule: &str) -> String {
    format!("Alert Resolved: {rule}")
}

/// How a condition is made and unmade, how long it may last without an alert, and after how long there must be one.
struct Story {
    rule: &'static str,
    make: fn(&Watching),
    unmake: fn(&Watching),
    not_before: u64,
    by: u64,
}

fn database_away(of: &Watching) {
    of.world.faults.set_away(true);
}

fn database_back(of: &Watching) {
    of.world.faults.set_away(false);
}

fn redis_away(of: &Watching) {
    of.reads(|reading| reading.redis_is_away = true);
}

fn redis_back(of: &Watching) {
    of.reads(|reading| reading.redis_is_away = false);
}

const STORIES: [Story; 7] = [
    Story {
        rule: "server_workers_busy",
        make: |of| of.reads(|reading| reading.workers_busy = 80.1),
        unmake: |of| of.reads(|reading| reading.workers_busy = 80.0),
        not_before: 299,
        by: 310,
    },
    Story { rule: "redis_away", make: redis_away, unmake: redis_back, not_before: 120, by: 131 },
    Story { rule: "redis_fallback", make: redis_away, unmake: redis_back, not_before: 300, by: 311 },
    Story { rule: "database_away", make: database_away, unmake: database_back, not_before: 30, by: 45 },
    Story { rule: "database_failures", make: database_away, unmake: database_back, not_before: 19, by: 31 },
    Story {
        rule: "infrastructure_dual_failure",
        make: |of| {
            redis_away(of);
            database_away(of);
        },
        unmake: |of| {
            redis_back(of);
            database_back(of);
        },
        not_before: 1,
        by: 16,
    },
    Story {
        rule: "rabbitmq_reconnects",
        make: |of| of.reads(|reading| reading.rabbitmq_failures = 3),
        unmake: |of| of.reads(|reading| reading.rabbitmq_failures = 2),
        not_before: 0,
        by: 6,
    },
];

/// Lets the rules of others be off, so that a story is about one.
async fn only(watching: &Watching, rule: &str) {
    for other in DEFAULT_RULES.iter().filter(|other| other.scope.as_str() == "server" && other.name != rule) {
        watching.change(other.name, AlertRuleChange { enabled: Change::Set(false), ..AlertRuleChange::default() }).await;
    }
}

#[tokio::test]
async fn each_rule_about_the_server_fires_on_its_condition_not_before_once_and_resolves() {
    for Story { rule, make, unmake, not_before, by } in STORIES {
        let mut watching = Watching::start().await;
        only(&watching, rule).await;
        watching.pass(secs(12)).await;
        make(&watching);
        watching.pass(secs(not_before)).await;
        assert_eq!(watching.told(), [""; 0], "{rule}: not before");
        watching.pass(secs(by - not_before)).await;
        assert_eq!(watching.told(), [fired(rule)], "{rule}");
        watching.pass(mins(30)).await;
        assert_eq!(watching.told(), [fired(rule)], "{rule}: once");
        unmake(&watching);
        watching.pass(secs(15)).await;
        assert_eq!(watching.told(), [fired(rule), resolved(rule)], "{rule}: its end");
        watching.pass(mins(30)).await;
        assert_eq!(watching.told().len(), 2, "{rule}: nothing more");
        let incident = |action: &str| (action.to_owned(), format!("everhook/server/{rule}"));
        assert_eq!(watching.incidents(), [incident("trigger"), incident("resolve")], "{rule}");
        assert_eq!(watching.world.mail_server.taken_for(), ["ops@example.com"; 2], "{rule}");
        assert_eq!(watching.types(rule).await, ["alert.fired", "alert.resolved"], "{rule}: recorded");
        let record = watching.record(rule).await.expect("it has a history");
        assert_eq!((record.stage, record.episodes.len()), (AlertStage::Ok, 1), "{rule}");
        watching.end().await;
    }
}

#[tokio::test]
async fn what_lasts_is_reported_again_after_a_day() {
    let mut watching = Watching::start().await;
    watching.pass(secs(12)).await;
    watching.reads(|reading| reading.rabbitmq_failures = 3);
    watching.pass(hours(23)).await;
    let rule = "rabbitmq_reconnects";
    assert_eq!(watching.told(), [fired(rule)]);
    watching.pass(mins(70)).await;
    assert_eq!(watching.told(), [fired(rule), format!("Alert Still Firing: {rule}")]);
    assert_eq!(watching.types(rule).await, ["alert.fired", "alert.fired"]);
    watching.end().await;
}

#[tokio::test]
async fn the_depth_of_the_queue_is_counted_in_the_store() {
    let mut watching = Watching::start().await;
    watching.change("server_depth", AlertRuleChange { threshold: Change::Set(2.0), ..AlertRuleChange::default() }).await;
    watching.world.endpoint().answering(503).retrying_after([hours(1)]).create().await;
    for _ in 0..2 {
        watching.world.event("order.paid").publish().await;
    }
    watching.pass(secs(20)).await;
    assert_eq!(watching.told(), [""; 0], "as many as may wait");
    watching.world.event("order.paid").publish().await;
    watching.pass(secs(20)).await;
    assert_eq!(watching.told(), [fired("server_depth")]);
    watching.pass(hours(2)).await;
    assert_eq!(watching.told(), [fired("server_depth"), resolved("server_depth")]);
    watching.end().await;
}

#[tokio::test]
async fn an_outage_of_the_store_is_reported_meanwhile_and_recorded_afterwards_and_no_channel_repeats_it() {
    let mut watching = Watching::start().await;
    watching.pass(secs(12)).await;
    watching.world.faults.set_away(true);
    watching.pass(mins(10)).await;
    // Five reads failed before it was away for long enough: that is one trouble.
    assert_eq!(watching.told(), [fired("database_failures")]);
    watching.world.faults.set_away(false);
    watching.pass(secs(30)).await;
    assert_eq!(watching.told(), [fired("database_failures"), resolved("database_failures")]);
    let events = watching.events("database_failures").await;
    let [(began, begin), (ended, end)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((began.as_str(), ended.as_str()), ("alert.fired", "alert.resolved"));
    assert_eq!(
        (&begin["dedupe_key"], &begin["sent_directly"], &begin["node"]),
        (&"everhook/server/database_failures".into(), &true.into(), &"world".into())
    );
    assert_eq!((&begin["alert_id"], &begin["fired_at"]), (&end["alert_id"], &end["fired_at"]));
    assert!(begin["summary"].as_str().unwrap().ends_with("reads of the database in a row have failed."), "{begin}");
    // One mail each: the channels of the organization got nothing of the events.
    watching.pass(mins(5)).await;
    assert_eq!(watching.world.mail_server.taken_for(), ["ops@example.com"; 2]);
    assert_eq!(watching.types("database_away").await, [""; 0]);
    watching.end().await;
}

#[tokio::test]
async fn of_several_nodes_one_notifies_while_the_store_answers_and_one_records_what_all_noticed() {
    let mut watching = Watching::start().await;
    (0..2).for_each(|_| watching.add_node());
    watching.pass(secs(12)).await;
    redis_away(&watching);
    watching.pass(mins(4)).await;
    assert_eq!(watching.told(), [fired("redis_away")]);
    redis_back(&watching);
    watching.pass(mins(4)).await;
    assert_eq!(watching.told(), [fired("redis_away"), resolved("redis_away")]);
    // While the store is away, each node speaks for itself, of one incident.
    watching.world.faults.set_away(true);
    watching.pass(mins(4)).await;
    assert_eq!(watching.told()[2..], [fired("database_failures"), fired("database_failures"), fired("database_failures")]);
    watching.world.faults.set_away(false);
    watching.pass(mins(4)).await;
    assert_eq!(watching.told()[5..], [resolved("database_failures")]);
    assert_eq!(watching.types("database_failures").await, ["alert.fired", "alert.resolved"]);
    assert_eq!(watching.types("redis_away").await, ["alert.fired", "alert.resolved"]);
    watching.end().await;
}

#[tokio::test]
async fn rules_that_were_changed_hold_while_the_store_is_away_and_an_alert_can_be_silenced() {
    let mut watching = Watching::start().await;
    let off = AlertRuleChange { enabled: Change::Set(false), ..AlertRuleChange::default() };
    watching.change("database_failures", off).await;
    let later = AlertRuleChange { threshold: Change::Set(600.0), ..AlertRuleChange::default() };
    watching.change("database_away", later).await;
    watching.pass(secs(12)).await;
    watching.world.faults.set_away(true);
    watching.pass(mins(9)).await;
    assert_eq!(watching.told(), [""; 0]);
    watching.pass(mins(2)).await;
    assert_eq!(watching.told(), [fired("database_away")]);
    watching.world.faults.set_away(false);
    watching.pass(mins(1)).await;
    let record = watching.record("database_away").await.expect("it is recorded");
    alerts::silence(watching.world.line(), &watching.world.author(), record.id, hours(2)).await.expect("it is silenced");
    watching.pass(secs(12)).await;
    watching.world.faults.set_away(true);
    watching.pass(mins(20)).await;
    watching.world.faults.set_away(false);
    watching.pass(mins(1)).await;
    assert_eq!(watching.told(), [fired("database_away"), resolved("database_away")], "nobody hears of the second");
    watching.end().await;
}

#[tokio::test]
async fn services_that_are_away_are_tried_again_in_order_and_nothing_piles_up() {
    let mut watching = Watching::start().await;
    watching.pass(secs(12)).await;
    watching.world.network.script(SLACK, [], Answer::Fails(FailureCategory::Network));
    watching.world.network.script(PAGERDUTY_URL, [], Answer::Hangs);
    watching.reads(|reading| reading.rabbitmq_failures = 3);
    watching.pass(mins(30)).await;
    watching.reads(|reading| reading.rabbitmq_failures = 0);
    watching.pass(mins(30)).await;
    let tries = watching.told().len();
    assert!((8..=20).contains(&tries), "{tries} in an hour");
    assert_eq!(watching.world.mail_server.taken_for().len(), 2, "mail does not wait for Slack");
    watching.world.network.script(SLACK, [], Answer::Body(200, "ok"));
    watching.pass(mins(10)).await;
    let told = watching.told();
    assert_eq!(told[told.len() - 2..], [fired("rabbitmq_reconnects"), resolved("rabbitmq_reconnects")]);
    // PagerDuty never comes back: its notices are given up.
    watching.pass(hours(5)).await;
    let tries = watching.incidents().len();
    watching.pass(hours(1)).await;
    assert_eq!(watching.incidents().len(), tries);
    watching.end().await;
}

#[tokio::test]
async fn whatever_call_of_the_store_fails_an_alert_is_sent_and_recorded_once() {
    for kind in [Kind::Before, Kind::After] {
        for passing in 0..CALLS_MAX {
            let mut watching = Watching::start().await;
            watching.pass(secs(12)).await;
            watching.world.faults.plan(passing, kind);
            watching.reads(|reading| reading.rabbitmq_failures = 3);
            watching.pass(secs(40)).await;
            let has_struck = watching.world.faults.has_struck();
            watching.world.faults.forget();
            watching.reads(|reading| reading.rabbitmq_failures = 0);
            watching.pass(secs(40)).await;
            let rule = "rabbitmq_reconnects";
            assert_eq!(watching.told(), [fired(rule), resolved(rule)], "{kind:?} after {passing} calls");
            assert_eq!(watching.types(rule).await, ["alert.fired", "alert.resolved"], "{kind:?} after {passing} calls");
            watching.world.leaves_work_over();
            watching.end().await;
            if !has_struck {
                break;
            }
        }
    }
}
