//! Connections: how they are made, and the two pools of them.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio_postgres::{Client, Config, Connection as Messages, Error, Socket, tls::MakeTlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    OpenError,
    fault::{Fault, Outcome},
    tls::Address,
};

/// How long a new connection may take: past it the server counts as away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a caller waits for a connection that others hold.
const WAIT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may stay silent before its connection counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often a silent connection is asked whether anybody is there.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);
/// The connections of the line: two for publishing, some for settling, the rest for reads that deliveries wait for.
const LINE_CONNECTIONS: usize = 8;
/// The connections of whoever keeps the lease: it must never wait behind the line.
const LEASE_CONNECTIONS: usize = 2;
/// The connections of everything that people ask for.
const HISTORY_CONNECTIONS: usize = 8;
/// What holds for statements of the line: one that takes longer is not worth waiting for, and neither is a lock that somebody else keeps. Their
/// callers try again. A node that hangs in the middle of a transaction loses it before others suffer.
const LINE_BOUNDS: &str = "-c statement_timeout=10s -c lock_timeout=2s -c idle_in_transaction_session_timeout=3s";
/// What holds for those of the lease.
const LEASE_BOUNDS: &str = "-c statement_timeout=2s -c lock_timeout=1s -c idle_in_transaction_session_timeout=3s";
/// What holds for those of people: a read may hold its snapshot no longer, because an old snapshot keeps dead rows alive for everybody.
const HISTORY_BOUNDS: &str = "-c statement_timeout=5s -c idle_in_transaction_session_timeout=10s";

/// A connection out of a pool. Its prepared statements stay with it.
pub(super) type Connection = Object;

/// What arrives on a connection.
pub(super) type Arriving = Messages<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// The store's connections.
#[derive(Clone)]
pub(super) struct Pools {
    line: Pool,
    lease: Pool,
    history: Pool,
    address: Address,
}

impl Pools {
    /// Reads the address. Connects to nothing yet.
    pub(super) fn new(url: &str) -> Result<Self, OpenError> {
        let mut address = Address::parse(url)?;
        let config = &mut address.config;
        config.application_name("everhook").connect_timeout(CONNECT_TIMEOUT);
        config.tcp_user_timeout(SILENCE_MAX).keepalives_idle(KEEPALIVE_EVERY).keepalives_interval(KEEPALIVE_EVERY).keepalives_retries(3);
        Ok(Self {
            line: pool(&address, LINE_CONNECTIONS, LINE_BOUNDS)?,
            lease: pool(&address, LEASE_CONNECTIONS, LEASE_BOUNDS)?,
            history: pool(&address, HISTORY_CONNECTIONS, HISTORY_BOUNDS)?,
            address,
        })
    }

    /// A connection for what deliveries wait for.
    pub(super) async fn line(&self) -> Outcome<Connection> {
        self.line.get().await.map_err(Fault::from)
    }

    /// A connection for the lease.
    pub(super) async fn lease(&self) -> Outcome<Connection> {
        self.lease.get().await.map_err(Fault::from)
    }

    /// A connection for what people ask for.
    pub(super) async fn history(&self) -> Outcome<Connection> {
        self.history.get().await.map_err(Fault::from)
    }

    /// Whether any connection is in use.
    pub(super) fn are_busy(&self) -> bool {
        [&self.line, &self.lease, &self.history].into_iter().any(|pool| pool.status().available < pool.status().size)
    }

    /// A connection that belongs to no pool, with what arrives on it unasked.
    pub(super) async fn connect_alone(&self) -> Result<(Client, Arriving), Error> {
        self.address.config.connect(self.address.tls.clone()).await
    }
}

fn pool(address: &Address, connections: usize, bounds: &str) -> Result<Pool, OpenError> {
    let mut config: Config = address.config.clone();
    let options = options(config.get_options(), bounds);
    config.options(options);
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config, address.tls.clone(), recycling);
    Pool::builder(manager)
        .max_size(connections)
        .runtime(Runtime::Tokio1)
        .create_timeout(Some(CONNECT_TIMEOUT))
        .wait_timeout(Some(WAIT_TIMEOUT))
        .build()
        .map_err(|error| OpenError::Database(error.into()))
}

/// What a session is set to, behind what the address asks for. Plans are made once: every statement of ours finds its rows by an index, whatever
/// the values are. A plan that reads a table or the half of one to sort it can look cheaper than the index that has the order, because how many
/// rows a page takes is not known then: such plans are switched off.
fn options(given: Option<&str>, bounds: &str) -> String {
    let ours = format!(
        "{bounds} -c synchronous_commit=on -c plan_cache_mode=force_generic_plan -c jit=off -c enable_seqscan=off -c enable_bitmapscan=off"
    );
    given.map_or_else(|| ours.clone(), |given| format!("{ours} {given}"))
}
