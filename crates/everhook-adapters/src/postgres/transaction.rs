//! One transaction, and the locks that changes take in it.
//!
//! Every statement sees what was committed before it (`READ COMMITTED`); what must not change meanwhile is locked first: an organization for a
//! change of its configuration, an application's counters for what depends on its version or its sequence.

use std::time::Duration;

use deadpool_postgres::Transaction;
use everhook_core::{
    ids::{ApplicationId, EndpointId, OrganizationId},
    ports::Change,
};
use tokio_postgres::{IsolationLevel, Row};
use uuid::Uuid;

use super::{
    connect::{Connection, ResponseTimeouts},
    fault::{Fault, Outcome},
    rows::{Columns, Key, Params},
};

const TAKE_LONGER: &str = include_str!("queries/take_longer.sql");
const LOCK_COUNTERS: &str = include_str!("queries/lock_counters.sql");
const BUMP_CONFIG: &str = include_str!("queries/bump_config.sql");
const BUMP_CONFIG_FOR_ENDPOINT: &str = include_str!("queries/bump_config_for_endpoint.sql");
pub(super) const LOCK_ORGANIZATION: &str = include_str!("queries/lock_organization.sql");

/// A little more than what the server allows then.
const LONG_ANSWER_WITHIN: Duration = Duration::from_secs(61);

/// An open transaction. Dropped without a commit, it is rolled back.
pub(super) struct Tx<'c> {
    transaction: Transaction<'c>,
    patience: &'c ResponseTimeouts,
}

/// The two numbers of an application that publishing depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    pub(super) config_version: i64,
    pub(super) next_sequence: i64,
}

impl<'c> Tx<'c> {
    /// Begins a change.
    pub(super) async fn begin(connection: &'c mut Connection) -> Outcome<Self> {
        let (object, patience) = connection.parts();
        Ok(Self { transaction: patience.wait(object.transaction()).await?, patience })
    }

    /// Begins a look at several things as they stood at one moment. Writes nothing.
    pub(super) async fn snapshot(connection: &'c mut Connection) -> Outcome<Self> {
        let (object, patience) = connection.parts();
        let snapshot = object.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        Ok(Self { transaction: patience.wait(snapshot.start()).await?, patience })
    }

    /// Runs a statement; says how many rows it wrote.
    pub(super) async fn execute(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<u64> {
        let answer = async { self.transaction.execute(&self.transaction.prepare_cached(sql).await?, parameters).await };
        self.patience.wait(answer).await
    }

    /// All rows of a statement.
    pub(super) async fn query(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<Vec<Row>> {
        let answer = async { self.transaction.query(&self.transaction.prepare_cached(sql).await?, parameters).await };
        self.patience.wait(answer).await
    }

    /// The row of a statement that has at most one.
    pub(super) async fn query_opt(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<Option<Row>> {
        let answer = async { self.transaction.query_opt(&self.transaction.prepare_cached(sql).await?, parameters).await };
        self.patience.wait(answer).await
    }

    /// The row of a statement that always has one.
    pub(super) async fn query_one(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<Row> {
        let answer = async { self.transaction.query_one(&self.transaction.prepare_cached(sql).await?, parameters).await };
        self.patience.wait(answer).await
    }

    /// All rows of a statement that names tables, which no parameter can.
    pub(super) async fn query_once(&self, sql: &str, parameters: Params<'_>) -> Outcome<Vec<Row>> {
        self.patience.wait(self.transaction.query(sql, parameters)).await
    }

    /// Runs a statement that names tables.
    pub(super) async fn run(&self, sql: &str) -> Outcome<()> {
        self.patience.wait(self.transaction.batch_execute(sql)).await
    }

    /// Gives the statements that follow a minute each, which is more than a change for people has.
    pub(super) async fn take_longer(&self) -> Outcome<()> {
        self.execute(TAKE_LONGER, &[]).await?;
        self.patience.allow(LONG_ANSWER_WITHIN);
        Ok(())
    }

    /// Makes it durable.
    pub(super) async fn commit(self) -> Outcome<()> {
        self.patience.wait(self.transaction.commit()).await
    }

    /// Waits until no other change of this organization's configuration is under way, and holds up the next until this one has ended. One that was
    /// deleted is not changed any more.
    pub(super) async fn lock_organization(&self, organization: OrganizationId) -> Outcome<()> {
        match self.query_opt(LOCK_ORGANIZATION, &[&organization.key()]).await? {
            Some(row) if row.value("is_deleted")? => Err(Fault::Deleted),
            _ => Ok(()),
        }
    }

    /// Locks the counters of applications, in the order of their ids, and reads them. One that is not there is left out.
    pub(super) async fn lock_counters(&self, applications: &[ApplicationId]) -> Outcome<Vec<(ApplicationId, Counters)>> {
        let keys: Vec<Uuid> = applications.iter().map(Key::key).collect();
        self.query(LOCK_COUNTERS, &[&keys]).await?.iter().map(counters_of_row).collect()
    }

    /// Makes a new version of an application's configuration, so that publishers match again.
    pub(super) async fn bump_config(&self, application: ApplicationId) -> Outcome<()> {
        self.execute(BUMP_CONFIG, &[&application.key()]).await?;
        self.note_change(Change::Application(application)).await
    }

    /// The same, because of one endpoint: it keeps the version at which it changed.
    pub(super) async fn endpoint_changed(&self, application: ApplicationId, endpoint: EndpointId) -> Outcome<()> {
        self.endpoint_grew(application, endpoint, 0).await
    }

    /// The same, because of an endpoint with which the application has so many bytes of configuration more.
    pub(super) async fn endpoint_grew(&self, application: ApplicationId, endpoint: EndpointId, growth: i64) -> Outcome<()> {
        self.execute(BUMP_CONFIG_FOR_ENDPOINT, &[&application.key(), &endpoint.key(), &growth]).await?;
        self.note_change(Change::Endpoint(application, endpoint)).await
    }
}

/// Reads an application's counters.
pub(super) fn counters_of_row(row: &Row) -> Outcome<(ApplicationId, Counters)> {
    let counters = Counters { config_version: row.value("config_version")?, next_sequence: row.value("next_sequence")? };
    Ok((row.id("application_id")?, counters))
}
