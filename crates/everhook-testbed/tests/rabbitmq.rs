//! The real binary between two queues of a real broker: what is put into one comes out of the other, whatever is killed in between.
//!
//! Needs the RabbitMQ that `scripts/services up` starts; without one, every test says loudly that it was skipped.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use everhook::cli::client::Connection;
use everhook_testbed::node::Node;
use http::Method;
use lapin::{
    message::BasicGetMessage,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::broker::{AMPLE, Broker};

/// What these tests do with the broker beside what the adapter's do.
impl Broker {
    /// The URL of an endpoint that is a queue of this broker.
    fn endpoint_of(&self, queue: &str) -> String {
        self.endpoint(None, &format!("routing_key={queue}"))
    }

    fn port(&self) -> u16 {
        self.url.port().unwrap()
    }

    fn node(&self, source_queue: &str) -> Node {
        self.node_at(self.port(), source_queue)
    }

    /// A server that takes events over another port than the broker's own.
    fn node_at(&self, port: u16, source_queue: &str) -> Node {
        let flags = ["--amqp", &self.source(port), "--amqp-source-queue", source_queue, "--amqp-destinations"];
        Node::new(Path::new(env!("CARGO_TARGET_TMPDIR"))).with_flags(flags)
    }
}

fn id_of(message: &BasicGetMessage) -> String {
    message.properties.message_id().as_ref().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_becomes_one_event_however_often_the_server_is_killed() {
    const ROUNDS: u64 = 5;
    const BACKLOG: u64 = 100;
    // Given a server between two queues.
    let Some(broker) = Broker::connect().await else { return };
    let (source, sink) = (broker.queue("in", &[]).await, broker.queue("out", &[]).await);
    let mut node = broker.node(&source);
    node.start();
    node.wait_until_ready().await;
    let endpoint =
        json!({"url": broker.endpoint_of(&sink), "event_types": ["*"], "retry_config": {"max_attempts": 10, "base_delay_ms": 1000}});
    Connection::new(node.server()).ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.unwrap();
    // When it is killed again and again, each time in the middle of a backlog.
    let mut arrived = Vec::new();
    for round in 0..ROUNDS {
        node.kill();
        for number in round * BACKLOG..(round + 1) * BACKLOG {
            broker
                .put(&source, &format!("m-{number}"), json!({"type": "queue.test", "data": {"number": number}}).to_string().as_bytes())
                .await;
        }
        node.start();
        node.wait_until_ready().await;
        arrived.push(broker.get(&sink).await);
    }
    // Then each comes out, as one event: a message that was under way at a kill may come again under the same id.
    let mut events: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    while events.len() < (ROUNDS * BACKLOG) as usize {
        let message = match arrived.pop() {
            Some(message) => message,
            None => broker.get(&sink).await,
        };
        let body: Value = serde_json::from_slice(&message.data).unwrap();
        events.entry(body["data"]["number"].as_u64().unwrap()).or_default().insert(id_of(&message));
    }
    let doubled: Vec<_> = events.iter().filter(|(_, ids)| ids.len() > 1).collect();
    assert!(doubled.is_empty(), "messages that became several events: {doubled:?}");
    assert!(broker.try_get(&source).await.is_none(), "every message is acknowledged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_acknowledgment_was_lost_is_not_published_again() {
    const MESSAGES: usize = 50;
    // Given a server that consumes over a wire on which its acknowledgments are lost from now on.
    let Some(broker) = Broker::connect().await else { return };
    let (source, sink) = (broker.queue("in", &[]).await, broker.queue("out", &[]).await);
    let (wire, deaf) = wire_to(broker.port()).await;
    let mut node = broker.node_at(wire, &source);
    node.start();
    node.wait_until_ready().await;
    let endpoint = json!({"url": broker.endpoint_of(&sink), "event_types": ["*"]});
    Connection::new(node.server()).ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.unwrap();
    broker.put(&source, "first", br#"{"type": "t", "data": 0}"#).await;
    broker.get(&sink).await;
    deaf.store(true, Ordering::SeqCst);
    // When messages have become events, and the server is killed before the broker knows.
    for number in 0..MESSAGES {
        broker.put(&source, &format!("m-{number}"), json!({"type": "t", "data": number}).to_string().as_bytes()).await;
    }
    let mut published = BTreeSet::new();
    for _ in 0..MESSAGES {
        published.insert(id_of(&broker.get(&sink).await));
    }
    node.kill();
    deaf.store(false, Ordering::SeqCst);
    node.start();
    // Then the broker delivers them all again, and they are acknowledged without becoming events again. A delivery whose
    // success was not yet recorded at the kill may be made again, under the event's id.
    broker.put(&source, "last", br#"{"type": "t", "data": "last"}"#).await;
    loop {
        let message = broker.get(&sink).await;
        let body: Value = serde_json::from_slice(&message.data).unwrap();
        if body["data"] == "last" {
            break;
        }
        assert!(published.contains(&id_of(&message)), "{} became a second event", body["data"]);
    }
    until_empty(&broker, &source).await;
    while let Some(message) = broker.try_get(&sink).await {
        assert!(published.contains(&id_of(&message)), "a message became a second event");
    }
}

/// A port that leads to the broker. While the flag is set, what the client says is lost, and what the broker says arrives.
async fn wire_to(port: u16) -> (u16, Arc<AtomicBool>) {
    let deaf = Arc::new(AtomicBool::new(false));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own_port = listener.local_addr().unwrap().port();
    let is_deaf = deaf.clone();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let is_deaf = is_deaf.clone();
            tokio::spawn(async move {
                let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.into_split(), server.into_split());
                let mut buffer = vec![0; 64 << 10];
                let forwarding = async {
                    while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
                        if !is_deaf.load(Ordering::SeqCst) && to_server.write_all(&buffer[..read]).await.is_err() {
                            break;
                        }
                    }
                };
                // Either end ends both.
                tokio::select! {
                    () = forwarding => {}
                    _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
                }
            });
        }
    });
    (own_port, deaf)
}

#[tokio::test]
async fn a_message_that_can_never_be_published_goes_to_the_dead_letter_exchange_and_the_others_continue() {
    let Some(broker) = Broker::connect().await else { return };
    let (dead, sink) = (broker.queue("dead", &[]).await, broker.queue("out", &[]).await);
    let text = |text: &str| AMQPValue::LongString(text.into());
    let source = broker.queue("in", &[("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(&dead))]).await;
    let mut node = broker.node(&source);
    node.start();
    node.wait_until_ready().await;
    let mut connection = Connection::new(node.server());
    let endpoint = json!({"url": broker.endpoint_of(&sink), "event_types": ["*"]});
    connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.unwrap();
    let strict = json!({"name": "order.paid", "schema": {"type": "object", "required": ["order"]}});
    connection.ask(Method::POST, "/v1/event-types", Some(&strict)).await.unwrap();

    let too_large = json!({"type": "t", "data": "x".repeat(300 << 10)}).to_string();
    let messages = [
        ("good-1", r#"{"type": "t", "data": 1}"#),
        ("no-json", "hello"),
        ("unknown-field", r#"{"type": "t", "data": 1, "tpye": 2}"#),
        ("unknown-application", r#"{"type": "t", "data": 1, "application_id": "nobody"}"#),
        ("other-organization", r#"{"type": "t", "data": 1, "tenant_id": "nobody"}"#),
        ("schema", r#"{"type": "order.paid", "data": {}}"#),
        ("too-large", &too_large),
        ("good-2", r#"{"type": "order.paid", "data": {"order": 1}}"#),
        ("good-1", r#"{"type": "t", "data": 1}"#),
    ];
    for (id, body) in messages {
        broker.put(&source, id, body.as_bytes()).await;
    }
    let mut refused = BTreeSet::new();
    for _ in 0..6 {
        refused.insert(id_of(&broker.get(&dead).await));
    }
    assert_eq!(
        refused,
        ["no-json", "other-organization", "schema", "too-large", "unknown-application", "unknown-field"].map(str::to_owned).into()
    );
    let data = |message: BasicGetMessage| serde_json::from_slice::<Value>(&message.data).unwrap()["data"].to_string();
    let published = BTreeSet::from([data(broker.get(&sink).await), data(broker.get(&sink).await)]);
    assert_eq!(published, ["1", r#"{"order":1}"#].map(str::to_owned).into());
    // The first came twice, and is one event.
    until_empty(&broker, &source).await;
    assert!(broker.try_get(&sink).await.is_none());
}

#[tokio::test]
async fn the_organization_is_told_that_its_queue_is_not_consumed_and_a_failing_broker_is_retried() {
    // Given a server whose queue does not exist, and an endpoint whose queue does not exist either.
    let Some(broker) = Broker::connect().await else { return };
    let mut node = broker.node(&broker.name("missing"));
    node.start();
    node.wait_until_ready().await;
    let mut connection = Connection::new(node.server());
    let sink = broker.name("late");
    let retries = json!({"max_attempts": 50, "base_delay_ms": 1000, "max_delay_ms": 1000});
    let endpoint =
        json!({"url": broker.endpoint_of(&sink), "event_types": ["*"], "retry_config": retries, "circuit_breaker": {"enabled": false}});
    connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.unwrap();
    let event = connection.ask(Method::POST, "/v1/events", Some(&json!({"type": "t", "data": 1}))).await.unwrap();
    // When an attempt has failed, its failure is there to see.
    let path = format!("/v1/events/{}/deliveries", event["id"].as_str().unwrap());
    let delivery = seen(&mut connection, &path, |delivery| delivery["attempt_count"].as_u64() > Some(0)).await;
    assert_eq!(delivery["failure_category"], "client_error");
    assert!(delivery["last_error"].as_str().unwrap().contains("no queue is bound"), "{delivery}");
    // Then it is delivered once the queue is there, and the source's failure was told meanwhile.
    broker.queue("late", &[]).await;
    broker.get(&sink).await;
    seen(&mut connection, "/v1/events", |event| event["type"] == "amqp.unreachable").await;
}

/// The first of a list that is as it should be, once there is one.
async fn seen(connection: &mut Connection, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let looking = async {
        loop {
            let list = connection.ask(Method::GET, path, None).await.unwrap();
            match list["data"].as_array().unwrap().iter().find(|item| wanted(item)) {
                Some(found) => return found.clone(),
                None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(AMPLE, looking).await.unwrap_or_else(|_| panic!("not in time: {path}"))
}

/// Waits until a queue has nothing ready.
async fn until_empty(broker: &Broker, queue: &str) {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let emptying = async {
        while broker.channel.queue_declare(queue.into(), passive, FieldTable::default()).await.unwrap().message_count() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(AMPLE, emptying).await.expect("the queue is emptied");
}
