//! Work that runs beside the deliveries: bulk operations and retention.

pub(crate) mod operations;
pub(crate) mod retention;
