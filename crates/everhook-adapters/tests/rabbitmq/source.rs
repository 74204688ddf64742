//! Events from a queue.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use everhook_adapters::rabbitmq::{AmqpSource, Intake, Message, SourceSettings, Verdict};
use everhook_core::model::Secret;
use lapin::types::AMQPValue;

use super::{
    broker::{AMPLE, Broker, until},
    proxy::Proxy,
};

/// Keeps messages by their id, as a store keeps events by their key.
#[derive(Default)]
struct Kept {
    /// How often each id was handed over.
    seen: Mutex<BTreeMap<String, u32>>,
    /// How many batches fail before one is taken.
    failing: Mutex<u32>,
    told: Mutex<Vec<&'static str>>,
}

impl Kept {
    fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

#[async_trait]
impl Intake for Kept {
    async fn take(&self, messages: Vec<Message>) -> Vec<Verdict> {
        let mut failing = self.failing.lock().unwrap();
        if *failing > 0 {
            *failing -= 1;
            return messages.iter().map(|_| Verdict::Later("the store is away".to_owned())).collect();
        }
        let mut seen = self.seen.lock().unwrap();
        let judge = |message: Message| {
            if message.body == "never" {
                return Verdict::Refused("it is not JSON".to_owned());
            }
            *seen.entry(message.id.unwrap()).or_default() += 1;
            Verdict::Durable
        };
        messages.into_iter().map(judge).collect()
    }

    async fn unreachable(&self, _failures: u32, _error: &str) {
        self.told.lock().unwrap().push("unreachable");
    }

    async fn recovered(&self) {
        self.told.lock().unwrap().push("recovered");
    }
}

fn consume(url: &str, queue: &str, intake: &Arc<Kept>) -> AmqpSource {
    let mut settings = SourceSettings::new(&Secret::new(url.to_owned()), queue).ok().unwrap();
    settings.reconnect_after = Duration::from_millis(10);
    AmqpSource::start(settings, intake.clone()).unwrap()
}

#[tokio::test]
async fn nothing_is_lost_when_the_connection_is_cut_again_and_again() {
    let Some(broker) = Broker::connect().await else { return };
    let queue = broker.queue("in", &[]).await;
    let proxy = Proxy::to(broker.url.port().unwrap()).await;
    let kept = Arc::new(Kept::default());
    let source = consume(&broker.source(proxy.port), &queue, &kept);
    for number in 0..400 {
        broker.put(&queue, &format!("message-{number}"), b"{}").await;
        if number % 50 == 25 {
            proxy.cut();
        }
    }
    until("every message was handed over", || kept.count() == 400).await;
    source.stop(AMPLE).await;
    assert!(broker.try_get(&queue).await.is_none(), "every message is acknowledged");
    assert!(proxy.taken() > 1, "it connected again");
}

#[tokio::test]
async fn a_message_that_can_never_be_taken_goes_to_the_dead_letter_exchange() {
    let Some(broker) = Broker::connect().await else { return };
    let dead = broker.queue("dead", &[]).await;
    let to_dead = AMQPValue::LongString(dead.clone().into());
    let dead_lettering = [("x-dead-letter-exchange", AMQPValue::LongString("".into())), ("x-dead-letter-routing-key", to_dead)];
    let queue = broker.queue("in", &dead_lettering).await;
    let kept = Arc::new(Kept::default());
    for (id, body) in [("good-1", &b"{}"[..]), ("bad", b"never"), ("good-2", b"{}")] {
        broker.put(&queue, id, body).await;
    }
    let source = consume(broker.url.as_str(), &queue, &kept);
    let message = broker.get(&dead).await.delivery;
    assert_eq!((message.data, message.properties.message_id().as_ref().unwrap().as_str()), (b"never".to_vec(), "bad"));
    until("the others were taken", || kept.count() == 2).await;
    source.stop(AMPLE).await;
}

#[tokio::test]
async fn what_cannot_be_stored_now_is_tried_again_and_acknowledged_once_it_is() {
    let Some(broker) = Broker::connect().await else { return };
    let queue = broker.queue("in", &[]).await;
    let kept = Arc::new(Kept { failing: Mutex::new(2), ..Kept::default() });
    broker.put(&queue, "one", b"{}").await;
    let source = consume(broker.url.as_str(), &queue, &kept);
    until("the store came back", || kept.count() == 1).await;
    source.stop(AMPLE).await;
    assert_eq!(kept.seen.lock().unwrap().get("one"), Some(&1));
    assert!(broker.try_get(&queue).await.is_none());
}

#[tokio::test]
async fn what_was_not_stored_when_it_stops_is_in_the_queue() {
    let Some(broker) = Broker::connect().await else { return };
    let queue = broker.queue("in", &[]).await;
    let kept = Arc::new(Kept { failing: Mutex::new(u32::MAX), ..Kept::default() });
    broker.put(&queue, "one", b"{}").await;
    let source = consume(broker.url.as_str(), &queue, &kept);
    until("it was tried", || *kept.failing.lock().unwrap() < u32::MAX).await;
    source.stop(AMPLE).await;
    let message = broker.get(&queue).await.delivery;
    assert!(message.redelivered && message.properties.message_id().as_ref().unwrap().as_str() == "one");
}

#[tokio::test]
async fn somebody_is_told_after_three_failures_and_again_when_it_works() {
    let Some(broker) = Broker::connect().await else { return };
    let kept = Arc::new(Kept::default());
    let source = consume(broker.url.as_str(), &broker.name("late"), &kept);
    until("somebody was told", || *kept.told.lock().unwrap() == ["unreachable"]).await;
    let queue = broker.queue("late", &[]).await;
    broker.put(&queue, "one", b"{}").await;
    until("the queue is consumed", || kept.count() == 1).await;
    assert_eq!(*kept.told.lock().unwrap(), ["unreachable", "recovered"]);
    source.stop(AMPLE).await;
}
