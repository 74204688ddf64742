//! RabbitMQ against a real server, which `scripts/services up` starts. Without one, every test says loudly that it was skipped.

mod broker;
mod destination;
mod hints;
mod proxy;
mod source;
mod tls;
