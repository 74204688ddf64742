//! Attempts, as history shows them.

use everhook_core::{
    ids::{DeliveryId, RevisionNumber},
    model::{Attempt, PhaseTimes, Response, RetryAfter},
};
use tokio_postgres::Row;

use super::super::{
    fault::Outcome,
    rows::{Columns, Int, Key, duration},
    transaction::Tx,
};
use crate::encoding::{
    response_headers,
    spelling::{read_attempt_status, read_breaker, read_category, read_cut},
};

const OF_DELIVERY: &str = include_str!("../queries/attempts_of_delivery.sql");

pub(super) async fn of_delivery(snapshot: &Tx<'_>, delivery: DeliveryId) -> Outcome<Vec<Attempt>> {
    snapshot.query(OF_DELIVERY, &[&delivery.key()]).await?.iter().map(of_row).collect()
}

fn of_row(row: &Row) -> Outcome<Attempt> {
    Ok(Attempt {
        number: row.number("number")?,
        status: row.spelled("status", |number: Int| read_attempt_status(number.0))?,
        failure_category: row.spelled_opt("failure_category", read_category)?,
        error: row.value("error")?,
        response: read_response(row)?,
        duration: duration(row.value("duration")?),
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
        revision: row.number_opt("revision")?.map(RevisionNumber),
        node: row.value("node")?,
        user_agent: row.value::<String>("user_agent")?.into(),
        breaker: row.spelled("breaker", |number: Int| read_breaker(number.0))?,
    })
}

fn read_response(row: &Row) -> Outcome<Option<Response>> {
    let Some(status) = row.number_opt("response_status")? else { return Ok(None) };
    let delay = row.duration_opt("retry_after_delay")?.map(RetryAfter::Delay);
    let at = row.instant_opt("retry_after_at")?.map(RetryAfter::At);
    Ok(Some(Response {
        status,
        headers: row.spelled("response_headers", response_headers::unpack)?,
        body_sample: row.value::<Vec<u8>>("response_body_sample")?.into(),
        cut: row.spelled("response_cut", |number: Int| read_cut(number.0))?,
        retry_after: delay.or(at),
    }))
}
