//! What sealing promises beyond the rows: nothing of a sealed event can be read in the database.

use everhook_core::{ids::SourceId, ports::EventStore};
use uuid::Uuid;

use crate::postgres::{conformance::erasing::SECRET, given::Given};

impl Given {
    /// Fails if the number of events with the secret in their rows is another.
    async fn expect_rows_with_the_secret(&self, count: u32) {
        let look = format!(
            "DO $$ BEGIN ASSERT (SELECT count(*) FROM events e WHERE position(convert_to('{SECRET}', 'UTF8') IN e.body) > 0 \
             OR position(convert_to('{SECRET}', 'UTF8') IN e.received_headers) > 0) = {count}; END $$"
        );
        self.tamper(&look).await;
    }
}

#[tokio::test]
async fn what_is_sealed_is_in_no_row_and_is_read_as_it_was_also_by_another_node() {
    let given = Given::new().await;
    let other = given.backing.node().await;
    let source = SourceId::from_uuid(Uuid::from_u128(7));
    for bytes in [0, 50_000] {
        let mut new = given.received_event(source, "user").await;
        new.event.data = given.secret_event(bytes).await.event.data;
        new.event.sealed = true;
        let mut event = new.event.clone();
        event.sequence_number = given.record(new).await;
        assert_eq!(EventStore::event(&other, event.id).await.unwrap(), Some(event));
    }
    given.expect_rows_with_the_secret(0).await;
    // The test can see what is not sealed.
    let mut plain = given.received_event(source, "user").await;
    plain.event.data = format!("\"{SECRET}\"").into();
    given.record(plain).await;
    given.expect_rows_with_the_secret(1).await;
}
