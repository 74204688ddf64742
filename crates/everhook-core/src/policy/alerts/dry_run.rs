//! When a rule would have fired, had it been there. Pure: the minutes of the past come in, and are judged as they would have been.

use super::{AlertReport, Measured, step, windows::minute_number};
use crate::{
    model::{AlertStage, AlertStatus},
    time::Timestamp,
};

/// A minute, in seconds.
const MINUTE: i64 = 60;

/// How many instants are named, of one thing that a rule watches.
pub const FIRED_MAX: usize = 100;

/// When a rule would have fired at one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// How many times, repetitions not counted.
    pub count: u32,
    /// When, the oldest first: the first [`FIRED_MAX`].
    pub at: Vec<Timestamp>,
}

/// Judges every minute from the first to the last, each when it ends.
///
/// `measure` is asked for each minute in order, with the instant at which it is the last.
pub fn replay(blank: &AlertStatus, from: Timestamp, to: Timestamp, mut measure: impl FnMut(u32, Timestamp) -> Measured) -> Fired {
    let rule = blank.rule.clone();
    let (mut status, mut fired) = (blank.clone(), Fired::default());
    for minute in minute_number(from)..minute_number(to) {
        let end = Timestamp::from_secs((i64::from(minute) + 1) * MINUTE - 1);
        let measured = measure(minute, end);
        let Some(next) = step(Some(&rule), &status, measured, end) else { continue };
        if next.report == Some(AlertReport::Fired) && status.stage != AlertStage::Firing {
            fired.count += 1;
            if fired.at.len() < FIRED_MAX {
                fired.at.push(end);
            }
        }
        status = next.status;
    }
    fired
}
