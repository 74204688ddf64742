//! Operations: the ports `OperationStore`, `OperationCandidates`, `BackfillStore`, `BulkErasure` and `AutoReplayStore`. What they make is in `replaying`.

mod automatic;
mod backfills;
mod erasing;
mod row;
mod scanning;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, DeliveryId, EventId, OperationId, OrganizationId},
    model::{
        AuditEntry, AutoReplay, DeadLetter, ErasureCandidate, Operation, OperationStatus, Page, PageRequest, Selection,
        health::ChunkOutcome,
    },
    ports::{
        AutoReplayStore, BackfillStore, Begun, BulkErasure, Cleared, DueDeadLetters, Ending, ErasureBatch, ErasureStep, EventCandidate,
        FreedInLane, KeptBackfill, OpenOperation, OperationCandidates, OperationEnded, OperationItem, OperationStore, Phase, ReplayAnswer,
        Scan, Scanned, SelectionStep, StoreError, TimeRange,
    },
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use self::row::{item_of_row, of_row, open_of_row, phase_name};
use super::{
    SqliteStore, audit_log,
    fault::Outcome,
    outbox,
    page::{Between, List, list, rows_wanted},
    rows::{Columns, Key},
    selection_json,
    spelling::priority_number,
    transaction::Tx,
};

const INSERT: &str = include_str!("../queries/insert_operation.sql");
const COUNT_OPEN: &str = include_str!("../queries/count_open_operations.sql");
const BY_ID: &str = include_str!("../queries/operation_by_id.sql");
const LIST: List = list!("../queries/operations_page.sql");
const LIST_OF_APPLICATION: List = list!("../queries/operations_of_application_page.sql");
const WITH_WORK: &str = include_str!("../queries/operations_with_work.sql");
const STATUS: &str = include_str!("../queries/status_of_operation.sql");
const SELECTS_AFTER: &str = include_str!("../queries/operation_selects_after.sql");
const INSERT_ITEM: &str = include_str!("../queries/insert_operation_item.sql");
const MOVE_SELECTION_ON: &str = include_str!("../queries/move_selection_on.sql");
const NEXT_ITEMS: &str = include_str!("../queries/next_operation_items.sql");
const TAKE_ITEM: &str = include_str!("../queries/take_operation_item.sql");
const COUNT: &str = include_str!("../queries/count_operation.sql");
const START: &str = include_str!("../queries/start_operation.sql");
const END: &str = include_str!("../queries/end_operation.sql");
const DISCARD: &str = include_str!("../queries/discard_dead_letter_of.sql");
const CLEAR: &str = include_str!("../queries/clear_operation_items.sql");
const IS_OVER: &str = include_str!("../queries/operation_is_over.sql");

#[async_trait]
impl OperationStore for SqliteStore {
    async fn begin(&self, operation: Operation, selection: Selection, open_max: u32, entry: AuditEntry) -> Result<Begun, StoreError> {
        self.change(1, entry, move |tx| begin(tx, &operation, &selection, open_max)).await
    }

    async fn operation(&self, organization: OrganizationId, id: OperationId) -> Result<Option<Operation>, StoreError> {
        self.read_history(move |connection| find(connection, organization, id)).await
    }

    async fn operations(
        &self,
        organization: OrganizationId,
        application: Option<ApplicationId>,
        page: PageRequest,
    ) -> Result<Page<Operation>, StoreError> {
        self.read_history(move |connection| {
            let (between, wanted) = (Between::of(page), rows_wanted(page));
            let rows = match application {
                None => LIST.read(connection, page, params![organization.key(), between.after, between.before, wanted], of_row)?,
                Some(application) => {
                    let parameters = params![organization.key(), between.after, between.before, wanted, application.key()];
                    LIST_OF_APPLICATION.read(connection, page, parameters, of_row)?
                }
            };
            Ok(Page::from_read(rows, page, |operation| *operation.id.as_uuid()))
        })
        .await
    }

    async fn open_operations(&self, limit: u32) -> Result<Vec<OpenOperation>, StoreError> {
        self.read_history(move |connection| {
            let mut statement = connection.prepare_cached(WITH_WORK)?;
            Ok(statement.query_map([limit], open_of_row)?.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn select(&self, step: SelectionStep) -> Result<(), StoreError> {
        self.write(step.items.len() + 1, move |tx| select(tx, &step)).await
    }

    async fn items(&self, operation: OperationId, limit: u32) -> Result<Vec<OperationItem>, StoreError> {
        self.read_history(move |connection| next_items(connection, operation, limit)).await
    }

    async fn start(&self, operation: OperationId, at: Timestamp) -> Result<bool, StoreError> {
        self.write(1, move |tx| Ok(tx.prepare(START)?.execute(params![operation.key(), at.as_micros()])? > 0)).await
    }

    async fn discard_next(&self, operation: OperationId, limit: u32) -> Result<u32, StoreError> {
        self.write(limit as usize * 2, move |tx| discard_next(tx, operation, limit)).await
    }

    async fn end(&self, ending: Ending) -> Result<OperationEnded, StoreError> {
        self.write(2, move |tx| end(tx, &ending)).await
    }

    async fn clear(&self, operation: OperationId, limit: u32) -> Result<Cleared, StoreError> {
        self.write(limit as usize, move |tx| clear(tx, operation, limit)).await
    }
}

#[async_trait]
impl OperationCandidates for SqliteStore {
    async fn scan_dead_letters(&self, organization: OrganizationId, scan: Scan) -> Result<Scanned<DeadLetter>, StoreError> {
        self.read_history(move |connection| scanning::dead_letters(connection, organization, scan)).await
    }

    async fn scan_events(
        &self,
        organization: OrganizationId,
        application: ApplicationId,
        span: (Timestamp, Timestamp),
        scan: Scan,
    ) -> Result<Scanned<EventCandidate>, StoreError> {
        self.read_history(move |connection| scanning::events(connection, organization, application, span, scan)).await
    }

    async fn newest_deliveries(&self, organization: OrganizationId, event: EventId) -> Result<Option<EventCandidate>, StoreError> {
        self.read_history(move |connection| scanning::event(connection, organization, event)).await
    }
}

#[async_trait]
impl BackfillStore for SqliteStore {
    async fn open_backfills(&self, limit: u32) -> Result<Vec<KeptBackfill>, StoreError> {
        self.read_history(move |connection| backfills::open(connection, limit)).await
    }

    async fn backfill(&self, organization: OrganizationId, id: OperationId) -> Result<Option<KeptBackfill>, StoreError> {
        self.read_history(move |connection| backfills::find(connection, organization, id)).await
    }

    async fn add_outcomes(&self, operation: OperationId, known: usize, outcomes: Vec<ChunkOutcome>) -> Result<bool, StoreError> {
        self.write(1, move |tx| backfills::add(tx, operation, known, &outcomes)).await
    }
}

#[async_trait]
impl BulkErasure for SqliteStore {
    async fn scan_for_erasure(
        &self,
        organization: OrganizationId,
        accepted: TimeRange,
        scan: Scan,
    ) -> Result<Scanned<ErasureCandidate>, StoreError> {
        self.read_history(move |connection| erasing::scan(connection, organization, accepted, scan)).await
    }

    async fn select_for_erasure(&self, step: ErasureStep) -> Result<(), StoreError> {
        self.write(step.events.len() + 1, move |tx| erasing::select(tx, &step)).await
    }

    async fn next_for_erasure(&self, operation: OperationId, limit: u32) -> Result<Vec<EventId>, StoreError> {
        self.read_history(move |connection| erasing::next(connection, operation, limit)).await
    }

    async fn erase_listed(&self, batch: ErasureBatch) -> Result<Option<Vec<FreedInLane>>, StoreError> {
        let erased = self.write(super::erasing::ROWS_A_STEP, move |tx| erasing::erase(tx, &batch)).await?;
        let Some((mut freed, unfinished)) = erased else { return Ok(None) };
        for event in unfinished {
            freed.extend(super::erasing::finish(&self.writer, event).await?);
        }
        Ok(Some(freed))
    }
}

#[async_trait]
impl AutoReplayStore for SqliteStore {
    async fn auto_replay(&self, organization: OrganizationId) -> Result<Option<AutoReplay>, StoreError> {
        self.read(move |connection| automatic::find(connection, organization)).await
    }

    async fn set_auto_replay(&self, organization: OrganizationId, settings: AutoReplay) -> Result<(), StoreError> {
        self.write(1, move |tx| automatic::keep(tx, organization, settings)).await
    }

    async fn auto_replays(&self) -> Result<Vec<(OrganizationId, AutoReplay)>, StoreError> {
        self.read(automatic::switched_on).await
    }

    async fn due_dead_letters(&self, wanted: DueDeadLetters) -> Result<Vec<DeadLetter>, StoreError> {
        self.read_history(move |connection| automatic::due(connection, wanted)).await
    }
}

/// What became of some items.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
}

impl Tally {
    pub(super) fn count(&mut self, answer: &ReplayAnswer) {
        match answer {
            ReplayAnswer::Made { .. } => self.done += 1,
            ReplayAnswer::Open | ReplayAnswer::NotDead(_) => self.skipped += 1,
            ReplayAnswer::NotFound | ReplayAnswer::Erased => self.failed += 1,
            ReplayAnswer::DoneBefore => {}
        }
    }
}

/// How an operation stands.
pub(super) fn status(tx: &Tx<'_>, id: OperationId) -> Outcome<Option<OperationStatus>> {
    let read = |row: &rusqlite::Row<'_>| row.spelled("status", |name: String| OperationStatus::parse(&name));
    Ok(tx.prepare(STATUS)?.query_row([id.key()], read).optional()?)
}

/// Takes an item off the list; says whether it was on it.
pub(super) fn take_item(tx: &mut Tx<'_>, id: OperationId, position: i64, lane: i64) -> Outcome<bool> {
    Ok(tx.hot(TAKE_ITEM)?.execute(params![id.key(), position, lane])? > 0)
}

/// Adds to what an operation has worked off.
pub(super) fn add_to_counts(tx: &Tx<'_>, id: OperationId, tally: Tally) -> Outcome<()> {
    tx.prepare(COUNT)?.execute(params![id.key(), number(tally.done), number(tally.failed), number(tally.skipped)])?;
    Ok(())
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn begin(tx: &Tx<'_>, operation: &Operation, selection: &Selection, open_max: u32) -> Outcome<Begun> {
    let open: u32 = tx.prepare(COUNT_OPEN)?.query_row([operation.organization.key()], |row| row.get(0))?;
    if open >= open_max {
        return Ok(Begun::TooMany);
    }
    insert(tx, operation, selection)?;
    Ok(Begun::Begun)
}

/// Begins an operation, however many are under way.
pub(super) fn insert(tx: &Tx<'_>, operation: &Operation, selection: &Selection) -> Outcome<()> {
    tx.prepare(INSERT)?.execute(params![
        operation.id.key(),
        operation.organization.key(),
        operation.kind.as_str(),
        selection_json::write(selection),
        Uuid::nil().key(),
        operation.rate.map(std::num::NonZeroU32::get),
        priority_number(operation.priority),
        operation.start_at.map(Timestamp::as_micros),
        operation.created_at.as_micros(),
        operation.application.as_ref().map(ApplicationId::key),
        number(operation.total),
        first_phase(selection),
    ])?;
    Ok(())
}

fn find(connection: &Connection, organization: OrganizationId, id: OperationId) -> Outcome<Option<Operation>> {
    let mut statement = connection.prepare_cached(BY_ID)?;
    Ok(statement.query_row(params![organization.key(), id.key()], of_row).optional()?)
}

/// A backfill is complete from its beginning; everything else selects first.
const fn first_phase(selection: &Selection) -> &'static str {
    match selection {
        Selection::Backfill(_) => phase_name(Phase::Selected),
        _ => phase_name(Phase::Selecting(Uuid::nil())),
    }
}

/// Whether an operation still selects, from behind this id on. Whoever looked there may have come too late.
fn selects_after(tx: &Tx<'_>, id: OperationId, after: Uuid) -> Outcome<bool> {
    Ok(tx.prepare(SELECTS_AFTER)?.exists(params![id.key(), after.key()])?)
}

fn select(tx: &mut Tx<'_>, step: &SelectionStep) -> Outcome<()> {
    if !selects_after(tx, step.operation, step.after)? {
        return Ok(());
    }
    let mut added = 0;
    for (event, lane_id, of) in &step.items {
        let lane = tx.lane_of(*lane_id)?;
        let of = of.as_ref().map(DeliveryId::key);
        added += tx.hot(INSERT_ITEM)?.execute(params![step.operation.key(), event.key(), lane, of])?;
    }
    let total = number(step.skipped).saturating_add(i64::try_from(added).unwrap_or(i64::MAX));
    let until = match &step.phase {
        Some(Phase::Selecting(until)) => Some(until.key()),
        Some(Phase::Selected | Phase::Clearing) | None => None,
    };
    let parameters = params![step.operation.key(), total, number(step.skipped), step.phase.map(phase_name), until];
    tx.prepare(MOVE_SELECTION_ON)?.execute(parameters)?;
    Ok(())
}

pub(super) fn next_items(connection: &Connection, operation: OperationId, limit: u32) -> Outcome<Vec<OperationItem>> {
    let mut statement = connection.prepare_cached(NEXT_ITEMS)?;
    Ok(statement.query_map(params![operation.key(), limit], item_of_row)?.collect::<Result<_, _>>()?)
}

fn discard_next(tx: &mut Tx<'_>, operation: OperationId, limit: u32) -> Outcome<u32> {
    if status(tx, operation)? != Some(OperationStatus::Running) {
        return Ok(0);
    }
    let items = next_items(tx.connection(), operation, limit)?;
    let mut tally = Tally::default();
    for item in &items {
        match tx.hot(DISCARD)?.execute(params![item.event.key(), item.lane_id.key()])? {
            0 => tally.skipped += 1,
            _ => tally.done += 1,
        }
        let lane = tx.lane_of(item.lane_id)?;
        take_item(tx, operation, item.position, lane)?;
    }
    add_to_counts(tx, operation, tally)?;
    Ok(u32::try_from(items.len()).unwrap_or(u32::MAX))
}

fn end(tx: &Tx<'_>, ending: &Ending) -> Outcome<OperationEnded> {
    let Some(found) = find(tx.connection(), ending.organization, ending.operation)? else { return Ok(OperationEnded::NotFound) };
    if found.status.is_over() {
        return Ok(OperationEnded::Before(found.status));
    }
    let is_finished = ending.status == OperationStatus::Finished;
    if is_finished && found.remaining() > 0 {
        return Ok(OperationEnded::NotYet);
    }
    let phase = if is_finished { "over" } else { "clearing" };
    let parameters = params![ending.operation.key(), ending.status.as_str(), phase, ending.at.as_micros()];
    if tx.prepare(END)?.execute(parameters)? == 0 {
        return Ok(OperationEnded::NotYet);
    }
    outbox::keep(tx, &ending.alert)?;
    ending.entry.iter().try_for_each(|entry| audit_log::append(tx, entry))?;
    Ok(OperationEnded::Ended)
}

fn clear(tx: &Tx<'_>, operation: OperationId, limit: u32) -> Outcome<Cleared> {
    if !status(tx, operation)?.is_some_and(OperationStatus::is_over) {
        return Ok(Cleared::All);
    }
    // Each has items in one of the two lists.
    let cleared = tx.prepare(CLEAR)?.execute(params![operation.key(), limit])? + erasing::clear(tx, operation, limit)?;
    if cleared >= limit as usize {
        return Ok(Cleared::SomeLeft);
    }
    tx.prepare(IS_OVER)?.execute([operation.key()])?;
    Ok(Cleared::All)
}

#[cfg(test)]
mod tests;
