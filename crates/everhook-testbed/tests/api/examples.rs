//! The examples in the OpenAPI document are sent as they stand, and answered as the document promises.

use http::StatusCode;
use serde_json::{Value, json};

use crate::api::{
    client::Server,
    routes::{Route, routes},
};

#[tokio::test]
async fn every_body_has_an_example_that_is_answered_with_the_documented_success() {
    let server = Server::start().await;
    let with_body: Vec<Route> = routes(&server).await.into_iter().filter(|route| !route.body.is_empty()).collect();
    server.stop().await;
    for route in &with_body {
        assert_ne!(route.body, "{}", "{} {} has no example of its body", route.method, route.path);
        // A server of its own: an example makes the same thing each time.
        let server = Server::start().await;
        let named = make_what_is_named(&server, route, &with_body).await;
        if route.path.contains("{capability}") || route.path.ends_with("/manifest/check") {
            let putting = with_body.iter().find(|route| route.path.ends_with("/manifest")).expect("a manifest can be put");
            server.call(http::Method::PUT, &putting.naming(&named), &server.admin, putting.body.clone()).await.expect(200);
        }
        // The capability of the example, whose fallback answers: nobody is at its URL.
        let path = route.naming(&named).replace("{delivery_id}", DELIVERY).replace("{capability}", "winnerSelection");
        let body = naming_a_connection(&server, route).await;
        let answer = server.call(route.method.clone(), &path, &server.admin, body).await;
        let promised = match route.path.split_once("/deliveries/") {
            // 202 is for jobs.
            None if route.path.contains("/call/") => StatusCode::OK,
            None => route.success,
            Some((_, "retry-batch")) => StatusCode::UNPROCESSABLE_ENTITY,
            Some(_) => StatusCode::NOT_FOUND,
        };
        assert_eq!(answer.status, promised, "{} {}: {}", route.method, route.path, String::from_utf8_lossy(&answer.body));
        server.stop().await;
    }
}

/// The body of a route's example, with a connection that is there in place of the one that it names.
async fn naming_a_connection(server: &Server, route: &Route) -> String {
    let Ok(mut body) = serde_json::from_str::<Value>(&route.body) else { return route.body.clone() };
    if body["connection_id"].is_null() {
        return route.body.clone();
    }
    let connection = json!({ "provider": "garmin", "external_user_id": "u", "profile_id": "p", "access_token": "a" });
    body["connection_id"] = server.post("/v1/health/connections", connection).await.expect(201)["id"].clone();
    body.to_string()
}

/// A delivery that is not there: one that has ended takes more than an example to make. What such a body asks for is understood, at least.
const DELIVERY: &str = "01920000-0000-7000-8000-000000000000";

/// Makes what the route's path and body name, from the examples for making such things, and returns what the path is filled with.
async fn make_what_is_named(server: &Server, route: &Route, all: &[Route]) -> String {
    let Some(kind) = route.named().first().copied() else { return String::new() };
    if kind == "deliveries" {
        return DELIVERY.to_owned();
    }
    if route.body.contains("endpoint_ids") {
        make(server, all, "endpoints").await;
    }
    make(server, all, kind).await
}

async fn make(server: &Server, all: &[Route], kind: &str) -> String {
    let path = format!("/v1/{kind}");
    if kind == "approvals" {
        let manual = json!({ "path": "/", "mode": "off", "fallback": [{ "type": "manual" }] });
        let manifest = json!({ "base_url": "https://app.example", "capabilities": { "ask": manual } });
        server.put("/v1/applications/default/manifest", manifest).await.expect(200);
        let pending = server.post("/v1/applications/default/call/ask", json!({ "payload": 1 })).await.expect(202);
        return pending["approval_id"].as_str().unwrap().to_owned();
    }
    if kind == "alerts" {
        return crate::api::alerts::keep(server, "example").await;
    }
    let making = all.iter().find(|route| route.method == http::Method::POST && route.path == path);
    let making = making.unwrap_or_else(|| panic!("{path} makes nothing: teach this test where such things come from"));
    let made = server.call(http::Method::POST, &path, &server.admin, making.body.clone()).await;
    let made = made.expect(making.success.as_u16());
    // Rules of alerts are named.
    made["id"].as_str().or(made["name"].as_str()).unwrap().to_owned()
}
