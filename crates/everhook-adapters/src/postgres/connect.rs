//! Connections: how they are made, and the pools of them.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use everhook_core::time::millis;
use tokio::{sync::Notify, time::timeout};
use tokio_postgres::{Client, Config, Connection as Messages, Error, Socket, tls::MakeTlsConnect};

use super::{
    OpenError,
    fault::{Fault, Outcome},
    tls::{Address, Tls},
};
use crate::read_turns::{Overloaded, ReadLimits, ReadTurn, ReadTurns};

/// How long a new connection may take: past it the server counts as away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a caller waits for a connection that others hold.
const WAIT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may stay silent before its connection counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often a silent connection is asked whether anybody is there.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);
/// Where every statement finds its tables, whatever the role, the database or the address say. A schema of their own, because every role may use
/// `public`, and a role that may use a schema can lock the tables in it.
const SCHEMA_PATH: &str = "-c search_path=everhook";
/// The connections of the line: one for publishing, some for settling, the rest for reads that deliveries wait for.
const LINE_CONNECTIONS: usize = 8;
/// The connections of whoever keeps the lease: it must never wait behind the line.
const LEASE_CONNECTIONS: usize = 2;
/// The connections of whoever counts what nodes share: one for the exchange, one for a person who retries.
const COUNTER_CONNECTIONS: usize = 2;
/// The connections of everything that people ask for.
const HISTORY_CONNECTIONS: usize = 8;
/// Whatever one organization asks for, the next one finds a connection; whatever organizations ask for, one is left for the server.
const HISTORY_LIMITS: ReadLimits =
    ReadLimits { total: HISTORY_CONNECTIONS, organization: HISTORY_CONNECTIONS / 2, organizations: HISTORY_CONNECTIONS - 1 };
/// What holds for statements of the line: one that takes longer is not worth waiting for, and neither is a lock that somebody else keeps. Their
/// callers try again. A node that hangs in the middle of a transaction loses it before others suffer.
const LINE_BOUNDS: &str = "-c statement_timeout=5s -c lock_timeout=2s -c idle_in_transaction_session_timeout=3s";
/// What holds for those of the lease.
const LEASE_BOUNDS: &str = "-c statement_timeout=2s -c lock_timeout=1s -c idle_in_transaction_session_timeout=3s";
/// What holds for those that count: an answer that is late is of no use.
const COUNTER_BOUNDS: &str = "-c statement_timeout=1s -c lock_timeout=500ms -c idle_in_transaction_session_timeout=1s";
/// What holds for those of people: a read may hold its snapshot no longer, because an old snapshot keeps dead rows alive for everybody.
const HISTORY_BOUNDS: &str = "-c statement_timeout=5s -c idle_in_transaction_session_timeout=10s";

/// How long an answer is waited for, on each kind of connection. A little longer than the server itself lets a statement take, so that it is the one
/// that says so, unless it has fallen silent: a host that hangs still acknowledges what is sent to it, and no other bound would ever end that.
const LINE_ANSWER_WITHIN: Duration = Duration::from_secs(6);
const LEASE_ANSWER_WITHIN: Duration = Duration::from_secs(3);
const COUNTER_ANSWER_WITHIN: Duration = Duration::from_secs(2);
const HISTORY_ANSWER_WITHIN: Duration = Duration::from_secs(6);

/// How long whoever waits for a connection to be given back waits before it looks again: one that cannot be made is given back by nobody.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// A connection out of a pool. Its prepared statements stay with it. One on which an answer did not come is closed, never used again.
pub(super) struct Connection {
    /// There until it is dropped.
    object: Option<Object>,
    patience: ResponseTimeouts,
    given_back: Arc<Notify>,
    /// For connections that organizations take turns for.
    turn: Option<ReadTurn>,
}

/// How long answers are waited for on a connection.
pub(super) struct ResponseTimeouts {
    within_millis: AtomicU64,
    has_ended: AtomicBool,
}

impl ResponseTimeouts {
    /// Waits for an answer. Without one nobody knows what the server did.
    pub(super) async fn wait<T>(&self, answer: impl Future<Output = Result<T, Error>> + Send) -> Outcome<T> {
        let within = Duration::from_millis(self.within_millis.load(Ordering::Relaxed));
        match timeout(within, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                self.end();
                Err(Fault::NoConnection(format!("the database did not answer within {} s", within.as_secs())))
            }
        }
    }

    /// From here on answers may take so long, until the connection goes back into its pool.
    pub(super) fn allow(&self, within: Duration) {
        self.within_millis.store(millis(within), Ordering::Relaxed);
    }

    /// Nothing that arrives on this connection can be trusted to be an answer to what is asked next.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

impl Connection {
    fn new(object: Object, within: Duration, given_back: Arc<Notify>) -> Self {
        let patience = ResponseTimeouts { within_millis: AtomicU64::new(0), has_ended: AtomicBool::new(false) };
        patience.allow(within);
        Self { object: Some(object), patience, given_back, turn: None }
    }

    pub(super) fn patience(&self) -> &ResponseTimeouts {
        &self.patience
    }

    /// Both at once, for a transaction, which borrows the one and needs the other.
    pub(super) fn parts(&mut self) -> (&mut Object, &ResponseTimeouts) {
        (self.object.as_mut().expect(IS_THERE), &self.patience)
    }
}

const IS_THERE: &str = "a connection is there until it is dropped";

impl Deref for Connection {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.object.as_ref().expect(IS_THERE)
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Object {
        self.object.as_mut().expect(IS_THERE)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let object = self.object.take();
        if self.patience.has_ended() {
            // Out of the pool, which makes another.
            drop(object.map(Object::take));
        } else {
            drop(object);
        }
        self.given_back.notify_waiters();
        // The connection is back before the next one has its turn.
        drop(self.turn.take());
    }
}

/// What arrives on a connection.
pub(super) type Arriving = Messages<Socket, <Tls as MakeTlsConnect<Socket>>::Stream>;

/// The store's connections.
#[derive(Clone)]
pub(super) struct Pools {
    line: Pool,
    lease: Pool,
    counters: Pool,
    history: Pool,
    history_turns: ReadTurns,
    address: Address,
    /// Told whenever a connection goes back into its pool.
    given_back: Arc<Notify>,
}

impl Pools {
    /// Reads the address. Connects to nothing yet.
    pub(super) fn new(url: &str) -> Result<Self, OpenError> {
        let mut address = Address::parse(url)?;
        let config = &mut address.config;
        config.application_name("everhook").connect_timeout(CONNECT_TIMEOUT);
        // Behind what the address asks for, so that it is what holds.
        config.options(config.get_options().map_or_else(|| SCHEMA_PATH.to_owned(), |given| format!("{given} {SCHEMA_PATH}")));
        config.tcp_user_timeout(SILENCE_MAX).keepalives_idle(KEEPALIVE_EVERY).keepalives_interval(KEEPALIVE_EVERY).keepalives_retries(3);
        Ok(Self {
            line: pool(&address, LINE_CONNECTIONS, LINE_BOUNDS)?,
            lease: pool(&address, LEASE_CONNECTIONS, LEASE_BOUNDS)?,
            counters: pool(&address, COUNTER_CONNECTIONS, COUNTER_BOUNDS)?,
            history: pool(&address, HISTORY_CONNECTIONS, HISTORY_BOUNDS)?,
            history_turns: ReadTurns::new(HISTORY_LIMITS),
            address,
            given_back: Arc::default(),
        })
    }

    /// A connection for what deliveries wait for.
    pub(super) async fn line(&self) -> Outcome<Connection> {
        Ok(Connection::new(self.line.get().await?, LINE_ANSWER_WITHIN, self.given_back.clone()))
    }

    /// A connection for the lease.
    pub(super) async fn lease(&self) -> Outcome<Connection> {
        Ok(Connection::new(self.lease.get().await?, LEASE_ANSWER_WITHIN, self.given_back.clone()))
    }

    /// A connection for counters.
    pub(super) async fn counters(&self) -> Outcome<Connection> {
        Ok(Connection::new(self.counters.get().await?, COUNTER_ANSWER_WITHIN, self.given_back.clone()))
    }

    /// A connection for what people ask for.
    pub(super) async fn history(&self) -> Outcome<Connection> {
        let turn = self.history_turns.take(WAIT_TIMEOUT).await.map_err(|Overloaded(why)| Fault::NoConnection(why.to_owned()))?;
        let mut connection = Connection::new(self.history.get().await?, HISTORY_ANSWER_WITHIN, self.given_back.clone());
        connection.turn = Some(turn);
        Ok(connection)
    }

    /// Lets nobody have a connection any more.
    pub(super) fn close(&self) {
        [&self.line, &self.lease, &self.counters, &self.history].into_iter().for_each(Pool::close);
    }

    /// Waits until a connection is given back, if any is in use, and says whether any was. It may return earlier.
    pub(super) async fn wait_while_busy(&self) -> bool {
        let given_back = self.given_back.notified();
        let is_busy = self.are_busy();
        if is_busy {
            let _ = timeout(LOOK_AGAIN_AFTER, given_back).await;
        }
        is_busy
    }

    fn are_busy(&self) -> bool {
        [&self.line, &self.lease, &self.counters, &self.history].into_iter().any(|pool| pool.status().available < pool.status().size)
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
        .map_err(|error| OpenError::Refused(error.to_string()))
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
