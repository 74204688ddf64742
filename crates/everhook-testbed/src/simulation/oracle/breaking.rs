//! Rules about breakers: what a person forced, and what the store says of the times in which one was not closed.

use std::{collections::BTreeMap, time::Duration};

use everhook_core::{
    model::{OpenPeriod, TripRule},
    time::Timestamp,
};

use super::{Evidence, Requested, limits::APPLIED_WITHIN};
use crate::simulation::{
    log::{EndpointNo, Happening, Reply},
    settings::{Change, Order},
};

/// What a person said.
struct Forced {
    applied_from: Duration,
    until: Option<Timestamp>,
}

pub(super) fn nothing_passes_a_breaker_forced_open(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut forced: BTreeMap<EndpointNo, Forced> = BTreeMap::new();
    for entry in evidence.entries {
        match &entry.what {
            // From the moment that it is asked for, nobody outside knows how it stands.
            Happening::Changing(endpoint, Change::Breaker(_) | Change::Enable) => {
                forced.remove(endpoint);
            }
            Happening::Changed(endpoint, Change::Breaker(Order::ForceOpen(seconds))) => {
                let until = seconds.map(|seconds| entry.at + Duration::from_secs(seconds));
                forced.insert(*endpoint, Forced { applied_from: entry.lived + APPLIED_WITHIN, until });
            }
            Happening::RequestBegan(request) => {
                let is_open = |said: &Forced| said.applied_from < entry.lived && said.until.is_none_or(|until| entry.at < until);
                if forced.get(&request.endpoint).is_some_and(is_open) {
                    return Err(format!("{} went to {}", request.request, request.endpoint));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A time in which a breaker was not closed, as far as no person and no set-back clock interfered.
struct Period {
    endpoint: EndpointNo,
    opened_at: Timestamp,
    until: Timestamp,
    /// Whether a person opened it.
    by_hand: bool,
}

fn periods(evidence: &Evidence<'_>) -> Vec<Period> {
    let whole = |(id, period): &(_, OpenPeriod)| {
        let endpoint = evidence.number_of(*id)?;
        let interferes = |what: &Happening| match what {
            Happening::Changing(changed, Change::Breaker(_) | Change::Enable) => *changed == endpoint,
            Happening::ClockMoved(micros) => *micros < 0,
            _ => false,
        };
        let OpenPeriod { opened_at, closed_at } = *period;
        let interferences = evidence.entries.iter().filter(|entry| entry.at >= opened_at && interferes(&entry.what));
        let (at_once, later): (Vec<_>, Vec<_>) = interferences.map(|entry| entry.at).partition(|at| *at == opened_at);
        let until = closed_at.into_iter().chain(later).min().unwrap_or(Timestamp::FAR_FUTURE);
        Some(Period { endpoint, opened_at, until, by_hand: !at_once.is_empty() })
    };
    evidence.stored.open_periods.iter().filter_map(whole).collect()
}

/// Those that began in a period. What the last moment before an interruption decided is perhaps not written.
fn probes<'e, 'a>(evidence: &'e Evidence<'a>, period: &Period) -> Vec<&'e Requested<'a>> {
    let in_period = |requested: &&Requested<'_>| {
        let at = evidence.entries[requested.begun].at;
        requested.request.endpoint == period.endpoint && period.opened_at < at && at < period.until
    };
    let is_certain = |requested: &&Requested<'_>| {
        let written_by = evidence.written_by(evidence.entries[requested.begun].lived);
        let after = evidence.entries[requested.begun..].iter().take_while(|entry| entry.lived <= written_by);
        !after.into_iter().any(|entry| entry.what.is_interruption())
    };
    evidence.requests.iter().filter(in_period).filter(is_certain).collect()
}

pub(super) fn an_open_breaker_sleeps(evidence: &Evidence<'_>) -> Result<(), String> {
    for period in periods(evidence).iter().filter(|period| !period.by_hand) {
        let awake_at = period.opened_at + evidence.facts(period.endpoint).breaker.sleep;
        for probe in probes(evidence, period) {
            if evidence.entries[probe.begun].at < awake_at {
                return Err(format!("{} went to {}, which was to be left alone until {awake_at}", probe.request.request, period.endpoint));
            }
        }
    }
    Ok(())
}

pub(super) fn only_probes_pass_a_breaker_that_is_not_closed(evidence: &Evidence<'_>) -> Result<(), String> {
    for period in periods(evidence) {
        let most = evidence.facts(period.endpoint).breaker.half_open_max_calls as usize;
        let probes = probes(evidence, &period);
        for probe in &probes {
            let is_under_way = |other: &&&Requested<'_>| other.begun <= probe.begun && other.end.is_none_or(|(end, _)| end > probe.begun);
            if probes.iter().filter(is_under_way).count() > most {
                return Err(format!("{} at {} is one of more than {most} at once", probe.request.request, period.endpoint));
            }
        }
    }
    Ok(())
}

/// Between two tries to recover it sleeps at least as long as at first, so that a time shorter than that holds the probes of one.
pub(super) fn few_probes_decide(evidence: &Evidence<'_>) -> Result<(), String> {
    for period in periods(evidence) {
        let breaker = evidence.facts(period.endpoint).breaker;
        let most = match breaker.rule {
            TripRule::Window { .. } => breaker.half_open_max_calls,
            TripRule::Consecutive { success_threshold, .. } => success_threshold,
        } as usize;
        let counts = |probe: &&Requested<'_>| !matches!(probe.end, Some((_, Reply::Status(429, _))));
        let probes: Vec<_> = probes(evidence, &period).into_iter().filter(counts).collect();
        for first in &probes {
            let life = |probe: &Requested<'_>| evidence.lives[probe.begun];
            let at = |probe: &Requested<'_>| evidence.entries[probe.begun].at;
            let is_of_one_try =
                |probe: &&&Requested<'_>| life(probe) == life(first) && probe.begun >= first.begun && at(probe) < at(first) + breaker.sleep;
            if probes.iter().filter(is_of_one_try).count() > most {
                return Err(format!("{} at {} is the first of more than {most}", first.request.request, period.endpoint));
            }
        }
    }
    Ok(())
}
