//! One step of a pass over sealed values: reads the next rows, and replaces what has not changed meanwhile, row by row in the order of their ids. The
//! server keeps what a row was until it vacuums the table.

use everhook_core::{
    ids::{EventId, OrganizationId},
    model::{
        SealKeyId, SealedKind, SealedPlace,
        health::{ExternalUserId, ProfileId, Provider},
    },
    ports::{HealthUser, RESEAL_ROWS, Resealed},
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    fault::Outcome,
    reader::Reader,
    rows::{Columns as _, Key as _, Params},
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
const JOBS: &str = include_str!("queries/sealed_jobs.sql");
const APPROVAL_SIZES: &str = include_str!("queries/approval_sizes_after.sql");
const APPROVALS: &str = include_str!("queries/sealed_approvals.sql");
const METRIC_SIZES: &str = include_str!("queries/health_metric_sizes_after.sql");
const METRICS: &str = include_str!("queries/sealed_health_metrics.sql");
const PAYLOAD_SIZES: &str = include_str!("queries/payload_sizes_after.sql");
const PAYLOADS: &str = include_str!("queries/sealed_payloads.sql");
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
const FORGET_ANSWER: &str = include_str!("queries/forget_answer_sealed_otherwise.sql");

/// Reads the next rows behind a place.
pub(super) async fn read(reader: &Reader, from: SealedPlace, in_use: SealKeyId) -> Outcome<Step<Found>> {
    match from.kind {
        SealedKind::Endpoints => {
            let rows = rows_after(reader, ENDPOINTS, from, |row| endpoint_values(row, row.value("id")?, 0)).await?;
            Ok(Step::new(from, rows.last().map(|row| (row.id, 0)), rows.len(), Rows::Endpoints(rows)))
        }
        SealedKind::Revisions => {
            let rows = reader.query(REVISIONS, &[&from.id, &from.number, &i64::from(RESEAL_ROWS)]).await?;
            let of_row = |row: &Row| endpoint_values(row, row.value("endpoint_id")?, row.value("number")?);
            let rows = rows.iter().map(of_row).collect::<Outcome<Vec<_>>>()?;
            Ok(Step::new(from, rows.last().map(|row| (row.id, row.number)), rows.len(), Rows::Endpoints(rows)))
        }
        SealedKind::Sources => {
            let rows = rows_after(reader, SOURCES, from, source_values).await?;
            Ok(Step::new(from, rows.last().map(|row| (row.id, 0)), rows.len(), Rows::Sources(rows)))
        }
        SealedKind::Channels => read_pairs(reader, CHANNELS, from, credentials_of_row).await,
        SealedKind::ApplicationSecrets => read_pairs(reader, APPLICATION_SECRETS, from, secrets_of_row).await,
        SealedKind::HealthConnections => read_pairs(reader, CONNECTIONS, from, tokens_of_row).await,
        SealedKind::CachedAnswers => read_answers(reader, from, in_use).await,
        SealedKind::Jobs => read_sized(reader, from, (JOB_SIZES, JOBS), answer_of_row).await,
        SealedKind::Approvals => read_sized(reader, from, (APPROVAL_SIZES, APPROVALS), approval_of_row).await,
        SealedKind::HealthMetrics => read_sized(reader, from, (METRIC_SIZES, METRICS), raw_of_row).await,
        SealedKind::Payloads => read_payloads(reader, from).await,
    }
}

async fn rows_after<T>(reader: &Reader, sql: &'static str, from: SealedPlace, of_row: impl Fn(&Row) -> Outcome<T>) -> Outcome<Vec<T>> {
    reader.query(sql, &[&from.id, &i64::from(RESEAL_ROWS)]).await?.iter().map(of_row).collect()
}

async fn read_pairs(
    reader: &Reader,
    sql: &'static str,
    from: SealedPlace,
    of_row: fn(&Row) -> Outcome<PairValues>,
) -> Outcome<Step<Found>> {
    let rows = rows_after(reader, sql, from, of_row).await?;
    Ok(Step::new(from, rows.last().map(|row| (row.id, 0)), rows.len(), Rows::Pairs(rows)))
}

async fn read_answers(reader: &Reader, from: SealedPlace, in_use: SealKeyId) -> Outcome<Step<Found>> {
    let places = reader.query(ANSWERS, &[&from.id, &from.number, &i64::from(ANSWERS_A_STEP)]).await?;
    let Some(last) = places.last() else { return Ok(Step::new(from, None, 0, Rows::Answers(Vec::new()))) };
    let (lane, stored_at): (Uuid, i64) = (last.value("lane_id")?, last.value("stored_at")?);
    let keys = reader.query(ANSWERS_OTHERWISE, &[&from.id, &from.number, &lane, &stored_at, &&in_use.0[..]]).await?;
    let keys = keys.iter().map(answer_key).collect::<Outcome<Vec<_>>>()?;
    Ok(Step::new(from, Some((lane, stored_at)), places.len(), Rows::Answers(keys)))
}

async fn read_sized(
    reader: &Reader,
    from: SealedPlace,
    (sizes, some): (&'static str, &'static str),
    of_row: fn(&Row) -> Outcome<PairValues>,
) -> Outcome<Step<Found>> {
    let places = rows_after(reader, sizes, from, sized_place).await?;
    let (looked_at, readable) = readable(&places);
    let rows = rows_of(reader, some, &readable, of_row).await?;
    let last = places[..looked_at].last().map(|place| (place.id, 0));
    Ok(Step::new(from, last, looked_at, Rows::Pairs(rows)))
}

async fn read_payloads(reader: &Reader, from: SealedPlace) -> Outcome<Step<Found>> {
    let places = rows_after(reader, PAYLOAD_SIZES, from, sized_place).await?;
    let (looked_at, readable) = readable(&places);
    let rows = rows_of(reader, PAYLOADS, &readable, payload_values).await?;
    let last = places[..looked_at].last().map(|place| (place.id, 0));
    Ok(Step::new(from, last, looked_at, Rows::Payloads(rows)))
}

/// One that was removed meanwhile needs nothing.
async fn rows_of<T>(reader: &Reader, sql: &'static str, of: &[&SizedPlace], of_row: impl Fn(&Row) -> Outcome<T>) -> Outcome<Vec<T>> {
    if of.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = of.iter().map(|place| place.id).collect();
    reader.query(sql, &[&ids]).await?.iter().map(of_row).collect()
}

fn endpoint_values(row: &Row, id: Uuid, number: i64) -> Outcome<EndpointValues> {
    let (headers, secret, previous_secret) = (row.value("headers")?, row.value("secret")?, row.value("previous_secret")?);
    Ok(EndpointValues { id, number, headers, secret, previous_secret })
}

fn source_values(row: &Row) -> Outcome<SourceValues> {
    Ok(SourceValues { id: row.value("id")?, secrets: row.value("secrets")?, verify_token: row.value("verify_token")? })
}

fn credentials_of_row(row: &Row) -> Outcome<PairValues> {
    let id = row.value("id")?;
    Ok(PairValues { id, owner: id, first: row.value("credentials")?, second: None })
}

fn secrets_of_row(row: &Row) -> Outcome<PairValues> {
    let id = row.value("application_id")?;
    Ok(PairValues { id, owner: id, first: row.value("secret")?, second: row.value("previous_secret")? })
}

fn tokens_of_row(row: &Row) -> Outcome<PairValues> {
    let user = HealthUser {
        organization: row.id("organization_id")?,
        provider: row.spelled("provider", |name: &str| Provider::parse(name))?,
        external_user: row.spelled("external_user_id", |name: &str| ExternalUserId::parse(name))?,
    };
    let (first, second) = (row.value("access_token")?, row.value("refresh_token")?);
    Ok(PairValues { id: row.value("id")?, owner: user.owner_of_tokens(), first, second })
}

fn answer_of_row(row: &Row) -> Outcome<PairValues> {
    Ok(PairValues { id: row.value("id")?, owner: row.value("lane_id")?, first: row.value("answer")?, second: None })
}

fn approval_of_row(row: &Row) -> Outcome<PairValues> {
    Ok(PairValues { id: row.value("id")?, owner: row.value("lane_id")?, first: row.value("call")?, second: row.value("data")? })
}

fn raw_of_row(row: &Row) -> Outcome<PairValues> {
    let profile = row.spelled("profile_id", |name: &str| ProfileId::parse(name))?;
    let organization: OrganizationId = row.id("organization_id")?;
    let owner = *raw_owner(organization, &profile).as_uuid();
    Ok(PairValues { id: row.value("id")?, owner, first: row.value("raw")?, second: None })
}

fn answer_key(row: &Row) -> Outcome<AnswerKey> {
    Ok(AnswerKey { lane: row.value("lane_id")?, hash: row.value("hash")? })
}

fn sized_place(row: &Row) -> Outcome<SizedPlace> {
    let bytes = u64::try_from(row.value::<i64>("bytes")?).unwrap_or(0);
    Ok(SizedPlace { id: row.value("id")?, number: 0, encoding: row.number::<i64>("encoding")?, bytes })
}

fn payload_values(row: &Row) -> Outcome<PayloadValues> {
    let event: EventId = row.id("id")?;
    Ok(PayloadValues { event, number: 0, body: row.value("body")?, headers: row.value("received_headers")? })
}

/// Moves the rotation on and writes what changes; `None` if the rotation does not stand where the step began.
pub(super) async fn write(store: &PostgresStore, step: &Step<Ready>, in_use: SealKeyId) -> Outcome<Option<Resealed>> {
    let (resealed, unreadable) = step.counts();
    let (resealed, unreadable) = (resealed.cast_signed(), unreadable.cast_signed());
    let SealedPlace { kind, id, number } = step.from;
    // After the last row it stays where it is: asked again, it finds nothing.
    let next = step.next.unwrap_or(step.from);
    let mut connection = store.connection().await?;
    let tx = Tx::begin(&mut connection).await?;
    let looked_at = step.looked_at as i64;
    let (from_kind, to_kind) = (kind.as_str(), next.kind.as_str());
    let moved =
        tx.execute(MOVE_ON, &[&from_kind, &id, &number, &to_kind, &next.id, &next.number, &looked_at, &resealed, &unreadable]).await?;
    if moved == 0 {
        return Ok(None);
    }
    write_rows(&tx, step, in_use).await?;
    tx.commit().await?;
    Ok(Some(step.done()))
}

async fn write_rows(tx: &Tx<'_>, step: &Step<Ready>, in_use: SealKeyId) -> Outcome<()> {
    let kind = step.from.kind;
    match &step.rows {
        Rows::Endpoints(rows) => {
            for (old, new) in changed(rows) {
                write_endpoint(tx, kind, old, new).await?;
            }
        }
        Rows::Sources(rows) => {
            for (old, new) in changed(rows) {
                let SourceValues { id, secrets, verify_token } = new;
                tx.execute(RESEAL_SOURCE, &[id, secrets, verify_token, &old.secrets, &old.verify_token]).await?;
            }
        }
        Rows::Pairs(rows) => {
            for (old, new) in changed(rows) {
                write_pair(tx, kind, old, new).await?;
            }
        }
        Rows::Payloads(rows) => {
            for (_, new) in changed(rows) {
                tx.execute(RESEAL_PAYLOAD, &[&new.event.key(), &new.body, &new.headers]).await?;
            }
        }
        Rows::Answers(keys) => {
            for AnswerKey { lane, hash } in keys {
                tx.execute(FORGET_ANSWER, &[lane, hash, &&in_use.0[..]]).await?;
            }
        }
    }
    Ok(())
}

async fn write_endpoint(tx: &Tx<'_>, kind: SealedKind, old: &EndpointValues, new: &EndpointValues) -> Outcome<()> {
    let EndpointValues { id, number, headers, secret, previous_secret } = new;
    match kind {
        SealedKind::Revisions => tx.execute(RESEAL_REVISION, &[id, number, headers, secret, previous_secret]).await?,
        _ => {
            let values: Params<'_> = &[id, headers, secret, previous_secret, &old.headers, &old.secret, &old.previous_secret];
            tx.execute(RESEAL_ENDPOINT, values).await?
        }
    };
    Ok(())
}

async fn write_pair(tx: &Tx<'_>, kind: SealedKind, old: &PairValues, new: &PairValues) -> Outcome<()> {
    let PairValues { id, first, second, .. } = new;
    let of_two: Params<'_> = &[id, first, second, &old.first, &old.second];
    match kind {
        SealedKind::HealthMetrics => tx.execute(RESEAL_METRIC, &[id, first, &old.first]).await?,
        SealedKind::Channels => tx.execute(RESEAL_CHANNEL, &[id, first, &old.first]).await?,
        SealedKind::Jobs => tx.execute(RESEAL_JOB, &[id, first, &old.first]).await?,
        SealedKind::Approvals => tx.execute(RESEAL_APPROVAL, of_two).await?,
        SealedKind::HealthConnections => tx.execute(RESEAL_CONNECTION, of_two).await?,
        _ => tx.execute(RESEAL_APPLICATION_SECRETS, of_two).await?,
    };
    Ok(())
}
