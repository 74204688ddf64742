//! Calls that people decide about, over HTTP: answered 202 at once, listed, and decided by a key that may.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Given,
    app::{Answer, App},
    steps,
};

/// An app that fails the first requests, and a capability whose calls then wait for a person.
async fn given(failures: u32) -> Given {
    let fields = json!({ "fallback": [{ "type": "manual", "expires_after": "1h" }], "circuit_breaker": { "enabled": false } });
    let answer = move |n, _: &_| if n <= failures { Answer::Body(500, String::new()) } else { Answer::data(&json!([n])) };
    Given::new(App::start(answer).await, fields).await
}

impl Given {
    async fn wait(&self, payload: Value) -> Value {
        self.call(json!({ "payload": payload })).await.expect(202)
    }

    async fn approval(&self, id: &str) -> Value {
        self.server.get(&format!("/v1/approvals/{id}")).await.expect(200)
    }
}

#[tokio::test]
async fn a_call_that_nothing_answers_waits_for_a_person_and_what_is_approved_becomes_a_job() {
    let given = given(1).await;
    let pending = given.wait(json!({ "room": 1 })).await;
    assert_eq!((&pending["source"], steps(&pending)), (&json!("pending"), vec!["app failed".to_owned(), "manual pending".to_owned()]));
    assert!(pending["warning"].as_str().unwrap().contains("500"), "{pending}");
    let id = pending["approval_id"].as_str().unwrap();
    let waits = given.approval(id).await;
    assert_eq!((&waits["status"], &waits["payload"], &waits["capability"]), (&json!("pending"), &json!({ "room": 1 }), &json!("ask")));
    assert_eq!((&waits["request_id"], &waits["expires_at"]), (&pending["request_id"], &pending["expires_at"]));
    assert_eq!((&waits["decided_by"], &waits["job_id"], &waits["data"]), (&Value::Null, &Value::Null, &Value::Null));
    let listed = given.server.get("/v1/approvals?status=pending&application_id=default").await.expect(200);
    assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["payload"]), (&json!(id), &Value::Null), "{listed}");
    let path = format!("/v1/approvals/{id}");
    let approve = json!({ "action": "approve", "reason": "Checked by hand." });
    let approved = given.server.post(&path, approve.clone()).await.expect(200);
    assert_eq!(
        (&approved["status"], &approved["reason"], &approved["payload"]),
        (&json!("approved"), &json!("Checked by hand."), &Value::Null)
    );
    assert_eq!(approved["decided_by"]["kind"], "api_key");
    let job = approved["job_id"].as_str().expect("it is a job").to_owned();
    let mut done = Value::Null;
    for _ in 0..200 {
        done = given.server.get(&format!("/v1/jobs/{job}")).await.expect(200);
        if !done["ended_at"].is_null() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((&done["status"], &done["result"], &done["request_id"]), (&json!("completed"), &json!([2]), &pending["request_id"]));
    assert_eq!(given.app.seen()[1].body, br#"{"room":1}"#);
    assert_eq!(given.server.post(&path, approve).await.expect(200)["job_id"], json!(job), "the same decision again");
    let problem = given.server.post(&path, json!({ "action": "reject" })).await.problem(409);
    assert_eq!(problem["type"], "/docs/problems/approval-decided");
    assert_eq!(given.server.get("/v1/approvals?status=pending").await.expect(200)["data"], json!([]));
    given.server.stop().await;
}

#[tokio::test]
async fn a_person_may_answer_a_call_and_what_cannot_be_a_decision_is_refused() {
    let given = given(9).await;
    let id = given.wait(json!([1])).await["approval_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/approvals/{id}");
    let decide = async |body: Value| given.server.post(&path, body).await;
    for (body, fields) in [
        (json!({}), ["action"]),
        (json!({ "action": "approved" }), ["action"]),
        (json!({ "action": "reject", "data": null }), ["data"]),
        (json!({ "action": "reject", "reason": "x".repeat(1_001) }), ["reason"]),
        (json!({ "action": "reject", "reason": "a\u{0}b" }), ["reason"]),
    ] {
        assert_eq!(decide(body.clone()).await.faults(422), fields, "{body}");
    }
    decide(json!({ "action": "approve", "data": "x".repeat(300_000) })).await.problem(413);
    decide(json!({ "action": "approve", "until": 1 })).await.problem(400);
    let reader = given.server.key(&["read"]).await;
    given.server.call(http::Method::POST, &path, &reader, json!({ "action": "reject" }).to_string()).await.problem(403);
    assert_eq!(given.approval(&id).await["status"], "pending");
    // `null` is an answer.
    let answered = decide(json!({ "action": "approve", "data": null })).await.expect(200);
    assert_eq!((&answered["status"], &answered["job_id"]), (&json!("approved"), &Value::Null));
    decide(json!({ "action": "approve", "data": null })).await.expect(200);
    for other in [json!({ "action": "approve" }), json!({ "action": "approve", "data": 1 })] {
        assert_eq!(decide(other).await.problem(409)["type"], "/docs/problems/approval-decided");
    }
    for query in ["status=open", "application_id=", "limit=0", "color=red"] {
        let status = given.server.get(&format!("/v1/approvals?{query}")).await.status;
        assert!([400, 404].contains(&status.as_u16()), "{query}: {status}");
    }
    given.server.get("/v1/approvals/00000000-0000-7000-8000-000000000000").await.problem(404);
    given.server.get("/v1/approvals/nobody").await.problem(404);
    given.server.stop().await;
}

#[tokio::test]
async fn calls_of_a_batch_wait_too_and_what_waits_is_counted() {
    let given = given(9).await;
    let calls = json!({ "calls": [{ "capability": "ask", "payload": 1, "callback_url": "http://127.0.0.1:9/told" }, { "capability": "ask", "payload": 2 }] });
    let batch = given.server.post(&given.path("call-batch"), calls).await.expect(200);
    for answer in batch["data"].as_array().unwrap() {
        assert_eq!(answer["source"], "pending", "{batch}");
        assert_eq!(given.approval(answer["approval_id"].as_str().unwrap()).await["status"], "pending");
    }
    for _ in 0..100 {
        let stats = given.server.get("/v1/applications/default/capabilities/ask/stats").await.expect(200);
        if stats["answers"]["pending"] == 2 {
            assert_eq!(
                (&stats["answers"]["error"], &stats["answers"]["fallback"], &stats["answers"]["total"]),
                (&json!(0), &json!(2), &json!(2))
            );
            given.server.stop().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{}", given.server.get("/v1/applications/default/capabilities/ask/stats").await.json());
}
