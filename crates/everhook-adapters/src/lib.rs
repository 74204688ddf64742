//! How it is done: one folder per outside thing, each behind a port of the core. Folders do not know each other, but for
//! `rabbitmq`, `smtp` and `otlp`, which connect through the connector of `http` (the guard against request forgery exists once), `spool`, which writes through the
//! writer of `sqlite` (so does the care for what is on disk), and `moving`, which is about two of them. What all stores do the same way lies beside them:
//! `encoding` (how the model is spelled in columns), `commits`, `due` and `read_turns` (organizations take turns to read).

pub mod archive;
pub mod by_scheme;
mod commits;
mod due;
mod encoding;
pub mod http;
pub mod moving;
pub mod otlp;
pub mod postgres;
#[cfg(feature = "amqp")]
pub mod rabbitmq;
mod read_turns;
pub mod redis;
pub mod sealed_endpoints;
pub mod smtp;
pub mod spool;
pub mod sqlite;
pub mod system;
pub mod vault;
