//! A move that ends anywhere goes on from there.

use std::{ops::ControlFlow, thread};

use everhook_adapters::{
    moving::{self, MoveError, MoveSettings, Progress, Step},
    postgres::OpenError,
};

use crate::{database::Database, moving::filled::Filled};

/// Few enough that every table of some rows takes several transactions.
const FEW_ROWS: usize = 3;

/// Moves until so many things were told, then stops.
async fn move_a_little(settings: &MoveSettings, tellings: usize) -> Result<moving::Moved, MoveError> {
    let mut left = tellings;
    let mut tell = |_: Progress| {
        left = left.saturating_sub(1);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    moving::move_up(settings, &mut tell).await
}

#[tokio::test]
async fn a_move_that_is_stopped_at_every_batch_ends_with_the_same_rows() {
    let filled = Filled::new().await;
    let copy = filled.copy();
    let (whole, in_parts) = (Database::create().await, Database::create().await);
    let expected = whole.take_in(copy.path()).await.unwrap();
    let settings = MoveSettings { batch_rows: FEW_ROWS, ..in_parts.settings(copy.path()) };
    let mut copied = Vec::new();
    let moved = loop {
        // Each run goes one transaction further than what it is told first, table by table.
        let mut has_advanced = false;
        let mut last: Option<Progress> = None;
        let mut tell = |progress: Progress| {
            let is_new = last.is_some_and(|last| last.table == progress.table && last.rows < progress.rows);
            last = Some(progress);
            if progress.step == Step::Copying && is_new && !copied.contains(&(progress.table, progress.rows)) {
                copied.push((progress.table, progress.rows));
                has_advanced = true;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        match moving::move_up(&settings, &mut tell).await {
            Ok(moved) => break moved,
            Err(MoveError::Stopped) => assert!(has_advanced),
            Err(error) => panic!("{error}"),
        }
        let opened = in_parts.open().await;
        assert!(matches!(opened, Err(OpenError::UnfinishedMove { .. })), "no node starts on half of it");
    };
    assert!(copied.len() > 40, "it was stopped {} times", copied.len());
    assert!(moved.was_resumed);
    assert_eq!(moved.tables, expected.tables);
    in_parts.open().await.unwrap();
}

#[tokio::test]
async fn a_move_whose_connection_is_cut_goes_on_the_next_time() {
    let filled = Filled::new().await;
    let (database, copy) = (Database::create().await, filled.copy());
    let settings = MoveSettings { batch_rows: FEW_ROWS, ..database.settings(copy.path()) };
    let mut tell = |progress: Progress| {
        if progress.table == "attempts" && progress.rows > 0 {
            cut_connections(&database);
        }
        ControlFlow::Continue(())
    };
    let failed = moving::move_up(&settings, &mut tell).await.unwrap_err();
    assert!(matches!(failed, MoveError::Target { table: "attempts", .. }), "{failed}");
    assert!(failed.to_string().contains("Run the same command again"), "{failed}");
    let moved = database.take_in(copy.path()).await.unwrap();
    assert!(moved.was_resumed);
    database.open().await.unwrap();
}

/// From a thread of its own: the move waits meanwhile.
fn cut_connections(database: &Database) {
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { database.client().await.batch_execute(cut).await.unwrap() });
        });
    });
}

#[tokio::test]
async fn what_is_not_the_same_is_named_and_no_node_starts() {
    let filled = Filled::new().await;
    let (database, copy) = (Database::create().await, filled.copy());
    let settings = database.settings(copy.path());
    let mut tell = |progress: Progress| {
        if progress.step == Step::Checking { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    assert!(matches!(moving::move_up(&settings, &mut tell).await, Err(MoveError::Stopped)));
    let tamper = "UPDATE endpoints SET url = url || '/' WHERE lane = 1; DELETE FROM idempotency_keys";
    database.client().await.batch_execute(tamper).await.unwrap();
    let Err(MoveError::Mismatch(found)) = database.take_in(copy.path()).await else { panic!("nobody noticed") };
    assert_eq!(found.iter().map(|one| one.table).collect::<Vec<_>>(), ["endpoints", "idempotency_keys"]);
    assert_eq!((found[0].source.0, found[1].source.0, found[1].target.0), (found[0].target.0, 1, 0));
    assert!(found.iter().all(|one| one.source.1 != one.target.1));
    assert!(MoveError::Mismatch(found).to_string().contains("`idempotency_keys` has 1 rows"));
    assert!(matches!(database.open().await, Err(OpenError::UnfinishedMove { .. })));
}

#[tokio::test]
async fn a_move_that_was_stopped_before_its_first_batch_goes_on_too() {
    let filled = Filled::new().await;
    let (database, copy) = (Database::create().await, filled.copy());
    assert!(matches!(move_a_little(&database.settings(copy.path()), 1).await, Err(MoveError::Stopped)));
    assert!(database.take_in(copy.path()).await.unwrap().was_resumed);
}
