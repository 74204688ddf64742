//! Attempts, as history shows them.

use everhook_core::{
    ids::{DeliveryId, RevisionNumber},
    model::{Attempt, PhaseTimes, Response, RetryAfter},
};
use rusqlite::{Connection, Row};

use super::super::{
    fault::Outcome,
    response_headers,
    rows::{Columns, Key, duration},
    spelling::{read_attempt_status, read_breaker, read_category, read_cut},
};

const OF_DELIVERY: &str = include_str!("../queries/attempts_of_delivery.sql");

pub(super) fn of_delivery(connection: &Connection, delivery: DeliveryId) -> Outcome<Vec<Attempt>> {
    let mut statement = connection.prepare_cached(OF_DELIVERY)?;
    Ok(statement.query_map([delivery.key()], of_row)?.collect::<Result<_, _>>()?)
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    Ok(Attempt {
        number: row.get("number")?,
        status: row.spelled("status", read_attempt_status)?,
        failure_category: row.spelled_opt("failure_category", read_category)?,
        error: row.get("error")?,
        response: read_response(row)?,
        duration: row.get("duration").map(duration)?,
        phases: PhaseTimes {
            dns: row.duration_opt("dns")?,
            connect: row.duration_opt("connect")?,
            tls: row.duration_opt("tls")?,
            first_byte: row.duration_opt("first_byte")?,
        },
        scheduled_at: row.instant("scheduled_at")?,
        picked_at: row.instant("picked_at")?,
        executed_at: row.instant("executed_at")?,
        next_retry_at: row.instant_opt("next_retry_at")?,
        revision: row.get::<_, Option<u32>>("revision")?.map(RevisionNumber),
        node: row.get("node")?,
        user_agent: row.get::<_, String>("user_agent")?.into(),
        breaker: row.spelled("breaker", read_breaker)?,
    })
}

fn read_response(row: &Row<'_>) -> rusqlite::Result<Option<Response>> {
    let Some(status) = row.get("response_status")? else { return Ok(None) };
    let delay = row.duration_opt("retry_after_delay")?.map(RetryAfter::Delay);
    let at = row.instant_opt("retry_after_at")?.map(RetryAfter::At);
    Ok(Some(Response {
        status,
        headers: row.spelled("response_headers", |packed: Vec<u8>| response_headers::unpack(&packed))?,
        body_sample: row.get::<_, Vec<u8>>("response_body_sample")?.into(),
        cut: row.spelled("response_cut", read_cut)?,
        retry_after: delay.or(at),
    }))
}
