//! What a retry schedule makes of an outage. Asked by `everhook simulate` and by whoever chooses a schedule.
//!
//! It decides nothing itself: each next attempt is the answer of [`crate::policy::retry::next_due`], and whether a request is made at all that of
//! [`crate::policy::breaker::Breaker`], as for deliveries (`outage/lane.rs`). The endpoint fails every request of the outage and takes every one after it, each after
//! the same time; rate limits are left out. Pure: chance comes in as a function.

mod lane;

use std::time::Duration;

use crate::model::{BreakerConfig, RetrySchedule};

/// How many attempts are followed at most, so that any question is answered in a second and some ten megabytes. Of more events than that
/// allows, some are followed, evenly spaced, and each stands for several.
const ATTEMPTS_FOLLOWED_MAX: u64 = 2_000_000;

/// How many events that are followed are published in the time over which a peak is measured: of fewer, chance alone makes peaks.
const PEAK_SAMPLES: f64 = 20.0;

/// How many slices the time from the outage's start to the last attempt is shown in, at most.
const SLICES_MAX: u32 = 48;

/// The lengths that a slice may have, in seconds: those in which people count.
const SLICE_SECS: [u64; 18] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 7 * 86_400];

/// An outage, and what is published in it.
#[derive(Clone, Copy, Debug)]
pub struct Outage<'a> {
    /// The schedule that deliveries are retried by.
    pub schedule: &'a RetrySchedule,
    /// The endpoint's circuit breaker.
    pub breaker: BreakerConfig,
    /// How long the endpoint is down.
    pub down_for: Duration,
    /// How many events are published a second, during the outage and after it.
    pub events_per_second: f64,
    /// How long the endpoint takes to answer, during the outage and after it: it has five slots, so that this bounds how quickly what waited is delivered.
    pub response_time: Duration,
}

/// What becomes of the events that are published while the endpoint is down. Times count from the start of the outage.
#[derive(Clone, Debug, PartialEq)]
pub struct OutageOutcome {
    /// The attempts of an event that is published as the outage begins.
    pub first_event: Vec<Try>,
    /// How many events are published in the outage.
    pub events: u64,
    /// How many of them were followed to know the rest.
    pub followed: u64,
    /// How many are delivered in the end.
    pub delivered: u64,
    /// How many run out of attempts.
    pub dead: u64,
    /// Requests that were made while the endpoint was down.
    pub attempts_in_vain: u64,
    /// How late deliveries are; `None` if none is made.
    pub lateness: Option<Lateness>,
    /// How long one slice of [`OutageOutcome::load`] is.
    pub slice: Duration,
    /// The requests of these events, slice by slice, from the start of the outage to the last of them.
    pub load: Vec<Load>,
    /// How long one slice of [`OutageOutcome::recovery`] is.
    pub recovery_slice: Duration,
    /// The requests of these events, slice by slice, from the end of the outage to the last of them: a finer look at the return.
    pub recovery: Vec<u64>,
    /// The most requests of these events in one second after the endpoint is back, beside what is published then.
    pub peak_per_second: f64,
}

/// One attempt of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// When it is made.
    pub at: Duration,
    /// Whether the endpoint is back by then.
    pub succeeds: bool,
}

/// How long after its publishing an event is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Half of them are delivered by then.
    pub p50: Duration,
    /// All but one in twenty are.
    pub p95: Duration,
    /// All are.
    pub max: Duration,
}

/// The requests of one slice of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Those that fail.
    pub in_vain: u64,
    /// Those that succeed.
    pub delivered: u64,
}

/// Follows the events of an outage to their ends. `unit` gives random numbers from 0 to 1, for jitter.
pub fn simulate(outage: &Outage<'_>, unit: impl FnMut() -> f64) -> OutageOutcome {
    let events = (outage.events_per_second.max(0.0) * outage.down_for.as_secs_f64()).ceil() as u64;
    let followed = events.min(ATTEMPTS_FOLLOWED_MAX / u64::from(outage.schedule.max_attempts.max(1)));
    let weight = if followed == 0 { 0.0 } else { events as f64 / followed as f64 };
    // One event is followed even where none is published: its attempts are shown.
    let mut first_event = Vec::new();
    let mut tracks = Tracks::default();
    lane::follow(outage, followed.max(1), weight, unit, |made| {
        if made.event == 0 {
            first_event.push(made.attempt);
        }
        if followed > 0 {
            tracks.add(&made);
        }
    });
    tracks.sum_up(outage, OutageOutcome { events, followed, ..blank(first_event) }, weight)
}

/// What was seen of the events followed.
#[derive(Default)]
struct Tracks {
    late: Vec<Duration>,
    /// When requests failed, and when they succeeded.
    failed_at: Vec<Duration>,
    succeeded_at: Vec<Duration>,
    dead: u64,
}

impl Tracks {
    fn add(&mut self, made: &lane::SimulatedRequest) {
        if made.attempt.succeeds {
            self.succeeded_at.push(made.attempt.at);
            self.late.push(made.attempt.at.saturating_sub(made.published));
        } else {
            self.failed_at.push(made.attempt.at);
            self.dead += u64::from(made.is_last);
        }
    }

    fn sum_up(mut self, outage: &Outage<'_>, blank: OutageOutcome, weight: f64) -> OutageOutcome {
        self.late.sort_unstable();
        let dead = scaled(self.dead, weight);
        let last = self.failed_at.iter().chain(&self.succeeded_at).chain([&outage.down_for]).max().copied().unwrap_or_default();
        let (slice, recovery_slice) = (slice_for(last), slice_for(last.saturating_sub(outage.down_for)));
        OutageOutcome {
            dead,
            delivered: blank.events - dead,
            attempts_in_vain: scaled(self.failed_at.len() as u64, weight),
            lateness: lateness(&self.late),
            slice,
            load: self.load(slice, last, weight),
            recovery_slice,
            recovery: self.recovery(recovery_slice, outage.down_for, weight),
            peak_per_second: self.peak_per_second(outage, weight),
            ..blank
        }
    }

    fn load(&self, slice: Duration, last: Duration, weight: f64) -> Vec<Load> {
        let index = |at: Duration| slices_in(at, slice);
        let mut load = vec![Load::default(); index(last) + 1];
        self.failed_at.iter().for_each(|at| load[index(*at)].in_vain += 1);
        self.succeeded_at.iter().for_each(|at| load[index(*at)].delivered += 1);
        for slice in &mut load {
            *slice = Load { in_vain: scaled(slice.in_vain, weight), delivered: scaled(slice.delivered, weight) };
        }
        load
    }

    fn recovery(&self, slice: Duration, back_at: Duration, weight: f64) -> Vec<u64> {
        let index = |at: &Duration| slices_in(at.saturating_sub(back_at), slice);
        let mut counts = vec![0; self.succeeded_at.iter().map(index).max().map_or(0, |last| last + 1)];
        self.succeeded_at.iter().for_each(|at| counts[index(at)] += 1);
        counts.into_iter().map(|count| scaled(count, weight)).collect()
    }

    /// The most in any second from the return on. Where each event followed stands for several, in so many seconds that it means something.
    fn peak_per_second(&self, outage: &Outage<'_>, weight: f64) -> f64 {
        let width = if weight > 1.0 { (PEAK_SAMPLES * weight / outage.events_per_second).ceil().max(1.0) } else { 1.0 };
        let width = Duration::from_secs(width as u64);
        let mut slots: Vec<usize> = self.succeeded_at.iter().map(|at| slices_in(at.saturating_sub(outage.down_for), width)).collect();
        slots.sort_unstable();
        let most = slots.chunk_by(|one, next| one == next).map(<[usize]>::len).max().unwrap_or(0);
        most as f64 * weight / width.as_secs_f64()
    }
}

/// How many whole slices a length of time has: also the number of the slice that an instant is in.
fn slices_in(length: Duration, slice: Duration) -> usize {
    usize::try_from(length.as_micros() / slice.as_micros()).unwrap_or(usize::MAX)
}

fn blank(first_event: Vec<Try>) -> OutageOutcome {
    OutageOutcome {
        first_event,
        events: 0,
        followed: 0,
        delivered: 0,
        dead: 0,
        attempts_in_vain: 0,
        lateness: None,
        slice: Duration::ZERO,
        load: vec![],
        recovery_slice: Duration::ZERO,
        recovery: vec![],
        peak_per_second: 0.0,
    }
}

fn scaled(count: u64, weight: f64) -> u64 {
    (count as f64 * weight).round() as u64
}

/// `late` is sorted.
fn lateness(late: &[Duration]) -> Option<Lateness> {
    let max = *late.last()?;
    let quantile = |percent: usize| late[(late.len() * percent).div_ceil(100).saturating_sub(1)];
    Some(Lateness { p50: quantile(50), p95: quantile(95), max })
}

/// The shortest slice that keeps their number within bounds.
fn slice_for(length: Duration) -> Duration {
    let fits = |slice: &Duration| *slice * (SLICES_MAX - 1) >= length;
    let longest = length / (SLICES_MAX - 1) + Duration::from_micros(1);
    SLICE_SECS.into_iter().map(Duration::from_secs).find(fits).unwrap_or(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Jitter, policy::presets};

    const NO_BREAKER: BreakerConfig = BreakerConfig { enabled: false, ..BreakerConfig::window() };

    const HOUR: Duration = Duration::from_secs(3_600);

    fn steady(name: &str) -> RetrySchedule {
        RetrySchedule { jitter: Jitter::Share(0.0), ..presets::preset(name).unwrap() }
    }

    fn after(schedule: &RetrySchedule, down_for: Duration, events_per_second: f64) -> OutageOutcome {
        simulate(&Outage { schedule, breaker: NO_BREAKER, down_for, events_per_second, response_time: Duration::ZERO }, || 0.5)
    }

    #[test]
    fn the_first_event_is_tried_as_its_schedule_says_until_the_endpoint_is_back() {
        let tries = after(&steady("standard"), 3 * HOUR, 0.0).first_event;
        let at: Vec<_> = tries.iter().map(|attempt| attempt.at.as_secs()).collect();
        assert_eq!(at, [0, 5, 305, 2_105, 9_305, 27_305]);
        assert_eq!(tries.iter().map(|attempt| attempt.succeeds).collect::<Vec<_>>(), [false, false, false, false, false, true]);
    }

    #[test]
    fn every_event_is_delivered_or_dead() {
        // schedule, hours down, rate → events, dead: those whose last attempt is due before the endpoint is back
        let cases = [
            ("standard", 3, 1.0, 10_800, 0),
            ("relay", 1, 10.0, 36_000, 35_930),
            ("standard", 100, 0.1, 36_000, 26_070),
            ("standard", 3, 0.0, 0, 0),
        ];
        for (name, hours, rate, events, dead) in cases {
            let aftermath = after(&steady(name), HOUR * hours, rate);
            assert_eq!((aftermath.events, aftermath.dead), (events, dead), "{name}, {hours} h");
            assert_eq!(aftermath.delivered + aftermath.dead, aftermath.events);
            let in_vain: u64 = aftermath.load.iter().map(|slice| slice.in_vain).sum();
            let delivered: u64 = aftermath.load.iter().map(|slice| slice.delivered).sum();
            assert_eq!((in_vain, delivered), (aftermath.attempts_in_vain, aftermath.delivered), "{name}, {hours} h");
            assert_eq!(aftermath.recovery.iter().sum::<u64>(), delivered, "{name}, {hours} h");
            assert!(aftermath.load.len().max(aftermath.recovery.len()) <= SLICES_MAX as usize);
        }
    }

    #[test]
    fn an_open_breaker_spares_the_endpoint_and_its_deliveries() {
        let schedule = steady("standard");
        let with = |breaker, down_for, events_per_second| {
            simulate(&Outage { schedule: &schedule, breaker, down_for, events_per_second, response_time: Duration::ZERO }, || 0.5)
        };
        let (on, off) = (with(BreakerConfig::window(), HOUR, 1.0), with(NO_BREAKER, HOUR, 1.0));
        // It is tried with five events each time that it has slept: after 30, 30, 60, 120 … up to 900 s.
        assert!(on.attempts_in_vain < 150 && off.attempts_in_vain > 10_000, "{} and {}", on.attempts_in_vain, off.attempts_in_vain);
        assert_eq!((on.delivered, on.dead), (3_600, 0));
        // What waits goes out when the breaker closes, instead of when its schedule says.
        let slept = on.recovery.iter().position(|requests| *requests > 0).unwrap() as u32 * on.recovery_slice;
        assert!(slept <= Duration::from_secs(900), "{slept:?}");
        assert!(on.lateness.unwrap().max < off.lateness.unwrap().max);
        // Too few calls for it to judge: as if there were none.
        let (on, off) = (with(BreakerConfig::window(), HOUR, 0.01), with(NO_BREAKER, HOUR, 0.01));
        assert_eq!(on, off);
    }

    #[test]
    fn a_breaker_opens_alike_if_each_event_stands_for_several() {
        let schedule = steady("standard");
        let outage = Outage {
            schedule: &schedule,
            breaker: BreakerConfig::window(),
            down_for: 24 * HOUR,
            events_per_second: 50.0,
            response_time: Duration::ZERO,
        };
        let aftermath = simulate(&outage, || 0.5);
        assert!(aftermath.followed < aftermath.events);
        assert!(aftermath.attempts_in_vain < 50_000, "{} of {}", aftermath.attempts_in_vain, aftermath.events);
    }

    #[test]
    fn lateness_counts_from_publishing_and_only_what_is_delivered() {
        // Down for 8 s: `relay` tries at 0, 1, 3 and 7 s, so that the event of second 0 dies and the others are caught by their last tries.
        let aftermath = after(&steady("relay"), Duration::from_secs(8), 1.0);
        assert_eq!((aftermath.dead, aftermath.attempts_in_vain), (1, 4 + 3 + 3 + 3 + 3 + 2 + 2 + 1));
        let secs = Duration::from_secs;
        assert_eq!(aftermath.lateness, Some(Lateness { p50: secs(7), p95: secs(7), max: secs(7) }));
        // Seconds 8, 9, 10, 11, 8, 9 and 8.
        assert_eq!(aftermath.peak_per_second, 3.0);
        assert_eq!((aftermath.recovery_slice, aftermath.recovery), (secs(1), vec![3, 2, 1, 1]));
    }

    #[test]
    fn of_more_events_than_can_be_followed_each_stands_for_several() {
        let aftermath = after(&steady("standard"), HOUR, 1_000.0);
        assert_eq!((aftermath.events, aftermath.followed), (3_600_000, 250_000));
        let share = aftermath.load.iter().map(|slice| slice.delivered).sum::<u64>() as f64 / 3_600_000.0;
        assert!((0.999..1.001).contains(&share), "{share}");
    }

    #[test]
    fn a_peak_does_not_come_of_following_few() {
        let schedule = presets::preset("patient").unwrap();
        let mut units = [0.1, 0.7, 0.4, 0.9, 0.2, 0.6, 0.0, 0.8, 0.3, 0.5, 1.0].into_iter().cycle();
        let outage = Outage {
            schedule: &schedule,
            breaker: NO_BREAKER,
            down_for: 48 * HOUR,
            events_per_second: 20.0,
            response_time: Duration::ZERO,
        };
        let aftermath = simulate(&outage, || units.next().unwrap());
        let busiest = aftermath.recovery.iter().max().copied().unwrap() as f64 / aftermath.recovery_slice.as_secs_f64();
        assert!((busiest..2.0 * busiest).contains(&aftermath.peak_per_second), "{} of {busiest}", aftermath.peak_per_second);
    }

    #[test]
    fn what_waited_is_delivered_as_quickly_as_five_slots_allow() {
        let schedule = steady("standard");
        let answering = |response_time| Outage {
            schedule: &schedule,
            breaker: BreakerConfig::window(),
            down_for: HOUR,
            events_per_second: 10.0,
            response_time,
        };
        let aftermath = simulate(&answering(Duration::from_millis(50)), || 0.5);
        // Five at a time, twenty times a second.
        assert!((80.0..=110.0).contains(&aftermath.peak_per_second), "{}", aftermath.peak_per_second);
        let at_once = simulate(&answering(Duration::ZERO), || 0.5);
        assert!(at_once.peak_per_second > 10_000.0, "{}", at_once.peak_per_second);
        assert_eq!((aftermath.delivered, aftermath.dead), (at_once.delivered, at_once.dead));
        // 36,000 events take six minutes.
        let longer = aftermath.lateness.unwrap().max - at_once.lateness.unwrap().max;
        assert!(longer < Duration::from_secs(400), "{longer:?}");
        let busy_slices = aftermath.recovery.iter().filter(|requests| **requests > 0).count() as u32;
        assert!(busy_slices * aftermath.recovery_slice >= Duration::from_secs(350), "{busy_slices}");
    }

    #[test]
    fn a_slice_is_a_length_that_people_count_in() {
        for (length, slice) in [(0, 1), (47, 1), (48, 2), (3_600, 120), (86_400, 3_600), (2_000_000, 86_400)] {
            assert_eq!(slice_for(Duration::from_secs(length)), Duration::from_secs(slice), "{length} s");
        }
        let years = Duration::from_secs(u64::from(u32::MAX));
        assert!(slice_for(years) * SLICES_MAX > years, "longer than any length of the list");
    }
}
