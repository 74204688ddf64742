//! Who waits for whom, and for how long.

use std::sync::mpsc;

use everhook_core::{
    ids::{EventId, OrganizationId},
    model::ShardSet,
    ports::{DeliveryQueue as _, History as _},
};
use tempfile::TempDir;
use uuid::Uuid;

use super::{
    super::{SqliteSettings, SqliteStore, WriterMode},
    *,
};

fn store() -> (SqliteStore, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = SqliteSettings { data: folder.path().to_owned(), mode: WriterMode::Thread };
    (SqliteStore::open(settings).expect("the store opens"), folder)
}

/// Readers whose reads may run for so long.
fn readers(run_timeout: Duration) -> (Readers, TempDir) {
    let (store, folder) = store();
    drop(store);
    let mut readers = Readers::new("test", HISTORY, &folder.path().join("everhook.db"));
    readers.run_timeout = run_timeout;
    (readers, folder)
}

/// A read that takes until it is told to end, deaf to interrupts.
fn stubborn() -> (mpsc::Sender<()>, impl FnOnce(&Connection) -> Outcome<()> + Send + 'static) {
    let (end, ended) = mpsc::channel::<()>();
    let wait = move |_: &Connection| {
        let _ = ended.recv();
        Ok(())
    };
    (end, wait)
}

#[tokio::test]
async fn looks_at_history_keep_no_lane_waiting() {
    let (store, _folder) = store();
    let store = Arc::new(store);
    // Given more slow looks at history than there are readers for them, as one tenant can ask for.
    let (ends, looks): (Vec<_>, Vec<_>) = (0..READERS + 2).map(|_| stubborn()).unzip();
    let spawn = |look| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.read_history(look).await })
    };
    let looks: Vec<_> = looks.into_iter().map(spawn).collect();
    let organization = OrganizationId::from_uuid(Uuid::nil());
    let behind = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.event(organization, EventId::from_uuid(Uuid::nil())).await }
    });
    tokio::task::yield_now().await;
    // Then the engine's reads are answered all the same.
    assert_eq!(store.lanes(ShardSet::ALL).await.expect("the store answers"), []);
    assert!(!behind.is_finished(), "history waits behind history");
    drop(ends);
    for look in looks {
        look.await.expect("no panic").expect("an answer");
    }
    assert!(behind.await.expect("no panic").expect("an answer").is_none());
}

#[tokio::test]
async fn time_in_the_queue_is_not_the_reads_own() {
    let run_timeout = Duration::from_millis(50);
    let (readers, _folder) = readers(run_timeout);
    let (ends, stubborn): (Vec<_>, Vec<_>) = (0..READERS).map(|_| stubborn()).unzip();
    let slow = futures_util::future::join_all(stubborn.into_iter().map(|read| readers.read(read)));
    let behind = readers.read(|_| Ok("answered"));
    let release = async {
        // Those that run are given up; the one behind them is not, however long it waits.
        let given_up = slow.await;
        tokio::time::sleep(run_timeout * 2).await;
        drop(ends);
        given_up
    };
    let (given_up, behind) = tokio::join!(release, behind);
    assert!(given_up.iter().all(Result::is_err));
    assert_eq!(behind.expect("an answer"), "answered");
}

/// A read that never ends by itself.
fn endless(connection: &Connection) -> Outcome<i64> {
    let count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    Ok(connection.query_row(count, [], |row| row.get(0))?)
}

#[tokio::test]
async fn a_read_that_runs_too_long_is_stopped_and_its_reader_continues() {
    let (readers, _folder) = readers(Duration::from_millis(50));
    for _ in 0..READERS + 1 {
        assert!(matches!(readers.read(endless).await, Err(StoreError::Unavailable(_))));
    }
    assert_eq!(readers.read(|_| Ok(1)).await.expect("an answer"), 1);
}

#[tokio::test]
async fn a_read_ends_when_its_caller_goes_away() {
    let (readers, _folder) = readers(RUN_TIMEOUT);
    for _ in 0..READERS + 1 {
        assert!(tokio::time::timeout(Duration::from_millis(10), readers.read(endless)).await.is_err());
    }
    assert_eq!(readers.read(|_| Ok(1)).await.expect("an answer"), 1);
}

#[tokio::test]
async fn threads_start_when_they_are_needed() {
    let (readers, _folder) = readers(RUN_TIMEOUT);
    let started = || readers.threads.lock().expect("no panic").len();
    assert_eq!(started(), 0);
    readers.read(|_| Ok(())).await.expect("an answer");
    assert_eq!(started(), 1);
    let (ends, stubborn): (Vec<_>, Vec<_>) = (0..READERS + 3).map(|_| stubborn()).unzip();
    let all = futures_util::future::join_all(stubborn.into_iter().map(|read| readers.read(read)));
    let (answers, ()) = tokio::join!(biased; all, async { drop(ends) });
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(started(), READERS);
}
