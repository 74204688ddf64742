//! Every table of the shared store that holds what organizations have, one file a group. What is not named here is not moved: a test holds these
//! lists against both schemas, so that nothing that is added to one of them is forgotten.

mod deliveries;
mod directory;
mod events;
mod operations;
mod statistics;

use super::table::Table;

/// All of them, in the order in which they are copied: what is small and refers to nothing first.
pub(super) fn all() -> impl Iterator<Item = &'static Table> {
    [&directory::TABLES[..], &events::TABLES, &deliveries::TABLES, &statistics::TABLES, &operations::TABLES].into_iter().flatten()
}
