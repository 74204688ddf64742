//! Keeps a wire to the broker: opens one, sends and hears over it until it is lost, and opens the next.
//!
//! One task for each node, started by [`super::RabbitHints`]. While there is no wire, every hint goes the other way at once. What is given to a wire
//! that is then lost goes the other way too, so that it may come twice, which harms nobody.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use everhook_core::{
    model::{PoolName, Priority, ShardSet},
    ports::{RemoteHints, WaitingQueue},
};
use futures_util::{StreamExt as _, stream};
use lapin::{message::Delivery, options::BasicAckOptions};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        address::BrokerAddress,
        failure,
        reconnect::{FAILURES_TOLD, FailedReconnects, OPEN_TIMEOUT, RECONNECT_MAX, doubled},
    },
    HINTS_MAX,
    inbox::Inbox,
    names::{self, Names},
    wire::{BrokerReply, Consumers, Hint, Wire, batches},
};
use crate::http::Connector;

/// How many messages may wait for the broker's word at a time: each has a channel.
const MESSAGES_AT_ONCE: usize = 32;

/// A wire that was good for this long begins to count failures anew. One that is lost as soon as something is said over it does not.
const STEADY_AFTER: Duration = Duration::from_secs(60);

/// How often it is said that messages which are not hints were dropped.
const INVALID_MESSAGES_LOGGED_EVERY: Duration = Duration::from_secs(60);

/// The connection that hints go over, and what it needs.
pub(super) struct HintConnection {
    pub(super) broker: BrokerAddress,
    pub(super) connector: Connector,
    pub(super) names: Names,
    pub(super) reconnect_after: Duration,
    pub(super) queues_kept_for: Duration,
    /// The other way.
    pub(super) inner: Arc<dyn RemoteHints>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) is_away: Arc<AtomicBool>,
    pub(super) failed_reconnects: FailedReconnects,
    pub(super) stopping: CancellationToken,
}

/// What changes while it runs.
pub(super) struct State {
    pub(super) outgoing: mpsc::Receiver<Hint>,
    pub(super) held: watch::Receiver<ShardSet>,
    /// What the queues may be bound for.
    pub(super) bound: ShardSet,
    /// What was given to the wire and not yet answered.
    pub(super) under_way: Vec<Hint>,
}

/// Why a wire is no longer used.
enum Ended {
    Stopped,
    Lost(String),
}

impl HintConnection {
    pub(super) async fn run(self, mut state: State) {
        let mut failures = 0;
        loop {
            let held = *state.held.borrow();
            // If opening fails halfway, some of it is bound.
            state.bound = state.bound.with(held);
            let opened = tokio::select! {
                () = self.stopping.cancelled() => return,
                opened = tokio::time::timeout(OPEN_TIMEOUT, self.open(state.bound, held)) => opened,
                () = self.divert(&mut state.outgoing) => return,
            };
            let error = match opened.unwrap_or_else(|_| Err("the broker did not answer in time".to_owned())) {
                Ok((wire, consumers)) => {
                    self.note_back();
                    let opened_at = Instant::now();
                    state.bound = held;
                    let ended = self.use_up(&wire, consumers, &mut state).await;
                    self.pass_on(std::mem::take(&mut state.under_way));
                    if opened_at.elapsed() >= STEADY_AFTER {
                        failures = 0;
                    }
                    match ended {
                        Ended::Stopped => return wire.close(&self.names).await,
                        Ended::Lost(error) => error,
                    }
                }
                Err(error) => {
                    self.failed_reconnects.failed();
                    error
                }
            };
            failures += 1;
            self.note_failure(failures, &error);
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = tokio::time::sleep(doubled(self.reconnect_after, failures - 1, RECONNECT_MAX)) => {}
                () = self.divert(&mut state.outgoing) => return,
            }
        }
    }

    async fn open(&self, bound: ShardSet, held: ShardSet) -> Result<(Wire, Consumers), String> {
        let link = self.broker.open(&self.connector).await?;
        let wire = Wire::open(link, &self.names, self.queues_kept_for).await?;
        let begun = async {
            wire.unbind(&self.names, bound.without(held)).await?;
            wire.bind(&self.names, held).await?;
            wire.consume(&self.names).await
        };
        let consumers = begun.await.map_err(|error| failure::of(&error).error)?;
        Ok((wire, consumers))
    }

    /// Sends, hears and binds over a wire until any of it fails.
    async fn use_up(&self, wire: &Wire, consumers: Consumers, state: &mut State) -> Ended {
        let State { outgoing, held, bound, under_way } = state;
        let failed = tokio::select! {
            () = self.stopping.cancelled() => return Ended::Stopped,
            failed = self.send(wire, outgoing, under_way) => failed,
            failed = self.hear(consumers) => failed,
            failed = self.follow(wire, held, bound) => failed,
            () = wire.lost() => "the connection to the broker was lost".to_owned(),
        };
        Ended::Lost(failed)
    }

    /// Sends what there is, waits for the broker's word about all of it, and sends what has gathered meanwhile.
    async fn send(&self, wire: &Wire, outgoing: &mut mpsc::Receiver<Hint>, under_way: &mut Vec<Hint>) -> String {
        while outgoing.recv_many(under_way, HINTS_MAX).await > 0 {
            let (batches, mut untold) = (batches(&self.names, under_way), Vec::new());
            let tell = async |batch| (wire.tell(&batch).await, batch);
            let mut answers = stream::iter(batches.into_iter().map(tell)).buffer_unordered(MESSAGES_AT_ONCE);
            while let Some((told, batch)) = answers.next().await {
                match told {
                    BrokerReply::Yes => {}
                    BrokerReply::Nobody => untold.extend(batch.queues.into_iter().map(|queue| (batch.pool.clone(), queue))),
                    // Everything that is under way goes the other way.
                    BrokerReply::Failed(error) => return error,
                }
            }
            drop(answers);
            under_way.clear();
            self.pass_on(untold);
        }
        "this node has stopped sending hints".to_owned()
    }

    /// Takes what other nodes sent, the most urgent first.
    async fn hear(&self, [mut high, mut normal, mut low]: Consumers) -> String {
        let mut invalid_messages = InvalidMessages::default();
        loop {
            let (delivery, priority) = tokio::select! {
                biased;
                delivery = high.next() => (delivery, Priority::High),
                delivery = normal.next() => (delivery, Priority::Normal),
                delivery = low.next() => (delivery, Priority::Low),
            };
            let taken = match delivery {
                Some(Ok(delivery)) => self.take(delivery, priority, &mut invalid_messages).await,
                Some(Err(error)) => Err(error),
                None => return "the broker canceled a consumer: its queue was deleted or moved".to_owned(),
            };
            if let Err(error) = taken {
                return failure::of(&error).error;
            }
        }
    }

    async fn take(&self, delivery: Delivery, priority: Priority, invalid_messages: &mut InvalidMessages) -> lapin::Result<()> {
        match names::read(&delivery.properties, &delivery.data, priority) {
            Some(queues) => self.inbox.put(queues),
            None => invalid_messages.note(Instant::now()),
        }
        delivery.acker.ack(BasicAckOptions::default()).await.map(drop)
    }

    /// Binds what was gained, and unbinds what was left.
    async fn follow(&self, wire: &Wire, held: &mut watch::Receiver<ShardSet>, bound: &mut ShardSet) -> String {
        loop {
            let now_held = *held.borrow_and_update();
            let (gained, left) = (now_held.without(*bound), bound.without(now_held));
            // Before it is done: what is bound in vain is unbound when the next wire is opened.
            *bound = bound.with(gained);
            let changed = async {
                wire.bind(&self.names, gained).await?;
                wire.unbind(&self.names, left).await
            };
            if let Err(error) = changed.await {
                return failure::of(&error).error;
            }
            *bound = now_held;
            if held.changed().await.is_err() {
                return "this node has stopped holding shards".to_owned();
            }
        }
    }

    /// Lets every hint go the other way. Returns when nobody is left who could have one.
    async fn divert(&self, outgoing: &mut mpsc::Receiver<Hint>) {
        let mut hints = Vec::new();
        while outgoing.recv_many(&mut hints, HINTS_MAX).await > 0 {
            self.pass_on(std::mem::take(&mut hints));
        }
    }

    fn pass_on(&self, hints: Vec<Hint>) {
        let mut by_pool = BTreeMap::<PoolName, Vec<WaitingQueue>>::new();
        for (pool, queue) in hints {
            by_pool.entry(pool).or_default().push(queue);
        }
        for (pool, queues) in by_pool {
            self.inner.waiting(&pool, queues);
        }
    }

    fn note_back(&self) {
        self.failed_reconnects.connected();
        self.is_away.store(false, Ordering::Relaxed);
        tracing::info!("connected to RabbitMQ for hints between nodes");
    }

    /// Says that it went, and once that it stays away.
    fn note_failure(&self, failures: u32, error: &str) {
        let was_away = self.is_away.swap(true, Ordering::Relaxed);
        if failures == FAILURES_TOLD {
            tracing::error!(failures, "RabbitMQ is still unavailable; hints between nodes use PostgreSQL: {error}");
        } else if failures == 1 || !was_away {
            tracing::warn!(failures, "RabbitMQ is unavailable; hints between nodes use PostgreSQL: {error}");
        } else {
            tracing::debug!(failures, "RabbitMQ is still unavailable: {error}");
        }
    }
}

/// Messages that are not hints, in queues that are only for hints.
#[derive(Default)]
struct InvalidMessages {
    untold: u64,
    told_at: Option<Instant>,
}

impl InvalidMessages {
    /// One more. It is said at once if that was not said lately, and with the next one otherwise.
    fn note(&mut self, now: Instant) {
        self.untold += 1;
        if self.told_at.is_none_or(|at| now.duration_since(at) >= INVALID_MESSAGES_LOGGED_EVERY) {
            let messages = std::mem::take(&mut self.untold);
            tracing::warn!(messages, "dropped messages on the exchange for hints that are not hints");
            self.told_at = Some(now);
        }
    }
}
