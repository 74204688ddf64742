//! Accepting events while the shared store is unavailable: they wait in a file of this node and are forwarded in order.
//!
//! [`publishers`] knows who may publish without the store, [`intake`] puts events into the store or the spool, [`backlog`] knows who must queue behind what waits, [`forward`] brings it to the store.

pub mod backlog;
mod carry;
pub mod forward;
pub mod intake;
pub mod publishers;
