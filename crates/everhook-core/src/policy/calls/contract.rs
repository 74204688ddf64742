//! Whether an app conforms to the contract: what each answer of a contract test must be. Pure.
//!
//! Each judgment says in words what was seen: why it is right, or what is wrong.

use std::time::Duration;

use super::{
    answer::{self, AppAnswer, FailureKind},
    shadow,
};
use crate::model::{Report, Sent};

/// How much time the app is given in the test of its deadline.
pub const SHORT_DEADLINE: Duration = Duration::from_millis(200);
/// What the way there and back may take beyond it.
pub const WAY: Duration = Duration::from_millis(50);

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
