//! Moving up: a data folder with something of everything, filled through the ports, and a PostgreSQL that it is moved into.

mod filled;
mod look;

mod going_on;
mod mapping;
mod moved;
mod refused;
mod stopped;
mod target;
mod with_nodes;
