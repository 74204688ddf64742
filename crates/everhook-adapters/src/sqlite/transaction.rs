//! One physical transaction, as the jobs inside it see it.

use everhook_core::ids::ApplicationId;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use rustc_hash::FxHashMap;

use super::{fault::Outcome, rows::Key};

const READ_COUNTERS: &str = include_str!("queries/application_counters.sql");
const WRITE_COUNTERS: &str = include_str!("queries/keep_application_counters.sql");

/// An open transaction. What it remembers lives no longer than it does, so that nothing is left over from one that was rolled back.
pub(super) struct Tx<'c> {
    connection: &'c Connection,
    counters: FxHashMap<ApplicationId, Counters>,
}

/// The two numbers of an application that many jobs of one transaction read and raise. They are written back once, at the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    pub(super) config_version: i64,
    pub(super) next_sequence: i64,
}

impl<'c> Tx<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection, counters: FxHashMap::default() }
    }

    /// A statement, prepared once for the life of the connection.
    pub(super) fn prepare(&self, sql: &'static str) -> Outcome<CachedStatement<'c>> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// The connection, for reads that are also used outside of writes.
    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// An application's counters, for reading and raising; `None` if there is no such application.
    pub(super) fn counters(&mut self, application: ApplicationId) -> Outcome<Option<&mut Counters>> {
        if !self.counters.contains_key(&application) {
            let mut statement = self.connection.prepare_cached(READ_COUNTERS)?;
            let read = |row: &rusqlite::Row<'_>| Ok(Counters { config_version: row.get(0)?, next_sequence: row.get(1)? });
            if let Some(counters) = statement.query_row([application.key()], read).optional()? {
                self.counters.insert(application, counters);
            }
        }
        Ok(self.counters.get_mut(&application))
    }

    /// Makes a new version of an application's configuration, so that publishers match again.
    pub(super) fn bump_config(&mut self, application: ApplicationId) -> Outcome<()> {
        if let Some(counters) = self.counters(application)? {
            counters.config_version += 1;
        }
        Ok(())
    }

    /// Writes back what was remembered. The last step before the commit.
    pub(super) fn finish(self) -> Outcome<()> {
        // Most commits of settlements touch none.
        if self.counters.is_empty() {
            return Ok(());
        }
        let mut statement = self.connection.prepare_cached(WRITE_COUNTERS)?;
        for (application, counters) in self.counters {
            statement.execute(params![application.key(), counters.config_version, counters.next_sequence])?;
        }
        Ok(())
    }
}
