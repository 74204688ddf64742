//! A retry schedule as JSON. Equal schedules have equal text, because the text is what finds the version that is there already.
//!
//! Lengths of time are microseconds. Fractions are text, because reading a JSON number back may differ in its last digit.

use std::time::Duration;

use everhook_core::model::{Backoff, Jitter, RetrySchedule, ScheduleName, Strategy};
use serde::{Deserialize, Serialize};

use super::{duration, micros};

#[derive(Serialize, Deserialize)]
struct ScheduleJson {
    name: String,
    strategy: StrategyJson,
    max_attempts: u32,
    jitter: JitterJson,
    give_up_on: Vec<u16>,
    timeout: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StrategyJson {
    Exponential(BackoffJson),
    Linear(BackoffJson),
    Custom(Vec<i64>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BackoffJson {
    Intervals(Vec<i64>),
    Growing { base: i64, multiplier: String, max: i64 },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum JitterJson {
    Share(String),
    Later(i64),
}

/// Writes a schedule.
pub(crate) fn write(schedule: &RetrySchedule) -> String {
    let json = ScheduleJson {
        name: schedule.name.0.clone(),
        strategy: match &schedule.strategy {
            Strategy::Exponential(backoff) => StrategyJson::Exponential(write_backoff(backoff)),
            Strategy::Linear(backoff) => StrategyJson::Linear(write_backoff(backoff)),
            Strategy::Custom(delays) => StrategyJson::Custom(write_delays(delays)),
        },
        max_attempts: schedule.max_attempts,
        jitter: match schedule.jitter {
            Jitter::Share(share) => JitterJson::Share(share.to_string()),
            Jitter::Later(most) => JitterJson::Later(micros(most)),
        },
        give_up_on: schedule.give_up_on.clone(),
        timeout: schedule.timeout.map(micros),
    };
    serde_json::to_string(&json).expect("a struct of numbers and strings is JSON")
}

/// Reads what [`write`] wrote; `None` if it is not that.
pub(crate) fn read(text: &str) -> Option<RetrySchedule> {
    let json: ScheduleJson = serde_json::from_str(text).ok()?;
    Some(RetrySchedule {
        name: ScheduleName(json.name),
        strategy: match json.strategy {
            StrategyJson::Exponential(backoff) => Strategy::Exponential(read_backoff(backoff)?),
            StrategyJson::Linear(backoff) => Strategy::Linear(read_backoff(backoff)?),
            StrategyJson::Custom(delays) => Strategy::Custom(read_delays(&delays)),
        },
        max_attempts: json.max_attempts,
        jitter: match json.jitter {
            JitterJson::Share(share) => Jitter::Share(share.parse().ok()?),
            JitterJson::Later(most) => Jitter::Later(duration(most)),
        },
        give_up_on: json.give_up_on,
        timeout: json.timeout.map(duration),
    })
}

fn write_backoff(backoff: &Backoff) -> BackoffJson {
    match backoff {
        Backoff::Intervals(delays) => BackoffJson::Intervals(write_delays(delays)),
        Backoff::Growing { base, multiplier, max } => {
            BackoffJson::Growing { base: micros(*base), multiplier: multiplier.to_string(), max: micros(*max) }
        }
    }
}

fn read_backoff(json: BackoffJson) -> Option<Backoff> {
    match json {
        BackoffJson::Intervals(delays) => Some(Backoff::Intervals(read_delays(&delays))),
        BackoffJson::Growing { base, multiplier, max } => {
            Some(Backoff::Growing { base: duration(base), multiplier: multiplier.parse().ok()?, max: duration(max) })
        }
    }
}

fn write_delays(delays: &[Duration]) -> Vec<i64> {
    delays.iter().copied().map(micros).collect()
}

fn read_delays(delays: &[i64]) -> Vec<Duration> {
    delays.iter().copied().map(duration).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_schedule_comes_back_as_it_was() {
        let secs = Duration::from_secs;
        let growing = Backoff::Growing { base: secs(1), multiplier: 0.1 + 0.2, max: secs(300) };
        let strategies = [
            (Strategy::Exponential(growing.clone()), Jitter::Share(0.1)),
            (Strategy::Exponential(Backoff::Intervals(vec![secs(5), secs(300)])), Jitter::Later(Duration::from_millis(500))),
            (Strategy::Linear(growing), Jitter::Share(1.0 / 3.0)),
            (Strategy::Custom(vec![secs(60), Duration::from_micros(7)]), Jitter::Share(0.0)),
        ];
        for (strategy, jitter) in strategies {
            let name = ScheduleName("mine".to_owned());
            let schedule = RetrySchedule { name, strategy, max_attempts: 8, jitter, give_up_on: vec![400, 410], timeout: Some(secs(30)) };
            assert_eq!(read(&write(&schedule)), Some(schedule));
        }
    }
}
