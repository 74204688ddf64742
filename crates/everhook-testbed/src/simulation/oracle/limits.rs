//! Rules about how many requests begin: at once and in a minute, at an endpoint and in an organization.

use std::{collections::BTreeMap, time::Duration};

use everhook_core::time::Timestamp;

use super::Evidence;
use crate::simulation::{
    log::{EndpointNo, Entry, Happening},
    settings::{Change, Rate},
};

/// How soon a changed limit is applied.
pub(super) const APPLIED_WITHIN: Duration = Duration::from_secs(1);

/// What the last microsecond brought may be used, and this is more than that.
const TOKEN_PARTS: f64 = 0.001;

pub(super) fn no_more_at_once_than_allowed(evidence: &Evidence<'_>) -> Result<(), String> {
    let limit = |what: &Happening| match what {
        Happening::EndpointMade(endpoint, settings) | Happening::Found(endpoint, settings) => {
            Some((endpoint.0, Some(settings.max_concurrency)))
        }
        Happening::Changing(endpoint, Change::Limit(limit)) | Happening::Changed(endpoint, Change::Limit(limit)) => {
            Some((endpoint.0, Some(*limit)))
        }
        _ => None,
    };
    each_load(evidence, limit, |endpoint| Some(endpoint.0))
}

pub(super) fn no_organization_has_more_at_once(evidence: &Evidence<'_>) -> Result<(), String> {
    let limit = |what: &Happening| match what {
        Happening::Limiting(tenant, limits) | Happening::Limited(tenant, limits) => Some((tenant.0, limits.concurrency)),
        _ => None,
    };
    each_load(evidence, limit, |endpoint| evidence.counted_tenant(endpoint))
}

/// How many requests there may be at once, and how many there are.
struct Load {
    under_way: u32,
    limit: u32,
    /// A limit that was in force before, and until when it may still be applied.
    earlier: (u32, Duration),
}

impl Default for Load {
    fn default() -> Self {
        Self { under_way: 0, limit: u32::MAX, earlier: (0, Duration::ZERO) }
    }
}

impl Load {
    fn limit_to(&mut self, limit: Option<u32>, lived: Duration) {
        self.earlier = (self.limit_at(lived), lived + APPLIED_WITHIN);
        self.limit = limit.unwrap_or(u32::MAX);
    }

    fn limit_at(&self, lived: Duration) -> u32 {
        let (earlier, until) = self.earlier;
        if lived <= until { self.limit.max(earlier) } else { self.limit }
    }
}

/// Counts what is under way for each of those that `limit` speaks of; `whose` says for whom a request counts.
fn each_load(
    evidence: &Evidence<'_>,
    limit: impl Fn(&Happening) -> Option<(usize, Option<u32>)>,
    whose: impl Fn(EndpointNo) -> Option<usize>,
) -> Result<(), String> {
    let mut loads: BTreeMap<usize, Load> = BTreeMap::new();
    for entry in evidence.entries {
        if let Some((of, limit)) = limit(&entry.what) {
            loads.entry(of).or_default().limit_to(limit, entry.lived);
        }
        match &entry.what {
            Happening::RequestEnded(_, endpoint, _) => {
                if let Some(of) = whose(*endpoint) {
                    loads.entry(of).or_default().under_way -= 1;
                }
            }
            Happening::RequestBegan(request) => {
                let Some(of) = whose(request.endpoint) else { continue };
                let load = loads.entry(of).or_default();
                load.under_way += 1;
                let limit = load.limit_at(entry.lived);
                if load.under_way > limit {
                    return Err(format!("{} at {} is the {}th at once, of {limit}", request.request, request.endpoint, load.under_way));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A change of the rate, an enabling and a restart may each begin with a full bucket: what was taken from it is the owner's memory.
pub(super) fn no_endpoint_gets_more_a_minute(evidence: &Evidence<'_>) -> Result<(), String> {
    let rate = |what: &Happening| match what {
        Happening::EndpointMade(endpoint, settings) | Happening::Found(endpoint, settings) => Some((endpoint.0, settings.rate_limit)),
        Happening::Changed(endpoint, Change::Rate(rate)) => Some((endpoint.0, *rate)),
        // From the moment that it is asked for, nobody outside knows which one holds.
        Happening::Changing(endpoint, Change::Rate(_)) => Some((endpoint.0, None)),
        _ => None,
    };
    each_bucket(evidence, rate, |endpoint| Some(endpoint.0))
}

pub(super) fn no_organization_gets_more_a_minute(evidence: &Evidence<'_>) -> Result<(), String> {
    let rate = |what: &Happening| match what {
        Happening::Limiting(tenant, _) => Some((tenant.0, None)),
        Happening::Limited(tenant, limits) => Some((tenant.0, limits.rate)),
        _ => None,
    };
    each_bucket(evidence, rate, |endpoint| evidence.counted_tenant(endpoint))
}

/// What a rate allows at the most.
struct Bucket {
    rate: Option<Rate>,
    tokens: f64,
    as_of: Timestamp,
    /// Until then, in lived time, the rate that was in force before may still be applied.
    applied_from: Duration,
}

impl Bucket {
    fn new(rate: Option<Rate>, entry: &Entry) -> Self {
        let mut bucket = Self { rate, tokens: 0.0, as_of: entry.at, applied_from: entry.lived + APPLIED_WITHIN };
        bucket.refill(entry.at);
        bucket
    }

    fn refill(&mut self, at: Timestamp) {
        (self.tokens, self.as_of) = (self.rate.map_or(0.0, |rate| f64::from(rate.burst)), at);
    }

    /// Whether a request may begin.
    fn take(&mut self, entry: &Entry) -> bool {
        let Some(rate) = self.rate else { return true };
        if entry.lived <= self.applied_from {
            self.refill(entry.at);
            return true;
        }
        let gained = entry.at.since(self.as_of).as_secs_f64() * f64::from(rate.requests) / 60.0;
        self.tokens = (self.tokens + gained).min(f64::from(rate.burst) + TOKEN_PARTS);
        self.as_of = entry.at;
        self.tokens -= 1.0;
        self.tokens >= -TOKEN_PARTS
    }
}

/// The same for rates.
fn each_bucket(
    evidence: &Evidence<'_>,
    rate: impl Fn(&Happening) -> Option<(usize, Option<Rate>)>,
    whose: impl Fn(EndpointNo) -> Option<usize>,
) -> Result<(), String> {
    let mut buckets: BTreeMap<usize, Bucket> = BTreeMap::new();
    for entry in evidence.entries {
        if let Some((of, rate)) = rate(&entry.what)
            && buckets.get(&of).is_none_or(|bucket| bucket.rate != rate)
        {
            buckets.insert(of, Bucket::new(rate, entry));
        }
        match &entry.what {
            interruption if interruption.is_interruption() => buckets.values_mut().for_each(|bucket| bucket.refill(entry.at)),
            Happening::Started => buckets.values_mut().for_each(|bucket| bucket.refill(entry.at)),
            Happening::Changing(endpoint, Change::Enable) => {
                if let Some(bucket) = whose(*endpoint).and_then(|of| buckets.get_mut(&of)) {
                    bucket.refill(entry.at);
                }
            }
            Happening::RequestBegan(request) => {
                let bucket = whose(request.endpoint).and_then(|of| buckets.get_mut(&of));
                if bucket.is_some_and(|bucket| !bucket.take(entry)) {
                    return Err(format!("{} went to {} too early", request.request, request.endpoint));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
