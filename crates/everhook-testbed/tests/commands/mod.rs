//! The commands of the real binary, used as a person or a script would use them.

mod archive;
mod capture;
mod deploy;
mod doctor;
mod documents;
mod email;
mod example_calls;
mod full_disk;
mod migrate;
mod prometheus_rules;
mod retention;
mod sns;
mod starting;

use std::{
    path::Path,
    process::{Output, Stdio},
};

use everhook_testbed::node::{ADMIN_KEY, Node, command};
use serde_json::{Value, json};

use self::capture::Capture;

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

async fn started() -> Node {
    let mut node = Node::new(scratch());
    node.start();
    node.wait_until_ready().await;
    node
}

/// Runs a command to its end without blocking the servers of the test.
pub(crate) async fn run(args: &[&str]) -> Output {
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let run = move || command().args(args).env("NO_COLOR", "1").stdin(Stdio::null()).output().expect("the binary runs");
    tokio::task::spawn_blocking(run).await.expect("no panic")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn publish_says_what_became_of_the_event() {
    let node = started().await;
    let url = node.url();
    let publish =
        ["publish", "--url", &url, "--key", ADMIN_KEY, "--type", "user.created", "--data", r#"{"id":1}"#, "--idempotency-key", "k"];
    let first = run(&publish).await;
    assert!(stdout(&first).contains("accepted: no matching endpoint"), "{}{}", stdout(&first), stderr(&first));
    let second = run(&publish).await;
    assert!(stdout(&second).contains("was already published with this idempotency key"), "{}", stdout(&second));
    let json = run(&[&publish[..], &["--json"]].concat()).await;
    let answer: Value = serde_json::from_str(&stdout(&json)).expect("JSON");
    assert_eq!(answer["duplicate"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn publish_fails_with_the_servers_reason() {
    let node = started().await;
    let url = node.url();
    let refused = run(&["publish", "--url", &url, "--key", ADMIN_KEY, "--type", "not a type", "--data", "1"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("422: type"), "{}", stderr(&refused));
    let stranger = run(&["publish", "--url", &url, "--key", "eh_nobody_has_this_key_here", "--type", "a", "--data", "1"]).await;
    assert!(stderr(&stranger).contains("401:"), "{}", stderr(&stranger));
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_believes_a_captured_request_and_nothing_else() {
    let node = started().await;
    let captured = Capture::of_one_request(&node).await;
    let body = scratch().join(format!("body-{}", captured.headers["webhook-id"]));
    std::fs::write(&body, &captured.body).expect("the body is written");
    let body = body.display().to_string();
    let header = |name: &str| captured.headers[name].as_str();
    let standard = ["--id", header("webhook-id"), "--timestamp", header("webhook-timestamp"), "--signature", header("webhook-signature")];
    let right = ["verify", "--secret", &captured.secrets[0], "--body", &body];
    let valid = run(&[&right[..], &standard].concat()).await;
    assert_eq!((valid.status.code(), stdout(&valid).starts_with("valid:")), (Some(0), true), "{}{}", stdout(&valid), stderr(&valid));
    let timestamped = run(&[&right[..], &["--signature", header("x-webhook-signature")]].concat()).await;
    assert_eq!(timestamped.status.code(), Some(0), "{}", stdout(&timestamped));
    let wrong = ["verify", "--secret", "another secret of somebody", "--body", &body];
    let invalid = run(&[&wrong[..], &standard].concat()).await;
    assert_eq!((invalid.status.code(), stdout(&invalid).starts_with("invalid:")), (Some(1), true), "{}", stdout(&invalid));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_delivers_retries_and_buries_and_every_signature_is_right() {
    let demo = run(&["demo", "--events", "10", "--rate", "20"]).await;
    let text = stdout(&demo);
    assert!(demo.status.success(), "{text}{}", stderr(&demo));
    for expected in
        ["steady", "flaky", "slow", "broken", "gone", "200 OK", "410 Gone", "attempt 2", "dead letter after 2 attempts", "10 events, "]
    {
        assert!(text.contains(expected), "`{expected}` is missing in:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "NO_COLOR was not respected");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bench_measures_and_proves_every_scenario() {
    let data = scratch().display().to_string();
    let bench = run(&["bench", "--quick", "--json", "--events", "200", "--data", &data]).await;
    assert!(bench.status.success(), "{}{}", stdout(&bench), stderr(&bench));
    let report: Value = serde_json::from_str(&stdout(&bench)).expect("JSON");
    let scenarios = report["scenarios"].as_array().expect("scenarios");
    let deliveries: Vec<(&str, u64)> =
        scenarios.iter().map(|line| (line["scenario"].as_str().expect("a name"), line["deliveries"].as_u64().expect("a number"))).collect();
    assert_eq!(deliveries, [("one", 200), ("fan-out", 2_000), ("batch", 200), ("low-load", 200)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bench_of_receiving_finds_everything_again_that_was_accepted() {
    let data = scratch().display().to_string();
    let bench = run(&["bench", "--receive", "--quick", "--json", "--events", "60", "--data", &data]).await;
    assert!(bench.status.success(), "{}{}", stdout(&bench), stderr(&bench));
    let report: Value = serde_json::from_str(&stdout(&bench)).expect("JSON");
    // Twice 60 pushes at full speed, five batches of a thousand, and 60 to dead destinations.
    assert_eq!((&report["accepted"], &report["found_after_kill"]), (&json!(5_180), &json!(5_180)), "{report}");
    for name in ["handshake_get", "handshake_post", "stored", "forwarded", "batch", "dead_destinations"] {
        assert!(report["measured"][name]["answer_ms"]["p99"].as_f64().is_some_and(|p99| p99 > 0.0), "{name}: {report}");
    }
    assert!(report["verifying_10_kib_us"].as_f64().is_some_and(|us| us > 0.0), "{report}");
}

/// Not a check by itself: writes what scripts/verify-signatures checks with the official packages of other languages.
#[tokio::test(flavor = "multi_thread")]
async fn captured_requests_are_written_for_the_official_packages() {
    let node = started().await;
    let cases = [("one secret", Capture::of_one_request(&node).await), ("rotation", Capture::of_a_request_during_rotation(&node).await)];
    assert_eq!(cases[1].1.headers["webhook-signature"].split(' ').count(), 2, "a rotation signs with both secrets");
    let cases: Vec<Value> = cases
        .iter()
        .map(|(name, captured)| json!({"name": name, "secrets": captured.secrets, "headers": captured.headers, "body": captured.body}))
        .collect();
    std::fs::write(scratch().join("captured-requests.json"), Value::from(cases).to_string()).expect("the fixture is written");
}
