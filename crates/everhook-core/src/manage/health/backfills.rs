//! Backfills: asking Garmin to push data of the past again. Begun here; carried out by `jobs::backfills`.

use super::super::{Fault, Noun, Refusal, operations, refuse_faults};
use crate::{
    health::backfill,
    ids::{HealthConnectionId, OperationId, OrganizationId},
    line::Line,
    model::{
        Author, OperationKind, Selection,
        health::{BACKFILL_SPAN_MAX, Backfill, BackfillType, Provider},
    },
    ports::KeptBackfill,
    time::Timestamp,
};

/// A backfill that somebody wants, as written.
#[derive(Clone, Debug)]
pub struct NewBackfill {
    /// Through which connection.
    pub connection: HealthConnectionId,
    /// The types; those that become metrics if absent.
    pub data_types: Option<Vec<String>>,
    /// From this instant on.
    pub from: Timestamp,
    /// Before this instant; until now if absent.
    pub to: Option<Timestamp>,
    /// Not before this instant.
    pub start_at: Option<Timestamp>,
}

/// Begins a backfill, as an operation.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says that too many operations are under way.
pub async fn begin_backfill(line: &Line, by: &Author, new: NewBackfill) -> Result<OperationId, Refusal> {
    let mut faults = Vec::new();
    let now = line.ports.clock.now().floor_to_second();
    let (from, to) = (new.from.floor_to_second(), new.to.map_or(now, Timestamp::floor_to_second));
    if from >= to {
        faults.push(Fault::new("from", "must be before `to`, and not in the future"));
    }
    if to > now {
        faults.push(Fault::new("to", "must not be in the future"));
    }
    if to.since(from) > BACKFILL_SPAN_MAX {
        faults.push(Fault::new("from", format!("must be at most {} days before `to`", BACKFILL_SPAN_MAX.as_secs() / 86_400)));
    }
    let types = read_types(new.data_types.as_deref(), &mut faults);
    if let Some(reason) = unusable(line, by.organization, new.connection).await? {
        faults.push(Fault::new("connection_id", reason));
    }
    refuse_faults(faults)?;
    let chunk = line.processors.backfill_chunk();
    let selection = Selection::Backfill(Backfill { connection: new.connection, types, from, to, chunk });
    let pace = operations::Pace { start_at: new.start_at, ..operations::Pace::default() };
    operations::begin(line, by, OperationKind::Backfill, None, selection, pace).await
}

/// Finds a backfill.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such operation, or it is of another kind.
pub async fn find_backfill(line: &Line, organization: OrganizationId, id: OperationId) -> Result<KeptBackfill, Refusal> {
    line.ports.backfills.backfill(organization, id).await?.ok_or(Refusal::NotFound(Noun::Operation))
}

fn read_types(names: Option<&[String]>, faults: &mut Vec<Fault>) -> Vec<BackfillType> {
    let Some(names) = names else { return backfill::types_with_metrics() };
    if names.is_empty() || names.len() > BackfillType::ALL.len() {
        faults.push(Fault::new("data_types", format!("must be 1 to {} types", BackfillType::ALL.len())));
        return Vec::new();
    }
    let mut types = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        match backfill::read_type(name) {
            Some(data) if types.contains(&data) => faults.push(Fault::new(format!("data_types[{index}]"), "is given twice")),
            Some(data) => types.push(data),
            None => {
                let known = BackfillType::ALL.map(BackfillType::as_str).join("`, `");
                faults.push(Fault::new(format!("data_types[{index}]"), format!("must be one of `{known}`")));
            }
        }
    }
    types
}

/// Why data of the past cannot be asked for through a connection; `None` if it can.
async fn unusable(line: &Line, organization: OrganizationId, id: HealthConnectionId) -> Result<Option<&'static str>, Refusal> {
    let found = line.ports.health_connections.connection(organization, id).await?;
    Ok(match found {
        None => Some("is not a connection of this organization"),
        Some(connection) if connection.provider != Provider::Garmin => Some("must be a connection with `garmin`"),
        Some(connection) if !connection.is_connected => Some("must be connected: the user withdrew at the provider"),
        Some(connection) if connection.tokens.is_none() => Some("must have an access token"),
        Some(_) => None,
    })
}
