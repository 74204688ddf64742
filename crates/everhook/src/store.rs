//! The store behind the ports: the embedded one, or the one that several nodes share. Opened by `wiring`, which alone asks which of them it is.

use std::sync::Arc;

use anyhow::Context as _;
use everhook_adapters::{
    postgres::{self, PostgresSettings, PostgresStore},
    spool::{SpoolSettings, SqliteSpool},
    sqlite::{OpenError, SqliteSettings, SqliteStore, WriterMode},
    system::{SystemClock, SystemEntropy},
};
use everhook_core::{
    model::PoolName,
    ports::{
        Alone, AuditLog, BreakerStore, BreakerWindows, Changes, Clock as _, DeliveryQueue, Directory, EventStore, History, Leases,
        OperationStore, Ports, RemoteHints, Retention, Spool, Statistics, StoreError, ThrottleStore, Transport, Vault,
    },
    time::Timestamp,
};

use crate::config::{Config, SpoolConfig};

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
    throttle: Arc<dyn ThrottleStore>,
    breaker_windows: Arc<dyn BreakerWindows>,
}

impl Sharing {
    /// Nobody is there to share anything with.
    fn with_nobody() -> Self {
        let alone = Arc::new(Alone);
        Self { leases: alone.clone(), remote_hints: alone.clone(), changes: alone.clone(), throttle: alone.clone(), breaker_windows: alone }
    }
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
        let settings = PostgresSettings { url: database.expose().clone(), node: node.to_owned(), pool: config.pool.clone() };
        let place = postgres::place(database.expose())?;
        let store = PostgresStore::open(&settings).await.with_context(|| format!("the database {place} cannot be used"))?;
        Ok(Self::Shared(Arc::new(store)))
    }

    /// Opens the spool, if this node has one.
    ///
    /// # Errors
    /// Says what is in the way.
    pub fn open_spool(config: &Config) -> anyhow::Result<Option<Arc<SqliteSpool>>> {
        let Some(SpoolConfig { folder, bytes_max }) = config.spool.clone() else { return Ok(None) };
        let settings = SpoolSettings { folder, bytes_max, mode: WriterMode::Thread };
        Ok(Some(Arc::new(SqliteSpool::open(settings).map_err(of_spool)?)))
    }

    /// The ports of a shared store that is away: whatever is asked of it fails, and the spool takes what is published.
    ///
    /// # Errors
    /// Says what is wrong with the address.
    pub fn absent_ports(
        config: &Config,
        spool: Arc<dyn Spool>,
        transport: Arc<dyn Transport>,
        vault: Arc<dyn Vault>,
    ) -> anyhow::Result<Ports> {
        let url = config.database.as_ref().map(|url| url.expose().clone()).unwrap_or_default();
        let store = Arc::new(PostgresStore::absent(&PostgresSettings { url, node: String::new(), pool: PoolName::default() })?);
        Ok(ports_of(&store, Sharing::with_nobody(), Some(spool), transport, vault, Arc::new(SystemClock::new())))
    }

    /// The machine's clock, set by the store's where that has one: nodes with clocks that run apart still agree on the time.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be asked.
    pub async fn clock(&self) -> Result<Arc<SystemClock>, StoreError> {
        let clock = Arc::new(SystemClock::new());
        if let Self::Shared(store) = self
            && let Some(offset) = store.clock_offset(&*clock).await?
        {
            clock.correct(offset);
        }
        Ok(clock)
    }

    /// The ports that it is behind, with the others.
    pub fn ports(
        &self,
        spool: Option<Arc<dyn Spool>>,
        transport: Arc<dyn Transport>,
        vault: Arc<dyn Vault>,
        clock: Arc<SystemClock>,
    ) -> Ports {
        match self {
            Self::Embedded(store) => ports_of(store, Sharing::with_nobody(), spool, transport, vault, clock),
            Self::Shared(store) => {
                let sharing = Sharing {
                    leases: store.clone(),
                    remote_hints: Arc::new(store.hints()),
                    changes: store.clone(),
                    throttle: store.clone(),
                    // Only a Redis keeps those.
                    breaker_windows: Arc::new(Alone),
                };
                ports_of(store, sharing, spool, transport, vault, clock)
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

    /// The worker pools that organizations belong to and that no node sends for. The embedded store has one pool, and one node.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be asked.
    pub async fn pools_without_workers(&self) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Embedded(_) => Ok(Vec::new()),
            Self::Shared(store) => store.pools_without_workers().await,
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

/// The spool's folder is no data folder.
fn of_spool(error: OpenError) -> anyhow::Error {
    match error {
        OpenError::Folder { path, source } => {
            anyhow::Error::new(source).context(format!("the spool folder {} cannot be used", path.display()))
        }
        OpenError::InUse { path } => anyhow::anyhow!("the spool folder {} is in use by another everhook process", path.display()),
        error => anyhow::Error::new(error).context("the spool cannot be used"),
    }
}

fn ports_of<S>(
    store: &Arc<S>,
    sharing: Sharing,
    spool: Option<Arc<dyn Spool>>,
    transport: Arc<dyn Transport>,
    vault: Arc<dyn Vault>,
    clock: Arc<SystemClock>,
) -> Ports
where
    S: EventStore + DeliveryQueue + BreakerStore + Directory + AuditLog + History + Statistics + OperationStore + Retention + 'static,
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
        retention: store.clone(),
        leases: sharing.leases,
        remote_hints: sharing.remote_hints,
        changes: sharing.changes,
        spool,
        throttle: sharing.throttle,
        breaker_windows: sharing.breaker_windows,
        transport,
        vault,
        clock,
        entropy: Arc::new(SystemEntropy::new()),
    }
}
