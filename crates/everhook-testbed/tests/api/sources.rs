//! Sources over HTTP: made, shown, changed, paused, deleted; and that nothing shows their secrets but what is there for it.

use serde_json::{Value, json};

use crate::api::client::Server;

const SECRET: &str = "a-secret-that-nobody-may-see";
const TOKEN: &str = "a-token-that-nobody-may-see";

fn shop() -> Value {
    json!({ "name": "shop", "kind": "hmac", "header": "X-Signature", "secrets": [SECRET], "verify_token": TOKEN })
}

#[tokio::test]
async fn a_source_is_made_found_by_id_and_name_changed_and_deleted() {
    let server = Server::start().await;
    let made = server.post("/v1/sources", shop()).await.expect(201);
    let by_id = format!("/v1/sources/{}", made["id"].as_str().unwrap());
    for path in [by_id.as_str(), "/v1/sources/shop"] {
        assert_eq!(server.get(path).await.expect(200), made);
    }
    assert_eq!(server.get("/v1/sources").await.expect(200)["data"], json!([made]));
    let expected =
        json!({ "header": "X-Signature", "algorithm": "sha256", "encoding": "hex", "prefix": null, "recipe": null, "forward": true });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&made[field], value, "{field}");
    }
    assert_eq!((&made["secret_count"], &made["has_verify_token"]), (&json!(1), &json!(true)));
    assert_eq!(made["rate_limit"], json!({ "per_ip_per_minute": 1_000, "per_user_per_minute": null }));
    assert_eq!(made["handshake"], json!({ "status": "none", "awaiting_until": null, "last_answered_at": null }));
    assert_eq!(server.post("/v1/sources", shop()).await.problem(409)["type"], "/docs/problems/name-taken");
    let changes = json!({
        "name": "shop-2", "encoding": "base64", "prefix": "sha256=", "ip_allowlist": ["192.0.2.7", "2001:db8::/32"],
        "rate_limit": { "per_user_per_minute": 5 }, "dedupe": { "by": "header", "header": "X-Id", "window": "12h" }, "forward": false,
        "forward_headers": ["X-A", "x-a"], "keep_headers": ["X-B"], "response": { "status": 202, "body": "ok", "content_type": "text/plain" },
        "public_url": "https://hooks.example/in/shop", "subscription_id": "7", "app_id": "a", "audience": "b", "verify_token": null,
    });
    let changed = server.put(&by_id, changes).await.expect(200);
    let expected = json!({
        "name": "shop-2", "encoding": "base64", "prefix": "sha256=", "ip_allowlist": ["192.0.2.7/32", "2001:db8::/32"],
        "rate_limit": { "per_ip_per_minute": 1_000, "per_user_per_minute": 5 },
        "dedupe": { "by": "header", "header": "x-id", "window": "12h" }, "forward": false, "forward_headers": ["x-a"], "keep_headers": ["x-b"],
        "response": { "status": 202, "body": "ok", "content_type": "text/plain" }, "public_url": "https://hooks.example/in/shop",
        "subscription_id": "7", "app_id": "a", "audience": "b", "has_verify_token": false, "secret_count": 1, "header": "X-Signature",
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&changed[field], value, "{field}");
    }
    assert_eq!(server.put(&by_id, json!({})).await.expect(200)["dedupe"], changed["dedupe"], "what is absent stays");
    let reset = json!({ "dedupe": null, "rate_limit": null, "forward": null, "response": null, "ip_allowlist": null });
    let reset = server.put(&by_id, reset).await.expect(200);
    for field in ["dedupe", "rate_limit", "forward", "response", "ip_allowlist"] {
        assert_eq!(reset[field], made[field], "{field}");
    }
    server.get("/v1/sources/shop").await.problem(404);
    server.delete(&by_id).await.expect(204);
    server.get(&by_id).await.problem(404);
    server.delete(&by_id).await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn a_source_of_a_provider_needs_what_its_kind_says() {
    let server = Server::start().await;
    let github = json!({ "name": "github", "kind": "github", "secrets": ["It's a Secret to Everybody"] });
    let made = server.post("/v1/sources", github).await.expect(201);
    assert_eq!((&made["kind"], &made["recipe"], &made["header"]), (&json!("github"), &Value::Null, &Value::Null));
    assert_eq!(server.post("/v1/sources", json!({ "name": "a", "kind": "github" })).await.faults(422), ["secrets"]);
    assert_eq!(server.post("/v1/sources", json!({ "name": "a", "kind": "standard", "secrets": ["!"] })).await.faults(422), ["secrets"]);
    let standard = json!({ "name": "std", "kind": "standard", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "tolerance": "90s" });
    assert_eq!(server.post("/v1/sources", standard).await.expect(201)["tolerance"], "90s");
    let recipe = json!({ "mac": "sha256 hex", "sig": "X-Signature", "over": "{nothing}" });
    let custom = json!({ "name": "own", "kind": "custom", "secrets": ["s"], "recipe": recipe });
    assert_eq!(server.post("/v1/sources", custom).await.faults(422), ["recipe.over"]);
    server.stop().await;
}

#[tokio::test]
async fn a_source_shows_the_url_to_enter_at_the_provider() {
    let server = Server::start().await;
    let made = server.post("/v1/sources", shop()).await.expect(201);
    let (url, named) = (made["url"].as_str().unwrap(), made["named_url"].as_str().unwrap());
    assert!(url.starts_with("http://") && url.ends_with(&format!("/in/{}", made["id"].as_str().unwrap())), "{url}");
    assert!(named.ends_with("/in/shop"), "{named}");
    let stranger = server.stranger(&["manage"]).await;
    let theirs = server.call(http::Method::POST, "/v1/sources", &stranger, shop().to_string()).await.expect(201);
    assert_eq!(theirs["named_url"], Value::Null, "names lead to the organization `default`");
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_source_is_said_by_field_all_at_once() {
    let server = Server::start().await;
    let with = |changes: Value| {
        let mut body = shop();
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        body
    };
    let many = |count: usize| (0..count).map(|n| format!("X-{n}")).collect::<Vec<_>>();
    #[rustfmt::skip]
    let table = [
        (json!({}), vec!["name", "kind"]),
        (json!({ "name": null, "kind": null }), vec!["name", "kind"]),
        (with(json!({ "name": "a b", "tolerance": "0s", "ip_allowlist": ["10.0.0.0/99"] })), vec!["name", "tolerance", "ip_allowlist"]),
        (with(json!({ "name": "01890a5d-ac96-774b-bcce-b302099a8057" })), vec!["name"]),
        (with(json!({ "kind": "no-such-provider", "header": null })), vec!["kind"]),
        (with(json!({ "kind": "none" })), vec!["header", "secrets"]),
        (with(json!({ "secrets": [] })), vec!["secrets"]),
        (with(json!({ "tolerance": "5m" })), vec!["tolerance"]),
        (with(json!({ "recipe": { "mac": "sha256 hex" } })), vec!["recipe"]),
        (with(json!({ "kind": "custom", "header": null, "recipe": { "macs": "x" } })), vec!["recipe"]),
        (with(json!({ "header": null })), vec!["header"]),
        (with(json!({ "header": "X Signature" })), vec!["header"]),
        (with(json!({ "algorithm": "md5", "encoding": "rot13", "prefix": "a b" })), vec!["algorithm", "encoding", "prefix"]),
        (with(json!({ "secrets": [""] })), vec!["secrets"]),
        (with(json!({ "secrets": [" \u{0}"] })), vec!["secrets"]),
        (with(json!({ "secrets": ["x".repeat(5_000)] })), vec!["secrets"]),
        (with(json!({ "secrets": many(11) })), vec!["secrets"]),
        (with(json!({ "verify_token": "", "subscription_id": "a\nb", "app_id": "ü", "audience": " a" })),
            vec!["verify_token", "subscription_id", "app_id", "audience"]),
        (with(json!({ "public_url": "ftp://example.com/" })), vec!["public_url"]),
        (with(json!({ "public_url": "https://user@example.com/" })), vec!["public_url"]),
        (with(json!({ "tolerance": "5" })), vec!["tolerance"]),
        (with(json!({ "tolerance": "8d" })), vec!["tolerance"]),
        (with(json!({ "ip_allowlist": vec!["192.0.2.1"; 201] })), vec!["ip_allowlist"]),
        (with(json!({ "rate_limit": { "per_ip_per_minute": 0, "per_user_per_minute": -1 } })),
            vec!["rate_limit.per_ip_per_minute", "rate_limit.per_user_per_minute"]),
        (with(json!({ "dedupe": {} })), vec!["dedupe.by"]),
        (with(json!({ "dedupe": { "by": "moon" } })), vec!["dedupe.by"]),
        (with(json!({ "dedupe": { "by": "header" } })), vec!["dedupe.header"]),
        (with(json!({ "dedupe": { "by": "body", "pointer": "/a" } })), vec!["dedupe.pointer"]),
        (with(json!({ "dedupe": { "by": "pointer", "pointer": "a~2" } })), vec!["dedupe.pointer"]),
        (with(json!({ "dedupe": { "by": "body", "window": "31d" } })), vec!["dedupe.window"]),
        (with(json!({ "forward_headers": ["Host"] })), vec!["forward_headers"]),
        (with(json!({ "forward_headers": ["webhook-id"] })), vec!["forward_headers"]),
        (with(json!({ "keep_headers": many(33) })), vec!["keep_headers"]),
        (with(json!({ "response": { "status": 404 } })), vec!["response.status"]),
        (with(json!({ "response": { "status": 204, "body": "x" } })), vec!["response.body"]),
        (with(json!({ "response": { "body": "x".repeat(5_000), "content_type": "a\nb" } })), vec!["response.body", "response.content_type"]),
        (with(json!({ "application_id": "nowhere" })), vec!["application_id"]),
    ];
    for (bad, fields) in table {
        assert_eq!(server.post("/v1/sources", bad.clone()).await.faults(422), fields, "{bad}");
    }
    let made = server.post("/v1/sources", shop()).await.expect(201);
    let path = format!("/v1/sources/{}", made["id"].as_str().unwrap());
    for (bad, fields) in [
        (json!({ "name": null }), vec!["name"]),
        (json!({ "application_id": "default" }), vec!["application_id"]),
        (json!({ "header": null }), vec!["header"]),
    ] {
        assert_eq!(server.put(&path, bad.clone()).await.faults(422), fields, "{bad}");
    }
    // What nobody knows is refused, not ignored.
    for bad in [json!({ "processor": [] }), json!({ "dedupe": { "by": "body", "more": 1 } }), json!({ "recipe": [] })] {
        server.put(&path, bad).await.problem(400);
    }
    assert_eq!(server.get(&path).await.expect(200), made);
    server.stop().await;
}

#[tokio::test]
async fn secrets_are_shown_where_they_are_asked_for_and_nowhere_else() {
    let server = Server::start().await;
    let made = server.post("/v1/sources", shop()).await;
    let path = format!("/v1/sources/{}", made.expect(201)["id"].as_str().unwrap());
    let changed = server.put(&path, json!({ "secrets": ["another-secret-that-nobody-may-see", SECRET] })).await;
    changed.expect(200);
    let (one, list, log) = (server.get(&path).await, server.get("/v1/sources").await, server.get("/v1/audit-log").await);
    for answer in [&made, &changed, &one, &list, &log] {
        let body = String::from_utf8_lossy(&answer.body);
        assert!(!body.contains("nobody-may-see"), "{body}");
    }
    let entry = log.expect(200)["data"][0].clone();
    assert_eq!((&entry["action"], &entry["after"]["secrets"]), (&json!("source.update"), &json!(["***", "***"])));
    let secrets = server.get(&format!("{path}/secrets")).await.expect(200);
    assert_eq!(secrets, json!({ "secrets": ["another-secret-that-nobody-may-see", SECRET], "verify_token": TOKEN }));
    let reader = server.key(&["read"]).await;
    server.call(http::Method::GET, &format!("{path}/secrets"), &reader, "").await.problem(403);
    server.stop().await;
}

#[tokio::test]
async fn a_source_is_paused_and_resumed() {
    let server = Server::start().await;
    server.post("/v1/sources", shop()).await.expect(201);
    let paused = server.post("/v1/sources/shop/pause", json!({})).await.expect(200);
    assert_eq!((&paused["paused"], &paused["paused_mode"]), (&json!(true), &json!("hold")));
    let refusing = server.post("/v1/sources/shop/pause", json!({ "mode": "refuse" })).await.expect(200);
    assert_eq!((&refusing["paused_mode"], &refusing["paused_at"]), (&json!("refuse"), &paused["paused_at"]));
    assert_eq!(server.post("/v1/sources/shop/pause", json!({ "mode": "drop" })).await.faults(422), ["mode"]);
    for _ in 0..2 {
        let resumed = server.post("/v1/sources/shop/resume", json!({})).await.expect(200);
        assert_eq!((&resumed["paused"], &resumed["paused_mode"], &resumed["paused_at"]), (&json!(false), &Value::Null, &Value::Null));
    }
    let log = server.get("/v1/audit-log").await.expect(200);
    let actions: Vec<_> = log["data"].as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).take(4).collect();
    assert_eq!(actions, ["source.resume", "source.pause", "source.pause", "source.create"]);
    server.stop().await;
}

#[tokio::test]
async fn only_a_kind_that_sends_its_key_awaits_a_handshake() {
    let server = Server::start().await;
    server.post("/v1/sources", shop()).await.expect(201);
    let refused = server.post("/v1/sources/shop/await-handshake", json!({})).await.problem(409);
    assert_eq!(refused["type"], "/docs/problems/no-handshake-key");
    server.stop().await;
}

#[tokio::test]
async fn the_kinds_are_listed_with_what_each_needs() {
    let server = Server::start().await;
    let kinds = server.get("/v1/source-kinds").await.expect(200);
    let kinds = kinds["data"].as_array().unwrap();
    for kind in kinds {
        let name = kind["name"].as_str().unwrap();
        assert_eq!(&server.get(&format!("/v1/source-kinds/{name}")).await.expect(200), kind);
        assert!(kind["title"].as_str().is_some_and(|title| !title.is_empty()), "{name}");
    }
    let names: Vec<_> = kinds.iter().map(|kind| kind["name"].as_str().unwrap()).collect();
    for name in ["none", "custom", "hmac"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    server.get("/v1/source-kinds/no-such-provider").await.problem(404);
    server.stop().await;
}

#[tokio::test]
async fn an_organization_has_a_bounded_number_of_sources_and_lists_them_by_page_and_application() {
    let server = Server::start().await;
    server.post("/v1/applications", json!({ "name": "Other", "uid": "other" })).await.expect(201);
    for n in 0..5 {
        let application = if n % 2 == 0 { "default" } else { "other" };
        let source = json!({ "name": format!("s{n}"), "kind": "none", "application_id": application });
        let application = server.get(&format!("/v1/applications/{application}")).await.json()["id"].clone();
        let mut source = source;
        source["application_id"] = application;
        server.post("/v1/sources", source).await.expect(201);
    }
    let names =
        |list: &Value| list["data"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let first = server.get("/v1/sources?limit=3").await.expect(200);
    assert_eq!(names(&first), ["s4", "s3", "s2"]);
    let next = format!("/v1/sources?limit=3&cursor={}", first["next_cursor"].as_str().unwrap());
    assert_eq!(names(&server.get(&next).await.expect(200)), ["s1", "s0"]);
    assert_eq!(names(&server.get("/v1/sources?application_id=other").await.expect(200)), ["s3", "s1"]);
    server.get("/v1/sources?application_id=nowhere").await.problem(404);
    server.get("/v1/sources?limit=0").await.problem(400);
    let operational = json!({ "name": "s", "kind": "none", "application_id": "operational" });
    assert_eq!(server.post("/v1/sources", operational).await.faults(422), ["application_id"]);
    server.stop().await;
}

#[tokio::test]
async fn sources_are_exported_with_their_application_and_imported_elsewhere() {
    let server = Server::start().await;
    server.post("/v1/sources", shop()).await.expect(201);
    let document = server.get("/v1/applications/default/export").await.expect(200);
    assert!(document["sources"][0]["secrets"].is_null(), "{document}");
    let again = server.post("/v1/applications/default/import", document.clone()).await.expect(200);
    assert_eq!(again["sources"], json!({ "created": 0, "updated": 0, "unchanged": 1 }));
    let full = server.get("/v1/applications/default/export?secrets=true").await.expect(200);
    assert_eq!(full["sources"][0]["secrets"], json!([SECRET]));
    let again = server.post("/v1/applications/default/import", full.clone()).await.expect(200);
    assert_eq!(again["sources"], json!({ "created": 0, "updated": 0, "unchanged": 1 }), "the same secret is no change");
    let mut changed = full.clone();
    changed["sources"][0]["secrets"] = json!(["another secret"]);
    let updated = server.post("/v1/applications/default/import", changed).await.expect(200);
    assert_eq!(updated["sources"], json!({ "created": 0, "updated": 1, "unchanged": 0 }));
    server.post("/v1/applications", json!({ "name": "Other", "uid": "other" })).await.expect(201);
    assert_eq!(server.post("/v1/applications/other/import", full.clone()).await.faults(422), ["sources[0].name"], "it is another's");
    server.delete("/v1/sources/shop").await.expect(204);
    let created = server.post("/v1/applications/other/import", full).await.expect(200);
    assert_eq!(created["sources"], json!({ "created": 1, "updated": 0, "unchanged": 0 }));
    let other = server.get("/v1/applications/other").await.expect(200)["id"].clone();
    assert_eq!(server.get("/v1/sources/shop").await.expect(200)["application_id"], other);
    server.stop().await;
}
