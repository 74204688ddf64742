//! What Garmin and Strava push, in each shape that their documentation shows: accepted at the routes that are entered there, and split as it should be.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::client::Server;

/// The last part of the route, the body, and the type and user of each event that it becomes.
type Push = (&'static str, Value, Vec<(&'static str, &'static str)>);

fn garmin() -> Vec<Push> {
    let summary = |user: &str, more: Value| {
        let mut summary = json!({"userId": user, "userAccessToken": "t", "summaryId": "s-1", "startTimeInSeconds": 1_700_000_000, "startTimeOffsetInSeconds": 3_600});
        summary.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        summary
    };
    let sleep = json!({"durationInSeconds": 20_000, "deepSleepDurationInSeconds": 9_000, "timeOffsetSleepSpo2": {"0": 95, "60": 97},
        "sleepLevelsMap": {"deep": [{"startTimeInSeconds": 1_700_000_000, "endTimeInSeconds": 1_700_000_600}]}});
    let stress = json!({"durationInSeconds": 540, "timeOffsetStressLevelValues": {"0": 18, "180": 51, "360": -1}, "timeOffsetBodyBatteryValues": {"0": 55}});
    let ping = json!({"userId": "u", "callbackURL": "https://apis.garmin.com/wellness-api/rest/dailies?uploadStartTimeInSeconds=1&uploadEndTimeInSeconds=2"});
    vec![
        ("sleeps", json!({"sleeps": [summary("a", sleep.clone()), summary("b", sleep)]}), vec![("sleeps", "a"), ("sleeps", "b")]),
        ("stressDetails", json!({"stressDetails": [summary("a", stress)]}), vec![("stressDetails", "a")]),
        (
            "userMetrics",
            json!({"userMetrics": [{"userId": "a", "summaryId": "m", "calendarDate": "2026-03-23", "vo2Max": 48.0, "fitnessAge": 32}]}),
            vec![("userMetrics", "a")],
        ),
        (
            "dailies",
            json!({"dailies": [summary("a", json!({"calendarDate": "2026-01-11", "steps": 4_210, "timeOffsetHeartRateSamples": {"15": 75}}))]}),
            vec![("dailies", "a")],
        ),
        ("dailies", json!({"dailies": [ping]}), vec![("dailies", "u")]),
        (
            "activities",
            json!({"activities": [summary("a", json!({"activityId": 5_001_968_355_u64, "activityType": "RUNNING", "manual": true}))]}),
            vec![("activities", "a")],
        ),
        (
            "deregistrations",
            json!({"deregistrations": [{"userId": "a"}, {"userId": "b"}]}),
            vec![("deregistrations", "a"), ("deregistrations", "b")],
        ),
        (
            "userPermissionsChange",
            json!({"userPermissionsChange": [{"userId": "a", "summaryId": "p", "permissions": ["ACTIVITY_EXPORT"], "changeTimeInSeconds": 1_700_000_000}]}),
            vec![("userPermissionsChange", "a")],
        ),
        // One push with two types, and one with nothing.
        ("all", json!({"dailies": [{"userId": "a"}], "sleeps": [{"userId": "b"}]}), vec![("dailies", "a"), ("sleeps", "b")]),
        ("dailies", json!({"dailies": []}), vec![]),
    ]
}

/// The body, and the type of the event. All are about the same athlete.
fn strava() -> Vec<(Value, &'static str)> {
    let event = |object: &str, aspect: &str, updates: Value| json!({"object_type": object, "aspect_type": aspect, "object_id": 1_360_128_428_u64, "owner_id": 134_815, "subscription_id": 7, "event_time": 1_700_000_000, "updates": updates});
    vec![
        (event("activity", "create", json!({})), "activity.create"),
        (event("activity", "update", json!({"title": "Messy"})), "activity.update"),
        (event("activity", "update", json!({"type": "Ride"})), "activity.update"),
        (event("activity", "update", json!({"private": true})), "activity.update"),
        (event("activity", "update", json!({"private": "true"})), "activity.update"),
        (event("activity", "delete", json!({})), "activity.delete"),
        (event("athlete", "update", json!({"authorized": "false"})), "athlete.update"),
        (event("athlete", "update", json!({"authorized": false})), "athlete.update"),
    ]
}

async fn push(server: &Server, path: &str, body: &Value) {
    let request = Request::post(path).header("content-type", "application/json").body(Full::new(Bytes::from(body.to_string()))).unwrap();
    server.send(request).await.expect(200);
}

/// The type and user of the events of a source, oldest first.
async fn events(server: &Server, source: &str) -> Vec<(String, String)> {
    let page = server.get(&format!("/v1/sources/{source}/events?limit=250")).await.expect(200);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    page["data"].as_array().unwrap().iter().rev().map(|row| (text(&row["event_type"]), text(&row["external_user_id"]))).collect()
}

#[tokio::test]
async fn every_shape_that_garmin_and_strava_push_is_accepted_and_split() {
    let server = Server::start().await;
    server.post("/v1/sources", json!({"name": "garmin", "kind": "garmin", "processor": "health"})).await.expect(201);
    server
        .post("/v1/sources", json!({"name": "strava", "kind": "strava", "processor": "health", "subscription_id": "7"}))
        .await
        .expect(201);
    let (mut expected, owned) = (Vec::new(), |(kind, user): (&str, &str)| (kind.to_owned(), user.to_owned()));
    for (route, body, events) in garmin() {
        push(&server, &format!("/webhooks/garmin/{route}"), &body).await;
        expected.extend(events.into_iter().map(owned));
    }
    assert_eq!(events(&server, "garmin").await, expected);
    for (body, _) in strava() {
        push(&server, "/webhooks/strava", &body).await;
    }
    assert_eq!(events(&server, "strava").await, strava().into_iter().map(|(_, kind)| owned((kind, "134815"))).collect::<Vec<_>>());
    server.stop().await;
}
