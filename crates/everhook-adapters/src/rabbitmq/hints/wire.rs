//! One link to the broker with everything on it that hints need: this node's queues, what leads to them, and what publishes to others'.
//!
//! `keeping` opens one after another. A wire on which anything fails is given up, never repaired: hints find another way meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use everhook_core::{
    model::{PoolName, Priority, Shard, ShardSet},
    ports::WaitingQueue,
};
use futures_util::future::try_join_all;
use lapin::{
    Channel, Confirmation, Consumer, ExchangeKind,
    options::{BasicConsumeOptions, BasicQosOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable, ShortString},
};

use super::{
    super::{failure, link::Link, message::Outgoing, publisher::Publisher},
    names::{self, Names, QUEUES_A_MESSAGE},
};

/// How long a hint is of use: the owner of a lane looks for itself once a second.
const HINT_KEPT_FOR: Duration = Duration::from_secs(2);

/// How many messages of hints a queue holds; the oldest go first.
const QUEUE_MESSAGES_MAX: u32 = 1_000;

/// How many messages of each queue may be on their way to us.
const PREFETCH: u16 = 64;

/// How long the broker may take to confirm a message. A hint that takes longer is of no use, and neither is such a broker.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);

/// An open wire.
pub(super) struct Wire {
    publisher: Publisher,
    /// Declares, binds and consumes.
    channel: Channel,
    /// The exchanges that are known to be there.
    exchanges: Mutex<BTreeSet<ShortString>>,
}

/// This node's queues as they are consumed, the most urgent first.
pub(super) type Consumers = [Consumer; Priority::ALL.len()];

/// A hint on its way out: a queue, and the pool whose nodes send for its lane.
pub(super) type Hint = (PoolName, WaitingQueue);

/// Hints that go out as one message.
pub(super) struct Batch {
    pub(super) pool: PoolName,
    exchange: ShortString,
    routing_key: ShortString,
    pub(super) queues: Vec<WaitingQueue>,
}

/// What the broker said to a message.
pub(super) enum BrokerReply {
    /// It is in the queue of the node that holds the shard.
    Yes,
    /// No queue is bound for it, or that one does not take it.
    Nobody,
    /// It did not say anything in time, or is gone.
    Failed(String),
}

impl Wire {
    /// Declares this node's queues. If they are there from before, so is what they are bound for.
    pub(super) async fn open(link: Link, names: &Names, queues_kept_for: Duration) -> Result<Self, String> {
        let in_words = |error: lapin::Error| failure::of(&error).error;
        let channel = link.channel().await.map_err(in_words)?;
        let wire = Self { publisher: Publisher::new(link), channel, exchanges: Mutex::default() };
        wire.declare_exchange(names.exchange()).await.map_err(in_words)?;
        for priority in Priority::ALL {
            wire.declare_queue(names.queue(priority), queues_kept_for).await.map_err(in_words)?;
        }
        Ok(wire)
    }

    /// Returns once the connection has ended.
    pub(super) async fn lost(&self) {
        self.publisher.link().lost().await;
    }

    /// Binds this node's queues for these shards.
    pub(super) async fn bind(&self, names: &Names, shards: ShardSet) -> lapin::Result<()> {
        let one = |(shard, priority): (Shard, Priority)| {
            let (queue, key) = (names.queue(priority), names::routing_key(shard, priority));
            self.channel.queue_bind(queue, names.exchange(), key, QueueBindOptions::default(), FieldTable::default())
        };
        self.publisher.link().unless_lost(try_join_all(each(shards).map(one))).await.map(drop)
    }

    /// Unbinds them. One that is not bound is no fault.
    pub(super) async fn unbind(&self, names: &Names, shards: ShardSet) -> lapin::Result<()> {
        let one = |(shard, priority): (Shard, Priority)| {
            let (queue, key) = (names.queue(priority), names::routing_key(shard, priority));
            self.channel.queue_unbind(queue, names.exchange(), key, FieldTable::default())
        };
        self.publisher.link().unless_lost(try_join_all(each(shards).map(one))).await.map(drop)
    }

    /// Begins to consume this node's queues.
    pub(super) async fn consume(&self, names: &Names) -> lapin::Result<Consumers> {
        let link = self.publisher.link();
        link.unless_lost(self.channel.basic_qos(PREFETCH, BasicQosOptions::default())).await?;
        let one = async |priority| {
            let (queue, options) = (names.queue(priority), BasicConsumeOptions::default());
            link.unless_lost(self.channel.basic_consume(queue, ShortString::default(), options, FieldTable::default())).await
        };
        Ok([one(Priority::High).await?, one(Priority::Normal).await?, one(Priority::Low).await?])
    }

    /// Publishes a batch and waits for the broker's word about it.
    pub(super) async fn tell(&self, batch: &Batch) -> BrokerReply {
        let telling = async {
            self.declare_exchange(batch.exchange.clone()).await?;
            let (exchange, routing_key) = (batch.exchange.clone(), batch.routing_key.clone());
            let outgoing = Outgoing { exchange, routing_key, properties: names::properties() };
            self.publisher.publish(&outgoing, &Bytes::from(names::spell(&batch.queues))).await
        };
        match tokio::time::timeout(CONFIRM_TIMEOUT, telling).await {
            Ok(Ok(Confirmation::Ack(None))) => BrokerReply::Yes,
            Ok(Ok(Confirmation::Ack(Some(_)) | Confirmation::Nack(_))) => BrokerReply::Nobody,
            Ok(Ok(Confirmation::NotRequested)) => BrokerReply::Failed(failure::unconfirmed().error),
            Ok(Err(error)) => BrokerReply::Failed(failure::of(&error).error),
            Err(_) => BrokerReply::Failed(format!("the broker did not confirm within {} ms", CONFIRM_TIMEOUT.as_millis())),
        }
    }

    /// Removes this node's queues, so that hints for it are returned at once, and says farewell.
    pub(super) async fn close(&self, names: &Names) {
        let delete = |priority| self.channel.queue_delete(names.queue(priority), QueueDeleteOptions::default());
        // They expire by themselves if that fails.
        let _ = self.publisher.link().unless_lost(try_join_all(Priority::ALL.map(delete))).await;
        self.publisher.close().await;
    }

    async fn declare_exchange(&self, name: ShortString) -> lapin::Result<()> {
        if self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).contains(&name) {
            return Ok(());
        }
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declaring = self.channel.exchange_declare(name.clone(), ExchangeKind::Direct, options, FieldTable::default());
        self.publisher.link().unless_lost(declaring).await?;
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
        Ok(())
    }

    async fn declare_queue(&self, name: ShortString, kept_for: Duration) -> lapin::Result<()> {
        let millis = |length: Duration| AMQPValue::LongInt(i32::try_from(length.as_millis()).unwrap_or(i32::MAX));
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        arguments.insert("x-expires".into(), millis(kept_for));
        arguments.insert("x-message-ttl".into(), millis(HINT_KEPT_FOR));
        arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(QUEUE_MESSAGES_MAX.into()));
        arguments.insert("x-overflow".into(), AMQPValue::LongString("drop-head".into()));
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.publisher.link().unless_lost(self.channel.queue_declare(name, options, arguments)).await.map(drop)
    }
}

/// Hints as messages: one for each pool, priority and shard, the most urgent first.
pub(super) fn batches(names: &Names, hints: &[Hint]) -> Vec<Batch> {
    let mut routes = BTreeMap::<_, Vec<WaitingQueue>>::new();
    for (pool, queue) in hints {
        routes.entry((queue.priority, pool, Shard::of(queue.lane_id))).or_default().push(*queue);
    }
    let mut batches = Vec::new();
    for ((priority, pool, shard), mut queues) in routes {
        WaitingQueue::merge(&mut queues);
        let (exchange, routing_key) = (names.exchange_of(pool), names::routing_key(shard, priority));
        let batch = |queues: &[WaitingQueue]| Batch {
            pool: pool.clone(),
            exchange: exchange.clone(),
            routing_key: routing_key.clone(),
            queues: queues.to_vec(),
        };
        batches.extend(queues.chunks(QUEUES_A_MESSAGE).map(batch));
    }
    batches
}

fn each(shards: ShardSet) -> impl Iterator<Item = (Shard, Priority)> {
    shards.iter().flat_map(|shard| Priority::ALL.map(|priority| (shard, priority)))
}

#[cfg(test)]
mod tests {
    use everhook_core::{
        ids::{ApplicationId, LaneId},
        time::Timestamp,
    };
    use uuid::Uuid;

    use super::*;

    #[test]
    fn hints_of_one_pool_shard_and_priority_are_one_message_and_the_most_urgent_goes_first() {
        let (plain, heavy) = (PoolName::default(), PoolName::parse("heavy").unwrap());
        let names = Names::new("store", plain.clone(), Uuid::nil()).unwrap();
        let queue = |number: u128, priority| WaitingQueue {
            lane_id: LaneId::from_uuid(Uuid::from_u128(number)),
            application: ApplicationId::from_uuid(Uuid::nil()),
            priority,
            due_from: Timestamp::EPOCH,
        };
        let (low, high) = (Priority::Low, Priority::High);
        let queues = [(&plain, 1, low), (&plain, 65, low), (&plain, 2, low), (&heavy, 1, high), (&heavy, 129, low), (&plain, 1, low)];
        let hints = queues.map(|(pool, number, priority)| (pool.clone(), queue(number, priority)));
        let shown = |batch: &Batch| format!("{} {} {}", batch.exchange, batch.routing_key, batch.queues.len());
        let batches = batches(&names, &hints);
        let expected = [
            "everhook.hints.store.heavy 1.high 1",
            "everhook.hints.store.default 1.low 2",
            "everhook.hints.store.default 2.low 1",
            "everhook.hints.store.heavy 1.low 1",
        ];
        assert_eq!(batches.iter().map(shown).collect::<Vec<_>>(), expected);
        assert_eq!(batches[1].queues, [queue(1, low), queue(65, low)]);
        assert_eq!((&batches[0].pool, &batches[1].pool), (&heavy, &plain));
    }
}
