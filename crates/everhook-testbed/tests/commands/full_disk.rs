//! A data disk that is filled and freed again under a running server: `/readyz`, publishers and the log hear the truth.
//!
//! The disk is a small file system in memory, which only root may mount; where that is not allowed, the test says loudly that it was skipped.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use everhook::cli::client::Connection;
use everhook_testbed::node::Node;
use http::{Method, StatusCode};
use serde_json::json;
use uuid::Uuid;

use super::scratch;

/// How soon `/readyz` must say what is true, and how much later a busy machine may do.
const TOLD_WITHIN: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_secs(2);

/// A small file system, until it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).expect("a folder");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(at).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(at.to_owned()));
        }
        let _ = writeln!(std::io::stderr(), "SKIPPED: a file system of its own cannot be mounted here, which needs root");
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

/// Asks until this is the answer, and says after how long it was, and its words.
async fn told(connection: &mut Connection, status: StatusCode) -> (Duration, String) {
    let began = Instant::now();
    loop {
        let answer = connection.send(Method::GET, "/readyz", "").await.expect("an answer");
        if answer.status == status {
            return (began.elapsed(), String::from_utf8_lossy(&answer.body).into_owned());
        }
        assert!(began.elapsed() < TOLD_WITHIN + SLACK, "/readyz says {} after {:?}", answer.status, began.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_within_a_second_and_so_is_that_there_is_room_again() {
    let mut node = Node::new(scratch());
    let Some(disk) = SmallDisk::mount(&node.data()) else { return };
    node.start();
    node.wait_until_ready().await;
    let mut connection = Connection::new(node.server());
    // Data that does not get small by being compressed.
    let data: String = (0..5_000).map(|_| Uuid::now_v7().simple().to_string()).collect();
    let event = json!({ "type": "order.paid", "data": data }).to_string();
    for _ in 0..2 {
        assert_eq!(connection.send(Method::POST, "/v1/events", event.clone()).await.expect("an answer").status, StatusCode::ACCEPTED);
        // When the disk is full, that is said without anybody publishing,
        disk.fill();
        let (after, words) = told(&mut connection, StatusCode::SERVICE_UNAVAILABLE).await;
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
        let (again_after, _) = told(&mut connection, StatusCode::OK).await;
        let _ = writeln!(std::io::stderr(), "a full disk was told after {after:?}, and room again after {again_after:?}");
    }
    assert_eq!(connection.send(Method::POST, "/v1/events", event).await.expect("an answer").status, StatusCode::ACCEPTED);
    // The log has one error for each time.
    assert_eq!(node.times_said("no space left on the data disk; events are refused"), 2);
    assert_eq!(node.times_said("ERROR"), 2);
    node.kill();
}
