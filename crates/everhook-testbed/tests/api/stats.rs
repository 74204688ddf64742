//! Statistics of parts of an organization over HTTP: by retry schedule, event type and source, of longer times, and who may read them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, routing::post};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::Server;
use crate::api::receiving::signed_headers;

/// A delivery takes milliseconds, and statistics are written once a second; this machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

impl Server {
    /// What was counted, once it says so.
    async fn counted(&self, query: &str, total: u64) -> Value {
        let begun = Instant::now();
        loop {
            let stats = self.get(&format!("/v1/stats?{query}")).await.expect(200);
            if stats["total"] == total {
                return stats;
            }
            assert!(begun.elapsed() < PATIENCE, "{query}: {stats}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn publish(&self, event_type: &str) {
        self.post("/v1/events", json!({ "type": event_type, "data": 1 })).await.expect(202);
    }
}

/// An endpoint that answers so often with 503 before it answers well.
async fn receiver(failures: u32) -> String {
    let left = Arc::new(AtomicU32::new(failures));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = move || {
        let fails = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        std::future::ready(if fails { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT })
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(answer))).await });
    format!("http://{address}/")
}

#[tokio::test]
async fn a_retry_schedule_shows_which_attempt_delivered() {
    let server = Server::start().await;
    let schedule = json!({ "name": "thrice", "strategy": "custom", "intervals": [1, 1], "max_attempts": 3 });
    let schedule = server.post("/v1/retry-schedules", schedule).await.expect(201);
    let id = schedule["id"].as_str().unwrap();
    for (event_type, failures) in [("a.first", 0), ("a.second", 1), ("a.dead", 3)] {
        let url = receiver(failures).await;
        server.endpoint(json!({ "url": url, "event_types": [event_type], "retry_schedule_id": id })).await;
        server.publish(event_type).await;
    }
    let other = receiver(0).await;
    server.endpoint(json!({ "url": other, "event_types": ["b.*"] })).await;
    server.publish("b.first").await;
    let stats = server.counted("retry_schedule_id=thrice", 6).await;
    let expected = json!({
        "total": 3, "first_attempt": 1, "second_attempt": 1, "later_attempt": 0, "dead": 1,
        "first_attempt_rate": 33.33, "second_attempt_rate": 33.33, "later_attempt_rate": 0.0, "dead_rate": 33.33,
    });
    assert_eq!(stats["deliveries"], expected);
    assert_eq!((&stats["success"], &stats["failure"], &stats["other_total"]), (&json!(2), &json!(4), &json!(0)));
    assert_eq!(server.get(&format!("/v1/stats?retry_schedule_id={id}&window=1h")).await.expect(200), stats);
    // Presets are counted under their names; whoever says nothing has the standard one.
    let standard = server.counted("retry_schedule_id=standard", 1).await;
    assert_eq!(standard["deliveries"]["first_attempt_rate"], 100.0);
    assert_eq!(server.get("/v1/stats?retry_schedule_id=default").await.expect(200), standard);
    let all = server.counted("", 7).await;
    assert_eq!((&all["deliveries"]["total"], all.get("other_total")), (&json!(4), None));
    // A change makes another version, and goes on counting under the same name.
    server.patch("/v1/retry-schedules/thrice", json!({ "intervals": [1], "max_attempts": 2 })).await.expect(200);
    server.publish("a.first").await;
    assert_eq!(server.counted("retry_schedule_id=thrice", 7).await["deliveries"]["first_attempt"], 2);
    assert_eq!(server.get("/v1/stats?retry_schedule_id=retry_config").await.expect(200)["total"], 0);
    server.get("/v1/stats?retry_schedule_id=nobodys").await.problem(404);
    server.get("/v1/stats?retry_schedule_id=01890a5d-ac96-774b-bcce-b302099a8057").await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn an_event_type_is_counted_over_all_endpoints_and_alerts_are_not_among_them() {
    let server = Server::start().await;
    let url = receiver(0).await;
    for _ in 0..2 {
        server.endpoint(json!({ "url": url, "event_types": ["order.*"] })).await;
    }
    server.endpoint(json!({ "url": url, "event_types": ["*"], "application_id": "operational" })).await;
    server.publish("order.paid").await;
    server.publish("order.paid").await;
    server.publish("order.lost").await;
    let paid = server.counted("event_type=order.paid", 4).await;
    assert_eq!((&paid["deliveries"]["first_attempt"], &paid["other_total"]), (&json!(4), &json!(0)));
    assert!(paid["p95_ms"].is_number() && paid["success_rate"] == 100.0, "{paid}");
    server.counted("event_type=order.lost", 2).await;
    assert_eq!(server.get("/v1/stats?event_type=order.unknown").await.expect(200)["total"], 0);
    assert_eq!(server.get("/v1/stats?event_type=order%20paid").await.faults(400), ["event_type"]);
    let stranger = server.stranger(&["read"]).await;
    assert_eq!(server.call(Method::GET, "/v1/stats?event_type=order.paid", &stranger, "").await.expect(200)["total"], 0);
    server.stop().await;
}

#[tokio::test]
async fn a_source_is_counted_by_what_became_of_its_events() {
    let server = Server::start().await;
    server.endpoint(json!({ "url": receiver(0).await, "event_types": ["*"] })).await;
    let source = server.source("shop", json!({})).await;
    let body = r#"{"type":"order.paid"}"#;
    for id in ["msg_1", "msg_2"] {
        let headers = signed_headers(id, body);
        let answer = server.push_with("/in/shop", &headers.each_ref().map(|(name, value)| (*name, value.as_str())), body).await;
        assert!(answer.status.is_success(), "{}", answer.status);
    }
    server.publish("order.paid").await;
    let stats = server.counted("source=shop", 2).await;
    assert_eq!((&stats["success"], &stats["deliveries"]["first_attempt"]), (&json!(2), &json!(2)));
    assert_eq!(stats.get("other_total"), None, "all sources are told apart");
    assert_eq!(server.get(&format!("/v1/stats?source={}", source["id"].as_str().unwrap())).await.expect(200), stats);
    server.counted("", 3).await;
    server.get("/v1/stats?source=nobody").await.problem(404);
    server.post("/v1/applications", json!({ "name": "Other", "uid": "other" })).await.expect(201);
    for (application, status) in [("default", 200), ("other", 404)] {
        let key = server
            .post("/v1/api-keys", json!({ "name": application, "scopes": ["read"], "application_id": application }))
            .await
            .expect(201);
        let answer = server.call(Method::GET, "/v1/stats?source=shop", key["key"].as_str().unwrap(), "").await;
        assert_eq!(answer.status.as_u16(), status, "{application}");
        for query in ["event_type=order.paid", "retry_schedule_id=standard"] {
            server.call(Method::GET, &format!("/v1/stats?{query}"), key["key"].as_str().unwrap(), "").await.problem(403);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn as_long_a_time_can_be_asked_for_as_statistics_are_kept() {
    let server = Server::start().await;
    let ago = |days: u64| (server.line().ports.clock.now() - Duration::from_secs(days * 86_400)).to_string();
    for (path, days, fault) in [
        ("/v1/stats?", 89, None),
        ("/v1/stats?", 91, Some("must be at most 90 days later than `from`")),
        ("/v1/sources/shop/stats?", 30, None),
        ("/v1/sources/shop/stats?", 32, Some("must be at most 31 days later than `from`")),
    ] {
        if path.contains("sources") && days == 30 {
            server.source("shop", json!({})).await;
        }
        let answer = server.get(&format!("{path}from={}", ago(days))).await;
        match fault {
            None => _ = answer.expect(200),
            Some(reason) => assert!(answer.problem(400).to_string().contains(reason), "{path} {days}"),
        }
    }
    server.stop().await;
}
