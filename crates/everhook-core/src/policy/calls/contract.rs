//! Whether an app conforms to the contract: what each answer of a contract test must be. Pure.
//!
//! Each judgment says in words what was seen: why it is right, or what is wrong.

use std::time::Duration;

use bytes::Bytes;

use super::{
    answer::{self, AppAnswer, FailureKind},
    job::words_of_error,
    shadow,
};
use crate::model::{JobOutcome, Report, Sent};

/// How much time the app is given in the test of its deadline.
pub const SHORT_DEADLINE: Duration = Duration::from_millis(200);
/// What the way there and back may take beyond it.
pub const WAY: Duration = Duration::from_millis(50);

/// How much of the timeout answers may take: with more, callers see the fallback too often.
const P95_SHARE: f64 = 0.8;

/// What an app said when it called back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackSeen {
    /// How its job ended.
    Ended {
        /// What it means.
        outcome: JobOutcome,
        /// The result, or the error: a JSON text.
        data: Bytes,
    },
    /// Something that is no callback, or does not match the schema. Why, in words.
    Refused(String),
}

/// Right, or wrong, in words.
pub type Judgment = Result<String, String>;

/// A good request must have a good answer. `misfit` is what the schema says about the data.
pub fn of_answer(report: &Report, misfit: Option<String>) -> Judgment {
    match (answer::read(report), misfit) {
        (AppAnswer::Success { .. }, None) => Ok("answered as the contract asks for".to_owned()),
        (AppAnswer::Success { .. }, Some(misfit)) => Err(misfit),
        (AppAnswer::Failure(failure), _) => Err(failure.reason),
    }
}

/// A request that the platform did not sign must be refused, with a 4xx.
pub fn of_forgery(report: &Report) -> Judgment {
    match (status(report), answer::read(report)) {
        (_, AppAnswer::Success { .. }) => {
            Err("it was answered as if the platform had signed it: verify the signature before anything else".to_owned())
        }
        (Some(status @ 400..500), _) => Ok(format!("refused with {status}")),
        (_, AppAnswer::Failure(failure)) => Err(format!("it must be refused with a 4xx, such as 401: {}", failure.reason)),
    }
}

/// A body that is no JSON must be refused too, by an app that stays well.
pub fn of_garbage(report: &Report) -> Judgment {
    match (status(report), answer::read(report)) {
        (_, AppAnswer::Success { .. }) => Err("a body that is not JSON was answered with `success: true`".to_owned()),
        (Some(status @ 400..500), _) => Ok(format!("refused with {status}")),
        (Some(status @ 200..300), AppAnswer::Failure(failure)) if failure.kind == FailureKind::AppError => {
            Ok(format!("refused with {status} and `success: false`"))
        }
        (_, AppAnswer::Failure(failure)) => Err(format!("it must be refused with a 4xx or `success: false`: {}", failure.reason)),
    }
}

/// With little time, an app must answer in that time, whatever it can answer then.
pub fn of_deadline(report: &Report) -> Judgment {
    let took = report.duration.as_millis();
    let limit = SHORT_DEADLINE.as_millis();
    match answer::read(report) {
        AppAnswer::Failure(failure) if failure.kind != FailureKind::AppError => {
            Err(format!("with `X-Timeout-Ms: {limit}` there was no answer in time: {}", failure.reason))
        }
        _ if report.duration > SHORT_DEADLINE + WAY => {
            Err(format!("with `X-Timeout-Ms: {limit}` the answer took {took} ms: answer in time, if need be with `success: false`"))
        }
        _ => Ok(format!("answered after {took} ms")),
    }
}

/// An app that answers later must take a good request over, with a 2xx.
pub fn of_take_over(report: &Report) -> Judgment {
    match (status(report), answer::read(report)) {
        (Some(200..300), AppAnswer::Failure(failure)) if failure.kind == FailureKind::AppError => {
            Err(format!("it was not taken over: {}", failure.reason))
        }
        (Some(status @ 200..300), _) => Ok(format!("taken over with {status}")),
        (_, AppAnswer::Failure(failure)) => Err(failure.reason),
        (_, AppAnswer::Success { .. }) => Err("it must be taken over with a 2xx".to_owned()),
    }
}

/// With little time, an app that answers later must take over, or refuse, in that time: the work comes after the answer.
pub fn of_short_take_over(report: &Report) -> Judgment {
    let (took, limit) = (report.duration.as_millis(), SHORT_DEADLINE.as_millis());
    match (status(report), answer::read(report)) {
        (None, AppAnswer::Failure(failure)) => Err(format!("with `X-Timeout-Ms: {limit}` there was no answer in time: {}", failure.reason)),
        _ if report.duration > SHORT_DEADLINE + WAY => {
            Err(format!("with `X-Timeout-Ms: {limit}` the answer took {took} ms: take the job over first, and do the work afterwards"))
        }
        _ => Ok(format!("answered after {took} ms")),
    }
}

/// An app that took a job over must call back, with its result.
pub fn of_callback(seen: Option<&CallbackSeen>, waited: Duration) -> Judgment {
    match seen {
        Some(CallbackSeen::Ended { outcome: JobOutcome::Completed, .. }) => {
            Ok(format!("called back with the result after {} ms", waited.as_millis()))
        }
        Some(CallbackSeen::Ended { data, .. }) => Err(format!("it called back with `success: false`: {}", words_of_error(data))),
        Some(CallbackSeen::Refused(reason)) => Err(format!("its callback was refused: {reason}")),
        None => Err(format!("it took the job over and did not call back within {} ms", waited.as_millis())),
    }
}

/// The same job twice must end in the same way: a callback that says something else is refused.
pub fn of_second_callback(first: &CallbackSeen, second: Option<&CallbackSeen>) -> Judgment {
    let CallbackSeen::Ended { outcome: one, data: first } = first else { return Err("its first callback was refused".to_owned()) };
    match second {
        None => Ok("there was no second callback".to_owned()),
        Some(CallbackSeen::Refused(reason)) => Err(format!("its second callback was refused: {reason}")),
        Some(CallbackSeen::Ended { outcome, .. }) if outcome != one => {
            Err("the second callback reported another end: remember what you reported".to_owned())
        }
        Some(CallbackSeen::Ended { data, .. }) => match shadow::differences(first, data).first() {
            None => Ok("the second callback reported the same".to_owned()),
            Some(place) => Err(format!("the second callback reported another result, at `{place}`: remember what you reported")),
        },
    }
}

/// Nineteen in twenty answers must leave a part of the timeout.
pub fn of_times(times: &[Duration], timeout: Duration) -> (Judgment, Duration) {
    let p95 = p95(times);
    let (count, limit) = (times.len(), timeout.mul_f64(P95_SHARE));
    let seen = format!("p95 of {count} answers: {:.1} ms", p95.as_secs_f64() * 1e3);
    let judgment = if p95 <= limit {
        Ok(seen)
    } else {
        Err(format!("{seen}, more than 80 % of the timeout of {} ms: callers often see the fallback", timeout.as_millis()))
    };
    (judgment, p95)
}

/// The time that nineteen in twenty do not exceed.
fn p95(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * 95).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// The same request twice must have the same answer.
pub fn of_repeat(first: &Report, second: &Report) -> Judgment {
    match (answer::read(first), answer::read(second)) {
        (AppAnswer::Success { data: one, .. }, AppAnswer::Success { data: other, .. }) => match shadow::differences(&one, &other).first() {
            None => Ok("the second answer is the same".to_owned()),
            Some(place) => Err(format!(
                "a second request with the same `X-Request-ID` was answered otherwise, at `{place}`: remember what you answered"
            )),
        },
        (AppAnswer::Failure(failure), _) | (_, AppAnswer::Failure(failure)) => Err(failure.reason),
    }
}

/// The health page must answer with a 2xx.
pub fn of_health(report: &Report) -> Judgment {
    match (status(report), &report.sent) {
        (Some(status @ 200..300), _) => Ok(format!("answered {status}")),
        (Some(status), _) => Err(format!("answered {status}: it must be a 2xx")),
        (None, Sent::Failed { error, .. } | Sent::Refused { error, .. } | Sent::OutOfResources { error }) => Err(error.clone()),
        (None, _) => Err("was not answered".to_owned()),
    }
}

fn status(report: &Report) -> Option<u16> {
    match &report.sent {
        Sent::Answered(response) => Some(response.status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p95_is_an_answer_that_came() {
        let ms = Duration::from_millis;
        let table = [(1, 1), (2, 2), (10, 10), (19, 19), (20, 19), (100, 95)];
        for (count, expected) in table {
            let times: Vec<_> = (1..=count).rev().map(ms).collect();
            assert_eq!(p95(&times), ms(expected), "{count}");
        }
        assert_eq!(p95(&[]), ms(0));
        assert!(of_times(&[ms(80); 3], ms(100)).0.is_ok());
        let (judgment, p95) = of_times(&[ms(10), ms(81)], ms(100));
        assert_eq!(p95, ms(81));
        assert_eq!(
            judgment.unwrap_err(),
            "p95 of 2 answers: 81.0 ms, more than 80 % of the timeout of 100 ms: callers often see the fallback"
        );
    }

    #[test]
    fn a_second_callback_is_harmless_if_it_says_the_same() {
        use JobOutcome::{Completed, Failed};
        let ended = |outcome, data: &'static str| CallbackSeen::Ended { outcome, data: Bytes::from_static(data.as_bytes()) };
        let first = ended(Completed, r#"{"rows": 7}"#);
        let table = [
            (None, true),
            (Some(ended(Completed, r#"{ "rows" : 7 }"#)), true),
            (Some(ended(Completed, r#"{"rows": 8}"#)), false),
            (Some(ended(Failed, "{}")), false),
            (Some(CallbackSeen::Refused("no".to_owned())), false),
        ];
        for (second, is_good) in table {
            assert_eq!(of_second_callback(&first, second.as_ref()).is_ok(), is_good, "{second:?}");
        }
        assert!(of_callback(Some(&first), Duration::ZERO).is_ok());
        for bad in [None, Some(ended(Failed, r#"{"code": "X"}"#)), Some(CallbackSeen::Refused("no".to_owned()))] {
            assert!(of_callback(bad.as_ref(), Duration::ZERO).is_err(), "{bad:?}");
        }
    }
}
