//! One physical transaction, as the jobs inside it see it.

use std::cell::Cell;

use everhook_core::{
    ids::{ApplicationId, EndpointId, LaneId, OrganizationId},
    ports::ConfigVersion,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use rustc_hash::FxHashMap;

use super::{
    fault::{Fault, Outcome},
    rows::{Columns, Key},
};

const READ_COUNTERS: &str = include_str!("queries/application_counters.sql");
const WRITE_COUNTERS: &str = include_str!("queries/keep_application_counters.sql");
const BUMP_ORGANIZATION: &str = include_str!("queries/bump_organization.sql");
const BUMP_CONFIG_FOR_ENDPOINT: &str = include_str!("queries/bump_config_for_endpoint.sql");
const MARK_ENDPOINT_CHANGED: &str = include_str!("queries/mark_endpoint_changed.sql");
const LANE_OF_ENDPOINT: &str = include_str!("queries/lane_of_endpoint.sql");
const NODE_BY_NAME: &str = include_str!("queries/node_by_name.sql");
const INSERT_NODE: &str = include_str!("queries/insert_node.sql");

/// An open transaction. What it remembers lives no longer than it does, so that nothing is left over from one that was rolled back.
pub(crate) struct Tx<'c> {
    connection: &'c Connection,
    counters: FxHashMap<ApplicationId, Counters>,
    lanes: FxHashMap<LaneId, i64>,
    /// The node of the last attempt, its version and their number. All attempts of one process have the same.
    node: Option<(String, String, i64)>,
    /// The statements of [`Self::hot`]: a handful, so that looking through them is quicker than hashing their text.
    hot: Vec<(&'static str, CachedStatement<'c>)>,
    /// Whether the log holds what this transaction erases.
    leaves_traces: Cell<bool>,
}

/// The two numbers of an application that many jobs of one transaction read and raise. They are written back once, at the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    pub(super) version: ConfigVersion,
    pub(super) next_sequence: i64,
    organization: OrganizationId,
}

impl<'c> Tx<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self {
            connection,
            counters: FxHashMap::default(),
            lanes: FxHashMap::default(),
            node: None,
            hot: Vec::new(),
            leaves_traces: Cell::new(false),
        }
    }

    /// A statement, prepared once for the life of the connection.
    pub(crate) fn prepare(&self, sql: &'static str) -> Outcome<CachedStatement<'c>> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// The same for the statements that run for every event or delivery: kept at hand until the transaction ends.
    pub(super) fn hot(&mut self, sql: &'static str) -> Outcome<&mut CachedStatement<'c>> {
        let place = match self.hot.iter().position(|(known, _)| std::ptr::eq(*known, sql)) {
            Some(place) => place,
            None => {
                self.hot.push((sql, self.connection.prepare_cached(sql)?));
                self.hot.len() - 1
            }
        };
        Ok(&mut self.hot[place].1)
    }

    /// The number by which deliveries name an endpoint.
    pub(super) fn lane_of(&mut self, lane_id: LaneId) -> Outcome<i64> {
        if let Some(lane) = self.lanes.get(&lane_id) {
            return Ok(*lane);
        }
        let lane = self.hot(LANE_OF_ENDPOINT)?.query_row([lane_id.key()], |row| row.get(0)).optional()?;
        let lane = lane.ok_or_else(|| Fault::Impossible(format!("a delivery was made for the lane {lane_id}, which is not there")))?;
        self.lanes.insert(lane_id, lane);
        Ok(lane)
    }

    /// The number by which attempts name a node and the version that it runs, given to them now if they have none.
    pub(super) fn number_of_node(&mut self, name: &str, user_agent: &str) -> Outcome<i64> {
        if let Some((.., number)) = self.node.as_ref().filter(|(known, version, _)| known == name && version == user_agent) {
            return Ok(*number);
        }
        let known = self.prepare(NODE_BY_NAME)?.query_row([name, user_agent], |row| row.get(0)).optional()?;
        let number = match known {
            Some(number) => number,
            None => self.prepare(INSERT_NODE)?.insert([name, user_agent])?,
        };
        self.node = Some((name.to_owned(), user_agent.to_owned(), number));
        Ok(number)
    }

    /// The connection, for reads that are also used outside of writes.
    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// An application's counters, for reading and raising; `None` if there is no such application.
    pub(super) fn counters(&mut self, application: ApplicationId) -> Outcome<Option<&mut Counters>> {
        if !self.counters.contains_key(&application) {
            let mut statement = self.connection.prepare_cached(READ_COUNTERS)?;
            let read = |row: &rusqlite::Row<'_>| {
                Ok(Counters {
                    version: ConfigVersion { application: row.get("config_version")?, organization: row.get("organization_version")? },
                    next_sequence: row.get("next_sequence")?,
                    organization: row.id("organization_id")?,
                })
            };
            if let Some(counters) = statement.query_row([application.key()], read).optional()? {
                self.counters.insert(application, counters);
            }
        }
        Ok(self.counters.get_mut(&application))
    }

    /// Forgets the counters of an application that was deleted: whatever is published to it in the same transaction finds none.
    pub(super) fn forget_counters(&mut self, application: ApplicationId) {
        self.counters.remove(&application);
    }

    /// Makes a new version of an application's configuration, so that publishers match again.
    pub(super) fn bump_config(&mut self, application: ApplicationId) -> Outcome<()> {
        if let Some(counters) = self.counters(application)? {
            counters.version.application += 1;
        }
        Ok(())
    }

    /// The same, because of one endpoint with which the application has so many bytes of configuration more.
    pub(super) fn endpoint_grew(&mut self, application: ApplicationId, endpoint: EndpointId, growth: i64) -> Outcome<()> {
        self.prepare(BUMP_CONFIG_FOR_ENDPOINT)?.execute(params![application.key(), growth])?;
        self.endpoint_changed(application, endpoint)
    }

    /// The same, because of one endpoint: it keeps the version at which it changed.
    pub(super) fn endpoint_changed(&mut self, application: ApplicationId, endpoint: EndpointId) -> Outcome<()> {
        self.bump_config(application)?;
        if let Some(version) = self.counters(application)?.map(|counters| counters.version.application) {
            self.prepare(MARK_ENDPOINT_CHANGED)?.execute(params![endpoint.key(), version])?;
        }
        Ok(())
    }

    /// Makes a new version of an organization's configuration, so that publishers of all its applications match again.
    pub(super) fn bump_organization(&mut self, organization: OrganizationId) -> Outcome<()> {
        self.prepare(BUMP_ORGANIZATION)?.execute([organization.key()])?;
        let of_it = self.counters.values_mut().filter(|counters| counters.organization == organization);
        of_it.for_each(|counters| counters.version.organization += 1);
        Ok(())
    }

    /// Notes that something was erased, which the log still holds until it is emptied.
    pub(crate) fn leave_traces(&self) {
        self.leaves_traces.set(true);
    }

    /// Writes back what was remembered, and says whether the log is to be emptied. The last step before the commit.
    pub(super) fn finish(self) -> Outcome<bool> {
        let leaves_traces = self.leaves_traces.get();
        // Most commits of settlements touch none.
        if self.counters.is_empty() {
            return Ok(leaves_traces);
        }
        let mut statement = self.connection.prepare_cached(WRITE_COUNTERS)?;
        for (application, counters) in self.counters {
            statement.execute(params![application.key(), counters.version.application, counters.next_sequence])?;
        }
        Ok(leaves_traces)
    }
}
