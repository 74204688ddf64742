//! Rules about the attempts of one delivery.

use std::time::Duration;

use everhook_core::{
    model::{Jitter, RetrySchedule},
    policy::retry,
};

use super::{Evidence, Requested};
use crate::simulation::log::Reply;

/// Delays are computed in floating point.
const ROUNDING: Duration = Duration::from_millis(1);

pub(super) fn attempts_stay_within_the_schedule(evidence: &Evidence<'_>) -> Result<(), String> {
    for requested in &evidence.requests {
        let request = requested.request;
        let most = evidence.facts(request.endpoint).schedule.max_attempts;
        if request.attempt == 0 || request.attempt > most {
            return Err(format!("{} is attempt {} of at most {most}", request.request, request.attempt));
        }
    }
    for delivery in &evidence.stored.deliveries {
        let Some(endpoint) = evidence.number_of(delivery.lane_id.endpoint()) else { continue };
        let most = evidence.facts(endpoint).schedule.max_attempts;
        if delivery.attempts > most {
            return Err(format!("{} has {} recorded attempts of at most {most}", delivery.id, delivery.attempts));
        }
    }
    Ok(())
}

pub(super) fn numbers_rise_one_by_one(evidence: &Evidence<'_>) -> Result<(), String> {
    each_pair(evidence, |earlier, later| {
        let (before, after) = (earlier.request.attempt, later.request.attempt);
        if after == before || after == before + 1 {
            return Ok(());
        }
        Err(format!("{} is attempt {after} after {}, attempt {before}", later.request.request, earlier.request.request))
    })
}

pub(super) fn repeats_have_an_excuse(evidence: &Evidence<'_>) -> Result<(), String> {
    each_pair(evidence, |earlier, later| {
        let is_repeat = earlier.request.attempt == later.request.attempt;
        if !is_repeat || evidence.may_be_unwritten(earlier) {
            return Ok(());
        }
        let (later, earlier) = (later.request, earlier.request);
        Err(format!("{} repeats attempt {} of delivery {} ({})", later.request, later.attempt, later.delivery, earlier.request))
    })
}

pub(super) fn nothing_follows_a_success(evidence: &Evidence<'_>) -> Result<(), String> {
    each_pair(evidence, |earlier, later| {
        let succeeded = earlier.end.is_some_and(|(_, reply)| reply.is_success());
        if !succeeded || evidence.may_be_unwritten(earlier) {
            return Ok(());
        }
        Err(format!("{} follows {}, which was answered with a 2xx", later.request.request, earlier.request.request))
    })
}

pub(super) fn retries_wait_their_time(evidence: &Evidence<'_>) -> Result<(), String> {
    each_pair(evidence, |earlier, later| {
        let Some((ended, reply)) = earlier.end.filter(|_| later.request.attempt == earlier.request.attempt + 1) else { return Ok(()) };
        let schedule = &evidence.facts(earlier.request.endpoint).schedule;
        let delay = shortest_delay(schedule, earlier.request.attempt, reply);
        let (ended_at, begun_at) = (evidence.entries[ended].at, evidence.entries[later.begun].at);
        if begun_at + ROUNDING >= ended_at + delay {
            return Ok(());
        }
        Err(format!(
            "{} began {:?} after {} ended, not {delay:?}",
            later.request.request,
            begun_at.since(ended_at),
            earlier.request.request
        ))
    })
}

pub(super) fn recorded_numbers_have_no_gap(evidence: &Evidence<'_>) -> Result<(), String> {
    for delivery in &evidence.stored.deliveries {
        let numbers = evidence.stored.attempts.get(&delivery.id).map_or(&[][..], Vec::as_slice);
        if !numbers.iter().copied().eq(1..=delivery.attempts) {
            return Err(format!("{} counts {} attempts, and {numbers:?} are recorded", delivery.id, delivery.attempts));
        }
    }
    Ok(())
}

/// The soonest that the schedule and the endpoint allow the attempt after this one.
fn shortest_delay(schedule: &RetrySchedule, attempt: u32, reply: Reply) -> Duration {
    let nominal = retry::nominal_delay(schedule, attempt);
    let jittered = match schedule.jitter {
        Jitter::Share(share) => nominal.mul_f64(1.0 - share),
        Jitter::Later(_) => nominal,
    };
    jittered.max(reply.retry_after().unwrap_or_default())
}

/// Looks at each two requests of a delivery that follow each other.
fn each_pair<'a>(evidence: &Evidence<'a>, check: impl Fn(&Requested<'a>, &Requested<'a>) -> Result<(), String>) -> Result<(), String> {
    for requests in evidence.by_delivery() {
        requests.windows(2).try_for_each(|pair| check(&pair[0], &pair[1]))?;
    }
    Ok(())
}
