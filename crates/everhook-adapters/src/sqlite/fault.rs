//! What can go wrong inside the adapter, and how it is told to the core. No type of the library crosses that seam.

use everhook_core::ports::{FullDisk, StoreError};
use rusqlite::{ErrorCode, ffi};

/// A failure of one write or read. Kept in the library's terms until it is answered, because the writer must tell a fatal one apart.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The library failed.
    Sqlite(rusqlite::Error),
    /// A row holds what cannot be true.
    Impossible(String),
    /// The code that ran had a defect and panicked.
    Panicked,
    /// The organization that was to be changed was deleted.
    Deleted,
}

/// What a write or read comes to.
pub(crate) type Outcome<T> = Result<T, Fault>;

impl Fault {
    /// Whether what is on disk is no longer known: a failed flush may have dropped pages that the next flush reports as written, so that only
    /// a restart, which reads the file anew, is safe.
    pub(super) fn is_fatal(&self) -> bool {
        const FLUSH_FAILED: [i32; 2] = [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC];
        match self {
            Self::Sqlite(rusqlite::Error::SqliteFailure(error, _)) => FLUSH_FAILED.contains(&error.extended_code),
            _ => false,
        }
    }

    /// Whether what was read cannot be understood, and never will be.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Sqlite(error) => !is_passing(error),
            Self::Impossible(_) => true,
            Self::Panicked | Self::Deleted => false,
        }
    }

    /// Tells it as the choice that the caller has.
    pub(crate) fn to_store_error(&self) -> StoreError {
        match self {
            Self::Sqlite(error) if self.is_damage() => StoreError::corrupt(error.to_string()),
            Self::Sqlite(error) if is_full(error) => StoreError::disk_full(FullDisk::Data),
            Self::Sqlite(error) => StoreError::unavailable(error.to_string()),
            Self::Impossible(what) => StoreError::corrupt(what.clone()),
            Self::Deleted => StoreError::Conflict,
            Self::Panicked => StoreError::unavailable("a panic stopped the request; nothing was written"),
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Whether a file could not grow: that of the database, its log, or the index of that log.
fn is_full(error: &rusqlite::Error) -> bool {
    let extended = error.sqlite_error().map(|error| error.extended_code);
    error.sqlite_error_code() == Some(ErrorCode::DiskFull) || extended == Some(ffi::SQLITE_IOERR_SHMSIZE)
}

/// Whether waiting, freeing space or restarting can help.
fn is_passing(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OperationInterrupted
                | ErrorCode::OutOfMemory
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::TooBig
        )
    )
}
