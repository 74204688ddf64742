//! The machine's clock and randomness, behind the core's ports. Used by the binary's wiring; tests and simulations bring their own.

use std::{
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use everhook_core::{
    ports::{Clock, Entropy, Offset},
    time::Timestamp,
};
use uuid::Uuid;

/// The longest single sleep. Sleeping is measured by the monotonic clock, so a wall clock that was set forward is noticed this late.
const SLEEP_STEP_MAX: Duration = Duration::from_secs(5);

/// While it is ahead, a clock that was corrected loses one microsecond in so many. Time that goes by half as fast makes waits longer, not endless.
const SLOWED_BY: i64 = 2;

/// The machine's wall clock, or the store's where it was told how far that is. Held still while the machine's is set back.
#[derive(Debug)]
pub struct SystemClock {
    latest_micros: AtomicI64,
    started_at: Instant,
    course: RwLock<ClockOffset>,
}

/// What the machine's calendar says. Only for what people read and for what is far too old: everything else asks the [`Clock`].
pub(crate) fn system_time() -> Timestamp {
    Timestamp::EPOCH + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// How far what is told is from the machine's calendar, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct ClockOffset {
    /// How far it should be.
    aim: i64,
    /// How far it was when that was said.
    from: i64,
    /// When that was, by uptime.
    since: Duration,
}

impl ClockOffset {
    /// Forward at once, back little by little.
    fn offset(&self, uptime: Duration) -> i64 {
        let elapsed = i64::try_from(uptime.saturating_sub(self.since).as_micros()).unwrap_or(i64::MAX);
        self.from.saturating_sub(elapsed / SLOWED_BY).max(self.aim)
    }
}

impl SystemClock {
    /// A clock that starts at the machine's present time.
    pub fn new() -> Self {
        Self { latest_micros: AtomicI64::new(i64::MIN), started_at: Instant::now(), course: RwLock::default() }
    }

    fn offset(&self) -> i64 {
        let course = *self.course.read().unwrap_or_else(PoisonError::into_inner);
        // Nearly always: asking for uptime as well would make each look at the clock twice as long.
        if course.from <= course.aim { course.aim } else { course.offset(self.uptime()) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let micros = self.calendar().as_micros().saturating_add(self.offset());
        Timestamp::from_micros(self.latest_micros.fetch_max(micros, Ordering::Relaxed).max(micros))
    }

    fn calendar(&self) -> Timestamp {
        system_time()
    }

    fn uptime(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// Where nobody has looked at it yet, there is nothing to go back from, and it is right at once.
    fn correct(&self, offset: Offset) {
        let since = self.uptime();
        let was_looked_at = self.latest_micros.load(Ordering::Relaxed) != i64::MIN;
        let mut course = self.course.write().unwrap_or_else(PoisonError::into_inner);
        let from = if was_looked_at { course.offset(since) } else { offset.micros };
        *course = ClockOffset { aim: offset.micros, from, since };
    }

    async fn sleep_for(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    async fn sleep_until(&self, at: Timestamp) {
        loop {
            let remaining = at.since(self.now());
            if remaining.is_zero() {
                return;
            }
            tokio::time::sleep(remaining.min(SLEEP_STEP_MAX)).await;
        }
    }
}

/// Ids, secrets and jitter. Secrets come from the system's generator; ids and jitter from a fast one that it seeded, because nobody gains
/// by guessing them and an id is made for every event and delivery.
#[derive(Debug)]
pub struct SystemEntropy {
    /// The time part of the last id: milliseconds in the upper bits, [`FRACTION_BITS`] of the millisecond below.
    latest_id_time: AtomicU64,
    /// The state of a SplitMix64 generator. It advances by addition, so that threads need no lock.
    splitmix: AtomicU64,
}

/// The 12 bits beside the milliseconds in a UUIDv7 (`rand_a`) hold the fraction of the millisecond, as RFC 9562 §6.2 method 3 has it.
const FRACTION_BITS: u32 = 12;

impl SystemEntropy {
    /// Seeds itself from the system's generator.
    pub fn new() -> Self {
        let mut seed = [0; 8];
        fill_random(&mut seed);
        Self { latest_id_time: AtomicU64::new(0), splitmix: AtomicU64::new(u64::from_ne_bytes(seed)) }
    }

    /// The time part of the next id: that of `now`, or one above the last if the clock did not move on.
    fn next_id_time(&self, now: Timestamp) -> u64 {
        let micros = u64::try_from(now.as_micros()).unwrap_or(0);
        let fraction = ((micros % 1_000) << FRACTION_BITS) / 1_000;
        let wanted = ((micros / 1_000) << FRACTION_BITS) | fraction;
        let mut latest = self.latest_id_time.load(Ordering::Relaxed);
        loop {
            let next = wanted.max(latest + 1);
            match self.latest_id_time.compare_exchange_weak(latest, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return next,
                Err(raced) => latest = raced,
            }
        }
    }

    fn next_u64(&self) -> u64 {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.splitmix.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Default for SystemEntropy {
    fn default() -> Self {
        Self::new()
    }
}

impl Entropy for SystemEntropy {
    fn uuid(&self, now: Timestamp) -> Uuid {
        const VERSION: u128 = 7 << 76;
        const VARIANT: u128 = 0b10 << 62;
        let time = self.next_id_time(now);
        let millis = u128::from(time >> FRACTION_BITS) << 80;
        let fraction = u128::from(time & ((1 << FRACTION_BITS) - 1)) << 64;
        let random = u128::from(self.next_u64() >> 2);
        Uuid::from_u128(millis | VERSION | fraction | VARIANT | random)
    }

    fn secret_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        fill_random(&mut bytes);
        bytes
    }

    fn unit(&self) -> f64 {
        // 53 bits are what an f64 holds exactly.
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn fill_random(bytes: &mut [u8]) {
    aws_lc_rs::rand::fill(bytes).expect("the operating system's random generator does not fail once the machine has started");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_always_rise_even_when_the_clock_stands_still_or_goes_back() {
        let entropy = SystemEntropy::new();
        let noon = Timestamp::from_micros(1_800_000_000_000_700);
        let mut last = Uuid::nil();
        for step in 0..10_000 {
            let now = if step % 3 == 0 { noon - Duration::from_secs(1) } else { noon };
            let id = entropy.uuid(now);
            assert!(id > last, "{id} after {last}");
            last = id;
        }
    }

    #[test]
    fn ids_made_by_many_threads_are_unique_and_rise_in_each() {
        let entropy = SystemEntropy::new();
        let now = Timestamp::from_secs(1_800_000_000);
        let made: Vec<Vec<Uuid>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| (0..5_000).map(|_| entropy.uuid(now)).collect::<Vec<_>>())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.iter().all(|ids| ids.is_sorted()));
        let mut times: Vec<u128> = made.concat().iter().map(|id| id.as_u128() >> 64).collect();
        times.sort_unstable();
        times.dedup();
        assert_eq!(times.len(), 20_000, "the time part alone tells them apart");
    }

    #[test]
    fn an_id_is_a_version_7_uuid_of_its_instant() {
        let id = SystemEntropy::new().uuid(Timestamp::from_micros(1_649_367_553_123_999));
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        assert_eq!(id.get_timestamp().map(|at| at.to_unix()), Some((1_649_367_553, 123_000_000)));
    }

    #[test]
    fn jitter_lies_between_zero_and_one_and_is_spread() {
        let entropy = SystemEntropy::new();
        let units: Vec<f64> = (0..10_000).map(|_| entropy.unit()).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        let mean = units.iter().sum::<f64>() / 10_000.0;
        assert!((0.45..0.55).contains(&mean), "the mean is {mean}");
        assert_ne!(entropy.secret_bytes(), entropy.secret_bytes());
    }

    #[test]
    fn a_corrected_clock_goes_forward_at_once_and_back_by_going_at_half_speed() {
        let course = |from, aim| ClockOffset { from, aim, since: Duration::from_micros(1_000) };
        // What it was and should be, how much later, and what it is then.
        let table = [(0, 0, 500, 0), (0, 70, 0, 70), (-70, 0, 0, 0), (70, 0, 0, 70), (70, 0, 40, 50), (70, 0, 140, 0), (70, 0, 900, 0)];
        for (from, aim, later, expected) in table {
            assert_eq!(course(from, aim).offset(Duration::from_micros(1_000 + later)), expected, "from {from} to {aim} after {later}");
        }
    }

    #[test]
    fn a_corrected_clock_tells_the_stores_time_and_never_goes_back() {
        const HOUR_MICROS: i64 = 3_600_000_000;
        let ahead = |clock: &SystemClock| clock.now().as_micros() - clock.calendar().as_micros();
        let is_about = |found: i64, expected: i64| (found - expected).abs() < 60_000_000;
        let clock = SystemClock::new();
        // A machine that is an hour ahead is set right before anything was stamped.
        clock.correct(Offset { micros: -HOUR_MICROS });
        assert!(is_about(ahead(&clock), -HOUR_MICROS));
        // When it is found behind it follows at once; when it is found ahead, it does not go back.
        clock.correct(Offset { micros: 0 });
        assert!(is_about(ahead(&clock), 0));
        let before = clock.now();
        clock.correct(Offset { micros: -HOUR_MICROS });
        assert!(clock.now() >= before && is_about(ahead(&clock), 0));
    }

    #[tokio::test]
    async fn the_clock_never_goes_back_and_sleeps_until_the_instant_given() {
        let clock = SystemClock::new();
        let start = clock.now();
        clock.sleep_until(start + Duration::from_millis(20)).await;
        assert!(clock.now() >= start + Duration::from_millis(20));
        clock.sleep_until(start).await;
        clock.latest_micros.store(i64::MAX - 1, Ordering::Relaxed);
        assert_eq!(clock.now(), Timestamp::from_micros(i64::MAX - 1), "as if the machine's clock had been set back");
    }
}
