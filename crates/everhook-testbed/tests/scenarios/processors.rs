//! Processors: an event of a source has one effect, however often it is attempted, waits for its user, and keeps its place.

use bytes::Bytes;
use everhook_core::{
    ids::{AuditEntryId, LaneId, Ref},
    inbound::Item,
    line::receive::{Push, PushedItem, receive},
    manage::{
        Change, applications,
        health::{self, NewConnection},
        received::{self, ReceivedQuery, ReceivedStatus},
        sources::{self, NewSource, SourceChange},
    },
    model::{
        Actor, AuditAction, AuditEntry, AuditNote, CancelCause, Cursor, EventType, LaneKind, PageRequest, Source, Stage,
        health::{ExternalUserId, Metric, ProfileId, Provider},
    },
    ports::{Clock, DeliveryFilter, MetricFilter, ReceivedFilter, TimeRange, Updated},
};
use everhook_testbed::{World, hours, mins, secs};

const ALL: PageRequest = PageRequest { limit: 1_000, cursor: Cursor::Newest };

async fn garmin(world: &World) -> Source {
    let settings = SourceChange {
        name: Change::Set("watch".to_owned()),
        kind: Change::Set("garmin".to_owned()),
        processor: Change::Set("health".to_owned()),
        forward: Change::Set(false),
        ..SourceChange::default()
    };
    sources::create(world.line(), &world.author(), NewSource { application: None, settings }).await.unwrap()
}

/// A day's steps of a user, as Garmin pushes them.
fn dailies(user: &str, day: u32, steps: u32) -> PushedItem {
    let body = format!(r#"{{"userId":"{user}","summaryId":"s-{user}-{day}","calendarDate":"2026-01-{day:02}","steps":{steps}}}"#);
    PushedItem {
        item: Item {
            event_type: EventType::parse("dailies").unwrap(),
            id: None,
            external_user: Some(user.to_owned()),
            body: Bytes::from(body),
            content_type: Some("application/json".to_owned()),
        },
        key: None,
    }
}

async fn push(world: &World, source: &Source, items: Vec<PushedItem>) {
    let push = Push { source, items, kept_headers: Vec::new(), forwarded_headers: Vec::new(), traceparent: None };
    receive(world.line(), push).await.expect("it is accepted");
}

async fn connect(world: &World, user: &str, profile: &str) {
    let new = NewConnection {
        provider: Some("garmin".to_owned()),
        external_user_id: Some(user.to_owned()),
        profile_id: Some(profile.to_owned()),
        ..NewConnection::default()
    };
    health::connect(world.line(), &world.author(), new).await.expect("it is kept");
}

async fn steps(world: &World, profile: &str) -> Vec<f64> {
    let filter = MetricFilter { profile: ProfileId::parse(profile), ..MetricFilter::default() };
    let page = world.line().ports.health_metrics.metrics(world.organization, filter, ALL).await.unwrap();
    let mut rows: Vec<Metric> = page.rows;
    rows.sort_by_key(|metric| metric.measured.start);
    rows.into_iter().filter_map(|metric| metric.measured.value).collect()
}

async fn statuses(world: &World, source: &Source) -> Vec<ReceivedStatus> {
    let filter = ReceivedFilter { source: source.id, event_type: None, external_user: None, accepted: TimeRange::default() };
    let query = ReceivedQuery { filter: &filter, status: None, with_payloads: false, provider: None };
    let found = received::list(world.line(), world.organization, query, ALL).await.unwrap();
    found.rows.into_iter().map(|row| row.progress.status).collect()
}

#[tokio::test]
async fn an_unknown_user_waits_for_the_connection_without_spending_the_schedule_and_is_processed_once() {
    // Given pushes about a user whom nobody is connected with, and one whom two profiles are.
    let mut world = World::new().await;
    let source = garmin(&world).await;
    connect(&world, "known", "p1").await;
    connect(&world, "known", "p2").await;
    push(&world, &source, vec![dailies("new", 1, 10), dailies("new", 1, 20), dailies("known", 1, 7)]).await;
    world.pass(mins(1)).await;
    assert_eq!((steps(&world, "p1").await, steps(&world, "p2").await), (vec![7.0], vec![7.0]));
    assert_eq!(statuses(&world, &source).await, [ReceivedStatus::Completed, ReceivedStatus::Pending, ReceivedStatus::Failed]);
    // When days pass, and the node crashes.
    world.pass(hours(72)).await;
    world.crash().await;
    world.pass(hours(1)).await;
    assert!(world.dead_letters().await.is_empty(), "it is kept, not dead");
    // Then the connection brings it, in the order in which it was received.
    connect(&world, "new", "p3").await;
    world.pass(mins(1)).await;
    assert_eq!(steps(&world, "p3").await, [20.0]);
    assert_eq!(statuses(&world, &source).await, [ReceivedStatus::Completed; 3]);
    let deliveries = world.deliveries().await;
    assert!(deliveries.iter().all(|delivery| delivery.kind == LaneKind::Processor && matches!(delivery.stage, Stage::Delivered { .. })));
    // The same push again changes nothing, and a corrected one updates.
    push(&world, &source, vec![dailies("new", 1, 20), dailies("new", 2, 5), dailies("new", 2, 6)]).await;
    world.pass(mins(1)).await;
    assert_eq!(steps(&world, "p3").await, [20.0, 6.0]);
}

#[tokio::test]
async fn events_of_a_user_whom_nobody_connects_end_together_and_can_be_brought_back() {
    let mut world = World::new().await;
    let source = garmin(&world).await;
    push(&world, &source, (1..=3).map(|day| dailies("nobody", day, day)).collect()).await;
    world.pass(mins(1)).await;
    world.clock.move_to(world.clock.now() + hours(29 * 24));
    world.pass(mins(2)).await;
    assert!(world.dead_letters().await.is_empty());
    assert_eq!(statuses(&world, &source).await, [ReceivedStatus::Pending, ReceivedStatus::Pending, ReceivedStatus::Failed]);
    world.clock.move_to(world.clock.now() + hours(25));
    world.pass(mins(5)).await;
    // Those that were held behind the first end with it, and not one after another.
    let dead = world.dead_letters().await;
    assert_eq!(dead.len(), 3);
    connect(&world, "nobody", "p").await;
    for letter in dead {
        everhook_core::line::recall::recall(world.line(), world.organization, letter.id).await.expect("it is retried");
    }
    world.pass(mins(1)).await;
    let mut measured = steps(&world, "p").await;
    measured.sort_by(f64::total_cmp);
    assert_eq!(measured, [1.0, 2.0, 3.0]);
}

#[tokio::test]
async fn what_cannot_be_read_is_a_dead_letter_that_can_be_retried() {
    let mut world = World::new().await;
    let source = garmin(&world).await;
    connect(&world, "u", "p").await;
    let mut bad = dailies("u", 1, 1);
    bad.item.body = Bytes::from_static(b"[]");
    push(&world, &source, vec![bad, dailies("u", 2, 2)]).await;
    world.pass(mins(1)).await;
    let dead = world.dead_letters().await;
    assert_eq!((dead.len(), dead[0].kind, dead[0].lane_id), (1, LaneKind::Processor, LaneId::from(source.id)));
    assert_eq!(steps(&world, "p").await, [2.0], "it holds nobody up");
    everhook_core::line::recall::recall(world.line(), world.organization, dead[0].id).await.expect("it is retried");
    world.pass(mins(1)).await;
    assert_eq!(world.dead_letters().await[0].failures, 2);
    let (_, attempts) = world.delivery(dead[0].id).await;
    assert!(attempts[0].error.as_deref().is_some_and(|error| error.contains("JSON")), "{attempts:?}");
}

#[tokio::test]
async fn a_store_that_is_away_for_an_hour_costs_no_attempt() {
    let mut world = World::new().await;
    let source = garmin(&world).await;
    connect(&world, "u", "p").await;
    push(&world, &source, vec![dailies("u", 1, 1)]).await;
    world.faults.set_away(true);
    world.pass(hours(1)).await;
    world.faults.set_away(false);
    world.pass(mins(5)).await;
    assert_eq!(steps(&world, "p").await, [1.0]);
    assert!(world.dead_letters().await.is_empty());
}

#[tokio::test]
async fn what_waits_for_a_processor_that_is_removed_is_cancelled_also_if_it_is_parked() {
    let mut world = World::new().await;
    let source = garmin(&world).await;
    push(&world, &source, vec![dailies("nobody", 1, 1), dailies("nobody", 2, 2)]).await;
    world.pass(mins(1)).await;
    let without = SourceChange { processor: Change::Clear, ..SourceChange::default() };
    sources::change(world.line(), &world.author(), &Ref::Id(source.id), without).await.unwrap();
    world.pass(mins(1)).await;
    for delivery in world.deliveries().await {
        assert!(matches!(delivery.stage, Stage::Cancelled { cause: CancelCause::DestinationDeleted, .. }), "{delivery:?}");
    }
    push(&world, &source, vec![dailies("nobody", 3, 3)]).await;
    world.pass(mins(1)).await;
    assert_eq!(world.deliveries().await.len(), 2, "nothing is made for it any more");
}

#[tokio::test]
async fn a_profile_is_erased_from_files_and_tables_with_everything_that_was_received_about_it() {
    let mut world = World::new().await;
    let source = garmin(&world).await;
    let marked = |user: &str| {
        let mut item = dailies(user, 1, 1);
        item.item.body = Bytes::from(format!(
            r#"{{"userId":"{user}","summaryId":"summary-of-{user}","calendarDate":"2026-01-01","steps":1,"restingHeartRateInBeatsPerMinute":61}}"#
        ));
        item
    };
    connect(&world, "user-to-erase", "profile-to-erase").await;
    connect(&world, "user-who-stays", "profile-who-stays").await;
    push(&world, &source, vec![marked("user-to-erase"), marked("user-who-stays")]).await;
    world.pass(mins(1)).await;
    assert!(world.store_holds("user-to-erase").await && world.store_holds("profile-to-erase").await);
    let erased = health::erase_profile(world.line(), &world.author(), &ProfileId::parse("profile-to-erase").unwrap()).await.unwrap();
    assert_eq!((erased.connections, erased.events), (1, 1));
    assert!(erased.metrics >= 2, "{erased:?}");
    world.pass(mins(5)).await;
    assert!(!world.store_holds("user-to-erase").await && !world.store_holds("profile-to-erase").await);
    assert!(world.store_holds("user-who-stays").await && world.store_holds("profile-who-stays").await);
    assert!(steps(&world, "profile-to-erase").await.is_empty());
    assert_eq!(steps(&world, "profile-who-stays").await.len(), 2);
    // What comes afterwards waits, and can be erased again.
    push(&world, &source, vec![marked("user-to-erase")]).await;
    world.pass(secs(30)).await;
    assert!(steps(&world, "profile-to-erase").await.is_empty());
}

#[tokio::test]
async fn a_user_of_a_provider_is_erased_without_a_connection_also_from_sources_that_are_gone_or_of_another_kind() {
    // Given parked events about a user whom nobody is connected with, from sources of which one is deleted and one becomes another provider's.
    let mut world = World::new().await;
    let named = async |name: &str, kind: &str| {
        let settings = SourceChange {
            name: Change::Set(name.to_owned()),
            kind: Change::Set(kind.to_owned()),
            processor: if kind == "none" { Change::Keep } else { Change::Set("health".to_owned()) },
            forward: Change::Set(false),
            ..SourceChange::default()
        };
        sources::create(world.line(), &world.author(), NewSource { application: None, settings }).await.expect("the source is made")
    };
    let (here, gone, turned, other) =
        (named("here", "garmin").await, named("gone", "garmin").await, named("turned", "garmin").await, named("other", "none").await);
    for source in [&here, &gone, &turned, &other] {
        push(&world, source, vec![dailies("user-to-erase", 1, 1), dailies("user-to-erase", 2, 2), dailies("user-who-stays", 1, 1)]).await;
    }
    world.pass(mins(1)).await;
    sources::delete(world.line(), &world.author(), &Ref::Id(gone.id)).await.expect("it is deleted");
    let changed = SourceChange { kind: Change::Set("none".to_owned()), processor: Change::Clear, ..SourceChange::default() };
    sources::change(world.line(), &world.author(), &Ref::Id(turned.id), changed).await.expect("it is changed");
    world.pass(mins(1)).await;
    // When the user is erased, nothing is left of them in files and tables but what came from elsewhere under the same name.
    let user = ExternalUserId::parse("user-to-erase").expect("a user");
    let erase =
        async |provider| health::erase_user(world.line(), &world.author(), provider, user.clone()).await.expect("the store answers");
    assert_eq!(erase(Provider::Strava).await, 0);
    assert_eq!(erase(Provider::Garmin).await, 6);
    assert_eq!(erase(Provider::Garmin).await, 0);
    let left = async |source: &Source, user: &str| {
        let of = Some(user.to_owned());
        let filter = ReceivedFilter { source: source.id, event_type: None, external_user: of, accepted: TimeRange::default() };
        world.line().ports.history.received_events(world.organization, filter, ALL).await.expect("the store answers").rows.len()
    };
    for source in [&here, &gone, &turned] {
        assert_eq!((left(source, "user-to-erase").await, left(source, "user-who-stays").await), (0, 1), "{}", source.name);
    }
    assert_eq!((left(&other, "user-to-erase").await, left(&other, "user-who-stays").await), (2, 1), "a source that never was Garmin's");
    // What was parked ended with it, and connecting the user brings nothing back.
    connect(&world, "user-to-erase", "p").await;
    world.pass(mins(1)).await;
    assert!(steps(&world, "p").await.is_empty());
    world.leaves_work_over();
}

#[tokio::test]
async fn what_is_parked_for_the_processor_of_a_deleted_application_is_cancelled() {
    let mut world = World::new().await;
    let shop = world.another_application().await;
    let settings = SourceChange {
        name: Change::Set("watch".to_owned()),
        kind: Change::Set("garmin".to_owned()),
        processor: Change::Set("health".to_owned()),
        forward: Change::Set(false),
        ..SourceChange::default()
    };
    let new = NewSource { application: Some(shop.to_string()), settings };
    let source = sources::create(world.line(), &world.author(), new).await.unwrap();
    push(&world, &source, vec![dailies("new", 1, 10)]).await;
    world.pass(mins(1)).await;
    let stages = async |world: &World| {
        let filter = DeliveryFilter::default();
        let rows = world.line().ports.history.deliveries(world.organization, filter, ALL).await.unwrap().rows;
        rows.into_iter().map(|delivery| delivery.stage).collect::<Vec<_>>()
    };
    assert!(matches!(stages(&world).await[..], [Stage::Parked(_)]));
    applications::delete(world.line(), &world.author(), &Ref::Id(shop)).await.unwrap();
    world.pass(mins(1)).await;
    assert!(matches!(stages(&world).await[..], [Stage::Cancelled { cause: CancelCause::DestinationDeleted, .. }]));
}

#[tokio::test]
async fn what_is_left_in_the_lane_of_a_removed_processor_is_cancelled_also_if_the_process_dies_before_it_is_heard() {
    for (crashes, deletes) in [(false, true), (true, true), (true, false)] {
        // Given a source with deliveries that are parked, for a user who never comes, and held behind these.
        let mut world = World::new().await;
        let source = garmin(&world).await;
        push(&world, &source, vec![dailies("nobody", 1, 1), dailies("nobody", 2, 2), dailies("stranger", 3, 3)]).await;
        world.pass(mins(1)).await;
        let open = async |world: &World| world.deliveries().await.iter().filter(|delivery| !delivery.stage.has_ended()).count();
        assert_eq!(open(&world).await, 3);
        // When it is deleted, or its processor removed, and nobody hears of it.
        let ports = world.bare_ports();
        let entry = AuditEntry {
            id: AuditEntryId::from_uuid(*source.id.as_uuid()),
            organization: world.organization,
            at: world.clock.now(),
            actor: Actor::Server,
            action: AuditAction::SourceDelete,
            resource: *source.id.as_uuid(),
            note: AuditNote::default(),
        };
        if deletes {
            assert!(ports.sources.delete_source(world.organization, source.id, entry).await.expect("the store answers"));
        } else {
            let found =
                ports.sources.source(world.organization, &Ref::Id(source.id)).await.expect("the store answers").expect("it is there");
            let without = Source { processor: None, updated_at: found.updated_at + secs(1), ..found.clone() };
            let updated = ports.sources.update_source(without, found.updated_at, entry).await.expect("the store answers");
            assert_eq!(updated, Updated::Updated);
        }
        drop(ports);
        if crashes {
            world.crash().await;
        }
        world.pass(mins(2)).await;
        // Then nothing is left.
        assert_eq!(open(&world).await, 0, "crashes: {crashes}, deletes: {deletes}");
        for delivery in world.deliveries().await {
            assert!(matches!(delivery.stage, Stage::Cancelled { cause: CancelCause::DestinationDeleted, .. }), "{delivery:?}");
        }
        assert_eq!(world.line().ports.parked.orphaned_lanes(10).await.expect("the store answers"), []);
    }
}
