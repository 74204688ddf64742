//! What is old goes, a little at a time: called by the engine's retention task, by one node at a time.

use async_trait::async_trait;
use uuid::Uuid;

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

/// What grows old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetentionClass {
    /// Operations that have ended, by their end.
    Operations,
    /// Dead letters, by their last failure; not while one is being retried.
    DeadLetters,
    /// Attempts, by the end of their event's last delivery; not while one of these is open or a dead letter of the event is kept.
    Attempts,
    /// Events with their data, deliveries and attempts, by the end of their last delivery; not while one is open, a dead letter is kept, or an
    /// operation that has not ended has the event on its list.
    Events,
    /// Figures, by their minute.
    Rollups,
    /// Times in which breakers were open, by their end.
    OpenPeriods,
    /// Entries of the audit log, by when they were made.
    AuditLog,
    /// Revisions of endpoints that were replaced, by the next one's making; not while the endpoint has a delivery that may have been sent by it.
    Revisions,
    /// Endpoints that were deleted, by when; not while anything else is kept of them: deliveries, dead letters, figures, older revisions.
    DeletedEndpoints,
    /// Versions of retry schedules that no endpoint and no schedule has; not while an event is kept that was published before the store noticed. The
    /// instant is the present.
    ScheduleVersions,
    /// Organizations that were deleted, by when; not while lanes, applications or entries of the audit log are kept of them.
    DeletedOrganizations,
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
