//! Publishers that never give up: what was not answered is published again with the same idempotency key until it is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use everhook::cli::client::{Connection, Server};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const PUBLISHERS: usize = 8;
/// The pause between two events of a publisher: together they stay below what a debug build delivers on a busy machine.
const PAUSE: Duration = Duration::from_millis(8);
/// The pause before an unanswered publish is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// An event that was answered with a yes.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// What the sink finds in its data.
    pub number: u64,
    /// The id that the server gave it.
    pub id: String,
    /// Its place in the application; `None` if it was spooled, and has none yet.
    pub sequence_number: Option<i64>,
    /// When the answer came.
    pub at: Instant,
    /// Whether an earlier try of it was not answered.
    pub was_repeated: bool,
}

/// Publishers under way.
#[derive(Default)]
pub struct Publishers {
    must_stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Vec<Accepted>>>,
}

impl Publishers {
    /// Starts publishing, spread evenly over these servers.
    pub fn start_at(servers: &[Arc<Server>], event_type: &'static str) -> Self {
        let must_stop = Arc::new(AtomicBool::new(false));
        let next = Arc::new(AtomicU64::new(0));
        let one = |place: usize| {
            let connection = Connection::new(servers[place % servers.len()].clone());
            tokio::spawn(publish(connection, event_type, next.clone(), must_stop.clone()))
        };
        let tasks = (0..PUBLISHERS).map(one).collect();
        Self { must_stop, tasks }
    }

    /// Stops when each publisher has its last answer; returns everything that was accepted.
    pub async fn stop(&mut self) -> Vec<Accepted> {
        self.must_stop.store(true, Ordering::Relaxed);
        let mut accepted = Vec::new();
        for task in self.tasks.drain(..) {
            accepted.extend(task.await.expect("a publisher does not panic"));
        }
        accepted
    }
}

async fn publish(mut connection: Connection, event_type: &str, next: Arc<AtomicU64>, must_stop: Arc<AtomicBool>) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    while !must_stop.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        accepted.push(publish_until_answered(&mut connection, event_type, number).await);
        tokio::time::sleep(PAUSE).await;
    }
    accepted
}

async fn publish_until_answered(connection: &mut Connection, event_type: &str, number: u64) -> Accepted {
    let body = body(event_type, number).to_string();
    let mut was_repeated = false;
    loop {
        match connection.send(Method::POST, "/v1/events", body.clone()).await {
            Ok(answer) if answer.status.is_success() => {
                let answer = answer.into_json().expect("a 2xx is JSON");
                let id = answer["id"].as_str().expect("an event has an id").to_owned();
                let sequence_number = answer["sequence_number"].as_i64();
                return Accepted { number, id, sequence_number, at: Instant::now(), was_repeated };
            }
            // A server that is starting or dying may say so; anything else is a fault of this test or of the server.
            Ok(answer) => assert_eq!(answer.status.as_u16(), 503, "{}", String::from_utf8_lossy(&answer.body)),
            Err(_) => was_repeated = true,
        }
        tokio::time::sleep(TRY_AGAIN_AFTER).await;
    }
}

/// The body of a publish. The same number makes the same key.
pub fn body(event_type: &str, number: u64) -> Value {
    json!({"type": event_type, "data": {"number": number}, "idempotency_key": format!("kill-{number}")})
}
