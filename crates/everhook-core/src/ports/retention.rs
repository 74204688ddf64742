//! What is old goes, a little at a time: called by the engine's retention task, by one node at a time.

use async_trait::async_trait;
use uuid::Uuid;

pub use crate::model::RetentionClass;
use crate::{ports::StoreError, time::Timestamp};

/// Removes what is past its time.
#[async_trait]
pub trait Retention: Send + Sync {
    /// Takes one small step: looks at some rows from `from` on and removes those that may go.
    ///
    /// Nothing goes that something else still needs. Steps may be repeated, left out or interrupted at any point, by a crash as well: what one
    /// of them left is found by the next pass. A step never holds up a delivery for more than a tenth of a second.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: some of the step may be done. Begin the pass again, later.
    async fn purge(&self, purge: Purge) -> Result<Purged, StoreError>;
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Of what.
    pub what: RetentionClass,
    /// What is older than this may go.
    pub before: Timestamp,
    /// Where to go on; the default is the beginning.
    pub from: Place,
    /// About how many rows it may look at, and remove.
    pub limit: u32,
}

/// How far a pass is. It means something to the store that gave it, and to nobody else. A pass over attempts may begin where the one before it ended,
/// which removed what was older than something earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Which part of the work.
    pub stage: u8,
    /// Up to which id.
    pub id: Uuid,
    /// How far beyond that.
    pub offset: i64,
    /// What was seen there, to notice whether it has changed.
    pub mark: i64,
}

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// How many things went: events, dead letters and so on, not rows. A day that went as a whole is not counted.
    pub removed: u32,
    /// Where the pass goes on; `None` at its end.
    pub next: Option<Place>,
}
