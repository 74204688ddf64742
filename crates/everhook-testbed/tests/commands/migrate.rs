//! `everhook migrate`, between the death of a server on a folder and the life of a node on PostgreSQL.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, body::Bytes, extract, http::StatusCode, routing::post};
use everhook::cli::client::{Connection, Server};
use everhook_adapters::postgres::{PostgresSettings, PostgresStore};
use everhook_adapters::sqlite::sealing_at_rest;
use everhook_testbed::{
    database::{Database, SEAL_KEY},
    node::{Node, command},
};
use http::Method;
use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls};

use super::{run, scratch, started, stderr, stdout};

/// How many events are published before the move.
const EVENTS: u64 = 20;
/// Retries are a second apart, in order one after the other; this machine may be busy.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// A receiver that is down until it is told to be up. It remembers what it took: the endpoint's name, and the event's number.
struct Receiver {
    address: SocketAddr,
    is_up: AtomicBool,
    taken: Mutex<Vec<(String, u64)>>,
}

impl Receiver {
    async fn start() -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let receiver = Arc::new(Self { address, is_up: AtomicBool::new(false), taken: Mutex::default() });
        let app = Router::new().route("/{endpoint}", post(receive)).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        receiver
    }

    fn taken_by(&self, endpoint: &str) -> Vec<u64> {
        let taken = self.taken.lock().expect("no panic while it was held");
        taken.iter().filter(|(name, _)| name == endpoint).map(|(_, number)| *number).collect()
    }
}

async fn receive(
    extract::State(receiver): extract::State<Arc<Receiver>>,
    extract::Path(endpoint): extract::Path<String>,
    body: Bytes,
) -> StatusCode {
    if !receiver.is_up.load(Ordering::SeqCst) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let body: Value = serde_json::from_slice(&body).expect("deliveries are JSON");
    let number = body["data"]["number"].as_u64().expect("the data as it was published");
    receiver.taken.lock().expect("no panic while it was held").push((endpoint, number));
    StatusCode::OK
}

/// A server with two endpoints that are down, one of which wants order, and what waits for them.
async fn with_a_backlog(receiver: &Receiver) -> (Node, Value) {
    let node = started().await;
    let mut connection = Connection::new(node.server());
    for (name, ordering) in [("ordered", "strict"), ("any", "none")] {
        let endpoint = json!({
            "url": format!("http://{}/{name}", receiver.address),
            "event_types": ["move.test"],
            "ordering": ordering,
            "retry_config": {"max_attempts": 50, "base_delay_ms": 1000, "max_delay_ms": 1000},
            "circuit_breaker": {"enabled": false},
        });
        connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.expect("the endpoint is made");
    }
    for number in 0..EVENTS {
        connection.ask(Method::POST, "/v1/events", Some(&event(number))).await.expect("it is accepted");
    }
    let key = json!({"name": "publisher", "scopes": ["publish"]});
    let key = connection.ask(Method::POST, "/v1/api-keys", Some(&key)).await.expect("the key is made");
    (node, key)
}

fn event(number: u64) -> Value {
    json!({"type": "move.test", "data": {"number": number}, "idempotency_key": format!("key-{number}")})
}

/// Migrates, and kills it with SIGKILL in the middle of a table.
async fn migrate_and_kill(folder: &Path, database: &Database) {
    // The tables are made first, so that one of them can be locked against writing.
    let settings = PostgresSettings { url: database.url(), node: "nobody".to_owned(), pool: Default::default() };
    drop(PostgresStore::open(&settings).await.expect("the tables are made"));
    let client = connect(database).await;
    client.batch_execute("BEGIN; LOCK TABLE open_deliveries IN SHARE MODE").await.expect("the table is locked");
    let mut migrate = command();
    migrate.args(["migrate", "--json", "--to", &database.url(), "--from"]).arg(folder);
    let kill = move || {
        let mut migrate = migrate.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the binary runs");
        let lines = BufReader::new(migrate.stdout.take().expect("its output")).lines();
        let mut told = lines.map(|line| line.expect("a line"));
        assert!(told.any(|line| line.contains("open_deliveries")), "it never came to the deliveries that are open");
        migrate.kill().expect("it can be killed");
        migrate.wait().expect("it is gone");
    };
    tokio::task::spawn_blocking(kill).await.expect("no panic");
}

async fn connect(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waited_in_a_folder_is_delivered_by_a_node_on_postgresql() {
    // Given a server whose endpoints are down, killed with a backlog.
    let receiver = Receiver::start().await;
    let (mut old, key) = with_a_backlog(&receiver).await;
    let (database, folder) = (Database::create().await, old.data());
    let (from, to) = (folder.display().to_string(), database.url());
    let migrate = ["migrate", "--from", &from, "--to", &to];
    let in_use = run(&migrate).await;
    assert!(!in_use.status.success() && stderr(&in_use).contains("is in use by another everhook process"), "{}", stderr(&in_use));
    old.kill();

    // When it is moved, and the move is killed, too, no node starts until it is done again.
    migrate_and_kill(&folder, &database).await;
    let key_file = folder.join("seal.key").display().to_string();
    let elsewhere = tempfile::tempdir_in(scratch()).expect("a folder");
    let data = elsewhere.path().display().to_string();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--database", &to, "--data", &data, "--seal-key-file", &key_file];
    let early = run(&serve).await;
    assert!(!early.status.success() && stderr(&early).contains("run `everhook migrate`"), "{}", stderr(&early));
    let moved = run(&migrate).await;
    assert!(moved.status.success(), "{}{}", stdout(&moved), stderr(&moved));
    assert!(stdout(&moved).contains("continuing an earlier run"), "{}", stdout(&moved));
    assert!(stdout(&moved).contains(&format!("EVERHOOK_SEAL_KEY_FILE={key_file}")), "{}", stdout(&moved));
    let again = run(&migrate).await;
    assert!(
        again.status.success() && stdout(&again).contains("was already copied into this database"),
        "{}{}",
        stdout(&again),
        stderr(&again)
    );

    // Then a node with the same key delivers what waited, in order where order was asked for,
    let mut new = Node::new(scratch()).with_flags(["--database", &to, "--seal-key-file", &key_file]);
    new.start();
    new.wait_until_ready().await;
    receiver.is_up.store(true, Ordering::SeqCst);
    let all: Vec<u64> = (0..EVENTS).collect();
    let deadline = Instant::now() + ARRIVAL_TIMEOUT;
    while receiver.taken_by("ordered").len() < all.len() || receiver.taken_by("any").len() < all.len() {
        assert!(Instant::now() < deadline, "{:?} {:?}", receiver.taken_by("ordered"), receiver.taken_by("any"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(receiver.taken_by("ordered"), all);
    let mut any = receiver.taken_by("any");
    any.sort_unstable();
    assert_eq!(any, all);
    assert_continues(&new, &key).await;
}

/// Keys that were given, made and counted on the folder are still so.
async fn assert_continues(node: &Node, key: &Value) {
    let publisher = Server::new(&node.url().parse().expect("a URL"), key["key"].as_str()).expect("an address");
    let mut connection = Connection::new(publisher);
    let known = connection.ask(Method::POST, "/v1/events", Some(&event(3))).await.expect("the old API key works");
    assert_eq!((&known["duplicate"], &known["sequence_number"]), (&json!(true), &json!(4)), "{known}");
    let new = connection.ask(Method::POST, "/v1/events", Some(&event(EVENTS))).await.expect("it is accepted");
    assert_eq!((&new["duplicate"], &new["sequence_number"]), (&json!(false), &json!(EVENTS + 1)), "{new}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_sent_to_a_key_file_that_does_not_hold_the_folders_key() {
    // Given a folder whose key file was replaced.
    let mut old = started().await;
    old.kill();
    let (database, folder) = (Database::create().await, old.data());
    let needed = sealing_at_rest(&folder).expect("the folder can be read").expect("the id of its key").key.to_string();
    let (needed, key_file) = (needed.as_str(), folder.join("seal.key").display().to_string());
    std::fs::write(&key_file, SEAL_KEY).expect("the file is replaced");
    // When it is moved, it is said before and after that this is not the key that nodes need,
    let (from, to) = (folder.display().to_string(), database.url());
    let moved = run(&["migrate", "--from", &from, "--to", &to]).await;
    assert!(moved.status.success(), "{}{}", stdout(&moved), stderr(&moved));
    assert!(
        stderr(&moved).contains(&format!("Warning: the secrets in this folder are encrypted with the sealing key {needed}")),
        "{}",
        stderr(&moved)
    );
    assert!(stdout(&moved).contains(&format!("({needed}): NOT {key_file}, which contains another key")), "{}", stdout(&moved));
    // and so it is.
    let elsewhere = tempfile::tempdir_in(scratch()).expect("a folder");
    let data = elsewhere.path().display().to_string();
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--database", &to, "--data", &data, "--seal-key-file", &key_file]).await;
    assert!(
        !refused.status.success() && stderr(&refused).contains(&format!("encrypted with the sealing key {needed}")),
        "{}",
        stderr(&refused)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_waits_for_the_lock_of_one_that_was_just_killed_and_not_for_ever() {
    // Given a database that still holds the lock of a process that is gone.
    let mut old = started().await;
    old.kill();
    let (database, from) = (Database::create().await, old.data().display().to_string());
    let settings = PostgresSettings { url: database.url(), node: "nobody".to_owned(), pool: Default::default() };
    drop(PostgresStore::open(&settings).await.expect("the tables are made"));
    let lock = async || {
        let client = connect(&database).await;
        client.batch_execute("BEGIN; SELECT 1 FROM node_locks WHERE name = 'moves' FOR UPDATE").await.expect("the lock is taken");
        client
    };
    let to = database.url();
    let migrate = ["migrate", "--from", &from, "--to", &to];
    // When the database notices after two seconds, the move is made.
    let held = lock().await;
    let noticed = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(held);
    };
    let (moved, ()) = tokio::join!(run(&migrate), noticed);
    assert!(moved.status.success(), "{}{}", stdout(&moved), stderr(&moved));
    // A lock that stays is somebody's who is alive.
    let _held = lock().await;
    let refused = run(&migrate).await;
    assert!(
        !refused.status.success() && stderr(&refused).contains("another `everhook migrate`"),
        "{}{}",
        stdout(&refused),
        stderr(&refused)
    );
}
