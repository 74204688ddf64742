//! Seeded randomness: the same seed gives the same ids, secrets and jitter.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use everhook_core::{ports::Entropy, time::Timestamp};
use uuid::Uuid;

/// The seed that `SEED` names, so that a run can be repeated; another each time if it names none.
///
/// # Panics
/// If `SEED` is no number.
pub fn seed_of_run() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970").as_micros() as u64;
    std::env::var("SEED").ok().map_or_else(now, |text| text.parse().expect("SEED is a number"))
}

/// Dice that fall the same way for the same seed (SplitMix64).
pub struct Dice(Mutex<State>);

struct State {
    seed: u64,
    last_id: u128,
}

impl Dice {
    /// Dice for this seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(State { seed, last_id: 0 }))
    }

    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    /// A number of this range.
    pub fn within(&self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    fn roll(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        next(&mut state.seed)
    }
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl Entropy for Dice {
    fn uuid(&self, now: Timestamp) -> Uuid {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let millis = u128::try_from(now.as_micros() / 1_000).unwrap_or(0) << 80;
        let random = u128::from(next(&mut state.seed));
        // Rises also within one millisecond: the time, or the last id's next neighbor.
        state.last_id = (millis | random).max(state.last_id + 1 + random % 1_000);
        let bytes = state.last_id.to_be_bytes();
        uuid::Builder::from_bytes(bytes).with_version(uuid::Version::SortRand).with_variant(uuid::Variant::RFC4122).into_uuid()
    }

    fn secret_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&self.roll().to_be_bytes()));
        bytes
    }

    fn unit(&self) -> f64 {
        (self.roll() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
