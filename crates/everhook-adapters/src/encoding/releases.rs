//! How long it is kept in mind that something came that deliveries waited for: the same in both stores.

use std::time::Duration;

use everhook_core::time::Timestamp;

/// How many of them are looked at together.
pub(crate) const RELEASES_AT_ONCE: u32 = 100;

/// Where nodes share a store, a delivery may be parked in a write that does not see the release, nor is seen by it: both are written at one moment. A second
/// look, once every such write is over, finds it.
const SECOND_LOOK_AFTER: Duration = Duration::from_secs(10);

/// Longer than any attempt that may still park its delivery for what has come, and than an event that is made parked waits in a spool.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// When parked deliveries are looked for again after a release: at once if some are left, else once more.
pub(crate) fn looks_again_at(released_at: Timestamp, some_are_left: bool) -> Timestamp {
    if some_are_left { released_at } else { released_at + SECOND_LOOK_AFTER }
}

/// What came before this instant is forgotten.
pub(crate) fn forgotten_before(now: Timestamp) -> Timestamp {
    now - KEPT_FOR
}
