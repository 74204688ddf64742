//! A connection, asked one question at a time.

use tokio_postgres::Row;

use super::{connect::Connection, fault::Outcome, rows::Params};

/// A connection for single statements: each sees everything that was committed before it.
pub(super) struct Reader(Connection);

impl Reader {
    pub(super) fn new(connection: Connection) -> Self {
        Self(connection)
    }

    /// All rows of a statement.
    pub(super) async fn query(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<Vec<Row>> {
        let statement = self.0.prepare_cached(sql).await?;
        Ok(self.0.query(&statement, parameters).await?)
    }

    /// The row of a statement that has at most one.
    pub(super) async fn query_opt(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<Option<Row>> {
        let statement = self.0.prepare_cached(sql).await?;
        Ok(self.0.query_opt(&statement, parameters).await?)
    }

    /// The row of a statement that always has one.
    pub(super) async fn query_one(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<Row> {
        let statement = self.0.prepare_cached(sql).await?;
        Ok(self.0.query_one(&statement, parameters).await?)
    }

    /// Runs a statement that is a transaction of its own; says how many rows it wrote.
    pub(super) async fn execute(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<u64> {
        let statement = self.0.prepare_cached(sql).await?;
        Ok(self.0.execute(&statement, parameters).await?)
    }
}
