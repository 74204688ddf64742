//! One step of a pass over sealed values: reads the next rows, and replaces what has not changed meanwhile. What is replaced is overwritten with zeros: it
//! is sealed with a key that may be known to others.

use everhook_core::{
    ids::EventId,
    model::{
        SealKeyId, SealedKind, SealedPlace,
        health::{ExternalUserId, ProfileId, Provider},
    },
    ports::{HealthUser, RESEAL_ROWS, Resealed},
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use uuid::Uuid;

use super::{
    erasing,
    fault::Outcome,
    rows::{Columns as _, Key as _},
    transaction::Tx,
};
use crate::encoding::{
    health::raw_owner,
    reseal_step::{ANSWERS_A_STEP, AnswerKey, Found, Ready, Rows, Step, changed},
    resealing::{EndpointValues, PairValues, PayloadValues, SizedPlace, SourceValues, readable},
};

const MOVE_ON: &str = include_str!("queries/move_rotation_on.sql");
const ENDPOINTS: &str = include_str!("queries/sealed_endpoints_after.sql");
const REVISIONS: &str = include_str!("queries/sealed_revisions_after.sql");
const SOURCES: &str = include_str!("queries/sealed_sources_after.sql");
const CHANNELS: &str = include_str!("queries/sealed_channels_after.sql");
const APPLICATION_SECRETS: &str = include_str!("queries/sealed_application_secrets_after.sql");
const CONNECTIONS: &str = include_str!("queries/sealed_health_connections_after.sql");
const ANSWERS: &str = include_str!("queries/cached_answers_after.sql");
const ANSWERS_OTHERWISE: &str = include_str!("queries/answers_sealed_otherwise.sql");
const JOB_SIZES: &str = include_str!("queries/job_sizes_after.sql");
const JOB: &str = include_str!("queries/sealed_job.sql");
const APPROVAL_SIZES: &str = include_str!("queries/approval_sizes_after.sql");
const APPROVAL: &str = include_str!("queries/sealed_approval.sql");
const METRIC_SIZES: &str = include_str!("queries/health_metric_sizes_after.sql");
const METRIC: &str = include_str!("queries/sealed_health_metric.sql");
const PAYLOAD_SIZES: &str = include_str!("queries/payload_sizes_after.sql");
const PAYLOAD: &str = include_str!("queries/sealed_payload.sql");
const RESEAL_ENDPOINT: &str = include_str!("queries/reseal_endpoint.sql");
const RESEAL_REVISION: &str = include_str!("queries/reseal_revision.sql");
const RESEAL_SOURCE: &str = include_str!("queries/reseal_source.sql");
const RESEAL_CHANNEL: &str = include_str!("queries/reseal_channel.sql");
const RESEAL_APPLICATION_SECRETS: &str = include_str!("queries/reseal_application_secrets.sql");
const RESEAL_CONNECTION: &str = include_str!("queries/reseal_health_connection.sql");
const RESEAL_JOB: &str = include_str!("queries/reseal_job.sql");
const RESEAL_APPROVAL: &str = include_str!("queries/reseal_approval.sql");
const RESEAL_METRIC: &str = include_str!("queries/reseal_health_metric.sql");
const RESEAL_PAYLOAD: &str = include_str!("queries/reseal_payload.sql");
const RESEAL_HEADERS: &str = include_str!("queries/reseal_received_headers.sql");
const FORGET_ANSWER: &str = include_str!("queries/forget_answer_sealed_otherwise.sql");

/// Reads the next rows behind a place.
pub(super) fn read(connection: &Connection, from: SealedPlace, in_use: SealKeyId) -> Outcome<Step<Found>> {
    match from.kind {
        SealedKind::Endpoints => {
            let rows = rows_after(connection, ENDPOINTS, from, |row| endpoint_values(row, row.id("id")?, 0))?;
            Ok(Step::new(from, rows.last().map(|row| (row.id, 0)), rows.len(), Rows::Endpoints(rows)))
        }
        SealedKind::Revisions => read_revisions(connection, from),
        SealedKind::Sources => {
            let rows = rows_after(connection, SOURCES, from, |row| {
                Ok(SourceValues { id: row.id("id")?, secrets: row.get("secrets")?, verify_token: row.get("verify_token")? })
            })?;
            Ok(Step::new(from, rows.last().map(|row| (row.id, 0)), rows.len(), Rows::Sources(rows)))
        }
        SealedKind::Channels => read_pairs(connection, CHANNELS, from, credentials_of_row),
        SealedKind::ApplicationSecrets => read_pairs(connection, APPLICATION_SECRETS, from, secrets_of_row),
        SealedKind::HealthConnections => read_pairs(connection, CONNECTIONS, from, tokens_of_row),
        SealedKind::CachedAnswers => read_answers(connection, from, in_use),
        SealedKind::Jobs => read_sized(connection, from, (JOB_SIZES, JOB), answer_of_row),
        SealedKind::Approvals => read_sized(connection, from, (APPROVAL_SIZES, APPROVAL), approval_of_row),
        SealedKind::HealthMetrics => read_sized(connection, from, (METRIC_SIZES, METRIC), raw_of_row),
        SealedKind::Payloads => read_payloads(connection, from),
    }
}

fn rows_after<T>(
    connection: &Connection,
    sql: &str,
    from: SealedPlace,
    of_row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Outcome<Vec<T>> {
    Ok(connection.prepare_cached(sql)?.query_map(params![from.id.key(), RESEAL_ROWS], of_row)?.collect::<Result<_, _>>()?)
}

fn read_revisions(connection: &Connection, from: SealedPlace) -> Outcome<Step<Found>> {
    let of_row = |row: &Row<'_>| endpoint_values(row, row.id("endpoint_id")?, row.get("number")?);
    let mut statement = connection.prepare_cached(REVISIONS)?;
    let rows = statement.query_map(params![from.id.key(), from.number, RESEAL_ROWS], of_row)?.collect::<Result<Vec<_>, _>>()?;
    Ok(Step::new(from, rows.last().map(|row| (row.id, row.number)), rows.len(), Rows::Endpoints(rows)))
}

fn read_pairs(
    connection: &Connection,
    sql: &str,
    from: SealedPlace,
    of_row: fn(&Row<'_>) -> rusqlite::Result<PairValues>,
) -> Outcome<Step<Found>> {
    let rows = rows_after(connection, sql, from, of_row)?;
    Ok(Step::new(from, rows.last().map(|row| (row.id, 0)), rows.len(), Rows::Pairs(rows)))
}

fn read_answers(connection: &Connection, from: SealedPlace, in_use: SealKeyId) -> Outcome<Step<Found>> {
    let place = |row: &Row<'_>| Ok((row.id::<Uuid>("lane_id")?, row.get::<_, i64>("stored_at")?));
    let mut statement = connection.prepare_cached(ANSWERS)?;
    let places = statement.query_map(params![from.id.key(), from.number, ANSWERS_A_STEP], place)?.collect::<Result<Vec<_>, _>>()?;
    let Some((lane, stored_at)) = places.last().copied() else { return Ok(Step::new(from, None, 0, Rows::Answers(Vec::new()))) };
    let key = |row: &Row<'_>| Ok(AnswerKey { lane: row.id("lane_id")?, hash: row.get("hash")? });
    let mut statement = connection.prepare_cached(ANSWERS_OTHERWISE)?;
    let between = params![from.id.key(), from.number, lane.key(), stored_at, &in_use.0[..]];
    let keys = statement.query_map(between, key)?.collect::<Result<Vec<_>, _>>()?;
    Ok(Step::new(from, Some((lane, stored_at)), places.len(), Rows::Answers(keys)))
}

fn read_sized(
    connection: &Connection,
    from: SealedPlace,
    (sizes, one): (&str, &str),
    of_row: fn(&Row<'_>, Uuid) -> rusqlite::Result<PairValues>,
) -> Outcome<Step<Found>> {
    let places = rows_after(connection, sizes, from, |row| sized_place(row, row.id("id")?, 0))?;
    let (looked_at, readable) = readable(&places);
    let mut rows = Vec::with_capacity(readable.len());
    for place in readable {
        // One that was removed meanwhile needs nothing.
        rows.extend(connection.prepare_cached(one)?.query_row([place.id.key()], |row| of_row(row, place.id)).optional()?);
    }
    let last = places[..looked_at].last().map(|place| (place.id, 0));
    Ok(Step::new(from, last, looked_at, Rows::Pairs(rows)))
}

fn read_payloads(connection: &Connection, from: SealedPlace) -> Outcome<Step<Found>> {
    let of_row = |row: &Row<'_>| sized_place(row, row.id("event_id")?, row.get("number")?);
    let mut statement = connection.prepare_cached(PAYLOAD_SIZES)?;
    let places = statement.query_map(params![from.number, RESEAL_ROWS], of_row)?.collect::<Result<Vec<_>, _>>()?;
    let (looked_at, readable) = readable(&places);
    let mut rows = Vec::with_capacity(readable.len());
    for place in readable {
        rows.extend(read_payload(connection, place.number, EventId::from_uuid(place.id))?);
    }
    let last = places[..looked_at].last().map(|place| (Uuid::nil(), place.number));
    Ok(Step::new(from, last, looked_at, Rows::Payloads(rows)))
}

fn read_payload(connection: &Connection, number: i64, event: EventId) -> Outcome<Option<PayloadValues>> {
    let of_row = |row: &Row<'_>| Ok(PayloadValues { event, number, body: row.get("body")?, headers: row.get("headers")? });
    Ok(connection.prepare_cached(PAYLOAD)?.query_row(params![number, event.key()], of_row).optional()?)
}

fn endpoint_values(row: &Row<'_>, id: Uuid, number: i64) -> rusqlite::Result<EndpointValues> {
    let (headers, secret, previous_secret) = (row.get("headers")?, row.get("secret")?, row.get("previous_secret")?);
    Ok(EndpointValues { id, number, headers, secret, previous_secret })
}

fn credentials_of_row(row: &Row<'_>) -> rusqlite::Result<PairValues> {
    let id = row.id("id")?;
    Ok(PairValues { id, owner: id, first: row.get("credentials")?, second: None })
}

fn secrets_of_row(row: &Row<'_>) -> rusqlite::Result<PairValues> {
    let id = row.id("application_id")?;
    Ok(PairValues { id, owner: id, first: row.get("secret")?, second: row.get("previous_secret")? })
}

fn tokens_of_row(row: &Row<'_>) -> rusqlite::Result<PairValues> {
    let user = HealthUser {
        organization: row.id("organization_id")?,
        provider: row.spelled("provider", |name: String| Provider::parse(&name))?,
        external_user: row.spelled("external_user_id", |name: String| ExternalUserId::parse(&name))?,
    };
    let (first, second) = (row.get("access_token")?, row.get("refresh_token")?);
    Ok(PairValues { id: row.id("id")?, owner: user.owner_of_tokens(), first, second })
}

fn answer_of_row(row: &Row<'_>, id: Uuid) -> rusqlite::Result<PairValues> {
    Ok(PairValues { id, owner: row.id("lane_id")?, first: row.get("answer")?, second: None })
}

fn approval_of_row(row: &Row<'_>, id: Uuid) -> rusqlite::Result<PairValues> {
    Ok(PairValues { id, owner: row.id("lane_id")?, first: row.get("call")?, second: row.get("data")? })
}

fn raw_of_row(row: &Row<'_>, id: Uuid) -> rusqlite::Result<PairValues> {
    let profile = row.spelled("profile_id", |name: String| ProfileId::parse(&name))?;
    let owner = raw_owner(row.id("organization_id")?, &profile);
    Ok(PairValues { id, owner: *owner.as_uuid(), first: row.get("raw")?, second: None })
}

fn sized_place(row: &Row<'_>, id: Uuid, number: i64) -> rusqlite::Result<SizedPlace> {
    let bytes = row.spelled("bytes", |bytes: i64| u64::try_from(bytes).ok())?;
    Ok(SizedPlace { id, number, encoding: row.get("encoding")?, bytes })
}

/// As how many rows of a commit a step counts.
pub(super) fn rows_written(step: &Step<Ready>) -> usize {
    1 + step.counts().0 as usize + step.bytes() / crate::commits::BYTES_A_ROW
}

/// Moves the rotation on and writes what changes; `None` if the rotation does not stand where the step began.
pub(super) fn write(tx: &Tx<'_>, step: &Step<Ready>, in_use: SealKeyId) -> Outcome<Option<Resealed>> {
    let (resealed, unreadable) = step.counts();
    let SealedPlace { kind, id, number } = step.from;
    // After the last row it stays where it is: asked again, it finds nothing.
    let next = step.next.unwrap_or(step.from);
    let moved = tx.prepare(MOVE_ON)?.execute(params![
        kind.as_str(),
        id.key(),
        number,
        next.kind.as_str(),
        next.id.key(),
        next.number,
        step.looked_at as i64,
        resealed.cast_signed(),
        unreadable.cast_signed()
    ])?;
    if moved == 0 {
        return Ok(None);
    }
    if resealed > 0 {
        erasing::overwriting(tx, |tx| write_rows(tx, step, in_use))?;
    }
    Ok(Some(step.done()))
}

fn write_rows(tx: &Tx<'_>, step: &Step<Ready>, in_use: SealKeyId) -> Outcome<()> {
    let kind = step.from.kind;
    match &step.rows {
        Rows::Endpoints(rows) => changed(rows).try_for_each(|(old, new)| write_endpoint(tx, kind, old, new)),
        Rows::Sources(rows) => changed(rows).try_for_each(|(old, new)| {
            let SourceValues { id, secrets, verify_token } = new;
            tx.prepare(RESEAL_SOURCE)?.execute(params![id.key(), secrets, verify_token, old.secrets, old.verify_token])?;
            Ok(())
        }),
        Rows::Pairs(rows) => changed(rows).try_for_each(|(old, new)| write_pair(tx, kind, old, new)),
        Rows::Payloads(rows) => changed(rows).try_for_each(|(_, new)| {
            tx.prepare(RESEAL_PAYLOAD)?.execute(params![new.number, new.event.key(), new.body])?;
            if let Some(headers) = &new.headers {
                tx.prepare(RESEAL_HEADERS)?.execute(params![new.event.key(), headers])?;
            }
            Ok(())
        }),
        Rows::Answers(keys) => keys.iter().try_for_each(|key| {
            tx.prepare(FORGET_ANSWER)?.execute(params![key.lane.key(), key.hash, &in_use.0[..]])?;
            Ok(())
        }),
    }
}

fn write_endpoint(tx: &Tx<'_>, kind: SealedKind, old: &EndpointValues, new: &EndpointValues) -> Outcome<()> {
    let EndpointValues { id, number, headers, secret, previous_secret } = new;
    match kind {
        SealedKind::Revisions => tx.prepare(RESEAL_REVISION)?.execute(params![id.key(), number, headers, secret, previous_secret])?,
        _ => tx.prepare(RESEAL_ENDPOINT)?.execute(params![
            id.key(),
            headers,
            secret,
            previous_secret,
            old.headers,
            old.secret,
            old.previous_secret
        ])?,
    };
    Ok(())
}

fn write_pair(tx: &Tx<'_>, kind: SealedKind, old: &PairValues, new: &PairValues) -> Outcome<()> {
    let PairValues { id, first, second, .. } = new;
    let of_two = params![id.key(), first, second, old.first, old.second];
    match kind {
        SealedKind::HealthMetrics => tx.prepare(RESEAL_METRIC)?.execute(params![id.key(), first, old.first])?,
        SealedKind::Channels => tx.prepare(RESEAL_CHANNEL)?.execute(params![id.key(), first, old.first])?,
        SealedKind::Jobs => tx.prepare(RESEAL_JOB)?.execute(params![id.key(), first, old.first])?,
        SealedKind::Approvals => tx.prepare(RESEAL_APPROVAL)?.execute(of_two)?,
        SealedKind::HealthConnections => tx.prepare(RESEAL_CONNECTION)?.execute(of_two)?,
        _ => tx.prepare(RESEAL_APPLICATION_SECRETS)?.execute(of_two)?,
    };
    Ok(())
}
