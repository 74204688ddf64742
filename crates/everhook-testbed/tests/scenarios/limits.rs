//! Limits of an organization hold whatever its lanes lead to, and whichever of them was opened last.

use bytes::Bytes;
use everhook_core::{
    calls::{Found, call::CallRequest},
    ids::Ref,
    inbound::Item,
    line::receive::{Push, PushedItem, receive},
    manage::{
        Change as Set, jobs, manifests,
        organizations::{self, LimitsChange, OrganizationChange},
        sources::{self, NewSource, SourceChange},
    },
    model::EventType,
    policy::{address::AddressRules, target::TargetRules},
    ports::Clock as _,
};
use everhook_testbed::{Receiver, World, mins, secs};
use serde_json::json;

const PER_MINUTE: u32 = 60;

/// More events than the limit lets through in the time of a scenario.
const EVENTS: usize = 400;

/// What brings a lane into memory that is no endpoint's.
#[derive(Clone, Copy, Debug)]
enum Opened {
    Capability,
    Callback,
    Processor,
    Channel,
}

async fn change(world: &World, asked: OrganizationChange) {
    organizations::change(world.line(), &world.author(), &Ref::Id(world.organization), asked).await.expect("it is changed");
}

/// Queues a job, with or without somebody who is told of it.
async fn queue(world: &World, callback_url: Option<&str>) {
    let manifest = json!({ "base_url": "https://app.example", "capabilities": { "report": { "path": "/work", "async": true } } });
    let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
    manifests::put(world.line(), &world.author(), &Ref::Id(world.application), manifest.to_string(), &rules).await.expect("it is good");
    let found = world.line().calls.find(world.organization, &Ref::Id(world.application), "report").await.expect("the store answers");
    let Found::Capability(capability) = found else { panic!("there is no such capability") };
    let (payload, callback_url) = (Bytes::from_static(b"{}"), callback_url.map(str::to_owned));
    let request =
        CallRequest { payload, charge: None, cache_key: None, timeout: None, trace: None, callback_url, arrived_at: world.clock.now() };
    jobs::call(world.line(), &capability, request, "https://hooks.example").await.expect("it is accepted");
}

/// Receives something for a processor.
async fn push(world: &World) {
    let settings = SourceChange {
        name: Set::Set("watch".to_owned()),
        kind: Set::Set("garmin".to_owned()),
        processor: Set::Set("health".to_owned()),
        forward: Set::Set(false),
        ..SourceChange::default()
    };
    let source = sources::create(world.line(), &world.author(), NewSource { application: None, settings }).await.expect("it is made");
    let item = Item {
        event_type: EventType::parse("dailies").expect("a type"),
        id: None,
        external_user: Some("somebody".to_owned()),
        body: Bytes::from_static(br#"{"userId":"somebody"}"#),
        content_type: Some("application/json".to_owned()),
    };
    let items = vec![PushedItem { item, key: None }];
    let push = Push { source: &source, items, kept_headers: Vec::new(), forwarded_headers: Vec::new(), traceparent: None };
    receive(world.line(), push).await.expect("it is accepted");
}

async fn open(world: &mut World, what: Opened) {
    match what {
        Opened::Capability => queue(world, None).await,
        Opened::Callback => queue(world, Some("https://caller.example/done")).await,
        Opened::Processor => push(world).await,
        Opened::Channel => {
            let emails = Set::Set(vec!["ops@example.com".to_owned()]);
            change(world, OrganizationChange { admin_emails: emails, ..OrganizationChange::default() }).await;
            world.endpoint().answering(410).wanting("gone").create().await;
            world.event("gone").publish().await;
        }
    }
}

/// A world with a limited organization, and an endpoint with a backlog.
async fn limited() -> (World, Receiver) {
    let mut world = World::new().await;
    let limits = LimitsChange { deliveries_per_minute: Set::Set(i64::from(PER_MINUTE)), ..LimitsChange::default() };
    change(&world, OrganizationChange { limits: Set::Set(limits), ..OrganizationChange::default() }).await;
    let receiver = world.endpoint().answering(200).wanting("order.*").taking_at_once(20).without_breaker().create().await;
    for _ in 0..EVENTS {
        world.event("order.paid").publish().await;
    }
    (world, receiver)
}

#[tokio::test]
async fn a_job_a_callback_a_processor_and_a_mail_do_not_lift_their_organizations_limit() {
    for what in [Opened::Capability, Opened::Callback, Opened::Processor, Opened::Channel] {
        let (mut world, receiver) = limited().await;
        world.pass(secs(10)).await;
        let before = world.arrivals_at(&receiver).len();
        open(&mut world, what).await;
        world.pass(mins(1)).await;
        let after = world.arrivals_at(&receiver).len() - before;
        assert!((30..=usize::try_from(PER_MINUTE).expect("it is small") + 2).contains(&after), "{what:?}: {after} in a minute");
        // More was published than the limit lets through in this time.
        world.leaves_work_over();
        world.end().await;
    }
}
