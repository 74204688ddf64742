//! Reads a manifest and names every fault at once. Used when one is put, and when one that was kept is opened. Pure.
//!
//! Names may be written `like_this` or `likeThis`, and `webhooks` is understood for `capabilities`. What this version cannot do is refused, never ignored.

mod fallback;
mod fields;
mod settings;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

pub use self::fields::ManifestFault;
use self::{
    fallback::read_fallback,
    fields::{Faults, Fields},
    settings::{read_breaker, read_cache, read_canary, read_hedge, read_job_retry, read_retry},
};
use super::timeouts::TimeoutsByName;
use crate::{
    model::{BreakerConfig, CallMode, Capability, CapabilityName, EmailAddress, FallbackStep, HealthPath, Manifest},
    policy::presets::JobRetry,
};

/// How many capabilities an application may have: each has a breaker and counts in memory.
pub const CAPABILITIES_MAX: usize = 100;
/// The longest path of a capability, and of a health page.
const PATH_BYTES_MAX: usize = 1_024;
/// The longest base URL of an application: with any path behind it, it is a URL that may be called.
const BASE_URL_BYTES_MAX: usize = 1_000;
/// How long a call may be allowed to take: somebody waits for it.
const TIMEOUT_RANGE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// How long an app may take to call back about a job.
const ASYNC_TIMEOUT_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(86_400));
/// What jobs do not use.
const ONLY_FOR_CALLERS_WHO_WAIT: [&str; 7] = ["fallback", "hedge", "cache", "circuit_breaker", "max_concurrency", "idempotent", "canary"];
/// How many requests an app is sent at once if the manifest does not say, and at most.
const CONCURRENCY_DEFAULT: u32 = 100;
const CONCURRENCY_MAX: u32 = 500;
/// How many bytes the schemas of one manifest may have together. What they may take compiled is bounded where that is done.
const SCHEMAS_BYTES_MAX: usize = 64 * 1024;

/// What holds where a manifest does not say: the operator's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ManifestDefaults {
    /// How long capabilities may take.
    pub timeouts: TimeoutsByName,
    /// When apps are left alone.
    pub breaker: BreakerConfig,
    /// How jobs are retried.
    pub job_retry: JobRetry,
}

impl Default for ManifestDefaults {
    fn default() -> Self {
        // One probe at a time: whoever else calls meanwhile has a fallback at once.
        let breaker = BreakerConfig { half_open_max_calls: 1, ..BreakerConfig::consecutive() };
        Self { timeouts: TimeoutsByName::default(), breaker, job_retry: JobRetry::default() }
    }
}

/// Reads a manifest of an application that has this base URL itself. `check_url` says what is wrong with a URL, if something is.
///
/// # Errors
/// Every fault, up to a bound.
pub fn read(
    document: &Value,
    base_url_of_application: Option<&str>,
    defaults: &ManifestDefaults,
    check_url: &dyn Fn(&str) -> Result<(), String>,
) -> Result<Manifest, Vec<ManifestFault>> {
    let mut faults = Faults::default();
    let manifest = read_manifest(document, base_url_of_application, defaults, check_url, &mut faults);
    faults.none_or(manifest)
}

fn read_manifest(
    document: &Value,
    base_url_of_application: Option<&str>,
    defaults: &ManifestDefaults,
    check_url: &dyn Fn(&str) -> Result<(), String>,
    faults: &mut Faults,
) -> Option<Manifest> {
    let mut fields = Fields::read("", document, faults)?;
    let own_base_url = fields.text("base_url", faults);
    if let Some(reason) = own_base_url.as_deref().and_then(|base_url| fault_of_base_url(base_url, check_url)) {
        faults.add("base_url", reason);
    }
    let base_url = own_base_url.as_deref().or(base_url_of_application);
    let owner_email = read_owner_email(&mut fields, faults);
    let health_path = read_health_path(document, &mut fields, base_url, check_url, faults);
    let (webhooks, named) = (fields.take("webhooks"), fields.take("capabilities"));
    let listed = match (named, webhooks) {
        (Some(_), Some(_)) => {
            faults.add("webhooks", "means the same as `capabilities`: use one of them");
            None
        }
        (one, other) => one.or(other),
    };
    fields.end(faults);
    let capabilities = read_capabilities(listed?, defaults, base_url, check_url, faults);
    Some(Manifest { base_url: own_base_url, owner_email, health_path, capabilities })
}

/// What is wrong with the base URL that an application has itself, if something is.
pub fn fault_of_application_base_url(base_url: &str, check_url: &dyn Fn(&str) -> Result<(), String>) -> Option<String> {
    let too_long = || format!("must be at most {BASE_URL_BYTES_MAX} bytes long: paths are appended to it");
    fault_of_base_url(base_url, check_url).or_else(|| (base_url.len() > BASE_URL_BYTES_MAX).then(too_long))
}

fn fault_of_base_url(base_url: &str, check_url: &dyn Fn(&str) -> Result<(), String>) -> Option<String> {
    match check_url(base_url) {
        Err(reason) => Some(reason),
        Ok(()) if base_url.contains(['?', '#']) => Some("must not have a query or a fragment: paths are appended to it".to_owned()),
        Ok(()) if !base_url.starts_with("http") => Some("must begin with `https://`".to_owned()),
        Ok(()) => None,
    }
}

fn read_owner_email(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<EmailAddress> {
    let read = EmailAddress::parse(&fields.text("owner_email", faults)?);
    read.map_err(|fault| faults.add("owner_email", fault.to_string())).ok()
}

/// Where the health of the app is checked. `null` says that it has no such page, which is not the same as to say nothing.
fn read_health_path(
    document: &Value,
    fields: &mut Fields<'_>,
    base_url: Option<&str>,
    check_url: &dyn Fn(&str) -> Result<(), String>,
    faults: &mut Faults,
) -> HealthPath {
    let Some(path) = fields.text("health_path", faults) else {
        let is_off = ["health_path", "healthPath"].iter().any(|name| document.get(name).is_some_and(Value::is_null));
        return if is_off { HealthPath::Off } else { HealthPath::OfApplication };
    };
    let checked = base_url.map_or(Ok(()), |base_url| check_url(&url_of(base_url, &path)));
    if let Some(reason) = fault_of_path(&path).map(str::to_owned).or(checked.err()) {
        faults.add("health_path", reason);
    }
    HealthPath::At(path)
}

/// The URL of a capability.
pub fn url_of(base_url: &str, path: &str) -> String {
    format!("{}{path}", base_url.trim_end_matches('/'))
}

fn read_capabilities(
    listed: &Value,
    defaults: &ManifestDefaults,
    base_url: Option<&str>,
    check_url: &dyn Fn(&str) -> Result<(), String>,
    faults: &mut Faults,
) -> BTreeMap<CapabilityName, Capability> {
    let mut capabilities = BTreeMap::new();
    let Some(listed) = listed.as_object() else {
        faults.add("capabilities", "must be an object: a capability's name, and what it is");
        return capabilities;
    };
    if listed.len() > CAPABILITIES_MAX {
        faults.add("capabilities", format!("must have at most {CAPABILITIES_MAX}, and has {}", listed.len()));
        return capabilities;
    }
    for (name, value) in listed {
        let path = format!("capabilities.{name}");
        let Some(name) = CapabilityName::parse(name) else {
            faults.add(path, "must have a name of 1 to 100 of the characters A-Z a-z 0-9 _ . : -");
            continue;
        };
        if let Some(capability) = read_capability(&path, &name, value, defaults, check_url, faults) {
            if let Some(Err(reason)) = base_url.map(|base_url| check_url(&url_of(base_url, &capability.path))) {
                faults.add(format!("{path}.path"), reason);
            }
            capabilities.insert(name, capability);
        }
    }
    let schemas: usize = capabilities.values().filter_map(|capability| capability.response_schema.as_ref()).map(String::len).sum();
    if schemas > SCHEMAS_BYTES_MAX {
        faults
            .add("capabilities", format!("must have at most {SCHEMAS_BYTES_MAX} bytes of `response_schema` together, and have {schemas}"));
    }
    capabilities
}

fn read_capability(
    path: &str,
    name: &CapabilityName,
    value: &Value,
    defaults: &ManifestDefaults,
    check_url: &dyn Fn(&str) -> Result<(), String>,
    faults: &mut Faults,
) -> Option<Capability> {
    let mut fields = Fields::read(path, value, faults)?;
    let url_path = fields.text("path", faults);
    check_path(&fields, url_path.as_deref(), faults);
    let is_async = fields.flag("async", faults).unwrap_or(false);
    let default_timeout = || if is_async { defaults.timeouts.async_job } else { defaults.timeouts.of(name.as_str()) };
    let timeout = fields.duration("timeout", faults).unwrap_or_else(default_timeout);
    fields.in_range("timeout", timeout, if is_async { ASYNC_TIMEOUT_RANGE } else { TIMEOUT_RANGE }, faults);
    if is_async {
        for name in ONLY_FOR_CALLERS_WHO_WAIT {
            if fields.take(name).is_some() {
                faults.add(fields.path_of(name), "cannot be set with `async`: nobody waits for the answer to a job");
            }
        }
    }
    let canary = read_canary(&mut fields, url_path.as_deref(), check_url, faults);
    let mode = read_mode(&mut fields, faults);
    if is_async && mode == CallMode::Shadow {
        faults.add(fields.path_of("mode"), "cannot be `shadow` with `async`: a job has no fallback to compare with");
    }
    let (attempts_max, backoff) =
        if is_async { read_job_retry(&mut fields, defaults.job_retry.max_attempts, faults) } else { read_retry(&mut fields, faults) };
    let (breaker, slow_calls) = read_breaker(&mut fields, &defaults.breaker, timeout, faults);
    let idempotent = fields.flag("idempotent", faults).unwrap_or(false);
    let hedge = read_hedge(&mut fields, idempotent, faults);
    let max_concurrency = fields.number("max_concurrency", 1..=CONCURRENCY_MAX, faults).unwrap_or(CONCURRENCY_DEFAULT);
    let (fallback, step_ages) = read_fallback(&mut fields, check_url, faults);
    let cache = read_cache(&mut fields, step_ages, faults);
    let response_schema = fields.take("response_schema").map(Value::to_string);
    fields.end(faults);
    // Answers that are kept for errors are used before everything else, unless the manifest says where.
    let mut fallback = fallback;
    if !cache.stale_if_error.is_zero() && !fallback.contains(&FallbackStep::Cache) {
        fallback.insert(0, FallbackStep::Cache);
    }
    Some(Capability {
        path: url_path?,
        timeout,
        attempts_max,
        backoff,
        fallback,
        breaker,
        slow_calls,
        idempotent,
        hedge,
        max_concurrency,
        cache,
        response_schema,
        mode,
        canary,
        is_async,
    })
}

fn check_path(fields: &Fields<'_>, path: Option<&str>, faults: &mut Faults) {
    let reason = match path {
        None if fields.has_fault("path", faults) => return,
        None => Some("is required"),
        Some(path) => fault_of_path(path),
    };
    if let Some(reason) = reason {
        faults.add(fields.path_of("path"), reason);
    }
}

/// What is wrong with the path of a capability or a health page, if something is.
pub fn fault_of_path(path: &str) -> Option<&'static str> {
    match path {
        path if !path.starts_with('/') => Some("must begin with `/`"),
        path if path.len() > PATH_BYTES_MAX => Some("must be at most 1024 bytes long"),
        path if path.contains('#') || path.chars().any(|c| c.is_whitespace() || c.is_control()) => {
            Some("must not contain blanks, control characters or `#`")
        }
        _ => None,
    }
}

fn read_mode(fields: &mut Fields<'_>, faults: &mut Faults) -> CallMode {
    match fields.text("mode", faults).as_deref() {
        None | Some("live") => CallMode::Live,
        Some("shadow") => CallMode::Shadow,
        Some("off") => CallMode::Off,
        Some(_) => {
            faults.add(fields.path_of("mode"), "must be `live`, `shadow` or `off`");
            CallMode::Live
        }
    }
}
