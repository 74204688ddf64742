//! The settings about the spool. They say something only about a node that takes requests for a shared store: anywhere else they are faults.

use std::{ops::RangeInclusive, path::Path};

use super::{
    SpoolConfig,
    check::{Reader, in_range, parse_path},
    units,
};

/// The folder in the data folder that it is in unless another is named.
const FOLDER: &str = "spool";
/// How large it is unless something else is said.
const BYTES_MAX: usize = 1 << 30;
/// How large it may be: one event of the usual kind at least, and not more than what can be added up at a start.
const BYTES: RangeInclusive<usize> = 1 << 20..=1 << 40;

/// Reads where events wait; `None` where none can.
pub(super) fn read(reader: &mut Reader<'_>, data: Option<&Path>, is_shared: bool, takes_requests: bool) -> Option<SpoolConfig> {
    let folder = reader.optional("spool", parse_path);
    let bytes_max = reader.optional("spool_max", |text| in_range(units::parse_size(text)?, BYTES));
    if !is_shared || !takes_requests {
        let needed = if is_shared { "a node that takes requests (`api`)" } else { "`database`: the embedded store is on this disk anyway" };
        for name in ["spool", "spool_max"].into_iter().filter(|name| reader.is_set(name)).collect::<Vec<_>>() {
            reader.faults.push(format!("{name}: says where events wait while a database is away, and needs {needed}"));
        }
        return None;
    }
    let folder = folder.or_else(|| data.map(|data| data.join(FOLDER)))?;
    Some(SpoolConfig { folder, bytes_max: bytes_max.unwrap_or(BYTES_MAX) as u64 })
}
