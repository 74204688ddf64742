//! What a retry schedule makes of an outage. Asked by `everhook simulate` and by whoever chooses a schedule.
//!
//! It decides nothing about retries itself: each next attempt is the answer of [`retry::next_due`], the one that deliveries get. The endpoint
//! fails every request of the outage at once and answers every one after it; circuit breaker, limits and concurrency are left out, so that
//! the load shown is what the schedule asks for. Pure: chance comes in as a function.

use std::time::Duration;

use crate::{
    model::{FailureCategory, RetrySchedule},
    policy::retry::{self, Retry},
    time::Timestamp,
};

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
    /// How long the endpoint is down.
    pub down_for: Duration,
    /// How many events are published a second, during the outage and after it.
    pub events_per_second: f64,
}

/// What becomes of the events that are published while the endpoint is down. Times count from the start of the outage.
#[derive(Clone, Debug, PartialEq)]
pub struct Aftermath {
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
    /// How long one slice of [`Aftermath::load`] is.
    pub slice: Duration,
    /// The requests of these events, slice by slice, from the start of the outage to the last of them.
    pub load: Vec<Load>,
    /// How long one slice of [`Aftermath::recovery`] is.
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
pub fn simulate(outage: &Outage<'_>, mut unit: impl FnMut() -> f64) -> Aftermath {
    let events = (outage.events_per_second.max(0.0) * outage.down_for.as_secs_f64()).ceil() as u64;
    let followed = events.min(ATTEMPTS_FOLLOWED_MAX / u64::from(outage.schedule.max_attempts.max(1)));
    let first_event = attempts(outage, Duration::ZERO, &mut unit);
    let mut tracks = Tracks::default();
    for index in 0..followed {
        let published = outage.down_for.mul_f64(index as f64 / followed as f64);
        tracks.add(published, &attempts(outage, published, &mut unit));
    }
    let weight = if followed == 0 { 0.0 } else { events as f64 / followed as f64 };
    tracks.sum_up(outage, Aftermath { events, followed, ..blank(first_event) }, weight)
}

/// The attempts of an event published at this instant of the outage. There are as many as the schedule allows, at most.
fn attempts(outage: &Outage<'_>, published: Duration, unit: &mut impl FnMut() -> f64) -> Vec<Try> {
    let start = Timestamp::EPOCH;
    let mut tries = Vec::new();
    let mut due = Some(start + published);
    while let Some(now) = due {
        let at = now.since(start);
        let succeeds = at >= outage.down_for;
        tries.push(Try { at, succeeds });
        let attempt_number = u32::try_from(tries.len()).unwrap_or(u32::MAX);
        let failed = Retry { attempt_number, category: FailureCategory::ServerError, retry_after: None, now, unit: unit() };
        due = if succeeds { None } else { retry::next_due(outage.schedule, failed) };
    }
    tries
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
    fn add(&mut self, published: Duration, tries: &[Try]) {
        for attempt in tries {
            if attempt.succeeds {
                self.succeeded_at.push(attempt.at);
                self.late.push(attempt.at.saturating_sub(published));
            } else {
                self.failed_at.push(attempt.at);
            }
        }
        self.dead += u64::from(tries.last().is_some_and(|last| !last.succeeds));
    }

    fn sum_up(mut self, outage: &Outage<'_>, blank: Aftermath, weight: f64) -> Aftermath {
        self.late.sort_unstable();
        let dead = scaled(self.dead, weight);
        let last = self.failed_at.iter().chain(&self.succeeded_at).chain([&outage.down_for]).max().copied().unwrap_or_default();
        let (slice, recovery_slice) = (slice_for(last), slice_for(last.saturating_sub(outage.down_for)));
        Aftermath {
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

fn blank(first_event: Vec<Try>) -> Aftermath {
    Aftermath {
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

    const HOUR: Duration = Duration::from_secs(3_600);

    fn steady(name: &str) -> RetrySchedule {
        RetrySchedule { jitter: Jitter::Share(0.0), ..presets::preset(name).unwrap() }
    }

    fn after(schedule: &RetrySchedule, down_for: Duration, events_per_second: f64) -> Aftermath {
        simulate(&Outage { schedule, down_for, events_per_second }, || 0.5)
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
        let outage = Outage { schedule: &schedule, down_for: 48 * HOUR, events_per_second: 20.0 };
        let aftermath = simulate(&outage, || units.next().unwrap());
        let busiest = aftermath.recovery.iter().max().copied().unwrap() as f64 / aftermath.recovery_slice.as_secs_f64();
        assert!((busiest..2.0 * busiest).contains(&aftermath.peak_per_second), "{} of {busiest}", aftermath.peak_per_second);
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
