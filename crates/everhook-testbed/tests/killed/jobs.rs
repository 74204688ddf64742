//! Callers that queue jobs, an app that calls back until it is answered, and a server that is killed again and again: each job that was accepted ends once,
//! with the app's result, and its caller is told.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use everhook::cli::client::{Connection, Server};
use everhook_testbed::node::is_nothing_open;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{Trial, dead_letters, job_app::JobApp, kills, sink::Behavior};

const CALLERS: usize = 3;
/// The pause between two calls of a caller, and before it calls again that was not answered.
const PAUSE: Duration = Duration::from_millis(15);
/// How long after the last kill everything must have ended. What a kill kept a caller from being told, it is told when the server looks again.
const QUIET_TIMEOUT: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_accepted_job_ends_once_and_its_caller_is_told_however_often_the_server_is_killed() {
    // Given an app that calls back, before and after it has answered.
    let mut trial = Trial::start_without_publishers(Behavior::Steady, 0, json!({})).await;
    let app = JobApp::start(trial.node.server()).await;
    let mut connection = Connection::new(trial.node.server());
    let manifest = json!({ "base_url": format!("http://{}", app.address), "capabilities": { "work": { "path": "/work", "async": true, "timeout": "10m" } } });
    connection.ask(Method::PUT, "/v1/applications/default/manifest", Some(&manifest)).await.expect("it is good");
    // When jobs are queued, and the server is killed at random moments.
    let (must_stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let told_at = format!("http://{}/told", app.address);
    let caller = |_| tokio::spawn(call_again_and_again(trial.node.server(), told_at.clone(), next.clone(), must_stop.clone()));
    let callers: Vec<JoinHandle<Vec<Accepted>>> = (0..CALLERS).map(caller).collect();
    trial.kill_again_and_again(kills()).await;
    must_stop.store(true, Ordering::Relaxed);
    let mut accepted = Vec::new();
    for caller in callers {
        accepted.extend(caller.await.expect("a caller does not panic"));
    }
    wait_until_quiet(&trial, &app, &accepted).await;
    // Then each is done, with the result that the app reported under one id, and its caller was told, again only if that was under way.
    let seed = trial.seed;
    for Accepted { number, job } in &accepted {
        let shown = connection.ask(Method::GET, &format!("/v1/jobs/{job}"), None).await.expect("the job is there");
        assert_eq!((&shown["status"], &shown["result"]["number"]), (&json!("completed"), &json!(number)), "{shown} (SEED={seed})");
        app.look(|seen| {
            assert_eq!(seen.request_ids[number].len(), 1, "job {number} is one call (SEED={seed})");
            assert!(seen.told[&(0, *number)].iter().all(|told| told.webhook_id == *job), "job {number} became two (SEED={seed})");
        });
    }
    // The same callback is answered the same, also to jobs whose 202 was lost with the server.
    app.look(|seen| {
        for (number, statuses) in &seen.callbacks {
            assert!(statuses.iter().all(|status| *status == 200), "callbacks about {number} were answered {statuses:?} (SEED={seed})");
        }
    });
    assert_eq!(dead_letters(&mut connection).await, Vec::<Value>::new(), "SEED={seed}");
    let told = app.look(|seen| seen.told.clone());
    let repeated = trial.assert_repeats_were_under_way(&told);
    trial.tell("jobs", accepted.len(), told.len(), 0, repeated, Duration::ZERO);
}

/// A call that was answered with 202.
struct Accepted {
    number: u64,
    job: String,
}

async fn call_again_and_again(server: Arc<Server>, told_at: String, next: Arc<AtomicU64>, must_stop: Arc<AtomicBool>) -> Vec<Accepted> {
    let (mut connection, mut accepted) = (Connection::new(server), Vec::new());
    while !must_stop.load(Ordering::Relaxed) {
        // One that was not answered may be a job all the same: the next has a number of its own.
        let number = next.fetch_add(1, Ordering::Relaxed);
        let call = json!({ "payload": { "number": number }, "callback_url": told_at }).to_string();
        if let Ok(answer) = connection.send(Method::POST, "/v1/applications/default/call/work", call).await
            && answer.status != StatusCode::SERVICE_UNAVAILABLE
        {
            assert_eq!(answer.status, StatusCode::ACCEPTED, "call {number}: {}", String::from_utf8_lossy(&answer.body));
            let queued = answer.into_json().expect("it is JSON");
            accepted.push(Accepted { number, job: queued["job_id"].as_str().expect("an id").to_owned() });
        }
        tokio::time::sleep(PAUSE).await;
    }
    accepted
}

/// Waits until every callback was answered, and every caller was told.
async fn wait_until_quiet(trial: &Trial, app: &JobApp, accepted: &[Accepted]) {
    let deadline = Instant::now() + QUIET_TIMEOUT;
    let mut connection = Connection::new(trial.node.server());
    loop {
        let untold: Vec<u64> =
            app.look(|seen| accepted.iter().map(|one| one.number).filter(|number| !seen.told.contains_key(&(0, *number))).collect());
        if untold.is_empty() && app.is_quiet() && is_nothing_open(&mut connection).await {
            return;
        }
        let told = format!("of {} jobs the callers of {untold:?} were not told (SEED={})", accepted.len(), trial.seed);
        assert!(Instant::now() < deadline, "not quiet after {QUIET_TIMEOUT:?}: {told}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
