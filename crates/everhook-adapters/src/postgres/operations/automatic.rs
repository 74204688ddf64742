//! Dead letters that come back by themselves.

use everhook_core::{
    ids::OrganizationId,
    model::{AutoReplay, DeadLetter},
    ports::DueDeadLetters,
};
use tokio_postgres::Row;

use super::{
    super::{
        fault::Outcome,
        history::dead_letter_of_row,
        reader::Reader,
        rows::{Columns, Key, duration, micros},
    },
    row::positive,
};

const OF_ORGANIZATION: &str = include_str!("../queries/auto_replay_of_organization.sql");
const SWITCHED_ON: &str = include_str!("../queries/auto_replays.sql");
const KEEP: &str = include_str!("../queries/keep_auto_replay.sql");
const DUE: &str = include_str!("../queries/due_dead_letters.sql");

pub(super) async fn find(reader: &Reader, organization: OrganizationId) -> Outcome<Option<AutoReplay>> {
    let row = reader.query_opt(OF_ORGANIZATION, &[&organization.key()]).await?;
    row.map(|row| Ok(of_row(&row)?.1)).transpose()
}

pub(super) async fn switched_on(reader: &Reader) -> Outcome<Vec<(OrganizationId, AutoReplay)>> {
    reader.query(SWITCHED_ON, &[]).await?.iter().map(of_row).collect()
}

/// Sets it, in a transaction of its own.
pub(super) async fn keep(reader: &Reader, organization: OrganizationId, settings: AutoReplay) -> Outcome<()> {
    let (rate, tries) = (i64::from(settings.requests_per_second.get()), i64::from(settings.max_tries));
    reader.execute(KEEP, &[&organization.key(), &settings.enabled, &micros(settings.after), &rate, &tries]).await?;
    Ok(())
}

pub(super) async fn due(reader: &Reader, wanted: DueDeadLetters) -> Outcome<Vec<DeadLetter>> {
    let (failures, limit) = (i64::from(wanted.failures), i64::from(wanted.limit));
    let rows = reader.query(DUE, &[&wanted.organization.key(), &failures, &wanted.died_until.as_micros(), &limit]).await?;
    rows.iter().map(dead_letter_of_row).collect()
}

fn of_row(row: &Row) -> Outcome<(OrganizationId, AutoReplay)> {
    let settings = AutoReplay {
        enabled: row.value("enabled")?,
        after: duration(row.value("after")?),
        requests_per_second: row.spelled("requests_per_second", positive)?,
        max_tries: row.number("max_tries")?,
    };
    Ok((row.id("organization_id")?, settings))
}
