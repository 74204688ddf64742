//! SQLite on a disk that loses power.

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;

fn open(folder: &TempDir) -> Connection {
    let connection = Connection::open(folder.path().join("test.db")).expect("the file opens");
    connection.pragma_update(None, "journal_mode", "WAL").expect("the log is kept");
    connection.pragma_update(None, "synchronous", "FULL").expect("commits are synced");
    connection.execute_batch("CREATE TABLE IF NOT EXISTS rows (number INTEGER)").expect("a table");
    connection
}

fn rows(connection: &Connection) -> Vec<i64> {
    let mut statement = connection.prepare("SELECT number FROM rows ORDER BY number").expect("a statement");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_, _>>().expect("numbers")
}

/// Writes rows until the power goes off after so many changes, cuts it, and says which rows were acknowledged and which are there.
fn interrupted(syncing: Syncing, changes: u64, survival: Survival, seed: u64) -> (Vec<i64>, Option<Vec<i64>>) {
    let folder = TempDir::new().expect("a folder");
    let disk = Disk::new(syncing);
    let _mounted = mount(folder.path(), &disk);
    let connection = open(&folder);
    disk.power_off_after(changes);
    let insert = |number: &i64| connection.execute("INSERT INTO rows VALUES (?1)", [number]).is_ok();
    let acknowledged = (0..50).take_while(insert).collect();
    disk.power_off();
    drop(connection);
    disk.power_on(survival, &Dice::new(seed));
    let found = std::panic::catch_unwind(|| rows(&open(&folder))).ok();
    (acknowledged, found)
}

#[test]
fn a_writer_and_a_reader_share_a_database_in_wal_mode() {
    let folder = TempDir::new().expect("a folder");
    let disk = Disk::new(Syncing::Honest);
    let _mounted = mount(folder.path(), &disk);
    let (writer, reader) = (open(&folder), open(&folder));
    for number in 0..200_i64 {
        writer.execute("INSERT INTO rows VALUES (?1)", [number]).expect("a row");
        assert_eq!(rows(&reader).last(), Some(&number));
    }
    assert!(!folder.path().join("test.db").exists(), "nothing is on the real disk");
}

#[test]
fn what_sqlite_acknowledged_survives_every_power_cut() {
    for survival in [Survival::Everything, Survival::Synced, Survival::Beginning, Survival::Scattered] {
        for changes in 0..60 {
            let (acknowledged, found) = interrupted(Syncing::Honest, changes, survival, changes);
            let found = found.expect("the file opens");
            let kept = found[..found.len().min(acknowledged.len())] == acknowledged;
            assert!(kept && found.len() <= acknowledged.len() + 1, "{survival:?} after {changes}: {acknowledged:?} and {found:?}");
        }
    }
}

#[test]
fn a_disk_that_ignores_syncs_loses_what_was_acknowledged() {
    let (acknowledged, found) = interrupted(Syncing::Ignored, 40, Survival::Synced, 1);
    assert!(!acknowledged.is_empty());
    assert_eq!(found, Some(Vec::new()));
}

#[test]
fn files_elsewhere_are_the_real_systems() {
    let (ours, elsewhere) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let _mounted = mount(ours.path(), &Disk::new(Syncing::Honest));
    drop(open(&elsewhere));
    assert!(elsewhere.path().join("test.db").exists());
}

/// Kills a process between the write and the sync of a commit, starts another that sees the row, and cuts the power. Says whether the row was seen
/// and is then lost.
fn is_seen_and_lost(changes: u64, on_start: &str) -> bool {
    let folder = TempDir::new().expect("a folder");
    let disk = Disk::new(Syncing::Honest);
    let _mounted = mount(folder.path(), &disk);
    let restart = |connection: Connection, survival| {
        disk.power_off();
        drop(connection);
        disk.power_on(survival, &Dice::new(1));
        open(&folder)
    };
    let connection = open(&folder);
    disk.power_off_after(changes);
    // It fails unless the power lasts, and then it is synced.
    let _ = connection.execute("INSERT INTO rows VALUES (1)", []);
    let connection = restart(connection, Survival::Everything);
    connection.execute_batch(on_start).expect("what is done at a start");
    let seen = rows(&connection);
    seen == [1] && rows(&restart(connection, Survival::Synced)) != [1]
}

#[test]
fn what_a_start_recovers_is_durable_only_once_the_log_was_moved() {
    let lost_after = |on_start| (0..10).filter(|changes| is_seen_and_lost(*changes, on_start)).count();
    assert!(lost_after("") > 0);
    assert_eq!(lost_after("PRAGMA wal_checkpoint(PASSIVE)"), 0);
}
