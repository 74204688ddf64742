//! The conditions of the default alert rules, as they come about: up to what a rule allows, one more, and back.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::{
    ids::{LaneId, Ref},
    inbound::Item,
    line::receive::{Push, PushedItem, receive},
    manage::{
        Change, dead_letters, manifests,
        organizations::{self, LimitsChange, OrganizationChange},
        sources::{self, NewSource, SourceChange},
    },
    model::{
        AlertScope, CapabilityName, EventType, FailingRule, FailureCategory, KeptBreaker, KeptStage, Source, SourceStatistics, SourceTally,
        Tally, minute_of,
    },
    policy::{address::AddressRules, alerts::defaults::DefaultRule, target::TargetRules},
    ports::{BreakerChange, Clock},
};
use everhook_testbed::{Answer, World, mins, secs};
use serde_json::json;
use uuid::Uuid;

use super::alert_rules::{settled_world, status_of_app};

/// So many good ones that no failure before them matters.
const MANY: u32 = 20_000;

/// Where the app of a scene is, and its health page.
const APP: &str = "https://app.example";
const HEALTH: &str = "https://app.example/health";

/// How a rule is broken.
#[derive(Clone, Copy)]
pub enum Cause {
    /// By attempts: those that are allowed, and one more.
    Attempts { allowed: [Attempts; 2], more: Attempts },
    /// By a circuit breaker.
    OpenCircuit,
    /// By more dead letters than these.
    DeadLetters { allowed: u32 },
    /// By events that take longer to be processed.
    SlowProcessing { allowed: Duration, longer: Duration },
    /// By one more failure than these among those that are completed.
    FailedProcessing { completed: u64, failed: u64 },
    /// By more events that die than these.
    DeadEvents { allowed: u64 },
    /// By more events that wait than these.
    Depth { allowed: u32 },
    /// By more requests with wrong signatures than these.
    BadSignatures { allowed: u64 },
    /// By more health checks that fail in a row than these.
    FailedHealthChecks { allowed: u32 },
}

/// Attempts that went alike.
#[derive(Clone, Copy)]
pub struct Attempts {
    count: u32,
    failure: Option<FailureCategory>,
    took: Duration,
}

impl Attempts {
    const fn good(count: u32) -> Self {
        Self { count, failure: None, took: Duration::from_millis(20) }
    }

    const fn failed(count: u32, category: FailureCategory) -> Self {
        Self { count, failure: Some(category), took: Duration::from_millis(20) }
    }
}

impl Cause {
    /// So many that fail among so many that succeed are allowed.
    pub fn failures(successes: u32, failures: u32) -> Self {
        let category = FailureCategory::ServerError;
        Self::Attempts { allowed: [Attempts::good(successes), Attempts::failed(failures, category)], more: Attempts::failed(1, category) }
    }

    /// The same of names that cannot be resolved.
    pub fn dns_failures(others: u32, failures: u32) -> Self {
        let category = FailureCategory::Dns;
        Self::Attempts { allowed: [Attempts::good(others), Attempts::failed(failures, category)], more: Attempts::failed(1, category) }
    }

    /// Attempts may take so long, and take longer.
    pub fn slowness(allowed: Duration, longer: Duration) -> Self {
        let slow = |took| Attempts { count: 100, failure: None, took };
        Self::Attempts { allowed: [Attempts::good(0), slow(allowed)], more: slow(longer) }
    }
}

/// A world with the thing that a rule watches.
pub struct Scene {
    pub world: World,
    /// What alerts are about.
    pub target: Uuid,
    cause: Cause,
    lane: LaneId,
    source: Option<Source>,
    /// The revision of the circuit breaker.
    revision: i64,
    pushed: u32,
}

impl Scene {
    pub async fn new(rule: &DefaultRule, cause: Cause) -> Self {
        let mut world = settled_world().await;
        let mut source = None;
        let (target, lane) = match rule.scope {
            AlertScope::Endpoint | AlertScope::Organization => {
                let made = world.endpoint().answering(500).without_breaker().taking_at_once(50).retrying_after([]).create().await;
                let (lane, organization) = (made.id.into(), *world.organization.as_uuid());
                let target = if rule.scope == AlertScope::Endpoint { *made.id.as_uuid() } else { organization };
                (target, lane)
            }
            AlertScope::Capability | AlertScope::Application => {
                let lane = put_manifest(&world).await;
                (if rule.scope == AlertScope::Capability { *lane.as_uuid() } else { *world.application.as_uuid() }, lane)
            }
            AlertScope::Source => {
                let made = make_source(&world).await;
                let id = *made.id.as_uuid();
                source = Some(made);
                (id, LaneId::from_uuid(id))
            }
            AlertScope::Server => panic!("{} is not evaluated here", rule.name),
        };
        Self { world, target, cause, lane, source, revision: 0, pushed: 0 }
    }

    /// Everything that the rule allows.
    pub async fn come_close(&mut self) {
        match self.cause {
            Cause::Attempts { allowed, .. } => self.attempt(&allowed).await,
            Cause::OpenCircuit => self.break_circuit(KeptStage::Closed).await,
            Cause::DeadLetters { allowed } => self.die(allowed).await,
            Cause::SlowProcessing { allowed, .. } => self.process(100, |statistics| statistics.took(allowed)).await,
            Cause::FailedProcessing { completed, failed } => {
                self.process(1, |statistics| {
                    let counts = statistics.events_mut("dailies");
                    (counts.completed, counts.failed) = (completed, failed);
                })
                .await;
            }
            Cause::DeadEvents { allowed } => self.process(1, |statistics| statistics.events_mut("dailies").dead = allowed).await,
            Cause::Depth { allowed } => {
                self.limit(Change::Set(1)).await;
                self.push(allowed).await;
            }
            Cause::BadSignatures { allowed } => self.process(1, |statistics| statistics.reject("bad_signature", allowed)).await,
            Cause::FailedHealthChecks { allowed } => {
                self.world.network.script(HEALTH, [], Answer::Status(500));
                while status_of_app(&self.world).await < allowed {
                    self.world.pass(secs(30)).await;
                }
            }
        }
    }

    /// One more.
    pub async fn break_it(&mut self) {
        match self.cause {
            Cause::Attempts { more, .. } => self.attempt(&[more]).await,
            Cause::OpenCircuit => {
                let until = self.world.clock.now() + mins(1);
                self.break_circuit(KeptStage::Open { until }).await;
            }
            Cause::DeadLetters { .. } => self.die(1).await,
            Cause::SlowProcessing { longer, .. } => self.process(100, |statistics| statistics.took(longer)).await,
            Cause::FailedProcessing { .. } => self.process(1, |statistics| statistics.events_mut("dailies").failed = 1).await,
            Cause::DeadEvents { .. } => self.process(1, |statistics| statistics.events_mut("dailies").dead = 1).await,
            // One is processed in a minute meanwhile.
            Cause::Depth { .. } => self.push(20).await,
            Cause::BadSignatures { .. } => self.process(1, |statistics| statistics.reject("bad_signature", 1)).await,
            Cause::FailedHealthChecks { .. } => self.world.pass(mins(5)).await,
        }
    }

    /// All is well again.
    pub async fn recover(&mut self) {
        match self.cause {
            Cause::Attempts { .. } => self.attempt(&[Attempts::good(MANY)]).await,
            Cause::OpenCircuit => self.break_circuit(KeptStage::Closed).await,
            Cause::DeadLetters { .. } => {
                let letter = self.world.dead_letters().await[0].id;
                dead_letters::discard(self.world.line(), &self.world.author(), letter).await.expect("it is discarded");
            }
            Cause::SlowProcessing { .. } => self.process(MANY, |statistics| statistics.took(secs(1))).await,
            Cause::FailedProcessing { .. } => {
                self.process(1, |statistics| statistics.events_mut("dailies").completed = MANY.into()).await;
            }
            Cause::DeadEvents { .. } => self.world.pass(mins(24 * 60)).await,
            Cause::Depth { .. } => self.limit(Change::Clear).await,
            Cause::BadSignatures { .. } => self.world.pass(mins(5)).await,
            Cause::FailedHealthChecks { .. } => {
                self.world.network.script(HEALTH, [], Answer::Body(200, "{}"));
                self.world.pass(mins(5)).await;
            }
        }
    }

    async fn attempt(&self, all: &[Attempts]) {
        let at = self.world.clock.now();
        let mut tally = Tally::new(self.lane, minute_of(at));
        for attempts in all {
            (0..attempts.count).for_each(|_| tally.count(attempts.failure, attempts.took, at));
        }
        self.world.line().ports.statistics.add(vec![tally], FailingRule::default()).await.expect("the store answers");
    }

    async fn break_circuit(&mut self, stage: KeptStage) {
        self.revision += 1;
        let change = BreakerChange {
            application: self.world.application,
            lane_id: self.lane,
            revision: self.revision,
            kept: KeptBreaker { stage, since: self.world.clock.now(), failed_recoveries: 0 },
            transition: None,
            alerts: Vec::new(),
            entry: None,
        };
        self.world.line().ports.breakers.keep(vec![change]).await.expect("the store answers");
    }

    /// So many deliveries fail for good.
    async fn die(&mut self, count: u32) {
        let before = self.world.dead_letters().await.len();
        for _ in 0..count {
            self.world.event("order.paid").publish().await;
        }
        self.world.pass(secs(1)).await;
        assert_eq!(self.world.dead_letters().await.len(), before + count as usize);
    }

    /// Something that happened at the source, so many times.
    async fn process(&self, times: u32, happen: impl Fn(&mut SourceStatistics)) {
        let source = self.source.as_ref().expect("there is a source");
        let mut statistics = SourceStatistics::default();
        (0..times).for_each(|_| happen(&mut statistics));
        let tally = SourceTally { source: source.id, minute: minute_of(self.world.clock.now()), statistics };
        self.world.line().ports.statistics.add_source_tallies(vec![tally]).await.expect("the store answers");
    }

    /// So many events come in, each of another user: those of one take turns.
    async fn push(&mut self, count: u32) {
        let source = self.source.as_ref().expect("there is a source");
        let items = (0..count).map(|n| item(&format!("user-{}", self.pushed + n))).collect();
        let push = Push { source, items, kept_headers: Vec::new(), forwarded_headers: Vec::new(), traceparent: None };
        receive(self.world.line(), push).await.expect("it is accepted");
        self.pushed += count;
    }

    /// How many deliveries the organization may begin in a minute.
    async fn limit(&self, per_minute: Change<i64>) {
        let limits = Change::Set(LimitsChange { deliveries_per_minute: per_minute, ..LimitsChange::default() });
        let asked = OrganizationChange { limits, ..OrganizationChange::default() };
        let of = Ref::Id(self.world.organization);
        organizations::change(self.world.line(), &self.world.author(), &of, asked).await.expect("it is changed");
    }
}

fn item(user: &str) -> PushedItem {
    let item = Item {
        event_type: EventType::parse("dailies").expect("a type"),
        id: None,
        external_user: Some(user.to_owned()),
        body: Bytes::from(json!({ "userId": user }).to_string()),
        content_type: Some("application/json".to_owned()),
    };
    PushedItem { item, key: None }
}

async fn make_source(world: &World) -> Source {
    let settings = SourceChange {
        name: Change::Set("watch".to_owned()),
        kind: Change::Set("garmin".to_owned()),
        processor: Change::Set("health".to_owned()),
        forward: Change::Set(false),
        ..SourceChange::default()
    };
    sources::create(world.line(), &world.author(), NewSource { application: None, settings }).await.expect("it is made")
}

/// A manifest with one capability, whose lane it is.
async fn put_manifest(world: &World) -> LaneId {
    let manifest = json!({ "base_url": APP, "health_path": "/health", "capabilities": { "ask": { "path": "/ask", "timeout": "15s" } } });
    let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
    world.network.script(HEALTH, [], Answer::Body(200, "{}"));
    let of = Ref::Id(world.application);
    manifests::put(world.line(), &world.author(), &of, manifest.to_string(), &rules).await.expect("it is good");
    CapabilityName::parse("ask").expect("a name").lane(world.application)
}
