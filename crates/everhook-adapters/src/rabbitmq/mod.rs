//! RabbitMQ, as a source of events and as a destination of deliveries (AMQP 0-9-1).
//!
//! `source` consumes a queue and hands its messages to whoever publishes; `destination` publishes each delivery and waits for the broker's
//! confirmation, over the links that `pool` keeps and `publisher` uses. `link` is one connection, on a `socket` that is ours: lapin speaks the
//! protocol, but connections are opened by the connector of [`crate::http`], so that one guard vets every address. `failure` says what
//! went wrong. Nothing here declares queues or exchanges: those are their owners' to define.

mod destination;
mod failure;
mod link;
mod message;
mod pool;
mod publisher;
mod socket;
mod source;

pub use destination::AmqpTransport;
pub use source::{AmqpSource, Intake, Message, SourceError, SourceSettings, Verdict};
