//! Nothing is forgotten: every table and column of both schemas is named by the mapping, or named here with the reason why not.

use std::collections::BTreeSet;

use everhook_adapters::moving;
use rusqlite::Connection;

use crate::database::Database;

/// What the embedded store has and a move leaves behind.
const LEFT_BEHIND: [(&str, &str, &str); 4] = [
    ("schema_migrations", "*", "each store has its own"),
    ("unfinished_fanouts", "*", "a folder that has any is refused: its server completes them"),
    ("unfinished_erasures", "*", "a folder that has any is refused: its server completes them"),
    ("sealing", "*", "read before the move begins, and kept with the mark of the move"),
];

/// What the shared store has and no folder fills.
const NO_FOLDER_HAS: &[(&str, &str, &str)] = &[
    ("schema_migrations", "*", "each store has its own"),
    ("boots", "*", "the lives of nodes"),
    ("breaker_votes", "*", "what nodes tell each other"),
    ("shards", "*", "what nodes hold"),
    ("duties", "*", "what nodes hold"),
    ("changes", "*", "what nodes tell each other"),
    ("forgotten_changes", "*", "what nodes tell each other"),
    ("sealing", "*", "the id of the folder's key, which is no row of it"),
    ("moves", "*", "the move itself"),
    ("moved_tables", "*", "the move itself"),
    ("departures", "*", "what nodes hold"),
    ("budgets", "*", "what nodes count"),
    ("budget_slots", "*", "what nodes count"),
    ("installation", "*", "a database has a name of its own"),
    ("node_locks", "*", "what nodes take turns at"),
    ("report_roles", "*", "roles of the server"),
    ("organizations", "worker_pool", "a folder has one pool, the default"),
    ("organizations", "moves", "a folder has one pool"),
    ("operations", "begun_by", "the transaction of the move: all others have ended"),
    ("events", "kept", "nothing has been kept beyond its day yet"),
    ("deliveries", "kept", "nothing has been kept beyond its day yet"),
    ("attempts", "kept", "nothing has been kept beyond its day yet"),
];

fn is_left_behind(table: &str, column: &str) -> bool {
    LEFT_BEHIND.iter().any(|(left, named, _)| *left == table && (*named == "*" || *named == column))
}

/// An empty store's file, to try things with.
fn schema() -> (tempfile::TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    drop(crate::sqlite::backing::open(&folder));
    let connection = Connection::open(folder.path().join("everhook.db")).unwrap();
    (folder, connection)
}

fn columns(connection: &Connection) -> Vec<(String, String)> {
    let sql = "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1, 2";
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

#[test]
fn every_column_of_the_embedded_store_is_read_by_the_move() {
    let (_folder, connection) = schema();
    let reads = |connection: &Connection| moving::tables().all(|table| connection.prepare(&table.select_source_after()).is_ok());
    assert!(reads(&connection), "every statement fits the schema as it is");
    let all = columns(&connection);
    assert!(all.len() > 200, "{}", all.len());
    for (table, column) in &all {
        // A column that has another name is missed by whoever reads it. One that nobody misses would not be moved.
        connection.execute_batch(&format!("BEGIN; ALTER TABLE {table} RENAME COLUMN {column} TO renamed_for_a_moment")).unwrap();
        let is_missed = !reads(&connection);
        connection.execute_batch("ROLLBACK").unwrap();
        assert!(
            is_missed || is_left_behind(table, column),
            "`{table}.{column}` is not moved: add it to the tables of `moving`, or say in LEFT_BEHIND why it stays"
        );
        assert!(!(is_missed && is_left_behind(table, column)), "`{table}.{column}` is moved, and LEFT_BEHIND says that it is not");
    }
}

#[tokio::test]
async fn every_column_of_the_shared_store_is_filled_by_the_move() {
    let database = Database::create().await;
    drop(database.open().await.unwrap());
    let sql = "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
        WHERE c.relnamespace = 'everhook'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped";
    let rows = database.client().await.query(sql, &[]).await.unwrap();
    let found: BTreeSet<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let named: BTreeSet<(String, String)> =
        moving::tables().flat_map(|table| table.columns.iter().map(|column| (table.name.to_owned(), (*column).to_owned()))).collect();
    let no_folder_has =
        |table: &str, column: &str| NO_FOLDER_HAS.iter().any(|(name, of, _)| *name == table && (*of == "*" || *of == column));
    for (table, column) in &found {
        assert!(
            no_folder_has(table, column) || named.contains(&(table.clone(), column.clone())),
            "`{table}.{column}` is not filled: add it to the tables of `moving`, or say in NO_FOLDER_HAS why no folder has it"
        );
    }
    assert!(named.is_subset(&found), "{:?} are not there", named.difference(&found).collect::<Vec<_>>());
    assert!(named.iter().all(|(table, column)| !no_folder_has(table, column)));
}
