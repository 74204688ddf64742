//! What can go wrong inside the adapter, and how it is told to the core. No type of the library crosses that seam.

use deadpool_postgres::PoolError;
use everhook_core::ports::{FullDisk, StoreError};
use tokio_postgres::error::SqlState;

/// A failure of one write or read.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server or the way to it failed.
    Postgres(tokio_postgres::Error),
    /// No connection could be had.
    NoConnection(String),
    /// A row holds what cannot be true.
    Impossible(String),
    /// This node's lease is gone: what it knows of its lanes may be outdated.
    Fenced,
    /// The organization that was to be changed was deleted.
    Deleted,
}

/// What a write or read comes to.
pub(crate) type Outcome<T> = Result<T, Fault>;

impl Fault {
    /// Whether what was read cannot be understood, and never will be.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Postgres(error) => !is_passing(error),
            Self::Impossible(_) => true,
            Self::NoConnection(_) | Self::Fenced | Self::Deleted => false,
        }
    }

    /// Whether the server could not be reached, or was going away.
    pub(super) fn is_absence(&self) -> bool {
        match self {
            Self::NoConnection(_) => true,
            Self::Postgres(error) => error.code().map_or(!is_conversion(error), |code| ["08", "57"].contains(&&code.code()[..2])),
            Self::Impossible(_) | Self::Fenced | Self::Deleted => false,
        }
    }

    /// What failed, in words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Postgres(error) => describe(error),
            Self::NoConnection(what) | Self::Impossible(what) => what.clone(),
            Self::Fenced => "this node's lease has expired".to_owned(),
            Self::Deleted => "the organization was deleted".to_owned(),
        }
    }

    /// Whether the same transaction may well succeed at once: it met another one.
    pub(super) fn is_collision(&self) -> bool {
        const COLLISIONS: [SqlState; 2] = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
        self.code().is_some_and(|code| COLLISIONS.contains(code))
    }

    /// Whether rows that are there stand against a new partition.
    pub(super) fn is_refused_by_rows(&self) -> bool {
        self.code() == Some(&SqlState::CHECK_VIOLATION)
    }

    /// Whether a lock was not to be had in the time that was given for it.
    pub(super) fn is_impatience(&self) -> bool {
        self.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// The constraint that refused a row as one too many.
    pub(super) fn taken(&self) -> Option<&str> {
        match self {
            Self::Postgres(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => error.as_db_error()?.constraint(),
            _ => None,
        }
    }

    /// Tells it as the choice that the caller has.
    pub(super) fn to_store_error(&self) -> StoreError {
        match self {
            Self::Postgres(error) if self.is_damage() => StoreError::corrupt(describe(error)),
            Self::Postgres(error) if is_refusal(error) => StoreError::refused(describe(error)),
            Self::Postgres(error) if error.code() == Some(&SqlState::DISK_FULL) => StoreError::disk_full(FullDisk::DatabaseServer),
            Self::Postgres(error) => StoreError::unavailable(describe(error)),
            Self::NoConnection(why) => StoreError::unavailable(why.clone()),
            Self::Impossible(what) => StoreError::corrupt(what.clone()),
            Self::Fenced | Self::Deleted => StoreError::Conflict,
        }
    }

    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Postgres(error) => error.code(),
            _ => None,
        }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<PoolError> for Fault {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Postgres(error),
            other => Self::NoConnection(other.to_string()),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        fault.to_store_error()
    }
}

/// The library's own words hide those of the server behind a source.
pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(server) => format!("{} ({})", server.message(), server.code().code()),
        None => std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")),
    }
}

/// Whether the server is there and turns this node away until a person has changed something: who it is, what it may do, which database, what it asks
/// for, or how the way is protected. A server that starts, stops, is full or is taken over by its standby is none of these.
pub(super) fn is_refusal(error: &tokio_postgres::Error) -> bool {
    // Classes: features, data, names of statements (which a pooler loses), authorization, names of databases and schemas, and access rules.
    const REFUSALS: [&str; 7] = ["0A", "22", "26", "28", "3D", "3F", "42"];
    match error.code() {
        Some(code) => REFUSALS.contains(&&code.code()[..2]),
        None => is_refused_unasked(error),
    }
}

/// Whether the two sides did not even agree how to speak with each other. The library has no other name for these kinds than their words.
fn is_refused_unasked(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    if text.starts_with("error performing TLS handshake") {
        // A connection that broke off in the middle says nothing of certificates.
        let broken = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
        return broken.is_none_or(|broken| broken.kind() == std::io::ErrorKind::InvalidData);
    }
    text.starts_with("authentication error") || text.starts_with("invalid configuration")
}

/// Whether waiting, or somebody who looks after the server, can help. Only what the server says of the values themselves it will always say:
/// taking anything else for damage would drop an outcome, and its delivery would be sent again and again.
fn is_passing(error: &tokio_postgres::Error) -> bool {
    // Classes: cardinality, data, integrity.
    const DAMAGE: [&str; 3] = ["21", "22", "23"];
    match error.code() {
        Some(code) => !DAMAGE.contains(&&code.code()[..2]),
        None => !is_conversion(error),
    }
}

/// Whether a value had another type than was expected.
fn is_conversion(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.starts_with("error deserializing") || text.starts_with("error serializing")
}
