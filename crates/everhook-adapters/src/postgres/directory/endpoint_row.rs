//! An endpoint, as its columns hold it.

use std::num::NonZeroU32;

use everhook_core::{
    ids::{RevisionNumber, ScheduleId, ScheduleVersion, Uid},
    model::{
        Endpoint, EndpointState, Ordering, OrderingMode, PayloadStyle, RateLimit, Revision, SealedSecret, SealedSecrets, SignatureStyle,
    },
    time::Timestamp,
};
use tokio_postgres::{Row, types::ToSql};

use super::super::{
    fault::Outcome,
    rows::{Columns, Key, micros, unreadable},
};
use crate::encoding::{
    breaker_json,
    endpoint_columns::{
        self, StateRead, read_event_types, read_headers, read_labels, read_target, state_columns, write_event_types, write_headers,
        write_labels,
    },
};

/// An endpoint's values in the order of `insert_endpoint.sql`; the statement that updates one numbers them alike.
pub(super) struct Bound<'e>(Vec<Column<'e>>);

/// One value, to be bound.
type Column<'e> = Box<dyn ToSql + Sync + Send + 'e>;

impl<'e> Bound<'e> {
    /// Spells an endpoint.
    pub(super) fn of(endpoint: &'e Endpoint) -> Self {
        let state = state_columns(endpoint.state);
        let previous = endpoint.secrets.previous.as_ref();
        Self(vec![
            Box::new(endpoint.id.key()),
            Box::new(endpoint.organization.key()),
            Box::new(endpoint.application.key()),
            Box::new(endpoint.uid.as_ref().map(Uid::as_str)),
            Box::new(&endpoint.name),
            Box::new(&endpoint.description),
            Box::new(&endpoint.target.written),
            Box::new(write_event_types(&endpoint.event_types)),
            Box::new(&endpoint.secrets.current.0),
            Box::new(previous.map(|(secret, _)| &secret.0)),
            Box::new(previous.map(|(_, until)| until.as_micros())),
            Box::new(endpoint.signature_style.as_str()),
            Box::new(endpoint.payload_style.as_str()),
            Box::new(write_headers(&endpoint.headers)),
            Box::new(&endpoint.metadata),
            Box::new(endpoint.retry_schedule.0),
            Box::new(endpoint.timeout.map(micros)),
            Box::new(endpoint.timeout_growth_factor),
            Box::new(i64::from(endpoint.max_concurrency)),
            Box::new(state.state),
            Box::new(state.disabled_at),
            Box::new(state.disabled_reason),
            Box::new(state.deleted_at),
            Box::new(endpoint.created_at.as_micros()),
            Box::new(endpoint.updated_at.as_micros()),
            Box::new(endpoint.ordering.mode.as_str()),
            Box::new(endpoint.rate_limit.map(|limit| i64::from(limit.requests.get()))),
            Box::new(endpoint.rate_limit.map(|limit| i64::from(limit.burst.get()))),
            Box::new(breaker_json::write(&endpoint.breaker)),
            Box::new(endpoint.paused_at.map(Timestamp::as_micros)),
            Box::new(endpoint.drain.map(|limit| i64::from(limit.requests.get()))),
            Box::new(endpoint.follows.as_ref().map(ScheduleId::key)),
            Box::new(write_labels(&endpoint.labels)),
            Box::new(&endpoint.filter),
            Box::new(endpoint.verify_url),
            Box::new(i64::from(endpoint.revision.0)),
        ])
    }

    fn columns(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(|column| &**column as &(dyn ToSql + Sync)).collect()
    }

    /// The values, and others behind them.
    pub(super) fn columns_and<'a>(&'a self, others: &[&'a (dyn ToSql + Sync)]) -> Vec<&'a (dyn ToSql + Sync)> {
        let mut columns = self.columns();
        columns.extend(others);
        columns
    }
}

/// Reads an endpoint by the names of its columns.
pub(super) fn of_row(row: &Row) -> Outcome<Endpoint> {
    Ok(Endpoint {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        uid: row.uid_opt("uid")?,
        name: row.value("name")?,
        description: row.value("description")?,
        target: row.spelled("url", read_target)?,
        verify_url: row.value("verify_url")?,
        revision: RevisionNumber(row.number("revision")?),
        event_types: row.spelled("event_types", read_event_types)?,
        labels: row.spelled("labels", read_labels)?,
        filter: row.value("filter")?,
        secrets: read_secrets(row)?,
        signature_style: row.spelled("signature_style", SignatureStyle::parse)?,
        payload_style: row.spelled("payload_style", PayloadStyle::parse)?,
        headers: row.spelled("headers", read_headers)?,
        metadata: row.value("metadata")?,
        retry_schedule: ScheduleVersion(row.value("retry_schedule")?),
        follows: row.id_opt("retry_schedule_id")?,
        timeout: row.duration_opt("timeout")?,
        timeout_growth_factor: row.value("timeout_growth_factor")?,
        max_concurrency: row.number("max_concurrency")?,
        ordering: Ordering { mode: row.spelled("ordering", OrderingMode::parse)?, barrier: row.value("order_barrier")? },
        rate_limit: read_rate_limit(row)?,
        breaker: row.spelled("circuit_breaker", breaker_json::read)?,
        drain: row.spelled_opt("drain_per_second", read_rate)?.map(|requests| RateLimit::per_second(requests, None)),
        paused_at: row.instant_opt("paused_at")?,
        state: read_state(row)?,
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    })
}

/// Reads what shaped an endpoint's requests: the columns have the same names as the endpoint's own.
pub(super) fn revision_of_row(row: &Row) -> Outcome<Revision> {
    Ok(Revision {
        target: row.spelled("url", read_target)?,
        secrets: read_secrets(row)?,
        signature_style: row.spelled("signature_style", SignatureStyle::parse)?,
        payload_style: row.spelled("payload_style", PayloadStyle::parse)?,
        headers: row.spelled("headers", read_headers)?,
    })
}

fn read_state(row: &Row) -> Outcome<EndpointState> {
    let read = StateRead {
        state: row.value("state")?,
        disabled_at: row.instant_opt("disabled_at")?,
        disabled_reason: row.value("disabled_reason")?,
        deleted_at: row.instant_opt("deleted_at")?,
    };
    endpoint_columns::read_state(&read).ok_or_else(|| unreadable("state"))
}

fn read_rate_limit(row: &Row) -> Outcome<Option<RateLimit>> {
    let requests = row.spelled_opt("rate_limit_per_minute", read_rate)?;
    let burst = row.spelled_opt("rate_limit_burst", read_rate)?;
    Ok(requests.map(|requests| RateLimit::per_minute(requests, burst)))
}

fn read_rate(number: i64) -> Option<NonZeroU32> {
    u32::try_from(number).ok().and_then(NonZeroU32::new)
}

fn read_secrets(row: &Row) -> Outcome<SealedSecrets> {
    let previous: Option<Vec<u8>> = row.value("previous_secret")?;
    let until = row.instant_opt("previous_secret_until")?;
    Ok(SealedSecrets { current: SealedSecret(row.value("secret")?), previous: previous.map(SealedSecret).zip(until) })
}
