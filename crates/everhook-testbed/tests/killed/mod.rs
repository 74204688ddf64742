//! The real binary, killed with SIGKILL again and again under load: nothing that it accepted may be lost, and nothing may be sent
//! twice but what was under way when it died.
//!
//! `KILLS` (20) says how often, `SEED` repeats a run. The sum of each test is written to standard error, also when it passes.

mod health;
mod job_app;
mod jobs;
mod received;
mod resealing;
mod two_servers;

// Also used by the tests of several nodes.
pub mod health_pushes;
pub mod publishers;
pub mod sink;

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use everhook::cli::client::Connection;
use everhook_testbed::{
    dice::{Dice, seed_of_run},
    node::{Node, is_nothing_open},
};
use http::Method;
use serde_json::{Value, json};

use self::{
    publishers::Publishers,
    sink::{Arrivals, Behavior, Sink},
};

/// How long after the last accepted event everything must be settled.
const QUIET_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest that an outcome may stay unwritten: the engine sends nothing new past it. What arrived earlier than this before a kill
/// must not arrive again.
const UNWRITTEN_MAX: Duration = Duration::from_secs(1);
/// What the server wrote just before its death may be read a little after it: this machine is busy.
const LATE_READ_MAX: Duration = Duration::from_millis(250);
/// How long an accepted event may wait for its first request while the server is up.
const STALL_MAX: Duration = Duration::from_secs(5);
/// The time from one start to the next kill, in milliseconds. The shortest hit a server that is still starting.
const LIFE: std::ops::Range<u64> = 20..900;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_accepted_event_is_delivered_however_often_the_server_is_killed() {
    // Given two endpoints that always answer 200, and publishers that never stop.
    let mut trial = Trial::start(Behavior::Steady, 2, json!({})).await;
    // When the server is killed and started again, at random moments.
    trial.kill_again_and_again(kills()).await;
    let accepted = trial.publishers.stop().await;
    trial.wait_until_quiet(accepted.len() * 2, 0).await;
    // Then each event arrived at both, as one event, and again only if its answer was on the way when the server died.
    let arrivals = trial.sink.arrivals();
    for event in &accepted {
        for endpoint in 0..2 {
            let of_event =
                arrivals.get(&(endpoint, event.number)).unwrap_or_else(|| panic!("event {} is lost at endpoint {endpoint}", event.number));
            assert!(
                of_event.iter().all(|arrival| arrival.webhook_id == event.id),
                "event {} became two events: {of_event:?}",
                event.number
            );
        }
    }
    // No two have one place in the application.
    let places: BTreeSet<i64> = accepted.iter().filter_map(|event| event.sequence_number).collect();
    assert_eq!(places.len(), accepted.len());
    let repeated = trial.assert_repeats_were_under_way(&arrivals);
    trial.assert_keys_still_find_their_events(&accepted).await;
    let stall = trial.longest_stall(&accepted, &arrivals);
    trial.tell("steady", accepted.len(), arrivals.len(), 0, repeated, stall);
    assert!(stall <= STALL_MAX, "an event waited {stall:?} while the server was up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_and_dead_letters_outlive_every_kill() {
    // Given an endpoint that refuses some events once and some for ever, with two retries a second apart.
    // Its breaker is off: at the end only refused ones are left, and an open breaker would rightly make them wait for minutes.
    let settings = json!({
        "retry_config": {"max_attempts": 3, "base_delay_ms": 1000, "max_delay_ms": 1000},
        "circuit_breaker": {"enabled": false},
    });
    let mut trial = Trial::start(Behavior::Flaky, 1, settings).await;
    trial.kill_again_and_again(kills().div_ceil(2)).await;
    let accepted = trial.publishers.stop().await;
    let (doomed, healing): (Vec<_>, Vec<_>) = accepted.iter().partition(|event| Behavior::is_refused_for_ever(event.number));
    // When all is settled.
    let dead = trial.wait_until_quiet(healing.len(), doomed.len()).await;
    // Then what can be delivered was, what cannot is a dead letter, once, and no event was both or neither.
    let arrivals = trial.sink.arrivals();
    for event in &healing {
        let delivered = arrivals.get(&(0, event.number)).is_some_and(|of_event| of_event.iter().any(|arrival| arrival.was_accepted));
        assert!(delivered, "event {} is lost", event.number);
    }
    let mut dead_ids: Vec<&str> = dead.iter().filter_map(|letter| letter["event_id"].as_str()).collect();
    let mut doomed_ids: Vec<&str> = doomed.iter().map(|event| event.id.as_str()).collect();
    dead_ids.sort_unstable();
    doomed_ids.sort_unstable();
    assert_eq!(dead_ids, doomed_ids, "dead letters and refused events are not the same");
    assert!(dead.iter().all(|letter| letter["attempt_count"] == 3), "a dead letter was not tried exactly 3 times");
    let repeated = trial.assert_repeats_were_under_way(&arrivals);
    let stall = trial.longest_stall(&accepted, &arrivals);
    trial.tell("flaky", accepted.len(), healing.len(), dead.len(), repeated, stall);
}

fn kills() -> usize {
    std::env::var("KILLS").ok().map_or(20, |text| text.parse().expect("KILLS is a number"))
}

/// From ready to killed: when the server could have sent something.
struct Life {
    ready_at: Instant,
    killed_at: Instant,
}

/// A server, a sink and publishers.
struct Trial {
    node: Node,
    sink: Arc<Sink>,
    publishers: Publishers,
    seed: u64,
    dice: Dice,
    lives: Vec<Life>,
}

impl Trial {
    async fn start(manners: Behavior, endpoints: u32, settings: Value) -> Self {
        let mut trial = Self::start_without_publishers(manners, endpoints, settings).await;
        trial.publishers = Publishers::start_at(&[trial.node.server()], "kill.test");
        trial
    }

    async fn start_without_publishers(manners: Behavior, endpoints: u32, settings: Value) -> Self {
        let seed = seed_of_run();
        let sink = Sink::start(manners).await;
        let mut node = Node::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
        node.start();
        node.wait_until_ready().await;
        let mut connection = Connection::new(node.server());
        for number in 0..endpoints {
            let mut endpoint = json!({"url": format!("http://{}/e/{number}", sink.address), "event_types": ["kill.test"]});
            endpoint.as_object_mut().expect("an object").extend(settings.as_object().expect("an object").clone());
            connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
        }
        Self { node, sink, publishers: Publishers::default(), seed, dice: Dice::new(seed), lives: Vec::new() }
    }

    async fn kill_again_and_again(&mut self, kills: usize) {
        for _ in 0..kills {
            let dies_at = Instant::now() + Duration::from_millis(self.dice.within(LIFE));
            let ready_at = self.node.ready_before(dies_at).await;
            tokio::time::sleep_until(dies_at.into()).await;
            self.node.kill();
            let killed_at = Instant::now();
            self.lives.push(Life { ready_at: ready_at.unwrap_or(killed_at), killed_at });
            self.node.start();
        }
        let ready_at = self.node.wait_until_ready().await;
        self.lives.push(Life { ready_at, killed_at: ready_at + QUIET_TIMEOUT });
    }

    /// Waits until that many (event, endpoint) were accepted by the sink, that many are dead, and none is open; answers the dead.
    async fn wait_until_quiet(&self, delivered: usize, dead: usize) -> Vec<Value> {
        let deadline = Instant::now() + QUIET_TIMEOUT;
        let mut connection = Connection::new(self.node.server());
        loop {
            let arrived = self.sink.accepted();
            let letters = if arrived >= delivered { dead_letters(&mut connection).await } else { Vec::new() };
            if arrived >= delivered && letters.len() >= dead && is_nothing_open(&mut connection).await {
                return letters;
            }
            let told = format!("{arrived} of {delivered} delivered, {} of {dead} dead (SEED={})", letters.len(), self.seed);
            assert!(Instant::now() < deadline, "not quiet after {QUIET_TIMEOUT:?}: {told}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Every arrival after an accepted one must be explained by a kill between the two, shortly after the first.
    fn assert_repeats_were_under_way(&self, arrivals: &Arrivals) -> usize {
        let mut repeated = 0;
        for ((endpoint, number), of_event) in arrivals {
            let first = of_event.iter().position(|arrival| arrival.was_accepted).unwrap_or(of_event.len());
            for pair in of_event[first..].windows(2) {
                let [before, after] = pair else { unreachable!("windows of two") };
                let was_under_way = |life: &Life| {
                    let (from, to) = (before.at - LATE_READ_MAX, before.at + UNWRITTEN_MAX);
                    (from..=to).contains(&life.killed_at) && life.killed_at <= after.at
                };
                let told = || {
                    let next_kill = self.lives.iter().map(|life| life.killed_at).find(|killed_at| *killed_at > before.at);
                    let (again_after, killed_after) = (after.at - before.at, next_kill.map(|killed_at| killed_at - before.at));
                    format!("again after {again_after:?}, killed after {killed_after:?}: {of_event:?} (SEED={})", self.seed)
                };
                assert!(self.lives.iter().any(was_under_way), "event {number} came twice to {endpoint} without a reason: {}", told());
                repeated += 1;
            }
        }
        repeated
    }

    /// Publishing again with a key whose answer was once lost must find the event that the key made.
    async fn assert_keys_still_find_their_events(&self, accepted: &[publishers::Accepted]) {
        let mut connection = Connection::new(self.node.server());
        for event in accepted.iter().filter(|event| event.was_repeated) {
            let answer =
                connection.ask(Method::POST, "/v1/events", Some(&publishers::body("kill.test", event.number))).await.expect("an answer");
            assert_eq!((answer["id"].as_str(), &answer["duplicate"]), (Some(event.id.as_str()), &json!(true)), "event {}", event.number);
        }
    }

    /// The longest time, counted while the server was up, from acceptance to the first arrival.
    fn longest_stall(&self, accepted: &[publishers::Accepted], arrivals: &Arrivals) -> Duration {
        let waits = accepted.iter().filter_map(|event| Some(self.uptime(event.at, first_arrival(arrivals, event.number)?)));
        waits.max().unwrap_or_default()
    }

    fn uptime(&self, from: Instant, to: Instant) -> Duration {
        let overlap = |life: &Life| life.killed_at.min(to).saturating_duration_since(life.ready_at.max(from));
        self.lives.iter().map(overlap).sum()
    }

    fn tell(&self, name: &str, accepted: usize, delivered: usize, dead: usize, repeated: usize, stall: Duration) {
        let kills = self.lives.len() - 1;
        let _ = writeln!(
            std::io::stderr(),
            "killed ({name}): {kills} kills, {accepted} accepted, {delivered} delivered, {dead} dead, {repeated} repeated, longest stall {} ms (SEED={})",
            stall.as_millis(),
            self.seed
        );
    }
}

/// When an event had arrived at every endpoint for the first time.
fn first_arrival(arrivals: &Arrivals, number: u64) -> Option<Instant> {
    (0..2).filter_map(|endpoint| arrivals.get(&(endpoint, number))).map(|of_event| of_event[0].at).max()
}

/// Every dead letter, page by page.
async fn dead_letters(connection: &mut Connection) -> Vec<Value> {
    let mut letters = Vec::new();
    let mut path = "/v1/dlq?limit=250".to_owned();
    loop {
        let page = connection.ask(Method::GET, &path, None).await.expect("a page of dead letters");
        letters.extend(page["data"].as_array().expect("rows").iter().cloned());
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/dlq?limit=250&cursor={cursor}"),
            None => return letters,
        }
    }
}
