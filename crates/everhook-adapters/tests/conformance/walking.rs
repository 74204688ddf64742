//! Walking lists a page at a time: every list goes both ways, and shows the same rows on either.

use std::fmt::Debug;

use everhook_core::model::{Cursor, Page, PageRequest};
use uuid::Uuid;

/// Few enough that a list of five takes three pages.
const PAGE_ROWS: u32 = 2;

/// More rows than any list of these tests has.
const ALL_ROWS: u32 = 100;

/// Walks a list to its end and back to its beginning, and returns what was seen both ways, newest first.
///
/// A list of one page has no way back. So that its filters are tried in that direction, too, it is also read whole from below its oldest row.
pub async fn walk<T, K: PartialEq + Debug>(list: impl AsyncFn(PageRequest) -> Page<T>, key: impl Fn(&T) -> K) -> (Vec<K>, Vec<K>) {
    let read = async |cursor| {
        let page = list(PageRequest { limit: PAGE_ROWS, cursor }).await;
        assert!(page.rows.len() <= PAGE_ROWS as usize, "a page holds no more than was asked for");
        page
    };
    let mut forth = Vec::new();
    let mut page = read(Cursor::Newest).await;
    assert_eq!(page.prev, None);
    loop {
        forth.extend(page.rows.iter().map(&key));
        let Some(cursor) = page.next else { break };
        page = read(cursor).await;
    }
    let mut back: Vec<K> = page.rows.iter().map(&key).collect();
    while let Some(cursor) = page.prev {
        page = read(cursor).await;
        back.splice(0..0, page.rows.iter().map(&key));
    }
    let from_below = list(PageRequest { limit: ALL_ROWS, cursor: Cursor::NewerThan(Uuid::nil()) }).await;
    assert_eq!(from_below.rows.iter().map(&key).collect::<Vec<K>>(), forth, "read from below the oldest row");
    (forth, back)
}

/// The same rows both ways.
pub fn both_ways<K: Clone>(rows: Vec<K>) -> (Vec<K>, Vec<K>) {
    (rows.clone(), rows)
}
