//! Where events are recorded: step 1 of the line.

use async_trait::async_trait;

use crate::{
    ids::{DeliveryId, EndpointId, EventId, OrganizationId, ScheduleVersion},
    model::{Event, Placement},
    ports::StoreError,
    time::Timestamp,
};

/// Records events with their deliveries, and reads them back for sending.
#[async_trait]
pub trait EventStore: Send + Sync {
    /// Records each event together with its deliveries, or finds the one that has its idempotency key already.
    ///
    /// There is one answer for each event, in the order of `events`, and each stands alone. When this returns, what was accepted is on disk.
    /// Sequence numbers rise in the order given. An event with more deliveries than one commit should hold is completed in steps that survive
    /// a crash; the answer comes after the last.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] for an event: it was not recorded, as far as is known; its idempotency key makes trying again safe. A batch
    /// may take several commits: those before the one that failed stand, and nothing after it was tried.
    async fn record(&self, events: Vec<NewEvent>) -> Vec<Result<Recorded, StoreError>>;

    /// Reads one event, for sending. `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read; [`StoreError::Corrupt`] if what it holds of this event cannot be understood,
    /// which trying again does not heal.
    async fn event(&self, id: EventId) -> Result<Option<Event>, StoreError>;
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
    /// One for each endpoint that matched. All wait, due at once, but those that are held behind another.
    pub deliveries: Vec<NewDelivery>,
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
    pub endpoint: EndpointId,
    /// The schedule version it keeps.
    pub retry_schedule: ScheduleVersion,
    /// Where it stands in its endpoint's order.
    pub placement: Placement,
}

/// What became of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is durable, and so are its deliveries.
    Accepted {
        /// Its place in the application.
        sequence_number: i64,
        /// Those of its deliveries that do not wait yet, because another of their order is open.
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
    /// The application's configuration changed since the endpoints were matched: match again. Nothing was written.
    ConfigChanged,
}
