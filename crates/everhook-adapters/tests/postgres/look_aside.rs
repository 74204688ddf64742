//! A look aside in Redis before events are recorded: whatever Redis says, the answer is the store's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everhook_adapters::redis::{LookAside, Redis, RedisSettings};
use everhook_core::{
    ids::EventId,
    model::Event,
    ports::{Erased, Erasure, EventAlias, EventStore, KeyReused, NewEvent, Recorded, StoreError},
};
use redis::aio::MultiplexedConnection;
use uuid::Uuid;

use crate::{
    postgres::{conformance::event_store::keyed, given::Given},
    redis::server::Server,
};

/// Notes are written within milliseconds; the machine may be busy.
const WRITTEN_WITHIN: Duration = Duration::from_secs(10);

/// The store, and how often it was asked to record.
struct Counting {
    store: Arc<dyn EventStore>,
    recorded: AtomicUsize,
}

#[async_trait]
impl EventStore for Counting {
    async fn record(&self, events: Vec<NewEvent>) -> Vec<Result<Recorded, StoreError>> {
        self.recorded.fetch_add(events.len(), Ordering::Relaxed);
        self.store.record(events).await
    }

    async fn originals(&self, events: &[NewEvent]) -> Result<Vec<Option<Recorded>>, StoreError> {
        self.store.originals(events).await
    }

    async fn event(&self, id: EventId) -> Result<Option<Event>, StoreError> {
        self.store.event(id).await
    }

    async fn is_erased(&self, id: EventId) -> Result<bool, StoreError> {
        self.store.is_erased(id).await
    }

    async fn alias(&self, aliases: Vec<EventAlias>) -> Result<(), StoreError> {
        self.store.alias(aliases).await
    }

    async fn erase(&self, erasure: Erasure) -> Result<Erased, StoreError> {
        self.store.erase(erasure).await
    }
}

/// A store that looks aside.
struct Aside {
    given: Given,
    counting: Arc<Counting>,
    look_aside: LookAside,
    // Its connection is the look aside's.
    _redis: Redis,
}

impl Aside {
    async fn new(server: &Server, installation: Uuid) -> Self {
        let given = Given::new().await;
        let redis = Redis::start(&RedisSettings { url: server.url(), authorities: None, installation }).await.unwrap();
        let counting = Arc::new(Counting { store: Arc::new(given.backing.node().await), recorded: AtomicUsize::new(0) });
        let look_aside = redis.look_aside(counting.clone());
        Self { given, counting, look_aside, _redis: redis }
    }

    async fn event(&self, key: &str) -> NewEvent {
        keyed(self.given.event(&[self.given.endpoint]).await, key)
    }

    async fn record(&self, events: Vec<NewEvent>) -> Vec<Recorded> {
        self.look_aside.record(events).await.into_iter().map(Result::unwrap).collect()
    }

    fn recorded(&self) -> usize {
        self.counting.recorded.load(Ordering::Relaxed)
    }
}

async fn client(server: &Server) -> MultiplexedConnection {
    redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
}

/// Waits until Redis knows so many keys.
async fn wait_for_keys(client: &mut MultiplexedConnection, count: usize) -> Vec<String> {
    let deadline = std::time::Instant::now() + WRITTEN_WITHIN;
    loop {
        let keys: Vec<String> = redis::cmd("KEYS").arg("*:seen:*").query_async(client).await.unwrap();
        if keys.len() >= count {
            return keys;
        }
        assert!(std::time::Instant::now() < deadline, "{} of {count} keys", keys.len());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_key_that_was_seen_is_answered_by_one_read_as_recording_would_answer_it() {
    let Some(server) = Server::start() else { return };
    let aside = Aside::new(&server, Uuid::now_v7()).await;
    let first = aside.event("a").await;
    let Recorded::Accepted { sequence_number, .. } = aside.record(vec![first.clone()]).await[0] else { panic!() };
    wait_for_keys(&mut client(&server).await, 1).await;
    let answers = aside.record(vec![aside.event("b").await, aside.event("a").await, aside.event("b").await]).await;
    assert!(matches!(answers[0], Recorded::Accepted { .. }));
    assert_eq!(answers[1], Recorded::Duplicate { event: first.event.id, deliveries: 1, sequence_number });
    assert!(matches!(answers[2], Recorded::Duplicate { .. }), "its twin is in the same batch");
    assert_eq!(aside.recorded(), 1 + 2, "the one that was seen was not recorded again");
    // Redis says only that the key was perhaps seen: whether it is the same event, the store knows.
    let mut other = aside.event("a").await;
    other.event.data = b"\"other\"".as_slice().into();
    let reused = Recorded::KeyReused(KeyReused { original: first.event.id, is_erased: false });
    assert_eq!(aside.record(vec![other]).await, [reused]);
}

#[tokio::test]
async fn whatever_redis_forgets_or_invents_changes_no_answer() {
    let Some(mut server) = Server::start() else { return };
    let (aside, mut connection) = (Aside::new(&server, Uuid::now_v7()).await, client(&server).await);
    // Given a key that Redis says was seen, and that the store does not know,
    aside.record(vec![aside.event("forgotten").await]).await;
    wait_for_keys(&mut connection, 1).await;
    aside.given.tamper("DELETE FROM idempotency_keys").await;
    assert!(matches!(aside.record(vec![aside.event("forgotten").await]).await[0], Recorded::Accepted { .. }));
    // and keys that it has seen, about which Redis holds nonsense,
    aside.record(vec![aside.event("seen").await]).await;
    for key in wait_for_keys(&mut connection, 2).await {
        let _: () = redis::cmd("SET").arg(key).arg(&[0xff_u8, 0xfe][..]).query_async(&mut connection).await.unwrap();
    }
    assert!(matches!(aside.record(vec![aside.event("seen").await]).await[0], Recorded::Duplicate { .. }));
    assert!(matches!(aside.record(vec![aside.event("new").await]).await[0], Recorded::Accepted { .. }));
    // or nothing any more,
    let _: () = redis::cmd("FLUSHALL").query_async(&mut connection).await.unwrap();
    assert!(matches!(aside.record(vec![aside.event("seen").await]).await[0], Recorded::Duplicate { .. }));
    // or which nobody can ask.
    server.kill();
    assert!(matches!(aside.record(vec![aside.event("seen").await]).await[0], Recorded::Duplicate { .. }));
    assert!(matches!(aside.record(vec![aside.event("newer").await]).await[0], Recorded::Accepted { .. }));
}

#[tokio::test]
async fn a_store_says_which_events_have_a_key_that_was_given_before() {
    let given = Given::new().await;
    let node = given.backing.node().await;
    let first = keyed(given.event(&[given.endpoint]).await, "a");
    let sequence_number = given.record(first.clone()).await;
    let again = [keyed(given.event(&[]).await, "b"), given.event(&[]).await, keyed(given.event(&[]).await, "a")];
    let original = Recorded::Duplicate { event: first.event.id, deliveries: 1, sequence_number };
    assert_eq!(node.originals(&again).await.unwrap(), [None, None, Some(original)]);
}
