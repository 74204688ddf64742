//! Scenarios on a simulated clock and network, with the real core and the real embedded store.

mod crashes;
mod endpoints;
mod every_fault;
mod flow;
mod health;
mod lanes;
mod order;
mod publishing;
mod retries;
mod schedules;
