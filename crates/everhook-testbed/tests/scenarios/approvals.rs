//! Calls that people decide about: what is approved becomes one job, whatever dies in between; what is not ends with a word to its caller.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use everhook_core::{
    calls::{Found, OpenCapability, call::CallRequest},
    ids::{ApplicationId, ApprovalId, EventId, Ref},
    line::request::header,
    manage::{
        Conflict, Refusal, applications,
        approvals::{self, ApprovalView, PENDING_MAX, Verdict},
        jobs::{self, Called, NotQueued},
        manifests,
    },
    model::{Actor, ApprovalEnd, ApprovalStatus, Cursor, JobStatus, PageRequest},
    policy::{address::AddressRules, target::TargetRules},
    ports::{ApprovalFilter, AuditFilter, Clock as _},
};
use everhook_testbed::{Answer, World, faults::Kind, hours, mins, secs};
use serde_json::{Value, json};

const URL: &str = "https://app.example/winner";
const TOLD: &str = "https://platform.example/done";
const GOOD: Answer = Answer::Body(200, r#"{"success": true, "data": {"winner": "b"}}"#);

async fn put_manifest(world: &World, application: ApplicationId) {
    let capability = json!({ "path": "/winner", "timeout": "1s", "circuit_breaker": { "enabled": false },
        "response_schema": { "type": "object", "required": ["winner"] }, "fallback": [{ "type": "manual", "expires_after": "2d" }] });
    let manifest = json!({ "base_url": "https://app.example", "capabilities": { "winner": capability } });
    let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
    manifests::put(world.line(), &world.author(), &Ref::Id(application), manifest.to_string(), &rules).await.expect("it is good");
}

async fn capability(world: &World, application: ApplicationId) -> Arc<OpenCapability> {
    match world.line().calls.find(world.organization, &Ref::Id(application), "winner").await.unwrap() {
        Found::Capability(capability) => capability,
        _ => panic!("there is no such capability"),
    }
}

async fn call(world: &World, callback_url: Option<&str>) -> Result<Called, NotQueued> {
    let (payload, callback_url) = (Bytes::from_static(br#"{"room": "secret room"}"#), callback_url.map(str::to_owned));
    let request =
        CallRequest { payload, charge: None, cache_key: None, timeout: None, trace: None, callback_url, arrived_at: world.clock.now() };
    jobs::call(world.line(), &capability(world, world.application).await, request, "https://hooks.example").await
}

/// A world whose app is away for the next call, and a call that waits for a person.
async fn waiting(callback_url: Option<&str>) -> (World, ApprovalId) {
    let world = World::new().await;
    put_manifest(&world, world.application).await;
    let id = wait(&world, callback_url).await;
    (world, id)
}

async fn wait(world: &World, callback_url: Option<&str>) -> ApprovalId {
    world.network.script(URL, [Answer::Status(500)], GOOD);
    match call(world, callback_url).await {
        Ok(Called::Pending(pending)) => pending.approval,
        other => panic!("{other:?}"),
    }
}

async fn decide(world: &World, id: ApprovalId, verdict: Verdict) -> Result<ApprovalView, Refusal> {
    approvals::decide(world.line(), &world.author(), id, verdict, Some("by hand".to_owned())).await
}

async fn view(world: &World, id: ApprovalId) -> ApprovalView {
    approvals::get(world.line(), world.organization, id).await.expect("it is there")
}

fn job_of(view: &ApprovalView) -> EventId {
    match view.approval.decision.as_ref().map(|decision| &decision.end) {
        Some(ApprovalEnd::Queued { job }) => *job,
        other => panic!("{other:?}"),
    }
}

/// How often the app was asked.
fn asked(world: &World) -> usize {
    world.network.arrivals().iter().filter(|arrival| arrival.url == URL).count()
}

fn told(world: &World) -> Vec<Value> {
    let arrivals = world.network.arrivals().into_iter().filter(|arrival| arrival.url == TOLD);
    arrivals.map(|arrival| serde_json::from_slice(&arrival.request.body).expect("it is JSON")).collect()
}

/// Under which ids the caller was told: told again, it is the same one.
fn told_as(world: &World) -> BTreeSet<String> {
    let arrivals = world.network.arrivals().into_iter().filter(|arrival| arrival.url == TOLD);
    arrivals.map(|arrival| header(&arrival.request.headers, "webhook-id").expect("it has one").to_owned()).collect()
}

async fn jobs_of(world: &World) -> Vec<jobs::Job> {
    let page = PageRequest { limit: 100, cursor: Cursor::Newest };
    jobs::list(world.line(), world.organization, world.application, page).await.unwrap().rows
}

#[tokio::test]
async fn an_approved_call_becomes_a_job_that_asks_the_app_and_tells_the_caller() {
    let (mut world, id) = waiting(Some(TOLD)).await;
    let waits = view(&world, id).await;
    assert_eq!(waits.approval.status(), ApprovalStatus::Pending);
    assert_eq!((waits.payload.as_deref(), waits.callback_url.as_deref()), (Some(&br#"{"room": "secret room"}"#[..]), Some(TOLD)));
    assert!(waits.approval.cause.contains("500"), "{}", waits.approval.cause);
    assert!(!world.files_hold("secret room") || world.is_shared(), "the payload is sealed");
    world.settle_down().await;
    assert_eq!(world.operational_types().await, ["approval.requested"]);
    let approved = decide(&world, id, Verdict::Queue).await.expect("it waits");
    let job = job_of(&approved);
    let decision = approved.approval.decision.as_ref().unwrap();
    assert_eq!((decision.by.clone(), decision.reason.as_deref(), approved.payload.clone()), (world.author().actor, Some("by hand"), None));
    world.pass(secs(2)).await;
    let done = jobs::get(world.line(), world.organization, job).await.unwrap().expect("there is a job");
    assert_eq!((done.status, done.result.as_deref()), (JobStatus::Completed, Some(&br#"{"winner": "b"}"#[..])));
    assert_eq!(done.request_id, Some(waits.approval.request_id.to_string()));
    assert_eq!((asked(&world), told(&world).len(), told(&world)[0]["jobId"].clone()), (2, 1, json!(job.to_string())));
    // The same decision again is answered the same; another one is refused, and nothing happens.
    assert_eq!(job_of(&decide(&world, id, Verdict::Queue).await.expect("it was decided so")), job);
    for other in [Verdict::Reject, Verdict::Answer(Bytes::from_static(br#"{"winner": "c"}"#))] {
        let refused = decide(&world, id, other).await;
        assert!(matches!(refused, Err(Refusal::Conflict(Conflict::ApprovalDecided, _))), "{refused:?}");
    }
    world.pass(hours(1)).await;
    assert_eq!((asked(&world), jobs_of(&world).await.len(), told(&world).len()), (2, 1, 1));
    let page = PageRequest { limit: 10, cursor: Cursor::Newest };
    let filter = AuditFilter { resource: Some(*id.as_uuid()), ..AuditFilter::default() };
    let entries = world.line().ports.audit_log.audit_log(world.organization, filter, page).await.unwrap().rows;
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((entry.action.as_str(), entry.actor.clone()), ("approval.approve", world.author().actor));
    assert!(entry.note.after.as_ref().is_some_and(|after| after.contains("by hand") && after.contains(&job.to_string())), "{entry:?}");
    world.end().await;
}

#[tokio::test]
async fn a_call_that_a_person_answers_or_rejects_ends_without_the_app_and_its_caller_is_told_once() {
    let (mut world, answered) = waiting(Some(TOLD)).await;
    let rejected = wait(&world, Some(TOLD)).await;
    let silent = wait(&world, None).await;
    let data = Bytes::from_static(b"{ \"winner\": 1.0 }");
    let misfit = decide(&world, answered, Verdict::Answer(Bytes::from_static(b"[]"))).await;
    assert!(matches!(&misfit, Err(Refusal::Invalid(faults)) if faults[0].field == "data"), "{misfit:?}");
    for _ in 0..2 {
        let done = decide(&world, answered, Verdict::Answer(data.clone())).await.expect("it fits");
        assert_eq!((done.approval.status(), done.data.as_ref()), (ApprovalStatus::Approved, Some(&data)));
    }
    let other = decide(&world, answered, Verdict::Answer(Bytes::from_static(br#"{"winner": 1}"#))).await;
    assert!(matches!(other, Err(Refusal::Conflict(Conflict::ApprovalDecided, _))), "byte for byte: {other:?}");
    for id in [rejected, silent, rejected] {
        assert_eq!(decide(&world, id, Verdict::Reject).await.expect("it waits").approval.status(), ApprovalStatus::Rejected);
    }
    world.pass(hours(2)).await;
    let told = told(&world);
    assert_eq!(told.len(), 2, "{told:?}");
    let of = |id: ApprovalId| told.iter().find(|told| told["approvalId"] == json!(id.to_string())).expect("it is told").clone();
    let (yes, no) = (of(answered), of(rejected));
    assert_eq!(
        (&yes["status"], &yes["details"]["result"], &yes["source"]),
        (&json!("success"), &json!({ "winner": 1.0 }), &json!("everhook"))
    );
    assert_eq!((&no["status"], &no["error"], &no["details"]["status"]), (&json!("failed"), &json!("by hand"), &json!("rejected")));
    let request = world.network.arrivals().into_iter().find(|arrival| arrival.url == TOLD).unwrap().request;
    let header = |name| header(&request.headers, name).expect(name).to_owned();
    assert_eq!(header("x-webhook-event"), "approval.ended");
    assert!(header("webhook-signature").starts_with("v1,"));
    assert_eq!((asked(&world), jobs_of(&world).await.len()), (3, 0), "the app was asked by the calls alone");
    assert!(!world.files_hold("\"winner\": 1.0") || world.is_shared(), "what a person answered is sealed");
    world.end().await;
}

#[tokio::test]
async fn a_call_about_which_nobody_decides_expires_and_its_caller_is_told() {
    let (mut world, id) = waiting(Some(TOLD)).await;
    world.pass(hours(47)).await;
    assert_eq!((view(&world, id).await.approval.status(), told(&world).len()), (ApprovalStatus::Pending, 0));
    world.pass(hours(2)).await;
    let expired = view(&world, id).await.approval;
    assert_eq!((expired.status(), expired.decision.unwrap().by, expired.call), (ApprovalStatus::Expired, Actor::Server, None));
    assert_eq!((told(&world).len(), told(&world)[0]["details"]["status"].clone()), (1, json!("expired")));
    let late = decide(&world, id, Verdict::Queue).await;
    assert!(matches!(late, Err(Refusal::Conflict(Conflict::ApprovalDecided, _))), "{late:?}");
    world.pass(hours(72)).await;
    assert_eq!((told(&world).len(), asked(&world)), (1, 1));
    world.end().await;
}

#[tokio::test]
async fn as_many_calls_wait_as_may_and_those_of_another_application_do_not_count() {
    let (world, id) = waiting(None).await;
    world.network.script(URL, [], Answer::Status(500));
    for _ in 1..PENDING_MAX {
        assert!(matches!(call(&world, None).await, Ok(Called::Pending(_))));
    }
    assert!(matches!(call(&world, None).await, Err(NotQueued::TooManyPending)));
    let other = world.another_application().await;
    put_manifest(&world, other).await;
    let request = CallRequest {
        charge: None,
        payload: Bytes::from_static(b"1"),
        cache_key: None,
        timeout: None,
        trace: None,
        callback_url: None,
        arrived_at: world.clock.now(),
    };
    let called = jobs::call(world.line(), &capability(&world, other).await, request, "https://hooks.example").await;
    assert!(matches!(called, Ok(Called::Pending(_))), "{called:?}");
    decide(&world, id, Verdict::Reject).await.expect("it waits");
    assert!(matches!(call(&world, None).await, Ok(Called::Pending(_))), "there is room again");
    world.settle_down().await;
    world.end().await;
}

#[tokio::test]
async fn approvals_go_with_their_application() {
    let (mut world, id) = waiting(Some(TOLD)).await;
    let other = world.another_application().await;
    put_manifest(&world, other).await;
    applications::delete(world.line(), &world.author(), &Ref::Id(other)).await.expect("it is there");
    let filter = ApprovalFilter { application: Some(other), status: None };
    world.pass(mins(1)).await;
    let page = PageRequest { limit: 10, cursor: Cursor::Newest };
    assert_eq!(approvals::list(world.line(), world.organization, filter, page).await.unwrap().rows.len(), 0);
    assert_eq!(view(&world, id).await.approval.status(), ApprovalStatus::Pending);
    world.end().await;
}

#[tokio::test]
async fn an_approved_call_becomes_one_job_wherever_the_process_dies() {
    // The store fails at one step of deciding, and the process dies with it: what is decided was decided in one write, and what follows from it is done by
    // whoever comes next.
    for (verdict, jobs, requests) in [(Verdict::Queue, 1, 2), (Verdict::Reject, 0, 1)] {
        for kind in [Kind::Before, Kind::After] {
            let mut struck = 0;
            for passing in 0..60 {
                let (mut world, id) = waiting(Some(TOLD)).await;
                world.settle_down().await;
                world.faults.plan(passing, kind);
                // Whoever asked may hear nothing.
                let _ = decide(&world, id, verdict.clone()).await;
                let has_struck = world.faults.has_struck();
                world.faults.forget();
                world.crash().await;
                world.pass(mins(5)).await;
                let before = view(&world, id).await.approval.status();
                // And asks again.
                let again = decide(&world, id, verdict.clone()).await.expect("it is decided so, or not yet");
                world.pass(mins(5)).await;
                let found = (jobs_of(&world).await.len(), told_as(&world).len());
                assert_eq!(found, (jobs, 1), "call {passing} {kind:?}, it was {before:?}");
                // Whoever died in a request makes it again, under the same ids.
                assert!(asked(&world) == requests || (jobs == 1 && asked(&world) > requests), "call {passing} {kind:?}");
                assert_eq!(again.approval.status(), view(&world, id).await.approval.status());
                let first = ApprovalId::from_uuid(uuid::Uuid::nil());
                assert_eq!(world.line().ports.approvals.unpublished_approvals(first, 10).await.unwrap(), []);
                world.end().await;
                if !has_struck {
                    break;
                }
                struck += 1;
            }
            assert!(struck >= 4, "only {struck} calls were made");
        }
    }
}

#[tokio::test]
async fn an_approved_call_becomes_one_job_whichever_call_of_the_store_fails() {
    for kind in [Kind::Before, Kind::After] {
        let mut struck = 0;
        for passing in 0..60 {
            let (mut world, id) = waiting(Some(TOLD)).await;
            world.settle_down().await;
            world.faults.plan(passing, kind);
            let mut decided = decide(&world, id, Verdict::Queue).await;
            for _ in 0..3 {
                if decided.is_err() {
                    decided = decide(&world, id, Verdict::Queue).await;
                }
            }
            world.pass(mins(5)).await;
            let has_struck = world.faults.has_struck();
            world.faults.forget();
            let job = job_of(&view(&world, id).await);
            assert_eq!(jobs_of(&world).await.iter().map(|job| job.id).collect::<Vec<_>>(), [job], "call {passing} {kind:?}");
            // If what the app answered could not be kept, the job asks again under the same id, as every job does.
            assert!((2..=3).contains(&asked(&world)), "call {passing} {kind:?}");
            assert_eq!(told_as(&world).len(), 1, "call {passing} {kind:?}");
            world.end().await;
            if !has_struck {
                break;
            }
            struck += 1;
        }
        assert!(struck >= 4, "only {struck} calls were made");
    }
}

#[tokio::test]
async fn a_call_waits_whichever_call_of_the_store_fails_or_its_caller_is_told_that_it_does_not() {
    for kind in [Kind::Before, Kind::After] {
        for passing in 0..4 {
            let mut world = World::new().await;
            put_manifest(&world, world.application).await;
            world.network.script(URL, [], Answer::Status(500));
            capability(&world, world.application).await;
            world.settle_down().await;
            world.faults.plan(passing, kind);
            let called = call(&world, None).await;
            world.settle_down().await;
            world.faults.forget();
            let page = PageRequest { limit: 10, cursor: Cursor::Newest };
            let kept = approvals::list(world.line(), world.organization, ApprovalFilter::default(), page).await.unwrap().rows.len();
            match called {
                Ok(Called::Pending(_)) => assert_eq!(kept, 1),
                Err(_) => assert!(kept == 0 || kind == Kind::After, "an unknown outcome is an error to its caller"),
                other => panic!("{other:?}"),
            }
            world.leaves_work_over();
            world.end().await;
        }
    }
}
