//! Fixes what an operation is about: reads a stretch, decides, and adds what is meant to the operation's list.

use std::sync::Arc;

use uuid::Uuid;

use crate::{
    catalog::{ApplicationView, Destination},
    ids::{DeliveryId, EventId, LaneId},
    line::Line,
    manage::endpoints::TEST_EVENT_TYPE,
    model::{DeadLetterSelection, ErasureSelection, EventSelection, NewestDelivery, Operation, Selection},
    policy::selection::{self, Choice},
    ports::{ErasureStep, EventCandidate, OpenOperation, Phase, Scan, SelectionStep, StoreError, TimeRange},
};

/// How many items one write adds: what a commit should hold at most.
const ITEMS_A_WRITE: usize = 2_000;

/// How many dead letters one step looks at.
const DEAD_LETTERS_A_STEP: u32 = 2_000;

/// How many events one step looks at, at most, and how many (event, endpoint) they may make.
const EVENTS_A_STEP: u32 = 500;
const PAIRS_A_STEP: usize = 20_000;

/// How many events one step looks at to erase them: what a commit should hold at most.
const ERASURES_A_STEP: u32 = 2_000;

/// How many waiting deliveries one step looks at: what a commit should hold at most.
const WAITING_A_STEP: u32 = 2_000;

/// Event, endpoint, and the delivery that would be done again.
type Item = (EventId, LaneId, Option<DeliveryId>);

/// What a stretch holds for an operation.
struct Found {
    /// Where the stretch begins.
    after: Uuid,
    items: Vec<Item>,
    /// How many more belong to the operation and need nothing.
    skipped: u64,
    /// Where the next stretch begins; `None` if this was the last.
    goes_on_after: Option<Uuid>,
}

/// Looks at the next stretch after an id.
pub(super) async fn step(line: &Line, open: &OpenOperation, after: Uuid) -> Result<(), StoreError> {
    let operation = &open.operation;
    match &open.selection {
        Selection::DeadLetters(letters) => select_dead_letters(line, operation, letters, after).await,
        Selection::Events(events) => select_events(line, operation, events, after).await,
        Selection::Erasure(events) => select_for_erasure(line, operation, events, after).await,
        Selection::Waiting(endpoint) => select_waiting(line, operation, (*endpoint).into(), after).await,
        // It was complete when it began.
        Selection::Backfill(_) => Ok(()),
    }
}

async fn select_dead_letters(line: &Line, of: &Operation, wanted: &DeadLetterSelection, after: Uuid) -> Result<(), StoreError> {
    let scan = Scan { after, limit: DEAD_LETTERS_A_STEP };
    let scanned = line.ports.operation_candidates.scan_dead_letters(of.organization, scan).await?;
    let meant = scanned.rows.iter().filter(|letter| selection::takes_dead_letter(wanted, letter, of.created_at));
    let items = meant.map(|letter| (letter.event, letter.lane_id, Some(letter.id))).collect();
    let found = Found { after, items, skipped: 0, goes_on_after: scanned.goes_on_after };
    keep(line, of, found).await
}

async fn select_events(line: &Line, of: &Operation, wanted: &EventSelection, after: Uuid) -> Result<(), StoreError> {
    let Some(view) = line.catalog.application(wanted.application).await? else {
        return keep(line, of, Found { after, items: Vec::new(), skipped: 0, goes_on_after: None }).await;
    };
    let endpoints = view.endpoint_count().max(1);
    let limit = u32::try_from(PAIRS_A_STEP / endpoints).unwrap_or(EVENTS_A_STEP).clamp(1, EVENTS_A_STEP);
    let span = (wanted.from, wanted.to);
    let scanned = line.ports.operation_candidates.scan_events(of.organization, wanted.application, span, Scan { after, limit }).await?;
    let (mut items, mut skipped) = (Vec::new(), 0);
    for event in scanned.rows.iter().filter(|event| is_meant(wanted, event)) {
        for endpoint in destinations(&view, wanted, event).iter().filter_map(Destination::endpoint) {
            let newest = newest_at(event, endpoint.id.into());
            match selection::choose(wanted.wanted, newest, endpoint.created_at <= event.accepted_at) {
                Choice::Take => items.push((event.event, endpoint.id.into(), newest.newest())),
                Choice::Skip => skipped += 1,
                Choice::Leave => {}
            }
        }
    }
    keep(line, of, Found { after, items, skipped, goes_on_after: scanned.goes_on_after }).await
}

async fn select_waiting(line: &Line, of: &Operation, lane_id: LaneId, after: Uuid) -> Result<(), StoreError> {
    let scan = Scan { after, limit: WAITING_A_STEP };
    let scanned = line.ports.delivery_control.scan_waiting(lane_id, of.created_at, scan).await?;
    let items = scanned.rows.iter().map(|row| (row.event, lane_id, Some(row.delivery))).collect();
    keep(line, of, Found { after, items, skipped: 0, goes_on_after: scanned.goes_on_after }).await
}

async fn select_for_erasure(line: &Line, of: &Operation, wanted: &ErasureSelection, after: Uuid) -> Result<(), StoreError> {
    let accepted = TimeRange { from: wanted.from, to: Some(wanted.to) };
    let scan = Scan { after, limit: ERASURES_A_STEP };
    let organization = wanted.deleted_organization.unwrap_or(of.organization);
    let scanned = line.ports.bulk_erasure.scan_for_erasure(organization, accepted, scan).await?;
    let meant = scanned.rows.iter().filter(|event| selection::takes_for_erasure(wanted, event));
    let events = meant.map(|event| event.event).collect();
    let phase = scanned.goes_on_after.map_or(Phase::Selected, Phase::Selecting);
    line.ports.bulk_erasure.select_for_erasure(ErasureStep { operation: of.id, after, events, phase }).await
}

/// A sample event was for one endpoint alone, so that it goes to others only if it is asked for by name.
fn is_meant(wanted: &EventSelection, event: &EventCandidate) -> bool {
    let is_sample = event.event_type.as_str() == TEST_EVENT_TYPE;
    selection::takes_type(&wanted.event_types, &event.event_type) && !(is_sample && wanted.event_types.is_empty())
}

/// Channels are not part of a selection: people must not be notified twice.
fn destinations(view: &ApplicationView, wanted: &EventSelection, event: &EventCandidate) -> Arc<[Destination]> {
    if wanted.endpoints.is_empty() {
        return view.matching(&event.event_type);
    }
    wanted.endpoints.iter().filter_map(|id| view.destination((*id).into())).collect()
}

fn newest_at(event: &EventCandidate, lane_id: LaneId) -> NewestDelivery {
    let found = event.newest.binary_search_by_key(&lane_id, |(lane_id, _)| *lane_id);
    found.map_or(NewestDelivery::Absent, |index| event.newest[index].1)
}

/// Adds what was found, in as many writes as it takes. Only the last one moves the selection on: whatever a crash leaves is found again, and
/// what is on the list already is left as it is.
async fn keep(line: &Line, of: &Operation, found: Found) -> Result<(), StoreError> {
    let Found { after, mut items, skipped, goes_on_after } = found;
    while items.len() > ITEMS_A_WRITE {
        let rest = items.split_off(ITEMS_A_WRITE);
        let first = SelectionStep { operation: of.id, after, items, skipped: 0, phase: None };
        line.ports.operations.select(first).await?;
        items = rest;
    }
    let phase = Some(goes_on_after.map_or(Phase::Selected, Phase::Selecting));
    line.ports.operations.select(SelectionStep { operation: of.id, after, items, skipped, phase }).await
}
