//! Where what expires is kept outside the store: written by the engine's retention task before it removes anything that is archived.

use async_trait::async_trait;

use crate::{
    ids::{EventId, OrganizationId},
    model::{Attempt, DeadLetter, Delivery, Event},
    ports::EventSummary,
    time::Timestamp,
};

/// An archive that is only added to.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Adds records in this order. They survive a power cut once this has returned, all of them; what is encrypted in the store is encrypted here.
    ///
    /// # Errors
    /// [`ArchiveError`]: some of them may be there. Add them again later, which may leave some twice.
    async fn append(&self, at: Timestamp, records: Vec<ArchiveRecord>) -> Result<(), ArchiveError>;

    /// Its state.
    fn status(&self) -> ArchiveStatus;
}

/// One thing that is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum ArchiveRecord {
    /// An event; without its data if that was erased.
    Event {
        /// Whose it is.
        organization: OrganizationId,
        /// What lists show of it.
        summary: EventSummary,
        /// All of it.
        event: Option<Box<Event>>,
    },
    /// An event whose data is damaged: nothing can read it.
    UnreadableEvent {
        /// Whose it is.
        organization: OrganizationId,
        /// Which.
        event: EventId,
    },
    /// A delivery of an event that is archived, with its attempts.
    Delivery(Box<Delivery>, Vec<Attempt>),
    /// A dead letter.
    DeadLetter(Box<DeadLetter>),
}

/// The state of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveStatus {
    /// Where it is, for people.
    pub place: String,
    /// When something was last added by this process.
    pub written_at: Option<Timestamp>,
    /// Since when nothing can be added, and why, in words.
    pub failing: Option<(Timestamp, String)>,
}

/// Nothing could be added.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to the archive in {place}")]
pub struct ArchiveError {
    /// Where it is, for people.
    pub place: String,
    /// Why.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}
