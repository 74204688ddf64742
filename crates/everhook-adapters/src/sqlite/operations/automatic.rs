//! Dead letters that come back by themselves.

use std::num::NonZeroU32;

use everhook_core::{
    ids::OrganizationId,
    model::{AutoReplay, DeadLetter},
    ports::DueDeadLetters,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::{
    fault::Outcome,
    history::dead_letter_of_row,
    rows::{Columns, Key, duration, micros},
    transaction::Tx,
};

const OF_ORGANIZATION: &str = include_str!("../queries/auto_replay_of_organization.sql");
const SWITCHED_ON: &str = include_str!("../queries/auto_replays.sql");
const KEEP: &str = include_str!("../queries/keep_auto_replay.sql");
const DUE: &str = include_str!("../queries/due_dead_letters.sql");

pub(super) fn find(connection: &Connection, organization: OrganizationId) -> Outcome<Option<AutoReplay>> {
    let mut statement = connection.prepare_cached(OF_ORGANIZATION)?;
    Ok(statement.query_row([organization.key()], of_row).optional()?.map(|(_, settings)| settings))
}

pub(super) fn switched_on(connection: &Connection) -> Outcome<Vec<(OrganizationId, AutoReplay)>> {
    Ok(connection.prepare_cached(SWITCHED_ON)?.query_map([], of_row)?.collect::<Result<_, _>>()?)
}

pub(super) fn keep(tx: &Tx<'_>, organization: OrganizationId, settings: AutoReplay) -> Outcome<()> {
    tx.prepare(KEEP)?.execute(params![
        organization.key(),
        settings.enabled,
        micros(settings.after),
        settings.requests_per_second.get(),
        settings.max_tries,
    ])?;
    Ok(())
}

pub(super) fn due(connection: &Connection, wanted: DueDeadLetters) -> Outcome<Vec<DeadLetter>> {
    let mut statement = connection.prepare_cached(DUE)?;
    let parameters = params![wanted.organization.key(), wanted.failures, wanted.died_until.as_micros(), wanted.limit];
    Ok(statement.query_map(parameters, dead_letter_of_row)?.collect::<Result<_, _>>()?)
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<(OrganizationId, AutoReplay)> {
    let settings = AutoReplay {
        enabled: row.get("enabled")?,
        after: row.get("after").map(duration)?,
        requests_per_second: row.spelled("requests_per_second", NonZeroU32::new)?,
        max_tries: row.get("max_tries")?,
    };
    Ok((row.id("organization_id")?, settings))
}
