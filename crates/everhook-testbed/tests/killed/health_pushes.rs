//! A health provider that pushes each summary until it is answered, some of them again, and some of them corrected; and what must be in the metrics then.
//!
//! The summaries of one user come one after the other, to one server. So the last that was accepted about a day is what its metric must say: a push that is
//! lost, a correction that is overtaken by what it corrects, and a second row for the same summary all show there.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use everhook::cli::client::{Connection, Server};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// How many users there are. Each has a provider's connection of its own.
const USERS: usize = 6;
/// The pause between two pushes about a user: together they stay below what a debug build processes on a busy machine.
const PAUSE: Duration = Duration::from_millis(60);
/// The pause before an unanswered push is sent again.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// What a correction adds to the steps.
const CORRECTION: u64 = 100_000;
/// How long nothing may be processed while something is still to come: retries of what a busy store refused come after a minute.
const STALL_MAX: Duration = Duration::from_secs(100);

/// What the metrics of a user must be: the steps of each day, by the time at which it begins.
pub type Steps = BTreeMap<String, f64>;

/// Creates a source with the health processor, and connects the users.
pub async fn prepare(server: Arc<Server>) {
    let mut connection = Connection::new(server);
    let source = json!({"name": "watch", "kind": "garmin", "processor": "health", "rate_limit": {"per_ip_per_minute": 1_000_000}});
    connection.ask(Method::POST, "/v1/sources", Some(&source)).await.expect("the source is made");
    for user in 0..USERS {
        let connected = json!({"provider": "garmin", "external_user_id": user_name(user), "profile_id": user_name(user)});
        connection.ask(Method::POST, "/v1/health/connections", Some(&connected)).await.expect("the user is connected");
    }
}

fn user_name(user: usize) -> String {
    format!("user-{user}")
}

/// Providers under way.
pub struct Providers {
    must_stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Pushed>>,
}

/// What one provider pushed and was answered.
#[derive(Default)]
pub struct Pushed {
    /// What its user's metrics must be.
    pub steps: Steps,
    /// How many pushes were answered with a success.
    pub accepted: usize,
    /// Those among them that were sent once more on purpose.
    pub repeated: usize,
    /// Those among them that corrected an earlier one.
    pub corrected: usize,
}

impl Providers {
    /// Starts pushing, the users spread evenly over these servers.
    pub fn start_at(servers: &[Arc<Server>]) -> Self {
        let must_stop = Arc::new(AtomicBool::new(false));
        let one = |user: usize| tokio::spawn(push_all(servers[user % servers.len()].clone(), user, must_stop.clone()));
        Self { tasks: (0..USERS).map(one).collect(), must_stop }
    }

    /// Stops when each provider has its last answer; what was pushed about each user.
    pub async fn stop(self) -> Vec<Pushed> {
        self.must_stop.store(true, Ordering::Relaxed);
        let mut pushed = Vec::new();
        for task in self.tasks {
            pushed.push(task.await.expect("a provider does not panic"));
        }
        pushed
    }
}

async fn push_all(server: Arc<Server>, user: usize, must_stop: Arc<AtomicBool>) -> Pushed {
    let (mut connection, mut pushed) = (Connection::new(server.without_key()), Pushed::default());
    for day in 0.. {
        if must_stop.load(Ordering::Relaxed) {
            break;
        }
        push_until_answered(&mut connection, user, day, day, &mut pushed).await;
        if day % 4 == 1 {
            push_until_answered(&mut connection, user, day, day, &mut pushed).await;
            pushed.repeated += 1;
        }
        if day % 3 == 2 {
            push_until_answered(&mut connection, user, day, day + CORRECTION, &mut pushed).await;
            pushed.corrected += 1;
        }
    }
    pushed
}

async fn push_until_answered(connection: &mut Connection, user: usize, day: u64, steps: u64, pushed: &mut Pushed) {
    // Days of 28-day months: any of them exists.
    let date = format!("{:04}-{:02}-{:02}", 2000 + day / 336, 1 + day / 28 % 12, 1 + day % 28);
    let summary = json!({"userId": user_name(user), "summaryId": format!("{user}-{day}"), "calendarDate": date, "steps": steps});
    let body = json!({"dailies": [summary]}).to_string();
    loop {
        match connection.send(Method::POST, "/in/watch", body.clone()).await {
            Ok(answer) if answer.status.is_success() => break,
            // A server that is starting or dying may say so.
            Ok(answer) => assert_eq!(answer.status.as_u16(), 503, "{}", String::from_utf8_lossy(&answer.body)),
            Err(_) => {}
        }
        tokio::time::sleep(TRY_AGAIN_AFTER).await;
    }
    pushed.accepted += 1;
    pushed.steps.insert(format!("{date}T00:00:00Z"), steps as f64);
    tokio::time::sleep(PAUSE).await;
}

/// Waits until the metrics of every user are exactly what was pushed.
pub async fn wait_until_processed(server: Arc<Server>, pushed: &[Pushed], seed: u64) {
    let mut connection = Connection::new(server);
    let (mut found_before, mut deadline) = (0, Instant::now() + STALL_MAX);
    loop {
        let (mut found, mut wrong) = (0, None);
        for (user, expected) in pushed.iter().enumerate() {
            let rows = steps_of(&mut connection, user).await;
            found += rows.len();
            wrong = wrong.or_else(|| difference(&expected.steps, &rows).map(|what| format!("user {user}: {what}")));
        }
        let Some(wrong) = wrong else { return };
        if found > found_before {
            (found_before, deadline) = (found, Instant::now() + STALL_MAX);
        }
        assert!(Instant::now() < deadline, "{wrong} (SEED={seed})");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// The rows of one user's steps: when the day begins, and how many. A second row for a day is there twice.
async fn steps_of(connection: &mut Connection, user: usize) -> Vec<(String, f64)> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/health/metrics?profile_id={}&metric_type=steps&limit=250{cursor}", user_name(user));
        let page = connection.ask(Method::GET, &path, None).await.expect("a page of metrics");
        let row = |row: &Value| (row["start_time"].as_str().expect("a time").to_owned(), row["value_num"].as_f64().expect("a number"));
        rows.extend(page["data"].as_array().expect("rows").iter().map(row));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return rows,
        }
    }
}

fn difference(expected: &Steps, rows: &[(String, f64)]) -> Option<String> {
    let found: Steps = rows.iter().cloned().collect();
    if found.len() != rows.len() {
        return Some(format!("{} rows for {} days", rows.len(), found.len()));
    }
    let wrong = expected.iter().find(|(day, steps)| found.get(*day) != Some(steps));
    let told = |(day, steps): (&String, &f64)| format!("{day} must have {steps} steps and has {:?}", found.get(day));
    wrong.map(told).or_else(|| (found.len() > expected.len()).then(|| "there are days that nobody pushed".to_owned()))
}

/// Asserts that nothing of the source is dead, and says how many events it has.
pub async fn assert_none_is_dead(server: Arc<Server>) -> usize {
    let mut connection = Connection::new(server);
    let dead = connection.ask(Method::GET, "/v1/dlq?limit=5", None).await.expect("a page of dead letters");
    assert_eq!(dead["data"], json!([]), "a push that could be processed is dead");
    let (mut count, mut cursor) = (0, String::new());
    loop {
        let page =
            connection.ask(Method::GET, &format!("/v1/sources/watch/events?limit=250{cursor}"), None).await.expect("a page of events");
        count += page["data"].as_array().expect("rows").len();
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return count,
        }
    }
}
