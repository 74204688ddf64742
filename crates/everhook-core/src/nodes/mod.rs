//! Several nodes on one store: leases, what other nodes changed, and counters that nodes share.
//!
//! [`keeper`] renews this node's lease and takes its share of the shards and duties; [`watch`] notices nodes whose lease ended; [`held_lease`] is what this
//! node holds, asked before every request; [`follow`] applies what other nodes changed; [`exchange`] keeps shared counters in step.

pub(crate) mod exchange;
pub mod follow;
pub mod held_lease;
pub(crate) mod keeper;
mod watch;
