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
        let answer = async { self.0.query(&self.0.prepare_cached(sql).await?, parameters).await };
        self.0.patience().wait(answer).await
    }

    /// The row of a statement that has at most one.
    pub(super) async fn query_opt(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<Option<Row>> {
        let answer = async { self.0.query_opt(&self.0.prepare_cached(sql).await?, parameters).await };
        self.0.patience().wait(answer).await
    }

    /// The row of a statement that always has one.
    pub(super) async fn query_one(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<Row> {
        let answer = async { self.0.query_one(&self.0.prepare_cached(sql).await?, parameters).await };
        self.0.patience().wait(answer).await
    }

    /// All rows of a statement that names tables, which no parameter can: it is planned for this one time.
    pub(super) async fn query_once(&self, sql: &str, parameters: Params<'_>) -> Outcome<Vec<Row>> {
        self.0.patience().wait(self.0.query(sql, parameters)).await
    }

    /// Runs a statement that is a transaction of its own; says how many rows it wrote.
    pub(super) async fn execute(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<u64> {
        let answer = async { self.0.execute(&self.0.prepare_cached(sql).await?, parameters).await };
        self.0.patience().wait(answer).await
    }
}
