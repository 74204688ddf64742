//! Jobs over HTTP: queued at once, done by a callback that anybody may make who has the token.

use std::time::Duration;

use everhook::config::ServeArgs;
use serde_json::{Value, json};

use super::{
    Given,
    app::{Answer, App},
};
use crate::api::{client::Server, why::elsewhere};

/// Waits until a job stands so. The engine works in real time here.
async fn wait_for(given: &Given, id: &str, status: &str) -> Value {
    for _ in 0..200 {
        let job = given.server.get(&format!("/v1/jobs/{id}")).await.expect(200);
        // What the app said counts at once; its delivery ends a moment later.
        if job["status"] == status && (status != "completed" || !job["ended_at"].is_null()) {
            return job;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the job is not {status}: {}", given.server.get(&format!("/v1/jobs/{id}")).await.json());
}

/// Where the app was told to call back, without the server's name.
fn callback(given: &Given, n: usize) -> String {
    let body: Value = serde_json::from_slice(&given.app.seen()[n].body).unwrap();
    let url = body["callbackUrl"].as_str().expect("there is a URL").to_owned();
    url[url.find("/api/v1/callbacks/").expect("it is the door")..].to_owned()
}

#[tokio::test]
async fn an_asynchronous_call_is_a_job_at_once_and_its_callback_ends_it() {
    let given = Given::new(App::answering(Answer::Body(202, String::new())).await, json!({ "async": true, "timeout": "1m" })).await;
    let queued = given.call(json!({ "payload": { "room": 1 } })).await.expect(202);
    assert_eq!((&queued["source"], queued["data"].is_null()), (&json!("queued"), true), "{queued}");
    let id = queued["job_id"].as_str().unwrap();
    let sent = wait_for(&given, id, "sent").await;
    assert_eq!((&sent["capability"], &sent["request_id"], &sent["attempt_count"]), (&json!("ask"), &queued["request_id"], &json!(1)));
    let seen = given.app.seen().pop().unwrap();
    assert_eq!((seen.header("x-request-id"), seen.header("x-max-attempts")), (queued["request_id"].as_str(), Some("3")));
    assert!(seen.header("x-platform-signature").is_some());
    let path = callback(&given, 0);
    let nobody = "none";
    let post = async |path: &str, body: Value| given.server.call(http::Method::POST, path, nobody, body.to_string()).await;
    // A forged token, none, another capability and another job find nothing; nothing of the body is read.
    let forged = format!("{}x", &path[..path.len() - 1]);
    for wrong in
        [forged, path.replace("?token=", "?t="), path.replace("/ask/", "/other/"), path.replace(id, &uuid::Uuid::nil().to_string())]
    {
        post(&wrong, json!({ "success": true })).await.problem(404);
    }
    post(&path, json!({ "success": "yes" })).await.problem(422);
    post(&path, json!({ "success": true, "result": "x".repeat(300_000) })).await.problem(413);
    let done = json!({ "success": true, "result": { "rows": 7 } });
    for _ in 0..2 {
        assert_eq!(post(&path, done.clone()).await.expect(200), json!({ "received": true }));
    }
    let completed = wait_for(&given, id, "completed").await;
    assert_eq!((&completed["result"], &completed["error"]), (&json!({ "rows": 7 }), &Value::Null));
    let problem = post(&path, json!({ "success": false })).await.problem(409);
    assert_eq!(problem["type"], "/docs/problems/job-ended");
    let listed = given.server.get(&given.path("jobs")).await.expect(200);
    assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["result"]), (&json!(id), &Value::Null), "{listed}");
    // It is an event with a delivery, as everything on the line is.
    let delivery = given.server.get(&format!("/v1/deliveries/{}", completed["delivery_id"].as_str().unwrap())).await.expect(200);
    assert_eq!((&delivery["status"], &delivery["event_id"]), (&json!("delivered"), &json!(id)), "{delivery}");
    given.server.get(&format!("/v1/deliveries/{}/attempts/1", completed["delivery_id"].as_str().unwrap())).await.expect(200);
    given.server.get("/v1/jobs/00000000-0000-7000-8000-000000000000").await.problem(404);
    given.server.stop().await;
}

#[tokio::test]
async fn a_manifest_is_accepted_as_other_platforms_write_it_and_its_jobs_run_out_of_its_attempts() {
    let app = App::answering(Answer::Body(503, String::new())).await;
    let given = Given::new(app, json!({})).await;
    let mut manifest = json!({
        "webhooks": {
            "winnerSelection": { "path": "/api/platform/winner-selection", "timeout": 5000, "retry": { "enabled": false } },
            "analytics": {
                "path": "/api/platform/analytics", "timeout": 30000, "async": true,
                "retry": { "enabled": true, "maxAttempts": 3, "backoff": "exponential" }
            }
        }
    });
    let path = given.path("manifest");
    given.server.put(&path, manifest.clone()).await.expect(200);
    assert_eq!(given.server.get(&path).await.expect(200)["manifest"], manifest);
    manifest["base_url"] = json!(given.app.url());
    given.server.put(&path, manifest).await.expect(200);
    let body = json!({ "payload": { "roomId": "room_xyz" } });
    let queued = given.server.post(&given.path("call/analytics"), body).await.expect(202);
    let dead = wait_for(&given, queued["job_id"].as_str().unwrap(), "dead").await;
    assert_eq!(dead["attempt_count"], 3, "{dead}");
    let seen = given.app.seen();
    let attempts: Vec<_> = seen.iter().map(|seen| (seen.header("x-retry-attempt"), seen.header("x-max-attempts"))).collect();
    assert_eq!(attempts, ["1", "2", "3"].map(|n| (Some(n), Some("3"))));
    given.server.stop().await;
}

#[tokio::test]
async fn an_app_reports_its_progress_at_the_same_door() {
    let given = Given::new(App::answering(Answer::Body(202, String::new())).await, json!({ "async": true, "timeout": "1m" })).await;
    let queued = given.call(json!({ "payload": {} })).await.expect(202);
    let id = queued["job_id"].as_str().unwrap();
    let sent = wait_for(&given, id, "sent").await;
    assert_eq!((&sent["progress"], &sent["progress_message"], &sent["progress_at"]), (&Value::Null, &Value::Null, &Value::Null));
    let path = callback(&given, 0);
    let post = async |body: Value| given.server.call(http::Method::POST, &path, "none", body.to_string()).await;
    let half = json!({ "progress": 50, "message": "half of the rows" });
    for _ in 0..2 {
        assert_eq!(post(half.clone()).await.expect(200), json!({ "received": true }));
    }
    let told = given.server.get(&format!("/v1/jobs/{id}")).await.expect(200);
    assert_eq!((&told["status"], &told["progress"], &told["progress_message"]), (&json!("sent"), &json!(50), &json!("half of the rows")));
    assert!(told["progress_at"].is_string());
    // Two within a second are one too many; on a busy machine they may be further apart.
    let mut refused = post(json!({ "progress": 51 })).await;
    for percent in 52..90 {
        if refused.status != 200 {
            break;
        }
        refused = post(json!({ "progress": percent })).await;
    }
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(refused.problem(429)["type"], "/docs/problems/progress-rate-limit");
    for wrong in [json!({ "progress": 101 }), json!({ "progress": "half" }), json!({ "message": "half" })] {
        post(wrong).await.problem(422);
    }
    post(json!({ "success": true })).await.expect(200);
    wait_for(&given, id, "completed").await;
    assert_eq!(post(half).await.problem(409)["type"], "/docs/problems/job-ended");
    given.server.stop().await;
}

#[tokio::test]
async fn a_job_is_explained_for_its_capability_its_caller_and_endpoints() {
    let given = Given::new(App::answering(Answer::Body(202, String::new())).await, json!({ "async": true, "timeout": "1m" })).await;
    given.server.endpoint(json!({ "name": "any" })).await;
    let queued = given.call(json!({ "payload": {} })).await.expect(202);
    let id = queued["job_id"].as_str().unwrap();
    wait_for(&given, id, "sent").await;
    let said = elsewhere(&given.server, id).await;
    assert_eq!(said, [["capability", "ask", "parked", "parked"], ["callback", "", "", "not_requested"]]);
    let endpoints = given.server.get(&format!("/v1/events/{id}/why")).await.expect(200);
    assert_eq!((&endpoints["data"][0]["endpoint_name"], &endpoints["data"][0]["reason"]), (&json!("any"), &json!("addressed")));
    let queued = given.call(json!({ "payload": {}, "callback_url": "http://127.0.0.1:9/" })).await.expect(202);
    let said = elsewhere(&given.server, queued["job_id"].as_str().unwrap()).await;
    assert_eq!((said.len(), said[1][0].as_str(), said[1][2].is_empty()), (2, "callback", false), "{said:?}");
    given.server.stop().await;
}

#[tokio::test]
async fn a_call_that_fails_is_queued_where_the_manifest_says_so() {
    let fields = json!({ "fallback": [{ "type": "queue" }], "circuit_breaker": { "enabled": false } });
    let app = App::start(|n, _| if n == 1 { Answer::Body(500, String::new()) } else { Answer::data(&json!([n])) }).await;
    let given = Given::new(app, fields).await;
    let queued = given.call(json!({ "payload": [1] })).await.expect(202);
    assert_eq!(super::steps(&queued), ["app failed", "queue queued"]);
    assert!(queued["warning"].as_str().unwrap().contains("500"), "{queued}");
    let done = wait_for(&given, queued["job_id"].as_str().unwrap(), "completed").await;
    assert_eq!(done["result"], json!([2]));
    assert_eq!(given.app.seen()[1].body, b"[1]");
    given.server.stop().await;
}

#[tokio::test]
async fn the_payload_of_a_job_must_have_room_for_the_callback() {
    let given = Given::new(App::answering(Answer::Body(202, String::new())).await, json!({ "async": true, "timeout": "1m" })).await;
    for payload in [json!([1]), json!({ "callbackUrl": "https://x" })] {
        assert_eq!(given.call(json!({ "payload": payload })).await.faults(422), ["payload"]);
    }
    let calls = json!({ "calls": [{ "capability": "ask", "payload": {} }, { "capability": "ask", "payload": 1 }] });
    let batch = given.server.post(&given.path("call-batch"), calls).await.expect(200);
    assert_eq!((&batch["data"][0]["source"], &batch["data"][1]["error"]["status"]), (&json!("queued"), &json!(422)), "{batch}");
    wait_for(&given, batch["data"][0]["job_id"].as_str().unwrap(), "sent").await;
    given.server.stop().await;
}

#[tokio::test]
async fn the_caller_of_a_job_is_told_how_it_ended_at_its_own_url() {
    let given = Given::new(App::answering(Answer::Body(202, String::new())).await, json!({ "async": true, "timeout": "1m" })).await;
    let caller = App::answering(Answer::Body(204, String::new())).await;
    let ours = format!("http://{}/told", caller.address);
    for wrong in ["ftp://platform.example/x", "platform.example", "amqp://broker.example/q"] {
        assert_eq!(given.call(json!({ "payload": {}, "callback_url": wrong })).await.faults(422), ["callback_url"], "{wrong}");
    }
    let queued = given.call(json!({ "payload": {}, "callback_url": ours })).await.expect(202);
    let id = queued["job_id"].as_str().unwrap();
    wait_for(&given, id, "sent").await;
    assert!(caller.seen().is_empty());
    let done = json!({ "success": true, "result": [1] }).to_string();
    given.server.call(http::Method::POST, &callback(&given, 0), "none", done).await.expect(200);
    wait_for(&given, id, "completed").await;
    for _ in 0..100 {
        if !caller.seen().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let seen = caller.seen().pop().expect("the caller is told");
    let told: Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!((&told["jobId"], &told["status"], &told["details"]["result"]), (&json!(id), &json!("success"), &json!([1])), "{told}");
    assert_eq!((seen.header("webhook-id"), seen.header("x-webhook-event")), (Some(id), Some("job.ended")));
    assert!(seen.header("webhook-signature").is_some() && seen.header("x-webhook-signature").is_some());
    given.server.stop().await;
}

#[tokio::test]
async fn the_operator_may_set_how_jobs_are_retried() {
    let folder = tempfile::tempdir().unwrap();
    let args = ServeArgs {
        listen: Some("127.0.0.1:0".to_owned()),
        data: Some(folder.path().join("data").display().to_string()),
        allow_private_networks: Some("true".to_owned()),
        job_retry_max_attempts: Some("5".to_owned()),
        job_retry_initial_delay: Some("2s".to_owned()),
        ..ServeArgs::default()
    };
    let (server, app) = (Server::start_with(&args).await, App::answering(Answer::Body(202, String::new())).await);
    let given = Given { server, app };
    given.put(json!({ "async": true, "timeout": "1m" })).await;
    let preset = given.server.get("/v1/retry-schedules/job").await.expect(200);
    assert_eq!((&preset["max_attempts"], &preset["intervals"]["base_ms"]), (&json!(5), &json!(2000)));
    let queued = given.call(json!({ "payload": {} })).await.expect(202);
    wait_for(&given, queued["job_id"].as_str().unwrap(), "sent").await;
    let asked = given.app.seen().into_iter().find(|seen| seen.head.starts_with("POST")).expect("the app was asked");
    assert_eq!(asked.header("x-max-attempts"), Some("5"));
    given.server.stop().await;
}
