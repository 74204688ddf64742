//! Health data: a source with a processor, connections, metrics, and erasing a profile.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::client::Server;

pub const PUSH: &str =
    r#"{"dailies":[{"userId":"garmin-user","summaryId":"s-1","calendarDate":"2026-01-02","steps":4711,"activeKilocalories":321}]}"#;

impl Server {
    pub async fn push_garmin(&self, source: &Value, body: &str) {
        let path = format!("/in/{}", source["id"].as_str().unwrap());
        let request = Request::post(path).header("content-type", "application/json").body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        self.send(request).await.expect(200);
    }

    /// The metrics of a profile, once there are so many.
    async fn metrics_once(&self, query: &str, count: usize) -> Vec<Value> {
        for _ in 0..600 {
            let rows = self.metrics(query).await;
            if rows.len() == count {
                return rows;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("there are never {count} metrics");
    }

    async fn metrics(&self, query: &str) -> Vec<Value> {
        self.get(&format!("/v1/health/metrics{query}")).await.expect(200)["data"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn a_processor_is_for_some_kinds_only_and_is_shown() {
    let server = Server::start().await;
    let refused =
        server.post("/v1/sources", json!({ "name": "a", "kind": "github", "secrets": ["s"], "processor": "health" })).await.expect(422);
    assert_eq!(refused["errors"][0]["field"], "processor");
    let unknown = server.post("/v1/sources", json!({ "name": "a", "kind": "garmin", "processor": "sports" })).await.expect(422);
    assert_eq!(unknown["errors"][0]["field"], "processor");
    let made = server.post("/v1/sources", json!({ "name": "a", "kind": "garmin", "processor": "health" })).await.expect(201);
    assert_eq!(made["processor"], "health");
    let path = format!("/v1/sources/{}", made["id"].as_str().unwrap());
    let kind = server.put(&path, json!({ "kind": "none" })).await.expect(422);
    assert_eq!(kind["errors"][0]["field"], "processor");
    assert_eq!(server.put(&path, json!({ "processor": null })).await.expect(200)["processor"], Value::Null);
}

#[tokio::test]
async fn what_is_pushed_waits_for_the_connection_becomes_metrics_and_is_erased() {
    let server = Server::start().await;
    let source = server.post("/v1/sources", json!({ "name": "watch", "kind": "garmin", "processor": "health" })).await.expect(201);
    server.push_garmin(&source, PUSH).await;
    assert!(server.metrics("").await.is_empty());
    let faults = server.post("/v1/health/connections", json!({ "provider": "fitbit", "refresh_token": "r" })).await.expect(422);
    let fields: Vec<&str> = faults["errors"].as_array().unwrap().iter().map(|fault| fault["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["provider", "external_user_id", "profile_id", "refresh_token"]);
    let wanted = json!({
        "provider": "garmin", "external_user_id": "garmin-user", "profile_id": "profile 1", "access_token": "a", "refresh_token": "r",
        "expires_at": "2099-01-01T00:00:00Z", "permissions": ["HEALTH_EXPORT"],
    });
    let made = server.post("/v1/health/connections", wanted).await.expect(201);
    assert_eq!((&made["has_access_token"], &made["is_connected"], &made["access_token"]), (&json!(true), &json!(true), &Value::Null));
    let found = server.metrics_once("?profile_id=profile%201", 2).await;
    let of = |metric: &str| found.iter().find(|row| row["metric_type"] == metric).unwrap().clone();
    assert_eq!(
        (&of("steps")["value_num"], &of("steps")["unit"], &of("steps")["source"]),
        (&json!(4711.0), &json!("steps"), &json!("garmin"))
    );
    assert_eq!(
        (&of("calories")["start_time"], &of("calories")["end_time"]),
        (&json!("2026-01-02T00:00:00Z"), &json!("2026-01-02T23:59:59Z"))
    );
    // Of dailies only the values are kept.
    assert_eq!(of("steps")["raw_payload_json"], Value::Null);
    assert_eq!(server.metrics("?metric_type=steps&from=2026-01-02&to=2026-01-03").await.len(), 1);
    assert!(server.metrics("?from=2026-01-03").await.is_empty());
    server.get("/v1/health/metrics?metric_type=mood").await.expect(400);
    let listed = server.get("/v1/health/connections?provider=garmin&external_user_id=garmin-user").await.expect(200);
    assert_eq!(listed["data"][0]["id"], made["id"]);
    let erased = server.delete("/v1/health/profiles/profile%201").await.expect(200);
    assert_eq!(erased, json!({ "connections": 1, "metrics": 2, "events": 1 }));
    assert!(server.metrics("").await.is_empty());
    server.get(&format!("/v1/health/connections/{}", made["id"].as_str().unwrap())).await.expect(404);
    let again = server.delete("/v1/health/profiles/profile%201").await.expect(200);
    assert_eq!(again, json!({ "connections": 0, "metrics": 0, "events": 0 }));
}

#[tokio::test]
async fn a_source_says_in_numbers_what_came_in_what_became_of_it_and_what_waits() {
    let server = Server::start().await;
    let source = server.post("/v1/sources", json!({ "name": "watch", "kind": "garmin", "processor": "health" })).await.expect(201);
    let wanted = json!({ "provider": "garmin", "external_user_id": "garmin-user", "profile_id": "p" });
    server.post("/v1/health/connections", wanted).await.expect(201);
    server.push_garmin(&source, PUSH).await;
    // One whose user is not connected waits; one that is no JSON is rejected.
    server.push_garmin(&source, &PUSH.replace("garmin-user", "stranger")).await;
    let path = format!("/in/{}", source["id"].as_str().unwrap());
    server.send(Request::post(path).body(Full::new(Bytes::from_static(b"no json"))).unwrap()).await.expect(400);
    server.metrics_once("", 2).await;
    let stats = format!("/v1/sources/{}/stats", source["id"].as_str().unwrap());
    let mut found = Value::Null;
    for _ in 0..100 {
        found = server.get(&format!("{stats}?window=1h")).await.expect(200);
        if found["events"]["completed"] == 1 && found["backlog"]["count"] == 1 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let counts = json!({ "received": 2, "completed": 1, "failed_attempts": 0, "dead": 0, "failure_rate": 0.0 });
    assert_eq!((&found["accepted"], &found["rejected"], &found["handshakes"]), (&json!(2), &json!(1), &json!(0)), "{found}");
    assert_eq!((&found["events"], &found["events_by_type"]["dailies"]), (&counts, &counts));
    assert_eq!(found["rejected_by_reason"], json!({ "unreadable_body": 1 }));
    assert_eq!((&found["backlog"]["count"], &found["backlog"]["parked"]), (&json!(1), &json!(1)));
    assert!(found["backlog"]["oldest_created_at"].is_string() && found["latency"]["p95_ms"].as_f64().unwrap() < 60_000.0, "{found}");
    assert_eq!((&found["step_seconds"], &found["in_flight"]), (&json!(60), &json!(0)));
    let received: u64 = found["series"].as_array().unwrap().iter().map(|step| step["received"].as_u64().unwrap()).sum();
    assert_eq!(received, 2);
    server.get(&format!("{stats}?window=2h")).await.problem(400);
    let processing = server.get("/v1/sources/watch/events?status=processing").await.problem(400);
    assert!(processing["errors"][0]["reason"].as_str().unwrap().contains("in_flight"), "{processing}");
    server.get("/v1/sources/nobody/stats").await.problem(404);
    let plain = server.post("/v1/sources", json!({ "name": "plain", "kind": "none" })).await.expect(201);
    let plain = server.get(&format!("/v1/sources/{}/stats", plain["id"].as_str().unwrap())).await.expect(200);
    assert_eq!((&plain["backlog"], &plain["latency"]["p95_ms"], &plain["series"]), (&Value::Null, &Value::Null, &json!([])));
}

#[tokio::test]
async fn data_of_the_past_is_requested_within_bounds_shown_piece_by_piece_audited_and_cancelled() {
    let server = Server::start().await;
    let connect = async |provider: &str, user: &str, token: Value| {
        let new = json!({ "provider": provider, "external_user_id": user, "profile_id": "p", "access_token": token });
        server.post("/v1/health/connections", new).await.expect(201)["id"].clone()
    };
    let (good, bare, strava) =
        (connect("garmin", "1", json!("a")).await, connect("garmin", "2", Value::Null).await, connect("strava", "3", json!("a")).await);
    let later = "2100-01-01T00:00:00Z";
    let ask = async |connection: &Value, from: &str, to: &str, types: Value| {
        let body = json!({ "connection_id": connection, "from": from, "to": to, "data_types": types, "start_at": later });
        server.post("/v1/health/backfill", body).await
    };
    let types = |names: &[&str]| json!(names);
    let seventeen: Vec<String> = (0..17).map(|n| format!("t{n}")).collect();
    for (connection, from, to, names, field) in [
        (&good, "1926-01-01", "2026-01-01", Value::Null, "from"),
        (&good, "2025-06-01T00:00:00Z", "2025-08-30T00:00:01Z", Value::Null, "from"),
        (&good, "2025-06-02", "2025-06-01", Value::Null, "from"),
        (&good, "2099-12-01", "2099-12-02", Value::Null, "to"),
        (&good, "2025-06-01", "2025-06-02", types(&[]), "data_types"),
        (&good, "2025-06-01", "2025-06-02", json!(seventeen), "data_types"),
        (&good, "2025-06-01", "2025-06-02", types(&["sleeps", "../user"]), "data_types[1]"),
        (&good, "2025-06-01", "2025-06-02", types(&["sleeps", "sleep"]), "data_types[1]"),
        (&bare, "2025-06-01", "2025-06-02", Value::Null, "connection_id"),
        (&strava, "2025-06-01", "2025-06-02", Value::Null, "connection_id"),
        (&json!("019a4f6e-7c1b-7d34-9a55-3f0a1c2b4d5e"), "2025-06-01", "2025-06-02", Value::Null, "connection_id"),
    ] {
        assert!(ask(connection, from, to, names.clone()).await.faults(422).contains(&field.to_owned()), "{from} {to} {names}");
    }
    assert_eq!(server.post("/v1/health/backfill", json!({})).await.faults(422), ["connection_id", "from"]);
    let begun = ask(&good, "2025-06-01", "2025-08-30", types(&["sleep", "hrv"])).await.expect(202);
    assert_eq!(begun["operation_id"], begun["batch_operation_id"]);
    let id = begun["operation_id"].as_str().unwrap();
    let found = server.get(&format!("/v1/health/backfill/{id}")).await.expect(200);
    assert_eq!((&found["status"], &found["connection_id"], &found["operation_id"]), (&json!("pending"), &good, &json!(id)));
    let chunks = found["chunks"].as_array().unwrap();
    let piece = |data: &str, from: &str, to: &str| json!({ "data_type": data, "from": from, "to": to, "outcome": null });
    assert_eq!(chunks.len(), 6);
    assert_eq!(chunks[0], piece("sleeps", "2025-06-01T00:00:00Z", "2025-07-01T00:00:00Z"));
    assert_eq!(chunks[5], piece("hrv", "2025-07-31T00:00:00Z", "2025-08-30T00:00:00Z"));
    let operation = server.get(&format!("/v1/operations/{id}")).await.expect(200);
    assert_eq!((&operation["kind"], &operation["total"], &operation["done"]), (&json!("backfill"), &json!(6), &json!(0)));
    let entry = server.get("/v1/audit-log?action=operation.begin").await.expect(200)["data"][0].to_string();
    assert!(["backfill", "sleeps", good.as_str().unwrap(), "2025-06-01"].iter().all(|word| entry.contains(word)), "{entry}");
    server.get("/v1/health/backfill/019a4f6e-7c1b-7d34-9a55-3f0a1c2b4d5e").await.problem(404);
    // An operation of another kind is no backfill.
    let other = server.post("/v1/dlq/retry-batch", json!({ "filter": {}, "start_at": later })).await.expect(202);
    server.get(&format!("/v1/health/backfill/{}", other["operation_id"].as_str().unwrap())).await.problem(404);
    server.delete(&format!("/v1/operations/{id}")).await.expect(204);
    assert_eq!(server.get(&format!("/v1/health/backfill/{id}")).await.expect(200)["status"], "cancelled");
    // As many as an organization may have under way, and no more.
    for _ in 0..19 {
        ask(&good, "2025-06-01", "2025-08-30", Value::Null).await.expect(202);
    }
    let problem = ask(&good, "2025-06-01", "2025-08-30", Value::Null).await.problem(409);
    assert_eq!(problem["type"], "/docs/problems/too-many-operations");
    server.stop().await;
}
