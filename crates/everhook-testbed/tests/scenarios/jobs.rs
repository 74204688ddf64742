//! Jobs: an app that answers later is asked until it has the job, its callback counts once, and what it does not do becomes a dead letter.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use everhook_core::{
    calls::{
        Found, OpenCapability,
        call::{self, CallRequest},
    },
    ids::{EventId, OrganizationId, Ref},
    limits::evaluations::EvaluationThreads,
    line::recall,
    manage::{
        deliveries,
        jobs::{self, CallbackFor, CallbackRefusal, Called, Job, QueuedCall},
        manifests,
    },
    model::{BreakerState, FailureCategory, JobStatus, LaneKind, SignatureStyle, Stage},
    policy::{address::AddressRules, calls::answer::FailureKind, target::TargetRules},
    ports::Clock as _,
    signing::{Keys, Signable, sign},
    time::Timestamp,
};
use everhook_testbed::{Answer, World, faults::Kind, hours, mins, secs};
use serde_json::{Value, json};

const URL: &str = "https://app.example/work";
const DONE: &str = r#"{"success": true, "result": {"rows": 7}}"#;

/// Puts a manifest with the capability `report` that calls back within a minute, and `sum`, which is queued if it fails.
async fn put_manifest(world: &World) {
    put_capabilities(
        world,
        json!({
            "report": { "path": "/work", "async": true, "timeout": "1m" },
            "sum": { "path": "/sum", "timeout": "1s", "circuit_breaker": { "enabled": false }, "fallback": [{ "type": "queue" }] },
        }),
    )
    .await;
}

async fn put_capabilities(world: &World, capabilities: Value) {
    let manifest = json!({ "base_url": "https://app.example", "capabilities": capabilities });
    let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
    manifests::put(world.line(), &world.author(), &Ref::Id(world.application), manifest.to_string(), &rules).await.expect("it is good");
}

async fn capability(world: &World, name: &str) -> Arc<OpenCapability> {
    match world.line().calls.find(world.organization, &Ref::Id(world.application), name).await.unwrap() {
        Found::Capability(capability) => capability,
        _ => panic!("there is no such capability"),
    }
}

async fn call(world: &World, name: &str) -> Called {
    call_telling(world, name, None).await
}

async fn call_telling(world: &World, name: &str, callback_url: Option<&str>) -> Called {
    let (payload, callback_url) = (Bytes::from_static(br#"{"room": 1}"#), callback_url.map(str::to_owned));
    let request =
        CallRequest { payload, charge: None, cache_key: None, timeout: None, trace: None, callback_url, arrived_at: world.clock.now() };
    jobs::call(world.line(), &capability(world, name).await, request, "https://hooks.example").await.expect("it is accepted")
}

async fn queue(world: &World) -> EventId {
    match call(world, "report").await {
        Called::Queued(queued) => queued.job,
        other => panic!("{other:?}"),
    }
}

async fn job(world: &World, id: EventId) -> Job {
    jobs::get(world.line(), world.organization, id).await.unwrap().expect("there is a job")
}

/// The tokens that the app was given for a job, one a request.
fn tokens(world: &World, job: EventId) -> Vec<String> {
    let begins = format!("https://hooks.example/api/v1/callbacks/report/{job}?token=");
    let token = |body: &[u8]| {
        let body: Value = serde_json::from_slice(body).expect("it is JSON");
        assert_eq!(body["room"], 1);
        body["callbackUrl"].as_str().expect("there is a URL").strip_prefix(&begins).map(str::to_owned)
    };
    let arrivals = world.network.arrivals().into_iter().filter(|arrival| arrival.url == URL);
    arrivals.filter_map(|arrival| token(&arrival.request.body)).collect()
}

async fn call_back(world: &World, job: EventId, token: &str, body: &'static str) -> Result<(), CallbackRefusal> {
    let record = jobs::find_answerable(world.line(), CallbackFor { capability: "report", job, token }).await?;
    jobs::call_back(world.line(), &record, &Bytes::from_static(body.as_bytes())).await
}

#[tokio::test]
async fn a_job_is_done_when_the_app_calls_back_and_only_the_first_word_counts() {
    let mut world = World::new().await;
    put_manifest(&world).await;
    let id = queue(&world).await;
    world.pass(secs(1)).await;
    let sent = job(&world, id).await;
    assert_eq!((sent.status, sent.attempts, sent.capability.as_deref()), (JobStatus::Sent, 1, Some("report")));
    let token = tokens(&world, id).remove(0);
    // A forged or foreign token, another job and another capability find nothing.
    for (capability, job, token) in
        [("report", id, "forged"), ("sum", id, &*token), ("report", EventId::from_uuid(uuid::Uuid::nil()), &*token)]
    {
        let found = jobs::find_answerable(world.line(), CallbackFor { capability, job, token }).await;
        assert!(matches!(found, Err(CallbackRefusal::NotFound)), "{capability}");
    }
    assert!(matches!(call_back(&world, id, &token, "{}").await, Err(CallbackRefusal::Invalid(_))));
    call_back(&world, id, &token, DONE).await.expect("it is taken");
    world.pass(secs(1)).await;
    let done = job(&world, id).await;
    assert_eq!((done.status, done.result.as_deref(), done.error), (JobStatus::Completed, Some(&br#"{"rows": 7}"#[..]), None));
    // The same again is answered the same; another word comes too late.
    call_back(&world, id, &token, DONE).await.expect("it was taken");
    for other in [r#"{"success": false}"#, r#"{"success": true}"#] {
        assert!(matches!(call_back(&world, id, &token, other).await, Err(CallbackRefusal::Ended)), "{other}");
    }
    world.pass(mins(10)).await;
    assert_eq!((tokens(&world, id).len(), world.stages(id).await), (1, vec!["delivered".to_owned()]));
    assert!(!world.files_hold("rows") || world.is_shared(), "the result is sealed");
}

#[tokio::test]
async fn an_app_is_asked_as_often_and_in_such_steps_as_its_manifest_says() {
    // The delays between attempts, in seconds, as the manifest says; jitter moves each by 30 % at most.
    let table: [(Value, &[u64]); 5] = [
        (json!({ "enabled": true, "maxAttempts": 3, "backoff": "exponential" }), &[1, 2]),
        (json!({ "enabled": false }), &[]),
        (json!({ "max_attempts": 5, "backoff": "linear" }), &[1, 2, 3, 4]),
        (json!({ "max_attempts": 4, "backoff": "fixed" }), &[1, 1, 1]),
        (json!({ "max_attempts": 7 }), &[1, 2, 4, 8, 16, 30]),
    ];
    let mut world = World::new().await;
    for (retry, delays) in table {
        put_capabilities(&world, json!({ "report": { "path": "/work", "async": true, "timeout": "1m", "retry": retry } })).await;
        world.network.script(URL, [], Answer::Body(200, r#"{"success": false, "error": {"code": "BUSY", "retryable": true}}"#));
        let before = world.network.arrivals().len();
        let id = queue(&world).await;
        world.pass(mins(5)).await;
        let arrivals = world.network.arrivals().split_off(before);
        let gaps: Vec<f64> = arrivals.windows(2).map(|two| two[1].at.since(two[0].at).as_secs_f64()).collect();
        assert_eq!(gaps.len(), delays.len(), "{retry}: {gaps:?}");
        for (gap, delay) in gaps.iter().zip(delays) {
            let delay = f64::from(u32::try_from(*delay).unwrap());
            assert!((delay * 0.7 - 0.01..=delay * 1.3 + 0.1).contains(gap), "{retry}: {gaps:?}");
        }
        let max = everhook_core::line::request::header(&arrivals[0].request.headers, "x-max-attempts");
        assert_eq!(max, Some(&*(delays.len() + 1).to_string()), "{retry}");
        assert_eq!(job(&world, id).await.status, JobStatus::Dead, "{retry}");
    }
}

#[tokio::test]
async fn an_app_says_how_far_it_is_until_its_job_has_ended_and_moves_no_deadline() {
    let mut world = World::new().await;
    put_manifest(&world).await;
    let id = queue(&world).await;
    world.pass(secs(1)).await;
    assert_eq!(job(&world, id).await.progress, None);
    let token = tokens(&world, id).remove(0);
    let said = |job: &Job| job.progress.as_ref().map(|progress| (progress.percent, progress.message.clone()));
    call_back(&world, id, &token, r#"{"progress": 10.5, "message": "reading"}"#).await.expect("it is taken");
    let begun = job(&world, id).await;
    assert_eq!((begun.status, said(&begun)), (JobStatus::Sent, Some((10, Some("reading".to_owned())))));
    // The same at once is taken and changes nothing; anything else within a second is not.
    call_back(&world, id, &token, r#"{"progress": 10, "message": "reading"}"#).await.expect("it was taken");
    let refused = call_back(&world, id, &token, r#"{"progress": 11}"#).await;
    assert!(matches!(refused, Err(CallbackRefusal::TooSoon { wait }) if wait <= secs(1)), "{refused:?}");
    assert_eq!(job(&world, id).await, begun);
    world.crash().await;
    world.pass(secs(1)).await;
    call_back(&world, id, &token, r#"{"progress": 100}"#).await.expect("a second is over");
    assert_eq!(said(&job(&world, id).await), Some((100, None)));
    assert!(matches!(call_back(&world, id, &token, r#"{"progress": 101}"#).await, Err(CallbackRefusal::Invalid(_))));
    // It has not ended for all that: the app is asked again when its minute is over, and begins again.
    world.pass(mins(1)).await;
    let again = job(&world, id).await;
    assert_eq!((again.status, again.progress.clone(), tokens(&world, id).len()), (JobStatus::Sent, None, 2));
    call_back(&world, id, &token, r#"{"progress": 50, "message": "half"}"#).await.expect("the first request's token is good");
    call_back(&world, id, &token, DONE).await.expect("it is taken");
    world.pass(secs(2)).await;
    let done = job(&world, id).await;
    assert_eq!((done.status, said(&done)), (JobStatus::Completed, Some((50, Some("half".to_owned())))));
    // What comes now comes too late, whatever it says.
    for late in [r#"{"progress": 50, "message": "half"}"#, r#"{"progress": 51}"#] {
        assert!(matches!(call_back(&world, id, &token, late).await, Err(CallbackRefusal::Ended)), "{late}");
    }
    let dead = queue(&world).await;
    world.pass(mins(10)).await;
    let last = tokens(&world, dead).pop().unwrap();
    assert!(matches!(call_back(&world, dead, &last, r#"{"progress": 1}"#).await, Err(CallbackRefusal::Ended)));
}

#[tokio::test]
async fn a_callback_that_is_quicker_than_the_answer_counts() {
    let mut world = World::new().await;
    put_manifest(&world).await;
    world.network.script(URL, [Answer::Slow(202, secs(5))], Answer::Status(500));
    let id = queue(&world).await;
    world.pass(secs(1)).await;
    call_back(&world, id, &tokens(&world, id)[0], DONE).await.expect("it is taken");
    assert_eq!(job(&world, id).await.status, JobStatus::Completed);
    world.pass(mins(2)).await;
    assert_eq!((tokens(&world, id).len(), world.stages(id).await), (1, vec!["delivered".to_owned()]));
}

#[tokio::test]
async fn without_a_callback_the_app_is_asked_three_times_and_then_there_is_a_dead_letter_that_can_be_retried() {
    let mut world = World::new().await;
    put_manifest(&world).await;
    let tower = world.operational;
    let watch = world.endpoint().of(tower).wanting("job.dead").create().await;
    let id = queue(&world).await;
    world.pass(mins(10)).await;
    let dead = world.dead_letters().await;
    assert_eq!((dead.len(), dead[0].kind, dead[0].target.as_str()), (1, LaneKind::Capability, "report"));
    assert_eq!((tokens(&world, id).len(), job(&world, id).await.status), (3, JobStatus::Dead));
    let told: Value = serde_json::from_slice(&world.arrivals_of(&watch).remove(0).request.body).unwrap();
    assert_eq!((&told["type"], &told["data"]["job_id"]), (&json!("job.dead"), &json!(id.to_string())));
    // What comes now comes too late.
    for token in tokens(&world, id) {
        assert!(matches!(call_back(&world, id, &token, DONE).await, Err(CallbackRefusal::Ended)));
    }
    // A person brings it back, and the app does it.
    recall::recall(world.line(), world.organization, dead[0].id).await.expect("it is dead");
    world.pass(secs(1)).await;
    assert_eq!((tokens(&world, id).len(), job(&world, id).await.status), (4, JobStatus::Sent));
    call_back(&world, id, &tokens(&world, id)[3], DONE).await.expect("it is taken");
    world.pass(secs(1)).await;
    assert_eq!(job(&world, id).await.status, JobStatus::Completed);
    assert_eq!(world.arrivals_of(&watch).len(), 1);
}

#[tokio::test]
async fn an_app_that_reports_a_failure_is_asked_again_only_if_it_wants_to_be() {
    let mut world = World::new().await;
    put_manifest(&world).await;
    let (again, never) = (queue(&world).await, queue(&world).await);
    world.pass(secs(1)).await;
    let given = [tokens(&world, again).remove(0), tokens(&world, never).remove(0)];
    call_back(&world, again, &given[0], r#"{"success": false, "error": {"message": "busy", "retryable": true}}"#)
        .await
        .expect("it is taken");
    call_back(&world, never, &given[1], r#"{"success": false, "error": {"code": "BAD"}}"#).await.expect("it is taken");
    world.pass(secs(10)).await;
    assert_eq!((tokens(&world, again).len(), tokens(&world, never).len()), (2, 1), "one is asked again");
    let failed = job(&world, never).await;
    assert_eq!((failed.status, failed.error.as_deref()), (JobStatus::Failed, Some(&br#"{"code":"BAD"}"#[..])));
    assert_eq!(world.dead_letters().await[0].last_error, "the app reported: BAD");
    call_back(&world, again, &tokens(&world, again)[1], DONE).await.expect("it is taken");
    world.pass(secs(1)).await;
    assert_eq!(job(&world, again).await.status, JobStatus::Completed);
}

#[tokio::test]
async fn an_app_that_refuses_for_good_is_not_asked_again_and_one_that_fails_is() {
    let mut world = World::new().await;
    put_manifest(&world).await;
    let refuses = Answer::Body(200, r#"{"success": false, "error": {"code": "NO", "retryable": false}}"#);
    world.network.script(URL, [refuses, Answer::Status(503), Answer::Fails(FailureCategory::Network)], Answer::Status(202));
    let refused = queue(&world).await;
    world.pass(secs(1)).await;
    assert_eq!((job(&world, refused).await.status, world.dead_letters().await.len()), (JobStatus::Dead, 1));
    let taken = queue(&world).await;
    world.pass(secs(20)).await;
    let sent = job(&world, taken).await;
    assert_eq!((sent.status, sent.attempts, tokens(&world, taken).len()), (JobStatus::Sent, 3, 3));
    let last = world.network.arrivals().pop().unwrap().request;
    let header = |name| everhook_core::line::request::header(&last.headers, name).map(str::to_owned);
    assert_eq!((header("x-retry-attempt").as_deref(), header("x-max-attempts").as_deref()), (Some("3"), Some("3")));
    deliveries::cancel(world.line(), &world.author(), sent.delivery).await.expect("it is parked");
    assert_eq!(job(&world, taken).await.status, JobStatus::Cancelled);
    assert!(matches!(call_back(&world, taken, &tokens(&world, taken)[2], DONE).await, Err(CallbackRefusal::Ended)));
}

#[tokio::test]
async fn while_an_app_is_away_for_an_hour_most_jobs_wait_behind_its_breaker_and_none_is_lost() {
    let mut world = World::new().await;
    put_manifest(&world).await;
    world.network.script(URL, [], Answer::Fails(FailureCategory::Network));
    let mut queued = Vec::new();
    for _ in 0..30 {
        queued.push(queue(&world).await);
        world.pass(mins(2)).await;
    }
    world.network.script(URL, [], Answer::Status(202));
    world.pass(mins(5)).await;
    let mut counts = (0, 0);
    for id in &queued {
        match world.deliveries_of(*id).await.remove(0).stage {
            Stage::Dead { .. } => counts.0 += 1,
            Stage::Parked(_) | Stage::Waiting { .. } => counts.1 += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(counts.0 + counts.1, 30);
    assert_eq!(world.dead_letters().await.len(), counts.0);
    world.pass(hours(12)).await;
    // Nobody called back: all of them end where a person can see them.
    world.assert_promises(&queued).await;
    assert_eq!(world.dead_letters().await.len(), 30);
}

#[tokio::test]
async fn a_call_that_fails_becomes_a_job_whose_answer_is_its_result() {
    let mut world = World::new().await;
    put_manifest(&world).await;
    let sum = "https://app.example/sum";
    world.network.script(sum, [Answer::Status(500), Answer::Status(500)], Answer::Body(200, r#"{"success": true, "data": [1, 2.0]}"#));
    let Called::Queued(queued) = call(&world, "sum").await else { panic!("its fallback queues it") };
    assert!(queued.warning.expect("it says why").contains("500"));
    world.pass(secs(10)).await;
    let done = job(&world, queued.job).await;
    assert_eq!((done.status, done.result.as_deref()), (JobStatus::Completed, Some(&b"[1, 2.0]"[..])));
    assert_eq!(done.request_id, Some(queued.request_id.to_string()));
    let asked = world.network.arrivals().into_iter().filter(|arrival| arrival.url == sum).collect::<Vec<_>>();
    assert_eq!(asked.len(), 3);
    let ids: Vec<_> = asked.iter().map(|one| everhook_core::line::request::header(&one.request.headers, "x-request-id")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "one call, one id");
    assert_eq!(asked[2].request.body, &br#"{"room": 1}"#[..], "nobody is asked to call back");
}

#[tokio::test]
async fn a_job_ends_once_wherever_the_node_crashes() {
    for crashes_after in 0..6 {
        let mut world = World::new().await;
        put_manifest(&world).await;
        world.network.script(URL, [Answer::Slow(202, secs(2))], Answer::Status(202));
        let id = queue(&world).await;
        for step in 0..6 {
            if step == crashes_after {
                world.crash().await;
            }
            match step {
                0 | 1 => world.pass(secs(1)).await,
                2 => world.pass(secs(5)).await,
                3 => call_back(&world, id, tokens(&world, id).last().unwrap(), DONE).await.expect("it is taken"),
                _ => world.settle_down().await,
            }
        }
        world.pass(mins(3)).await;
        let done = job(&world, id).await;
        assert_eq!((done.status, done.result.as_deref()), (JobStatus::Completed, Some(&br#"{"rows": 7}"#[..])), "crash {crashes_after}");
        assert_eq!((world.stages(id).await, world.dead_letters().await.len()), (vec!["delivered".to_owned()], 0), "crash {crashes_after}");
    }
}

#[tokio::test]
async fn a_job_ends_once_whichever_call_of_the_store_fails() {
    for kind in [Kind::Before, Kind::After] {
        let mut struck = 0;
        for passing in 0..200 {
            let mut world = World::new().await;
            put_manifest(&world).await;
            let id = queue(&world).await;
            world.faults.plan(passing, kind);
            world.pass(secs(5)).await;
            let token = tokens(&world, id).last().expect("the app is asked").clone();
            for _ in 0..3 {
                if call_back(&world, id, &token, DONE).await.is_ok() {
                    break;
                }
            }
            world.pass(mins(3)).await;
            let has_struck = world.faults.has_struck();
            world.faults.forget();
            assert_eq!(world.stages(id).await, ["delivered"], "call {passing} {kind:?}");
            assert_eq!(
                (job(&world, id).await.status, world.dead_letters().await.len()),
                (JobStatus::Completed, 0),
                "call {passing} {kind:?}"
            );
            world.end().await;
            if !has_struck {
                break;
            }
            struck += 1;
        }
        assert!(struck > 5, "only {struck} calls were made");
    }
}

#[tokio::test]
async fn a_capability_that_the_manifest_no_longer_has_ends_its_jobs_as_dead_letters_that_say_so() {
    let mut world = World::new().await;
    put_manifest(&world).await;
    world.network.script(URL, [Answer::Status(503)], Answer::Status(202));
    let id = queue(&world).await;
    world.settle_down().await;
    let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
    let empty = json!({ "base_url": "https://app.example", "capabilities": {} }).to_string();
    manifests::put(world.line(), &world.author(), &Ref::Id(world.application), empty, &rules).await.expect("it is good");
    world.pass(secs(10)).await;
    let dead = world.dead_letters().await;
    assert_eq!((dead.len(), dead[0].last_error.as_str()), (1, "the application's manifest no longer has the capability `report`"));
    assert_eq!(job(&world, id).await.status, JobStatus::Dead);
}

const TOLD: &str = "https://platform.example/done";

async fn queue_telling(world: &World) -> EventId {
    match call_telling(world, "report", Some(TOLD)).await {
        Called::Queued(queued) => queued.job,
        other => panic!("{other:?}"),
    }
}

/// What the caller was told, request by request.
fn told(world: &World) -> Vec<Value> {
    let arrivals = world.network.arrivals().into_iter().filter(|arrival| arrival.url == TOLD);
    arrivals.map(|arrival| serde_json::from_slice(&arrival.request.body).expect("it is JSON")).collect()
}

#[tokio::test]
async fn the_caller_is_told_once_when_its_job_has_ended_and_not_before() {
    let mut world = World::new().await;
    put_manifest(&world).await;
    let id = queue_telling(&world).await;
    world.pass(secs(30)).await;
    assert_eq!((job(&world, id).await.status, told(&world).len()), (JobStatus::Sent, 0));
    call_back(&world, id, &tokens(&world, id)[0], DONE).await.expect("it is taken");
    world.pass(secs(2)).await;
    let asked = job(&world, id).await;
    let expected = json!({ "jobId": id.to_string(), "source": "everhook", "status": "success", "message": "the job is done",
        "details": { "capability": "report", "requestId": asked.request_id, "status": "completed", "attempts": asked.attempts, "result": { "rows": 7 } } });
    assert_eq!(told(&world), [expected]);
    world.pass(hours(3)).await;
    assert_eq!((told(&world).len(), world.stages(id).await), (1, vec!["delivered".to_owned(); 2]));
    // It is signed as webhooks are, with the application's secret.
    let secret = manifests::reveal(world.line(), &world.author(), &Ref::Id(world.application)).await.expect("there is one");
    let request = world.network.arrivals().into_iter().find(|arrival| arrival.url == TOLD).unwrap().request;
    let header = |name| everhook_core::line::request::header(&request.headers, name).expect(name).to_owned();
    assert_eq!((header("webhook-id"), header("x-webhook-attempt")), (id.to_string(), "1".to_owned()));
    let keys = Keys { current: secret.current, previous: None };
    let at = Timestamp::from_secs(header("webhook-timestamp").parse().unwrap());
    let signatures = sign(&keys, &Signable { event: id, at, body: &request.body, style: SignatureStyle::Hex });
    assert_eq!(
        (header("webhook-signature"), header("x-webhook-signature")),
        (signatures.webhook_signature, signatures.x_webhook_signature)
    );
}

#[tokio::test]
async fn the_caller_is_told_of_jobs_that_fail_die_or_are_cancelled() {
    let mut world = World::new().await;
    put_manifest(&world).await;
    let failed = queue_telling(&world).await;
    world.pass(secs(1)).await;
    call_back(&world, failed, &tokens(&world, failed)[0], r#"{"success": false, "error": {"code": "BAD"}}"#).await.expect("it is taken");
    world.pass(secs(2)).await;
    let dead = queue_telling(&world).await;
    world.pass(mins(10)).await;
    let cancelled = queue_telling(&world).await;
    world.pass(secs(1)).await;
    deliveries::cancel(world.line(), &world.author(), job(&world, cancelled).await.delivery).await.expect("it is parked");
    world.pass(mins(20)).await;
    let short: Vec<_> = told(&world)
        .into_iter()
        .map(|told| (told["jobId"].clone(), told["status"].clone(), told["details"]["status"].clone(), told["error"].clone()))
        .collect();
    let expected = |id: EventId, status: &str, error: &str| (json!(id.to_string()), json!("failed"), json!(status), json!(error));
    assert_eq!(short[..2], [expected(failed, "failed", "the app reported: BAD"), expected(dead, "dead", "timed out while parked")]);
    assert_eq!((short.len(), &short[2].0, &short[2].2), (3, &json!(cancelled.to_string()), &json!("cancelled")));
}

#[tokio::test]
async fn a_caller_that_is_away_is_told_again_and_then_there_is_a_dead_letter_while_the_job_stays_done() {
    let mut world = World::new().await;
    put_manifest(&world).await;
    let tower = world.operational;
    let watch = world.endpoint().of(tower).wanting("job.*").create().await;
    world.network.script(TOLD, [Answer::Status(500), Answer::Status(503)], Answer::Status(204));
    world.network.script("https://app.example/sum", [Answer::Status(500)], Answer::Body(200, r#"{"success": true, "data": 3}"#));
    let Called::Queued(queued) = call_telling(&world, "sum", Some(TOLD)).await else { panic!("its fallback queues it") };
    world.pass(secs(20)).await;
    assert_eq!((told(&world).len(), told(&world)[2]["details"]["result"].clone()), (3, json!(3)));
    world.network.script(TOLD, [], Answer::Fails(FailureCategory::Network));
    let id = queue_telling(&world).await;
    world.pass(secs(1)).await;
    call_back(&world, id, &tokens(&world, id)[0], DONE).await.expect("it is taken");
    world.pass(mins(1)).await;
    let dead = world.dead_letters().await;
    assert_eq!((dead.len(), dead[0].event, dead[0].target.as_str()), (1, id, "callback_url"));
    // As the preset `relay` says: four times, 1, 2 and 4 seconds apart, each up to half a second later.
    assert_eq!((job(&world, id).await.status, told(&world).len()), (JobStatus::Completed, 7));
    let at: Vec<_> = world.network.arrivals().into_iter().filter(|arrival| arrival.url == TOLD).map(|arrival| arrival.at).collect();
    for (two, delay) in at[3..].windows(2).zip([1, 2, 4]) {
        let gap = two[1].since(two[0]);
        assert!(gap >= secs(delay) && gap <= secs(delay) + Duration::from_millis(600), "{gap:?} after {delay} s");
    }
    let alerts: Vec<Value> =
        world.arrivals_of(&watch).into_iter().map(|arrival| serde_json::from_slice(&arrival.request.body).unwrap()).collect();
    assert_eq!(
        (alerts.len(), &alerts[0]["type"], &alerts[0]["data"]["job_id"]),
        (1, &json!("job.callback_failed"), &json!(id.to_string()))
    );
    // A person brings it back; nobody asks the app again.
    world.network.script(TOLD, [], Answer::Status(204));
    recall::recall(world.line(), world.organization, dead[0].id).await.expect("it is dead");
    world.pass(secs(2)).await;
    assert_eq!((told(&world).len(), tokens(&world, id).len()), (8, 1));
    assert_eq!(job(&world, queued.job).await.status, JobStatus::Completed);
}

#[tokio::test]
async fn the_caller_is_told_wherever_the_node_crashes_and_whichever_call_of_the_store_fails() {
    for crashes_after in 0..6 {
        let mut world = World::new().await;
        put_manifest(&world).await;
        let id = queue_telling(&world).await;
        for step in 0..6 {
            if step == crashes_after {
                world.crash().await;
            }
            match step {
                0 | 1 => world.pass(secs(2)).await,
                2 => call_back(&world, id, tokens(&world, id).last().unwrap(), DONE).await.expect("it is taken"),
                _ => world.settle_down().await,
            }
        }
        world.pass(mins(15)).await;
        assert!(!told(&world).is_empty() && told(&world).iter().all(|one| one["status"] == "success"), "crash {crashes_after}");
        assert_eq!(world.stages(id).await, ["delivered", "delivered"], "crash {crashes_after}");
    }
    for kind in [Kind::Before, Kind::After] {
        let mut struck = 0;
        for passing in 0..200 {
            let mut world = World::new().await;
            put_manifest(&world).await;
            let id = queue_telling(&world).await;
            world.faults.plan(passing, kind);
            world.pass(secs(5)).await;
            let token = tokens(&world, id).last().expect("the app is asked").clone();
            for _ in 0..3 {
                if call_back(&world, id, &token, DONE).await.is_ok() {
                    break;
                }
            }
            world.pass(mins(15)).await;
            let has_struck = world.faults.has_struck();
            world.faults.forget();
            assert_eq!((world.stages(id).await, told(&world).len()), (vec!["delivered".to_owned(); 2], 1), "call {passing} {kind:?}");
            world.end().await;
            if !has_struck {
                break;
            }
            struck += 1;
        }
        assert!(struck > 5, "only {struck} calls were made");
    }
}

/// More calls of the store than a job makes.
const CALLS_MAX: u32 = 300;

/// What the app was asked, request by request: the job, and the token for its callback.
fn asked(world: &World) -> Vec<(EventId, String)> {
    let read = |body: &[u8]| -> Option<(EventId, String)> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let (job, token) = body["callbackUrl"].as_str()?.rsplit_once('/')?.1.split_once("?token=")?;
        Some((job.parse().ok()?, token.to_owned()))
    };
    world.network.arrivals().into_iter().filter(|arrival| arrival.url == URL).filter_map(|arrival| read(&arrival.request.body)).collect()
}

/// The app says how far it is, and then calls back about every request; what is not taken it says again the next time.
async fn call_back_about_all(world: &World) {
    for (job, token) in asked(world) {
        call_back(world, job, &token, r#"{"progress": 50}"#).await.ok();
        call_back(world, job, &token, DONE).await.ok();
    }
}

/// Queues a job whose caller wants to be told, if the store lets it.
async fn try_queue(world: &World, capability: &Arc<OpenCapability>) -> Option<EventId> {
    let request = CallRequest {
        payload: Bytes::from_static(br#"{"room": 1}"#),
        charge: None,
        cache_key: None,
        timeout: None,
        trace: None,
        callback_url: Some(TOLD.to_owned()),
        arrived_at: world.clock.now(),
    };
    match jobs::call(world.line(), capability, request, "https://hooks.example").await {
        Ok(Called::Queued(queued)) => Some(queued.job),
        _ => None,
    }
}

/// One run in which the process dies at one call of the store: while the job is queued, the app asked, its callback taken, or the caller told. Says whether
/// it did, before all of that was done.
async fn with_one_death(passing: u32, kind: Kind) -> bool {
    let mut world = World::new().await;
    put_manifest(&world).await;
    let report = capability(&world, "report").await;
    // What the call does is the same as in a process that is killed just before or after it: it asks the store for nothing more.
    world.faults.plan_last(passing, kind);
    let queued = try_queue(&world, &report).await;
    for _ in 0..40 {
        if world.faults.has_struck() {
            break;
        }
        world.pass(Duration::from_millis(100)).await;
        call_back_about_all(&world).await;
    }
    let (has_struck, told_before) = (world.faults.has_struck(), told(&world).len());
    world.kill().await;
    world.faults.forget();
    world.faults.set_away(false);
    world.start_again();
    // Who was not answered calls again; what it called first may be a job as well.
    let queued = match queued {
        Some(queued) => queued,
        None => try_queue(&world, &capability(&world, "report").await).await.expect("the store is there"),
    };
    for _ in 0..5 {
        world.pass(secs(2)).await;
        call_back_about_all(&world).await;
    }
    world.pass(mins(15)).await;
    let context = format!("dead at call {passing}, {kind:?}");
    let (reported, mut jobs) = (told(&world), asked(&world).into_iter().map(|(job, _)| job).collect::<Vec<_>>());
    jobs.sort_unstable();
    jobs.dedup();
    assert!(jobs.contains(&queued) && jobs.len() <= 2, "{context}: {jobs:?}");
    for id in &jobs {
        let done = job(&world, *id).await;
        assert_eq!((done.status, done.result.as_deref()), (JobStatus::Completed, Some(&br#"{"rows": 7}"#[..])), "{context}");
        assert_eq!(world.stages(*id).await, ["delivered", "delivered"], "{context}");
        // What was reported before may be reported again, because nobody knows that it was.
        let times = reported.iter().filter(|one| one["jobId"] == id.to_string() && one["status"] == "success").count();
        assert!((1..=1 + told_before.min(1)).contains(&times), "{context}: reported {times} times, {told_before} of them before");
    }
    assert_eq!(world.dead_letters().await.len(), 0, "{context}");
    world.end().await;
    has_struck
}

#[tokio::test]
async fn a_job_ends_once_and_its_caller_is_told_wherever_the_process_dies() {
    for kind in [Kind::Before, Kind::After] {
        let mut passing = 0;
        while with_one_death(passing, kind).await {
            passing += 1;
            assert!(passing < CALLS_MAX, "the scenario makes more than {CALLS_MAX} calls");
        }
        assert!(passing > 8, "the scenario made only {passing} calls");
    }
}

/// An answer of an app that is too large to be checked at once.
fn large() -> &'static str {
    Box::leak(format!(r#"{{"success": true, "data": "{}"}}"#, "x".repeat(100_000)).into_boxed_str())
}

/// The only thread for evaluations is taken by another organization, until what is returned is dropped.
async fn keep_evaluations_busy(world: &World) -> std::sync::mpsc::Sender<()> {
    let (release, released) = std::sync::mpsc::channel();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let line = world.line().clone();
    tokio::spawn(async move {
        let other = OrganizationId::from_uuid(uuid::Uuid::from_u128(1));
        let hold = move || {
            let _ = begun.send(());
            let _ = released.recv();
        };
        line.evaluations.run(other, hours(100), hold).await
    });
    begins.await.expect("it begins");
    release
}

#[tokio::test]
async fn an_answer_that_cannot_be_checked_for_want_of_a_thread_is_held_against_no_app() {
    let mut world = World::new().await;
    world.evaluation_threads = EvaluationThreads::Beside(1);
    world.crash().await;
    let schema = json!({ "type": "string" });
    let manifest = json!({ "base_url": "https://app.example", "capabilities": {
        "ask": { "path": "/ask", "timeout": "10s", "response_schema": schema },
        "sum": { "path": "/sum", "timeout": "10s", "response_schema": schema, "fallback": [{ "type": "queue" }] },
        "report": { "path": "/work", "async": true, "timeout": "10m", "response_schema": schema },
    } });
    let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
    manifests::put(world.line(), &world.author(), &Ref::Id(world.application), manifest.to_string(), &rules).await.expect("it is good");
    let asked = capability(&world, "ask").await;
    world.network.script("https://app.example/ask", [], Answer::Body(200, large()));
    world.network.script("https://app.example/sum", [Answer::Status(500)], Answer::Body(200, large()));
    let release = keep_evaluations_busy(&world).await;

    // Calls: none of the app's failures, so that its breaker stays closed.
    for _ in 0..6 {
        let request = CallRequest {
            payload: Bytes::from_static(b"1"),
            charge: None,
            cache_key: None,
            timeout: None,
            trace: None,
            callback_url: None,
            arrived_at: world.clock.now(),
        };
        let (line, asked) = (world.line().clone(), asked.clone());
        let calling = tokio::spawn(async move { call::call(&line.calls, &asked, request).await });
        world.pass(secs(6)).await;
        let answer = calling.await.unwrap();
        assert_eq!(answer.result.err().map(|failure| failure.kind), Some(FailureKind::OutOfResources));
        assert_eq!(answer.circuit, BreakerState::Closed);
    }
    // Jobs: no attempt.
    let Called::Queued(QueuedCall { job: sum, .. }) = call(&world, "sum").await else { panic!("the app fails at first") };
    world.pass(secs(30)).await;
    let waiting = job(&world, sum).await;
    assert_eq!((waiting.status, waiting.attempts), (JobStatus::Queued, 0));
    // Callbacks: to be repeated.
    let report = queue(&world).await;
    world.pass(secs(1)).await;
    let line = world.line().clone();
    let record = line.ports.jobs.job(report).await.unwrap().expect("there is a job");
    let result = Bytes::from(format!(r#"{{"success": true, "result": "{}"}}"#, "x".repeat(100_000)));
    let told = result.clone();
    let calling_back = tokio::spawn(async move { jobs::call_back(&line, &record, &told).await });
    world.pass(secs(6)).await;
    assert!(matches!(calling_back.await.unwrap(), Err(CallbackRefusal::Busy)));

    drop(release);
    world.evaluation_threads = EvaluationThreads::Inline;
    world.kill().await;
    // Threads that evaluated let go of the store when they end, in real time.
    let mut tries = 0;
    while let Err(error) = world.try_start() {
        tries += 1;
        assert!(tries < 1_000, "{error}");
        std::thread::sleep(std::time::Duration::from_millis(10));
        tokio::task::yield_now().await;
    }
    let record = world.line().ports.jobs.job(report).await.unwrap().expect("there is a job");
    jobs::call_back(world.line(), &record, &result).await.expect("it is taken now");
    world.pass(mins(1)).await;
    for (id, attempts) in [(sum, 1), (report, 2)] {
        let done = job(&world, id).await;
        assert_eq!((done.status, done.attempts), (JobStatus::Completed, attempts));
    }
    world.end().await;
}
