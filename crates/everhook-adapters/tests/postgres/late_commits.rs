//! Writes that become visible late: a selection does not pass them over.

use everhook_core::{
    ids::{EventId, OperationId},
    model::OperationKind,
};
use tokio_postgres::{Client, NoTls};

use crate::postgres::given::Given;

/// A session that is writing to an event, and has not committed.
async fn writing(given: &Given, event: EventId) -> Client {
    let (client, connection) = tokio_postgres::connect(&given.backing.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("BEGIN").await.unwrap();
    client.execute("UPDATE events SET source = 'slow' WHERE id = $1", &[event.as_uuid()]).await.unwrap();
    client
}

async fn open(given: &Given) -> Vec<OperationId> {
    given.store.open_operations(10).await.unwrap().into_iter().map(|open| open.operation.id).collect()
}

#[tokio::test]
async fn an_operation_selects_nothing_before_the_writes_have_ended_that_were_under_way_when_it_began() {
    let given = Given::new().await;
    let ((first, _), (second, _)) = (given.published().await, given.published().await);
    let before = writing(&given, first).await;
    let operation = given.begun(OperationKind::Replay).await;
    let later = writing(&given, second).await;
    assert_eq!(open(&given).await, [], "the first write may show events that the selection would have passed");
    before.batch_execute("COMMIT").await.unwrap();
    assert_eq!(open(&given).await, [operation], "the second began later: what it writes is not meant");
    // And one that selects already, or works, waits for nobody.
    let running = given.running(OperationKind::Replay, &[]).await;
    later.batch_execute("COMMIT").await.unwrap();
    let _again = writing(&given, first).await;
    assert_eq!(open(&given).await, [operation, running]);
}
