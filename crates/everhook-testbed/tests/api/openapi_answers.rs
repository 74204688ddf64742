//! What the OpenAPI document promises about answers, checked on answers of the server.

use http::Method;
use serde_json::{Value, json};

use crate::api::client::Server;

/// Checks an answer against its schema: every property is described, every required one is there, one that is null is required and nullable, and a word
/// is one of its set.
fn check(document: &Value, schema: &Value, answer: &Value, at: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        return check(document, document.pointer(reference.trim_start_matches('#')).unwrap(), answer, at);
    }
    if let Some(options) = schema["oneOf"].as_array() {
        let is_null = |option: &&Value| option["type"] == "null";
        if answer.is_null() {
            assert!(options.iter().any(|option| is_null(&option)), "{at} is null");
        } else if let [option] = options.iter().filter(|option| !is_null(option)).collect::<Vec<_>>()[..] {
            check(document, option, answer, at);
        }
        return;
    }
    if let Some(words) = schema["enum"].as_array() {
        assert!(words.contains(answer), "{at} is {answer}, not one of {words:?}");
    }
    if let Some(rows) = answer.as_array() {
        rows.iter().for_each(|row| check(document, &schema["items"], row, &format!("{at}[]")));
    }
    if let (Some(fields), Some(properties)) = (answer.as_object(), schema["properties"].as_object()) {
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for name in &required {
            assert!(fields.contains_key(name.as_str().unwrap()), "{at} lacks {name}");
        }
        for (name, value) in fields {
            let property = properties.get(name).unwrap_or_else(|| panic!("{at}.{name} is not described"));
            assert!(!value.is_null() || required.contains(&json!(name)), "{at}.{name} is null and not required");
            check(document, property, value, &format!("{at}.{name}"));
        }
    }
}

#[tokio::test]
async fn answers_are_as_the_document_describes_them() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await.expect(200);
    let made = server.endpoint(json!({ "uid": "shop", "retry_config": { "max_attempts": 1 }, "filter": { "data.a": 1 } })).await;
    server.endpoint(json!({ "uid": "all", "timeout_ms": 500, "retry_config": { "max_attempts": 1 } })).await;
    // What has no uid, and a schedule of its own.
    let nameless = server.post("/v1/applications", json!({ "name": "nameless" })).await.expect(201)["id"].clone();
    let inline = json!({ "intervals": [5], "max_attempts": 1 });
    let own = server.endpoint(json!({ "application_id": nameless, "retry_schedule": inline })).await["id"].as_str().unwrap().to_owned();
    server.post("/v1/sources", json!({ "name": "in", "kind": "none", "application_id": nameless })).await.expect(201);
    server.post("/v1/events", json!({ "type": "t", "data": 1, "application_id": nameless })).await.expect(202);
    let manifest = format!("/v1/applications/{}/manifest", nameless.as_str().unwrap());
    let ask = json!({ "path": "/ask", "fallback": [{ "type": "default", "static": {} }] });
    server.put(&manifest, json!({ "base_url": "http://127.0.0.1:9", "capabilities": { "ask": ask } })).await.expect(200);
    let event = server.post("/v1/events", json!({ "type": "t", "data": { "a": 1 } })).await.expect(202);
    let event = event["id"].as_str().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while server.get("/v1/dlq").await.expect(200)["data"].as_array().unwrap().len() < 3 {
        assert!(std::time::Instant::now() < deadline, "the deliveries did not die");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let delivery = server.get("/v1/deliveries").await.expect(200)["data"][0]["id"].as_str().unwrap().to_owned();
    #[rustfmt::skip]
    let table = [
        ("/v1/events", "/v1/events".to_owned()),
        ("/v1/events/{id}", format!("/v1/events/{event}")),
        ("/v1/events/{id}/why", format!("/v1/events/{event}/why")),
        ("/v1/deliveries", "/v1/deliveries".to_owned()),
        ("/v1/deliveries/{id}", format!("/v1/deliveries/{delivery}")),
        ("/v1/dlq", "/v1/dlq".to_owned()),
        ("/v1/endpoints", "/v1/endpoints".to_owned()),
        ("/v1/endpoints/{id}", "/v1/endpoints/shop".to_owned()),
        ("/v1/endpoints/{id}", format!("/v1/endpoints/{own}")),
        ("/v1/sources", "/v1/sources".to_owned()),
        ("/v1/applications/{id}/manifest", manifest),
        ("/v1/endpoints/{id}/health", "/v1/endpoints/shop/health".to_owned()),
        ("/v1/endpoints/{id}/stats", "/v1/endpoints/shop/stats".to_owned()),
        ("/v1/endpoints/{id}/secret", "/v1/endpoints/shop/secret".to_owned()),
        ("/v1/retry-schedules", "/v1/retry-schedules".to_owned()),
        ("/v1/applications", "/v1/applications".to_owned()),
        ("/v1/api-keys", "/v1/api-keys".to_owned()),
        ("/v1/audit-log", "/v1/audit-log".to_owned()),
        ("/v1/organizations", "/v1/organizations".to_owned()),
        ("/v1/operations", "/v1/operations".to_owned()),
        ("/readyz", "/readyz".to_owned()),
    ];
    for (route, path) in table {
        let schema = &document["paths"][route]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{route} has no schema");
        check(&document, schema, &server.get(&path).await.expect(200), route);
    }
    // What was not set is shown with what holds instead.
    assert_eq!((&made["timeout_ms"], &made["effective_timeout_ms"]), (&Value::Null, &json!(15_000)));
    assert_eq!(server.get("/v1/endpoints/all").await.expect(200)["effective_timeout_ms"], 500);
    assert_eq!(server.get("/v1/dlq").await.expect(200)["data"][0]["attempt_count"], 1);
    server.stop().await;
}

#[tokio::test]
async fn the_document_is_fit_for_generated_clients() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await.expect(200);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    // Rows of lists are named, and lists after their rows.
    for (list, row) in
        [("EventList", "EventOut"), ("DeliveryList", "DeliveryOut"), ("EndpointList", "EndpointOut"), ("DeadLetterList", "DeadLetterOut")]
    {
        assert_eq!(schemas[list]["properties"]["data"]["items"]["$ref"], format!("#/components/schemas/{row}"));
        assert!(schemas.contains_key(row), "{row}");
    }
    assert!(schemas.keys().all(|name| !name.contains('_')), "{:?}", schemas.keys());
    // Every reference leads somewhere.
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
    // Closed sets are enums.
    for set in ["DeliveryStatus", "FailureCategory", "Priority", "Ordering", "OperationStatus", "BreakerState"] {
        assert!(schemas[set]["enum"].is_array(), "{set}");
    }
    #[rustfmt::skip]
    let of_sets = [
        ("ReplayIn", "status"), ("WhyOut", "reason"), ("InlineScheduleOut", "strategy"), ("StepOut", "step"), ("StepOut", "outcome"),
        ("RotationOut", "step"), ("ContractCheckOut", "name"), ("QueuedOut", "source"), ("SourceOut", "algorithm"), ("SourceOut", "encoding"),
        ("AuditEntryOut", "action"), ("AuditEntryOut", "resource"),
    ];
    for (schema, field) in of_sets {
        let property = schemas[schema]["properties"][field].to_string();
        let set = property.split("#/components/schemas/").nth(1).and_then(|rest| rest.split('"').next());
        let set = set.unwrap_or_else(|| panic!("{schema}.{field} is no set: {property}"));
        assert!(schemas[set]["enum"].is_array(), "{schema}.{field}");
    }
    for (name, schema) in schemas {
        let Some(properties) = schema["properties"].as_object().filter(|_| name.ends_with("Out")) else { continue };
        // Lengths say their unit, and attempts that are counted are not called as attempts that are listed.
        assert!(!properties.contains_key("ms") && !properties.contains_key("duration"), "{name}");
        if let Some(attempts) = properties.get("attempts") {
            assert!(attempts.to_string().contains("\"array\""), "{name}.attempts is no list");
        }
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        for name in ["/v1/webhooks", "/v1/subscriptions", "/v1/dead-letters", "/v1/dlq/batch-operations", "/api/"] {
            assert!(!path.starts_with(name), "{path} is another name, and stands in the document");
        }
        for (method, operation) in item.as_object().unwrap() {
            let empty = Vec::new();
            let parameters = operation["parameters"].as_array().unwrap_or(&empty);
            let named = parameters.iter().filter(|parameter| parameter["name"] == "X-Organization" && parameter["in"] == "header").count();
            assert_eq!(named, usize::from(operation["security"].is_array()), "{method} {path}");
            for (status, header) in [("401", "WWW-Authenticate"), ("429", "Retry-After"), ("503", "Retry-After")] {
                let response = &operation["responses"][status];
                let is_problem = response["content"]["application/problem+json"].is_object();
                assert_eq!(is_problem, response["headers"][header].is_object(), "{method} {path} {status}");
            }
            // A list says what it counted where it can be asked to.
            let list = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].as_str().unwrap_or_default();
            let counts = document.pointer(list.trim_start_matches('#')).is_some_and(|list| list["properties"]["count"].is_object());
            if parameters.iter().any(|parameter| parameter["name"] == "count") {
                assert!(counts, "{path}");
            } else if method == "get" && counts {
                assert!(["EventList", "DeliveryList"].iter().any(|name| list.ends_with(name)), "{path}");
            }
        }
    }
    // The other names are still served.
    for path in ["/v1/webhooks", "/v1/subscriptions", "/v1/dead-letters"] {
        server.get(path).await.expect(200);
        server.call(Method::GET, path, "none", "").await.problem(401);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_field_is_required_where_a_request_without_it_is_refused() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await.expect(200);
    let required = |path: &str, method: &str| -> Vec<String> {
        let schema = &document["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"];
        let schema = document.pointer(schema["$ref"].as_str().unwrap().trim_start_matches('#')).unwrap();
        assert!(schema["properties"].is_object(), "{method} {path}");
        let names = schema["required"].as_array().into_iter().flatten();
        names.map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    for (path, id, body) in [
        ("/v1/endpoints", "shop", json!({ "uid": "shop", "url": "http://127.0.0.1:9/hook", "event_types": ["*"] })),
        ("/v1/applications", "app", json!({ "uid": "app", "name": "App" })),
        ("/v1/organizations", "acme", json!({ "uid": "acme", "name": "Acme" })),
        ("/v1/retry-schedules", "mine", json!({ "name": "mine", "intervals": [5] })),
        ("/v1/event-types", "paid", json!({ "name": "paid" })),
        ("/v1/sources", "in", json!({ "name": "in", "kind": "none" })),
    ] {
        let mut fields = required(path, "post");
        let mut refused = server.post(path, json!({})).await.faults(422);
        refused.sort();
        fields.sort();
        assert_eq!(fields, refused, "{path}");
        // What is listed is enough, and a change needs none of it.
        server.post(path, body).await.expect(201);
        for method in ["put", "patch"] {
            assert_eq!(required(&format!("{path}/{{id}}"), method), Vec::<String>::new(), "{path}");
            let path = format!("{path}/{id}");
            server.call(method.to_uppercase().parse().unwrap(), &path, &server.admin, "{}").await.expect(200);
        }
    }
    let schedules = "/v1/organizations/{id}/retry-schedules";
    assert_eq!(required(schedules, "post"), required("/v1/retry-schedules", "post"));
    server.stop().await;
}
