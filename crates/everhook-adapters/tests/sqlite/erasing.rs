//! What erasing promises beyond the rows: the data is gone from the files, and a crash leaves nothing half done.

use std::{fs, sync::Arc, time::Duration};

use bytes::Bytes;
use everhook_core::model::{ShardSet, Stage};
use uuid::Uuid;

use crate::sqlite::{
    conformance::erasing::{ERASED, SECRET, answered},
    given::{Given, after, failure, settlement},
};

impl Given {
    /// Whether the secret is anywhere in the store's files.
    pub fn files_hold_the_secret(&self) -> bool {
        let files = fs::read_dir(self.backing.folder.path()).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.is_file()).any(|path| {
            let bytes = fs::read(path).unwrap();
            bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
        })
    }
}

#[tokio::test]
async fn what_was_published_and_answered_is_gone_from_the_files_once_it_is_erased() {
    let given = Given::new().await;
    let new = given.secret_event(100).await;
    let (event, delivery) = (new.event.id, new.deliveries[0].id);
    given.record(new).await;
    let retry = settlement(delivery, given.endpoint, answered(failure(1)), Stage::Waiting { due_at: after(5) });
    given.store.settle(Arc::new(vec![retry])).await.unwrap();
    given.erase(event).await;
    assert!(!given.reopened().await.files_hold_the_secret());
}

#[tokio::test]
async fn a_large_payload_and_a_fresh_one_are_gone_from_the_files_while_the_store_runs() {
    let given = Given::new().await;
    // One that fills pages of its own, and small ones around it.
    let mut events = Vec::new();
    for bytes in [100, 50_000, 100] {
        let mut new = given.secret_event(bytes).await;
        // Kept as it is: compressed, the secret would not be found in any case.
        new.event.data = Bytes::from(incompressible(bytes));
        events.push(new.event.id);
        given.record(new).await;
    }
    assert!(given.files_hold_the_secret(), "the test can see it");
    for event in events {
        given.erase(event).await;
    }
    // The log is emptied about a second later.
    for _ in 0..100 {
        if !given.files_hold_the_secret() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it is still in the files");
}

#[tokio::test]
async fn hundreds_of_neighbors_erased_in_any_order_leave_nothing_in_the_files() {
    let given = Given::new().await;
    let mut events = Vec::new();
    for number in 0..300 {
        let new = given.secret_event(10 + number % 90).await;
        events.push(new.event.id);
        given.record(new).await;
    }
    assert!(given.files_hold_the_secret(), "the test can see it");
    events.sort_by_key(|event| scramble(event.as_uuid().as_u128() as usize));
    for event in events {
        given.erase(event).await;
    }
    assert!(!given.reopened().await.files_hold_the_secret());
}

/// Data in which the secret is often, and which compressing does not shorten by much.
fn incompressible(bytes: usize) -> String {
    let mut data = String::from("\"");
    while data.len() < bytes {
        data.push_str(SECRET);
        (0..10).for_each(|_| data.push_str(&Uuid::from_u128(scramble(data.len())).simple().to_string()));
    }
    data + "\""
}

fn scramble(seed: usize) -> u128 {
    (seed as u128 + 1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
        .rotate_left(67)
        .wrapping_mul(0xD1B5_4A32_D192_ED03_AEF1_7502_108E_F2D9)
}

#[tokio::test]
async fn what_a_crash_left_of_a_large_erasure_is_completed_at_the_next_start() {
    let given = Given::new().await;
    let new = given.event(&[given.endpoint; 10]).await;
    let (event, deliveries) = (new.event.id, new.deliveries.clone());
    given.record(new).await;
    given.erase(event).await;
    // As after the first of several commits: all but four deliveries are still to be done.
    let hex = |id: &Uuid| id.simple().to_string();
    let done_until = deliveries[3].id;
    given.tamper(&format!(
        "UPDATE deliveries SET stage = 0, due_at = created_at, ended_at = NULL, cause = NULL WHERE id > x'{}';
         INSERT INTO unfinished_erasures VALUES (x'{}', x'{}', {})",
        hex(done_until.as_uuid()),
        hex(event.as_uuid()),
        hex(done_until.as_uuid()),
        after(7).as_micros(),
    ));
    assert_eq!(given.store.lanes(ShardSet::ALL).await.unwrap().len(), 1);
    let given = given.reopened().await;
    assert_eq!(given.store.lanes(ShardSet::ALL).await.unwrap(), []);
    assert_eq!(given.stage(deliveries[9].id).await, ERASED);
}
