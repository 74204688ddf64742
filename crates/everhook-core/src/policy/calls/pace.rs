//! How long the answers of a capability take beside how long they take at best: what of it is waiting in the app's queue. Pure.
//!
//! Each capability is compared with itself only. Times of different functions say nothing about each other, but the share of them that is waiting does,
//! so that the capabilities of one app can share a limit (decision 0059).

use std::time::Duration;

use crate::time::Timestamp;

/// How long the best time is believed. An app that has become slower for good would else be throttled for ever.
const BEST_GOOD_FOR: Duration = Duration::from_secs(60);
/// How long the quickest answer is believed. While the machine is busy no answer is quick, which may go on for long.
const QUICKEST_GOOD_FOR: Duration = Duration::from_secs(3_600);
/// Times are averaged over about so many answers, so that one slow answer says little.
const SMOOTHED_OVER: f64 = 8.0;
/// How far times usually are from their average is found out over about so many answers.
const SPREAD_SMOOTHED_OVER: f64 = 64.0;
/// An answer counts for at most so many times the average: one of the tail is no queue, and many of them still raise the average quickly.
const OUTLIER: f64 = 3.0;
/// Of times that vary by themselves, the shortest average is shorter than the usual one by about so much of their spread. That is no queue.
const LUCK: f64 = 10.0;
/// What times vary by, as a share of the average, without being said to vary: an app that always takes as long is watched closely.
const SPREAD_FREE: f64 = 0.2;
/// What the average may be above the best one without a queue, as a share of it: less is measured by nobody.
const TOLERANCE: f64 = 0.03;
/// Where an app is quicker than this in seconds, its times depend on the network, the scheduler and this machine more than on a queue of it.
const QUICK: f64 = 0.005;
/// What an app that answers at once may take without being said to queue, in seconds. It shrinks to nothing for apps that take [`QUICK`] at least.
const NOISE: f64 = 0.050;

/// How long answers take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// The smoothed time of the last answers, in seconds as all times here.
    average: Option<f64>,
    /// How far they are from it, smoothed.
    spread: f64,
    /// How many there were.
    answers: u32,
    /// The shortest average of this minute and of the last one.
    best: Option<Best>,
    /// The shortest time of this hour and of the last one.
    quickest: Option<Best>,
    /// The smallest spread of the same minutes as the best average: a queue makes times vary, too, and that must not excuse it.
    calmest: Option<Best>,
}

#[derive(Clone, Copy, Debug)]
struct Best {
    since: Timestamp,
    current: f64,
    previous: f64,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Which share of the time answers wait before the app works on them, from 0 to 1.
    pub waiting: f64,
    /// Whether the best time is to be found out again. Whoever keeps the app busy lets its queue run empty for that.
    pub is_outdated: bool,
}

impl Pace {
    /// An answer took so long.
    pub fn answered(&mut self, took: Duration, now: Timestamp) -> Reading {
        let took = took.as_secs_f64().max(1e-6);
        let before = self.average.unwrap_or(took);
        let counted = took.min(before * OUTLIER);
        let average = before + (counted - before) / SMOOTHED_OVER;
        self.average = Some(average);
        self.answers = self.answers.saturating_add(1);
        self.spread += ((counted - before).abs() - self.spread) / SPREAD_SMOOTHED_OVER.min(f64::from(self.answers));
        let (best, is_outdated) = Best::note(&mut self.best, average, BEST_GOOD_FOR, now);
        let (quickest, _) = Best::note(&mut self.quickest, took, QUICKEST_GOOD_FOR, now);
        let calmest = self.calmest(self.spread / average, now);
        let luck = LUCK * (calmest - SPREAD_FREE).max(0.0) * average;
        let without_queue = (best * (1.0 + TOLERANCE) + luck).max(QUICK).max(NOISE * (1.0 - quickest / QUICK));
        Reading { waiting: (1.0 - without_queue / average).max(0.0), is_outdated }
    }

    /// The smallest spread of the last one to two minutes. What few answers vary by is by chance.
    fn calmest(&mut self, spread: f64, now: Timestamp) -> f64 {
        if f64::from(self.answers) < SPREAD_SMOOTHED_OVER {
            return 0.0;
        }
        Best::note(&mut self.calmest, spread, BEST_GOOD_FOR, now).0
    }
}

impl Best {
    /// The least of the last one to two times so long, and whether another one has just begun.
    fn note(kept: &mut Option<Self>, value: f64, good_for: Duration, now: Timestamp) -> (f64, bool) {
        let best = kept.get_or_insert(Self { since: now, current: value, previous: value });
        let is_over = now.since(best.since) >= good_for;
        if is_over {
            *best = Self { since: now, current: value, previous: best.current };
        }
        best.current = best.current.min(value);
        (best.current.min(best.previous), is_over)
    }
}
