//! Every route of the served document × no key, an unknown key, an expired one, each scope, and a stranger's key.

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
        let key = server.post("/v1/api-keys", json!({ "name": MARK, "scopes": ["read"] })).await.expect(201);
        let organization = server.get("/v1/organizations/default").await.expect(200);
        let delivery = server.get("/v1/deliveries").await.expect(200)["data"][0].clone();
        let begun = server.post("/v1/dlq/retry-batch", json!({ "filter": {}, "start_at": "2100-01-01" })).await.expect(202);
        let operation = begun["operation_id"].as_str().unwrap().to_owned();
        let id = |row: &Value| row["id"].as_str().unwrap().to_owned();
        let ids = BTreeMap::from([
            ("endpoints", id(&endpoint)),
            ("events", id(&event)),
            ("applications", id(&application)),
            ("event-types", id(&event_type)),
            ("retry-schedules", id(&schedule)),
            ("api-keys", id(&key)),
            ("organizations", id(&organization)),
            ("deliveries", id(&delivery)),
            // A dead letter has the id of its first delivery.
            ("dlq", id(&delivery)),
            ("dead-letters", id(&delivery)),
            ("messages", id(&event)),
            ("operations", operation.clone()),
            ("batch-operations", operation),
        ]);
        let event_before = server.get(&format!("/v1/events/{}", id(&event))).await.expect(200);
        Self { ids, event_before }
    }

    /// What a stranger puts into a path: the id, and the uid or name where that stands for it. No names for a path that names nothing.
    fn names(&self, route: &Route) -> Vec<String> {
        let named = route.named();
        let Some(kind) = named.first().copied() else { return Vec::new() };
        assert!(
            matches!(named[1..], [] | ["deliveries"] | ["attempts"]),
            "{} names two things: teach this test which belong together",
            route.path
        );
        let kind = if ["webhooks", "subscriptions"].contains(&kind) { "endpoints" } else { kind };
        let id = self.ids.get(kind).unwrap_or_else(|| panic!("{}: make something of the kind `{kind}` in `Owned::make`", route.path));
        match kind {
            "endpoints" | "applications" | "event-types" | "retry-schedules" => vec![id.clone(), MARK.to_owned()],
            "organizations" => vec![id.clone(), "default".to_owned()],
            _ => vec![id.clone()],
        }
    }

    /// What a stranger gives for a query parameter that names something.
    fn asked_by(&self, query: &str) -> Option<&String> {
        self.ids.get(match query {
            "application_id" => "applications",
            "endpoint_id" | "webhook_id" => "endpoints",
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
        for kind in ["endpoints", "applications", "event-types", "retry-schedules", "deliveries"] {
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
        name: "expired".to_owned(),
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
    ports.directory.create_api_key(key, api_keys::hash(&text), 100, entry).await.unwrap();
    text
}
