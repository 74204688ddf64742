//! Operations: the ports `OperationStore`, `OperationCandidates`, `BackfillStore`, `BulkErasure` and `AutoReplayStore`. What they make is in `replaying`.
//!
//! Whoever changes an operation or takes its items locks its row first ([`status`]), so that no end slips in between.

mod automatic;
mod backfills;
mod erasing;
mod row;
mod scanning;
mod working;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, EventId, LaneId, OperationId, OrganizationId},
    model::{AuditEntry, AutoReplay, DeadLetter, ErasureCandidate, Operation, Page, PageRequest, Selection, health::ChunkOutcome},
    ports::{
        AutoReplayStore, BackfillStore, Begun, BulkErasure, Cleared, DueDeadLetters, Ending, ErasureBatch, ErasureStep, EventCandidate,
        FreedInLane, KeptBackfill, OpenOperation, OperationCandidates, OperationEnded, OperationItem, OperationStore, Phase, Scan, Scanned,
        SelectionStep, StoreError, TimeRange,
    },
    time::Timestamp,
};
use uuid::Uuid;

use self::row::{item_of_row, of_row, open_of_row, phase_name};
pub(super) use self::working::{Tally, add_to_counts, status, take_items};
use super::{
    PostgresStore,
    audit_log::conclude,
    fault::Outcome,
    page::{Between, List, list, rows_wanted},
    rows::{Columns, Int, Key, Params},
    transaction::Tx,
};
use crate::encoding::{selection_json, spelling::priority_number};

const INSERT: &str = include_str!("../queries/insert_operation.sql");
const COUNT_OPEN: &str = include_str!("../queries/count_open_operations.sql");
const BY_ID: &str = include_str!("../queries/operation_by_id.sql");
const LIST: List = list!("../queries/operations_page.sql");
const LIST_OF_APPLICATION: List = list!("../queries/operations_of_application_page.sql");
const WITH_WORK: &str = include_str!("../queries/operations_with_work.sql");
pub(super) const NEXT_ITEMS: &str = include_str!("../queries/next_operation_items.sql");
const START: &str = include_str!("../queries/start_operation.sql");

#[async_trait]
impl OperationStore for PostgresStore {
    async fn begin(&self, operation: Operation, selection: Selection, open_max: u32, entry: AuditEntry) -> Result<Begun, StoreError> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        let begun = begin(&tx, &operation, &selection, open_max).await?;
        Ok(conclude(tx, begun, &entry).await?)
    }

    async fn operation(&self, organization: OrganizationId, id: OperationId) -> Result<Option<Operation>, StoreError> {
        let row = self.reader().await?.query_opt(BY_ID, &[&organization.key(), &id.key()]).await?;
        Ok(row.as_ref().map(of_row).transpose()?)
    }

    async fn operations(
        &self,
        organization: OrganizationId,
        application: Option<ApplicationId>,
        page: PageRequest,
    ) -> Result<Page<Operation>, StoreError> {
        let (between, wanted) = (Between::of(page), rows_wanted(page));
        let (reader, organization) = (self.reader().await?, organization.key());
        let rows = match application {
            None => LIST.read(&reader, page, &[&organization, &between.after, &between.before, &wanted], of_row).await?,
            Some(application) => {
                let parameters: Params<'_> = &[&organization, &between.after, &between.before, &wanted, &application.key()];
                LIST_OF_APPLICATION.read(&reader, page, parameters, of_row).await?
            }
        };
        Ok(Page::from_read(rows, page, |operation| *operation.id.as_uuid()))
    }

    async fn open_operations(&self, limit: u32) -> Result<Vec<OpenOperation>, StoreError> {
        let rows = self.reader().await?.query(WITH_WORK, &[&i64::from(limit)]).await?;
        Ok(rows.iter().map(open_of_row).collect::<Outcome<_>>()?)
    }

    async fn select(&self, step: SelectionStep) -> Result<(), StoreError> {
        let endpoints: Vec<LaneId> = step.items.iter().map(|(_, lane_id, _)| *lane_id).collect();
        let lanes = self.lane_numbers(&endpoints).await?;
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        working::select(&tx, &step, &lanes).await?;
        Ok(tx.commit().await?)
    }

    async fn items(&self, operation: OperationId, limit: u32) -> Result<Vec<OperationItem>, StoreError> {
        let rows = self.reader().await?.query(NEXT_ITEMS, &[&operation.key(), &i64::from(limit)]).await?;
        Ok(rows.iter().map(item_of_row).collect::<Outcome<_>>()?)
    }

    async fn start(&self, operation: OperationId, at: Timestamp) -> Result<bool, StoreError> {
        Ok(self.reader().await?.execute(START, &[&operation.key(), &at.as_micros()]).await? > 0)
    }

    async fn discard_next(&self, operation: OperationId, limit: u32) -> Result<u32, StoreError> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        let discarded = working::discard_next(&tx, operation, limit).await?;
        tx.commit().await?;
        Ok(discarded)
    }

    async fn end(&self, ending: Ending) -> Result<OperationEnded, StoreError> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        let ended = working::end(&tx, &ending).await?;
        tx.commit().await?;
        Ok(ended)
    }

    async fn clear(&self, operation: OperationId, limit: u32) -> Result<Cleared, StoreError> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        let cleared = working::clear(&tx, operation, limit).await?;
        tx.commit().await?;
        Ok(cleared)
    }
}

#[async_trait]
impl OperationCandidates for PostgresStore {
    async fn scan_dead_letters(&self, organization: OrganizationId, scan: Scan) -> Result<Scanned<DeadLetter>, StoreError> {
        Ok(scanning::dead_letters(&self.reader().await?, organization, scan).await?)
    }

    async fn scan_events(
        &self,
        organization: OrganizationId,
        application: ApplicationId,
        span: (Timestamp, Timestamp),
        scan: Scan,
    ) -> Result<Scanned<EventCandidate>, StoreError> {
        let mut connection = self.connection().await?;
        let snapshot = Tx::snapshot(&mut connection).await?;
        Ok(scanning::events(&snapshot, organization, application, span, scan).await?)
    }

    async fn newest_deliveries(&self, organization: OrganizationId, event: EventId) -> Result<Option<EventCandidate>, StoreError> {
        let mut connection = self.connection().await?;
        let snapshot = Tx::snapshot(&mut connection).await?;
        Ok(scanning::event(&snapshot, organization, event).await?)
    }
}

#[async_trait]
impl BackfillStore for PostgresStore {
    async fn open_backfills(&self, limit: u32) -> Result<Vec<KeptBackfill>, StoreError> {
        Ok(backfills::open(self, limit).await?)
    }

    async fn backfill(&self, organization: OrganizationId, id: OperationId) -> Result<Option<KeptBackfill>, StoreError> {
        Ok(backfills::find(self, organization, id).await?)
    }

    async fn add_outcomes(&self, operation: OperationId, known: usize, outcomes: Vec<ChunkOutcome>) -> Result<bool, StoreError> {
        Ok(backfills::add(self, operation, known, &outcomes).await?)
    }
}

#[async_trait]
impl BulkErasure for PostgresStore {
    async fn scan_for_erasure(
        &self,
        organization: OrganizationId,
        accepted: TimeRange,
        scan: Scan,
    ) -> Result<Scanned<ErasureCandidate>, StoreError> {
        Ok(erasing::scan(&self.reader().await?, organization, accepted, scan).await?)
    }

    async fn select_for_erasure(&self, step: ErasureStep) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        erasing::select(&tx, &step).await?;
        Ok(tx.commit().await?)
    }

    async fn next_for_erasure(&self, operation: OperationId, limit: u32) -> Result<Vec<EventId>, StoreError> {
        Ok(erasing::next(&self.reader().await?, operation, limit).await?)
    }

    async fn erase_listed(&self, batch: ErasureBatch) -> Result<Option<Vec<FreedInLane>>, StoreError> {
        Ok(erasing::erase(self, &batch).await?)
    }
}

#[async_trait]
impl AutoReplayStore for PostgresStore {
    async fn auto_replay(&self, organization: OrganizationId) -> Result<Option<AutoReplay>, StoreError> {
        Ok(automatic::find(&self.line_reader().await?, organization).await?)
    }

    async fn set_auto_replay(&self, organization: OrganizationId, settings: AutoReplay) -> Result<(), StoreError> {
        Ok(automatic::keep(&self.reader().await?, organization, settings).await?)
    }

    async fn auto_replays(&self) -> Result<Vec<(OrganizationId, AutoReplay)>, StoreError> {
        Ok(automatic::switched_on(&self.line_reader().await?).await?)
    }

    async fn due_dead_letters(&self, wanted: DueDeadLetters) -> Result<Vec<DeadLetter>, StoreError> {
        Ok(automatic::due(&self.reader().await?, wanted).await?)
    }
}

async fn begin(tx: &Tx<'_>, operation: &Operation, selection: &Selection, open_max: u32) -> Outcome<Begun> {
    tx.lock_organization(operation.organization).await?;
    let open: i64 = tx.query_one(COUNT_OPEN, &[&operation.organization.key()]).await?.value("open")?;
    if open >= i64::from(open_max) {
        return Ok(Begun::TooMany);
    }
    insert(tx, operation, selection).await?;
    Ok(Begun::Begun)
}

/// Begins an operation, however many are under way.
pub(super) async fn insert(tx: &Tx<'_>, operation: &Operation, selection: &Selection) -> Outcome<()> {
    tx.execute(
        INSERT,
        &[
            &operation.id.key(),
            &operation.organization.key(),
            &operation.kind.as_str(),
            &selection_json::write(selection),
            &Uuid::nil(),
            &operation.rate.map(|rate| i64::from(rate.get())),
            &Int(priority_number(operation.priority)),
            &operation.start_at.map(Timestamp::as_micros),
            &operation.created_at.as_micros(),
            &operation.application.as_ref().map(ApplicationId::key),
            &working::number(operation.total),
            &first_phase(selection),
        ],
    )
    .await?;
    Ok(())
}

/// A backfill is complete from its beginning; everything else selects first.
const fn first_phase(selection: &Selection) -> &'static str {
    match selection {
        Selection::Backfill(_) => phase_name(Phase::Selected),
        _ => phase_name(Phase::Selecting(Uuid::nil())),
    }
}

/// Reads an operation as it stands in a transaction.
async fn find(tx: &Tx<'_>, organization: OrganizationId, id: OperationId) -> Outcome<Option<Operation>> {
    tx.query_opt(BY_ID, &[&organization.key(), &id.key()]).await?.as_ref().map(of_row).transpose()
}
