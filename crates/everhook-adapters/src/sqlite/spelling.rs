//! How the model's enums are spelled in columns. Small numbers where every delivery pays for them, words elsewhere.

use everhook_core::{
    model::{ApplicationKind, AttemptStatus, BreakerState, CancelCause, Cut, DeathCause, FailureCategory, Priority, Stage},
    time::Timestamp,
};
use rusqlite::Row;

use super::rows::{Columns, unreadable};

/// The numbers of the stages. Migrations, queries and `stage_columns` use the same.
pub(super) const WAITING: i64 = 0;
pub(super) const DELIVERED: i64 = 1;
pub(super) const DEAD: i64 = 2;
pub(super) const CANCELLED: i64 = 3;
pub(super) const HELD: i64 = 4;

/// A stage as the columns that hold it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageColumns {
    pub(super) stage: i64,
    pub(super) due_at: Option<i64>,
    pub(super) ended_at: Option<i64>,
    pub(super) cause: Option<&'static str>,
}

/// Spells a stage.
pub(super) fn stage_columns(stage: Stage) -> StageColumns {
    let ended = |stage, at: Timestamp, cause| StageColumns { stage, due_at: None, ended_at: Some(at.as_micros()), cause };
    match stage {
        Stage::Waiting { due_at } => StageColumns { stage: WAITING, due_at: Some(due_at.as_micros()), ended_at: None, cause: None },
        Stage::Held => StageColumns { stage: HELD, due_at: None, ended_at: None, cause: None },
        Stage::Delivered { at } => ended(DELIVERED, at, None),
        Stage::Dead { at, cause } => ended(DEAD, at, Some(cause.as_str())),
        Stage::Cancelled { at, cause } => ended(CANCELLED, at, Some(cause.as_str())),
    }
}

/// Reads a stage from the columns `stage`, `due_at`, `ended_at` and `cause`.
pub(super) fn read_stage(row: &Row<'_>) -> rusqlite::Result<Stage> {
    match row.get("stage")? {
        WAITING => Ok(Stage::Waiting { due_at: row.instant("due_at")? }),
        HELD => Ok(Stage::Held),
        DELIVERED => Ok(Stage::Delivered { at: row.instant("ended_at")? }),
        DEAD => Ok(Stage::Dead { at: row.instant("ended_at")?, cause: row.spelled("cause", |cause: String| DeathCause::parse(&cause))? }),
        CANCELLED => {
            Ok(Stage::Cancelled { at: row.instant("ended_at")?, cause: row.spelled("cause", |cause: String| CancelCause::parse(&cause))? })
        }
        _ => Err(unreadable("stage")),
    }
}

/// Spells a priority: the most urgent is 0.
pub(super) const fn priority_number(priority: Priority) -> i64 {
    match priority {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}

/// Reads a priority.
pub(super) fn read_priority(number: i64) -> Option<Priority> {
    Priority::ALL.into_iter().find(|priority| priority_number(*priority) == number)
}

/// Spells how an attempt ended.
pub(super) const fn attempt_status_number(status: AttemptStatus) -> i64 {
    match status {
        AttemptStatus::Success => 0,
        AttemptStatus::Failed => 1,
        AttemptStatus::Exhausted => 2,
    }
}

/// Reads how an attempt ended.
pub(super) const fn read_attempt_status(number: i64) -> Option<AttemptStatus> {
    match number {
        0 => Some(AttemptStatus::Success),
        1 => Some(AttemptStatus::Failed),
        2 => Some(AttemptStatus::Exhausted),
        _ => None,
    }
}

/// Spells what a bound left out of an answer: a bit for its body, one for its headers.
pub(super) const fn cut_number(cut: Cut) -> i64 {
    cut.body as i64 | (cut.headers as i64) << 1
}

/// Reads what a bound left out of an answer.
pub(super) const fn read_cut(number: i64) -> Option<Cut> {
    match number {
        0..=3 => Some(Cut { body: number & 1 != 0, headers: number & 2 != 0 }),
        _ => None,
    }
}

/// Spells how a breaker stood.
pub(super) const fn breaker_number(state: BreakerState) -> i64 {
    match state {
        BreakerState::Closed => 0,
        BreakerState::HalfOpen => 1,
        BreakerState::Open => 2,
    }
}

/// Reads how a breaker stood.
pub(super) const fn read_breaker(number: i64) -> Option<BreakerState> {
    match number {
        0 => Some(BreakerState::Closed),
        1 => Some(BreakerState::HalfOpen),
        2 => Some(BreakerState::Open),
        _ => None,
    }
}

/// Spells what an application is for.
pub(super) const fn kind_name(kind: ApplicationKind) -> &'static str {
    match kind {
        ApplicationKind::Default => "default",
        ApplicationKind::Operational => "operational",
        ApplicationKind::Custom => "custom",
    }
}

/// Reads what an application is for.
pub(super) fn read_kind(name: String) -> Option<ApplicationKind> {
    use ApplicationKind::{Custom, Default, Operational};
    [Default, Operational, Custom].into_iter().find(|kind| kind_name(*kind) == name)
}

/// Reads a failure category.
pub(super) fn read_category(name: String) -> Option<FailureCategory> {
    FailureCategory::parse(&name)
}
