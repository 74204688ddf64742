//! RabbitMQ, as a source of events, as a destination of deliveries, and as a way for hints between nodes (AMQP 0-9-1).
//!
//! `source` consumes a queue and hands its messages to whoever publishes; `destination` publishes each delivery and waits for the broker's
//! confirmation, over the links that `pool` keeps and `publisher` uses; `hints` tells other nodes what to look at. `link` is one connection, on a `socket` that is ours: lapin speaks the
//! protocol, but connections are opened by the connector of [`crate::http`], so that one guard vets every address. `failure` says what
//! went wrong, `reconnect` when a lost broker is tried again. Only `hints` declares queues and exchanges: its own. All others are their owners' to define.

mod address;
mod destination;
mod failure;
mod hints;
mod link;
mod message;
mod pool;
mod publisher;
mod reconnect;
mod socket;
mod source;

pub use address::{AddressError, BrokerAddress, check};
pub use destination::AmqpTransport;
pub use hints::{HintSettings, HintsError, RabbitHints};
pub use pool::LINKS_MAX;
pub use reconnect::FailedReconnects;
pub use source::{AmqpSource, Intake, Message, SourceError, SourceSettings, Verdict};
