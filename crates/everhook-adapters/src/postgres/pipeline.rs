//! A transaction whose statements are sent without waiting for the answers before them.
//!
//! They are joined with `try_join!(biased; …)`: after a statement has failed, those behind it fail because it did, and the first failure is the one to
//! hear of. Without `biased`, answers are looked at in any order.

use tokio_postgres::{Row, Statement};

use super::{connect::Connection, fault::Outcome, rows::Params, transaction::Tx};

/// A connection with a transaction of its own making. `finish` gives the connection back clean, whatever happened; one that is dropped before, because
/// nobody waits for it any more, is closed with what it was in the middle of.
pub(super) struct Pipeline {
    connection: Connection,
    is_finished: bool,
}

impl Pipeline {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, is_finished: false }
    }

    /// A statement, prepared once for the life of the connection.
    pub(super) async fn prepare(&self, sql: &'static str) -> Outcome<Statement> {
        self.connection.patience().wait(self.connection.prepare_cached(sql)).await
    }

    /// Sends `BEGIN`, `COMMIT` or `ROLLBACK`. The request goes out when the future is first polled, so that those of a `join` keep their order.
    pub(super) async fn send(&self, command: &'static str) -> Outcome<()> {
        self.connection.patience().wait(self.connection.batch_execute(command)).await
    }

    pub(super) async fn query(&self, statement: &Statement, parameters: Params<'_>) -> Outcome<Vec<Row>> {
        self.connection.patience().wait(self.connection.query(statement, parameters)).await
    }

    pub(super) async fn execute(&self, statement: &Statement, parameters: Params<'_>) -> Outcome<u64> {
        self.connection.patience().wait(self.connection.execute(statement, parameters)).await
    }

    /// The same, if there is anything to write.
    pub(super) async fn execute_if(&self, is_needed: bool, statement: &Statement, parameters: Params<'_>) -> Outcome<u64> {
        if is_needed { self.execute(statement, parameters).await } else { Ok(0) }
    }

    /// Ends what a failure left open. A connection that cannot even do that is closed, and the pool replaces it.
    pub(super) async fn finish<T>(mut self, outcome: Outcome<T>) -> Outcome<T> {
        let patience = self.connection.patience();
        if outcome.is_err() && !patience.has_ended() && self.send("ROLLBACK").await.is_err() {
            patience.end();
        }
        self.is_finished = true;
        outcome
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if !self.is_finished {
            self.connection.patience().end();
        }
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
