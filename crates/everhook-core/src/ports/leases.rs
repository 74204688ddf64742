//! Who holds what, where several nodes share a store: shards of lanes to send for, and duties.
//!
//! A lease belongs to a node's boot, never to a delivery: one row for each boot, renewed each second. Called by the engine's keeper only. The
//! adapter knows which boot it speaks for, and that boot is what [`DeliveryQueue::settle`](super::DeliveryQueue::settle) is fenced by.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    model::{DutySet, ShardSet},
    ports::StoreError,
    time::Timestamp,
};

/// How often a boot renews its lease.
pub const LEASE_RENEWED_EVERY: Duration = Duration::from_secs(1);

/// How long a lease is good after it was renewed, by the store's time. Then others may take what it holds.
pub const LEASE_GOOD_FOR: Duration = Duration::from_secs(5);

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
    /// A lease that has ended but that nobody has taken anything of is renewed like any other.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: it was not renewed, as far as is known.
    async fn renew(&self) -> Result<Renewed, StoreError>;

    /// Takes what is free, or held by a boot whose lease has ended, and says what it took. Such a boot is dead from then on with all that it
    /// held: it can renew nothing, and its outcomes are refused. One atomic write; nothing that is held by a good lease is ever taken.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if this boot is dead itself. [`StoreError::Unavailable`]: what it took, if anything, the next renewal says.
    async fn take(&self, wish: Wish) -> Result<Held, StoreError>;

    /// Gives back what is held, for others to take at once. What is not held is not touched.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if this boot is dead. [`StoreError::Unavailable`]: it is still held, as far as is known.
    async fn release(&self, held: Held) -> Result<(), StoreError>;

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
    Alone,
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
pub struct Wish {
    /// At most this many shards, whichever are free.
    pub shards_max: u32,
    /// Those of these duties that are free.
    pub duties: DutySet,
}

/// What came of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease is good again.
    Held {
        /// What this boot holds, all of it.
        held: Held,
        /// How many boots with a good lease and the role `worker` there are; this one counts if it has it.
        workers: u32,
        /// What time it is for the store.
        store_time: Timestamp,
    },
    /// Another node found that the lease had ended and took what it held, or the boot is not known: it is over. What is in memory must be dropped
    /// before a new one begins.
    Lost,
}
