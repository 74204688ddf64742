//! Backfills: Garmin is asked for every piece, within its limits, whatever it answers and whatever is killed in between.

use std::{collections::BTreeMap, time::Duration};

use everhook_core::{
    ids::OperationId,
    line::Line,
    manage::{
        health::{self, NewBackfill, NewConnection},
        operations,
    },
    model::{
        Author, Operation, OperationStatus, Secret,
        health::{BackfillChunk, BackfillType, ChunkOutcome, Connection},
    },
    ports::KeptBackfill,
    time::Timestamp,
};
use everhook_testbed::{Answer, World, cluster::Cluster, faults::Kind, hours, mins, secs, world::BEGINNING};

/// More calls than a scenario makes.
const CALLS_MAX: u32 = 500;
const PERMISSIONS_URL: &str = "https://apis.garmin.com/wellness-api/rest/user/permissions";

/// A user of Garmin with a token.
async fn connected(world: &World, user: &str) -> Connection {
    let text = |text: &str| Some(text.to_owned());
    let connection = NewConnection {
        provider: text("garmin"),
        external_user_id: text(user),
        profile_id: text("profile"),
        access_token: Some(Secret::new("token".to_owned())),
        ..NewConnection::default()
    };
    health::connect(world.line(), &world.author(), connection).await.expect("it is good")
}

/// Ninety days of these types; by default those that become metrics.
fn ninety_days(connection: &Connection, types: Option<&[&str]>) -> NewBackfill {
    NewBackfill {
        connection: connection.id,
        data_types: types.map(|types| types.iter().map(|name| (*name).to_owned()).collect()),
        from: BEGINNING - hours(24 * 90),
        to: Some(BEGINNING),
        start_at: None,
    }
}

/// Begins one a second later unless it says when: the provider's answers are scripted before it is asked, however long the store takes.
async fn begin(world: &World, new: NewBackfill) -> OperationId {
    let soon = world.line().ports.clock.now() + secs(1);
    let new = NewBackfill { start_at: new.start_at.or(Some(soon)), ..new };
    health::begin_backfill(world.line(), &world.author(), new).await.expect("it is good")
}

async fn look(world: &World, id: OperationId) -> KeptBackfill {
    health::find_backfill(world.line(), world.organization, id).await.expect("it is there")
}

fn counts(operation: &Operation) -> (u64, u64, u64, u64) {
    (operation.total, operation.done, operation.failed, operation.skipped)
}

fn url(chunk: &BackfillChunk) -> String {
    let (data, start, end) = (chunk.data.as_str(), chunk.start.as_secs(), chunk.end.as_secs());
    format!("https://apis.garmin.com/wellness-api/rest/backfill/{data}?summaryStartTimeInSeconds={start}&summaryEndTimeInSeconds={end}")
}

/// Garmin, as it is: it takes a piece once, and says of every later request that it was asked before.
async fn script(world: &World, id: OperationId, first: Answer) -> Vec<String> {
    let urls: Vec<String> = look(world, id).await.backfill.chunks().iter().map(url).collect();
    urls.iter().for_each(|url| world.network.script(url, [first], Answer::Status(409)));
    urls
}

/// The pieces that Garmin was asked for, in order.
fn asked(world: &World) -> Vec<String> {
    let urls = world.network.arrivals().into_iter().map(|arrival| arrival.url);
    urls.filter(|url| url.contains("/backfill/")).collect()
}

fn asked_before(world: &World, end: Timestamp) -> usize {
    let arrivals = world.network.arrivals().into_iter();
    arrivals.filter(|arrival| arrival.at < end && arrival.url.contains("/backfill/")).count()
}

fn times(asked: &[String]) -> BTreeMap<&str, usize> {
    let mut times = BTreeMap::new();
    asked.iter().for_each(|url| *times.entry(url.as_str()).or_default() += 1);
    times
}

#[tokio::test]
async fn every_piece_is_asked_for_once_in_order_and_a_repeated_backfill_does_no_harm() {
    let mut world = World::new().await;
    let connection = connected(&world, "1").await;
    let id = begin(&world, ninety_days(&connection, None)).await;
    let urls = script(&world, id, Answer::Status(202)).await;
    assert_eq!(urls.len(), 5 * 3);
    assert!(
        urls[0].ends_with("/backfill/activities?summaryStartTimeInSeconds=1792224000&summaryEndTimeInSeconds=1794816000"),
        "{}",
        urls[0]
    );
    world.pass(secs(5)).await;
    assert_eq!(asked(&world), urls);
    let bearer = world.network.arrivals()[0].request.headers.iter().any(|(name, value)| name == "authorization" && value == "Bearer token");
    assert!(bearer);
    let found = look(&world, id).await;
    assert_eq!((found.operation.status, counts(&found.operation)), (OperationStatus::Finished, (15, 15, 0, 0)));
    assert_eq!(found.outcomes, [ChunkOutcome::Accepted; 15]);
    assert_eq!(world.operational_types().await, ["operation.finished"]);
    // Garmin says of the same pieces that they were asked for before.
    let again = begin(&world, ninety_days(&connection, None)).await;
    world.pass(secs(5)).await;
    let found = look(&world, again).await;
    assert_eq!((found.operation.status, counts(&found.operation)), (OperationStatus::Finished, (15, 0, 0, 15)));
    assert_eq!(found.outcomes, [ChunkOutcome::DoneBefore; 15]);
}

#[tokio::test]
async fn half_of_garmins_limit_is_left_to_events_and_the_rest_of_a_backfill_waits_for_the_next_quarter() {
    // Given more pieces than there is room for.
    let mut world = World::new().await;
    let all = BackfillType::ALL.map(BackfillType::as_str);
    let mut begun = Vec::new();
    for user in ["1", "2", "3"] {
        let connection = connected(&world, user).await;
        begun.push(begin(&world, ninety_days(&connection, Some(&all))).await);
    }
    script(&world, begun[0], Answer::Status(202)).await;
    let quarter = |number: u64| BEGINNING + mins(15 * number);
    world.pass(mins(14)).await;
    assert_eq!(asked(&world).len(), 50);
    // When something happens to a user, then it is confirmed at once.
    world.network.script(PERMISSIONS_URL, [], Answer::Body(200, r#"["HEALTH_EXPORT"]"#));
    let push = super::health_providers::source(&world, "garmin").await;
    let change = r#"{"userId":"1","permissions":["HEALTH_EXPORT"],"changeTimeInSeconds":1}"#;
    super::health_providers::push(&world, &push, "userPermissionsChange", change).await;
    world.pass(secs(30)).await;
    let confirmed = world.network.arrivals().iter().filter(|arrival| arrival.url == PERMISSIONS_URL && arrival.at < quarter(1)).count();
    assert_eq!((confirmed, asked(&world).len()), (1, 50));
    world.pass(mins(40)).await;
    let in_quarters = [1, 2, 3].map(|number| asked_before(&world, quarter(number)));
    assert_eq!(in_quarters, [50, 100, 144]);
    for id in begun {
        assert_eq!(look(&world, id).await.operation.status, OperationStatus::Finished);
    }
}

#[tokio::test]
async fn a_refusal_for_too_many_requests_stops_every_backfill_until_garmin_has_room_and_no_piece_is_lost() {
    for refusal in [Answer::Status(429), Answer::RetryAfter(429, mins(20))] {
        let mut world = World::new().await;
        let connection = connected(&world, "1").await;
        let id = begin(&world, ninety_days(&connection, None)).await;
        let urls = script(&world, id, Answer::Status(202)).await;
        world.network.script(&urls[4], [refusal, Answer::Status(202)], Answer::Status(409));
        world.pass(mins(10)).await;
        assert_eq!(asked(&world).len(), 5, "{refusal:?}");
        assert_eq!(look(&world, id).await.operation.done, 4);
        world.pass(mins(50)).await;
        let found = look(&world, id).await;
        assert_eq!((found.operation.status, counts(&found.operation)), (OperationStatus::Finished, (15, 15, 0, 0)), "{refusal:?}");
        assert_eq!(asked(&world).len(), 16);
    }
}

#[tokio::test]
async fn an_outage_of_hours_loses_no_piece() {
    let mut world = World::new().await;
    let connection = connected(&world, "1").await;
    let id = begin(&world, ninety_days(&connection, Some(&["sleeps", "dailies"]))).await;
    let urls = script(&world, id, Answer::Status(202)).await;
    world.network.script(&urls[2], [], Answer::Hangs);
    world.pass(hours(2)).await;
    world.network.script(&urls[2], [], Answer::Status(503));
    world.pass(hours(3)).await;
    let found = look(&world, id).await;
    assert_eq!((found.operation.status, counts(&found.operation)), (OperationStatus::Running, (6, 2, 0, 0)));
    let before = asked(&world).len();
    assert!((15..=30).contains(&before), "{before} requests in five hours of an outage");
    world.network.script(&urls[2], [], Answer::Status(202));
    world.pass(mins(30)).await;
    let found = look(&world, id).await;
    assert_eq!((found.operation.status, counts(&found.operation)), (OperationStatus::Finished, (6, 6, 0, 0)));
}

#[tokio::test]
async fn a_piece_that_garmin_never_answers_is_given_up_and_holds_up_neither_the_others_nor_anybody_elses() {
    let mut world = World::new().await;
    let (one, other) = (connected(&world, "1").await, connected(&world, "2").await);
    let stuck = begin(&world, ninety_days(&one, Some(&["sleeps", "dailies"]))).await;
    let urls = script(&world, stuck, Answer::Status(202)).await;
    world.network.script(&urls[0], [], Answer::Status(500));
    world.pass(mins(2)).await;
    // Garmin answers others meanwhile, so that it is this piece.
    let well = begin(&world, ninety_days(&other, Some(&["epochs"]))).await;
    world.pass(mins(1)).await;
    assert_eq!(look(&world, well).await.operation.status, OperationStatus::Finished);
    world.pass(hours(2)).await;
    let found = look(&world, stuck).await;
    assert_eq!((found.operation.status, counts(&found.operation)), (OperationStatus::Finished, (6, 5, 1, 0)));
    assert_eq!(found.outcomes[0], ChunkOutcome::Unanswered);
    assert_eq!(times(&asked(&world))[urls[0].as_str()], 8);
}

#[tokio::test]
async fn a_backfill_ends_where_the_user_allows_no_history_and_goes_on_where_a_piece_is_too_old() {
    let mut world = World::new().await;
    let connection = connected(&world, "1").await;
    let old = begin(&world, ninety_days(&connection, Some(&["sleeps"]))).await;
    let urls = script(&world, old, Answer::Status(202)).await;
    world.network.script(&urls[0], [], Answer::Status(400));
    world.network.script(&urls[1], [], Answer::Status(401));
    world.pass(secs(5)).await;
    let found = look(&world, old).await;
    let refused = ChunkOutcome::RefusedByProvider;
    assert_eq!((found.outcomes, found.operation.status), (vec![refused, refused, ChunkOutcome::Accepted], OperationStatus::Finished));
    let forbidden = begin(&world, ninety_days(&connection, Some(&["dailies", "epochs"]))).await;
    script(&world, forbidden, Answer::Status(403)).await;
    let before = asked(&world).len();
    world.pass(secs(5)).await;
    let found = look(&world, forbidden).await;
    assert_eq!((found.operation.status, counts(&found.operation)), (OperationStatus::Finished, (6, 0, 6, 0)));
    assert_eq!((found.outcomes, asked(&world).len() - before), (vec![ChunkOutcome::NoHistoryPermission; 6], 1));
}

#[tokio::test]
async fn a_backfill_ends_when_its_connection_does() {
    let mut world = World::new().await;
    let connection = connected(&world, "1").await;
    let id = begin(&world, ninety_days(&connection, Some(&["sleeps"]))).await;
    let urls = script(&world, id, Answer::Status(202)).await;
    world.network.script(&urls[1], [], Answer::Status(503));
    world.pass(secs(5)).await;
    health::delete(world.line(), &world.author(), connection.id).await.expect("it is there");
    world.pass(mins(2)).await;
    let found = look(&world, id).await;
    assert_eq!(found.outcomes, [ChunkOutcome::Accepted, ChunkOutcome::NotConnected, ChunkOutcome::NotConnected]);
    assert_eq!(found.operation.status, OperationStatus::Finished);
}

#[tokio::test]
async fn a_cancelled_backfill_asks_for_nothing_more_and_one_that_begins_later_waits() {
    let mut world = World::new().await;
    let connection = connected(&world, "1").await;
    let start_at = Some(BEGINNING + mins(5));
    let id = begin(&world, NewBackfill { start_at, ..ninety_days(&connection, None) }).await;
    script(&world, id, Answer::Slow(202, secs(10))).await;
    world.pass(mins(4)).await;
    assert_eq!((asked(&world).len(), look(&world, id).await.operation.status), (0, OperationStatus::Pending));
    world.pass(secs(60 + 25)).await;
    // Two pieces were answered, and the third is under way.
    assert_eq!((asked(&world).len(), look(&world, id).await.operation.done), (3, 2));
    operations::cancel(world.line(), &Author::server(world.organization), id).await.expect("it runs");
    world.pass(hours(1)).await;
    let found = look(&world, id).await;
    assert_eq!((found.operation.status, counts(&found.operation)), (OperationStatus::Cancelled, (15, 2, 0, 0)));
    assert_eq!(asked(&world).len(), 3);
}

#[tokio::test]
async fn a_crash_in_the_middle_loses_no_piece_and_repeats_at_most_the_one_under_way() {
    for seed in 0..5 {
        let mut world = World::seeded(seed).await;
        let connection = connected(&world, "1").await;
        let id = begin(&world, ninety_days(&connection, None)).await;
        let urls = script(&world, id, Answer::Slow(202, Duration::from_millis(900))).await;
        for _ in 0..6 {
            let pause = world.dice.below(2_500);
            world.pass(Duration::from_millis(pause)).await;
            world.crash().await;
        }
        world.pass(mins(1)).await;
        let found = look(&world, id).await;
        assert_eq!(found.operation.status, OperationStatus::Finished);
        let asked = asked(&world);
        assert!(urls.iter().all(|url| times(&asked).contains_key(url.as_str())), "seed {seed}: a piece was never asked for");
        assert!(asked.len() <= urls.len() + 6, "seed {seed}: {} requests for {} pieces", asked.len(), urls.len());
        // One whose answer was lost was asked for before.
        let (total, done, failed, skipped) = counts(&found.operation);
        assert_eq!((total, done + skipped, failed), (15, 15, 0), "seed {seed}");
        assert!(skipped <= 6);
    }
}

async fn with_fault(passing: u32, kind: Kind) -> bool {
    let mut world = World::new().await;
    let connection = connected(&world, "1").await;
    let id = begin(&world, ninety_days(&connection, Some(&["sleeps"]))).await;
    let urls = script(&world, id, Answer::Status(202)).await;
    world.faults.plan(passing, kind);
    world.pass(mins(2)).await;
    let has_struck = world.faults.has_struck();
    world.faults.forget();
    let found = look(&world, id).await;
    let (total, done, failed, skipped) = counts(&found.operation);
    assert_eq!((found.operation.status, total, done + skipped, failed), (OperationStatus::Finished, 3, 3, 0), "call {passing} {kind:?}");
    assert!(urls.iter().all(|url| times(&asked(&world)).contains_key(url.as_str())), "call {passing} {kind:?}");
    assert_eq!(world.operational_types().await, ["operation.finished"], "call {passing} {kind:?}");
    has_struck
}

#[tokio::test]
async fn every_piece_is_asked_for_whichever_call_of_the_store_fails_or_answer_is_lost() {
    for kind in [Kind::Before, Kind::After] {
        let struck = {
            let mut passing = 0;
            while with_fault(passing, kind).await {
                passing += 1;
                assert!(passing < CALLS_MAX, "the scenario makes more than {CALLS_MAX} calls");
            }
            passing
        };
        assert!(struck > 5, "the scenario made only {struck} calls");
    }
}

async fn begin_at(line: &Line, cluster: &Cluster, connection: &Connection) -> OperationId {
    health::begin_backfill(line, &cluster.author(), ninety_days(connection, None)).await.expect("it is good")
}

#[tokio::test]
async fn another_node_goes_on_with_the_backfill_of_one_that_was_killed() {
    let mut cluster = Cluster::of(2).await;
    let connection = connected(&cluster, "1").await;
    // Begun at the node that does not do it.
    let line = cluster.node(1).line.clone();
    let id = begin_at(&line, &cluster, &connection).await;
    let urls = script(&cluster, id, Answer::Slow(202, secs(2))).await;
    cluster.pass(secs(7)).await;
    let before = asked(&cluster).len();
    assert!((2..15).contains(&before), "{before} pieces were asked for");
    cluster.kill(0).await;
    cluster.pass(mins(2)).await;
    let found = look(&cluster, id).await;
    let (total, done, failed, skipped) = counts(&found.operation);
    assert_eq!((found.operation.status, total, done + skipped, failed), (OperationStatus::Finished, 15, 15, 0));
    let asked = asked(&cluster);
    assert!(urls.iter().all(|url| times(&asked).contains_key(url.as_str())));
    assert!(asked.len() <= 16, "{} requests", asked.len());
}
