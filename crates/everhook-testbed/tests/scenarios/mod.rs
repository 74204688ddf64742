//! Scenarios on a simulated clock and network, with the real core and the real embedded store.

mod attempt_now;
mod by_hand;
mod clocks;
mod crashes;
mod endpoints;
mod erasing;
mod every_fault;
mod flow;
mod health;
mod lanes;
mod nodes;
mod operations;
mod order;
mod outage;
mod parking;
mod pools;
mod publishing;
mod retention;
mod retries;
mod schedules;
mod sent;
mod shared_limits;
mod shared_operations;
mod spool;
mod spool_keys;
mod spool_stalls;
