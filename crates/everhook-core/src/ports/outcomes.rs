//! What becomes of what somebody creates, changes or deletes in the control plane: the answers that its ports share.

use crate::ids::ApiKeyId;

/// What became of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is durable.
    Created,
    /// Its uid is taken.
    UidTaken,
    /// Its name is taken, where names are unique.
    NameTaken,
    /// There are as many of its kind as there may be.
    TooMany,
    /// The retry schedule that it should follow was deleted meanwhile.
    NoSuchSchedule,
    /// The endpoints of its application would have more than [`APPLICATION_CONFIG_BYTES_MAX`](super::APPLICATION_CONFIG_BYTES_MAX).
    ConfigTooLarge,
    /// The application that it should belong to was deleted meanwhile.
    NoSuchApplication,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updated {
    /// It is durable.
    Updated,
    /// Its uid is taken.
    UidTaken,
    /// Its name is taken, where names are unique.
    NameTaken,
    /// Somebody changed or removed it meanwhile: read it again.
    Changed,
    /// The retry schedule that it should follow was deleted meanwhile.
    NoSuchSchedule,
}

/// What became of an organization or application that should go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, and so are these keys.
    Deleted(Vec<ApiKeyId>),
    /// There is none.
    NotFound,
}
