//! Events that only say where the data is, and providers that have it: fetched once, refreshed, limited, away, and forged.

use bytes::Bytes;
use everhook_core::{
    inbound::Item,
    line::receive::{Push, PushedItem, receive},
    manage::{
        Change,
        health::{self, NewConnection},
        sources::{self, NewSource, SourceChange},
    },
    model::{Cursor, EventType, LaneKind, PageRequest, Secret, Source, Stage, health::Metric},
    ports::{Clock as _, ConnectionFilter, DeliveryFilter, MetricFilter},
};
use everhook_testbed::{Answer, World, cluster::Cluster, hours, mins, network::Arrival, secs};

const ACTIVITY_URL: &str = "https://www.strava.com/api/v3/activities/7";
const ATHLETE_URL: &str = "https://www.strava.com/api/v3/athlete";
const TOKEN_URL: &str = "https://www.strava.com/api/v3/oauth/token";
const ACTIVITY: &str =
    r#"{"id":7,"athlete":{"id":1},"moving_time":60,"elapsed_time":90,"sport_type":"Run","start_date":"2026-03-04T10:00:00Z"}"#;
const CORRECTED: &str =
    r#"{"id":7,"athlete":{"id":1},"moving_time":70,"elapsed_time":95,"sport_type":"Run","start_date":"2026-03-04T10:00:00Z"}"#;
const CREATED: &str = r#"{"object_type":"activity","aspect_type":"create","object_id":7,"owner_id":1}"#;
const DEAUTHORIZED: &str =
    r#"{"object_type":"athlete","aspect_type":"update","object_id":1,"owner_id":1,"updates":{"authorized":"false"}}"#;
const PERMISSIONS_URL: &str = "https://apis.garmin.com/wellness-api/rest/user/permissions";

/// A source of a provider whose events are processed.
pub async fn source(world: &World, provider: &str) -> Source {
    let settings = SourceChange {
        name: Change::Set(provider.to_owned()),
        kind: Change::Set(provider.to_owned()),
        forward: Change::Set(false),
        processor: Change::Set("health".to_owned()),
        ..SourceChange::default()
    };
    sources::create(world.line(), &world.author(), NewSource { application: None, settings }).await.expect("it is good")
}

/// The same, and its user 1, who is connected.
async fn connected(world: &World, provider: &str) -> Source {
    let source = source(world, provider).await;
    let text = |text: &str| Some(text.to_owned());
    let connection = NewConnection {
        provider: text(provider),
        external_user_id: text("1"),
        profile_id: text("profile"),
        access_token: Some(Secret::new("old".to_owned())),
        refresh_token: Some(Secret::new("refresh".to_owned())),
        ..NewConnection::default()
    };
    health::connect(world.line(), &world.author(), connection).await.expect("it is good");
    source
}

/// Takes in an event about user 1.
pub async fn push(world: &World, source: &Source, event_type: &str, body: &str) {
    let item = Item {
        event_type: EventType::parse(event_type).expect("it is one"),
        id: None,
        external_user: Some("1".to_owned()),
        body: Bytes::from(body.to_owned()),
        content_type: None,
    };
    let items = vec![PushedItem { item, key: None }];
    let push = Push { source, items, kept_headers: Vec::new(), forwarded_headers: Vec::new(), traceparent: None };
    receive(world.line(), push).await.expect("it is taken");
}

async fn metrics(world: &World) -> Vec<Metric> {
    let page = PageRequest { limit: 100, cursor: Cursor::Newest };
    world.line().ports.health_metrics.metrics(world.organization, MetricFilter::default(), page).await.expect("the store answers").rows
}

async fn values(world: &World) -> Vec<Option<f64>> {
    metrics(world).await.iter().map(|metric| metric.measured.value).collect()
}

/// Whether the user is connected, and has a token.
async fn connection_state(world: &World) -> (bool, bool) {
    let page = PageRequest { limit: 100, cursor: Cursor::Newest };
    let found = world.line().ports.health_connections.connections(world.organization, ConnectionFilter::default(), page).await;
    let connection = &found.expect("the store answers").rows[0];
    (connection.is_connected, connection.tokens.is_some())
}

fn requests(world: &World, url: &str) -> usize {
    world.network.arrivals().iter().filter(|arrival| arrival.url == url).count()
}

fn bearers(world: &World, url: &str) -> Vec<String> {
    let arrivals = world.network.arrivals().into_iter().filter(|arrival| arrival.url == url);
    let bearer = |arrival: Arrival| {
        let headers = arrival.request.headers;
        let (_, value) = headers.into_iter().find(|(name, _)| name == "authorization").expect("it has a token");
        String::from_utf8_lossy(&value).into_owned()
    };
    arrivals.map(bearer).collect()
}

#[tokio::test]
async fn an_activity_is_fetched_written_once_corrected_and_removed() {
    let mut world = World::new().await;
    let source = connected(&world, "strava").await;
    world.network.script(ACTIVITY_URL, [Answer::Body(200, ACTIVITY), Answer::Body(200, ACTIVITY)], Answer::Body(200, CORRECTED));
    for (pushes, expected) in [(1, 60.0), (2, 60.0), (3, 70.0)] {
        push(&world, &source, "activity.create", CREATED).await;
        world.pass(secs(5)).await;
        assert_eq!(values(&world).await, [Some(expected)], "after {pushes}");
    }
    // One that is not there for us any more is like one that was deleted.
    world.network.script(ACTIVITY_URL, [], Answer::Status(404));
    push(&world, &source, "activity.update", CREATED).await;
    world.pass(secs(5)).await;
    assert_eq!(values(&world).await, []);
}

#[tokio::test]
async fn a_token_that_ended_is_refreshed_stored_and_used() {
    let mut world = World::new().await;
    let source = connected(&world, "strava").await;
    world.network.script(ACTIVITY_URL, [Answer::Status(401)], Answer::Body(200, ACTIVITY));
    world.network.script(TOKEN_URL, [], Answer::Body(200, r#"{"access_token":"new","refresh_token":"next","expires_at":4000000000}"#));
    push(&world, &source, "activity.create", CREATED).await;
    world.pass(secs(5)).await;
    world.crash().await;
    push(&world, &source, "activity.update", CREATED).await;
    world.pass(secs(5)).await;
    assert_eq!(values(&world).await, [Some(60.0)]);
    assert_eq!(bearers(&world, ACTIVITY_URL), ["Bearer old", "Bearer new", "Bearer new"]);
    assert_eq!(requests(&world, TOKEN_URL), 1);
}

#[tokio::test]
async fn a_provider_that_is_away_is_asked_again_on_schedule() {
    let mut world = World::new().await;
    let source = connected(&world, "strava").await;
    world.network.script(ACTIVITY_URL, [Answer::Status(503), Answer::Hangs, Answer::Body(200, "<html>")], Answer::Body(200, ACTIVITY));
    push(&world, &source, "activity.create", CREATED).await;
    world.pass(hours(1)).await;
    assert_eq!((values(&world).await, requests(&world, ACTIVITY_URL)), (vec![Some(60.0)], 4));
}

#[tokio::test]
async fn a_provider_that_refuses_more_requests_is_left_alone_until_its_next_quarter() {
    let mut world = World::new().await;
    let source = connected(&world, "strava").await;
    world.network.script(ACTIVITY_URL, [Answer::Status(429)], Answer::Body(200, ACTIVITY));
    push(&world, &source, "activity.create", CREATED).await;
    push(&world, &source, "activity.update", CREATED).await;
    world.pass(secs(5)).await;
    assert_eq!(requests(&world, ACTIVITY_URL), 1);
    world.pass(mins(40)).await;
    assert_eq!((values(&world).await, requests(&world, ACTIVITY_URL)), (vec![Some(60.0)], 3));
    let arrivals = world.network.arrivals();
    let quarter = |number: usize| arrivals[number].at.as_secs() / 900;
    assert!(quarter(1) > quarter(0), "it was asked again in the same quarter of an hour");
}

#[tokio::test]
async fn a_forged_deauthorization_changes_nothing_and_a_true_one_ends_the_connection() {
    let mut world = World::new().await;
    let source = connected(&world, "strava").await;
    world.network.script(ATHLETE_URL, [Answer::Body(200, r#"{"id":1}"#)], Answer::Status(401));
    push(&world, &source, "athlete.update", DEAUTHORIZED).await;
    world.pass(secs(5)).await;
    assert_eq!(connection_state(&world).await, (true, true));
    // The token does not hold, and neither does the one that gets the next.
    world.network.script(TOKEN_URL, [], Answer::Body(400, r#"{"errors":[{"resource":"RefreshToken","code":"invalid"}]}"#));
    push(&world, &source, "athlete.update", DEAUTHORIZED).await;
    world.pass(secs(5)).await;
    assert_eq!(connection_state(&world).await, (false, false));
    assert_eq!(world.operational_types().await, ["connection.deregistered"]);
}

#[tokio::test]
async fn what_garmin_pushes_about_a_user_is_confirmed() {
    let mut world = World::new().await;
    let source = connected(&world, "garmin").await;
    world.network.script(PERMISSIONS_URL, [Answer::Body(200, r#"["HEALTH_EXPORT"]"#), Answer::Body(200, "[]")], Answer::Status(401));
    push(&world, &source, "deregistrations", r#"{"userId":"1"}"#).await;
    world.pass(secs(5)).await;
    assert_eq!(connection_state(&world).await, (true, true));
    // A change of permissions is what Garmin says, not what the push says.
    push(&world, &source, "userPermissionsChange", r#"{"userId":"1","permissions":["ACTIVITY_EXPORT"],"changeTimeInSeconds":1}"#).await;
    world.pass(secs(5)).await;
    let page = PageRequest { limit: 1, cursor: Cursor::Newest };
    let found = world.line().ports.health_connections.connections(world.organization, ConnectionFilter::default(), page).await;
    assert!(found.expect("the store answers").rows[0].permissions.as_ref().is_some_and(|permissions| permissions.is_empty()));
    push(&world, &source, "deregistrations", r#"{"userId":"1"}"#).await;
    world.pass(secs(5)).await;
    assert_eq!(connection_state(&world).await, (false, false));
}

#[tokio::test]
async fn a_ping_is_fetched_where_garmin_is_and_nowhere_else() {
    const DATA: &str = "https://apis.garmin.com/wellness-api/rest/dailies?uploadStartTimeInSeconds=1&uploadEndTimeInSeconds=2&token=X";
    let mut world = World::new().await;
    let source = connected(&world, "garmin").await;
    let days =
        r#"[{"userId":"1","summaryId":"a","calendarDate":"2026-03-04","steps":5},{"userId":"2","calendarDate":"2026-03-04","steps":9}]"#;
    world.network.script(DATA, [], Answer::Body(200, days));
    push(&world, &source, "dailies", &format!(r#"{{"userId":"1","callbackURL":"{DATA}"}}"#)).await;
    world.pass(secs(5)).await;
    assert_eq!(values(&world).await, [Some(5.0)]);
    for elsewhere in ["https://169.254.169.254/latest", "https://apis.garmin.com/wellness-api/rest/user/id"] {
        push(&world, &source, "dailies", &format!(r#"{{"userId":"1","callbackURL":"{elsewhere}"}}"#)).await;
        world.pass(secs(5)).await;
        assert_eq!(requests(&world, elsewhere), 0);
    }
    assert_eq!(world.dead_letters().await.len(), 2);
}

#[tokio::test]
async fn what_a_user_does_not_allow_any_more_is_not_fetched_and_is_again_once_it_is_allowed() {
    const DAILIES: &str = "https://apis.garmin.com/wellness-api/rest/dailies?uploadStartTimeInSeconds=1&uploadEndTimeInSeconds=2";
    const ACTIVITIES: &str = "https://apis.garmin.com/wellness-api/rest/activities?uploadStartTimeInSeconds=1&uploadEndTimeInSeconds=2";
    let mut world = World::new().await;
    let source = connected(&world, "garmin").await;
    let answers = [Answer::Body(200, r#"["ACTIVITY_EXPORT"]"#), Answer::Body(200, r#"["ACTIVITY_EXPORT","HEALTH_EXPORT"]"#)];
    world.network.script(PERMISSIONS_URL, answers, Answer::Status(500));
    for url in [DAILIES, ACTIVITIES] {
        world.network.script(url, [], Answer::Body(200, "[]"));
    }
    let changed = |time: u32| format!(r#"{{"userId":"1","permissions":[],"changeTimeInSeconds":{time}}}"#);
    let ping = |url: &str| format!(r#"{{"userId":"1","callbackURL":"{url}"}}"#);
    // When the user allows activities alone, only these are fetched.
    push(&world, &source, "userPermissionsChange", &changed(1)).await;
    push(&world, &source, "dailies", &ping(DAILIES)).await;
    push(&world, &source, "activities", &ping(ACTIVITIES)).await;
    world.pass(secs(5)).await;
    assert_eq!((requests(&world, DAILIES), requests(&world, ACTIVITIES)), (0, 1));
    let page = PageRequest { limit: 250, cursor: Cursor::Newest };
    let deliveries = world.line().ports.history.deliveries(world.organization, DeliveryFilter::default(), page).await.unwrap().rows;
    assert!(deliveries.iter().all(|delivery| matches!(delivery.stage, Stage::Delivered { .. })), "nothing failed: {deliveries:?}");
    // When health data is allowed again, so is it.
    push(&world, &source, "userPermissionsChange", &changed(2)).await;
    push(&world, &source, "dailies", &ping(DAILIES)).await;
    world.pass(secs(5)).await;
    assert_eq!((requests(&world, DAILIES), requests(&world, ACTIVITIES)), (1, 1));
}

#[tokio::test]
async fn an_athlete_who_does_not_share_activities_has_none_fetched() {
    for (scopes, fetched) in [(vec!["read", "profile:read_all"], 0), (vec!["read", "activity:read"], 1), (vec!["activity:read_all"], 1)] {
        let mut world = World::new().await;
        let source = source(&world, "strava").await;
        let text = |text: &str| Some(text.to_owned());
        let connection = NewConnection {
            provider: text("strava"),
            external_user_id: text("1"),
            profile_id: text("profile"),
            access_token: Some(Secret::new("token".to_owned())),
            permissions: Some(scopes.iter().map(|scope| (*scope).to_owned()).collect()),
            ..NewConnection::default()
        };
        health::connect(world.line(), &world.author(), connection).await.expect("it is good");
        world.network.script(ACTIVITY_URL, [], Answer::Body(200, ACTIVITY));
        push(&world, &source, "activity.create", CREATED).await;
        world.pass(secs(5)).await;
        assert_eq!((requests(&world, ACTIVITY_URL), values(&world).await.len()), (fetched, fetched), "{scopes:?}");
        assert!(world.dead_letters().await.is_empty());
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_processed_for_long_is_a_dead_letter_after_five_attempts() {
    let mut world = World::new().await;
    let source = connected(&world, "strava").await;
    world.network.script(ACTIVITY_URL, [], Answer::Status(503));
    push(&world, &source, "activity.create", CREATED).await;
    // By the schedule: at once, and after 1 min, 5 min, 30 min and 2 h.
    for (passed, expected) in [(secs(5), 1), (mins(2), 2), (mins(6), 3), (mins(34), 4)] {
        world.pass(passed).await;
        assert_eq!((requests(&world, ACTIVITY_URL), world.dead_letters().await.len()), (expected, 0));
    }
    world.pass(hours(3)).await;
    assert_eq!(requests(&world, ACTIVITY_URL), 5);
    let dead = world.dead_letters().await;
    assert_eq!((dead.len(), dead[0].kind, dead[0].attempts), (1, LaneKind::Processor, 5));
    // Retried by hand once the provider is back, it is processed.
    world.network.script(ACTIVITY_URL, [], Answer::Body(200, ACTIVITY));
    everhook_core::line::recall::recall(world.line(), world.organization, dead[0].id).await.expect("it is retried");
    world.pass(secs(5)).await;
    assert_eq!(values(&world).await, [Some(60.0)]);
}

#[tokio::test]
async fn two_nodes_that_need_a_new_token_of_one_athlete_refresh_it_once() {
    // Given sources whose lanes are of two nodes, and an athlete whose token has ended.
    let mut cluster = Cluster::of(2).await;
    let mut of_node = [None, None];
    for number in 0..20 {
        let settings = SourceChange {
            name: Change::Set(format!("strava-{number}")),
            kind: Change::Set("strava".to_owned()),
            forward: Change::Set(false),
            processor: Change::Set("health".to_owned()),
            ..SourceChange::default()
        };
        let new = NewSource { application: None, settings };
        let source = sources::create(cluster.line(), &cluster.author(), new).await.expect("it is good");
        let owner = (0..2).find(|node| cluster.shards(*node).has_lane(source.id.into())).expect("somebody owns the lane");
        of_node[owner].get_or_insert(source);
    }
    let [Some(first), Some(second)] = of_node else { panic!("one node owns all lanes") };
    let text = |text: &str| Some(text.to_owned());
    let connection = NewConnection {
        provider: text("strava"),
        external_user_id: text("1"),
        profile_id: text("profile"),
        access_token: Some(Secret::new("old".to_owned())),
        refresh_token: Some(Secret::new("refresh".to_owned())),
        expires_at: Some(cluster.clock.now() - mins(1)),
        ..NewConnection::default()
    };
    health::connect(cluster.line(), &cluster.author(), connection).await.expect("it is good");
    const FRESH: &str = r#"{"access_token":"new","refresh_token":"next","expires_at":4000000000}"#;
    cluster.network.script(TOKEN_URL, [], Answer::SlowBody(200, FRESH, secs(2)));
    cluster.network.script(ACTIVITY_URL, [], Answer::Body(200, ACTIVITY));
    // When both have an event about the athlete at the same moment.
    push(&cluster, &first, "activity.create", CREATED).await;
    push(&cluster, &second, "activity.create", CREATED).await;
    cluster.pass(secs(30)).await;
    // Then one of them asked for a new token, and both used it.
    assert_eq!(requests(&cluster, TOKEN_URL), 1);
    assert_eq!(bearers(&cluster, ACTIVITY_URL), ["Bearer new"; 2]);
    let nodes: Vec<usize> = cluster.senders.sent().iter().filter(|sent| sent.url == ACTIVITY_URL).map(|sent| sent.node).collect();
    assert!(nodes.contains(&0) && nodes.contains(&1), "{nodes:?}");
}

#[tokio::test]
async fn what_is_over_a_providers_limit_waits_for_the_next_quarter_and_spends_no_attempt_also_after_a_crash() {
    // Given more activities than Strava gives in a quarter of an hour.
    let mut world = World::new().await;
    let source = connected(&world, "strava").await;
    world.network.script(ACTIVITY_URL, [], Answer::Body(200, ACTIVITY));
    for _ in 0..105 {
        push(&world, &source, "activity.create", CREATED).await;
    }
    world.pass(secs(20)).await;
    assert_eq!(requests(&world, ACTIVITY_URL), 100);
    // When the node crashes, what was used is known to its successor.
    world.crash().await;
    world.pass(secs(20)).await;
    push(&world, &source, "activity.create", CREATED).await;
    world.pass(secs(20)).await;
    assert_eq!(requests(&world, ACTIVITY_URL), 100);
    // Then the others come with the next quarter, at their first attempt by the schedule.
    world.pass(mins(20)).await;
    assert_eq!((requests(&world, ACTIVITY_URL), values(&world).await), (106, vec![Some(60.0)]));
    let page = PageRequest { limit: 250, cursor: Cursor::Newest };
    let deliveries = world.line().ports.history.deliveries(world.organization, DeliveryFilter::default(), page).await.unwrap().rows;
    assert!(deliveries.iter().all(|delivery| matches!(delivery.stage, Stage::Delivered { .. })));
    // One waited at the limit; those behind it were held in their order.
    assert!(deliveries.iter().all(|delivery| delivery.attempts <= 2), "{:?}", deliveries.iter().map(|d| d.attempts).max());
}

#[tokio::test]
async fn a_connection_whose_refresh_token_was_lost_says_that_its_user_has_to_connect_again() {
    // Given a token that the provider replaced by a refresh whose outcome nobody kept: it refuses the old one.
    let mut world = World::new().await;
    let source = connected(&world, "strava").await;
    world.network.script(ACTIVITY_URL, [], Answer::Status(401));
    world.network.script(
        TOKEN_URL,
        [],
        Answer::Body(400, r#"{"message":"Bad Request","errors":[{"resource":"RefreshToken","code":"invalid"}]}"#),
    );
    push(&world, &source, "activity.create", CREATED).await;
    world.pass(secs(5)).await;
    let page = PageRequest { limit: 100, cursor: Cursor::Newest };
    let connections = async |world: &World| {
        world.line().ports.health_connections.connections(world.organization, ConnectionFilter::default(), page).await.unwrap().rows
    };
    assert!(connections(&world).await[0].reauthorization_needed_since.is_some());
    // Connecting again ends it.
    connect_again(&world).await;
    assert_eq!(connections(&world).await[0].reauthorization_needed_since, None);
    world.leaves_work_over();
}

async fn connect_again(world: &World) {
    let text = |text: &str| Some(text.to_owned());
    let connection = NewConnection {
        provider: text("strava"),
        external_user_id: text("1"),
        profile_id: text("profile"),
        access_token: Some(Secret::new("new".to_owned())),
        ..NewConnection::default()
    };
    health::connect(world.line(), &world.author(), connection).await.expect("it is good");
}
