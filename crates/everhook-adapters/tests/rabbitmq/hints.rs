//! Hints between nodes over a real broker: they reach the node that holds the shard, and find another way whenever the broker is away.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everhook_adapters::rabbitmq::{HintSettings, RabbitHints};
use everhook_core::{
    ids::{ApplicationId, LaneId},
    model::{PoolName, Priority, Secret, Shard, ShardSet},
    ports::{RemoteHints, WaitingQueue},
    time::Timestamp,
};
use lapin::{
    BasicProperties, ExchangeKind,
    options::{BasicPublishOptions, ExchangeDeclareOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use uuid::Uuid;

use super::{
    broker::{AMPLE, Broker, until},
    proxy::Proxy,
};

/// The other way: it counts what it is asked to carry, and for which pool.
#[derive(Default)]
struct OtherWay {
    carried: Mutex<Vec<(PoolName, WaitingQueue)>>,
    heard: tokio::sync::Notify,
    told: AtomicUsize,
}

#[async_trait]
impl RemoteHints for OtherWay {
    fn waiting(&self, pool: &PoolName, queues: Vec<WaitingQueue>) {
        self.carried.lock().unwrap().extend(queues.into_iter().map(|queue| (pool.clone(), queue)));
    }

    async fn next(&self) -> Vec<WaitingQueue> {
        self.heard.notified().await;
        self.told.fetch_add(1, Ordering::SeqCst);
        vec![queue(1, Priority::Normal)]
    }
}

impl OtherWay {
    fn carried(&self) -> Vec<WaitingQueue> {
        self.carried.lock().unwrap().iter().map(|(_, queue)| *queue).collect()
    }
}

/// A node that hints, and what it falls back on.
struct Member {
    hints: RabbitHints,
    other_way: Arc<OtherWay>,
    boot: Uuid,
}

impl Member {
    /// Hints at lanes of the default pool.
    fn tell(&self, queues: Vec<WaitingQueue>) {
        self.hints.waiting(&PoolName::default(), queues);
    }
}

/// Nodes that share a store of this test's own.
struct Cluster<'a> {
    broker: &'a Broker,
    store: String,
}

impl Cluster<'_> {
    fn new(broker: &Broker) -> Cluster<'_> {
        Cluster { broker, store: Uuid::now_v7().simple().to_string() }
    }

    /// A node that holds these shards, connected at this port.
    fn member(&self, port: u16, held: &[u32]) -> Member {
        self.member_keeping(port, held, Duration::from_secs(15))
    }

    /// One whose queues outlive its connection for this long.
    fn member_keeping(&self, port: u16, held: &[u32], queues_kept_for: Duration) -> Member {
        self.member_in(PoolName::default(), port, held, queues_kept_for)
    }

    fn member_in(&self, pool: PoolName, port: u16, held: &[u32], queues_kept_for: Duration) -> Member {
        let url = Secret::new(self.broker.source(port));
        let (boot, other_way) = (Uuid::now_v7(), Arc::<OtherWay>::default());
        let mut settings = HintSettings::new(&url, &self.store, pool, boot).unwrap();
        settings.reconnect_after = Duration::from_millis(50);
        settings.queues_kept_for = queues_kept_for;
        let hints = RabbitHints::start(settings, other_way.clone()).unwrap();
        hints.holds(shards(held));
        Member { hints, other_way, boot }
    }

    /// One that is connected, too. Its bindings are made before it says so.
    async fn connected(&self, held: &[u32]) -> Member {
        self.connected_in(PoolName::default(), held).await
    }

    /// The same in another pool.
    async fn connected_in(&self, pool: PoolName, held: &[u32]) -> Member {
        let member = self.member_in(pool, self.broker.url.port().unwrap(), held, Duration::from_secs(15));
        until("connected", || !member.hints.is_away()).await;
        member
    }

    fn exchange(&self) -> String {
        format!("everhook.hints.{}.default", self.store)
    }

    fn queue(&self, boot: Uuid, priority: Priority) -> String {
        format!("{}.{}.{}", self.exchange(), boot.simple(), priority.as_str())
    }
}

fn shards(numbers: &[u32]) -> ShardSet {
    numbers.iter().filter_map(|number| Shard::from_number(*number)).collect()
}

/// A queue of a lane in the shard that is the number's rest by 64.
fn queue(number: u128, priority: Priority) -> WaitingQueue {
    let lane_id = LaneId::from_uuid(Uuid::from_u128(number));
    WaitingQueue { application: ApplicationId::from_uuid(Uuid::from_u128(7)), lane_id, priority, due_from: Timestamp::from_secs(1_000) }
}

async fn next(member: &Member) -> Vec<WaitingQueue> {
    tokio::time::timeout(AMPLE, member.hints.next()).await.expect("a hint comes")
}

/// Hints again and again until the node hears it: a binding that was just changed may take a moment.
async fn hint_until_heard(from: &Member, to: &Member, hint: WaitingQueue) {
    let hinting = async {
        loop {
            from.tell(vec![hint]);
            if tokio::time::timeout(Duration::from_millis(100), to.hints.next()).await.is_ok_and(|heard| heard.contains(&hint)) {
                return;
            }
        }
    };
    tokio::time::timeout(AMPLE, hinting).await.expect("the hint is heard");
}

#[tokio::test]
async fn a_hint_reaches_the_node_that_holds_the_shard_and_no_other() {
    let Some(broker) = Broker::connect().await else { return };
    let cluster = Cluster::new(&broker);
    let (first, second) = (cluster.connected(&[1, 2]).await, cluster.connected(&[3]).await);
    // When a third node hints at lanes of both,
    let third = cluster.connected(&[]).await;
    let (to_first, to_second) = (vec![queue(1, Priority::Normal), queue(65, Priority::Normal)], vec![queue(3, Priority::Normal)]);
    third.tell([to_first.clone(), to_second.clone()].concat());
    // then each hears what is its own, and nothing of the rest.
    assert_eq!((next(&first).await, next(&second).await), (to_first, to_second));
    third.tell(vec![queue(2, Priority::Normal), queue(67, Priority::Low)]);
    assert_eq!((next(&first).await, next(&second).await), (vec![queue(2, Priority::Normal)], vec![queue(67, Priority::Low)]));
    assert!(third.other_way.carried().is_empty(), "the broker carried all of it");
}

#[tokio::test]
async fn a_hint_reaches_the_pool_that_sends_for_the_lane_and_not_who_holds_the_same_shard_in_another() {
    let Some(broker) = Broker::connect().await else { return };
    let cluster = Cluster::new(&broker);
    let (pool, heavy) = (PoolName::default(), PoolName::parse("heavy").unwrap());
    let (first, second) = (cluster.connected(&[1]).await, cluster.connected(&[]).await);
    let other = cluster.connected_in(heavy.clone(), &[1]).await;
    // When a node of one pool hints at lanes of both, all in one shard,
    second.hints.waiting(&heavy, vec![queue(1, Priority::Normal)]);
    second.hints.waiting(&pool, vec![queue(65, Priority::Normal)]);
    // then each pool hears of its own lane, and so it is the other way round.
    assert_eq!((next(&other).await, next(&first).await), (vec![queue(1, Priority::Normal)], vec![queue(65, Priority::Normal)]));
    other.hints.waiting(&pool, vec![queue(129, Priority::High)]);
    assert_eq!(next(&first).await, [queue(129, Priority::High)]);
    assert!(second.other_way.carried().is_empty() && other.other_way.carried().is_empty(), "the broker carried all of it");
}

#[tokio::test]
async fn hints_for_a_pool_that_no_node_is_in_yet_go_the_other_way_and_cost_no_connection() {
    let Some(broker) = Broker::connect().await else { return };
    let cluster = Cluster::new(&broker);
    let (member, later) = (cluster.connected(&[1]).await, PoolName::parse("later").unwrap());
    member.hints.waiting(&later, vec![queue(1, Priority::Normal)]);
    until("returned", || *member.other_way.carried.lock().unwrap() == [(later.clone(), queue(1, Priority::Normal))]).await;
    assert!(!member.hints.is_away());
    // When one starts, the broker brings them there.
    let first_of_it = cluster.connected_in(later.clone(), &[1]).await;
    member.hints.waiting(&later, vec![queue(65, Priority::Normal)]);
    assert_eq!(next(&first_of_it).await, [queue(65, Priority::Normal)]);
}

#[tokio::test]
async fn a_hint_follows_its_shard_from_one_node_to_another() {
    let Some(broker) = Broker::connect().await else { return };
    let cluster = Cluster::new(&broker);
    let (first, second) = (cluster.connected(&[5]).await, cluster.connected(&[]).await);
    hint_until_heard(&second, &first, queue(5, Priority::High)).await;
    // When the shard changes hands,
    first.hints.holds(shards(&[]));
    second.hints.holds(shards(&[5]));
    // then the one who has it now is told.
    hint_until_heard(&first, &second, queue(5, Priority::High)).await;
}

#[tokio::test]
async fn urgent_hints_are_taken_before_others() {
    let Some(broker) = Broker::connect().await else { return };
    let cluster = Cluster::new(&broker);
    let (from, to) = (cluster.connected(&[]).await, cluster.connected(&[1]).await);
    // Given a node that has not listened for a while.
    let lows: Vec<_> = (0..20).map(|number| queue(64 * number + 1, Priority::Low)).collect();
    from.tell(lows.clone());
    from.tell(vec![queue(1, Priority::Normal), queue(1, Priority::High)]);
    // What the broker holds no more has been taken in: all three queues were filled and emptied once a hint to another shard was returned after them.
    from.tell(vec![queue(2, Priority::Low)]);
    until("all is sent", || from.other_way.carried() == [queue(2, Priority::Low)]).await;
    for priority in Priority::ALL {
        until_count(&broker, &cluster.queue(to.boot, priority), 0).await;
    }
    // Then the most urgent comes first.
    let mut heard = next(&to).await;
    while heard.len() < 22 {
        heard.extend(next(&to).await);
    }
    assert_eq!(heard[0], queue(1, Priority::High));
    assert_eq!(heard.iter().filter(|queue| queue.priority == Priority::Low).count(), lows.len());
}

/// Waits until a queue has this many messages that nobody has taken.
async fn until_count(broker: &Broker, queue: &str, expected: u32) {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let counting = async {
        while broker.channel.queue_declare(queue.into(), passive, FieldTable::default()).await.unwrap().message_count() != expected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(AMPLE, counting).await.expect("the queue is as it should be")
}

#[tokio::test]
async fn what_nobody_is_bound_for_goes_the_other_way_at_once() {
    let Some(broker) = Broker::connect().await else { return };
    let cluster = Cluster::new(&broker);
    let member = cluster.connected(&[1]).await;
    member.tell(vec![queue(9, Priority::Normal)]);
    until("returned", || member.other_way.carried() == [queue(9, Priority::Normal)]).await;
    assert!(!member.hints.is_away(), "a hint that is returned costs no connection");
}

#[tokio::test]
async fn hints_go_the_other_way_while_the_broker_is_away_and_through_it_again_when_it_is_back() {
    let Some(broker) = Broker::connect().await else { return };
    let cluster = Cluster::new(&broker);
    let wire = Proxy::to(broker.url.port().unwrap()).await;
    let (from, to) = (cluster.member(wire.port, &[]), cluster.connected(&[1]).await);
    until("connected", || !from.hints.is_away()).await;
    hint_until_heard(&from, &to, queue(1, Priority::Normal)).await;
    // When the wire is cut, and stays so for a while,
    wire.block();
    until("away", || from.hints.is_away()).await;
    from.tell(vec![queue(65, Priority::Normal)]);
    // then the other way is taken, and heard,
    until("carried", || from.other_way.carried().contains(&queue(65, Priority::Normal))).await;
    from.other_way.heard.notify_one();
    assert_eq!(next(&from).await, [queue(1, Priority::Normal)]);
    until("tried in vain", || from.hints.failed_reconnects() >= 3).await;
    // and when it is back, the broker carries hints again, in both directions.
    wire.unblock();
    until("back", || !from.hints.is_away()).await;
    assert_eq!((from.hints.failed_reconnects(), from.other_way.failed_reconnects()), (0, 0));
    hint_until_heard(&from, &to, queue(129, Priority::Normal)).await;
    from.hints.holds(shards(&[2]));
    hint_until_heard(&to, &from, queue(2, Priority::Low)).await;
}

#[tokio::test]
async fn hints_for_a_node_that_is_cut_off_expire_and_then_its_queues_do_and_hints_go_the_other_way() {
    let Some(broker) = Broker::connect().await else { return };
    let cluster = Cluster::new(&broker);
    let wire = Proxy::to(broker.url.port().unwrap()).await;
    let (from, to) = (cluster.connected(&[]).await, cluster.member_keeping(wire.port, &[1], Duration::from_secs(4)));
    hint_until_heard(&from, &to, queue(1, Priority::Normal)).await;
    from.other_way.carried.lock().unwrap().clear();
    // While its queues are there, they take hints, and drop them when they are of no use any more,
    wire.block();
    until("away", || to.hints.is_away()).await;
    from.tell(vec![queue(1, Priority::Normal)]);
    let place = cluster.queue(to.boot, Priority::Normal);
    until_count(&broker, &place, 1).await;
    until_count(&broker, &place, 0).await;
    assert!(from.other_way.carried().is_empty());
    // and then they are gone.
    let hinting = async {
        while from.other_way.carried().is_empty() {
            from.tell(vec![queue(65, Priority::Normal)]);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(AMPLE, hinting).await.expect("a hint is returned");
}

#[tokio::test]
async fn a_broker_that_does_not_confirm_in_time_counts_as_away() {
    let Some(broker) = Broker::connect().await else { return };
    let cluster = Cluster::new(&broker);
    let wire = Proxy::to(broker.url.port().unwrap()).await;
    let (from, to) = (cluster.member(wire.port, &[]), cluster.connected(&[1]).await);
    until("connected", || !from.hints.is_away()).await;
    hint_until_heard(&from, &to, queue(1, Priority::Normal)).await;
    let carried_before = from.other_way.carried().len();
    // When nothing comes through any more, though the connection stands,
    wire.stall();
    from.tell(vec![queue(65, Priority::Normal)]);
    // then the hint takes the other way a second later, and the next one at once.
    until("away", || from.hints.is_away()).await;
    until("carried", || from.other_way.carried()[carried_before..].contains(&queue(65, Priority::Normal))).await;
}

#[tokio::test]
async fn queues_of_hints_are_quorum_queues_that_expire_and_are_bounded() {
    let Some(broker) = Broker::connect().await else { return };
    let cluster = Cluster::new(&broker);
    let member = cluster.connected(&[1]).await;
    // Declaring a queue again succeeds only with the arguments that it has.
    let declare = |kind: &str, messages_max: i64| {
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
        arguments.insert("x-expires".into(), AMQPValue::LongInt(15_000));
        arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(2_000));
        arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(messages_max));
        arguments.insert("x-overflow".into(), AMQPValue::LongString("drop-head".into()));
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        broker.channel.queue_declare(cluster.queue(member.boot, Priority::High).into(), options, arguments)
    };
    assert_eq!(declare("quorum", 1_000).await.unwrap().consumer_count(), 1);
    let refused = declare("quorum", 2_000).await.unwrap_err().to_string();
    assert!(refused.contains("x-max-length"), "{refused}");
}

#[tokio::test]
async fn a_node_that_stops_takes_its_queues_with_it() {
    let Some(broker) = Broker::connect().await else { return };
    let cluster = Cluster::new(&broker);
    let (stopping, staying) = (cluster.connected(&[1]).await, cluster.connected(&[2]).await);
    stopping.hints.stop().await;
    staying.tell(vec![queue(1, Priority::Normal)]);
    until("returned", || staying.other_way.carried() == [queue(1, Priority::Normal)]).await;
    // What it is asked to tell meanwhile goes the other way, too.
    stopping.tell(vec![queue(2, Priority::Normal)]);
    assert_eq!(stopping.other_way.carried(), [queue(2, Priority::Normal)]);
}

#[tokio::test]
async fn messages_that_are_not_hints_are_dropped_and_hints_continue() {
    let Some(broker) = Broker::connect().await else { return };
    let cluster = Cluster::new(&broker);
    let (from, to) = (cluster.connected(&[]).await, cluster.connected(&[1]).await);
    let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    broker.channel.exchange_declare(cluster.exchange().into(), ExchangeKind::Direct, options, FieldTable::default()).await.unwrap();
    let ours = BasicProperties::default().with_type("everhook.hints.2".into());
    let strange: [(&[u8], BasicProperties); 5] = [
        (b"", ours.clone()),
        (b"hello", ours.clone()),
        (&[255; 39], ours.clone()),
        (&[0; 40 * 1_001], ours),
        (&[0; 40], BasicProperties::default().with_type("order.paid".into())),
    ];
    for (body, properties) in strange {
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let sent = broker.channel.basic_publish(cluster.exchange().into(), "1.high".into(), options, body, properties).await.unwrap();
        assert_eq!(sent.await.unwrap().take_message(), None);
    }
    from.tell(vec![queue(1, Priority::High)]);
    assert_eq!(next(&to).await, [queue(1, Priority::High)]);
    assert!(!to.hints.is_away());
}
