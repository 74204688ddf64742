//! An endpoint, as its columns hold it.

use std::num::NonZeroU32;

use everhook_core::{
    ids::{RevisionNumber, ScheduleId, ScheduleVersion, Uid},
    model::{
        Endpoint, EndpointState, Ordering, OrderingMode, PayloadStyle, RateLimit, Revision, SealedSecret, SealedSecrets, SignatureStyle,
    },
    time::Timestamp,
};
use rusqlite::{Row, Statement, ToSql};

use super::super::{
    breaker_json,
    fault::Outcome,
    rows::{Columns, InOrder, Key, micros, unreadable},
};
use crate::encoding::endpoint_columns::{
    self, StateRead, read_event_types, read_headers, read_labels, read_target, state_columns, write_event_types, write_headers,
    write_labels,
};

/// How many columns an endpoint has; the statements that insert and update one number them alike.
pub(super) const COLUMNS: usize = 36;

/// Binds an endpoint's columns, in the order of `insert_endpoint.sql`.
pub(super) fn bind(statement: &mut Statement<'_>, endpoint: &Endpoint) -> Outcome<()> {
    let state = state_columns(endpoint.state);
    let previous = endpoint.secrets.previous.as_ref();
    let columns: [&dyn ToSql; COLUMNS] = [
        endpoint.id.key(),
        endpoint.organization.key(),
        endpoint.application.key(),
        &endpoint.uid.as_ref().map(Uid::as_str),
        &endpoint.name,
        &endpoint.description,
        &endpoint.target.written,
        &write_event_types(&endpoint.event_types),
        &endpoint.secrets.current.0,
        &previous.map(|(secret, _)| &secret.0),
        &previous.map(|(_, until)| until.as_micros()),
        &endpoint.signature_style.as_str(),
        &endpoint.payload_style.as_str(),
        &write_headers(&endpoint.headers),
        &endpoint.metadata,
        &endpoint.retry_schedule.0,
        &endpoint.timeout.map(micros),
        &endpoint.timeout_growth_factor,
        &endpoint.max_concurrency,
        &state.state,
        &state.disabled_at,
        &state.disabled_reason,
        &state.deleted_at,
        &endpoint.created_at.as_micros(),
        &endpoint.updated_at.as_micros(),
        &endpoint.ordering.mode.as_str(),
        &endpoint.rate_limit.map(|limit| limit.requests.get()),
        &endpoint.rate_limit.map(|limit| limit.burst.get()),
        &breaker_json::write(&endpoint.breaker),
        &endpoint.paused_at.map(Timestamp::as_micros),
        &endpoint.drain.map(|limit| limit.requests.get()),
        &endpoint.follows.as_ref().map(ScheduleId::key),
        &write_labels(&endpoint.labels),
        &endpoint.filter,
        &endpoint.verify_url,
        &endpoint.revision.0,
    ];
    for (number, column) in (1..).zip(columns) {
        statement.raw_bind_parameter(number, column)?;
    }
    Ok(())
}

/// Reads an endpoint by the names of its columns, in the order in which its statements have them.
pub(super) fn of_row(row: &Row<'_>) -> rusqlite::Result<Endpoint> {
    let row = InOrder::of(row);
    Ok(Endpoint {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        uid: row.uid_opt("uid")?,
        name: row.value("name")?,
        description: row.value("description")?,
        target: row.spelled("url", read_target)?,
        event_types: row.spelled("event_types", read_event_types)?,
        secrets: read_secrets(&row)?,
        signature_style: row.spelled("signature_style", |name: String| SignatureStyle::parse(&name))?,
        payload_style: row.spelled("payload_style", |name: String| PayloadStyle::parse(&name))?,
        headers: row.spelled("headers", read_headers)?,
        metadata: row.value("metadata")?,
        retry_schedule: ScheduleVersion(row.value("retry_schedule")?),
        timeout: row.duration_opt("timeout")?,
        timeout_growth_factor: row.value("timeout_growth_factor")?,
        max_concurrency: row.value("max_concurrency")?,
        ordering: Ordering {
            mode: row.spelled("ordering", |name: String| OrderingMode::parse(&name))?,
            barrier: row.value("order_barrier")?,
        },
        rate_limit: read_rate_limit(&row)?,
        breaker: row.spelled("circuit_breaker", |json: String| breaker_json::read(&json))?,
        paused_at: row.instant_opt("paused_at")?,
        drain: row.spelled_opt("drain_per_second", NonZeroU32::new)?.map(|requests| RateLimit::per_second(requests, None)),
        state: read_state(&row)?,
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
        follows: row.id_opt("retry_schedule_id")?,
        labels: row.spelled("labels", read_labels)?,
        filter: row.value("filter")?,
        verify_url: row.value("verify_url")?,
        revision: RevisionNumber(row.value("revision")?),
    })
}

/// Reads what shaped an endpoint's requests: the columns have the same names as the endpoint's own.
pub(super) fn revision_of_row(row: &Row<'_>) -> rusqlite::Result<Revision> {
    Ok(Revision {
        target: row.spelled("url", read_target)?,
        secrets: read_secrets(row)?,
        signature_style: row.spelled("signature_style", |name: String| SignatureStyle::parse(&name))?,
        payload_style: row.spelled("payload_style", |name: String| PayloadStyle::parse(&name))?,
        headers: row.spelled("headers", read_headers)?,
    })
}

fn read_state(row: &impl Columns) -> rusqlite::Result<EndpointState> {
    let read = StateRead {
        state: row.value("state")?,
        disabled_at: row.instant_opt("disabled_at")?,
        disabled_reason: row.value("disabled_reason")?,
        deleted_at: row.instant_opt("deleted_at")?,
    };
    endpoint_columns::read_state(&read).ok_or_else(|| unreadable("state"))
}

fn read_rate_limit(row: &impl Columns) -> rusqlite::Result<Option<RateLimit>> {
    let requests = row.spelled_opt("rate_limit_per_minute", NonZeroU32::new)?;
    let burst = row.spelled_opt("rate_limit_burst", NonZeroU32::new)?;
    Ok(requests.map(|requests| RateLimit::per_minute(requests, burst)))
}

fn read_secrets(row: &impl Columns) -> rusqlite::Result<SealedSecrets> {
    let current = SealedSecret(row.value("secret")?);
    let previous: Option<Vec<u8>> = row.value("previous_secret")?;
    let until: Option<Timestamp> = row.instant_opt("previous_secret_until")?;
    Ok(SealedSecrets { current, previous: previous.map(SealedSecret).zip(until) })
}
