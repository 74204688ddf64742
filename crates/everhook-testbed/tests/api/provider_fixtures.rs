//! A push of every shape in `tests/fixtures`, whole as providers send them, at its route: which events and which metrics become of it.

use std::path::Path;

use axum::{Router, http::StatusCode, routing::get};
use bytes::Bytes;
use everhook::config::ServeArgs;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::{client::Server, retries::wait_until};

/// The users of the fixtures, and the profiles that they are.
const GARMIN_USERS: [(&str, &str); 2] = [("walker-7", "walker"), ("rider-8", "rider")];
const ATHLETE: (&str, &str) = ("4242", "athlete");

const ACTIVITY: &str =
    r#"{"id":88001,"athlete":{"id":4242},"moving_time":1500,"elapsed_time":1600,"sport_type":"Run","start_date":"2026-02-02T07:00:00Z"}"#;
const PINGED_DAY: &str = r#"[{"userId":"walker-7","summaryId":"pinged","calendarDate":"2026-02-03","steps":12}]"#;

/// A metric: whose, which, and its value.
type Measured = (&'static str, &'static str, f64);

/// A file, the end of its route, the events (type and user) and the metrics that it adds to those of the files before it.
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static [Measured]);

const GARMIN: &[Row] = &[
    (
        "garmin-activities",
        "activities",
        &[("activities", "walker-7"), ("activities", "rider-8")],
        &[("walker", "activity", 2_700.0), ("rider", "activity", 5_400.0)],
    ),
    (
        "garmin-dailies",
        "dailies",
        &[("dailies", "walker-7"), ("dailies", "rider-8")],
        &[
            ("walker", "steps", 6_100.0),
            ("walker", "calories", 410.0),
            ("walker", "distance", 4_700.5),
            ("rider", "steps", 8_200.0),
            ("rider", "calories", 530.0),
            ("rider", "distance", 6_400.0),
            ("rider", "resting_hr", 58.0),
        ],
    ),
    ("garmin-ping-dailies", "dailies", &[("dailies", "walker-7")], &[("walker", "steps", 12.0)]),
    (
        "garmin-sleeps",
        "sleeps",
        &[("sleeps", "walker-7"), ("sleeps", "rider-8")],
        &[("walker", "sleep", 21_600.0), ("rider", "sleep", 18_000.0), ("rider", "spo2", 96.0)],
    ),
    ("garmin-stressDetails", "stressDetails", &[("stressDetails", "walker-7")], &[("walker", "stress", 40.0)]),
    ("garmin-userMetrics", "userMetrics", &[("userMetrics", "walker-7")], &[("walker", "vo2max", 51.0)]),
    ("garmin-userPermissionsChange", "userPermissionsChange", &[("userPermissionsChange", "walker-7")], &[]),
    ("garmin-deregistrations", "deregistrations", &[("deregistrations", "walker-7")], &[]),
];

const STRAVA: &[Row] = &[
    ("strava-activity-create", "", &[("activity.create", "4242")], &[("athlete", "activity", 1_500.0)]),
    ("strava-activity-update-title", "", &[("activity.update", "4242")], &[]),
    ("strava-activity-update-type", "", &[("activity.update", "4242")], &[]),
    ("strava-activity-update-private", "", &[("activity.update", "4242")], &[]),
];

fn fixture(name: &str, provider: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.replace("https://apis.garmin.com", provider)
}

/// The providers' APIs: an activity, the day of a ping, and an athlete whose token holds no more.
async fn providers() -> String {
    let app = Router::new()
        .route("/activities/88001", get(async || ACTIVITY))
        .route("/wellness-api/rest/dailies", get(async || PINGED_DAY))
        .route("/athlete", get(async || StatusCode::UNAUTHORIZED));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

impl Server {
    async fn push_fixture(&self, name: &str, path: &str, provider: &str) {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request.body(Full::new(Bytes::from(fixture(name, provider)))).unwrap()).await.expect(200);
    }

    /// Type and user of the events of a source, oldest first, once all of them are processed.
    async fn processed(&self, source: &str) -> Vec<(String, String)> {
        let rows =
            async || self.get(&format!("/v1/sources/{source}/events?limit=250")).await.expect(200)["data"].as_array().unwrap().clone();
        wait_until(async || rows().await.iter().all(|row| row["status"] == "completed")).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        rows().await.iter().rev().map(|row| (text(&row["event_type"]), text(&row["external_user_id"]))).collect()
    }

    /// All metrics, in the order of profile, name and value.
    async fn measured(&self) -> Vec<(String, String, f64)> {
        let page = self.get("/v1/health/metrics?limit=250").await.expect(200);
        let of = |row: &Value| {
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            (text("profile_id"), text("metric_type"), row["value_num"].as_f64().unwrap())
        };
        let mut rows: Vec<_> = page["data"].as_array().unwrap().iter().map(of).collect();
        rows.sort_by(|one, other| one.partial_cmp(other).unwrap());
        rows
    }

    async fn connect_user(&self, provider: &str, (user, profile): (&str, &str), token: Option<&str>) {
        let connection = json!({ "provider": provider, "external_user_id": user, "profile_id": profile, "access_token": token });
        self.post("/v1/health/connections", connection).await.expect(201);
    }

    async fn is_connected(&self, provider: &str, user: &str) -> bool {
        let found = self.get(&format!("/v1/health/connections?provider={provider}&external_user_id={user}")).await.expect(200);
        found["data"][0]["is_connected"].as_bool().unwrap()
    }
}

async fn started(provider: &str) -> Server {
    let url = provider.to_owned();
    Server::start_set(|args| ServeArgs {
        garmin_api_url: Some(url.clone()),
        strava_api_url: Some(url.clone()),
        allow_http: Some("true".to_owned()),
        ..args
    })
    .await
}

/// Pushes each file of a provider, and compares all events and metrics after each.
async fn push_all(server: &Server, rows: &[Row], path: &str, source: &str, provider: &str) {
    let (mut events, mut metrics) = (Vec::new(), Vec::new());
    for (name, route, its_events, its_metrics) in rows {
        server.push_fixture(name, &format!("{path}{route}"), provider).await;
        events.extend(its_events.iter().map(|(event_type, user)| ((*event_type).to_owned(), (*user).to_owned())));
        metrics.extend(its_metrics.iter().map(|(profile, metric, value)| ((*profile).to_owned(), (*metric).to_owned(), *value)));
        metrics.sort_by(|one: &(String, String, f64), other| one.partial_cmp(other).unwrap());
        assert_eq!(server.processed(source).await, events, "{name}");
        assert_eq!(server.measured().await, metrics, "{name}");
    }
}

#[tokio::test]
async fn every_shape_of_garmin_becomes_its_events_and_metrics_and_changes_nothing_when_it_comes_again() {
    let provider = providers().await;
    let server = started(&provider).await;
    server.post("/v1/sources", json!({ "name": "garmin", "kind": "garmin", "processor": "health", "forward": false })).await.expect(201);
    for of in GARMIN_USERS {
        server.connect_user("garmin", of, None).await;
    }
    push_all(&server, GARMIN, "/webhooks/garmin/", "garmin", &provider).await;
    // Nobody can be asked without a token: the push is believed, of this user alone.
    assert!(!server.is_connected("garmin", "walker-7").await && server.is_connected("garmin", "rider-8").await);
    let before = server.measured().await;
    for (name, route, ..) in GARMIN {
        server.push_fixture(name, &format!("/webhooks/garmin/{route}"), &provider).await;
    }
    let rider = "/v1/sources/garmin/events?external_user_id=rider-8&status=completed";
    wait_until(async || server.get(rider).await.expect(200)["data"].as_array().unwrap().len() == 6).await;
    assert_eq!(server.measured().await, before);
    server.stop().await;
}

#[tokio::test]
async fn every_shape_of_strava_becomes_its_event_and_metric_until_the_athlete_withdraws() {
    let provider = providers().await;
    let server = started(&provider).await;
    let source = json!({ "name": "strava", "kind": "strava", "processor": "health", "forward": false, "subscription_id": "31337" });
    server.post("/v1/sources", source).await.expect(201);
    server.connect_user("strava", ATHLETE, Some("token")).await;
    push_all(&server, STRAVA, "/webhooks/strava", "strava", &provider).await;
    server.push_fixture("strava-activity-delete", "/webhooks/strava", &provider).await;
    assert_eq!(server.processed("strava").await.last().unwrap(), &("activity.delete".to_owned(), "4242".to_owned()));
    assert_eq!(server.measured().await, []);
    server.push_fixture("strava-athlete-deauthorized", "/webhooks/strava", &provider).await;
    assert_eq!(server.processed("strava").await.last().unwrap(), &("athlete.update".to_owned(), "4242".to_owned()));
    wait_until(async || !server.is_connected("strava", "4242").await).await;
    server.stop().await;
}

#[test]
fn every_fixture_is_pushed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|file| file.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut pushed: Vec<&str> = GARMIN.iter().chain(STRAVA).map(|row| row.0).collect();
    pushed.extend(["strava-activity-delete", "strava-athlete-deauthorized"]);
    pushed.sort_unstable();
    assert_eq!(files, pushed);
}
