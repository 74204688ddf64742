//! How a store fails, as the choices that its caller has.

use std::{error::Error, fmt};

/// A store's failure. The variants are what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, is full or is overloaded: try again later. Nothing was written, as far as is known.
    #[error("the store is unavailable")]
    Unavailable(#[source] Cause),
    /// Somebody else changed what this was based on: read again, then decide again.
    #[error("the row was changed by another transaction")]
    Conflict,
    /// It holds something that cannot be true: stop and look.
    #[error("the store contains invalid data")]
    Corrupt(#[source] Cause),
}

/// What the store's library said.
#[derive(Debug)]
pub struct Cause {
    said: Box<dyn Error + Send + Sync>,
    kind: CauseKind,
}

/// What must happen before trying again is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CauseKind {
    /// Time must pass.
    Passing,
    /// A person must grant this node a privilege, or correct its settings.
    Refusal,
    /// A person must make room on this disk.
    FullDisk(FullDisk),
}

/// A disk without room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FullDisk {
    /// This node's own: that of the embedded store, or of the spool.
    #[error("no space left on the data disk")]
    Data,
    /// That of the database server.
    #[error("no space left on the disk of the database server")]
    DatabaseServer,
}

impl StoreError {
    /// It cannot be reached; `cause` is what the library said.
    pub fn unavailable(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable(Cause { said: cause.into(), kind: CauseKind::Passing })
    }

    /// It is there and does not let this node in: a password, a right or a table is missing. Trying again helps once a person has seen to it.
    pub fn refused(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable(Cause { said: cause.into(), kind: CauseKind::Refusal })
    }

    /// There is no room for it on this disk. Trying again helps once a person has made some.
    pub fn disk_full(disk: FullDisk) -> Self {
        Self::Unavailable(Cause { said: disk.into(), kind: CauseKind::FullDisk(disk) })
    }

    /// It holds something that cannot be true; `cause` says what.
    pub fn corrupt(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Corrupt(Cause { said: cause.into(), kind: CauseKind::Passing })
    }

    /// What happened, without saying twice that it happened to the store: for a sentence that says what follows from it.
    pub fn in_words(&self) -> String {
        match self {
            Self::Unavailable(cause) => cause.to_string(),
            Self::Conflict | Self::Corrupt(_) => match self.source() {
                Some(cause) => format!("{self}: {cause}"),
                None => self.to_string(),
            },
        }
    }

    /// Whether a person must act before trying again is of use.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Unavailable(Cause { kind: CauseKind::Refusal, .. }))
    }

    /// The disk that has no room for it, if that is why it failed.
    pub fn full_disk(&self) -> Option<FullDisk> {
        match self {
            Self::Unavailable(Cause { kind: CauseKind::FullDisk(disk), .. }) => Some(*disk),
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.said.fmt(f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.said.source()
    }
}
