//! How it is done: one folder per outside thing, each behind a port of the core. Folders do not know each other.

pub mod http;
pub mod sqlite;
pub mod system;
pub mod vault;
