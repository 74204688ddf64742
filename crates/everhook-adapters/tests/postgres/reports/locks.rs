//! What a role that reads reports can lock: nothing that nodes wait for.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use everhook_core::{
    model::{DutySet, Shard, Stage},
    ports::{DeliveryQueue as _, EndpointStore as _, LeaseRequest, Leases as _, Roles, Settled},
};
use tokio::{task::JoinHandle, time::timeout};
use tokio_postgres::Client;

use super::{
    COVERED, INTERNAL,
    readers::{Reader, Reports, connect, names},
};
use crate::postgres::given::{after, endpoint, entry, settlement, success};

/// How long nodes may take for what this test has them do, on a busy machine. Whoever waits for a lock gives up after two seconds, and fails.
const DONE_WITHIN: Duration = Duration::from_secs(20);
const WAITING_WITHIN: Duration = Duration::from_secs(20);

/// Statements that lock a table before anybody asks whether the role may do that, or would keep a lock on it.
const TRICKS: [&str; 10] = [
    "PREPARE hold AS DELETE FROM {table}",
    "EXPLAIN DELETE FROM {table}",
    "CREATE RULE hold AS ON DELETE TO {table} DO INSTEAD NOTHING",
    "CREATE TRIGGER hold AFTER INSERT ON {table} EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "DO $$BEGIN LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; END$$",
    "DO $$BEGIN LOCK TABLE {table} IN ACCESS SHARE MODE; END$$",
    "CREATE STATISTICS pg_temp.hold ON id, lane FROM {table}",
    "COMMENT ON TABLE {table} IS 'held'",
    "CREATE TEMP TABLE held (LIKE {table})",
    "CREATE TEMP TABLE held () INHERITS ({table})",
];

#[tokio::test]
async fn no_statement_of_a_role_reaches_a_table() {
    let reports = Reports::new().await;
    let [reader, _] = &reports.readers;
    let partitions = names(&reports.owner, "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'").await;
    let tables = COVERED.iter().map(|(table, _)| *table).chain(INTERNAL).filter(|name| !name.ends_with("_seq"));
    for table in tables.chain(partitions.iter().map(String::as_str)) {
        for trick in TRICKS {
            reader.is_refused(&trick.replace("{table}", &format!("everhook.{table}"))).await;
        }
    }
    // Nor what belongs to a table elsewhere.
    let toast = names(&reports.owner, "SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 'organizations'::regclass").await;
    reader.is_refused(&format!("CREATE RULE hold AS ON DELETE TO {} DO INSTEAD NOTHING", toast.first().unwrap())).await;
    for name in ["boots", "moves", "partitions"] {
        reader.is_refused(&format!("SELECT 1 FROM everhook.node_locks WHERE name = '{name}' FOR UPDATE")).await;
    }
    // What it writes to a view is refused before the tables behind it are locked, also through a view of its own that it may do everything with.
    for (view, _) in COVERED {
        reader.client.batch_execute(&format!("CREATE TEMP VIEW own_{view} AS SELECT * FROM {view}")).await.unwrap();
        for of in [view.to_owned(), format!("own_{view}")] {
            let because = reader.error_of(&format!("PREPARE hold AS DELETE FROM {of}")).await;
            assert!(because.contains("cannot delete from view"), "{because}");
            for mode in ["ROW SHARE", "ROW EXCLUSIVE", "SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE"] {
                reader.is_refused(&format!("DO $$BEGIN LOCK TABLE {of} IN {mode} MODE; END$$")).await;
            }
        }
        for refused in [format!("SELECT 1 FROM {view} FOR UPDATE"), format!("SELECT 1 FROM {view} FOR KEY SHARE")] {
            let because = reader.error_of(&refused).await;
            assert!(because.contains("permission denied") || because.contains("is not allowed with UNION"), "{because}");
        }
    }
}

#[tokio::test]
async fn a_role_that_holds_every_lock_it_can_get_keeps_nodes_from_nothing() {
    let reports = Reports::new().await;
    let [reader, _] = &reports.readers;
    // Given a role that holds advisory locks, reads every view in a transaction that it leaves open, and prepares to lock what it reads,
    let held = hold(reader).await;
    // and waits in other sessions for each view as if it were to change it,
    let waiting = wait_for_views(reader, &reports.owner).await;
    let modes = "SELECT DISTINCT mode FROM pg_locks l JOIN pg_stat_activity a USING (pid) JOIN pg_class c ON c.oid = l.relation
        WHERE a.usename = 'READER' AND l.database = a.datid AND c.relnamespace::regnamespace::text = 'everhook'";
    let modes = names(&reports.owner, &modes.replace("READER", &reader.name)).await;
    assert_eq!(modes, ["AccessShareLock", "RowShareLock"].map(str::to_owned).into(), "no lock that a writer would wait for");
    // when a second node starts, changes the configuration, publishes, settles and looks after partitions,
    let given = &reports.given;
    let nodes = async {
        let node = given.backing.node().await;
        node.announce().await.unwrap();
        node.begin(Roles::ALL).await.unwrap();
        node.take(LeaseRequest { shards_max: Shard::COUNT, duties: DutySet::ALL }, Vec::new()).await.unwrap();
        node.create_endpoint(endpoint(given.organization, given.application), entry()).await.unwrap();
        let (_, delivery) = given.published().await;
        let settled =
            node.settle(Arc::new(vec![settlement(delivery, given.endpoint, success(1), Stage::Delivered { at: after(1) })])).await;
        assert!(matches!(settled.unwrap()[..], [Settled::Recorded { .. }]));
        node.make_partitions(after(86_400)).await.unwrap();
    };
    timeout(DONE_WITHIN, nodes).await.expect("in time");
    // then nothing of it has waited for the role, which holds and waits still.
    assert!(waiting.iter().all(|session| !session.is_finished()));
    held.batch_execute("COMMIT").await.unwrap();
    for session in waiting {
        session.await.unwrap();
    }
}

/// Holds what can be held.
async fn hold(reader: &Reader) -> Client {
    let client = connect(&reader.address).await;
    let mut hold = "BEGIN; SELECT pg_advisory_lock(7311155388384341867 + n) FROM generate_series(0, 9) n; SELECT pg_advisory_lock(2, 0);
        SELECT pg_advisory_lock(1, lane) FROM generate_series(0, 99) lane; "
        .to_owned();
    for (view, _) in COVERED {
        hold += &format!("SELECT count(*) FROM {view}; ");
        if view != "all_deliveries" {
            hold += &format!("PREPARE hold_{view} AS SELECT 1 FROM {view} t FOR UPDATE; ");
        }
    }
    client.batch_execute(&hold).await.unwrap();
    client
}

/// Sessions that wait for the views, each refused at its end.
async fn wait_for_views(reader: &Reader, owner: &Client) -> Vec<JoinHandle<()>> {
    let mut sessions = Vec::new();
    for (view, _) in COVERED {
        let client = connect(&reader.address).await;
        let rule = format!("CREATE RULE hold AS ON DELETE TO {view} DO INSTEAD NOTHING");
        sessions.push(tokio::spawn(async move {
            let refused = client.batch_execute(&rule).await.unwrap_err();
            assert!(refused.as_db_error().unwrap().message().contains("must be owner"), "{refused:?}");
        }));
    }
    let waiting = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.usename = $1::text::name";
    let deadline = Instant::now() + WAITING_WITHIN;
    while owner.query_one(waiting, &[&reader.name]).await.unwrap().get::<_, i64>(0) < i64::try_from(COVERED.len()).unwrap() {
        assert!(Instant::now() < deadline, "not all came to wait");
    }
    sessions
}
