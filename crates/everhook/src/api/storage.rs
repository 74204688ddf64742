//! How much the server keeps: for admins, and for `everhook doctor`.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use everhook_core::{
    line::Line,
    model::RetentionPeriods,
    ports::{ArchiveStatus, Stored, StoredTable},
    time::Timestamp,
};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    access::MayAdminister,
    error::{ApiError, ReadProblems},
    wire::{NoParams, json},
};

/// How much the store keeps, and for how long.
#[derive(Serialize, ToSchema)]
pub struct StorageOut {
    /// The number of bytes that the store takes on its disk.
    #[schema(example = 268_435_456)]
    bytes: u64,
    /// How many of them are free and used again. 0 where the store does not know: with PostgreSQL.
    free_bytes: u64,
    /// The tables that grow, the largest first.
    tables: Vec<StoredTableOut>,
    /// When the oldest event was accepted.
    #[schema(required = true, format = DateTime)]
    oldest_event_at: Option<String>,
    /// When the oldest dead letter last failed.
    #[schema(required = true, format = DateTime)]
    oldest_dead_letter_at: Option<String>,
    retention: RetentionOut,
    /// The archive of this node; null if none is configured.
    #[schema(required = true)]
    archive: Option<ArchiveOut>,
    /// The clock of this node.
    #[schema(format = DateTime)]
    now: String,
}

/// How much one table keeps.
#[derive(Serialize, ToSchema)]
pub struct StoredTableOut {
    #[schema(example = "events")]
    name: String,
    /// The number of rows, as far as it is known without counting all of them.
    rows: u64,
    /// How exact `rows` is: `exact`, `about` (as of the store's last estimate) or `more_than`.
    #[schema(value_type = super::words::RowCountWord, example = "about")]
    rows_are: &'static str,
    /// The number of bytes with indexes; null where the store does not know: with SQLite.
    #[schema(required = true)]
    bytes: Option<u64>,
}

/// How long things are kept, in seconds; null is for ever.
#[derive(Serialize, ToSchema)]
pub struct RetentionOut {
    #[schema(required = true, example = 7_776_000)]
    events_seconds: Option<u64>,
    #[schema(required = true, example = 7_776_000)]
    attempts_seconds: Option<u64>,
    #[schema(required = true, example = 31_536_000)]
    dead_letters_seconds: Option<u64>,
    #[schema(required = true, example = 7_776_000)]
    rollups_seconds: Option<u64>,
    #[schema(required = true, example = 63_072_000)]
    health_seconds: Option<u64>,
    #[schema(required = true, example = 7_776_000)]
    operations_seconds: Option<u64>,
    #[schema(required = true, example = 31_536_000)]
    audit_log_seconds: Option<u64>,
}

/// Where expired data is written before it is removed. Only the node that removes it writes.
#[derive(Serialize, ToSchema)]
pub struct ArchiveOut {
    #[schema(example = "/var/lib/everhook/archive")]
    folder: String,
    /// When this node last wrote to it, since its start.
    #[schema(required = true, format = DateTime)]
    written_at: Option<String>,
    /// Since when this node cannot write to it. Until it can, nothing that would be archived is removed.
    #[schema(required = true, format = DateTime)]
    failing_since: Option<String>,
    /// Why not.
    #[schema(required = true, example = "No space left on device (os error 28)")]
    last_error: Option<String>,
}

impl StorageOut {
    fn of(line: &Line, stored: Stored) -> Self {
        let shown = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Self {
            bytes: stored.bytes,
            free_bytes: stored.free_bytes,
            tables: stored.tables.into_iter().map(StoredTableOut::from).collect(),
            oldest_event_at: shown(stored.oldest_event_at),
            oldest_dead_letter_at: shown(stored.oldest_dead_letter_at),
            retention: RetentionOut::from(&line.retention),
            archive: line.ports.archive.as_ref().map(|archive| ArchiveOut::from(archive.status())),
            now: line.ports.clock.now().to_string(),
        }
    }
}

impl From<StoredTable> for StoredTableOut {
    fn from(table: StoredTable) -> Self {
        Self { name: table.name, rows: table.rows.number(), rows_are: table.rows.as_str(), bytes: table.bytes }
    }
}

impl From<&RetentionPeriods> for RetentionOut {
    fn from(periods: &RetentionPeriods) -> Self {
        let seconds = |period: Option<Duration>| period.map(|period| period.as_secs());
        Self {
            events_seconds: seconds(periods.events),
            attempts_seconds: seconds(periods.attempts),
            dead_letters_seconds: seconds(periods.dead_letters),
            rollups_seconds: seconds(periods.rollups),
            health_seconds: seconds(periods.health),
            operations_seconds: seconds(periods.operations),
            audit_log_seconds: seconds(periods.audit_log),
        }
    }
}

impl From<ArchiveStatus> for ArchiveOut {
    fn from(status: ArchiveStatus) -> Self {
        let (failing_since, last_error) = status.failing.unzip();
        Self {
            folder: status.place,
            written_at: status.written_at.map(|at| at.to_string()),
            failing_since: failing_since.map(|at| at.to_string()),
            last_error,
        }
    }
}

/// Returns the size of the store and its tables, from the statistics that the store keeps; rows are not counted.
#[utoipa::path(
    get, path = "/v1/storage", tag = "server", operation_id = "get_storage", security(("api_key" = ["admin"])),
    responses((status = 200, description = "What is stored", body = StorageOut), ReadProblems),
)]
pub async fn get(State(api): State<Arc<Api>>, MayAdminister(_caller): MayAdminister, _query: NoParams) -> Result<Response, ApiError> {
    let stored = api.line.ports.retention.stored().await?;
    Ok(json(StatusCode::OK, &StorageOut::of(&api.line, stored)))
}
