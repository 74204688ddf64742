//! Why a move did not happen, or did not end, in words for the one who asked for it.

use crate::{postgres, sqlite};

/// Why a data folder is not in the database, or not all of it. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The folder cannot be taken.
    #[error(transparent)]
    Folder(#[from] sqlite::OpenError),
    /// The database cannot be opened.
    #[error(transparent)]
    Database(#[from] postgres::OpenError),
    /// Another process moves something into the same database.
    #[error("another `everhook migrate` is copying a folder into this database: wait until it has ended")]
    AlreadyMoving,
    /// Servers use the database.
    #[error("nodes are running on this database ({}): stop them, and try again six seconds later", nodes.join(", "))]
    NodesAlive {
        /// How they call themselves.
        nodes: Vec<String>,
    },
    /// There is something in the database.
    #[error("the database is not empty (`{table}` has rows): create a new database")]
    NotEmpty {
        /// The first table with rows.
        table: &'static str,
    },
    /// The database is somebody else's.
    #[error("the database is not new (it has the table `{table}`, which is not Everhook's): create a new database")]
    Foreign {
        /// The first of them.
        table: String,
    },
    /// It is all there already.
    #[error("{folder} was already copied into this database: start the nodes")]
    AlreadyMoved {
        /// The folder that was moved.
        folder: String,
    },
    /// What was moved into it is another folder, or the folder as it was before it was written to.
    #[error(
        "{folder} was moved into this database before, and this folder is another one or was written to since: start the nodes if that is what \
         you want, or make a new database"
    )]
    Taken {
        /// The folder that was moved.
        folder: String,
    },
    /// An unfinished move is of other files.
    #[error(
        "a migration of {folder} into this database is not finished, and this folder is another one or was changed since: create a new database and start over"
    )]
    OtherSource {
        /// The folder whose move is not finished.
        folder: String,
    },
    /// The database has secrets of another key.
    #[error(
        "this database uses the sealing key {known}, but the folder's secrets are encrypted with the key {given}: create a new database"
    )]
    OtherSealKey {
        /// The key of the database.
        known: String,
        /// The key of the folder.
        given: String,
    },
    /// It is not known which key the folder's secrets need.
    #[error(
        "the folder does not tell which sealing key it needs (its store names none, and it has no seal.key): put seal.key into it, or start \
         `everhook serve` on it once with that key, and stop it"
    )]
    NoSealKey,
    /// The folder cannot be read.
    #[error("cannot read the folder's `{table}`: {reason}")]
    Source {
        /// Which table.
        table: &'static str,
        /// What was said.
        reason: String,
    },
    /// The database did not take something.
    #[error("the database failed at `{table}`: {reason}. Run the same command again to continue")]
    Target {
        /// Which table.
        table: &'static str,
        /// What was said.
        reason: String,
    },
    /// The database failed between tables.
    #[error("the database failed: {reason}. Run the same command again to continue")]
    Server {
        /// What was said.
        reason: String,
    },
    /// What was read back is not what was written.
    #[error("the database differs from the folder: {}. No node can start on it: create a new database and start over", told(.0))]
    Mismatch(Vec<Mismatch>),
    /// It was told to stop.
    #[error("stopped. Run the same command again to continue")]
    Stopped,
}

/// A table that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Which table.
    pub table: &'static str,
    /// How many rows there are in the folder, and the sum of their hashes.
    pub source: (i64, String),
    /// The same of the database.
    pub target: (i64, String),
}

fn told(mismatches: &[Mismatch]) -> String {
    let one = |Mismatch { table, source, target }: &Mismatch| {
        format!(
            "`{table}` has {} rows (hash {}) in the folder and {} rows (hash {}) in the database",
            source.0, source.1, target.0, target.1
        )
    };
    mismatches.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl From<postgres::Fault> for MoveError {
    fn from(fault: postgres::Fault) -> Self {
        Self::Server { reason: fault.describe() }
    }
}

impl From<tokio_postgres::Error> for MoveError {
    fn from(error: tokio_postgres::Error) -> Self {
        postgres::Fault::from(error).into()
    }
}
