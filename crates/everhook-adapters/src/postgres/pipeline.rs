//! A transaction whose statements are sent without waiting for the answers before them.
//!
//! They are joined with `try_join!(biased; …)`: after a statement has failed, those behind it fail because it did, and the first failure is the one to
//! hear of. Without `biased`, answers are looked at in any order.

use tokio_postgres::{Row, Statement};

use super::{connect::Connection, fault::Outcome, rows::Params, transaction::Tx};

/// A connection with a transaction of its own making. `finish` gives the connection back clean, whatever happened.
pub(super) struct Pipeline(Connection);

impl Pipeline {
    pub(super) fn new(connection: Connection) -> Self {
        Self(connection)
    }

    /// A statement, prepared once for the life of the connection.
    pub(super) async fn prepare(&self, sql: &'static str) -> Outcome<Statement> {
        self.0.patience().wait(self.0.prepare_cached(sql)).await
    }

    /// Sends `BEGIN`, `COMMIT` or `ROLLBACK`. The request goes out when the future is first polled, so that those of a `join` keep their order.
    pub(super) async fn send(&self, command: &'static str) -> Outcome<()> {
        self.0.patience().wait(self.0.batch_execute(command)).await
    }

    pub(super) async fn query(&self, statement: &Statement, parameters: Params<'_>) -> Outcome<Vec<Row>> {
        self.0.patience().wait(self.0.query(statement, parameters)).await
    }

    pub(super) async fn execute(&self, statement: &Statement, parameters: Params<'_>) -> Outcome<u64> {
        self.0.patience().wait(self.0.execute(statement, parameters)).await
    }

    /// The same, if there is anything to write.
    pub(super) async fn execute_if(&self, is_needed: bool, statement: &Statement, parameters: Params<'_>) -> Outcome<u64> {
        if is_needed { self.execute(statement, parameters).await } else { Ok(0) }
    }

    /// Ends what a failure left open. A connection that cannot even do that is closed, and the pool replaces it.
    pub(super) async fn finish<T>(self, outcome: Outcome<T>) -> Outcome<T> {
        let patience = self.0.patience();
        if outcome.is_err() && !patience.has_ended() && self.send("ROLLBACK").await.is_err() {
            patience.end();
        }
        outcome
    }
}

/// Whatever answers a statement with rows inside a transaction.
pub(super) trait Ask {
    /// All rows of a statement.
    fn ask(&self, sql: &'static str, parameters: Params<'_>) -> impl Future<Output = Outcome<Vec<Row>>> + Send;
}

impl Ask for Pipeline {
    async fn ask(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<Vec<Row>> {
        let statement = self.prepare(sql).await?;
        self.query(&statement, parameters).await
    }
}

impl Ask for Tx<'_> {
    async fn ask(&self, sql: &'static str, parameters: Params<'_>) -> Outcome<Vec<Row>> {
        self.query(sql, parameters).await
    }
}
