//! Work that runs beside the deliveries: alert rules, bulk operations, retention, the health of endpoints, health checks of apps, calls that people decide
//! about, what calls leave to be written, what is left of what was deleted, and the rotation of the sealing key. `server_alerts` runs beside the engine, which starts anew with the store.

pub(crate) mod alert_rules;
pub(crate) mod approvals;
mod archiving;
pub(crate) mod backfills;
pub(crate) mod call_records;
pub(crate) mod deletions;
pub(crate) mod endpoint_health;
pub(crate) mod health_checks;
pub(crate) mod operations;
pub(crate) mod resealing;
pub(crate) mod retention;
pub mod server_alerts;
