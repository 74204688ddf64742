//! Retry schedules over HTTP: made, changed, followed by endpoints, and deleted.

use serde_json::{Value, json};

use crate::api::client::Server;

fn names(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|schedule| schedule["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_schedule_is_made_read_changed_and_deleted_under_both_spellings() {
    let server = Server::start().await;
    let asked = json!({ "name": "Aggressive Retry", "strategy": "custom", "intervals": [1, 2, 5], "max_attempts": 4, "give_up_on": [410] });
    let made = server.post("/v1/organizations/default/retry-schedules", asked).await.expect(201);
    for path in [format!("/v1/retry-schedules/{}", made["id"].as_str().unwrap()), "/v1/retry-schedules/Aggressive%20Retry".to_owned()] {
        assert_eq!(server.get(&path).await.expect(200), made);
    }
    assert_eq!((&made["intervals"], &made["jitter"], &made["preset"]), (&json!([1.0, 2.0, 5.0]), &json!(0.1), &json!(false)));
    let rule = json!({ "base_ms": 1000, "multiplier": 2.0, "max_ms": 60000 });
    let path = format!("/v1/retry-schedules/{}", made["id"].as_str().unwrap());
    let changed = server.put(&path, json!({ "name": "calm", "strategy": "exponential", "intervals": rule })).await.expect(200);
    assert_eq!((&changed["name"], &changed["intervals"], &changed["max_attempts"]), (&json!("calm"), &rule, &json!(4)));
    for list in ["/v1/retry-schedules", "/v1/organizations/default/retry-schedules"] {
        let all = server.get(list).await.expect(200);
        assert_eq!(names(&all), ["calm", "standard", "backoff", "relay", "job", "ingest", "notify", "patient"]);
    }
    server.delete("/v1/retry-schedules/calm").await.expect(204);
    server.get(&path).await.problem(404);
    server.delete(&path).await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn a_name_is_taken_once_and_presets_stay_as_they_are() {
    let server = Server::start().await;
    let named = |name: &str| json!({ "name": name, "intervals": [5] });
    server.post("/v1/retry-schedules", named("mine")).await.expect(201);
    server.post("/v1/retry-schedules", named("mine")).await.problem(409);
    server.post("/v1/retry-schedules", named("other")).await.expect(201);
    server.put("/v1/retry-schedules/other", json!({ "name": "mine" })).await.problem(409);
    for built_in in ["standard", "default", "retry_config"] {
        assert_eq!(server.post("/v1/retry-schedules", named(built_in)).await.faults(422), ["name"]);
    }
    let standard = server.get("/v1/retry-schedules/standard").await.expect(200);
    let id = standard["id"].as_str().unwrap();
    for path in ["/v1/retry-schedules/standard", "/v1/retry-schedules/default", &format!("/v1/retry-schedules/{id}")] {
        assert_eq!(server.get(path).await.expect(200), standard);
        server.put(path, json!({ "max_attempts": 3 })).await.problem(409);
        server.delete(path).await.problem(409);
    }
    let bad =
        json!({ "name": "", "strategy": "odd", "intervals": [0], "max_attempts": 0, "jitter": 2, "give_up_on": [1], "timeout_ms": 1 });
    let mut faults = server.post("/v1/retry-schedules", bad).await.faults(422);
    faults.sort();
    assert_eq!(faults, ["give_up_on", "intervals", "jitter", "max_attempts", "name", "strategy", "timeout_ms"]);
    for bad in
        [json!({ "intervals": "5" }), json!({ "intervals": { "base": 1 } }), json!({ "growth": {} }), json!({ "intervals": [1, "2"] })]
    {
        server.post("/v1/retry-schedules", bad).await.problem(400);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_list_is_read_a_page_at_a_time_presets_included() {
    let server = Server::start().await;
    for name in ["a", "b", "c"] {
        server.post("/v1/retry-schedules", json!({ "name": name, "intervals": [5] })).await.expect(201);
    }
    let mut seen = Vec::new();
    let mut path = "/v1/retry-schedules?limit=4".to_owned();
    let last = loop {
        let page = server.get(&path).await.expect(200);
        seen.extend(names(&page).into_iter().map(str::to_owned));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/retry-schedules?limit=4&cursor={cursor}"),
            None => break page,
        }
    };
    assert_eq!(seen, ["c", "b", "a", "standard", "backoff", "relay", "job", "ingest", "notify", "patient"]);
    let back = last["prev_cursor"].as_str().unwrap();
    let previous = server.get(&format!("/v1/retry-schedules?limit=4&cursor={back}")).await.expect(200);
    assert_eq!(names(&previous), ["backoff", "relay", "job", "ingest"]);
    server.stop().await;
}

#[tokio::test]
async fn an_endpoint_follows_a_schedule_by_id_by_name_or_has_numbers_of_its_own() {
    let server = Server::start().await;
    let mine = server.post("/v1/retry-schedules", json!({ "name": "mine", "intervals": [5], "max_attempts": 3 })).await.expect(201);
    let standard = server.get("/v1/retry-schedules/standard").await.expect(200);
    let by_name = server.endpoint(json!({ "uid": "a", "retry_schedule": "mine" })).await;
    let by_id = server.endpoint(json!({ "uid": "b", "retry_schedule_id": mine["id"] })).await;
    for endpoint in [&by_name, &by_id] {
        assert_eq!((&endpoint["retry_schedule"], &endpoint["retry_schedule_id"]), (&json!("mine"), &mine["id"]));
        assert_eq!(endpoint["retry_config"], Value::Null);
    }
    let preset = server.endpoint(json!({ "uid": "c" })).await;
    assert_eq!((&preset["retry_schedule"], &preset["retry_schedule_id"]), (&json!("standard"), &standard["id"]));
    let own = server.put("/v1/endpoints/a", json!({ "retry_config": { "max_attempts": 2 } })).await.expect(200);
    assert_eq!((&own["retry_schedule_id"], &own["retry_config"]["max_attempts"]), (&Value::Null, &json!(2)));
    let cleared = server.put("/v1/endpoints/b", json!({ "retry_schedule_id": null })).await.expect(200);
    assert_eq!(cleared["retry_schedule"], "standard");
    // A new name is seen by everything that follows it.
    server.put("/v1/endpoints/a", json!({ "retry_schedule": "mine" })).await.expect(200);
    server.put("/v1/retry-schedules/mine", json!({ "name": "ours" })).await.expect(200);
    assert_eq!(server.get("/v1/endpoints/a").await.expect(200)["retry_schedule"], "ours");
    let following = server.get(&format!("/v1/endpoints?retry_schedule_id={}", mine["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(following["data"].as_array().unwrap().len(), 1);
    for (bad, field) in [
        (json!({ "retry_schedule": "nobody's" }), "retry_schedule"),
        (json!({ "retry_schedule_id": "ours" }), "retry_schedule_id"),
        (json!({ "retry_schedule_id": by_id["id"] }), "retry_schedule_id"),
        (json!({ "retry_schedule": "ours", "retry_schedule_id": mine["id"] }), "retry_schedule"),
    ] {
        assert_eq!(server.put("/v1/endpoints/a", bad).await.faults(422), [field]);
    }
    server.stop().await;
}

#[tokio::test]
async fn many_endpoints_are_assigned_at_once_and_moved_when_their_schedule_goes() {
    let server = Server::start().await;
    for name in ["mine", "heir"] {
        server.post("/v1/retry-schedules", json!({ "name": name, "intervals": [5] })).await.expect(201);
    }
    for uid in ["a", "b"] {
        server.endpoint(json!({ "uid": uid })).await;
    }
    let assigned = server.post("/v1/retry-schedules/mine/assign", json!({ "endpoint_ids": ["a", "b", "a"] })).await.expect(200);
    assert_eq!(assigned, json!({ "assigned": 2 }));
    let faults = server.post("/v1/retry-schedules/heir/assign", json!({ "endpoint_ids": ["a", "nobody", "no one"] })).await.faults(422);
    assert_eq!(faults, ["endpoint_ids[1]", "endpoint_ids[2]"]);
    assert_eq!(server.get("/v1/endpoints/a").await.expect(200)["retry_schedule"], "mine");
    assert_eq!(server.post("/v1/retry-schedules/mine/assign", json!({ "endpoint_ids": [] })).await.faults(422), ["endpoint_ids"]);

    let refused = server.delete("/v1/retry-schedules/mine").await.problem(409);
    assert!(refused["detail"].as_str().unwrap().starts_with("2 endpoints use the retry schedule `mine`"), "{refused}");
    for bad in ["mine", "nobody"] {
        assert_eq!(server.delete(&format!("/v1/retry-schedules/mine?reassign={bad}")).await.faults(422), ["reassign"]);
    }
    server.delete("/v1/retry-schedules/mine?reassign=heir").await.expect(204);
    for uid in ["a", "b"] {
        assert_eq!(server.get(&format!("/v1/endpoints/{uid}")).await.expect(200)["retry_schedule"], "heir");
    }
    // A deleted endpoint holds no schedule.
    server.delete("/v1/endpoints/b").await.expect(204);
    let refused = server.delete("/v1/retry-schedules/heir").await.problem(409);
    assert!(refused["detail"].as_str().unwrap().starts_with("1 endpoint uses"), "{refused}");
    server.delete("/v1/retry-schedules/heir?reassign=default").await.expect(204);
    assert_eq!(server.get("/v1/endpoints/a").await.expect(200)["retry_schedule"], "standard");
    server.stop().await;
}

#[tokio::test]
async fn an_organizations_schedules_are_its_own() {
    let server = Server::start().await;
    let mine = server.post("/v1/retry-schedules", json!({ "name": "mine", "intervals": [5] })).await.expect(201);
    let stranger = server.stranger(&["manage"]).await;
    let body = json!({ "name": "mine", "intervals": [9] }).to_string();
    let by_id = format!("/v1/retry-schedules/{}", mine["id"].as_str().unwrap());
    for path in ["/v1/organizations/default/retry-schedules", "/v1/retry-schedules/mine", &by_id] {
        server.call(http::Method::GET, path, &stranger, "").await.problem(404);
    }
    server.call(http::Method::POST, "/v1/organizations/default/retry-schedules", &stranger, body.clone()).await.problem(404);
    // The same name is free elsewhere, and the other's id names nothing there.
    server.call(http::Method::POST, "/v1/retry-schedules", &stranger, body).await.expect(201);
    let endpoint = json!({ "url": "http://127.0.0.1:9", "event_types": ["*"], "retry_schedule_id": mine["id"] }).to_string();
    let faults = server.call(http::Method::POST, "/v1/endpoints", &stranger, endpoint).await.faults(422);
    assert_eq!(faults, ["retry_schedule_id"]);
    server.stop().await;
}
