//! Alert rules and alerts over HTTP: what is in force, what is changed, what stands, what would have been.

use everhook_core::{
    ids::{AlertStatusId, LaneId, OrganizationId},
    model::{AlertEpisode, AlertRule, AlertStage, AlertStatus, FailingRule, FailureCategory, Tally, minute_of},
    policy::alerts::defaults::{DEFAULT_RULES, default_rule},
    ports::AlertChange,
};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

use crate::api::client::Server;

/// Keeps an alert that fires, of a rule of this name, and says its id.
pub async fn keep(server: &Server, rule: &str) -> String {
    let ports = &server.line().ports;
    let now = ports.clock.now();
    let organization = server.get("/v1/organizations/default").await.expect(200)["id"].as_str().unwrap().parse::<OrganizationId>().unwrap();
    let target = ports.entropy.uuid(now);
    let status = AlertStatus {
        id: AlertStatusId::from_uuid(ports.entropy.uuid(now)),
        organization,
        rule: AlertRule { name: rule.to_owned(), ..default_rule("endpoint_p99_slow").unwrap().rule() },
        target,
        application: None,
        stage: AlertStage::Firing,
        since: now,
        value: 7_500.5,
        updated_at: now,
        reported_at: Some(now),
        silenced_until: None,
        episodes: vec![
            AlertEpisode { fired_at: now, resolved_at: None, value: 7_500.5 },
            AlertEpisode { fired_at: now - Duration::from_secs(9 * 86_400), resolved_at: Some(now), value: 6_000.0 },
        ],
        revision: 0,
    };
    let id = status.id.to_string();
    assert_eq!(ports.alerts.save_alerts(vec![AlertChange { status, alert: None }]).await.unwrap(), [true]);
    id
}

fn names(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

fn mine() -> Value {
    json!({
        "name": "orders-p99", "metric": "p99", "scope": "endpoint", "threshold": 2000, "window": "10m", "for": "5m", "severity": "critical",
        "recipients": { "admins": true, "channels": ["ops"] },
    })
}

#[tokio::test]
async fn the_default_rules_are_listed_and_each_can_be_changed_and_brought_back() {
    let server = Server::start().await;
    let listed = server.get("/v1/alert-rules").await.expect(200);
    assert_eq!(names(&listed), DEFAULT_RULES.map(|rule| rule.name));
    let path = "/v1/alert-rules/endpoint_success_rate_warning";
    let default = server.get(path).await.expect(200);
    assert_eq!(
        default,
        json!({
            "name": "endpoint_success_rate_warning", "metric": "success_rate", "scope": "endpoint", "comparison": "below", "threshold": 95.0,
            "unit": "percent", "window": "1h", "for": "0s", "severity": "warning",
            "recipients": { "owner": true, "admins": false, "channels": [] }, "enabled": true, "is_default": true, "is_own": false,
            "updated_at": null,
        })
    );
    assert_eq!(server.delete(path).await.problem(409)["type"], "/docs/problems/built-in");
    let changed = server.put(path, json!({ "threshold": 80, "recipients": { "admins": true } })).await.expect(200);
    assert_eq!((&changed["threshold"], &changed["window"], &changed["is_own"]), (&json!(80.0), &json!("1h"), &json!(true)));
    assert_eq!(changed["recipients"], json!({ "owner": true, "admins": true, "channels": [] }));
    assert!(names(&server.get("/v1/alert-rules").await.expect(200)).contains(&"endpoint_success_rate_warning"));
    let again = server.put(path, json!({ "enabled": false })).await.expect(200);
    assert_eq!((&again["threshold"], &again["enabled"]), (&json!(80.0), &json!(false)));
    server.delete(path).await.expect(204);
    assert_eq!(server.get(path).await.expect(200), default);
    server.stop().await;
}

#[tokio::test]
async fn rules_about_the_server_are_there_for_its_administrators_alone_and_can_be_changed_and_brought_back() {
    let server = Server::start().await;
    let path = "/v1/alert-rules/redis_away";
    let default = server.get(path).await.expect(200);
    assert_eq!((&default["scope"], &default["threshold"], &default["severity"]), (&json!("server"), &json!(120.0), &json!("critical")));
    let changed = json!({ "threshold": 10, "for": "5s", "severity": "warning", "enabled": false });
    let changed = server.put(path, changed).await.expect(200);
    assert_eq!((&changed["threshold"], &changed["for"], &changed["enabled"]), (&json!(10.0), &json!("5s"), &json!(false)));
    assert_eq!(server.get(path).await.expect(200), changed);
    let listed = server.get("/v1/alert-rules").await.expect(200);
    assert_eq!(names(&listed).iter().filter(|name| **name == "redis_away").count(), 1);
    server.put("/v1/alert-rules/server_depth", json!({ "threshold": 100_000 })).await.expect(200);
    assert_eq!(server.put("/v1/alert-rules/server_depth", json!({ "threshold": 100_001 })).await.faults(422), ["threshold"]);
    // Neither a key with less, nor an administrator in another organization.
    let manager = server.key(&["read", "manage"]).await;
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let body = if method == Method::PUT { r#"{"threshold": 1}"# } else { "" };
        server.call(method, path, &manager, body).await.problem(404);
    }
    let list = server.call(Method::GET, "/v1/alert-rules", &manager, "").await.expect(200);
    assert!(list["data"].as_array().unwrap().iter().all(|rule| rule["scope"] != "server"), "{list}");
    server.stranger(&["read"]).await;
    server.delete(path).await.expect(204);
    assert_eq!(server.get(path).await.expect(200), default);
    // They are nobody's to make.
    let mine = json!({ "name": "mine", "metric": "redis_away", "scope": "server", "threshold": 1 });
    server.post("/v1/alert-rules", mine).await.faults(422);
    server.stop().await;
}

#[tokio::test]
async fn a_rule_of_ones_own_is_made_read_changed_and_deleted() {
    let server = Server::start().await;
    let made = server.post("/v1/alert-rules", mine()).await.expect(201);
    assert_eq!((&made["for"], &made["unit"], &made["is_default"]), (&json!("5m"), &json!("ms"), &json!(false)));
    assert_eq!(server.get("/v1/alert-rules/orders-p99").await.expect(200), made);
    assert_eq!(server.post("/v1/alert-rules", mine()).await.problem(409)["type"], "/docs/problems/name-taken");
    let taken = json!({ "name": "dead_letters", "metric": "dead_letters", "scope": "organization", "threshold": 1 });
    assert_eq!(server.post("/v1/alert-rules", taken).await.problem(409)["type"], "/docs/problems/name-taken");
    let changed = server.put("/v1/alert-rules/orders-p99", json!({ "for": null, "window": "1m", "name": "orders-p99" })).await.expect(200);
    assert_eq!((&changed["for"], &changed["window"], &changed["threshold"]), (&json!("0s"), &json!("1m"), &json!(2000.0)));
    let listed = server.get("/v1/alert-rules").await.expect(200);
    assert_eq!(names(&listed).last(), Some(&"orders-p99"));
    let log = server.get("/v1/audit-log").await.expect(200);
    let actions: Vec<_> = log["data"].as_array().unwrap().iter().map(|row| row["action"].as_str().unwrap()).take(2).collect();
    assert_eq!(actions, ["alert_rule.update", "alert_rule.create"]);
    server.delete("/v1/alert-rules/orders-p99").await.expect(204);
    server.delete("/v1/alert-rules/orders-p99").await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_rule_is_said_by_field() {
    let server = Server::start().await;
    let with = |field: &str, value: Value| {
        let mut rule = mine();
        rule[field] = value;
        rule
    };
    for (bad, fields) in [
        (json!({}), vec!["name", "metric", "scope", "threshold"]),
        (with("name", json!("A b")), vec!["name"]),
        (with("metric", json!("workers_busy")), vec!["metric"]),
        (with("scope", json!("organization")), vec!["scope"]),
        (with("threshold", json!(-1)), vec!["threshold"]),
        (with("window", json!("1h")), vec!["window"]),
        (with("window", json!("soon")), vec!["window"]),
        (with("for", json!("8d")), vec!["for"]),
        (with("severity", json!("loud")), vec!["severity"]),
        (with("recipients", json!({ "channels": ["a b"] })), vec!["recipients.channels"]),
    ] {
        assert_eq!(server.post("/v1/alert-rules", bad.clone()).await.faults(422), fields, "{bad}");
    }
    server.post("/v1/alert-rules", mine()).await.expect(201);
    let fixed = server.put("/v1/alert-rules/orders-p99", json!({ "metric": "p95", "threshold": null })).await;
    assert_eq!(fixed.faults(422), ["metric", "threshold"]);
    server.stop().await;
}

#[tokio::test]
async fn alerts_are_listed_silenced_and_heard_of_again() {
    let server = Server::start().await;
    let id = keep(&server, "endpoint_p99_slow").await;
    let path = format!("/v1/alerts/{id}");
    let alert = server.get(&path).await.expect(200);
    assert_eq!((&alert["state"], &alert["value"], &alert["unit"]), (&json!("firing"), &json!(7_500.5), &json!("ms")));
    assert_eq!((&alert["fired_in_7_days"], alert["history"].as_array().unwrap().len()), (&json!(1), 2));
    let found = async |query: &str| {
        let listed = server.get(&format!("/v1/alerts{query}")).await.expect(200);
        listed["data"].as_array().unwrap().len()
    };
    let target = alert["target_id"].as_str().unwrap();
    for (query, count) in [
        (String::new(), 1),
        ("?state=firing".to_owned(), 1),
        ("?state=silenced".to_owned(), 0),
        ("?state=ok".to_owned(), 0),
        ("?rule=endpoint_p99_slow".to_owned(), 1),
        ("?rule=dead_letters".to_owned(), 0),
        (format!("?target_id={target}&state=firing&limit=1"), 1),
    ] {
        assert_eq!(found(&query).await, count, "{query}");
    }
    for query in ["?state=loud", "?target_id=x", "?rule=a%20b"] {
        server.get(&format!("/v1/alerts{query}")).await.problem(400);
    }
    let silence = async |length: &str| server.post(&format!("/v1/alerts/{id}/silence"), json!({ "for": length })).await;
    assert_eq!(silence("1s").await.faults(422), ["for"]);
    assert_eq!(silence("31d").await.faults(422), ["for"]);
    assert_eq!(silence("soon").await.faults(422), ["for"]);
    let silenced = silence("2h").await.expect(200);
    assert_eq!(silenced["state"], "silenced");
    assert!(silenced["silenced_until"].is_string());
    assert_eq!((found("?state=silenced").await, found("?state=firing").await), (1, 0));
    let heard = server.post(&format!("/v1/alerts/{id}/unsilence"), json!({})).await.expect(200);
    assert_eq!((&heard["state"], &heard["silenced_until"]), (&json!("firing"), &Value::Null));
    server.stop().await;
}

#[tokio::test]
async fn a_dry_run_says_when_a_rule_would_have_fired_last_week() {
    let server = Server::start().await;
    let endpoint = server.endpoint(json!({ "name": "orders" })).await;
    let lane_id: LaneId = endpoint["id"].as_str().unwrap().parse().unwrap();
    let now = server.line().ports.clock.now();
    let failed_at = [Duration::from_secs(3 * 86_400), Duration::from_secs(86_400)].map(|ago| minute_of(now - ago));
    let tallies = failed_at.map(|at| {
        let mut tally = Tally::new(lane_id, at);
        (0..30).for_each(|_| tally.count(Some(FailureCategory::ServerError), Duration::from_millis(10), at));
        tally
    });
    server.line().ports.statistics.add(tallies.to_vec(), FailingRule::default()).await.unwrap();
    let run = server.post("/v1/alert-rules/dry-run", json!({ "name": "endpoint_success_rate_drop" })).await.expect(200);
    assert_eq!((&run["fired"], &run["is_complete"]), (&json!(2), &json!(true)), "{run}");
    assert_eq!((&run["targets"][0]["target_name"], &run["targets"][0]["fired"]), (&json!("orders"), &json!(2)));
    assert_eq!(run["targets"][0]["fired_at"].as_array().unwrap().len(), 2);
    let rule = json!({ "name": "x", "metric": "error_rate", "scope": "endpoint", "threshold": 50, "window": "1h" });
    let body = json!({ "rule": rule, "target_id": endpoint["id"] });
    assert_eq!(server.post("/v1/alert-rules/dry-run", body).await.expect(200)["fired"], 2);
    for (bad, fields) in [
        (json!({}), vec!["rule"]),
        (json!({ "name": "endpoint_circuit_opened" }), vec!["metric"]),
        (json!({ "name": "endpoint_p99_slow", "target_id": "x" }), vec!["target_id"]),
        (json!({ "name": "endpoint_p99_slow", "target_id": "01890a5d-ac96-774b-bcce-b302099a8057" }), vec!["target_id"]),
    ] {
        assert_eq!(server.post("/v1/alert-rules/dry-run", bad.clone()).await.faults(422), fields, "{bad}");
    }
    server.post("/v1/alert-rules/dry-run", json!({ "name": "laundry" })).await.problem(404);
    server.stop().await;
}
