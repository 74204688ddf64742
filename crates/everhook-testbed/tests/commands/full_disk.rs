//! A disk that is filled and freed again under a running server, that of the embedded store and that of a spool: `/readyz`, publishers and the log hear
//! the truth.
//!
//! The disk is a small file system in memory, which only root may mount; where that is not allowed, the tests say that they were skipped.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use everhook::cli::client::Connection;
use everhook_testbed::{
    database::SEAL_KEY,
    node::Node,
    postgres_server::{PostgresServer, Stop},
    skipped::skipped,
};
use http::{Method, StatusCode};
use serde_json::json;
use uuid::Uuid;

use super::scratch;

/// How soon `/readyz` must say what is true, and how much later it may where nobody asks for the promised bounds (`EVERHOOK_TEST_STRICT`).
const REPORTED_WITHIN: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_secs(2);
/// How soon what waited in the spool must be in the database.
const FORWARDED_WITHIN: Duration = Duration::from_secs(20);

/// A small file system, until it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).expect("a folder");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(at).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(at.to_owned()));
        }
        skipped("a file system of its own cannot be mounted here, which needs root");
        None
    }

    /// Fills what is left with a file.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).expect("a file");
        // The last pages, too.
        for bytes in [1 << 16, 1 << 12] {
            while file.write_all(&vec![1; bytes]).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).expect("the file goes");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Also while a server that a failed test left behind still uses it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn within() -> Duration {
    if std::env::var_os("EVERHOOK_TEST_STRICT").is_some() { REPORTED_WITHIN } else { REPORTED_WITHIN + SLACK }
}

fn print_measured(disk: &str, full_after: Duration, free_after: Duration) {
    let _ = writeln!(std::io::stderr(), "a full disk {disk} was reported after {full_after:?}, and free space again after {free_after:?}");
}

/// An event whose data does not get small by being compressed.
fn large_event() -> String {
    let data: String = (0..5_000).map(|_| Uuid::now_v7().simple().to_string()).collect();
    json!({ "type": "order.paid", "data": data }).to_string()
}

/// Asks until this is the answer, and returns after how long it was, and its words.
async fn reported(connection: &mut Connection, status: StatusCode) -> (Duration, String) {
    let began = Instant::now();
    loop {
        let answer = connection.send(Method::GET, "/readyz", "").await.expect("an answer");
        if answer.status == status {
            return (began.elapsed(), String::from_utf8_lossy(&answer.body).into_owned());
        }
        assert!(began.elapsed() < within(), "/readyz says {} after {:?}", answer.status, began.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_reported_within_a_second_and_so_is_that_there_is_room_again() {
    let mut node = Node::new(scratch());
    let Some(disk) = SmallDisk::mount(&node.data()) else { return };
    node.start();
    node.wait_until_ready().await;
    let mut connection = Connection::new(node.server());
    let event = large_event();
    for _ in 0..2 {
        assert_eq!(connection.send(Method::POST, "/v1/events", event.clone()).await.expect("an answer").status, StatusCode::ACCEPTED);
        // When the disk is full, that is said without anybody publishing,
        disk.fill();
        let (full_after, words) = reported(&mut connection, StatusCode::SERVICE_UNAVAILABLE).await;
        assert!(words.contains("no space left on the data disk"), "{words}");
        // to publishers as well, and it stays so as long as it is true,
        for _ in 0..5 {
            let refused = connection.send(Method::POST, "/v1/events", event.clone()).await.expect("an answer");
            let words = String::from_utf8_lossy(&refused.body).into_owned();
            assert!(refused.status == StatusCode::SERVICE_UNAVAILABLE && words.contains("no space left on the data disk"), "{words}");
            let ready = connection.send(Method::GET, "/readyz", "").await.expect("an answer");
            assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        // and when there is room again, that is said without anybody publishing, too.
        disk.free();
        let (free_after, _) = reported(&mut connection, StatusCode::OK).await;
        print_measured("of the embedded store", full_after, free_after);
    }
    assert_eq!(connection.send(Method::POST, "/v1/events", event).await.expect("an answer").status, StatusCode::ACCEPTED);
    // The log has one error for each time.
    assert_eq!(node.times_said("no space left on the data disk; events are refused"), 2);
    assert_eq!(node.times_said("ERROR"), 2);
    node.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_of_the_spool_matters_while_postgresql_is_away_and_is_reported_within_a_second() {
    let folder = tempfile::tempdir_in(scratch()).expect("a folder");
    let Some(disk) = SmallDisk::mount(&folder.path().join("spool")) else { return };
    let postgres = PostgresServer::start();
    let mut node = Node::new(scratch());
    node.add_flags(&[
        "--database",
        &postgres.url(),
        "--seal-key",
        SEAL_KEY,
        "--spool",
        &disk.0.display().to_string(),
        "--spool-max",
        "8MiB",
    ]);
    node.start();
    node.wait_until_ready().await;
    let mut connection = Connection::new(node.server());
    let event = large_event();
    // While PostgreSQL takes events, nothing is written to the spool, and its disk does not matter.
    disk.fill();
    assert_eq!(connection.send(Method::GET, "/readyz", "").await.expect("an answer").status, StatusCode::OK);
    assert_eq!(connection.send(Method::POST, "/v1/events", event.clone()).await.expect("an answer").status, StatusCode::ACCEPTED);
    // While it is away, the disk of the spool decides.
    postgres.stop(Stop::Immediate);
    let (full_after, words) = reported(&mut connection, StatusCode::SERVICE_UNAVAILABLE).await;
    assert!(words.contains("no space left on the data disk"), "{words}");
    let refused = connection.send(Method::POST, "/v1/events", event.clone()).await.expect("an answer");
    let words = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(refused.status == StatusCode::SERVICE_UNAVAILABLE && words.contains("no space left on the data disk"), "{words}");
    disk.free();
    let (free_after, words) = reported(&mut connection, StatusCode::OK).await;
    assert!(words.contains("degraded"), "{words}");
    print_measured("of the spool", full_after, free_after);
    assert_eq!(connection.send(Method::POST, "/v1/events", event).await.expect("an answer").status, StatusCode::ACCEPTED);
    assert_eq!(node.times_said("no space left on the data disk; events are refused"), 1);
    // What it took meanwhile goes on once PostgreSQL is back.
    postgres.start_again();
    let began = Instant::now();
    while !connection.send(Method::GET, "/readyz", "").await.is_ok_and(|answer| answer.body.windows(4).any(|word| word == b"\"ok\"")) {
        assert!(began.elapsed() < FORWARDED_WITHIN, "what waited in the spool was not forwarded");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    node.kill();
}
