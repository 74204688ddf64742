//! Which key a store's values are sealed with, and sealing them with another one.

use async_trait::async_trait;

use crate::{
    model::{AuditEntry, SealKeyId, SealedPlace, Sealing},
    ports::StoreError,
    time::Timestamp,
};

/// How many rows one step of a pass examines: some milliseconds, also where none of them is sealed.
pub const RESEAL_ROWS: u32 = 200;
/// How many bytes of sealed values it seals again, unless a single row has more: some ten milliseconds of a writer's time.
pub const RESEAL_BYTES: u64 = 1 << 20;

/// The sealing of a store. Every method fails with [`StoreError::Unavailable`] if the store cannot be reached; then nothing was written, as far as is
/// known, and calling again is safe.
#[async_trait]
pub trait SealingStore: Send + Sync {
    /// The state of sealing; `None` before a first start has named a key.
    async fn sealing(&self) -> Result<Option<Sealing>, StoreError>;

    /// Begins to seal with another key, in one atomic write: from its commit on, nobody starts who does not have both keys.
    ///
    /// Nothing happens unless every living node is there to seal with the key: their names are returned otherwise. Nor if the key is in use already,
    /// or if a rotation between two other keys is under way. A rotation back to the key from which one is under way is one of its own.
    async fn begin_rotation(&self, to: SealKeyId, at: Timestamp) -> Result<RotationBegun, StoreError>;

    /// Notes which key this node seals with from now on, the spool with it. Where nobody shares the store, nothing is noted.
    async fn note_seals_with(&self, key: SealKeyId) -> Result<(), StoreError>;

    /// The names of the living nodes that seal with another key.
    async fn sealing_otherwise(&self, key: SealKeyId) -> Result<Vec<String>, StoreError>;

    /// Examines the next rows behind a place, at most [`RESEAL_ROWS`] and about [`RESEAL_BYTES`], seals again what is not sealed with the key in use,
    /// and moves the rotation on, in one atomic write. A value that somebody changed meanwhile is left to the next pass.
    ///
    /// `None` if the rotation is not at that place, was stopped, or there is none: nothing was written.
    async fn reseal(&self, from: SealedPlace) -> Result<Option<Resealed>, StoreError>;

    /// Ends a pass, and with it the rotation if that is said. Does nothing if another pass is under way.
    async fn end_pass(&self, pass: u32, end: PassEnd) -> Result<(), StoreError>;

    /// Stops a rotation, or lets it continue; returns the new state of sealing. `None` if no rotation is under way, or it is in that state already: nothing was written.
    async fn set_rotation_cancelled(&self, is_cancelled: bool, entry: AuditEntry) -> Result<Option<Sealing>, StoreError>;
}

/// Whether a rotation was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RotationBegun {
    /// It is under way.
    Begun,
    /// These nodes are not there to seal with the key.
    Awaits(Vec<String>),
    /// The key is in use already, or a rotation between two other keys is under way.
    NotNow,
}

/// What a step of a pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resealed {
    /// How many rows were sealed again.
    pub resealed: u64,
    /// Where the next step begins; `None` after the last row of the last kind.
    pub next: Option<SealedPlace>,
}

/// What follows a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassEnd {
    /// Another pass, not before this instant.
    Again(Timestamp),
    /// Nothing: every value is sealed with the key in use.
    Finished(Timestamp),
}
