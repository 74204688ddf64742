//! Every route of the served document × no key, an unknown key, an expired one, each scope, a stranger's key, and a key of one application.

use std::collections::BTreeMap;

use bytes::Bytes;
use everhook_core::{
    ids::{ApiKeyId, AuditEntryId, OrganizationId},
    manage::api_keys,
    model::{Actor, ApiKey, AuditAction, AuditEntry, AuditNote, Scope},
};
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::api::{
    alerts,
    client::{Answer, Server},
    routes::{Route, routes},
};

/// Stands in everything that the owner has, and must never be seen by a stranger.
const MARK: &str = "seen-by-a-stranger";

/// The scopes of a key that is let through where `needed` is.
fn allowed_by(needed: &str) -> &'static [&'static str] {
    match needed {
        "publish" => &["publish", "manage", "admin"],
        "read" => &["read", "manage", "admin"],
        "manage" => &["manage", "admin"],
        "admin" => &["admin"],
        other => panic!("`{other}` is not a scope"),
    }
}

#[tokio::test]
async fn no_route_answers_without_a_good_key() {
    let server = Server::start().await;
    let unknown = format!("eh_{}", "a".repeat(43));
    let expired = expired_admin_key(&server).await;
    for Route { method, path, body, .. } in routes(&server).await {
        let bare = Request::builder().method(method.clone()).uri(&path).header("host", "test").body(Full::<Bytes>::default()).unwrap();
        let answer = server.send(bare).await;
        answer.problem(401);
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        for key in [&unknown, &expired] {
            server.call(method.clone(), &path, key, body.clone()).await.problem(401);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_key_does_what_its_scope_allows_and_no_more() {
    let server = Server::start().await;
    let routes = routes(&server).await;
    for held in Scope::ALL.map(Scope::as_str) {
        let key = server.key(&[held]).await;
        for Route { method, path, scope, .. } in &routes {
            // To others than admins, every organization but their own is not there.
            let path = if scope == "admin" { path.replace("{id}", "default") } else { path.clone() };
            let answer = server.call(method.clone(), &path, &key, "{}").await;
            if allowed_by(scope).contains(&held) {
                assert!(answer.status != 403 && answer.status != 401, "{held} {method} {path}: {}", answer.status);
            } else {
                answer.problem(403);
            }
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn everything_of_an_organization_is_not_found_by_another() {
    let server = Server::start().await;
    let owned = Owned::make(&server).await;
    let stranger = server.stranger(&["manage"]).await;
    let routes = routes(&server).await;
    // What admins alone may do, they may do anywhere: the scope keeps strangers out.
    for route in routes.iter().filter(|route| route.scope != "admin") {
        for name in owned.names(route) {
            let path = route.naming(&name).replace("{delivery_id}", &owned.ids["deliveries"]).replace("{number}", "1");
            let answer = server.call(route.method.clone(), &path, &stranger, route.body.clone()).await;
            assert_eq!(answer.status, 404, "{} {path}: {}", route.method, String::from_utf8_lossy(&answer.body));
            owned.check_unseen(&path, &answer);
        }
    }
    for route in routes.iter().filter(|route| route.method == Method::GET && route.scope != "admin" && !route.path.contains('{')) {
        let answer = server.call(Method::GET, &route.path, &stranger, "").await;
        answer.expect(200);
        owned.check_unseen(&route.path, &answer);
        for (query, name) in route.queries.iter().filter_map(|query| Some((query, owned.asked_by(query)?))) {
            let path = format!("{}?{query}={name}", route.path);
            let answer = server.call(Method::GET, &path, &stranger, "").await;
            assert_eq!(answer.status, 404, "{path}: {}", String::from_utf8_lossy(&answer.body));
            owned.check_unseen(&path, &answer);
        }
    }
    owned.check_intact(&server).await;
    server.stop().await;
}

/// What a key of one application is answered. A new route must be put under one of these.
enum Expected {
    /// It reaches what is its application's: what is another's is not found.
    Own,
    /// It gets its application's part.
    Narrowed,
    /// It reads what applications share.
    Shared,
    /// It is refused: the whole organization is concerned.
    Refused,
}

fn expected(route: &Route) -> Expected {
    let path = ["/v1/webhooks", "/v1/subscriptions"].iter().fold(route.path.clone(), |path, alias| path.replace(alias, "/v1/endpoints"));
    let (method, path) = (route.method.as_str(), path.replace("/v1/dead-letters", "/v1/dlq"));
    match (method, path.as_str()) {
        ("POST" | "GET", "/v1/events") | ("POST", "/v1/events/batch" | "/v1/events/erase") => Expected::Narrowed,
        ("GET", "/v1/approvals" | "/v1/deliveries" | "/v1/stats" | "/v1/operations" | "/v1/applications" | "/v1/dlq") => Expected::Narrowed,
        ("POST" | "GET", "/v1/endpoints") | ("POST", "/v1/dlq/retry-batch" | "/v1/dlq/discard-batch") => Expected::Narrowed,
        ("POST" | "GET", "/v1/sources") => Expected::Narrowed,
        (_, path) if path.starts_with("/v1/sources/{id}") => Expected::Own,
        ("DELETE", "/v1/applications/{id}") => Expected::Refused,
        (_, "/v1/applications/{id}/export" | "/v1/applications/{id}/import") => Expected::Refused,
        (_, path) if path.starts_with("/v1/applications/{id}") => Expected::Own,
        (_, path)
            if ["/v1/events/{id}", "/v1/jobs/{id}", "/v1/deliveries/{id}", "/v1/operations/{id}", "/v1/approvals/{id}"]
                .iter()
                .any(|own| path.starts_with(own)) =>
        {
            Expected::Own
        }
        (_, path) if path.starts_with("/v1/endpoints/{id}") || path.starts_with("/v1/dlq/") => Expected::Own,
        ("GET", path) if path.starts_with("/v1/event-types") || path.starts_with("/v1/retry-schedules") => Expected::Shared,
        ("GET", "/v1/organizations/{id}/retry-schedules" | "/v1/source-kinds" | "/v1/source-kinds/{id}") => Expected::Shared,
        _ => Expected::Refused,
    }
}

#[tokio::test]
async fn a_key_of_one_application_reaches_that_one_on_every_route() {
    let server = Server::start().await;
    let owned = Owned::make(&server).await;
    let own = server.post("/v1/applications", json!({ "name": "Own", "uid": "own" })).await.expect(201);
    let key = json!({ "name": "own", "scopes": ["manage"], "application_id": "own" });
    let key = server.post("/v1/api-keys", key).await.expect(201);
    assert_eq!(key["application_id"], own["id"]);
    let key = key["key"].as_str().unwrap();
    for route in routes(&server).await.iter().filter(|route| route.scope != "admin") {
        let ask = async |path: &str| server.call(route.method.clone(), path, key, route.body.clone()).await;
        let told = format!("{} {}", route.method, route.path);
        match expected(route) {
            Expected::Refused => {
                let problem = ask(&route.path.replace("{id}", "default")).await.problem(403);
                assert_eq!(problem["type"], "/docs/problems/key-limited-to-application", "{told}");
            }
            Expected::Shared => {
                let shared = if route.path.starts_with("/v1/source-kinds") { "none" } else { "standard" };
                let name = owned.names(route).first().map_or(shared, String::as_str).to_owned();
                ask(&route.naming(&name)).await.expect(200);
            }
            Expected::Narrowed if route.method == Method::GET => {
                let answer = ask(&route.path).await;
                answer.expect(200);
                owned.check_unseen(&route.path, &answer);
                for (query, name) in route.queries.iter().filter_map(|query| Some((query, owned.asked_by(query)?))) {
                    if query != "tenant_id" {
                        ask(&format!("{}?{query}={name}", route.path)).await.problem(404);
                    }
                }
            }
            // What it makes is checked below. Under another name of the route, the uid of the example is taken.
            Expected::Narrowed => {
                let status = ask(&route.path).await.status;
                assert!(status.is_success() || status == 409, "{told}: {status}");
            }
            Expected::Own => {
                for name in owned.names(route) {
                    let path = route.naming(&name).replace("{delivery_id}", &owned.ids["deliveries"]).replace("{number}", "1");
                    let answer = ask(&path).await;
                    assert_eq!(answer.status, 404, "{told}: {}", String::from_utf8_lossy(&answer.body));
                    owned.check_unseen(&path, &answer);
                }
            }
        }
    }
    owned.check_intact(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn what_a_key_of_one_application_makes_is_its_applications() {
    let server = Server::start().await;
    let owned = Owned::make(&server).await;
    let own = server.post("/v1/applications", json!({ "name": "Own", "uid": "own" })).await.expect(201)["id"].clone();
    let key = json!({ "name": "own", "scopes": ["manage"], "application_id": own });
    let key = server.post("/v1/api-keys", key).await.expect(201)["key"].as_str().unwrap().to_owned();
    let post = async |path: &str, body: Value| server.call(Method::POST, path, &key, body.to_string()).await;
    let get = async |path: &str| server.call(Method::GET, path, &key, "").await;
    let endpoint = post("/v1/endpoints", json!({ "url": "http://127.0.0.1:9/", "event_types": ["*"] })).await.expect(201);
    assert_eq!(endpoint["application_id"], own);
    let event = post("/v1/events", json!({ "type": "t", "data": 1 })).await.expect(202);
    let event = get(&format!("/v1/events/{}", event["id"].as_str().unwrap())).await.expect(200);
    assert_eq!((&event["application_id"], &event["deliveries"]), (&own, &json!(1)));
    post("/v1/events", json!({ "type": "t", "data": 1, "application_id": "own" })).await.expect(202);
    let begun = post("/v1/dlq/retry-batch", json!({ "filter": {}, "start_at": "2100-01-01" })).await.expect(202);
    let operation = get(&format!("/v1/operations/{}", begun["operation_id"].as_str().unwrap())).await.expect(200);
    assert_eq!(operation["application_id"], own);
    let erased = post("/v1/events/erase", json!({ "label": { "key": "mark", "value": MARK }, "dry_run": true })).await.expect(200);
    assert_eq!(erased["total"], 0, "the event with that label is another application's");
    for list in ["events", "deliveries", "endpoints", "operations", "applications"] {
        let rows = get(&format!("/v1/{list}")).await.expect(200);
        let of = |row: &Value| if list == "applications" { row["id"].clone() } else { row["application_id"].clone() };
        let rows = rows["data"].as_array().unwrap();
        assert!(!rows.is_empty() && rows.iter().all(|row| of(row) == own), "{list}");
    }
    // Another application's is not there, whatever the body names it by.
    let other = &owned.ids["applications"];
    for name in ["default", MARK, other] {
        let refused = post("/v1/events", json!({ "type": "t", "data": 1, "application_id": name })).await.problem(422);
        assert_eq!(refused["type"], "/docs/problems/unknown-application");
        let hook = json!({ "url": "http://127.0.0.1:9/", "event_types": ["*"], "application_id": name });
        assert!(post("/v1/endpoints", hook).await.faults(422)[0].starts_with("application_id"));
        post("/v1/dlq/discard-batch", json!({ "filter": { "application_id": name } })).await.problem(422);
    }
    post("/v1/dlq/discard-batch", json!({ "filter": { "endpoint_ids": [owned.ids["endpoints"]] } })).await.problem(422);
    server.stop().await;
}

#[tokio::test]
async fn a_body_cannot_name_what_is_another_organizations() {
    let server = Server::start().await;
    let owned = Owned::make(&server).await;
    let stranger = server.stranger(&["manage"]).await;
    let mine = server.call(Method::POST, "/v1/retry-schedules", &stranger, json!({ "name": "a", "intervals": [5] }).to_string()).await;
    let assign = format!("/v1/retry-schedules/{}/assign", mine.expect(201)["id"].as_str().unwrap());
    let (application, endpoint, schedule) = (&owned.ids["applications"], &owned.ids["endpoints"], &owned.ids["retry-schedules"]);
    let hook = json!({ "url": "http://127.0.0.1:9/", "event_types": ["*"] });
    let with = |field: &str, value: &str| {
        let mut body = hook.clone();
        body[field] = json!(value);
        body
    };
    #[rustfmt::skip]
    let table = [
        ("/v1/events", json!({ "type": "t", "data": 1, "application_id": application }), "application_id"),
        ("/v1/endpoints", with("application_id", application), "application_id"),
        ("/v1/endpoints", with("retry_schedule_id", schedule), "retry_schedule_id"),
        ("/v1/endpoints", with("retry_schedule", MARK), "retry_schedule"),
        (&assign, json!({ "endpoint_ids": [endpoint] }), "endpoint_ids"),
    ];
    for (path, body, field) in table {
        let answer = server.call(Method::POST, path, &stranger, body.to_string()).await;
        assert!(answer.faults(422).iter().all(|fault| fault.starts_with(field)), "{path} {field}");
    }
    owned.check_intact(&server).await;
    server.stop().await;
}

/// Something of each kind that the default organization owns.
struct Owned {
    /// The id of one of each, by the segment of the path that its name follows.
    ids: BTreeMap<&'static str, String>,
    event_before: Value,
}

impl Owned {
    async fn make(server: &Server) -> Self {
        let endpoint = server.endpoint(json!({ "uid": MARK, "name": MARK, "headers": { "X-Mark": MARK } })).await;
        let event = json!({ "type": MARK, "data": { "mark": MARK }, "labels": { "mark": MARK }, "idempotency_key": MARK });
        let event = server.post("/v1/events", event).await.expect(202);
        let application = server.post("/v1/applications", json!({ "name": MARK, "uid": MARK })).await.expect(201);
        let event_type = server.post("/v1/event-types", json!({ "name": MARK, "description": MARK })).await.expect(201);
        let schedule = server.post("/v1/retry-schedules", json!({ "name": MARK, "intervals": [5] })).await.expect(201);
        let source = json!({ "name": MARK, "kind": "hmac", "header": "X-Signature", "secrets": [MARK] });
        let source = server.post("/v1/sources", source).await.expect(201);
        let channel = json!({ "name": MARK, "kind": "webhook", "url": "https://example.com/hook" });
        let channel = server.post("/v1/channels", channel).await.expect(201);
        let connection = json!({ "provider": "garmin", "external_user_id": MARK, "profile_id": MARK, "access_token": MARK });
        let connection = server.post("/v1/health/connections", connection).await.expect(201);
        let backfill = json!({ "connection_id": connection["id"], "from": "2025-06-01", "to": "2025-06-02", "start_at": "2100-01-01" });
        let backfill = server.post("/v1/health/backfill", backfill).await.expect(202)["operation_id"].as_str().unwrap().to_owned();
        let key = server.post("/v1/api-keys", json!({ "name": MARK, "scopes": ["read"] })).await.expect(201);
        let organization = server.get("/v1/organizations/default").await.expect(200);
        let delivery = server.get("/v1/deliveries").await.expect(200)["data"][0].clone();
        let begun = server.post("/v1/dlq/retry-batch", json!({ "filter": {}, "start_at": "2100-01-01" })).await.expect(202);
        let operation = begun["operation_id"].as_str().unwrap().to_owned();
        let manifest = json!({ "base_url": "http://127.0.0.1:9", "capabilities": { MARK: { "path": "/", "mode": "off", "fallback": [{ "type": "manual" }] } } });
        server.put("/v1/applications/default/manifest", manifest).await.expect(200);
        let call = format!("/v1/applications/default/call/{MARK}");
        let approval = server.post(&call, json!({ "payload": MARK })).await.expect(202)["approval_id"].as_str().unwrap().to_owned();
        let rule = json!({ "name": MARK, "metric": "p99", "scope": "endpoint", "threshold": 1_000 });
        server.post("/v1/alert-rules", rule).await.expect(201);
        let alert = alerts::keep(server, MARK).await;
        let id = |row: &Value| row["id"].as_str().unwrap().to_owned();
        let ids = BTreeMap::from([
            ("alert-rules", MARK.to_owned()),
            ("alerts", alert),
            ("endpoints", id(&endpoint)),
            ("events", id(&event)),
            ("applications", id(&application)),
            ("event-types", id(&event_type)),
            ("retry-schedules", id(&schedule)),
            ("sources", id(&source)),
            ("channels", id(&channel)),
            ("connections", id(&connection)),
            ("backfill", backfill),
            ("api-keys", id(&key)),
            ("organizations", id(&organization)),
            ("deliveries", id(&delivery)),
            // A dead letter has the id of its first delivery.
            ("dlq", id(&delivery)),
            ("dead-letters", id(&delivery)),
            ("messages", id(&event)),
            // A job has the id of its event.
            ("jobs", id(&event)),
            ("approvals", approval),
            ("operations", operation.clone()),
            ("batch-operations", operation),
        ]);
        let event_before = server.get(&format!("/v1/events/{}", id(&event))).await.expect(200);
        Self { ids, event_before }
    }

    /// What a stranger puts into a path: the id, and the uid or name where that stands for it. No names for a path that names nothing.
    fn names(&self, route: &Route) -> Vec<String> {
        let named = route.named();
        // Kinds of sources are the same for everybody, and names of profiles and of users at providers are everybody's own: who erases one erases nothing of
        // others.
        let Some(kind) = named.first().copied().filter(|kind| !["source-kinds", "profiles", "users"].contains(kind)) else {
            return Vec::new();
        };
        assert!(
            matches!(named[1..], [] | ["deliveries" | "attempts" | "call" | "capabilities" | "draws"]),
            "{} names two things: teach this test which belong together",
            route.path
        );
        let kind = if ["webhooks", "subscriptions"].contains(&kind) { "endpoints" } else { kind };
        let id = self.ids.get(kind).unwrap_or_else(|| panic!("{}: make something of the kind `{kind}` in `Owned::make`", route.path));
        match kind {
            "endpoints" | "applications" | "event-types" | "retry-schedules" | "sources" | "channels" => vec![id.clone(), MARK.to_owned()],
            "organizations" => vec![id.clone(), "default".to_owned()],
            _ => vec![id.clone()],
        }
    }

    /// What a stranger gives for a query parameter that names something.
    fn asked_by(&self, query: &str) -> Option<&String> {
        self.ids.get(match query {
            "application_id" => "applications",
            "endpoint_id" | "webhook_id" => "endpoints",
            "channel" => "channels",
            "tenant_id" => "organizations",
            _ => return None,
        })
    }

    fn check_unseen(&self, asked: &str, answer: &Answer) {
        let body = String::from_utf8_lossy(&answer.body);
        for secret in self.ids.values().map(String::as_str).chain([MARK]) {
            assert!(!body.contains(secret), "{asked} shows `{secret}`: {body}");
        }
    }

    /// Everything is still there, and as it was.
    async fn check_intact(&self, server: &Server) {
        for kind in ["endpoints", "applications", "event-types", "retry-schedules", "sources", "channels", "deliveries"] {
            server.get(&format!("/v1/{kind}/{}", self.ids[kind])).await.expect(200);
        }
        assert_eq!(server.get(&format!("/v1/endpoints/{MARK}")).await.expect(200)["enabled"], true);
        let keys = server.get("/v1/api-keys?limit=250").await;
        assert!(String::from_utf8_lossy(&keys.body).contains(&self.ids["api-keys"]));
        let event = server.get(&format!("/v1/events/{}", self.ids["events"])).await.expect(200);
        assert_eq!(event, self.event_before);
    }
}

/// An admin key whose time has passed, made as no request can make it.
async fn expired_admin_key(server: &Server) -> String {
    let ports = &server.line().ports;
    let (text, now) = (format!("eh_{}", "e".repeat(43)), ports.clock.now());
    let organization = server.get("/v1/organizations/default").await.expect(200)["id"].as_str().unwrap().parse::<OrganizationId>().unwrap();
    let key = ApiKey {
        id: ApiKeyId::from_uuid(ports.entropy.uuid(now)),
        organization,
        application: None,
        name: "expired".to_owned(),
        prefix: "eh_ab12".to_owned(),
        scopes: [Scope::Admin].into_iter().collect(),
        created_at: now,
        expires_at: Some(now),
        last_used_at: None,
    };
    let entry = AuditEntry {
        id: AuditEntryId::from_uuid(ports.entropy.uuid(now)),
        organization,
        at: now,
        actor: Actor::Server,
        action: AuditAction::ApiKeyCreate,
        resource: *key.id.as_uuid(),
        note: AuditNote::default(),
    };
    ports.api_keys.create_api_key(key, api_keys::hash(&text), 100, entry).await.unwrap();
    text
}
