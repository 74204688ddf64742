//! What sealing promises beyond the rows: nothing of a sealed event can be read in the files.

use everhook_core::{ids::SourceId, ports::EventStore};
use uuid::Uuid;

use crate::sqlite::{conformance::erasing::SECRET, given::Given};

#[tokio::test]
async fn what_is_sealed_is_nowhere_in_the_files_and_is_read_as_it_was() {
    let given = Given::new().await;
    let source = SourceId::from_uuid(Uuid::from_u128(7));
    for bytes in [0, 50_000] {
        let mut new = given.received_event(source, "user").await;
        new.event.data = given.secret_event(bytes).await.event.data;
        new.event.sealed = true;
        let mut event = new.event.clone();
        event.sequence_number = given.record(new).await;
        assert!(!given.files_hold_the_secret());
        assert_eq!(EventStore::event(&*given.store, event.id).await.unwrap(), Some(event));
    }
    let given = given.reopened().await;
    assert!(!given.files_hold_the_secret());
    // The test can see what is not sealed.
    let mut plain = given.event(&[given.endpoint]).await;
    plain.event.data = format!("\"{SECRET}\"").into();
    given.record(plain).await;
    assert!(given.files_hold_the_secret());
}
