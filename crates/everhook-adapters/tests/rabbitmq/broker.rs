//! The broker of the tests, and what they do there beside the adapter. Shared with the tests of the binary.

use std::time::Duration;

use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    message::BasicGetMessage,
    options::{BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use url::Url;

use crate::services;

/// Long enough for a loaded machine.
pub const AMPLE: Duration = Duration::from_secs(60);

/// A connection to the broker, with queues whose names are this test's own.
pub struct Broker {
    pub url: Url,
    pub channel: Channel,
    _connection: Connection,
    unique: String,
}

impl Broker {
    /// Connects, or says that the test is skipped.
    pub async fn connect() -> Option<Self> {
        let url = services::address("EVERHOOK_TEST_AMQP")?;
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let unique = format!("{}-{}", std::process::id(), uuid::Uuid::now_v7());
        Some(Self { url: url.parse().unwrap(), channel, _connection: connection, unique })
    }

    /// A name that no other test uses.
    pub fn name(&self, name: &str) -> String {
        format!("{name}-{}", self.unique)
    }

    /// Makes a queue that goes away when nobody uses it for some minutes.
    pub async fn queue(&self, name: &str, arguments: &[(&str, AMQPValue)]) -> String {
        let name = self.name(name);
        let mut table = FieldTable::default();
        for (key, value) in arguments {
            table.insert((*key).into(), value.clone());
        }
        // Not exclusive: the adapter consumes over a connection of its own.
        let options = QueueDeclareOptions { auto_delete: false, durable: true, ..QueueDeclareOptions::default() };
        table.insert("x-expires".into(), AMQPValue::LongInt(300_000));
        self.channel.queue_declare(name.clone().into(), options, table).await.unwrap();
        name
    }

    /// Puts a message into a queue.
    pub async fn put(&self, queue: &str, id: &str, body: &[u8]) {
        let properties = BasicProperties::default().with_message_id(id.into()).with_delivery_mode(2);
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let published = self.channel.basic_publish("".into(), queue.into(), options, body, properties).await.unwrap();
        assert!(published.await.unwrap().is_ack());
    }

    /// Takes the next message of a queue, which must come.
    pub async fn get(&self, queue: &str) -> BasicGetMessage {
        let next = async {
            loop {
                if let Some(message) = self.try_get(queue).await {
                    return message;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(AMPLE, next).await.expect("a message comes")
    }

    /// Takes the next message of a queue, if there is one.
    pub async fn try_get(&self, queue: &str) -> Option<BasicGetMessage> {
        self.channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap()
    }

    /// The broker's URL for an endpoint: without credentials, at another port if that is given.
    pub fn endpoint(&self, port: Option<u16>, query: &str) -> String {
        format!("amqp://127.0.0.1:{}/%2f?{query}", port.or(self.url.port()).unwrap())
    }

    /// The broker's URL for a source.
    pub fn source(&self, port: u16) -> String {
        let mut url = self.url.clone();
        url.set_port(Some(port)).unwrap();
        url.to_string()
    }
}

/// Waits until something is true.
pub async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let waiting = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(AMPLE, waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}
