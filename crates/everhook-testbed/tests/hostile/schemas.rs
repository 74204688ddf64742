//! Schemas that take as much work and memory as a tenant can make them take.

use std::time::{Duration, Instant};

use everhook::cli::client::Connection;
use http::Method;
use serde_json::{Value, json};

use crate::arena::{Arena, Tenant};

/// How long a server under attack may take to end once it was asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// A schema that must not be taken, or data that must not be checked to the end.
struct Attack {
    name: &'static str,
    schema: Value,
    data: Value,
    expected: Expected,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    SchemaRefused,
    TooCostly,
    SchemaMismatch,
}

fn attacks() -> Vec<Attack> {
    use Expected::{SchemaMismatch, SchemaRefused, TooCostly};
    let ones = |count: usize| json!(vec![1; count]);
    let consts = |count: usize| -> Vec<Value> { (0..count).map(|n| json!({"const": n + 2})).collect() };
    let members = |count: usize| -> Value { (0..count).map(|n| (format!("k{n}"), json!(n))).collect() };
    let patterns = |count: usize| -> Vec<Value> { (0..count).map(|n| json!({"pattern": format!("^k{n}[bc]*$")})).collect() };
    let pattern_names = |count: usize| -> Value { (0..count).map(|n| (format!("^k{n}[bc]*$"), json!({"type": "number"}))).collect() };
    let (unevaluated, deep_object) = nested_unevaluated();
    let deep_alternatives =
        (0..50).fold(json!({"type": "integer"}), |inner, _| json!({"oneOf": [inner, {"type": "object", "required": ["x"]}]}));
    let attack = |name, schema, data, expected| Attack { name, schema, data, expected };
    vec![
        attack("3,000 alternatives", json!({"items": {"anyOf": consts(3_000)}}), ones(100_000), TooCostly),
        attack("40 alternatives", json!({"items": {"anyOf": consts(40)}}), ones(100_000), TooCostly),
        attack("40 alternatives with 500 items", json!({"items": {"anyOf": consts(40)}}), ones(500), SchemaMismatch),
        attack("nested unevaluatedProperties", unevaluated, deep_object, SchemaRefused),
        attack("nested unevaluatedItems", json!({"items": {"unevaluatedItems": false}}), ones(10), SchemaRefused),
        attack("1,500 patterns for names", json!({"propertyNames": {"anyOf": patterns(1_500)}}), members(10_000), SchemaRefused),
        attack("1,200 patterns of properties", json!({"patternProperties": pattern_names(1_200)}), members(10_000), SchemaRefused),
        attack("200 patterns for names", json!({"propertyNames": {"anyOf": patterns(200)}}), members(10_000), TooCostly),
        attack("200 patterns of properties", json!({"patternProperties": pattern_names(200)}), members(10_000), TooCostly),
        attack("deep oneOf", json!({"items": deep_alternatives}), json!(vec!["x"; 30_000]), TooCostly),
        attack("unique lists", json!({"uniqueItems": true}), json!(bracketings(6_000)), TooCostly),
        attack("a pattern of many states", json!({"pattern": "[ab]*a[ab]{300}c"}), json!("ab".repeat(120_000)), TooCostly),
        attack(
            "an enum of lists",
            json!({"items": {"enum": (0..5_000).map(|n| json!([n])).collect::<Vec<_>>()}}),
            json!(vec![[-1]; 40_000]),
            TooCostly,
        ),
    ]
}

/// A schema whose evaluation takes twice as long with each of its levels, and data as deep.
fn nested_unevaluated() -> (Value, Value) {
    let schema = (0..40).fold(
        json!({"type": "integer"}),
        |inner, _| json!({"properties": {"a": inner}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "unevaluatedProperties": false}),
    );
    (schema, (0..40).fold(json!("wrong"), |inner, _| json!({"a": inner})))
}

/// Lists that differ in their brackets alone.
fn bracketings(count: usize) -> Vec<Value> {
    let bracketing = |n: usize| (0..13).fold(json!([]), |list, bit| if (n >> bit) & 1 == 1 { json!([list]) } else { json!([list, 1]) });
    (0..count).map(bracketing).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_schema_holds_up_a_neighbor_or_eats_the_memory() {
    let arena = Arena::start([]).await;
    let watch = arena.watch().await;
    for (index, attack) in attacks().into_iter().enumerate() {
        let event_type = format!("attack.{index}");
        let (status, answer) = define(&arena.attacker, &event_type, &attack.schema).await;
        assert_eq!(status, if attack.expected == Expected::SchemaRefused { 422 } else { 201 }, "{}: {answer}", attack.name);
        let body = json!({"type": event_type, "data": attack.data}).to_string();
        let answers = futures_util::future::join_all((0..3).map(|_| publish(arena.attacker.connect(), body.clone()))).await;
        for (status, answer) in answers {
            let kind = answer["type"].as_str().unwrap_or_default().trim_start_matches("/docs/problems/");
            match attack.expected {
                Expected::SchemaRefused => assert_eq!(status, 202, "{}: {answer}", attack.name),
                Expected::TooCostly => assert_eq!((status, kind), (422, "schema-too-costly"), "{}: {answer}", attack.name),
                Expected::SchemaMismatch => {
                    assert_eq!((status, kind), (422, "schema-mismatch"), "{}: {answer}", attack.name);
                    assert_eq!(answer["errors"][0]["field"], "data/0", "{}: {answer}", attack.name);
                }
            }
        }
    }
    watch.end("schemas").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_costly_events_uses_no_more_than_one_request_may() {
    let arena = Arena::start([]).await;
    let consts: Vec<Value> = (0..40).map(|n| json!({"const": n + 2})).collect();
    assert_eq!(define(&arena.attacker, "attack.batch", &json!({"items": {"anyOf": consts}})).await.0, 201);
    let watch = arena.watch().await;
    let event = json!({"type": "attack.batch", "data": vec![1; 1_500]});
    let body = json!({"events": vec![event; 1_000]}).to_string();
    let batches = (0..3).map(|_| {
        let (mut connection, body) = (arena.attacker.connect(), body.clone());
        async move { connection.send(Method::POST, "/v1/events/batch", body).await.expect("an answer") }
    });
    for answer in futures_util::future::join_all(batches).await {
        assert_eq!(answer.status, 202);
        let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let items = answer["data"].as_array().expect("a list");
        let of_status = |status: u64| items.iter().filter(|item| item["error"]["status"] == status).count();
        // The first ones are checked, and do not fit; the others are not, and may come again.
        assert!(of_status(422) >= 1 && of_status(503) >= 900 && of_status(422) + of_status(503) == 1_000, "{}", items[999]);
        assert_eq!(items[0]["error"]["errors"][0]["field"], "data/0");
    }
    watch.end("a batch of costly events").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_ends_in_its_time_while_schemas_are_evaluated() {
    let mut arena = Arena::start([]).await;
    let consts: Vec<Value> = (0..60).map(|n| json!({"const": n + 2})).collect();
    assert_eq!(define(&arena.attacker, "attack.stop", &json!({"items": {"anyOf": consts}})).await.0, 201);
    // Just within what an event may take.
    let within = json!({"type": "attack.stop", "data": vec![1; 3_500]}).to_string();
    // Without an end, for a server that takes such a schema.
    let (schema, data) = nested_unevaluated();
    define(&arena.attacker, "attack.endless", &schema).await;
    let endless = json!({"type": "attack.endless", "data": data}).to_string();
    let publishing: Vec<_> = (0..8)
        .map(|n| {
            let (mut connection, body) = (arena.attacker.connect(), if n < 4 { within.clone() } else { endless.clone() });
            tokio::spawn(async move { while connection.send(Method::POST, "/v1/events", body.clone()).await.is_ok() {} })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked_at = Instant::now();
    arena.node.ask_to_stop();
    arena.node.wait_until_ended().await;
    let took = asked_at.elapsed();
    publishing.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(took < STOP_TIMEOUT, "the server took {took:?} to end");
}

async fn define(tenant: &Tenant, name: &str, schema: &Value) -> (u16, Value) {
    let body = json!({"name": name, "schema": schema}).to_string();
    let answer = tenant.connect().send(Method::POST, "/v1/event-types", body).await.expect("an answer");
    (answer.status.as_u16(), serde_json::from_slice(&answer.body).expect("JSON"))
}

async fn publish(mut connection: Connection, body: String) -> (u16, Value) {
    let answer = connection.send(Method::POST, "/v1/events", body).await.expect("an answer");
    (answer.status.as_u16(), serde_json::from_slice(&answer.body).expect("JSON"))
}
