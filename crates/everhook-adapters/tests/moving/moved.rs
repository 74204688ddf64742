//! What is in the database after a move.

use std::collections::BTreeMap;

use everhook_adapters::{moving, postgres::OpenError};
use everhook_core::model::LaneKind;

use crate::{
    database::Database,
    moving::{filled::Filled, look::look, target::SEAL_KEY_ID},
};

#[tokio::test]
async fn whatever_the_folder_answered_the_database_answers_too() {
    let mut filled = Filled::new().await;
    filled.given = filled.given.reopened().await;
    let before = look(&*filled.given.store, &filled).await;
    for kind in LaneKind::ALL {
        for stage in ["Waiting", "Parked", "Delivered", "Dead"] {
            assert!(before.has_delivery(kind, stage), "there is no delivery of {kind:?} that is {stage}");
        }
    }
    assert!(before.with_something() > 150, "{}", before.with_something());
    let (database, copy) = (Database::create().await, filled.copy());
    database.take_in(copy.path()).await.unwrap();
    let store = database.open().await.unwrap();
    let differences = before.differences(&look(&store, &filled).await);
    assert_eq!(differences.len(), 0, "{:#?}", &differences[..differences.len().min(3)]);
}

#[tokio::test]
async fn no_table_is_left_out_and_every_one_of_this_folder_has_rows() {
    let filled = Filled::new().await;
    let (database, copy) = (Database::create().await, filled.copy());
    let moved = database.take_in(copy.path()).await.unwrap();
    assert!(!moved.was_resumed);
    let empty: Vec<&str> = moved.tables.iter().filter(|(_, rows, _)| *rows == 0).map(|(table, ..)| *table).collect();
    assert_eq!(empty, [""; 0], "a table that the tests have no row of is a table that nobody tested");
    let client = database.client().await;
    for (table, rows, _) in &moved.tables {
        let found: i64 = client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0);
        assert_eq!(found, *rows, "{table}");
    }
    assert_eq!(moved.tables.len(), moving::tables().count());
    let key: String = client.query_one("SELECT key_id FROM sealing", &[]).await.unwrap().get(0);
    assert_eq!(key, SEAL_KEY_ID);
}

#[tokio::test]
async fn rows_of_old_days_have_partitions_of_their_own() {
    let filled = Filled::new().await;
    let (database, copy) = (Database::create().await, filled.copy());
    database.take_in(copy.path()).await.unwrap();
    let client = database.client().await;
    let sql = "SELECT c.relname, c.reltuples::bigint FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE c.relkind = 'r'";
    let tuples: BTreeMap<String, i64> = client.query(sql, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
    let now = 1_700_000_000 / 86_400;
    for table in ["events", "deliveries", "attempts"] {
        for day in [now, now - 700] {
            assert!(tuples[&format!("{table}_{day}")] > 0, "{table} {day}: {tuples:?}");
        }
        assert_eq!(tuples[&format!("{table}_rest")].max(0), 0, "{table}");
    }
}

#[tokio::test]
async fn a_store_without_a_single_row_can_be_moved_too() {
    let folder = tempfile::tempdir().unwrap();
    drop(crate::sqlite::backing::open(&folder));
    let database = Database::create().await;
    let moved = database.take_in(folder.path()).await.unwrap();
    assert!(moved.tables.iter().all(|(_, rows, _)| *rows == 0));
    assert!(!matches!(database.open().await, Err(OpenError::UnfinishedMove { .. })));
}
