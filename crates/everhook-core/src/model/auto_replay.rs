//! Whether an organization's dead letters are retried by themselves.

use std::{num::NonZeroU32, time::Duration};

/// How dead letters come back without a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoReplay {
    /// Whether they do.
    pub enabled: bool,
    /// How long after its first death one is tried again; each further pause is twice as long.
    pub after: Duration,
    /// How many are tried a second, over the whole organization.
    pub requests_per_second: NonZeroU32,
    /// How many deaths it may have before it is left to people.
    pub max_tries: u32,
}

impl Default for AutoReplay {
    /// Off; an hour, one a second, six tries.
    fn default() -> Self {
        Self { enabled: false, after: Duration::from_secs(3_600), requests_per_second: NonZeroU32::MIN, max_tries: 6 }
    }
}
