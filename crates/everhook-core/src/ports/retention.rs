//! What is kept, and what goes because it is old, a little at a time: called by the engine's retention task, by one node at a time.

use async_trait::async_trait;
use uuid::Uuid;

pub use crate::model::RetentionClass;
use crate::{
    ids::{DeliveryId, EventId, OrganizationId},
    ports::StoreError,
    time::Timestamp,
};

/// Removes what is past its time.
#[async_trait]
pub trait Retention: Send + Sync {
    /// Takes one small step: examines some rows from `from` on and removes those that may go.
    ///
    /// Nothing goes that something else still needs. Steps may be repeated, left out or interrupted at any point, by a crash as well: what one
    /// of them left is found by the next pass. A step never holds up a delivery for more than a tenth of a second.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: some of the step may be done. Begin the pass again, later.
    async fn purge(&self, purge: Purge) -> Result<Purged, StoreError>;

    /// What the step would remove now of what is archived: dead letters, and events of sources. Nothing for other classes. In no order.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: try again, later.
    async fn expiring(&self, purge: Purge) -> Result<Vec<Expiring>, StoreError>;

    /// As [`Retention::purge`], but of what is archived nothing goes that is not in `archived`: it is left to a later step. A step that finds such a thing
    /// may end where it began.
    ///
    /// # Errors
    /// As [`Retention::purge`].
    async fn purge_archived(&self, purge: Purge, archived: Vec<Expiring>) -> Result<Purged, StoreError>;

    /// How much is kept, without counting it: what the store knows about itself.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: try again, later.
    async fn stored(&self) -> Result<Stored, StoreError>;
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Of what.
    pub what: RetentionClass,
    /// What is older than this may go.
    pub before: Timestamp,
    /// Where to continue; the default is the beginning.
    pub from: Place,
    /// About how many rows it may examine, and remove.
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
    /// Where the pass continues; `None` at its end.
    pub next: Option<Place>,
}

/// What is about to go, and is archived before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiring {
    /// Whose it is.
    pub organization: OrganizationId,
    /// What it is.
    pub id: ExpiringId,
}

/// What can be archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExpiringId {
    /// An event that came through a source, with its deliveries.
    Event(EventId),
    /// A dead letter.
    DeadLetter(DeliveryId),
}

impl ExpiringId {
    /// The id, whatever it is of.
    pub const fn as_uuid(&self) -> &Uuid {
        match self {
            Self::Event(id) => id.as_uuid(),
            Self::DeadLetter(id) => id.as_uuid(),
        }
    }
}

/// How much a store keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// How many bytes it takes on its disk.
    pub bytes: u64,
    /// How many of them hold nothing, and are used again.
    pub free_bytes: u64,
    /// Its tables, those with the most rows or bytes first.
    pub tables: Vec<StoredTable>,
    /// When the oldest event was accepted.
    pub oldest_event_at: Option<Timestamp>,
    /// When the oldest dead letter last failed.
    pub oldest_dead_letter_at: Option<Timestamp>,
}

/// How much one table keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTable {
    /// Its name.
    pub name: String,
    /// How many rows it has.
    pub rows: RowCount,
    /// How many bytes it takes, its indexes included; `None` if the store does not know.
    pub bytes: Option<u64>,
}

/// How many rows a table has, as far as that is known without counting all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCount {
    /// So many.
    Exactly(u64),
    /// So many when the store last looked.
    About(u64),
    /// So many, and more.
    MoreThan(u64),
}

impl RowCount {
    /// The number, whatever it counts.
    pub const fn number(self) -> u64 {
        match self {
            Self::Exactly(rows) | Self::About(rows) | Self::MoreThan(rows) => rows,
        }
    }

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exactly(_) => "exact",
            Self::About(_) => "about",
            Self::MoreThan(_) => "more_than",
        }
    }
}
