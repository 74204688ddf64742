//! Rows that somebody keeps locked: whoever does not want them does not wait for them.

use std::{
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use everhook_core::{
    ids::ApplicationId,
    model::SlotRequest,
    ports::{Ask, Recorded, ThrottleStore as _, Wanted},
};
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, NoTls};

use crate::postgres::given::Given;

/// A session that keeps an application's counters locked until it is dropped.
async fn lock(given: &Given, application: ApplicationId) -> Client {
    let (client, connection) = tokio_postgres::connect(&given.backing.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = "SELECT 1 FROM application_counters WHERE application_id = $1 FOR UPDATE";
    client.batch_execute("BEGIN").await.unwrap();
    client.query(lock, &[application.as_uuid()]).await.unwrap();
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn publishers_to_one_application_do_not_wait_for_the_locked_row_of_another() {
    let given = Arc::new(Given::new().await);
    let other = given.another_application().await;
    // Given more publishers to a locked application than there are groups under way at once.
    let locked = given.another_application().await;
    let session = lock(&given, locked).await;
    let mut stuck = Vec::new();
    for _ in 0..6 {
        let event = given.event_of(locked, &[]).await;
        let given = given.clone();
        stuck.push(tokio::spawn(async move { given.store.record(vec![event]).await.remove(0) }));
        sleep(Duration::from_millis(20)).await;
    }
    // Then whoever publishes to another is answered soon, also while more come for the locked one.
    let begun = Instant::now();
    for _ in 0..5 {
        given.record(given.event_of(other, &[]).await).await;
    }
    assert!(begun.elapsed() < Duration::from_millis(1_200), "{:?}", begun.elapsed());
    // And who waits is answered as soon as the row is free.
    drop(session);
    for publisher in stuck {
        let answer = publisher.await.unwrap();
        assert!(matches!(answer, Ok(Recorded::Accepted { .. })), "{answer:?}");
    }
    assert_eq!(given.record(given.event_of(locked, &[]).await).await, 7, "each was recorded once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_nobody_waits_for_any_more_leaves_no_transaction_behind() {
    // Given counters that somebody keeps locked, and a node that has given up on them.
    let given = Given::new().await;
    let ask = || Ask { organization: given.organization, what: Wanted::Slots(SlotRequest { limit: NonZeroU32::MIN, bound: 0, wanted: 1 }) };
    let node = given.backing.node().await;
    node.exchange(vec![ask()]).await.unwrap();
    let (session, connection) = tokio_postgres::connect(&given.backing.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    session.batch_execute("BEGIN; LOCK TABLE budgets IN EXCLUSIVE MODE").await.unwrap();
    timeout(Duration::from_millis(100), node.exchange(vec![ask()])).await.expect_err("the counters are locked");
    // When they are free again.
    session.batch_execute("ROLLBACK").await.unwrap();
    // Then its connection is not left in the middle: whoever had it next would commit what was given up.
    sleep(Duration::from_millis(200)).await;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    assert_eq!(session.query_one(open, &[]).await.unwrap().get::<_, i64>(0), 0);
}
