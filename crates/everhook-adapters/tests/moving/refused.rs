//! What is refused, and that the folder stays as it is.

use std::{collections::BTreeMap, error::Error as _, fs, path::Path, time::SystemTime};

use everhook_adapters::{
    moving::{MoveError, MoveSettings},
    postgres::OpenError,
    sqlite,
};
use everhook_core::ports::{Leases as _, OrganizationStore as _, Roles};

use crate::{
    database::Database,
    moving::filled::Filled,
    sqlite::conformance::given::{Given, entry, organization},
};

/// Every file of a folder, with what it holds and when it was written.
fn files(folder: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let written = entry.metadata().unwrap().modified().unwrap();
        (entry.file_name().into_string().unwrap(), (fs::read(entry.path()).unwrap(), written))
    };
    fs::read_dir(folder).unwrap().map(file).collect()
}

#[tokio::test]
async fn nothing_of_the_folder_changes_whether_its_server_was_stopped_or_killed() {
    let filled = Filled::new().await;
    let killed = filled.copy();
    assert!(files(killed.path())["everhook.db-wal"].0.len() > 100_000, "all of it is in the log");
    let stopped = filled.closed();
    assert!(!files(stopped.path()).contains_key("everhook.db-wal"), "there is no log");
    let mut sums = Vec::new();
    for folder in [killed, stopped] {
        let before = files(folder.path());
        let database = Database::create().await;
        let moved = database.take_in(folder.path()).await.unwrap();
        let after = files(folder.path());
        assert!(before == after, "{:?} became {:?}", before.keys(), after.keys());
        sums.push(moved.tables);
    }
    assert_eq!(sums[0], sums[1], "what was in the log was moved, too");
}

#[tokio::test]
async fn a_folder_that_is_in_use_missing_or_of_another_schema_is_refused() {
    let database = Database::create().await;
    let given = Given::new().await;
    let told = async |folder: &Path| database.take_in(folder).await.unwrap_err();
    let in_use = told(given.backing.folder.path()).await;
    assert!(matches!(in_use, MoveError::Folder(sqlite::OpenError::InUse { .. })), "{in_use}");
    let nowhere = tempfile::tempdir().unwrap();
    for path in [nowhere.path().to_owned(), nowhere.path().join("missing")] {
        let missing = told(&path).await;
        assert!(matches!(missing, MoveError::Folder(sqlite::OpenError::NoStore { .. })), "{missing}");
    }
    assert_eq!(files(nowhere.path()).len(), 0, "nothing was made");
    for (change, expected) in [
        ("DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)", "older Everhook"),
        ("INSERT INTO schema_migrations VALUES (99, x'00', 0)", "newer Everhook"),
        ("UPDATE schema_migrations SET hash = x'00' WHERE version = 1", "never released"),
        ("INSERT INTO unfinished_erasures VALUES (zeroblob(16), zeroblob(16), 0)", "which completes that"),
    ] {
        let given = Given::new().await;
        given.tamper(change);
        let folder = given.backing.folder.path().to_owned();
        drop(given.store);
        let error = told(&folder).await.to_string();
        assert!(error.contains(expected), "{error}");
    }
    let given = Given::new().await;
    let folder = given.backing.folder.path().to_owned();
    drop(given.store);
    let settings = MoveSettings { seal_key_id: None, ..database.settings(&folder) };
    let unknown = everhook_adapters::moving::move_up(&settings, &mut |_| std::ops::ControlFlow::Continue(())).await;
    assert!(matches!(unknown, Err(MoveError::NoSealKey)));
    // After all that, the database is as good as new.
    database.take_in(&folder).await.unwrap();
}

#[tokio::test]
async fn a_database_that_holds_anything_else_is_refused() {
    let (database, folder) = (Database::create().await, Filled::new().await.closed());
    let store = database.open().await.unwrap();
    store.create_organization(organization(), entry()).await.unwrap();
    let refused = database.take_in(folder.path()).await.unwrap_err();
    assert!(matches!(refused, MoveError::NotEmpty { table: "organizations" }), "{refused}");
    drop(store);
    database.open().await.expect("it is as it was");
}

#[tokio::test]
async fn a_database_on_which_nodes_live_is_refused_and_none_can_begin_during_a_move() {
    let (database, folder) = (Database::create().await, Filled::new().await.closed());
    let node = database.open().await.unwrap();
    let roles = Roles { worker: true, scheduler: true };
    node.begin(roles).await.unwrap();
    let refused = database.take_in(folder.path()).await.unwrap_err();
    assert!(matches!(&refused, MoveError::NodesAlive { nodes } if nodes == &["node"]), "{refused}");
    node.end().await.unwrap();
    // A node that was opened before the move cannot begin while it is under way.
    let settings = database.settings(folder.path());
    let stopped = everhook_adapters::moving::move_up(&settings, &mut |_| std::ops::ControlFlow::Break(())).await;
    assert!(matches!(stopped, Err(MoveError::Stopped)));
    let begun = node.begin(roles).await.unwrap_err();
    let reason = begun.source().map(ToString::to_string).unwrap_or_default();
    assert_eq!(reason, "a data folder is being migrated into this database");
    database.take_in(folder.path()).await.unwrap();
    node.begin(roles).await.unwrap();
}

#[tokio::test]
async fn an_unfinished_move_goes_on_only_from_the_same_folder_as_it_was() {
    let (database, filled) = (Database::create().await, Filled::new().await);
    let (folder, other) = (filled.copy(), filled.copy());
    let settings = database.settings(folder.path());
    let stopped = everhook_adapters::moving::move_up(&settings, &mut |_| std::ops::ControlFlow::Break(())).await;
    assert!(matches!(stopped, Err(MoveError::Stopped)));
    let refused = database.take_in(other.path()).await.unwrap_err();
    assert!(matches!(refused, MoveError::OtherSource { .. }), "{refused}");
    // A server ran on it in between.
    drop(crate::sqlite::backing::open(&folder));
    let refused = database.take_in(folder.path()).await.unwrap_err();
    assert!(matches!(refused, MoveError::OtherSource { .. }), "{refused}");
    assert!(matches!(database.open().await, Err(OpenError::UnfinishedMove { .. })));
}

#[tokio::test]
async fn a_folder_is_moved_once_and_by_one_process_at_a_time() {
    let (database, filled) = (Database::create().await, Filled::new().await);
    let (folder, other) = (filled.copy(), filled.copy());
    database.open().await.unwrap();
    let client = database.client().await;
    client.batch_execute("BEGIN; SELECT 1 FROM node_locks WHERE name = 'moves' FOR UPDATE").await.unwrap();
    let refused = database.take_in(folder.path()).await.unwrap_err();
    assert!(matches!(refused, MoveError::AlreadyMoving), "{refused}");
    drop(client);
    let settings = database.settings(folder.path());
    loop {
        // The server takes a moment to notice that the other one is gone.
        match everhook_adapters::moving::move_up(&settings, &mut |_| std::ops::ControlFlow::Continue(())).await {
            Err(MoveError::AlreadyMoving) => tokio::task::yield_now().await,
            moved => break moved.map(drop).unwrap(),
        }
    }
    let refused = database.take_in(folder.path()).await.unwrap_err();
    assert!(matches!(refused, MoveError::AlreadyMoved { .. }), "{refused}");
    let refused = database.take_in(other.path()).await.unwrap_err();
    assert!(matches!(refused, MoveError::Taken { .. }), "{refused}");
}

#[tokio::test]
async fn a_database_that_is_set_to_another_key_is_refused() {
    let (database, folder) = (Database::create().await, Filled::new().await.closed());
    database.open().await.unwrap().keep_seal_key_id("ffffffff").await.unwrap();
    let refused = database.take_in(folder.path()).await.unwrap_err();
    assert!(matches!(refused, MoveError::OtherSealKey { .. }), "{refused}");
}
