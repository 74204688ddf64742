//! Work that runs beside the deliveries: bulk operations, retention, and what is left of what was deleted.

pub(crate) mod deletions;
pub(crate) mod operations;
pub(crate) mod retention;
