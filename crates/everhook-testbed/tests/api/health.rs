//! Endpoint health, and what its statistics are.

use std::time::Duration;

use everhook_core::{
    ids::{EndpointId, Ref},
    manage::endpoints,
    model::{
        Attempt, AttemptStatus, BreakerState, EventType, FailingRule, FailureCategory, HealthRecord, HealthReportKind, PhaseTimes, Tally,
        minute_of,
    },
    ports::{Alert, HealthReport},
    time::Timestamp,
};
use serde_json::{Value, json};

use crate::api::client::Server;

/// Adds attempts that ended so, a second apart, up to the instant given.
async fn attempts(server: &Server, endpoint: &Value, ended_at: Timestamp, outcomes: &[(Option<FailureCategory>, u64)]) {
    let endpoint: EndpointId = endpoint["id"].as_str().unwrap().parse().ok().unwrap();
    let mut tallies = Vec::new();
    for (n, (failure_category, millis)) in outcomes.iter().enumerate() {
        let at = ended_at - Duration::from_secs((outcomes.len() - 1 - n) as u64);
        let attempt = Attempt {
            number: 1,
            status: if failure_category.is_none() { AttemptStatus::Success } else { AttemptStatus::Failed },
            failure_category: *failure_category,
            error: None,
            response: None,
            duration: Duration::from_millis(*millis),
            phases: PhaseTimes::default(),
            scheduled_at: at,
            picked_at: at,
            executed_at: at,
            next_retry_at: None,
            revision: None,
            node: "test".to_owned(),
            user_agent: "Everhook/1".into(),
            breaker: BreakerState::Closed,
        };
        let mut tally = Tally::new(endpoint.into(), minute_of(at));
        tally.add(&attempt, at);
        tallies.push(tally);
    }
    server.line().ports.statistics.add(tallies, FailingRule::default()).await.unwrap();
}

#[tokio::test]
async fn an_endpoint_that_got_nothing_is_healthy_and_has_nothing_to_show() {
    let server = Server::start().await;
    let made = server.endpoint(json!({ "uid": "shop" })).await;
    let health = server.get("/v1/endpoints/shop/health").await.expect(200);
    let nothing = json!({
        "total": 0, "success": 0, "failure": 0, "timeout": 0, "avg_ms": null, "p50_ms": null, "p95_ms": null, "p99_ms": null,
        "success_rate": null, "last_success_at": null, "last_failure_at": null,
    });
    let expected = json!({
        "status": "healthy", "failing_since": null, "warning_at": null, "disable_at": null, "history": [], "first_failure_at": null, "consecutive_failures": 0, "last_success_at": null,
        "last_failure_at": null, "in_flight": 0, "held_until": null, "stats": nothing, "error_distribution": {},
        "backlog": { "count": 0, "parked": 0, "count_is_capped": false, "oldest_created_at": null },
        "circuit_breaker": {
            "state": "closed", "failure_count_in_window": 0, "success_count_in_window": 0, "total_calls_in_window": 0,
            "error_percentage": 0.0, "window_start": null, "state_transition_at": made["created_at"], "next_half_open_at": null,
            "half_open_attempts": 0, "half_open_successes": 0, "consecutive_half_open_failures": 0, "forced": false,
            "force_open_until": null, "force_close_until": null, "redis_fallback_mode": false,
        },
    });
    assert_eq!(health, expected);
    assert_eq!(server.get("/v1/endpoints/shop/stats").await.expect(200), nothing);
    server.put("/v1/endpoints/shop", json!({ "enabled": false })).await.expect(200);
    assert_eq!(server.get("/v1/endpoints/shop/health").await.expect(200)["status"], "disabled");
    server.stop().await;
}

#[tokio::test]
async fn health_tells_of_the_last_day_and_of_failures_in_a_row() {
    let server = Server::start().await;
    let shop = server.endpoint(json!({ "uid": "shop" })).await;
    let now = server.line().ports.clock.now();
    let (timeout, server_error) = (Some(FailureCategory::Timeout), Some(FailureCategory::ServerError));
    attempts(&server, &shop, now - Duration::from_secs(30 * 3_600), &[(server_error, 10); 7]).await;
    attempts(&server, &shop, now, &[(None, 100), (None, 300), (server_error, 200), (timeout, 15_000)]).await;
    let health = server.get("/v1/endpoints/shop/health").await.expect(200);
    assert_eq!((&health["status"], &health["consecutive_failures"]), (&json!("healthy"), &json!(2)), "two failures are not yet failing");
    assert_eq!(health["error_distribution"], json!({ "timeout": 1, "server_error": 1 }));
    assert_eq!(health["first_failure_at"], json!((now - Duration::from_secs(1)).to_string()));
    assert_eq!(
        (&health["last_failure_at"], &health["last_success_at"]),
        (&json!(now.to_string()), &json!((now - Duration::from_secs(2)).to_string()))
    );
    let stats = &health["stats"];
    let counts = ["total", "success", "failure", "timeout", "avg_ms", "success_rate"].map(|name| stats[name].as_f64().unwrap());
    assert_eq!(counts, [4.0, 2.0, 2.0, 1.0, 3_900.0, 50.0]);
    assert_eq!((&stats["last_success_at"], &stats["last_failure_at"]), (&health["last_success_at"], &health["last_failure_at"]));
    for (name, range) in [("p50_ms", 160.0..=320.0), ("p95_ms", 12_000.0..=18_000.0), ("p99_ms", 12_000.0..=18_000.0)] {
        assert!(range.contains(&stats[name].as_f64().unwrap()), "{name} is {}", stats[name]);
    }
    // A third failure in a row makes it failing; a success ends that, and is shown with the endpoint.
    attempts(&server, &shop, now, &[(timeout, 15_000)]).await;
    assert_eq!(server.get("/v1/endpoints/shop/health").await.expect(200)["status"], "failing");
    attempts(&server, &shop, now, &[(None, 5)]).await;
    let health = server.get("/v1/endpoints/shop/health").await.expect(200);
    assert_eq!((&health["status"], &health["consecutive_failures"]), (&json!("healthy"), &json!(0)));
    assert_eq!(server.get("/v1/endpoints/shop").await.expect(200)["last_success_at"], json!(now.to_string()));
    assert_eq!(server.get("/v1/endpoints").await.expect(200)["data"][0]["last_success_at"], json!(now.to_string()));
    server.stop().await;
}

#[tokio::test]
async fn statistics_are_added_up_over_the_time_that_is_asked_for() {
    let server = Server::start().await;
    let shop = server.endpoint(json!({ "uid": "shop" })).await;
    let now = server.line().ports.clock.now();
    let hours = |n: u64| Duration::from_secs(n * 3_600);
    for (ago, count) in [(hours(0), 1), (hours(2), 2), (hours(40), 4), (hours(24 * 20), 8)] {
        attempts(&server, &shop, now - ago, &vec![(None, 10); count]).await;
    }
    let day = |days: u64| (now - hours(24 * days)).to_string()[..10].to_owned();
    let table = [
        ("?window=1h".to_owned(), 1),
        ("?window=24h".to_owned(), 3),
        (String::new(), 3),
        ("?window=7d".to_owned(), 7),
        (format!("?from={}", day(25)), 15),
        (format!("?from={}&to={}", day(25), day(10)), 8),
        (format!("?from={}&to={}", day(15), day(10)), 0),
    ];
    for (query, total) in table {
        let stats = server.get(&format!("/v1/endpoints/shop/stats{query}")).await.expect(200);
        assert_eq!(stats["total"], total, "{query}");
    }
    for (query, fault) in
        [("?window=2h", "window"), ("?to=2026-01-01", "from"), ("?from=2020-01-01", "to"), ("?from=2026-01-02&to=2026-01-01", "to")]
    {
        assert_eq!(server.get(&format!("/v1/endpoints/shop/stats{query}")).await.faults(400), [fault], "{query}");
    }
    server.get("/v1/endpoints/shop/stats?capability=x").await.problem(400);
    // What happened stays when the endpoint goes.
    server.delete("/v1/endpoints/shop").await.expect(204);
    server.get("/v1/endpoints/shop/health").await.problem(404);
    let stats = server.get(&format!("/v1/endpoints/{}/stats", shop["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(stats["total"], 3);
    server.stop().await;
}

#[tokio::test]
async fn a_delivery_that_met_an_open_breaker_has_a_note_that_does_not_count() {
    let server = Server::start().await;
    let shop = server.endpoint(json!({ "uid": "shop" })).await;
    server.patch("/v1/endpoints/shop/circuit-breaker", json!({ "action": "force_open" })).await.expect(200);
    server.post("/v1/events", json!({ "type": "t", "data": 1 })).await.expect(202);
    let id = server.get("/v1/deliveries").await.expect(200)["data"][0]["id"].as_str().unwrap().to_owned();
    // It waits for the breaker, and the note is written after a moment: what only takes that long is no wait.
    let delivery = loop {
        let delivery = server.get(&format!("/v1/deliveries/{id}")).await.expect(200);
        if delivery["attempts"].as_array().is_some_and(|notes| !notes.is_empty()) {
            break delivery;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!((&delivery["status"], &delivery["attempt_count"]), (&json!("waiting"), &json!(0)));
    let note = &delivery["attempts"][0];
    assert_eq!((&note["status"], &note["attempt_number"]), (&json!("circuit_blocked"), &json!(1)));
    assert_eq!((&note["circuit_breaker_prevented"], &note["circuit_breaker_state_at_attempt"]), (&json!(true), &json!("open")));
    assert_eq!((&note["duration_ms"], &note["node"], &note["picked_at"]), (&Value::Null, &Value::Null, &Value::Null));
    assert_eq!(note["executed_at"], note["scheduled_at"], "it came due while the breaker was open");
    // Once the breaker is reset, it is attempted: the note stands before the attempt.
    server.patch("/v1/endpoints/shop/circuit-breaker", json!({ "action": "reset" })).await.expect(200);
    let delivery = loop {
        let delivery = server.get(&format!("/v1/deliveries/{id}")).await.expect(200);
        if delivery["attempt_count"] == 1 {
            break delivery;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let attempts = delivery["attempts"].as_array().unwrap();
    let in_words: Vec<_> =
        attempts.iter().map(|attempt| (attempt["status"].as_str().unwrap(), attempt["attempt_number"].as_u64().unwrap())).collect();
    assert_eq!(in_words, [("circuit_blocked", 1), ("failed", 1)]);
    assert_eq!(
        (&attempts[1]["circuit_breaker_prevented"], &attempts[1]["circuit_breaker_state_at_attempt"]),
        (&json!(false), &json!("closed"))
    );
    assert_eq!(shop["id"], delivery["endpoint_id"]);
    server.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_fails_for_long_says_since_when_and_what_will_be_done() {
    let server = Server::start().await;
    let shop = server.endpoint(json!({ "uid": "shop" })).await;
    let now = server.line().ports.clock.now();
    let hours = |n: u64| Duration::from_secs(n * 3_600);
    let failed = [(Some(FailureCategory::ServerError), 10)];
    for ago in [20, 10] {
        attempts(&server, &shop, now - hours(ago), &failed).await;
    }
    let health = server.get("/v1/endpoints/shop/health").await.expect(200);
    assert_eq!((&health["failing_since"], &health["disable_at"]), (&Value::Null, &Value::Null), "two failures are not enough");
    attempts(&server, &shop, now - hours(5), &failed).await;
    let since = now - hours(5);
    let health = server.get("/v1/endpoints/shop/health").await.expect(200);
    assert_eq!(health["failing_since"], json!(since.to_string()));
    assert_eq!(health["first_failure_at"], json!((now - hours(20)).to_string()));
    assert_eq!(
        (&health["warning_at"], &health["disable_at"]),
        (&json!((since + hours(72)).to_string()), &json!((since + hours(120)).to_string()))
    );
    // Reported, it is warned of, with a history that names it; enabled anew, it begins anew.
    let endpoint: EndpointId = shop["id"].as_str().unwrap().parse().ok().unwrap();
    let ports = &server.line().ports;
    let seen = ports.statistics.activities(vec![endpoint.into()]).await.unwrap()[0].clock;
    let organization = server.line().ports.organizations.organization(&Ref::parse("default").unwrap()).await.unwrap().unwrap().id;
    let found = endpoints::find(server.line(), organization, &Ref::Id(endpoint)).await.unwrap();
    let record = HealthRecord { kind: HealthReportKind::Warned, at: now, failing_since: seen.failing_since, failures: 3 };
    let alert = Alert {
        id: ports.entropy.uuid(now),
        organization,
        event_type: EventType::parse("endpoint.warning").unwrap(),
        data: bytes::Bytes::from_static(b"{}"),
    };
    let report = HealthReport { endpoint, application: found.application, seen, record, alert, disables: None };
    assert!(ports.endpoint_health.report_health(report).await.unwrap());
    let health = server.get("/v1/endpoints/shop/health").await.expect(200);
    assert_eq!((&health["status"], &health["warning_at"]), (&json!("warned"), &Value::Null));
    assert_eq!(health["disable_at"], json!((since + hours(120)).to_string()));
    let history = json!([{ "kind": "warned", "at": now.to_string(), "failing_since": since.to_string(), "failure_count": 3 }]);
    assert_eq!(health["history"], history);
    server.put("/v1/endpoints/shop", json!({ "enabled": false })).await.expect(200);
    let health = server.get("/v1/endpoints/shop/health").await.expect(200);
    assert_eq!((&health["status"], &health["disable_at"]), (&json!("disabled"), &Value::Null));
    server.put("/v1/endpoints/shop", json!({ "enabled": true })).await.expect(200);
    let health = server.get("/v1/endpoints/shop/health").await.expect(200);
    assert_eq!((&health["status"], &health["failing_since"], &health["history"]), (&json!("healthy"), &Value::Null, &history));
    server.stop().await;
}
