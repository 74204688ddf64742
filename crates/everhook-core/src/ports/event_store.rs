//! Where events are recorded: step 1 of the line; and where their data ends.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OrganizationId, ScheduleVersion},
    model::{AuditEntry, Event, Fingerprint, Placement, WaitsFor},
    ports::{Freed, StoreError},
    time::Timestamp,
};

/// Records events with their deliveries, and reads them back for sending.
#[async_trait]
pub trait EventStore: Send + Sync {
    /// Records each event together with its deliveries, or finds the one that has its idempotency key already.
    ///
    /// There is one answer for each event, in the order of `events`, and each is independent of the others. When this returns, what was accepted is on disk.
    /// Sequence numbers rise in the order given. An event with more deliveries than one commit should hold is completed in steps that survive
    /// a crash; the answer comes after the last.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] for an event: it was not recorded, as far as is known; its idempotency key makes trying again safe. A batch
    /// may take several commits: those before the one that failed are kept, and nothing after it was tried.
    async fn record(&self, events: Vec<NewEvent>) -> Vec<Result<Recorded, StoreError>>;

    /// Looks which of these events have a key that was given before, and records nothing: one answer for each, what [`EventStore::record`] would say of a
    /// duplicate or of a key that another event has, or `None` if it may be new. For those who have a reason to believe that they are duplicates; a store may always say `None`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn originals(&self, events: &[NewEvent]) -> Result<Vec<Option<Recorded>>, StoreError> {
        Ok(vec![None; events.len()])
    }

    /// Reads one event, for sending. `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read; [`StoreError::Corrupt`] if what it holds of this event cannot be understood,
    /// which trying again does not heal.
    async fn event(&self, id: EventId) -> Result<Option<Event>, StoreError>;

    /// Whether an event's data was erased. Asked about events that [`EventStore::event`] does not find.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn is_erased(&self, id: EventId) -> Result<bool, StoreError>;

    /// Erases an event's data, labels and headers, what is kept of how it was received, and what endpoints answered to it, ends its open deliveries as `cancelled: erased`, frees what
    /// was held behind them, discards its dead letters, and enters that in the audit log, in one atomic write. The event stays, without data, and
    /// so does its idempotency key, without the fingerprint: a publisher that gives it again gets [`Recorded::KeyReused`]. Nothing new is made of it from then
    /// on.
    ///
    /// An event with more deliveries than one commit should hold loses its data in the first and is completed in steps that survive a crash; the
    /// answer comes after the last. An event that was erased before answers the same, and is entered once.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was erased, as far as is known; erasing again is safe.
    async fn erase(&self, erasure: Erasure) -> Result<Erased, StoreError>;

    /// Makes each `alias` another name of its event, for [`crate::ports::History::event`]: a publisher got that id before it was known that
    /// its key was taken. Doing it again changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: some were not made, as far as is known; making them again is safe.
    async fn alias(&self, aliases: Vec<EventAlias>) -> Result<(), StoreError>;
}

/// Another name of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventAlias {
    /// The id that no event has.
    pub alias: EventId,
    /// The event that it refers to.
    pub event: EventId,
}

/// An event whose data is to be erased.
#[derive(Clone, Debug)]
pub struct Erasure {
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// Which event.
    pub event: EventId,
    /// When.
    pub at: Timestamp,
    /// What the audit log gets, if this is what erases it.
    pub entry: AuditEntry,
}

/// What became of an erasure.
#[derive(Clone, Debug)]
pub enum Erased {
    /// Its data is gone, now or since before.
    Erased(Vec<FreedInLane>),
    /// There is no such event in this organization.
    NotFound,
}

/// A delivery that was held behind one of an erased event and waits now.
#[derive(Clone, Debug)]
pub struct FreedInLane {
    /// The application of the endpoint.
    pub application: ApplicationId,
    /// Where it goes.
    pub lane_id: LaneId,
    /// The delivery.
    pub freed: Freed,
}

/// An event to be recorded, with the deliveries that it makes.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// The event. Its `sequence_number` is given by the store.
    pub event: Event,
    /// Whose idea the idempotency key was.
    pub key: KeyOrigin,
    /// The version of the application's configuration that its endpoints were matched with.
    pub config_version: i64,
    /// When its deliveries are made and due: as it is accepted, or as it leaves the spool.
    pub made_at: Timestamp,
    /// One for each endpoint that matched. All wait, due at once, but those that are held behind another.
    pub deliveries: Vec<NewDelivery>,
    /// What its deliveries wait for: they are made parked, unless that was released since the event was accepted. Those that have an order hold their
    /// place.
    pub parked: Option<WaitsFor>,
}

/// Whose idea an idempotency key was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrigin {
    /// The publisher's: it is looked for among those given since the instant, and kept.
    Given {
        /// Older ones are forgotten.
        valid_since: Timestamp,
    },
    /// Ours: the event's own id, which no other event can have.
    Made,
}

/// A delivery to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewDelivery {
    /// Its identity.
    pub id: DeliveryId,
    /// Where to.
    pub lane_id: LaneId,
    /// The schedule version it keeps.
    pub retry_schedule: ScheduleVersion,
    /// Its place in its endpoint's order.
    pub placement: Placement,
}

/// What became of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is durable, and so are its deliveries.
    Accepted {
        /// Its place in the application.
        sequence_number: i64,
        /// Those of its deliveries that do not wait yet: another of their order is open, or they are parked.
        held: Vec<DeliveryId>,
    },
    /// Its key was used before; this is the original.
    Duplicate {
        /// The original's id.
        event: EventId,
        /// How many deliveries the original made.
        deliveries: u32,
        /// The original's place in the application.
        sequence_number: i64,
    },
    /// Its key was used before, by another event: one of another type or with other data, or one whose data was erased, so that nobody can say
    /// whether it was the same. Nothing was written.
    KeyReused(KeyReused),
    /// The application's configuration changed since the endpoints were matched: match again. Nothing was written.
    ConfigChanged,
}

/// Who has an idempotency key that was given to a second event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyReused {
    /// The event that has it.
    pub original: EventId,
    /// Whether its data was erased.
    pub is_erased: bool,
}

/// An event that has an idempotency key, as a store finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original {
    /// Its id.
    pub event: EventId,
    /// How many deliveries it made.
    pub deliveries: u32,
    /// Its place in the application.
    pub sequence_number: i64,
    /// What it said. `None` if that was erased.
    pub fingerprint: Option<Fingerprint>,
}

impl Original {
    /// What is said to an event that was given the same key.
    pub fn answer_to(&self, new: EventId, fingerprint: Fingerprint) -> Recorded {
        // Its own id: somebody records it once more after an unknown outcome, also if it was erased meanwhile.
        if self.event == new || self.fingerprint == Some(fingerprint) {
            let Self { event, deliveries, sequence_number, .. } = *self;
            return Recorded::Duplicate { event, deliveries, sequence_number };
        }
        Recorded::KeyReused(KeyReused { original: self.event, is_erased: self.fingerprint.is_none() })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_duplicate_says_the_same_or_is_the_same_event() {
        let (fingerprint, other) = (Fingerprint::from_bytes([1; 16]), Fingerprint::from_bytes([2; 16]));
        let (event, new) = (EventId::from_uuid(Uuid::from_u128(1)), EventId::from_uuid(Uuid::from_u128(2)));
        let kept = Original { event, deliveries: 3, sequence_number: 4, fingerprint: Some(fingerprint) };
        let erased = Original { fingerprint: None, ..kept };
        let duplicate = Recorded::Duplicate { event, deliveries: 3, sequence_number: 4 };
        let reused = |is_erased| Recorded::KeyReused(KeyReused { original: event, is_erased });
        for (original, id, given, answer) in [
            (kept, new, fingerprint, duplicate.clone()),
            (kept, new, other, reused(false)),
            (kept, event, other, duplicate.clone()),
            (erased, new, fingerprint, reused(true)),
            (erased, event, fingerprint, duplicate),
        ] {
            assert_eq!(original.answer_to(id, given), answer);
        }
    }
}
