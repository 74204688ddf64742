//! The store behind the ports: the embedded one, or the one that several nodes share. Opened by `wiring`, which alone asks which of them it is.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use everhook_adapters::{
    postgres::{self, PostgresSettings, PostgresStore},
    sealed_endpoints::SealedEndpoints,
    spool::{SpoolSettings, SqliteSpool, Takeover},
    sqlite::{OpenError, SqliteSettings, SqliteStore, WriterMode},
    system::{SystemClock, SystemEntropy},
};
use everhook_core::{
    model::PoolName,
    ports::{
        BreakerVotes, BreakerWindows, Changes, Clock as _, Leases, Offset, Ports, RemoteHints, SingleNode, Spool, StoreError, StorePorts,
        ThrottleStore, Transport, Vault,
    },
    time::Timestamp,
};
use uuid::Uuid;

use crate::config::{Config, SpoolConfig};

/// How far a clock that is believed at once may be from another: past it, a node holds nothing.
const CLOCKS_AGREE_WITHIN: Duration = Duration::from_secs(5);

/// How long after a store's clock was found far ahead it is asked again, and how often. A start takes that much longer at the most.
const CLOCK_ASKED_AGAIN_AFTER: Duration = Duration::from_secs(1);
const CLOCK_ASKED_AGAIN_MAX: u32 = 5;

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
    breaker_votes: Arc<dyn BreakerVotes>,
}

impl Sharing {
    /// Nobody is there to share anything with.
    fn with_nobody() -> Self {
        let alone = Arc::new(SingleNode);
        Self {
            leases: alone.clone(),
            remote_hints: alone.clone(),
            changes: alone.clone(),
            throttle: alone.clone(),
            breaker_windows: alone.clone(),
            breaker_votes: alone,
        }
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
        let open = async {
            let store = PostgresStore::open(&settings).await?;
            store.announce().await?;
            Ok::<_, postgres::OpenError>(store)
        };
        let store = open.await.with_context(|| format!("cannot use the database {place}"))?;
        Ok(Self::Shared(Arc::new(store)))
    }

    /// Makes sure that a spool holds what is for this store, before any of it is forwarded.
    ///
    /// # Errors
    /// Says whose it is, and what to do.
    pub async fn bind(&self, spool: &SqliteSpool, takeover: Takeover) -> anyhow::Result<()> {
        if let Self::Shared(store) = self {
            let installation = store.installation().await.context("cannot read the installation id of the database")?;
            spool.bind(installation, takeover).await.context("cannot use the spool")?;
        }
        Ok(())
    }

    /// Fails if somebody began to move a data folder in here while this node took its first steps. Asked before anything is accepted.
    ///
    /// # Errors
    /// Says what to do.
    pub async fn refuse_half_moved(&self) -> anyhow::Result<()> {
        match self {
            Self::Embedded(_) => Ok(()),
            Self::Shared(store) => Ok(store.refuse_half_moved().await?),
        }
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
        spool: Arc<SqliteSpool>,
        transport: Arc<dyn Transport>,
        vault: Arc<dyn Vault>,
    ) -> anyhow::Result<Ports> {
        spool.seal_with(vault.clone());
        let url = config.database.as_ref().map(|url| url.expose().clone()).unwrap_or_default();
        let store = Arc::new(PostgresStore::absent(&PostgresSettings { url, node: String::new(), pool: PoolName::default() })?);
        Ok(ports_of(&store, Sharing::with_nobody(), Some(spool), transport, vault, Arc::new(SystemClock::new())))
    }

    /// The machine's clock, set by the store's where that has one: nodes with clocks that run apart still agree on the time.
    ///
    /// If the store's is far ahead, it is asked again a second later until two answers agree: time that was told cannot be taken back.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be asked.
    pub async fn clock(&self) -> Result<Arc<SystemClock>, StoreError> {
        let clock = Arc::new(SystemClock::new());
        let Self::Shared(store) = self else { return Ok(clock) };
        let mut found = store.clock_offset(&*clock).await?;
        for _ in 0..CLOCK_ASKED_AGAIN_MAX {
            let is_far_ahead = |offset: &Offset| offset.micros > 0 && offset.apart_from(Offset::NONE) > CLOCKS_AGREE_WITHIN;
            let Some(before) = found.filter(is_far_ahead) else { break };
            clock.sleep_for(CLOCK_ASKED_AGAIN_AFTER).await;
            found = store.clock_offset(&*clock).await?;
            if found.is_some_and(|offset| offset.apart_from(before) <= CLOCKS_AGREE_WITHIN) {
                break;
            }
        }
        found.into_iter().for_each(|offset| clock.correct(offset));
        Ok(clock)
    }

    /// The ports that it is behind, with the others. It and the spool seal with this vault from now on.
    pub fn ports(
        &self,
        spool: Option<Arc<SqliteSpool>>,
        transport: Arc<dyn Transport>,
        vault: Arc<dyn Vault>,
        clock: Arc<SystemClock>,
    ) -> Ports {
        if let Some(spool) = &spool {
            spool.seal_with(vault.clone());
        }
        let spool = spool.map(|spool| spool as Arc<dyn Spool>);
        match self {
            Self::Embedded(store) => store.seal_with(vault.clone()),
            Self::Shared(store) => store.seal_with(vault.clone()),
        }
        match self {
            Self::Embedded(store) => ports_of(store, Sharing::with_nobody(), spool, transport, vault, clock),
            Self::Shared(store) => {
                let sharing = Sharing {
                    leases: store.clone(),
                    remote_hints: Arc::new(store.hints()),
                    changes: store.clone(),
                    throttle: store.clone(),
                    // Only a Redis keeps those.
                    breaker_windows: Arc::new(SingleNode),
                    breaker_votes: store.clone(),
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

    /// Which installation this is, if there may be others beside it: an embedded store is alone.
    ///
    /// # Errors
    /// Says so if the database cannot be asked.
    pub async fn installation(&self) -> anyhow::Result<Option<Uuid>> {
        match self {
            Self::Embedded(_) => Ok(None),
            Self::Shared(store) => store.installation().await.context("cannot read the installation id of the database").map(Some),
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
        OpenError::Folder { path, source } => anyhow::Error::new(source).context(format!("cannot use the spool folder {}", path.display())),
        OpenError::InUse { path } => anyhow::anyhow!("the spool folder {} is in use by another everhook process", path.display()),
        error => anyhow::Error::new(error).context("cannot use the spool"),
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
    S: StorePorts + 'static,
{
    let endpoints = Arc::new(SealedEndpoints::new(store.clone(), store.clone(), vault.clone()));
    Ports {
        events: store.clone(),
        deliveries: store.clone(),
        delivery_control: store.clone(),
        parked: store.clone(),
        outbox: store.clone(),
        breakers: store.clone(),
        organizations: store.clone(),
        applications: store.clone(),
        endpoints: endpoints.clone(),
        configuration: endpoints,
        retry_schedules: store.clone(),
        event_types: store.clone(),
        api_keys: store.clone(),
        channels: store.clone(),
        sources: store.clone(),
        health_connections: store.clone(),
        health_metrics: store.clone(),
        manifests: store.clone(),
        app_health: store.clone(),
        call_records: store.clone(),
        jobs: store.clone(),
        approvals: store.clone(),
        audit_log: store.clone(),
        history: store.clone(),
        statistics: store.clone(),
        store_measurements: store.clone(),
        endpoint_health: store.clone(),
        alert_rules: store.clone(),
        alerts: store.clone(),
        alert_signals: store.clone(),
        operations: store.clone(),
        operation_candidates: store.clone(),
        backfills: store.clone(),
        bulk_erasure: store.clone(),
        auto_replays: store.clone(),
        retention: store.clone(),
        archive: None,
        sealing: store.clone(),
        leases: sharing.leases,
        remote_hints: sharing.remote_hints,
        changes: sharing.changes,
        spool,
        throttle: sharing.throttle,
        breaker_windows: sharing.breaker_windows,
        breaker_votes: sharing.breaker_votes,
        transport,
        notifier: None,
        spans: None,
        vault,
        clock,
        entropy: Arc::new(SystemEntropy::new()),
    }
}
