//! A node and a move that come to a new database at the same moment: whichever is first, the other one is refused before it has done anything.

use std::{
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};

use everhook_adapters::{
    moving::{self, MoveError, Moved},
    postgres::{OpenError, PostgresStore},
};
use everhook_core::ports::{Leases as _, OrganizationStore as _};
use tokio_postgres::Client;

use crate::{
    database::Database,
    moving::filled::Filled,
    sqlite::conformance::given::{entry, organization},
};

/// How long it may take until somebody waits, on a busy machine.
const WAITING_WITHIN: Duration = Duration::from_secs(20);

/// Moves until there is something to tell, which is after everything was prepared and before anything is copied.
async fn begin_to_move(database: &Database, folder: &Path) -> Result<Moved, MoveError> {
    moving::move_up(&database.settings(folder), &mut |_| ControlFlow::Break(())).await
}

/// Holds up whoever makes the first table, in the middle of it: until the commit of the session that is returned.
async fn hold_up_tables(database: &Database) -> Client {
    let client = database.client().await;
    let hold_up =
        "CREATE FUNCTION hold_up() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); END $$;
        CREATE EVENT TRIGGER hold_up ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION hold_up()";
    client.batch_execute(hold_up).await.unwrap();
    client.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(1)").await.unwrap();
    client
}

/// Returns once so many wait: the first in the middle of making a table, the others for the end of that.
async fn wait_for_waiting(client: &Client, count: i64) {
    let waiting =
        "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.datname = current_database()";
    let deadline = Instant::now() + WAITING_WITHIN;
    while client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) < count {
        // A transaction is shown the sessions as they were when it first looked, unless it forgets that.
        client.execute("SELECT pg_stat_clear_snapshot()", &[]).await.unwrap();
        assert!(Instant::now() < deadline, "nobody came to wait");
    }
}

async fn tables(database: &Database) -> Vec<String> {
    let sql =
        "SELECT relname::text FROM pg_class WHERE relnamespace::regnamespace::text IN ('everhook', 'public') AND relkind IN ('r', 'p')";
    database.client().await.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_node_that_comes_while_a_move_makes_the_tables_is_refused() {
    let (database, folder) = (Database::create().await, Filled::new().await.closed());
    let turn = hold_up_tables(&database).await;
    let node = async {
        wait_for_waiting(&turn, 1).await;
        database.open().await
    };
    let start = async {
        wait_for_waiting(&turn, 2).await;
        turn.batch_execute("COMMIT").await.unwrap();
    };
    let (moved, opened, ()) = tokio::join!(begin_to_move(&database, folder.path()), node, start);
    assert!(matches!(moved, Err(MoveError::Stopped)));
    assert!(matches!(opened, Err(OpenError::UnfinishedMove { .. })));
    // However often it is started, until the move has gone on to its end.
    assert!(matches!(database.open().await, Err(OpenError::UnfinishedMove { .. })));
    assert!(database.take_in(folder.path()).await.unwrap().was_resumed);
    database.open().await.unwrap().announce().await.unwrap();
}

#[tokio::test]
async fn a_node_that_opened_the_database_before_the_move_began_finds_out_before_it_writes() {
    let (database, folder) = (Database::create().await, Filled::new().await.closed());
    let turn = hold_up_tables(&database).await;
    let moving = async {
        wait_for_waiting(&turn, 1).await;
        begin_to_move(&database, folder.path()).await
    };
    let start = async {
        wait_for_waiting(&turn, 2).await;
        turn.batch_execute("COMMIT").await.unwrap();
    };
    let (opened, moved, ()) = tokio::join!(database.open(), moving, start);
    let node: PostgresStore = opened.unwrap();
    assert!(matches!(moved, Err(MoveError::Stopped)));
    assert!(matches!(node.announce().await, Err(OpenError::UnfinishedMove { .. })));
    assert!(matches!(node.refuse_half_moved().await, Err(OpenError::UnfinishedMove { .. })));
    assert!(database.take_in(folder.path()).await.unwrap().was_resumed);
    node.announce().await.unwrap();
    node.refuse_half_moved().await.unwrap();
}

#[tokio::test]
async fn a_move_is_refused_from_the_moment_a_node_says_that_it_is_there() {
    let (database, folder) = (Database::create().await, Filled::new().await.closed());
    let node = database.open().await.unwrap();
    node.announce().await.unwrap();
    let refused = begin_to_move(&database, folder.path()).await.unwrap_err();
    assert!(matches!(refused, MoveError::NodesAlive { .. }), "{refused}");
    // Its first steps are taken, and it is gone again.
    node.create_organization(organization(), entry()).await.unwrap();
    node.end().await.unwrap();
    let refused = begin_to_move(&database, folder.path()).await.unwrap_err();
    assert!(matches!(refused, MoveError::NotEmpty { table: "organizations" }), "{refused}");
    database.open().await.expect("nothing was marked").announce().await.unwrap();
}

#[tokio::test]
async fn a_move_that_ends_between_the_tables_and_its_mark_leaves_neither() {
    let (database, folder) = (Database::create().await, Filled::new().await.closed());
    // As soon as the table of moves is there, nothing can be written into it.
    let spoil = "CREATE FUNCTION spoil() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
            IF to_regclass('moves') IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conname = 'spoiled') THEN
                ALTER TABLE moves ADD CONSTRAINT spoiled CHECK (false);
            END IF;
        END $$;
        CREATE EVENT TRIGGER spoil ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION spoil()";
    let client = database.client().await;
    client.batch_execute(spoil).await.unwrap();
    let failed = begin_to_move(&database, folder.path()).await.unwrap_err();
    assert!(matches!(failed, MoveError::Server { .. }) && failed.to_string().contains("Run the same command again"), "{failed}");
    assert_eq!(tables(&database).await, [""; 0]);
    client.batch_execute("DROP EVENT TRIGGER spoil").await.unwrap();
    assert!(!database.take_in(folder.path()).await.unwrap().was_resumed);
    database.open().await.unwrap();
}

#[tokio::test]
async fn a_database_with_a_table_of_somebody_else_is_refused_and_stays_as_it_is() {
    let (database, folder) = (Database::create().await, Filled::new().await.closed());
    database.client().await.batch_execute("CREATE TABLE contacts (name text)").await.unwrap();
    let refused = database.take_in(folder.path()).await.unwrap_err();
    assert!(matches!(&refused, MoveError::Foreign { table } if table == "contacts"), "{refused}");
    assert_eq!(tables(&database).await, ["contacts"]);
}
