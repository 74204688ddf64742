//! Makes deliveries that were not made with their events: retries by hand, and what operations do again.

use everhook_core::{
    ids::{ApplicationId, DeliveryId, EventId, OperationId, OrganizationId},
    model::{DeadLetterStatus, OperationStatus, OrderedBy, Priority},
    ports::{NewDelivery, Replay, ReplayAnswer, ReplayBy, ReplayItem, Replayed},
    time::Timestamp,
};
use rusqlite::{OptionalExtension, params};

use super::{
    fault::Outcome,
    operations::{self, Tally},
    ordering::{self, Ordered},
    rows::{Columns, Key},
    spelling::{priority_number, read_priority},
    transaction::Tx,
};
use crate::due::EventFacts;

const EVENT: &str = include_str!("queries/event_to_replay.sql");
const STATUS_OF_DEAD_LETTER: &str = include_str!("queries/status_of_dead_letter.sql");
const IS_OPEN: &str = include_str!("queries/open_of_event_and_lane.sql");
const INSERT: &str = include_str!("queries/insert_replay.sql");
const REQUEUE: &str = include_str!("queries/requeue_dead_letter.sql");

/// Makes what can be made, in the order of the events.
pub(super) fn replay(tx: &mut Tx<'_>, replay: &Replay) -> Outcome<Replayed> {
    let changed = changed_applications(tx, replay)?;
    if !changed.is_empty() {
        return Ok(Replayed::ConfigChanged(changed));
    }
    let operation = match &replay.by {
        ReplayBy::Operation { id, .. } => Some(*id),
        ReplayBy::Hand | ReplayBy::Automatic => None,
    };
    if let Some(id) = operation
        && operations::status(tx, id)? != Some(OperationStatus::Running)
    {
        return Ok(Replayed::Stopped);
    }
    let is_automatic = replay.by == ReplayBy::Automatic;
    let context = ReplayContext { organization: replay.organization, operation, is_automatic, at: replay.at };
    let answers = replay_in_order(tx, &context, &replay.items)?;
    if let ReplayBy::Operation { id, failed } = &replay.by {
        let mut tally = Tally::default();
        answers.iter().for_each(|answer| tally.count(answer));
        for item in failed {
            let lane = tx.lane_of(item.lane_id)?;
            tally.failed += u64::from(operations::take_item(tx, *id, item.position, lane)?);
        }
        operations::add_to_counts(tx, *id, tally)?;
    }
    Ok(Replayed::Answered(answers))
}

/// For whom deliveries are made, and when.
struct ReplayContext {
    organization: OrganizationId,
    operation: Option<OperationId>,
    is_automatic: bool,
    at: Timestamp,
}

fn changed_applications(tx: &mut Tx<'_>, replay: &Replay) -> Outcome<Vec<ApplicationId>> {
    let mut changed = Vec::new();
    for (application, version) in replay.configurations() {
        let is_current = tx.counters(application)?.is_some_and(|counters| counters.version.total() == version);
        if !is_current && !changed.contains(&application) {
            changed.push(application);
        }
    }
    Ok(changed)
}

/// One lane gets them in the order of their events, whatever the order of the items; the answers are in the order of the items.
fn replay_in_order(tx: &mut Tx<'_>, context: &ReplayContext, items: &[ReplayItem]) -> Outcome<Vec<ReplayAnswer>> {
    let mut answers: Vec<ReplayAnswer> = items.iter().map(|_| ReplayAnswer::NotFound).collect();
    let mut found = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        match event_facts(tx, context.organization, item.event)? {
            Some(facts) => found.push((index, item, facts)),
            // What is gone is taken off the list all the same, or the operation would never end.
            None if take_off(tx, context.operation, item)? => {}
            None => answers[index] = ReplayAnswer::DoneBefore,
        }
    }
    found.sort_by_key(|(_, _, facts)| facts.sequence_number);
    for (index, item, facts) in found {
        answers[index] = replay_one(tx, context, item, &facts)?;
    }
    Ok(answers)
}

fn event_facts(tx: &mut Tx<'_>, organization: OrganizationId, event: EventId) -> Outcome<Option<EventFacts>> {
    let facts = |row: &rusqlite::Row<'_>| {
        Ok(EventFacts {
            event_type: row.event_type("event_type")?,
            ordering_key: row.ordering_key("ordering_key")?,
            priority: row.spelled("priority", read_priority)?,
            sequence_number: row.get("sequence_number")?,
            is_erased: row.get("is_erased")?,
        })
    };
    Ok(tx.hot(EVENT)?.query_row(params![event.key(), organization.key()], facts).optional()?)
}

fn replay_one(tx: &mut Tx<'_>, context: &ReplayContext, item: &ReplayItem, facts: &EventFacts) -> Outcome<ReplayAnswer> {
    if !take_off(tx, context.operation, item)? {
        return Ok(ReplayAnswer::DoneBefore);
    }
    if facts.is_erased {
        return Ok(ReplayAnswer::Erased);
    }
    let lane = tx.lane_of(item.lane_id)?;
    let parse = |name: String| DeadLetterStatus::parse(&name);
    let dead_letter = tx
        .hot(STATUS_OF_DEAD_LETTER)?
        .query_row(params![item.event.key(), item.lane_id.key()], |row| row.spelled("status", parse))
        .optional()?;
    if item.only_dead && dead_letter != Some(DeadLetterStatus::Dead) {
        return Ok(dead_letter.map_or(ReplayAnswer::NotFound, ReplayAnswer::NotDead));
    }
    let of = item.of.as_ref().map(DeliveryId::key);
    if tx.hot(IS_OPEN)?.query_row(params![item.event.key(), lane, of], |row| row.get(0))? {
        return Ok(ReplayAnswer::Open);
    }
    let priority = item.priority.unwrap_or(facts.priority);
    let is_held = make(tx, context, item, facts.ordered_by(), priority)?;
    if dead_letter == Some(DeadLetterStatus::Dead) {
        let automatic = context.is_automatic.then(|| item.delivery.key());
        let parameters = params![item.event.key(), item.lane_id.key(), item.delivery.key(), context.at.as_micros(), automatic];
        tx.hot(REQUEUE)?.execute(parameters)?;
    }
    Ok(ReplayAnswer::Made { due: (!is_held).then(|| item.due(facts.ordered_by(), context.at)), priority })
}

/// Takes an item off its operation's list; says whether it was on it. What is on no list is there.
fn take_off(tx: &mut Tx<'_>, operation: Option<OperationId>, item: &ReplayItem) -> Outcome<bool> {
    let (Some(operation), Some(position)) = (operation, item.position) else { return Ok(true) };
    let lane = tx.lane_of(item.lane_id)?;
    operations::take_item(tx, operation, position, lane)
}

/// Makes the delivery, at the tail of its lane; says whether it is held.
fn make(tx: &mut Tx<'_>, context: &ReplayContext, item: &ReplayItem, by: OrderedBy<'_>, priority: Priority) -> Outcome<bool> {
    if item.placement.is_ordered(by) {
        return make_ordered(tx, context, item, by, priority);
    }
    let lane = tx.lane_of(item.lane_id)?;
    tx.hot(INSERT)?.execute(params![
        item.delivery.key(),
        item.event.key(),
        lane,
        priority_number(priority),
        item.retry_schedule.0,
        context.at.as_micros(),
        item.of.as_ref().map(DeliveryId::key),
        context.operation.as_ref().map(OperationId::key),
    ])?;
    Ok(false)
}

fn make_ordered(tx: &mut Tx<'_>, context: &ReplayContext, item: &ReplayItem, by: OrderedBy<'_>, priority: Priority) -> Outcome<bool> {
    // Behind every event that was published, and everything that was done again, until now.
    let position = match tx.counters(item.application)? {
        Some(counters) => {
            counters.next_sequence += 1;
            counters.next_sequence - 1
        }
        None => i64::MAX,
    };
    let delivery = NewDelivery { id: item.delivery, lane_id: item.lane_id, retry_schedule: item.retry_schedule, placement: item.placement };
    let ordered = Ordered {
        event: item.event,
        by,
        delivery: &delivery,
        priority,
        replay_of: item.of,
        operation: context.operation,
        at: context.at,
        position,
    };
    ordering::place(tx, &ordered)
}
