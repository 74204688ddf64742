//! Erasing the data of events: of one at once, of many as an operation. Called by the API; the operation is carried out by `jobs::operations`.

use std::time::Duration;

use super::{
    COUNT_BATCH, Fault, Noun, Refusal, audit,
    operations::{self, Pace},
    refuse_faults,
};
use crate::{
    ids::{ApplicationId, EventId, OperationId, OrganizationId},
    line::{Line, erasures},
    model::{AuditAction, Author, ErasureSelection, OperationKind, Selection},
    policy::{
        audit::{Facts, changed},
        labels::{self, Labels},
        selection,
    },
    ports::{Erased, Erasure, Scan, StoreError, TimeRange},
    time::Timestamp,
};

/// Erases one event's data. Once this returns, nothing of it is sent any more from here; a request that is on the wire may end. Erasing again does
/// nothing and is no fault.
///
/// # Errors
/// [`Refusal::NotFound`] if there is no such event in the organization.
pub async fn erase_event(line: &Line, by: &Author, event: EventId) -> Result<(), Refusal> {
    match erase_by_id(line, by, event).await {
        // It may be an alias: a client that got that id must be able to erase by it.
        Err(Refusal::NotFound(noun)) => match line.ports.history.event(by.organization, event).await? {
            Some((original, _)) if original.id != event => erase_by_id(line, by, original.id).await,
            _ => Err(Refusal::NotFound(noun)),
        },
        other => other,
    }
}

async fn erase_by_id(line: &Line, by: &Author, event: EventId) -> Result<(), Refusal> {
    let at = line.ports.clock.now();
    let erased_at = |at: Option<Timestamp>| Facts::default().plain("erased_at", at.map(|at| at.to_string()));
    let entry = audit::entry(line, by, AuditAction::EventErase, event.as_uuid(), changed(&erased_at(None), &erased_at(Some(at))));
    match line.ports.events.erase(Erasure { organization: by.organization, event, at, entry }).await? {
        Erased::NotFound => Err(Refusal::NotFound(Noun::Event)),
        Erased::Erased(freed) => {
            erasures::withdraw(line, vec![event], freed).await;
            Ok(())
        }
    }
}

/// Which events are to be erased. What is absent does not narrow.
#[derive(Clone, Debug)]
pub struct ErasureInput {
    /// Of this application.
    pub application: Option<ApplicationId>,
    /// With this label.
    pub label: Option<(String, String)>,
    /// Accepted at this instant or later.
    pub from: Option<Timestamp>,
    /// Accepted before this instant; until now if absent.
    pub to: Option<Timestamp>,
}

/// Begins to erase the data of the events that are meant and accepted until now.
///
/// # Errors
/// [`Refusal`] if the input cannot be understood or means everything, or if too many operations are under way.
pub async fn erase_events(line: &Line, by: &Author, input: ErasureInput) -> Result<OperationId, Refusal> {
    let selection = check(line, input)?;
    operations::begin(line, by, OperationKind::Erase, selection.application, Selection::Erasure(selection), Pace::default()).await
}

/// How many events [`erase_events`] would erase now.
///
/// # Errors
/// [`Refusal`] as there.
pub async fn count_events(line: &Line, organization: OrganizationId, input: ErasureInput) -> Result<u64, Refusal> {
    let wanted = check(line, input)?;
    Ok(count(line, organization, &wanted).await?)
}

async fn count(line: &Line, organization: OrganizationId, wanted: &ErasureSelection) -> Result<u64, StoreError> {
    let (mut count, mut after) = (0, Some(uuid::Uuid::nil()));
    let accepted = TimeRange { from: wanted.from, to: Some(wanted.to) };
    while let Some(from) = after {
        let scan = Scan { after: from, limit: COUNT_BATCH };
        let scanned = line.ports.bulk_erasure.scan_for_erasure(organization, accepted, scan).await?;
        let taken = scanned.rows.iter().filter(|event| selection::takes_for_erasure(wanted, event)).count();
        count += u64::try_from(taken).unwrap_or(u64::MAX);
        after = scanned.goes_on_after;
    }
    Ok(count)
}

fn check(line: &Line, input: ErasureInput) -> Result<ErasureSelection, Refusal> {
    let ErasureInput { application, label, from, to } = input;
    let mut faults = Vec::new();
    // Nobody erases everything by leaving a field out.
    if application.is_none() && label.is_none() {
        faults.push(Fault::new("label", "is required"));
    }
    if let Some((key, value)) = &label
        && let Err(reason) = labels::check(&Labels::from([(key.clone(), value.clone())]))
    {
        faults.push(Fault::new("label", reason));
    }
    // What is accepted from now on is not meant: the selection is fixed at the start.
    let end = line.ports.clock.now() + Duration::from_micros(1);
    if from.is_some_and(|from| from >= to.unwrap_or(end)) {
        faults.push(Fault::new("from", "must be before the end of the period, and not in the future"));
    }
    refuse_faults(faults)?;
    Ok(ErasureSelection { deleted_organization: None, application, label, from, to: to.map_or(end, |to| to.min(end)) })
}
