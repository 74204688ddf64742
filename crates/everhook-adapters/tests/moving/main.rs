//! Moving up: a data folder with something of everything, filled through the ports, and a PostgreSQL that it is moved into.

#![allow(missing_docs, clippy::unwrap_used)]

// What the tests of the stores share; not all of it is needed here.
#[allow(dead_code)]
#[path = "../sqlite/backing.rs"]
mod backing;
#[allow(dead_code)]
#[path = "../conformance/given.rs"]
mod given;
#[allow(dead_code)]
#[path = "../conformance/store.rs"]
mod store;

mod conformance {
    pub(crate) use crate::{given, store};
}

#[allow(dead_code)]
#[path = "../../../everhook-testbed/src/database.rs"]
mod database;
mod filled;
mod look;

mod going_on;
mod mapping;
mod moved;
mod refused;
mod stopped;
mod target;
mod with_nodes;
