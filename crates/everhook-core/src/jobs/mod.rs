//! Work that runs beside the deliveries: bulk operations, retention, the health of endpoints, health checks of apps, what is left of what was deleted, and the
//! rotation of the sealing key.

pub(crate) mod backfills;
pub(crate) mod deletions;
pub(crate) mod endpoint_health;
pub(crate) mod health_checks;
pub(crate) mod operations;
pub(crate) mod resealing;
pub(crate) mod retention;
