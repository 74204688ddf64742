//! The fallback of a capability: what is answered instead, step by step.

use std::time::Duration;

use serde_json::Value;

use super::fields::{Faults, Fields};
use crate::{
    model::{CacheAges, FallbackStep, PickCount},
    policy::calls::pick::PICKS_MAX,
};

/// How many steps a fallback may have: one of each kind, and a second URL.
const STEPS_MAX: usize = 8;
/// The largest answer that a manifest may hold.
const STATIC_BYTES_MAX: usize = 64 * 1024;
/// How long the answer of a cache is good for if the step does not say.
const CACHE_TTL: Duration = Duration::from_secs(5 * 60);
const CACHE_TTL_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(7 * 86_400));
/// How long another URL may take if the step does not say.
const HTTP_TIMEOUT: Duration = Duration::from_secs(1);
const HTTP_TIMEOUT_RANGE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));
/// How long a call waits for a person if the step does not say: over a weekend and a holiday.
const APPROVAL_EXPIRY: Duration = Duration::from_secs(7 * 86_400);
const APPROVAL_EXPIRY_RANGE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(90 * 86_400));
/// The longest pointer into a payload.
const POINTER_BYTES_MAX: usize = 256;

/// Reads the steps; and what a step `cache` says about ages, if there is one.
pub(super) fn read_fallback(
    fields: &mut Fields<'_>,
    check_url: &dyn Fn(&str) -> Result<(), String>,
    faults: &mut Faults,
) -> (Vec<FallbackStep>, Option<CacheAges>) {
    let path = fields.path_of("fallback");
    let Some(value) = fields.take("fallback") else { return (Vec::new(), None) };
    let Some(listed) = value.as_array().filter(|listed| listed.len() <= STEPS_MAX) else {
        faults.add(path, format!("must be a list of at most {STEPS_MAX} steps"));
        return (Vec::new(), None);
    };
    let (mut steps, mut ages) = (Vec::new(), None);
    for (place, value) in listed.iter().enumerate() {
        let path = format!("{path}[{place}]");
        let Some(mut step) = Fields::read(&path, value, faults) else { continue };
        let read = match step.text("type", faults).as_deref() {
            Some("cache") => {
                ages = Some(read_ages(&mut step, faults));
                Some(FallbackStep::Cache)
            }
            Some("default") => read_default(&mut step, check_url, faults),
            Some("error") => Some(FallbackStep::Error),
            Some("queue") => Some(FallbackStep::Queue),
            Some("manual") => Some(read_manual(&mut step, faults)),
            _ => {
                faults.add(step.path_of("type"), "must be `cache`, `default`, `queue`, `manual` or `error`");
                continue;
            }
        };
        step.end(faults);
        if let Some(last @ (FallbackStep::Error | FallbackStep::Queue | FallbackStep::Manual { .. })) = steps.last() {
            faults.add(path, format!("cannot follow the step `{}`, which always answers", last.name()));
        }
        if matches!(read, Some(FallbackStep::Cache)) && steps.contains(&FallbackStep::Cache) {
            faults.add(step_path(fields, place), "is a second step `cache`");
        }
        steps.extend(read);
    }
    (steps, ages)
}

fn step_path(fields: &Fields<'_>, place: usize) -> String {
    format!("{}[{place}]", fields.path_of("fallback"))
}

fn read_ages(step: &mut Fields<'_>, faults: &mut Faults) -> CacheAges {
    let ttl = step.duration("ttl", faults).unwrap_or(CACHE_TTL);
    step.in_range("ttl", ttl, CACHE_TTL_RANGE, faults);
    match step.text("mode", faults).as_deref() {
        None | Some("fallback") => CacheAges { stale_if_error: ttl, ..CacheAges::default() },
        Some("first") => CacheAges { fresh: ttl, ..CacheAges::default() },
        Some(_) => {
            faults.add(step.path_of("mode"), "must be `fallback` or `first`");
            CacheAges::default()
        }
    }
}

fn read_manual(step: &mut Fields<'_>, faults: &mut Faults) -> FallbackStep {
    let expires_after = step.duration("expires_after", faults).unwrap_or(APPROVAL_EXPIRY);
    step.in_range("expires_after", expires_after, APPROVAL_EXPIRY_RANGE, faults);
    FallbackStep::Manual { expires_after }
}

fn read_default(step: &mut Fields<'_>, check_url: &dyn Fn(&str) -> Result<(), String>, faults: &mut Faults) -> Option<FallbackStep> {
    let found = (step.take("static"), step.object("random_pick", faults), step.object("http", faults));
    match found {
        (Some(value), None, None) => read_static(step, value, faults),
        (None, Some(pick), None) => read_pick(pick, faults),
        (None, None, Some(http)) => read_http(http, check_url, faults),
        _ => {
            faults.add(step.path_of("type"), "`default` needs one of `static`, `random_pick` and `http`");
            None
        }
    }
}

fn read_static(step: &Fields<'_>, value: &Value, faults: &mut Faults) -> Option<FallbackStep> {
    let text = value.to_string();
    if text.len() > STATIC_BYTES_MAX {
        faults.add(step.path_of("static"), format!("must be at most {STATIC_BYTES_MAX} bytes, and has {}", text.len()));
        return None;
    }
    Some(FallbackStep::Static(text))
}

fn read_pick(mut pick: Fields<'_>, faults: &mut Faults) -> Option<FallbackStep> {
    let from = pick.text("from", faults);
    if !from.as_deref().is_some_and(is_pointer) {
        faults.add(pick.path_of("from"), "must be a JSON pointer to a list in the payload (`/participants`)");
    }
    let count = match pick.take("count") {
        None => Some(PickCount::Number(1)),
        Some(Value::String(pointer)) if is_pointer(pointer) => Some(PickCount::Pointer(pointer.clone())),
        Some(number) => {
            let number = number.as_u64().filter(|number| (1..=u64::from(PICKS_MAX)).contains(number));
            number.and_then(|number| u32::try_from(number).ok()).map(PickCount::Number)
        }
    };
    if count.is_none() {
        faults.add(pick.path_of("count"), format!("must be 1 to {PICKS_MAX}, or a JSON pointer into the payload (`/prizes`)"));
    }
    pick.end(faults);
    Some(FallbackStep::RandomPick { from: from?, count: count? })
}

fn is_pointer(text: &str) -> bool {
    (text.is_empty() || text.starts_with('/')) && text.len() <= POINTER_BYTES_MAX
}

fn read_http(mut http: Fields<'_>, check_url: &dyn Fn(&str) -> Result<(), String>, faults: &mut Faults) -> Option<FallbackStep> {
    let url = http.text("url", faults);
    match &url {
        None => faults.add(http.path_of("url"), "is required"),
        Some(url) => {
            if let Err(reason) = check_url(url) {
                faults.add(http.path_of("url"), reason);
            } else if !url.starts_with("http") {
                faults.add(http.path_of("url"), "must begin with `https://`");
            }
        }
    }
    let timeout = http.duration("timeout_ms", faults).unwrap_or(HTTP_TIMEOUT);
    http.in_range("timeout_ms", timeout, HTTP_TIMEOUT_RANGE, faults);
    http.end(faults);
    Some(FallbackStep::Http { url: url?, timeout })
}
