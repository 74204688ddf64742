//! Randomness, so that a seed gives the same run again.

use uuid::Uuid;

use crate::time::Timestamp;

/// Where ids, secrets and jitter come from.
pub trait Entropy: Send + Sync {
    /// A new UUIDv7 for `now`. Two calls in one process give rising ids, also within one millisecond.
    fn uuid(&self, now: Timestamp) -> Uuid;

    /// 32 bytes that nobody can guess.
    fn secret_bytes(&self) -> [u8; 32];

    /// A number from 0 (included) to 1 (excluded), for jitter.
    fn unit(&self) -> f64;
}
