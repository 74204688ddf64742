//! What hints are called at the broker, and how they are spelled in a message. Pure.

use everhook_core::{
    ids::{ApplicationId, LaneId},
    model::{PoolName, Priority, Shard},
    ports::WaitingQueue,
    time::Timestamp,
};
use lapin::{BasicProperties, types::ShortString};
use uuid::Uuid;

/// What all names begin with, so that one permission covers them.
const PREFIX: &str = "everhook.hints";

/// The longest name of a store: a queue's name has it and more, and may have 255 bytes.
const STORE_BYTES_MAX: usize = 64;

/// What a message of ours says that it is. Another spelling gets another number, and nodes that do not know it drop it.
const MESSAGE_TYPE: &str = "everhook.hints.2";

/// AMQP's "transient". What is in a quorum queue is on disk all the same.
const TRANSIENT: u8 = 1;

/// The most queues of one message: 40 KB. What is more goes out as several.
pub(super) const QUEUES_A_MESSAGE: usize = 1_000;

/// An endpoint, its application, and an instant.
const QUEUE_BYTES: usize = 16 + 16 + 8;

/// The names of one node's things at the broker.
pub(super) struct Names {
    store: String,
    pool: PoolName,
    boot: Uuid,
}

impl Names {
    /// Those of a node; `None` if the name of its store is too long, or empty.
    pub(super) fn new(store: &str, pool: PoolName, boot: Uuid) -> Option<Self> {
        let is_good = (1..=STORE_BYTES_MAX).contains(&store.len());
        is_good.then(|| Self { store: store.to_owned(), pool, boot })
    }

    /// The exchange to which hints for the lanes of this node's pool are published.
    pub(super) fn exchange(&self) -> ShortString {
        self.exchange_of(&self.pool)
    }

    /// The same of any pool.
    pub(super) fn exchange_of(&self, pool: &PoolName) -> ShortString {
        ShortString::try_new(format!("{PREFIX}.{}.{pool}", self.store)).expect("the store's and the pool's names are short")
    }

    /// The queue in which this node finds its hints of a priority.
    pub(super) fn queue(&self, priority: Priority) -> ShortString {
        let name = format!("{PREFIX}.{}.{}.{}.{}", self.store, self.pool, self.boot.simple(), priority.as_str());
        ShortString::try_new(name).expect("each part's length was checked")
    }
}

/// What leads a hint to the node that holds the shard, and to the right one of its queues.
pub(super) fn routing_key(shard: Shard, priority: Priority) -> ShortString {
    format!("{}.{}", shard.number(), priority.as_str()).into()
}

/// What every message says about itself.
pub(super) fn properties() -> BasicProperties {
    BasicProperties::default().with_type(MESSAGE_TYPE.into()).with_app_id("everhook".into()).with_delivery_mode(TRANSIENT)
}

/// Spells queues of one priority, which the routing key says.
pub(super) fn spell(queues: &[WaitingQueue]) -> Vec<u8> {
    let spell_one = |queue: &WaitingQueue| {
        let due_from = queue.due_from.as_micros().to_be_bytes();
        [&queue.lane_id.as_uuid().as_bytes()[..], queue.application.as_uuid().as_bytes(), &due_from].concat()
    };
    queues.iter().flat_map(spell_one).collect()
}

/// Reads what [`spell`] wrote; `None` of what it did not write.
pub(super) fn read(properties: &BasicProperties, body: &[u8], priority: Priority) -> Option<Vec<WaitingQueue>> {
    let is_ours = properties.kind().as_ref().is_some_and(|kind| kind.as_str() == MESSAGE_TYPE);
    let is_whole = body.len().is_multiple_of(QUEUE_BYTES) && (1..=QUEUES_A_MESSAGE).contains(&(body.len() / QUEUE_BYTES));
    if !is_ours || !is_whole {
        return None;
    }
    let read_one = |bytes: &[u8]| {
        Some(WaitingQueue {
            lane_id: LaneId::from_uuid(Uuid::from_slice(&bytes[..16]).ok()?),
            application: ApplicationId::from_uuid(Uuid::from_slice(&bytes[16..32]).ok()?),
            priority,
            due_from: Timestamp::from_micros(i64::from_be_bytes(bytes[32..].try_into().ok()?)),
        })
    };
    body.chunks_exact(QUEUE_BYTES).map(read_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(number: u128, priority: Priority) -> WaitingQueue {
        let (lane_id, application) = (Uuid::from_u128(number), Uuid::from_u128(number << 64));
        let due_from = Timestamp::from_micros(1_763_300_000_000_000);
        WaitingQueue { lane_id: LaneId::from_uuid(lane_id), application: ApplicationId::from_uuid(application), priority, due_from }
    }

    #[test]
    fn names_tell_stores_pools_boots_and_priorities_apart() {
        let names = Names::new("7a-16384", PoolName::default(), Uuid::from_u128(10)).unwrap();
        assert_eq!(names.exchange().as_str(), "everhook.hints.7a-16384.default");
        assert_eq!(names.queue(Priority::Low).as_str(), "everhook.hints.7a-16384.default.0000000000000000000000000000000a.low");
        assert_eq!(routing_key(Shard::from_number(17).unwrap(), Priority::High).as_str(), "17.high");
        assert_eq!(names.exchange_of(&PoolName::parse("heavy").unwrap()).as_str(), "everhook.hints.7a-16384.heavy");
        // The longest names of all still fit.
        let (store, pool) = ("s".repeat(STORE_BYTES_MAX), PoolName::parse(&"p".repeat(32)).unwrap());
        let longest = Names::new(&store, pool, Uuid::nil()).unwrap();
        assert!(longest.queue(Priority::Normal).as_str().starts_with(longest.exchange().as_str()));
        for store in ["", &*"s".repeat(STORE_BYTES_MAX + 1)] {
            assert!(Names::new(store, PoolName::default(), Uuid::nil()).is_none(), "{store}");
        }
    }

    #[test]
    fn a_hint_is_read_as_it_was_spelled_and_noise_is_nothing() {
        let queues = vec![queue(1, Priority::High), queue(u128::MAX >> 3, Priority::High)];
        let body = spell(&queues);
        assert_eq!(read(&properties(), &body, Priority::High), Some(queues));
        let noise = [&[][..], &body[1..], b"hello", &vec![7; QUEUE_BYTES * (QUEUES_A_MESSAGE + 1)]];
        for noise in noise {
            assert_eq!(read(&properties(), noise, Priority::High), None, "{} bytes", noise.len());
        }
        for strange in [BasicProperties::default(), properties().with_type("order.paid".into())] {
            assert_eq!(read(&strange, &body, Priority::High), None);
        }
    }
}
