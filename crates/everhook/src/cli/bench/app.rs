//! The app that `bench --calls` calls: a part of the sink, so that it has a process of its own.
//!
//! `POST /app/<behavior>` answers as an app does; `GET /control/app` answers how many requests each behavior got and how many it had at once, and
//! forgets that.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// What an answer of the quick behaviors takes.
pub const QUICK: Duration = Duration::from_millis(20);
/// What an answer of the tail takes.
pub const TAIL: Duration = Duration::from_secs(1);
/// How many in a hundred answers are of the tail.
pub const TAIL_PERCENT: u64 = 3;
/// How many requests the limited app serves at once. The others wait in the app.
pub const SERVED_AT_ONCE: usize = 20;
/// What an answer of the app takes that equal calls are made to: long enough for all of them to arrive.
pub const LONG: Duration = Duration::from_millis(500);

const ANSWER: &[u8] = br#"{"success":true,"data":{"ok":true}}"#;

/// The app.
pub struct App {
    counts: Mutex<BTreeMap<String, Count>>,
    served: Semaphore,
    /// Decides who is of the tail: every so manieth, so that each run has the same share.
    turns: AtomicU64,
}

#[derive(Clone, Copy, Default)]
struct Count {
    requests: u64,
    at_once: u64,
    most_at_once: u64,
}

impl Default for App {
    fn default() -> Self {
        Self { counts: Mutex::default(), served: Semaphore::new(SERVED_AT_ONCE), turns: AtomicU64::new(0) }
    }
}

impl App {
    /// Answers a request.
    pub async fn answer(&self, behavior: &str) -> (StatusCode, Bytes) {
        let _counted = Counted::new(self, behavior);
        match behavior {
            "fail" => return (StatusCode::INTERNAL_SERVER_ERROR, Bytes::from_static(b"no")),
            // Until the caller gives up and closes the connection.
            "hang" => std::future::pending().await,
            "quick" => tokio::time::sleep(QUICK).await,
            "long" => tokio::time::sleep(LONG).await,
            "tail" => {
                let turn = self.turns.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(if is_slow(turn) { TAIL } else { QUICK }).await;
            }
            "limited" => {
                let _place = self.served.acquire().await;
                tokio::time::sleep(QUICK).await;
            }
            _ => {}
        }
        (StatusCode::OK, Bytes::from_static(ANSWER))
    }

    /// What came since it was last asked.
    pub fn take_counts(&self) -> Value {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let told = counts.iter().map(|(behavior, count)| {
            (behavior.clone(), json!({"requests": count.requests, "most_at_once": count.most_at_once, "at_once": count.at_once}))
        });
        let told = Value::Object(told.collect());
        for count in counts.values_mut() {
            *count = Count { at_once: count.at_once, most_at_once: count.at_once, requests: 0 };
        }
        told
    }

    fn change(&self, behavior: &str, change: impl FnOnce(&mut Count)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(counts.entry(behavior.to_owned()).or_default());
    }
}

/// Whether an answer is of the tail.
const fn is_slow(turn: u64) -> bool {
    (turn * TAIL_PERCENT) % 100 < TAIL_PERCENT
}

/// A request that is being answered; one that is given up ends too.
struct Counted<'a> {
    app: &'a App,
    behavior: String,
}

impl<'a> Counted<'a> {
    fn new(app: &'a App, behavior: &str) -> Self {
        app.change(behavior, |count| {
            count.requests += 1;
            count.at_once += 1;
            count.most_at_once = count.most_at_once.max(count.at_once);
        });
        Self { app, behavior: behavior.to_owned() }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.app.change(&self.behavior, |count| count.at_once -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn three_in_a_hundred_are_slow_and_twenty_are_served_at_once() {
        for first in [0, 100, 700] {
            assert_eq!((first..first + 100).filter(|turn| is_slow(*turn)).count(), 3);
        }
        let app = App::default();
        let begun = std::time::Instant::now();
        futures_util::future::join_all((0..60).map(|_| app.answer("limited"))).await;
        assert!(begun.elapsed() >= 3 * QUICK, "three rounds of twenty");
        let counts = app.take_counts();
        assert_eq!((&counts["limited"]["requests"], &counts["limited"]["most_at_once"]), (&json!(60), &json!(60)));
        assert_eq!(app.take_counts()["limited"]["requests"], 0);
    }

    #[tokio::test]
    async fn who_goes_away_is_no_longer_counted() {
        let app = App::default();
        let gone = tokio::time::timeout(Duration::from_millis(1), app.answer("hang")).await;
        assert!(gone.is_err());
        assert_eq!(app.take_counts()["hang"], json!({"requests": 1, "most_at_once": 1, "at_once": 0}));
    }
}
