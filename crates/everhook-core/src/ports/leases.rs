//! Who holds what, where several nodes share a store: shards of lanes to send for, and duties.
//!
//! Each worker pool has shards of its own: a boot takes those of its pool, and sends for the lanes of organizations that belong to it. Duties are not by
//! pool. The adapter knows which pool its node is in.
//!
//! A lease belongs to a node's boot, never to a delivery: one row for each boot, renewed each second. Called by the engine's keeper only. The
//! adapter knows which boot it speaks for, and that boot is what [`DeliveryQueue::settle`](super::DeliveryQueue::settle) is fenced by.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    ids::OrganizationId,
    model::{DutySet, ShardSet},
    ports::StoreError,
    time::Timestamp,
};

/// How often a boot renews its lease.
pub const LEASE_RENEWED_EVERY: Duration = Duration::from_secs(1);

/// How long a lease is good after it was renewed: for so long its boot counts as one of those that work, by the store's time.
pub const LEASE_GOOD_FOR: Duration = Duration::from_secs(5);

/// How long a node must have seen a lease not being renewed, by its own uptime, before it may take what that holds. Nobody's calendar has a say in
/// it: that of the store may be set forward like any other, while those who hold something still trust their leases. Half a second less than
/// [`LEASE_GOOD_FOR`], because looks are a second apart, and the last of five should do.
pub const LEASE_WATCHED_FOR: Duration = Duration::from_millis(4_500);

/// How long a node trusts its own lease after it asked for the renewal that was granted, by its own clock. The rest of [`LEASE_GOOD_FOR`] is for
/// requests to be aborted, and for clocks that run apart.
pub const LEASE_TRUSTED_FOR: Duration = Duration::from_secs(3);

/// Keeps who holds what. All calls but [`Leases::terms`] are made by one task, one after another.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Whether anybody else can hold anything. Where nobody can, no other method is ever called.
    fn terms(&self) -> Terms;

    /// Begins a new boot, which holds nothing: after the start, and after [`Renewed::Lost`]. What this adapter's former boot still held is free
    /// from then on, and its outcomes are refused.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: no boot has begun, as far as is known; beginning again is safe.
    async fn begin(&self, roles: Roles) -> Result<(), StoreError>;

    /// Makes this boot's lease good for [`LEASE_GOOD_FOR`] from now, by the store's time, and says what it holds.
    ///
    /// A lease that is overdue but that nobody has taken anything of is renewed like any other.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: it was not renewed, as far as is known.
    async fn renew(&self) -> Result<Renewed, StoreError>;

    /// Takes what is free, or held by a boot that is overdue, and says what it took. Such a boot is dead from then on with all that it held: it can
    /// renew nothing, and its outcomes are refused. One that was renewed since it was seen is not overdue. One atomic write.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if this boot is dead itself. [`StoreError::Unavailable`]: what it took, if anything, the next renewal says.
    async fn take(&self, request: LeaseRequest, overdue: Vec<Heartbeat>) -> Result<Held, StoreError>;

    /// Gives back what is held, for others to take at once. What is not held is not touched.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if this boot is dead. [`StoreError::Unavailable`]: it is still held, as far as is known.
    async fn release(&self, held: Held) -> Result<(), StoreError>;

    /// Nothing of these organizations is in memory any more: no request of this boot to one of their endpoints is under way or unwritten, and none will
    /// begin. The nodes of the pool that it went to may begin once all boots of the former one have said so, or are dead.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: the next renewal names those again for which it was not noted.
    async fn depart(&self, departures: Vec<Departure>) -> Result<(), StoreError>;

    /// Ends this boot: everything that it holds is free at once.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: the lease then ends by itself.
    async fn end(&self) -> Result<(), StoreError>;
}

/// Whether what is held must be held on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// The store has one owner, which holds everything for as long as it lives.
    SingleNode,
    /// Other nodes may use the same store: everything is held by a lease.
    Shared,
}

/// What a node is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Whether it sends: it then takes its share of the shards.
    pub worker: bool,
    /// Whether it does duties.
    pub scheduler: bool,
}

impl Roles {
    /// All of them.
    pub const ALL: Self = Self { worker: true, scheduler: true };
}

/// Shards and duties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Whose lanes may be sent for.
    pub shards: ShardSet,
    /// What may be done.
    pub duties: DutySet,
}

impl Held {
    /// Neither shards nor duties.
    pub const NOTHING: Self = Self { shards: ShardSet::NONE, duties: DutySet::NONE };
    /// All shards and all duties.
    pub const EVERYTHING: Self = Self { shards: ShardSet::ALL, duties: DutySet::ALL };
}

/// What a boot would like to hold beside what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// At most this many shards, whichever are free.
    pub shards_max: u32,
    /// Those of these duties that are free.
    pub duties: DutySet,
}

/// An organization that went to another worker pool, and that a boot must let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Which one.
    pub organization: OrganizationId,
    /// Which of its moves: one that came later is not settled with it.
    pub moves: i64,
}

/// A sign of life: what a boot's lease looked like at a moment. It looks another way once it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Whose lease.
    pub boot: Uuid,
    /// How often it has been renewed.
    pub renewals: u64,
}

/// What came of a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease is good again.
    Held {
        /// What this boot holds, all of it.
        held: Held,
        /// The organizations that left this boot's pool and that it has not let go of.
        departures: Vec<Departure>,
        /// How many boots of this one's pool with a good lease and the role `worker` there are; this one counts if it has it.
        workers: u32,
        /// The leases of all other boots that are not over.
        others: Vec<Heartbeat>,
        /// What time it is for the store.
        store_time: Timestamp,
    },
    /// Another node found that the lease had ended and took what it held, or the boot is not known: it is over. What is in memory must be dropped
    /// before a new one begins.
    Lost,
}
