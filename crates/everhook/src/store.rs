//! The store behind the ports: the embedded one, or the one that several nodes share. Opened by `wiring`, which alone asks which of them it is.

use std::sync::Arc;

use anyhow::Context as _;
use everhook_adapters::{
    postgres::{PostgresSettings, PostgresStore},
    sqlite::{SqliteSettings, SqliteStore, WriterMode},
    system::{SystemClock, SystemEntropy},
};
use everhook_core::{
    ports::{
        Alone, AuditLog, BreakerStore, Changes, DeliveryQueue, Directory, EventStore, History, Leases, OperationStore, Ports, RemoteHints,
        Statistics, StoreError, Transport, Vault,
    },
    time::Timestamp,
};

use crate::config::Config;

/// A store that is open.
#[derive(Clone)]
pub enum Store {
    /// One file, one process.
    Embedded(Arc<SqliteStore>),
    /// PostgreSQL, for any number of nodes.
    Shared(Arc<PostgresStore>),
}

/// How a store is shared with other nodes.
struct Sharing {
    leases: Arc<dyn Leases>,
    remote_hints: Arc<dyn RemoteHints>,
    changes: Arc<dyn Changes>,
}

impl Store {
    /// Opens the store that the configuration names.
    ///
    /// # Errors
    /// Says what is in the way, and what to do.
    pub async fn open(config: &Config, node: &str) -> anyhow::Result<Self> {
        let Some(database) = &config.database else {
            let settings = SqliteSettings { data: config.data.clone(), mode: WriterMode::Thread };
            return Ok(Self::Embedded(Arc::new(SqliteStore::open(settings)?)));
        };
        let settings = PostgresSettings { url: database.expose().clone(), node: node.to_owned() };
        let store = PostgresStore::open(&settings).await.context("PostgreSQL cannot be used")?;
        Ok(Self::Shared(Arc::new(store)))
    }

    /// The ports that it is behind, with the others.
    pub fn ports(&self, transport: Arc<dyn Transport>, vault: Arc<dyn Vault>) -> Ports {
        match self {
            Self::Embedded(store) => {
                let alone = Arc::new(Alone);
                let sharing = Sharing { leases: alone.clone(), remote_hints: alone.clone(), changes: alone };
                ports_of(store, sharing, transport, vault)
            }
            Self::Shared(store) => {
                let sharing = Sharing { leases: store.clone(), remote_hints: Arc::new(store.hints()), changes: store.clone() };
                ports_of(store, sharing, transport, vault)
            }
        }
    }

    /// Returns once the store has failed for good: stop the process, a restart recovers. A server that is away comes back.
    pub async fn broken(&self) {
        match self {
            Self::Embedded(store) => store.broken().await,
            Self::Shared(_) => std::future::pending().await,
        }
    }

    /// Forgets some idempotency keys that were given before the instant, and says how many.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was forgotten, as far as is known.
    pub async fn forget_keys(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        match self {
            Self::Embedded(store) => store.forget_keys(before, limit).await,
            Self::Shared(store) => store.forget_keys(before, limit).await,
        }
    }

    /// Does what the store itself needs from time to time: the shared one makes the partitions of the next days and forgets changes that
    /// every node has seen.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: some of it was not done, and will be the next time.
    pub async fn tidy(&self, now: Timestamp) -> Result<(), StoreError> {
        match self {
            Self::Embedded(_) => Ok(()),
            Self::Shared(store) => {
                store.make_partitions(now).await?;
                store.forget_changes().await
            }
        }
    }
}

fn ports_of<S>(store: &Arc<S>, sharing: Sharing, transport: Arc<dyn Transport>, vault: Arc<dyn Vault>) -> Ports
where
    S: EventStore + DeliveryQueue + BreakerStore + Directory + AuditLog + History + Statistics + OperationStore + 'static,
{
    Ports {
        events: store.clone(),
        deliveries: store.clone(),
        breakers: store.clone(),
        directory: store.clone(),
        audit_log: store.clone(),
        history: store.clone(),
        statistics: store.clone(),
        operations: store.clone(),
        leases: sharing.leases,
        remote_hints: sharing.remote_hints,
        changes: sharing.changes,
        transport,
        vault,
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy::new()),
    }
}
