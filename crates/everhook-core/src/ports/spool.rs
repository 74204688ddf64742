//! Where events wait on this node while the store that nodes share is away; and what the node remembers of its publishers meanwhile.
//!
//! Used by `line::publish` (takes), `spool::forward` (empties) and `spool::publishers` (knows whom to admit). One process has it to itself.

use async_trait::async_trait;

use crate::{
    ids::{ApiKeyId, ApplicationId, EndpointId, EventId, OrganizationId, Ref, Uid},
    model::{ApiKey, ApiKeyHash, Event, WaitsFor},
    ports::{KeyOrigin, StoreError},
    time::Timestamp,
};

/// A bounded queue of events on this node's disk, in order within each application.
#[async_trait]
pub trait Spool: PublisherCache {
    /// Takes events, in order, behind those that wait. There is one answer for each; when this returns, what was taken is on disk and counts
    /// in [`Spool::status`]. After one that finds no room nothing more of the call is taken, so that none overtakes it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the disk did not take them: none was taken, as far as is known.
    async fn take(&self, events: Vec<IncomingEvent>) -> Result<Vec<Taken>, StoreError>;

    /// Reads the oldest events that wait of each of these applications, one application after the other and each in order: at most `limit` of
    /// each, and about 16 MiB in all, so that nothing may come of the last ones.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the disk cannot be read.
    async fn oldest(&self, of: Vec<ApplicationId>, limit: u32) -> Result<Vec<SpooledEvent>, StoreError>;

    /// Removes events that are in the store now. They no longer count in [`Spool::status`] once that is on disk, never before: until then
    /// whatever is published must queue behind them.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was removed, as far as is known; removing again is safe.
    async fn forwarded(&self, positions: Vec<i64>) -> Result<(), StoreError>;

    /// Moves an event that the store will never take out of the queue, and keeps it with the reason, for a person to inspect.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was moved, as far as is known; moving again is safe.
    async fn set_aside(&self, position: i64, reason: String, at: Timestamp) -> Result<(), StoreError>;

    /// Seals the next events behind a position again whose data is not sealed with the key in use, those with them that were set aside, in one atomic
    /// write. Says behind which position the next step begins; `None` if there are no more.
    async fn reseal(&self, after: i64) -> Result<Option<i64>, StoreError>;

    /// How full it is. From memory, for every publish asks.
    fn status(&self) -> SpoolStatus;

    /// The applications of which events wait, by their ids. From memory.
    fn applications(&self) -> Vec<ApplicationId>;

    /// Whether events wait of any application that is meant. From memory, for every publish asks while anything waits.
    fn any_waits(&self, is_meant: &dyn Fn(ApplicationId) -> bool) -> bool;
}

/// What admits publishers while the store cannot be asked: a small copy of what the node has read of it.
#[async_trait]
pub trait PublisherCache: Send + Sync {
    /// Keeps something that was read from the store. Costs a write only if it is news.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the disk did not take it.
    async fn remember(&self, publisher: KnownPublisher) -> Result<(), StoreError>;

    /// Forgets a key that was revoked. It is forgotten in memory also if the disk fails.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if it may come back with a restart.
    async fn forget_key(&self, id: ApiKeyId) -> Result<(), StoreError>;

    /// Forgets all keys: any of them may have been revoked.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if they may come back with a restart.
    async fn forget_keys(&self) -> Result<(), StoreError>;

    /// Forgets an application that was deleted. It is forgotten in memory also if the disk fails.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if it may come back with a restart.
    async fn forget_application(&self, id: ApplicationId) -> Result<(), StoreError>;

    /// Every key that is remembered.
    fn api_keys(&self) -> Vec<(ApiKeyHash, ApiKeyId)>;
    /// A key, as it was when it was read.
    fn api_key(&self, hash: &ApiKeyHash) -> Option<ApiKey>;
    /// An organization.
    fn organization(&self, of: &Ref<OrganizationId>) -> Option<OrganizationId>;
    /// An application of an organization.
    fn application(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Option<ApplicationId>;
    /// The application of an organization that is meant where none is named.
    fn default_application(&self, organization: OrganizationId) -> Option<ApplicationId>;
}

/// An event that has its identity, and not yet its deliveries: endpoints are matched when it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingEvent {
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// The event. Its `sequence_number` is given by the store.
    pub event: Event,
    /// Whose idea the idempotency key was.
    pub key: KeyOrigin,
    /// Goes to this endpoint alone, if it is enabled; to all that match if absent.
    pub only: Option<EndpointId>,
    /// What its deliveries wait for; see [`NewEvent::parked`](crate::ports::NewEvent::parked).
    pub parked: Option<WaitsFor>,
}

/// What became of an event that should wait here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It waits.
    Taken,
    /// An event of its application with the same key, the same type and the same data waits already: this one.
    Duplicate(EventId),
    /// An event of its application with the same key and another type or other data waits already: this one.
    KeyReused(EventId),
    /// There was no room for it.
    Full,
}

/// An event that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpooledEvent {
    /// Its place in the queue.
    pub position: i64,
    /// The event.
    pub incoming: IncomingEvent,
}

/// How full a spool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolStatus {
    /// How many events wait.
    pub events: u64,
    /// How many bytes they count as.
    pub bytes: u64,
    /// How many bytes there may be.
    pub bytes_max: u64,
}

impl SpoolStatus {
    /// Whether an event of so many bytes would find room.
    pub const fn has_room_for(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(bytes) <= self.bytes_max
    }
}

/// Something that was read from the store and admits publishers later. Of a key only the hash is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownPublisher {
    /// A key that is good.
    Key(ApiKeyHash, ApiKey),
    /// An organization.
    Organization {
        /// Its identity.
        id: OrganizationId,
        /// The name that its owner uses for it.
        uid: Option<Uid>,
    },
    /// An application.
    Application {
        /// Its identity.
        id: ApplicationId,
        /// The tenant that owns it.
        organization: OrganizationId,
        /// The name that its owner uses for it.
        uid: Option<Uid>,
        /// Whether it is meant where none is named.
        is_default: bool,
    },
}
