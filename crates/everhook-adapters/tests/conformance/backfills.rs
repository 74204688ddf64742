//! Backfills: operations that are complete when they begin, and whose pieces are settled once, one after the other.

use std::time::Duration;

use everhook_core::{
    ids::{HealthConnectionId, OperationId, OrganizationId},
    model::{
        Operation, OperationKind, OperationStatus, Selection,
        health::{BACKFILL_CHUNK_MIN, BACKFILL_CHUNKS_MAX, BACKFILL_SPAN_MAX, Backfill, BackfillType, ChunkOutcome},
    },
    ports::{Begun, Cleared, OperationEnded, Phase},
    time::Timestamp,
};

use super::{
    given::{Given, NOW, entry, id},
    operations::operation,
};

/// Every type over the longest span, in pieces of so many days.
fn backfill(chunk_days: u32) -> Backfill {
    let from = Timestamp::from_secs(1_700_000_000);
    Backfill {
        connection: HealthConnectionId::from_uuid(id()),
        types: BackfillType::ALL.to_vec(),
        from,
        to: from + BACKFILL_SPAN_MAX,
        chunk: Duration::from_secs(86_400) * chunk_days,
    }
}

impl Given {
    pub async fn begun_backfill(&self, organization: OrganizationId, backfill: &Backfill) -> Operation {
        let total = backfill.chunks().len() as u64;
        let operation = Operation { total, ..operation(organization, OperationKind::Backfill) };
        let begun = self.store.begin(operation.clone(), Selection::Backfill(backfill.clone()), 100, entry()).await.unwrap();
        assert_eq!(begun, Begun::Begun);
        operation
    }

    async fn outcomes(&self, operation: OperationId) -> Vec<ChunkOutcome> {
        self.store.backfill(self.organization, operation).await.unwrap().unwrap().outcomes
    }
}

#[tokio::test]
async fn a_backfill_is_complete_when_it_begins_and_is_read_back_as_it_was_begun() {
    let given = Given::new().await;
    let wanted = backfill(30);
    let begun = given.begun_backfill(given.organization, &wanted).await;
    let given = given.reopened().await;
    let found = given.store.backfill(given.organization, begun.id).await.unwrap().unwrap();
    assert_eq!((&found.operation, &found.backfill, &found.outcomes), (&begun, &wanted, &Vec::new()));
    assert_eq!((begun.total, begun.remaining()), (48, 48));
    assert_eq!(given.store.open_backfills(10).await.unwrap(), [found]);
    let open = given.store.open_operations(10).await.unwrap();
    assert_eq!((&open[0].selection, open[0].phase), (&Selection::Backfill(wanted), Phase::Selected));
    // A stranger's is not there, and neither is an operation of another kind.
    assert_eq!(given.store.backfill(OrganizationId::from_uuid(id()), begun.id).await.unwrap(), None);
    let replay = given.begun(OperationKind::Replay).await;
    assert_eq!(given.store.backfill(given.organization, replay).await.unwrap(), None);
    assert_eq!(given.store.open_backfills(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn outcomes_are_added_in_their_order_counted_once_and_kept() {
    use ChunkOutcome::{Accepted, DoneBefore, NoHistoryPermission, NotConnected, RefusedByProvider, Unanswered};
    let given = Given::new().await;
    let id = given.begun_backfill(given.organization, &backfill(30)).await.id;
    assert!(!given.store.add_outcomes(id, 0, vec![Accepted]).await.unwrap(), "it does not run yet");
    assert!(given.store.start(id, NOW).await.unwrap());
    assert!(given.store.add_outcomes(id, 0, vec![Accepted]).await.unwrap());
    // The answer was lost and the same is added again, or somebody else who had read the same comes late.
    assert!(!given.store.add_outcomes(id, 0, vec![DoneBefore]).await.unwrap());
    assert!(!given.store.add_outcomes(id, 2, vec![Accepted]).await.unwrap(), "one would be passed over");
    for (known, outcome) in [(1, DoneBefore), (2, RefusedByProvider), (3, Unanswered), (4, NoHistoryPermission)] {
        assert!(given.store.add_outcomes(id, known, vec![outcome]).await.unwrap());
    }
    let given = given.reopened().await;
    let found = given.look(id).await;
    assert_eq!((found.total, found.done, found.failed, found.skipped), (48, 1, 3, 1));
    assert_eq!(given.outcomes(id).await, [Accepted, DoneBefore, RefusedByProvider, Unanswered, NoHistoryPermission]);
    assert_eq!(given.end(id, OperationStatus::Finished).await, OperationEnded::NotYet);
    // The rest at once; more pieces than there are is refused.
    assert!(given.store.add_outcomes(id, 5, vec![NotConnected; 44]).await.is_err());
    assert!(given.store.add_outcomes(id, 5, vec![NotConnected; 43]).await.unwrap());
    assert_eq!(given.look(id).await.remaining(), 0);
    assert_eq!(given.end(id, OperationStatus::Finished).await, OperationEnded::Ended);
    assert!(!given.store.add_outcomes(id, 48, Vec::new()).await.unwrap(), "it has ended");
    assert_eq!((given.store.open_backfills(10).await.unwrap(), given.outcomes(id).await.len()), (Vec::new(), 48));
}

#[tokio::test]
async fn a_cancelled_backfill_takes_no_more_outcomes_and_keeps_those_that_it_has() {
    let given = Given::new().await;
    let id = given.begun_backfill(given.organization, &backfill(30)).await.id;
    assert!(given.store.start(id, NOW).await.unwrap());
    assert!(given.store.add_outcomes(id, 0, vec![ChunkOutcome::Accepted]).await.unwrap());
    assert_eq!(given.end(id, OperationStatus::Cancelled).await, OperationEnded::Ended);
    // One whose request was under way.
    assert!(!given.store.add_outcomes(id, 1, vec![ChunkOutcome::Accepted]).await.unwrap());
    assert_eq!(given.store.open_backfills(10).await.unwrap(), []);
    assert_eq!(given.store.clear(id, 10).await.unwrap(), Cleared::All);
    assert_eq!(given.store.open_operations(10).await.unwrap(), []);
    assert_eq!(given.outcomes(id).await, [ChunkOutcome::Accepted]);
}

#[tokio::test]
async fn the_largest_backfill_fits() {
    let given = Given::new().await;
    let wanted = Backfill { chunk: BACKFILL_CHUNK_MIN, ..backfill(1) };
    let id = given.begun_backfill(given.organization, &wanted).await.id;
    assert!(given.store.start(id, NOW).await.unwrap());
    assert!(given.store.add_outcomes(id, 0, vec![ChunkOutcome::Accepted; BACKFILL_CHUNKS_MAX]).await.unwrap());
    assert_eq!((given.look(id).await.remaining(), given.outcomes(id).await.len()), (0, 1_440));
}

#[tokio::test]
async fn every_organizations_oldest_backfill_comes_before_anybodys_second() {
    let given = Given::new().await;
    let [busy, other, third] = [given.organization, OrganizationId::from_uuid(id()), OrganizationId::from_uuid(id())];
    let mut begun = Vec::new();
    for organization in [busy, busy, busy, other, other, third] {
        begun.push(given.begun_backfill(organization, &backfill(30)).await.id);
    }
    let open = async |limit| given.store.open_backfills(limit).await.unwrap().iter().map(|kept| kept.operation.id).collect::<Vec<_>>();
    assert_eq!(open(3).await, [begun[0], begun[3], begun[5]]);
    assert_eq!(open(10).await, [begun[0], begun[3], begun[5], begun[1], begun[4], begun[2]]);
}
