//! Operations and their items, as rows hold them.

use std::num::NonZeroU32;

use everhook_core::{
    model::{Operation, OperationKind, OperationStatus},
    ports::{OpenOperation, OperationItem, Phase},
};
use tokio_postgres::Row;

use super::super::{
    fault::Outcome,
    rows::{Columns, unreadable},
};
use crate::encoding::selection_json;

pub(super) fn of_row(row: &Row) -> Outcome<Operation> {
    Ok(Operation {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id_opt("application_id")?,
        endpoint: row.spelled("selection", selection_json::read)?.endpoint(),
        kind: row.spelled("kind", OperationKind::parse)?,
        status: row.spelled("status", OperationStatus::parse)?,
        total: row.number("total")?,
        done: row.number("done")?,
        failed: row.number("failed")?,
        skipped: row.number("skipped")?,
        rate: row.spelled_opt("rate_per_second", positive)?,
        priority: row.priority("priority")?,
        start_at: row.instant_opt("start_at")?,
        created_at: row.instant("created_at")?,
        started_at: row.instant_opt("started_at")?,
        finished_at: row.instant_opt("finished_at")?,
    })
}

/// Reads a number that is never zero.
pub(super) fn positive(number: i64) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(number).ok()?)
}

pub(super) fn open_of_row(row: &Row) -> Outcome<OpenOperation> {
    let phase = match row.value("phase")? {
        "selecting" => Phase::Selecting(row.id("selected_until")?),
        "selected" => Phase::Selected,
        "clearing" => Phase::Clearing,
        _ => return Err(unreadable("phase")),
    };
    Ok(OpenOperation { operation: of_row(row)?, selection: row.spelled("selection", selection_json::read)?, phase })
}

pub(super) const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Selecting(_) => "selecting",
        Phase::Selected => "selected",
        Phase::Clearing => "clearing",
    }
}

pub(super) fn item_of_row(row: &Row) -> Outcome<OperationItem> {
    Ok(OperationItem {
        position: row.value("position")?,
        event: row.id("event_id")?,
        lane_id: row.id("endpoint_id")?,
        application: row.id("application_id")?,
        of: row.id_opt("replay_of")?,
    })
}
