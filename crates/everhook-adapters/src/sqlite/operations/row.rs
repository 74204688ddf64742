//! Operations and their items, as rows hold them.

use std::num::NonZeroU32;

use everhook_core::{
    model::{Operation, OperationKind, OperationStatus},
    ports::{OpenOperation, OperationItem, Phase},
};
use rusqlite::Row;

use super::super::{
    rows::{Columns, unreadable},
    selection_json,
    spelling::read_priority,
};

pub(super) fn of_row(row: &Row<'_>) -> rusqlite::Result<Operation> {
    Ok(Operation {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id_opt("application_id")?,
        endpoint: row.spelled("selection", |text: String| selection_json::read(&text))?.endpoint(),
        kind: row.spelled("kind", |name: String| OperationKind::parse(&name))?,
        status: row.spelled("status", |name: String| OperationStatus::parse(&name))?,
        total: row.spelled("total", count)?,
        done: row.spelled("done", count)?,
        failed: row.spelled("failed", count)?,
        skipped: row.spelled("skipped", count)?,
        rate: row.spelled_opt("rate_per_second", NonZeroU32::new)?,
        priority: row.spelled("priority", read_priority)?,
        start_at: row.instant_opt("start_at")?,
        created_at: row.instant("created_at")?,
        started_at: row.instant_opt("started_at")?,
        finished_at: row.instant_opt("finished_at")?,
    })
}

fn count(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

pub(super) fn open_of_row(row: &Row<'_>) -> rusqlite::Result<OpenOperation> {
    let phase = match row.get::<_, String>("phase")?.as_str() {
        "selecting" => Phase::Selecting(row.id("selected_until")?),
        "selected" => Phase::Selected,
        "clearing" => Phase::Clearing,
        _ => return Err(unreadable("phase")),
    };
    Ok(OpenOperation { operation: of_row(row)?, selection: row.spelled("selection", |text: String| selection_json::read(&text))?, phase })
}

pub(super) const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Selecting(_) => "selecting",
        Phase::Selected => "selected",
        Phase::Clearing => "clearing",
    }
}

pub(super) fn item_of_row(row: &Row<'_>) -> rusqlite::Result<OperationItem> {
    Ok(OperationItem {
        position: row.get("position")?,
        event: row.id("event_id")?,
        lane_id: row.id("endpoint_id")?,
        application: row.id("application_id")?,
        of: row.id_opt("replay_of")?,
    })
}
