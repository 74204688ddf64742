//! How the model's enums are spelled in columns. Small numbers where every delivery pays for them, words elsewhere.

use everhook_core::{
    lifecycle,
    model::{
        AfterExpiry, ApplicationKind, AttemptStatus, BreakerState, CancelCause, Cut, DeathCause, Expiry, FailureCategory, Parking,
        Priority, Stage, WaitsFor,
    },
    ports::{DeliveryStatus, Settlement},
    time::Timestamp,
};

/// The numbers of the stages. Migrations, queries and `stage_columns` use the same.
pub(crate) const WAITING: i64 = 0;
pub(crate) const DELIVERED: i64 = 1;
pub(crate) const DEAD: i64 = 2;
pub(crate) const CANCELLED: i64 = 3;
pub(crate) const HELD: i64 = 4;
pub(crate) const PARKED: i64 = 5;

/// A stage as the columns that hold it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StageColumns {
    pub(crate) stage: i64,
    pub(crate) due_at: Option<i64>,
    pub(crate) ended_at: Option<i64>,
    pub(crate) cause: Option<&'static str>,
}

/// Spells a stage. What a parked one waits for is in columns of its own, which few statements write.
pub(crate) fn stage_columns(stage: &Stage) -> StageColumns {
    let ended = |stage, at: Timestamp, cause| StageColumns { stage, due_at: None, ended_at: Some(at.as_micros()), cause };
    match *stage {
        Stage::Waiting { due_at } => StageColumns { stage: WAITING, due_at: Some(due_at.as_micros()), ended_at: None, cause: None },
        Stage::Held => StageColumns { stage: HELD, due_at: None, ended_at: None, cause: None },
        Stage::Parked(_) => StageColumns { stage: PARKED, due_at: None, ended_at: None, cause: None },
        Stage::Delivered { at } => ended(DELIVERED, at, None),
        Stage::Dead { at, cause } => ended(DEAD, at, Some(cause.as_str())),
        Stage::Cancelled { at, cause } => ended(CANCELLED, at, Some(cause.as_str())),
    }
}

/// Spells the stage that a settlement gives a delivery. One that is parked waits first: `park` then looks whether what it waits for came meanwhile.
pub(crate) fn settled_columns(settlement: &Settlement) -> StageColumns {
    match settlement.stage {
        Stage::Parked(_) => stage_columns(&lifecycle::unparked(false, settlement.settled_at())),
        ref stage => stage_columns(stage),
    }
}

/// A stage as it is read back.
pub(crate) struct StageRead {
    pub(crate) stage: i64,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) cause: Option<String>,
    pub(crate) waits_for: Option<String>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) expires_into: Option<String>,
}

/// Reads a stage; `None` if its columns do not fit together.
pub(crate) fn read_stage(read: &StageRead) -> Option<Stage> {
    let cause = read.cause.as_deref();
    match read.stage {
        WAITING => Some(Stage::Waiting { due_at: read.due_at? }),
        HELD => Some(Stage::Held),
        PARKED => Some(Stage::Parked(read_parking(read)?)),
        DELIVERED => Some(Stage::Delivered { at: read.ended_at? }),
        DEAD => Some(Stage::Dead { at: read.ended_at?, cause: DeathCause::parse(cause?)? }),
        CANCELLED => Some(Stage::Cancelled { at: read.ended_at?, cause: CancelCause::parse(cause?)? }),
        _ => None,
    }
}

fn read_parking(read: &StageRead) -> Option<Parking> {
    let expiry = match read.expires_at {
        Some(at) => Some(Expiry { at, then: AfterExpiry::parse(read.expires_into.as_deref()?)? }),
        None => None,
    };
    Some(Parking { waits_for: WaitsFor::parse(read.waits_for.as_deref()?)?, expiry })
}

/// A status as what rows are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageFilter {
    /// One of the two stages that it means; any if absent.
    pub(crate) stage: Option<i64>,
    /// The other one, or the same.
    pub(crate) or_stage: Option<i64>,
    /// The fewest attempts.
    pub(crate) attempts_min: i64,
}

/// What a status means.
pub(crate) fn stage_filter(status: Option<DeliveryStatus>) -> StageFilter {
    let either = |stage, or_stage| StageFilter { stage: Some(stage), or_stage: Some(or_stage), attempts_min: 0 };
    let Some(status) = status else { return StageFilter::default() };
    match status {
        DeliveryStatus::Pending => either(WAITING, HELD),
        DeliveryStatus::Held => either(HELD, HELD),
        DeliveryStatus::Parked => either(PARKED, PARKED),
        DeliveryStatus::Waiting => either(WAITING, WAITING),
        DeliveryStatus::WaitingAfterFailure => StageFilter { attempts_min: 1, ..either(WAITING, WAITING) },
        DeliveryStatus::Delivered => either(DELIVERED, DELIVERED),
        DeliveryStatus::Dead => either(DEAD, DEAD),
        DeliveryStatus::Cancelled => either(CANCELLED, CANCELLED),
    }
}

/// Spells a priority: the most urgent is 0.
pub(crate) const fn priority_number(priority: Priority) -> i64 {
    match priority {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}

/// Reads a priority.
pub(crate) fn read_priority(number: i64) -> Option<Priority> {
    Priority::ALL.into_iter().find(|priority| priority_number(*priority) == number)
}

/// Spells how an attempt ended.
pub(crate) const fn attempt_status_number(status: AttemptStatus) -> i64 {
    match status {
        AttemptStatus::Success => 0,
        AttemptStatus::Failed => 1,
        AttemptStatus::Exhausted => 2,
        AttemptStatus::Parked => 3,
    }
}

/// Reads how an attempt ended.
pub(crate) const fn read_attempt_status(number: i64) -> Option<AttemptStatus> {
    match number {
        0 => Some(AttemptStatus::Success),
        1 => Some(AttemptStatus::Failed),
        2 => Some(AttemptStatus::Exhausted),
        3 => Some(AttemptStatus::Parked),
        _ => None,
    }
}

/// Spells what a bound left out of an answer: a bit for its body, one for its headers.
pub(crate) const fn cut_number(cut: Cut) -> i64 {
    cut.body as i64 | (cut.headers as i64) << 1
}

/// Reads what a bound left out of an answer.
pub(crate) const fn read_cut(number: i64) -> Option<Cut> {
    match number {
        0..=3 => Some(Cut { body: number & 1 != 0, headers: number & 2 != 0 }),
        _ => None,
    }
}

/// Spells how a breaker stood.
pub(crate) const fn breaker_number(state: BreakerState) -> i64 {
    match state {
        BreakerState::Closed => 0,
        BreakerState::HalfOpen => 1,
        BreakerState::Open => 2,
    }
}

/// Reads how a breaker stood.
pub(crate) const fn read_breaker(number: i64) -> Option<BreakerState> {
    match number {
        0 => Some(BreakerState::Closed),
        1 => Some(BreakerState::HalfOpen),
        2 => Some(BreakerState::Open),
        _ => None,
    }
}

/// Spells what an application is for.
pub(crate) const fn kind_name(kind: ApplicationKind) -> &'static str {
    match kind {
        ApplicationKind::Default => "default",
        ApplicationKind::Operational => "operational",
        ApplicationKind::Custom => "custom",
    }
}

/// Reads what an application is for.
pub(crate) fn read_kind(name: String) -> Option<ApplicationKind> {
    use ApplicationKind::{Custom, Default, Operational};
    [Default, Operational, Custom].into_iter().find(|kind| kind_name(*kind) == name)
}

/// Reads a failure category.
pub(crate) fn read_category(name: String) -> Option<FailureCategory> {
    FailureCategory::parse(&name)
}
