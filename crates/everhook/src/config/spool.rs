//! The settings about the spool. They say something only about a node that takes requests for a shared store: anywhere else they are faults.

use std::{ops::RangeInclusive, path::Path};

use super::{
    SpoolConfig,
    check::{Reader, parse_path},
    units,
};
use crate::api::BESIDE_DATA_BYTES;

/// The folder in the data folder that it is in unless another is named.
const FOLDER: &str = "spool";
/// How large it is unless something else is said.
const BYTES_MAX: usize = 1 << 30;
/// How large it may be: one event of the usual kind at least, and not more than what can be added up at a start.
const BYTES: RangeInclusive<usize> = 1 << 20..=1 << 40;
/// The same, for people.
const BYTES_WORDS: &str = "1MiB to 1024GiB";

/// Reads where events wait; `None` where none can. It must hold the largest event: a node whose spool cannot is not ready for as long as the database
/// is away.
pub(super) fn read(
    reader: &mut Reader<'_>,
    data: Option<&Path>,
    is_shared: bool,
    takes_requests: bool,
    payload_bytes_max: Option<usize>,
) -> Option<SpoolConfig> {
    let folder = reader.optional("spool", parse_path);
    let bytes_max = reader.optional("spool_max", |text| parse_bytes(text, payload_bytes_max.unwrap_or_default()));
    if !is_shared || !takes_requests {
        let needed = if is_shared { "the role `api`" } else { "`database`" };
        for name in ["spool", "spool_max"] {
            if reader.is_set(name) {
                reader.faults.push(format!("{name}: requires {needed}"));
            }
        }
        return None;
    }
    let folder = folder.or_else(|| data.map(|data| data.join(FOLDER)))?;
    Some(SpoolConfig { folder, bytes_max: bytes_max.unwrap_or(BYTES_MAX) as u64 })
}

fn parse_bytes(text: &str, payload_bytes_max: usize) -> Result<usize, String> {
    let bytes = units::parse_size(text)?;
    let largest_event = payload_bytes_max + BESIDE_DATA_BYTES;
    if !BYTES.contains(&bytes) {
        Err(format!("must be {BYTES_WORDS}"))
    } else if bytes < largest_event {
        let (largest, beside) = (largest_event.div_ceil(1 << 10), BESIDE_DATA_BYTES >> 10);
        Err(format!("must hold the largest event, which is `payload_max` plus {beside}KiB: at least {largest}KiB"))
    } else {
        Ok(bytes)
    }
}
