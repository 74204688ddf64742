//! That what retention frees comes back to the file system, a few pages at a time, and that a little stays to be used again.

use std::fs;

use everhook_core::{
    ports::{Place, Purge, RetentionClass},
    time::Timestamp,
};

use crate::sqlite::{
    conformance::archived::noise,
    given::{Given, NOW},
};

/// What ended before this may go.
const HORIZON: Timestamp = Timestamp::from_secs(1_700_001_000);
/// 30 MB of data, in events of a size that fills pages of their own.
const EVENTS: usize = 300;
const EVENT_BYTES: usize = 100_000;
/// How many pages a step gives back at the most.
const PAGES_A_STEP: u32 = 500;
/// What may stay free: 4 MiB, with the pages that hold no data.
const STAYS_MAX: u64 = 8 << 20;

impl Given {
    /// How long the file is. The log is beside it.
    fn file_bytes(&self) -> u64 {
        fs::metadata(self.file()).unwrap().len()
    }

    /// Moves the log into the file, as the store does by itself from time to time.
    fn checkpoint(&self) {
        let connection = rusqlite::Connection::open(self.file()).unwrap();
        connection.pragma_query(None, "wal_checkpoint", |_| Ok(())).unwrap();
    }
}

#[tokio::test]
async fn the_file_is_small_again_once_what_was_in_it_has_gone() {
    let given = Given::new().await;
    let noise = noise(EVENT_BYTES);
    for _ in 0..EVENTS {
        let mut new = given.event(&[]).await;
        new.event.data = noise.clone();
        given.record(new).await;
    }
    given.checkpoint();
    let full = given.file_bytes();
    assert!(full > (EVENTS * EVENT_BYTES) as u64 / 2, "the data is in the file: {full}");
    assert_eq!(given.purge(RetentionClass::Events, HORIZON).await, EVENTS as u32);
    given.checkpoint();
    assert_eq!(given.file_bytes(), full, "nothing is given back before it is asked for");
    let free = given.store.stored().await.unwrap().free_bytes;
    assert!(free > full / 2, "{free} of {full} are free");
    // Each step gives back a bounded number of pages, and what is published meanwhile is kept.
    let (mut steps, mut kept) = (0, Vec::new());
    let mut next = Some(Place::default());
    while let Some(from) = next {
        let purge = Purge { what: RetentionClass::FreeSpace, before: NOW, from, limit: PAGES_A_STEP };
        next = given.store.purge(purge).await.unwrap().next;
        kept.push(given.published().await);
        steps += 1;
        assert!(steps < 1_000, "the pass does not end");
    }
    assert!(steps as u64 > free / 4_096 / u64::from(PAGES_A_STEP) / 2, "{steps} steps gave {free} bytes back");
    given.checkpoint();
    let left = given.file_bytes();
    assert!(left < STAYS_MAX, "{left} of {full} are left");
    let given = given.reopened().await;
    for (event, _) in kept {
        assert!(given.is_there(event).await);
    }
    let connection = rusqlite::Connection::open(given.file()).unwrap();
    let is_whole: String = connection.pragma_query_value(None, "integrity_check", |row| row.get(0)).unwrap();
    assert_eq!(is_whole, "ok");
}

#[tokio::test]
async fn a_file_with_little_to_give_back_is_left_as_it_is() {
    let given = Given::new().await;
    let purge = Purge { what: RetentionClass::FreeSpace, before: NOW, from: Place::default(), limit: PAGES_A_STEP };
    assert_eq!(given.store.purge(purge).await.unwrap().next, None);
}
