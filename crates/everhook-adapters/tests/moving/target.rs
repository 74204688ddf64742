//! The database that a folder is moved into.

use std::{ops::ControlFlow, path::Path};

use everhook_adapters::{
    moving::{self, MoveError, MoveSettings, Moved, Progress},
    postgres::{OpenError, PostgresSettings, PostgresStore},
};
use tokio_postgres::{Client, NoTls};

use crate::database::Database;

/// The key that the folders' secrets are sealed with.
pub const SEAL_KEY_ID: &str = "1a2b3c4d";

impl Database {
    /// A connection that belongs to nobody.
    pub async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Opens it as a node would.
    pub async fn open(&self) -> Result<PostgresStore, OpenError> {
        PostgresStore::open(&PostgresSettings { url: self.url(), node: "node".to_owned(), pool: Default::default() }).await
    }

    pub fn settings(&self, folder: &Path) -> MoveSettings {
        MoveSettings { from: folder.to_owned(), to: self.url(), seal_key_id: Some(SEAL_KEY_ID.to_owned()), batch_rows: moving::BATCH_ROWS }
    }

    /// Moves a folder into it.
    pub async fn take_in(&self, folder: &Path) -> Result<Moved, MoveError> {
        moving::move_up(&self.settings(folder), &mut |_: Progress| ControlFlow::Continue(())).await
    }
}
