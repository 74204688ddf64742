//! How a store fails, as the choices that its caller has.

use std::{error::Error, fmt};

/// A store's failure. The variants are what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, is full or is overloaded: try again later. Nothing was written, as far as is known.
    #[error("the store is not available")]
    Unavailable(#[source] Cause),
    /// Somebody else changed what this was based on: read again, then decide again.
    #[error("the row was changed by somebody else")]
    Conflict,
    /// It holds something that cannot be true: stop and look.
    #[error("the store holds something it should not")]
    Corrupt(#[source] Cause),
}

/// What the store's library said.
#[derive(Debug)]
pub struct Cause(Box<dyn Error + Send + Sync>);

impl StoreError {
    /// It cannot be reached; `cause` is what the library said.
    pub fn unavailable(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable(Cause(cause.into()))
    }

    /// It holds something that cannot be true; `cause` says what.
    pub fn corrupt(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Corrupt(Cause(cause.into()))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
