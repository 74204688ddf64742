//! PostgreSQL is stopped and started again: the node notifies a Slack URL of each outage once, and of its end, and both are recorded afterwards.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Router, body::Bytes, extract::State, routing::post};
use everhook::cli::client::Connection;
use everhook_testbed::{
    database::SEAL_KEY,
    node::Node,
    postgres_server::{PostgresServer, Stop},
};
use http::Method;
use serde_json::{Value, json};

/// How long the node may take to notice something, on a busy machine. It looks every five seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longer than the node keeps rules without looking whether they were changed.
const RULES_READ_WITHIN: Duration = Duration::from_secs(11);
/// How long an outage goes on after it was reported, in which nothing more may be.
const LASTS: Duration = Duration::from_secs(8);
const OUTAGES: usize = 2;

/// A URL that understands what Slack's does.
#[derive(Clone, Default)]
struct Slack {
    texts: Arc<Mutex<Vec<String>>>,
}

impl Slack {
    /// Starts it, and says its URL.
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/services/T/B/X", listener.local_addr().expect("it listens"));
        let router = Router::new().route("/services/T/B/X", post(take)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    /// What it was told: whether an alert fired or is over, and which.
    fn texts(&self) -> Vec<String> {
        self.texts.lock().expect("no test panicked here").clone()
    }

    async fn wait_for(&self, expected: &[&str]) {
        let begun_at = Instant::now();
        while self.texts().len() < expected.len() {
            assert!(begun_at.elapsed() < NOTICED_WITHIN, "it was told {:?}, not {expected:?}", self.texts());
            tokio::time::sleep(LOOK_EVERY).await;
        }
        assert_eq!(self.texts(), expected);
    }
}

async fn take(State(slack): State<Slack>, body: Bytes) -> &'static str {
    let body: Value = serde_json::from_slice(&body).expect("it is JSON");
    let text = body["text"].as_str().expect("a text").replace('\u{200b}', "");
    let title = text.split_once("] ").expect("a label").1.to_owned();
    slack.texts.lock().expect("no test panicked here").push(title);
    "ok"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_outage_of_the_database_is_sent_to_slack_once_and_recorded_when_it_is_over() {
    let (postgres, slack) = (PostgresServer::start(), Slack::default());
    let url = slack.start().await;
    let mut node = Node::new(Path::new(env!("CARGO_TARGET_TMPDIR"))).with_flags(["--database", &postgres.url(), "--seal-key", SEAL_KEY]);
    node.add_flags(&["--slack-url", &url]);
    node.start();
    node.wait_until_ready().await;
    let mut connection = Connection::new(node.server());
    let soon = json!({ "threshold": 2, "for": "1s" });
    connection.ask(Method::PUT, "/v1/alert-rules/database_away", Some(&soon)).await.expect("the rule is changed");
    tokio::time::sleep(RULES_READ_WITHIN).await;
    let mut expected = Vec::new();
    for outage in 0..OUTAGES {
        postgres.stop(if outage == 0 { Stop::Fast } else { Stop::Immediate });
        expected.push("Alert: database_away");
        slack.wait_for(&expected).await;
        tokio::time::sleep(LASTS).await;
        slack.wait_for(&expected).await;
        postgres.start_again();
        expected.push("Alert Resolved: database_away");
        slack.wait_for(&expected).await;
    }
    let alert = wait_for_the_record(&mut connection).await;
    assert_eq!((&alert["state"], &alert["scope"], &alert["fired_in_7_days"]), (&json!("ok"), &json!("server"), &json!(OUTAGES)), "{alert}");
    for event_type in ["alert.fired", "alert.resolved"] {
        let path = format!("/v1/events?application_id=operational&event_type={event_type}");
        let events = connection.ask(Method::GET, &path, None).await.expect("the node answers");
        assert_eq!(events["data"].as_array().map(Vec::len), Some(OUTAGES), "{events}");
    }
    let log = std::fs::read_to_string(node.data().with_file_name("server.log")).expect("its log");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("The database has been away for")).collect();
    assert!(lines.len() == OUTAGES && lines.iter().all(|line| line.contains("ERROR") && line.contains("Check the database")), "{lines:?}");
    slack.wait_for(&expected).await;
}

/// The alert, once both outages are in its history.
async fn wait_for_the_record(connection: &mut Connection) -> Value {
    let begun_at = Instant::now();
    loop {
        let answer = connection.ask(Method::GET, "/v1/alerts?rule=database_away", None).await;
        if let Ok(alerts) = &answer
            && alerts["data"][0]["history"]
                .as_array()
                .is_some_and(|history| history.len() == OUTAGES && history[0]["resolved_at"].is_string())
        {
            return alerts["data"][0].clone();
        }
        assert!(begun_at.elapsed() < NOTICED_WITHIN, "it is not recorded: {answer:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
