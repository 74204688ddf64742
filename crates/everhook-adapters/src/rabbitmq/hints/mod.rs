//! Hints between nodes through a broker: the port `RemoteHints`, in front of another one that takes over whenever the broker cannot.
//!
//! Built by the binary where nodes share a store and a broker is named. Each node has three queues, one a priority, bound for the shards that it holds,
//! so that a hint reaches the one node that can use it (decision 0030). A hint that no queue is bound for, or that the broker does not confirm, goes the
//! other way, and both ways are listened to. Nothing here is waited for by the line, and nothing depends on it: whatever is lost, the owner of a lane
//! looks for itself once a second.

mod inbox;
mod keeping;
mod names;
mod wire;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everhook_core::{
    model::{PoolName, Secret, ShardSet},
    ports::{RemoteHints, WaitingQueue},
};
use tokio::{
    sync::{Mutex, mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use self::{
    inbox::Inbox,
    keeping::{HintConnection, State},
    names::Names,
    wire::Hint,
};
use super::{
    address::{self, AddressError, BrokerAddress},
    reconnect::{FailedReconnects, RECONNECT_MIN},
};
use crate::http::HttpSetupError;

/// The most hints that wait to be sent. What does not fit goes the other way.
const HINTS_MAX: usize = 4_096;

/// How long queues outlive their node, unless the settings say otherwise: long enough for the first tries to connect again.
const QUEUES_KEPT_FOR: Duration = Duration::from_secs(15);

/// How long a stop waits for the broker's farewell. The queues expire by themselves.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Which broker carries hints, and for whom.
pub struct HintSettings {
    broker: BrokerAddress,
    names: Names,
    /// How long to wait before connecting again after the first failure; doubled after each more.
    pub reconnect_after: Duration,
    /// How long this node's queues outlive a lost connection. If it is back sooner, it finds in them what came meanwhile; once they are gone, hints for
    /// it are returned to whoever sends them, and go the other way.
    pub queues_kept_for: Duration,
}

/// Why hints cannot be carried.
#[derive(Debug, thiserror::Error)]
pub enum HintsError {
    /// The URL does not name a broker.
    #[error(transparent)]
    Broker(#[from] AddressError),
    /// Names at a broker are made of it.
    #[error("the name of the store must have 1 to 64 bytes")]
    Store,
}

impl HintSettings {
    /// The broker by its URL, the store that the nodes share by a name that no other store has, the pool that this node works for, and an id for this
    /// life of the node.
    ///
    /// # Errors
    /// [`HintsError`] says what would be right.
    pub fn new(url: &Secret<String>, store: &str, pool: PoolName, boot: Uuid) -> Result<Self, HintsError> {
        let names = Names::new(store, pool, boot).ok_or(HintsError::Store)?;
        Ok(Self { broker: BrokerAddress::read(url)?, names, reconnect_after: RECONNECT_MIN, queues_kept_for: QUEUES_KEPT_FOR })
    }
}

/// Hints through a broker, or else the other way. Dropping it ends everything.
pub struct RabbitHints {
    outgoing: mpsc::Sender<Hint>,
    held: watch::Sender<ShardSet>,
    inner: Arc<dyn RemoteHints>,
    inbox: Arc<Inbox>,
    is_away: Arc<AtomicBool>,
    failed_reconnects: FailedReconnects,
    stopping: CancellationToken,
    keeping: Mutex<Option<JoinHandle<()>>>,
    _stops_with_it: DropGuard,
}

impl RabbitHints {
    /// Begins to connect, and returns at once: `inner` carries the hints until there is a connection, and whenever there is none.
    ///
    /// # Errors
    /// [`HttpSetupError`] if TLS or the resolver cannot be set up.
    pub fn start(settings: HintSettings, inner: Arc<dyn RemoteHints>) -> Result<Self, HttpSetupError> {
        let HintSettings { broker, names, reconnect_after, queues_kept_for } = settings;
        let (outgoing, to_send) = mpsc::channel(HINTS_MAX);
        let (held, held_receiver) = watch::channel(ShardSet::NONE);
        let (inbox, is_away, stopping) = (Arc::<Inbox>::default(), Arc::new(AtomicBool::new(true)), CancellationToken::new());
        let failed_reconnects = FailedReconnects::default();
        let keeping = HintConnection {
            broker,
            connector: address::connector()?,
            names,
            reconnect_after,
            queues_kept_for,
            inner: inner.clone(),
            inbox: inbox.clone(),
            is_away: is_away.clone(),
            failed_reconnects: failed_reconnects.clone(),
            stopping: stopping.clone(),
        };
        let state = State { outgoing: to_send, held: held_receiver, bound: ShardSet::NONE, under_way: Vec::new() };
        let keeping = Mutex::new(Some(tokio::spawn(keeping.run(state))));
        let _stops_with_it = stopping.clone().drop_guard();
        Ok(Self { outgoing, held, inner, inbox, is_away, failed_reconnects, stopping, keeping, _stops_with_it })
    }

    /// Removes this node's queues and says farewell. Hints go the other way from now on.
    pub async fn stop(&self) {
        self.stopping.cancel();
        if let Some(keeping) = self.keeping.lock().await.take() {
            let abort = keeping.abort_handle();
            if tokio::time::timeout(STOP_TIMEOUT, keeping).await.is_err() {
                abort.abort();
            }
        }
        self.is_away.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl RemoteHints for RabbitHints {
    fn waiting(&self, pool: &PoolName, queues: Vec<WaitingQueue>) {
        let is_unsent = |queue: &WaitingQueue| self.outgoing.try_send((pool.clone(), *queue)).is_err();
        let unsent: Vec<_> = queues.into_iter().filter(is_unsent).collect();
        if !unsent.is_empty() {
            self.inner.waiting(pool, unsent);
        }
    }

    async fn next(&self) -> Vec<WaitingQueue> {
        tokio::select! {
            queues = self.inbox.take() => queues,
            queues = self.inner.next() => queues,
        }
    }

    fn holds(&self, shards: ShardSet) {
        self.inner.holds(shards);
        self.held.send_if_modified(|held| std::mem::replace(held, shards) != shards);
    }

    fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    fn failed_reconnects(&self) -> u32 {
        self.failed_reconnects.count()
    }
}
