//! Operations: begun, examined and stopped here; carried out by `jobs::operations`.

use std::{num::NonZeroU32, time::Duration};

use super::{COUNT_BATCH, Conflict, Fault, Noun, Refusal, audit, refuse_faults};
use crate::{
    ids::{ApplicationId, EndpointId, OperationId, OrganizationId, Ref},
    line::{Line, alert},
    model::{
        AuditAction, Author, DeadLetterSelection, ErasureSelection, EventSelection, EventTypePattern, Operation, OperationKind,
        OperationStatus, Priority, Selection, Wanted,
    },
    policy::{self, audit::Facts, selection},
    ports::{Begun, Deletion, Ending, OperationEnded, Scan, StoreError},
    time::Timestamp,
};

/// How many operations an organization may have under way.
pub const OPEN_MAX: u32 = 20;

/// How long after a deletion the data of the events is erased: what waits for the endpoints is cancelled by then, and every node has heard of it.
const ERASED_AFTER: Duration = Duration::from_secs(60);

/// How many values a list in a filter may have.
pub const FILTER_VALUES_MAX: usize = 1_000;

/// How fast an operation goes, and when it begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// How many it does a second at most; as fast as the store takes them if absent.
    pub rate: Option<NonZeroU32>,
    /// The priority of the deliveries that it makes; low if absent, so that live events come first.
    pub priority: Option<Priority>,
    /// Not before this instant.
    pub start_at: Option<Timestamp>,
}

/// Which events are delivered again, and to whom.
#[derive(Clone, Debug)]
pub struct ReplayInput {
    /// The application.
    pub application: ApplicationId,
    /// Accepted at this instant or later.
    pub from: Timestamp,
    /// Accepted before this instant; until now if absent.
    pub to: Option<Timestamp>,
    /// Of these types; of any if empty.
    pub event_types: Vec<EventTypePattern>,
    /// To these endpoints, whatever types they want; to those that want the event if empty.
    pub endpoints: Vec<Ref<EndpointId>>,
    /// In which case.
    pub wanted: Wanted,
}

/// Begins to bring dead letters back.
///
/// # Errors
/// [`Refusal`] if too many operations are under way.
pub async fn retry_dead_letters(line: &Line, by: &Author, selection: DeadLetterSelection, pace: Pace) -> Result<OperationId, Refusal> {
    begin(line, by, OperationKind::RetryBatch, selection.application, Selection::DeadLetters(selection), pace).await
}

/// Begins to throw dead letters away.
///
/// # Errors
/// [`Refusal`] if too many operations are under way.
pub async fn discard_dead_letters(line: &Line, by: &Author, selection: DeadLetterSelection) -> Result<OperationId, Refusal> {
    begin(line, by, OperationKind::DiscardBatch, selection.application, Selection::DeadLetters(selection), Pace::default()).await
}

/// How many dead letters a selection takes now.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub async fn count_dead_letters(line: &Line, organization: OrganizationId, wanted: &DeadLetterSelection) -> Result<u64, StoreError> {
    let now = line.ports.clock.now();
    let (mut count, mut after) = (0, Some(uuid::Uuid::nil()));
    while let Some(from) = after {
        let scanned = line.ports.operation_candidates.scan_dead_letters(organization, Scan { after: from, limit: COUNT_BATCH }).await?;
        let taken = scanned.rows.iter().filter(|letter| selection::takes_dead_letter(wanted, letter, now)).count();
        count += u64::try_from(taken).unwrap_or(u64::MAX);
        after = scanned.goes_on_after;
    }
    Ok(count)
}

/// Begins to deliver events of one application again.
///
/// # Errors
/// [`Refusal`] if the application or an endpoint is not there, the span is empty, or too many operations are under way.
pub async fn replay(line: &Line, by: &Author, kind: OperationKind, input: ReplayInput, pace: Pace) -> Result<OperationId, Refusal> {
    let organization = by.organization;
    let found = line.ports.applications.application(organization, &Ref::Id(input.application)).await?;
    let application = found.ok_or(Refusal::NotFound(Noun::Application))?.id;
    // What is accepted from now on is not meant: the selection is fixed at the start.
    let end = line.ports.clock.now() + Duration::from_micros(1);
    let to = input.to.map_or(end, |to| to.min(end));
    let mut faults = Vec::new();
    if input.from >= input.to.unwrap_or(end) {
        let field = if kind == OperationKind::Recover { "since" } else { "from" };
        faults.push(Fault::new(field, "must be before the end of the period, and not in the future"));
    }
    let mut endpoints = Vec::with_capacity(input.endpoints.len());
    for (index, of) in input.endpoints.iter().enumerate() {
        let endpoint = line.ports.endpoints.endpoint(organization, of).await?;
        match endpoint.filter(|endpoint| endpoint.application == application) {
            Some(endpoint) => endpoints.push(endpoint.id),
            None => faults.push(Fault::new(format!("endpoint_ids[{index}]"), "is not an endpoint of this application")),
        }
    }
    refuse_faults(faults)?;
    let ReplayInput { from, event_types, wanted, .. } = input;
    let events = EventSelection { application, from, to, event_types, endpoints, wanted };
    begin(line, by, kind, Some(application), Selection::Events(events), pace).await
}

/// Stops an operation, and enters that in the audit log. What it had done stays done.
///
/// # Errors
/// [`Refusal`] if there is no such operation, it has ended, or it erases what a deletion left, which nobody could ask for again.
pub async fn cancel(line: &Line, by: &Author, id: OperationId) -> Result<(), Refusal> {
    let organization = by.organization;
    let found = line.ports.operations.operation(organization, id).await?;
    let operation = found.ok_or(Refusal::NotFound(Noun::Operation))?;
    if operation.kind == OperationKind::DeleteData && !operation.status.is_over() {
        let words = "an operation that erases the data of something deleted cannot be cancelled".to_owned();
        return Err(Refusal::Conflict(Conflict::OperationRequired, words));
    }
    let (status, at) = (OperationStatus::Cancelled, line.ports.clock.now());
    let alert = alert::of_operation(line, &operation, status, at);
    let status_was = |status: OperationStatus| Facts::default().plain("status", status.as_str());
    let note = policy::audit::changed(&status_was(operation.status), &status_was(status));
    let entry = Some(audit::entry(line, by, AuditAction::OperationCancel, id.as_uuid(), note));
    let ended = line.ports.operations.end(Ending { organization, operation: id, status, at, alert, entry }).await?;
    line.operations_bell.notify_one();
    match ended {
        OperationEnded::Ended => Ok(()),
        OperationEnded::Before(status) => Err(Refusal::Conflict(Conflict::OperationEnded, format!("the operation is {}", status.as_str()))),
        OperationEnded::NotFound | OperationEnded::NotYet => Err(Refusal::NotFound(Noun::Operation)),
    }
}

/// What a deletion is written with: its entry in the audit log, which names the operation, and the operation, which erases the data of all events of an
/// application, or of an organization. It is its author's, and begins when the endpoints are gone, so that what waits for them ends as cancelled.
pub(super) fn deletion(line: &Line, by: &Author, of: Deleted, action: AuditAction, was: Facts) -> Deletion {
    let now = line.ports.clock.now();
    let (resource, application, deleted_organization) = match of {
        Deleted::Application(id) => (*id.as_uuid(), Some(id), None),
        Deleted::Organization(id) => (*id.as_uuid(), None, Some(id)),
    };
    // Nothing is accepted after the deletion; but the clock of the node that accepted an event may be a little ahead.
    let to = now + ERASED_AFTER;
    let selection = Selection::Erasure(ErasureSelection { deleted_organization, application, label: None, from: None, to });
    let pace = Pace { start_at: Some(now + ERASED_AFTER), ..Pace::default() };
    let operation = pending(line, by.organization, (OperationKind::DeleteData, application), &selection, pace);
    let is = Facts::default().plain("operation_id", operation.id.to_string());
    let entry = audit::entry(line, by, action, &resource, policy::audit::changed(&was, &is));
    Deletion { entry, operation, selection }
}

/// What is deleted with all its events.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deleted {
    Application(ApplicationId),
    Organization(OrganizationId),
}

fn pending(
    line: &Line,
    organization: OrganizationId,
    (kind, application): (OperationKind, Option<ApplicationId>),
    selection: &Selection,
    pace: Pace,
) -> Operation {
    let now = line.ports.clock.now();
    let total = match selection {
        Selection::Backfill(backfill) => u64::try_from(backfill.chunks().len()).unwrap_or(u64::MAX),
        _ => 0,
    };
    Operation {
        id: OperationId::from_uuid(line.ports.entropy.uuid(now)),
        organization,
        application,
        endpoint: selection.endpoint(),
        kind,
        status: OperationStatus::Pending,
        total,
        done: 0,
        failed: 0,
        skipped: 0,
        rate: pace.rate,
        priority: pace.priority.unwrap_or(Priority::Low),
        start_at: pace.start_at,
        created_at: now,
        started_at: None,
        finished_at: None,
    }
}

/// Begins an operation, about one application or all, and enters it in the audit log with what it is about.
pub(super) async fn begin(
    line: &Line,
    by: &Author,
    kind: OperationKind,
    application: Option<ApplicationId>,
    selection: Selection,
    pace: Pace,
) -> Result<OperationId, Refusal> {
    let operation = pending(line, by.organization, (kind, application), &selection, pace);
    let id = operation.id;
    let note = policy::audit::made(&audit::of_operation(&operation, &selection));
    let entry = audit::entry(line, by, AuditAction::OperationBegin, id.as_uuid(), note);
    match line.ports.operations.begin(operation, selection, OPEN_MAX, entry).await? {
        Begun::Begun => {
            line.operations_bell.notify_one();
            line.backfills_bell.notify_one();
            Ok(id)
        }
        Begun::TooMany => Err(Refusal::Conflict(
            Conflict::TooManyOperations,
            format!("{OPEN_MAX} operations are in progress: wait until one has ended, or cancel one"),
        )),
    }
}
