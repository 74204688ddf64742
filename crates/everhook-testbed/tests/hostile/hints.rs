//! A role that reads one organization's reports, at its worst against the nodes of a shared store: it forges hints and holds every lock that it can get.
//!
//! Needs the PostgreSQL that `scripts/services up` starts; without one, every test says loudly that it was skipped.

use std::{
    io::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, routing::post};
use everhook::cli::client::Connection;
use everhook_testbed::{
    database::{Database, SEAL_KEY, execute, execute_apart, server},
    node::Node,
    skipped::skipped,
};
use http::Method;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};
use url::Url;
use uuid::Uuid;

use super::arena::{Arena, Bounds};

/// How long the attack lasts.
const ATTACK: Duration = Duration::from_secs(3);
/// How many sessions forge hints.
const FORGERS: usize = 4;
/// The name of the channel was once this, for everybody.
const FORMER_CHANNEL: &str = "everhook_waiting_2";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_role_that_forges_hints_and_holds_locks_delays_nobody_and_a_third_node_starts() {
    let Some(shared) = SharedArena::start().await else { return };
    let role = ReportRole::create(&shared).await;
    // Given two nodes that publish, deliver, and have an endpoint whose events go in order,
    let watch = shared.arena.watch().await;
    let statuses = Statuses::watch(&shared.arena);
    // when a role holds what it can get, and forges hints on every channel that it knows of,
    let _held = role.hold_locks().await;
    let forging = role.forge(FORMER_CHANNEL).await;
    tokio::time::sleep(ATTACK).await;
    // then nobody was delayed,
    watch.end("a report role forges hints and holds locks").await;
    // and a third node starts, which takes over its share of the lanes, and nothing was spooled.
    let mut third = shared.node();
    third.start();
    let began = Instant::now();
    third.wait_until_ready().await;
    let started_after = began.elapsed();
    let forged = forging.end().await;
    let _ = writeln!(std::io::stderr(), "attack `report role`: {forged} notifications, a third node started after {started_after:?}");
    statuses.were_ok().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_that_are_forged_on_the_nodes_own_channel_cost_little_and_delay_nobody() {
    let Some(shared) = SharedArena::start().await else { return };
    let role = ReportRole::create(&shared).await;
    let owner = connect(&shared.database.address()).await;
    // The code before has no such column, and the former name.
    let channel = owner.query_one("SELECT hint_channel FROM installation", &[]).await.map_or(FORMER_CHANNEL.to_owned(), |row| row.get(0));
    let watch = shared.arena.watch().await;
    let statuses = Statuses::watch(&shared.arena);
    let forging = role.forge(&channel).await;
    tokio::time::sleep(ATTACK).await;
    let forged = forging.end().await;
    let _ = writeln!(std::io::stderr(), "attack `forged hints`: {forged} notifications");
    statuses.were_ok().await;
    // Hints beyond the bound are dropped, whoever sent them: then a lane's owner finds what waits when it next looks, which is each second.
    let bounds =
        Bounds { first_attempt_max: Bounds::of_this_run().first_attempt_max.max(Duration::from_millis(1_500)), ..Bounds::of_this_run() };
    watch.end_within("hints forged on the nodes' own channel", bounds).await;
}

/// What a role tries to lock: what nodes write all the time, and what they start with.
const HELD: [&str; 12] = [
    "events",
    "open_deliveries",
    "deliveries",
    "attempts",
    "rollups",
    "organizations",
    "endpoints",
    "application_counters",
    "boots",
    "shards",
    "schema_migrations",
    "installation",
];

/// Two nodes on a database.
struct SharedArena {
    arena: Arena,
    _second: Node,
    // Dropped last: the nodes use it.
    database: Database,
}

impl SharedArena {
    async fn start() -> Option<Self> {
        if std::env::var_os("EVERHOOK_TEST_POSTGRES").is_none() {
            skipped("EVERHOOK_TEST_POSTGRES names no server; run `scripts/services up` first");
            return None;
        }
        let database = Database::create().await;
        let flags = flags(&database);
        let arena = Arena::start(flags.each_ref().map(String::as_str)).await;
        let mut second = node(&database);
        second.start();
        second.wait_until_ready().await;
        lanes_are_shared_out(&database).await;
        let ordered = ordered_receiver().await;
        arena.neighbor.endpoint(&ordered, &["neighbor.event"], json!({"ordering": "strict"})).await;
        Some(Self { arena, _second: second, database })
    }

    fn node(&self) -> Node {
        node(&self.database)
    }
}

/// Waits until both nodes have their half of the lanes: whoever takes over a lane needs a moment, which is not what is measured.
async fn lanes_are_shared_out(database: &Database) {
    let client = connect(&database.address()).await;
    let fewest = "SELECT coalesce(min(held), 0) FROM (SELECT count(*) AS held FROM shards WHERE boot IS NOT NULL GROUP BY boot HAVING count(*) < 64) AS boots";
    for _ in 0..200 {
        let held: i64 = client.query_one(fewest, &[]).await.expect("the shards").get(0);
        if held >= 30 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the lanes were not shared out within ten seconds");
}

fn flags(database: &Database) -> [String; 4] {
    ["--database".to_owned(), database.url(), "--seal-key".to_owned(), SEAL_KEY.to_owned()]
}

fn node(database: &Database) -> Node {
    let flags = flags(database);
    Node::new(Path::new(env!("CARGO_TARGET_TMPDIR"))).with_flags(flags.each_ref().map(String::as_str))
}

/// Answers everything at once.
async fn ordered_receiver() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(async || ()))).await });
    format!("http://{address}/")
}

/// Asks a node again and again whether it is ready, and remembers every other answer than `ok`.
struct Statuses {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<String>>,
}

impl Statuses {
    fn watch(arena: &Arena) -> Self {
        let (stop, mut connection) = (Arc::<AtomicBool>::default(), Connection::new(arena.node.server()));
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut others = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                match connection.ask(Method::GET, "/readyz", None).await {
                    Ok(answer) if answer["status"] == "ok" => {}
                    other => others.push(format!("{other:?}")),
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            others
        });
        Self { stop, task }
    }

    async fn were_ok(self) {
        self.stop.store(true, Ordering::Relaxed);
        let others = self.task.await.expect("no panic");
        assert!(others.is_empty(), "/readyz said {:?}", &others[..others.len().min(3)]);
    }
}

/// A role that reads the reports of the attacker's organization.
struct ReportRole {
    name: String,
    address: Url,
}

impl ReportRole {
    async fn create(shared: &SharedArena) -> Self {
        let name = format!("everhook_test_{}", Uuid::now_v7().simple());
        execute(&server(), &format!("CREATE ROLE {name} LOGIN PASSWORD 'secret'")).await;
        let grant = format!("SELECT everhook_grant_reports('{name}', '{}')", shared.arena.attacker.organization);
        execute(&shared.database.address(), &grant).await;
        let mut address = shared.database.address();
        address.set_username(&name).expect("a name");
        address.set_password(Some("secret")).expect("a password");
        // Wherever it may look: the schema of the tables is closed to it.
        address.set_query(Some("options=-c%20search_path%3Deverhook,everhook_reports,public"));
        Self { name, address }
    }

    /// Holds every advisory lock that is seen or was ever used, and whatever it can get of each table that it can name: the locks that statements take when
    /// they are prepared, and behind them, in other sessions, those that rules and triggers wait for. Until the clients are dropped.
    async fn hold_locks(&self) -> HeldLocks {
        let client = connect(&self.address).await;
        let advisory = "SELECT pg_advisory_lock(7311155388384341867 + n) FROM generate_series(0, 9) n; SELECT pg_advisory_lock(2, 0);
            SELECT pg_advisory_lock(1, lane) FROM generate_series(0, 99) lane;
            SELECT CASE objsubid WHEN 1 THEN pg_advisory_lock((classid::bigint << 32) | objid::bigint) ELSE pg_advisory_lock(classid::integer, objid::integer) END
            FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid(); BEGIN";
        client.batch_execute(advisory).await.expect("the server lets it");
        let mut waiting = Vec::new();
        for table in HELD {
            for hold in [
                format!("PREPARE delete_{table} AS DELETE FROM {table}"),
                format!("PREPARE lock_{table} AS SELECT 1 FROM {table} FOR UPDATE"),
                format!("LOCK TABLE {table} IN ACCESS SHARE MODE"),
                format!("PREPARE read_{table} AS SELECT 1 FROM {table}"),
            ] {
                // Whatever is refused, the rest is held.
                let held = client.batch_execute(&format!("SAVEPOINT hold; {hold}")).await;
                if held.is_err() {
                    client.batch_execute("ROLLBACK TO SAVEPOINT hold").await.expect("the server lets it");
                }
            }
            let client = connect(&self.address).await;
            let rule = format!("CREATE RULE hold AS ON DELETE TO {table} DO INSTEAD NOTHING");
            waiting.push(tokio::spawn(async move { client.batch_execute(&rule).await }));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        HeldLocks { _holding: client, waiting }
    }

    /// Sends notifications as fast as the server takes them, each with as many queues as fit: of lanes that do not exist.
    async fn forge(&self, channel: &str) -> Forging {
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut tasks = Vec::new();
        for _ in 0..FORGERS {
            let (client, channel) = (connect(&self.address).await, channel.to_owned());
            let (stop, sent) = (stop.clone(), sent.clone());
            tasks.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    // Both spellings, the former one and the one in force, made by the server: it is quicker than this test.
                    let queues = "SELECT string_agg(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '') || '00064406f0000000' || '1', '')
                        FROM generate_series(1, 95) WHERE n > 0";
                    let flood = format!(
                        "SELECT pg_notify('{channel}', (CASE n % 2 WHEN 0 THEN '' ELSE '3:' END) || ({queues})) FROM generate_series(1, 20) n"
                    );
                    client.batch_execute(&flood).await.expect("the server takes it");
                    sent.fetch_add(20, Ordering::Relaxed);
                }
            }));
        }
        Forging { stop, sent, tasks }
    }
}

impl Drop for ReportRole {
    fn drop(&mut self) {
        // Its rights in the database would keep it.
        let mut database = self.address.clone();
        database.set_username(server().username()).expect("a name");
        database.set_password(server().password()).expect("a password");
        execute_apart(database, format!("DROP OWNED BY {0}; DROP ROLE {0}", self.name));
    }
}

/// Locks that are held, and waited for.
struct HeldLocks {
    _holding: Client,
    waiting: Vec<JoinHandle<Result<(), tokio_postgres::Error>>>,
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        self.waiting.iter().for_each(JoinHandle::abort);
    }
}

/// Hints that are being forged.
struct Forging {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Forging {
    /// Ends it, and says how many notifications were sent.
    async fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("it does not panic");
        }
        self.sent.load(Ordering::Relaxed)
    }
}

async fn connect(database: &Url) -> Client {
    let (client, connection) = tokio_postgres::connect(database.as_str(), NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client
}
