//! Settings as they were written: a text each, and where it came from. Flags win over the environment, that over the file, that over defaults.

use std::{collections::BTreeMap, ffi::OsString, fmt, path::PathBuf};

use super::{ServeArgs, file::FileSettings};

/// What every environment variable of ours begins with.
const ENV_PREFIX: &str = "EVERHOOK_";

/// Variables that are ours but no settings of the server: the command line's, the log's, and the file's own name.
const OTHER_VARIABLES: [&str; 4] = ["url", "key", "log", "config"];

/// Names that other platforms have for some of our settings. Bare numbers are milliseconds where a length of time is meant, or days where the name says so.
/// Ours win.
const OTHER_NAMES: [(&str, &str); 25] = [
    ("WEBHOOK_TIMEOUT_QUIZ_ANSWER", "call_timeout_quiz_answer"),
    ("WEBHOOK_TIMEOUT_WINNER_SELECTION", "call_timeout_winner_selection"),
    ("WEBHOOK_TIMEOUT_PARTICIPANT_REGISTRATION", "call_timeout_participant_registration"),
    ("WEBHOOK_TIMEOUT_DEFAULT", "call_timeout"),
    ("CIRCUIT_BREAKER_FAILURE_THRESHOLD", "call_breaker_failures"),
    ("CIRCUIT_BREAKER_RECOVERY_TIMEOUT", "call_breaker_sleep"),
    ("CIRCUIT_BREAKER_SUCCESS_THRESHOLD", "call_breaker_successes"),
    ("DISABLE_FAILING_ENDPOINTS", "disable_failing_endpoints"),
    ("ENDPOINT_WARNING_DAYS", "endpoint_warning_after"),
    ("ENDPOINT_DISABLE_DAYS", "endpoint_disable_after"),
    ("HEALTH_CHECK_CRON", "health_check_cron"),
    ("ADMIN_EMAIL_LIST", "admin_emails"),
    ("SMTP_FROM_NAME", "smtp_from_name"),
    ("WEBHOOK_RETRY_MAX_ATTEMPTS", "job_retry_max_attempts"),
    ("WEBHOOK_RETRY_INITIAL_DELAY", "job_retry_initial_delay"),
    ("WEBHOOK_RETRY_MAX_DELAY", "job_retry_max_delay"),
    ("WEBHOOK_RETRY_BACKOFF_MULTIPLIER", "job_retry_multiplier"),
    ("PLATFORM_URL", "public_url"),
    ("WEBHOOK_METRICS_RETENTION_DAYS", "retention_rollups"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "otlp_endpoint"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "otlp_headers"),
    ("OTEL_TRACES_SAMPLER", "traces_sampler"),
    ("OTEL_TRACES_SAMPLER_ARG", "traces_sampler_arg"),
    ("APP_HEALTH_CHECK_INTERVAL", "app_health_check_interval"),
    ("APP_HEALTH_CHECK_TIMEOUT", "app_health_check_timeout"),
];

/// Variables that begin so say where the tests find their services; a server that a test starts inherits them.
const TEST_PREFIX: &str = "test_";

/// Kubernetes sets variables for every Service that a pod can see; for one called `everhook`, or `everhook-` and something, they look like ours:
/// `EVERHOOK_SERVICE_HOST`, `EVERHOOK_SERVICE_PORT_HTTP`, `EVERHOOK_PORT`, `EVERHOOK_REDIS_PORT_6379_TCP_ADDR`. They say nothing to us.
fn is_injected_by_kubernetes(name: &str) -> bool {
    let name = format!("_{name}");
    // `_PORT_<number>_<protocol>`, and `_PROTO`, `_PORT` and `_ADDR` of it.
    let is_of_port = |(at, mark): (usize, &str)| {
        let mut parts = name[at + mark.len()..].split('_');
        let is_number = parts.next().is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
        is_number && matches!(parts.next(), Some("tcp" | "udp" | "sctp"))
    };
    name.ends_with("_service_host")
        || name.ends_with("_service_port")
        || name.contains("_service_port_")
        || name.ends_with("_port")
        || name.match_indices("_port_").any(is_of_port)
}

/// A setting that exists.
pub(super) struct Known {
    /// Its name in the file; the flag and the variable follow from it.
    pub name: &'static str,
    /// What holds where nothing is written.
    pub default: Option<&'static str>,
    /// Whether it must never be shown.
    pub secret: bool,
}

const fn setting(name: &'static str, default: Option<&'static str>) -> Known {
    Known { name, default, secret: false }
}

const fn secret(name: &'static str) -> Known {
    Known { name, default: None, secret: true }
}

/// Every setting, in the order in which `everhook config` prints them.
pub(super) const KNOWN: &[Known] = &[
    setting("listen", Some("127.0.0.1:8080")),
    setting("metrics_listen", None),
    setting("data", Some("./everhook-data")),
    secret("database"),
    secret("redis"),
    setting("redis_ca_file", None),
    setting("api", None),
    setting("worker", None),
    setting("scheduler", None),
    setting("pool", None),
    secret("admin_key"),
    secret("seal_key"),
    setting("seal_key_file", None),
    secret("seal_key_old"),
    setting("seal_key_old_file", None),
    setting("seal_payloads", Some("false")),
    setting("allow_http", Some("false")),
    setting("allow_private_networks", Some("false")),
    setting("amqp_destinations", Some("false")),
    secret("amqp"),
    setting("amqp_source_queue", None),
    setting("amqp_source_organization", None),
    setting("amqp_source_application", None),
    setting("public_url", None),
    setting("trusted_proxies", None),
    setting("profile", Some("plain")),
    setting("concurrency", Some("512")),
    setting("payload_max", Some("256KiB")),
    setting("batch_max", Some("16MiB")),
    setting("catalog_max", Some("512MiB")),
    setting("idempotency_window", Some("24h")),
    setting("retention_events", Some("90d")),
    setting("retention_attempts", None),
    setting("retention_dead_letters", Some("365d")),
    setting("retention_rollups", Some("90d")),
    setting("retention_health", Some("never")),
    setting("retention_operations", Some("90d")),
    setting("retention_audit_log", Some("365d")),
    setting("retention_interval", Some("1h")),
    setting("archive", None),
    setting("disable_failing_endpoints", Some("true")),
    setting("endpoint_warning_after", Some("3d")),
    setting("endpoint_disable_after", Some("5d")),
    setting("endpoint_failing_window", Some("24h")),
    setting("endpoint_failing_spread", Some("12h")),
    setting("endpoint_failing_min", Some("3")),
    setting("health_check_cron", Some("0 8 * * *")),
    setting("spool", None),
    setting("spool_max", None),
    secret("smtp"),
    setting("smtp_from", None),
    setting("smtp_from_name", None),
    setting("admin_emails", None),
    setting("brand", Some("Everhook")),
    setting("pagerduty_url", Some("https://events.pagerduty.com/v2/enqueue")),
    secret("slack_url"),
    secret("pagerduty_key"),
    setting("call_timeout_quiz_answer", Some("2s")),
    setting("call_timeout_winner_selection", Some("5s")),
    setting("call_timeout_participant_registration", Some("3s")),
    setting("call_timeout_notification", Some("2s")),
    setting("call_timeout", Some("10s")),
    setting("call_timeout_async", Some("30s")),
    setting("call_breaker_failures", Some("5")),
    setting("call_breaker_sleep", Some("60s")),
    setting("call_breaker_successes", Some("3")),
    setting("job_retry_max_attempts", Some("3")),
    setting("job_retry_initial_delay", Some("1s")),
    setting("job_retry_max_delay", Some("30s")),
    setting("job_retry_multiplier", Some("2")),
    setting("app_health_check_interval", Some("5m")),
    setting("app_health_check_timeout", Some("5s")),
    setting("alert_interval", Some("30s")),
    setting("strava_api_url", Some("https://www.strava.com/api/v3")),
    setting("strava_client_id", None),
    secret("strava_client_secret"),
    setting("garmin_api_url", Some("https://apis.garmin.com")),
    setting("garmin_confirm", Some("true")),
    setting("garmin_backfill_chunk", Some("30d")),
    setting("otlp_endpoint", None),
    secret("otlp_headers"),
    setting("traces_sampler", Some("parentbased_always_on")),
    setting("traces_sampler_arg", Some("1")),
    setting("log_format", Some("text")),
];

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// On the command line.
    Flag,
    /// In the environment.
    Environment,
    /// In this file.
    File(PathBuf),
    /// Nowhere.
    Default,
    /// Nowhere, or otherwise: this setting brings it with it.
    Implied(&'static str),
}

/// One setting as it was written, and later as it is in force. A secret's text is kept for checking and never printed.
#[derive(Clone)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// The text; `None` if nothing is written and nothing holds instead.
    pub(super) text: Option<String>,
    /// Where it came from.
    pub origin: Origin,
    secret: bool,
}

impl Setting {
    /// The value as it may be shown: secrets as `***`.
    pub fn shown(&self) -> Option<&str> {
        if self.secret { self.text.as_ref().map(|_| "***") } else { self.text.as_deref() }
    }

    /// Where the value came from, as its author would look for it: `--listen`, `EVERHOOK_LISTEN`, a file's name, `default`, or another setting.
    pub fn source(&self) -> String {
        match &self.origin {
            Origin::Flag => format!("--{}", self.name.replace('_', "-")),
            Origin::Environment => format!("{ENV_PREFIX}{}", self.name.to_uppercase()),
            Origin::File(path) => path.display().to_string(),
            Origin::Default => "default".to_owned(),
            Origin::Implied(by) => format!("implied by {by}"),
        }
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?} ({})", self.name, self.shown(), self.source())
    }
}

/// Our environment variables, by the names of their settings. Unknown ones are faults: a misspelled limit must not go unnoticed.
pub(super) fn environment(variables: impl IntoIterator<Item = (OsString, OsString)>, faults: &mut Vec<String>) -> BTreeMap<String, String> {
    let (mut found, mut foreign) = (BTreeMap::new(), BTreeMap::new());
    for (variable, value) in variables {
        let Some(variable) = variable.to_str() else { continue };
        if let (Some((_, name)), Some(value)) = (OTHER_NAMES.iter().find(|(other, _)| *other == variable), value.to_str()) {
            foreign.insert((*name).to_owned(), with_unit(name, value));
            continue;
        }
        let Some(name) = variable.strip_prefix(ENV_PREFIX).map(str::to_lowercase) else { continue };
        let known = KNOWN.iter().any(|known| known.name == name) || OTHER_VARIABLES.contains(&name.as_str());
        if name.starts_with(TEST_PREFIX) || (!known && is_injected_by_kubernetes(&name)) {
            continue;
        }
        match value.into_string() {
            _ if !known => faults.push(format!("{variable}: unknown setting")),
            Err(_) => faults.push(format!("{variable}: must be UTF-8")),
            Ok(value) => {
                found.insert(name, value);
            }
        }
    }
    foreign.into_iter().for_each(|(name, value)| {
        found.entry(name).or_insert(value);
    });
    found
}

/// A bare number of a foreign name, in the unit that is meant by it.
fn with_unit(name: &str, value: &str) -> String {
    let is_bare = !value.trim().is_empty() && value.trim().bytes().all(|byte| byte.is_ascii_digit());
    let unit = match name {
        "endpoint_warning_after" | "endpoint_disable_after" | "retention_rollups" => "d",
        "call_breaker_sleep" | "job_retry_initial_delay" | "job_retry_max_delay" => "ms",
        _ if name.starts_with("call_timeout") || name.starts_with("app_health_check") => "ms",
        _ => return value.to_owned(),
    };
    if is_bare { format!("{}{unit}", value.trim()) } else { value.to_owned() }
}

/// Finds for each setting the place that wins.
pub(super) fn gather(args: &ServeArgs, environment: &BTreeMap<String, String>, file: &FileSettings) -> Vec<Setting> {
    let find = |known: &Known| {
        let flag = flag(args, known.name).map(|text| (text.to_owned(), Origin::Flag));
        let variable = || environment.get(known.name).map(|text| (text.clone(), Origin::Environment));
        let written = || file.values.get(known.name).map(|text| (text.clone(), Origin::File(file.path.clone())));
        let default = || known.default.map(|text| (text.to_owned(), Origin::Default));
        let (text, origin) = match flag.or_else(variable).or_else(written).or_else(default) {
            Some((text, origin)) => (Some(text), origin),
            None => (None, Origin::Default),
        };
        Setting { name: known.name, text, origin, secret: known.secret }
    };
    KNOWN.iter().map(find).collect()
}

fn flag<'a>(args: &'a ServeArgs, name: &str) -> Option<&'a str> {
    let flag = match name {
        "listen" => &args.listen,
        "metrics_listen" => &args.metrics_listen,
        "data" => &args.data,
        "database" => &args.database,
        "redis" => &args.redis,
        "redis_ca_file" => &args.redis_ca_file,
        "api" => &args.api,
        "worker" => &args.worker,
        "scheduler" => &args.scheduler,
        "pool" => &args.pool,
        "admin_key" => &args.admin_key,
        "seal_key" => &args.seal_key,
        "seal_key_file" => &args.seal_key_file,
        "seal_key_old" => &args.seal_key_old,
        "seal_key_old_file" => &args.seal_key_old_file,
        "seal_payloads" => &args.seal_payloads,
        "allow_http" => &args.allow_http,
        "allow_private_networks" => &args.allow_private_networks,
        "amqp_destinations" => &args.amqp_destinations,
        "amqp" => &args.amqp,
        "amqp_source_queue" => &args.amqp_source_queue,
        "amqp_source_organization" => &args.amqp_source_organization,
        "amqp_source_application" => &args.amqp_source_application,
        "public_url" => &args.public_url,
        "trusted_proxies" => &args.trusted_proxies,
        "profile" => &args.profile,
        "concurrency" => &args.concurrency,
        "payload_max" => &args.payload_max,
        "batch_max" => &args.batch_max,
        "catalog_max" => &args.catalog_max,
        "idempotency_window" => &args.idempotency_window,
        "retention_events" => &args.retention_events,
        "retention_attempts" => &args.retention_attempts,
        "retention_dead_letters" => &args.retention_dead_letters,
        "retention_rollups" => &args.retention_rollups,
        "retention_health" => &args.retention_health,
        "retention_operations" => &args.retention_operations,
        "retention_audit_log" => &args.retention_audit_log,
        "retention_interval" => &args.retention_interval,
        "archive" => &args.archive,
        "disable_failing_endpoints" => &args.disable_failing_endpoints,
        "endpoint_warning_after" => &args.endpoint_warning_after,
        "endpoint_disable_after" => &args.endpoint_disable_after,
        "endpoint_failing_window" => &args.endpoint_failing_window,
        "endpoint_failing_spread" => &args.endpoint_failing_spread,
        "endpoint_failing_min" => &args.endpoint_failing_min,
        "health_check_cron" => &args.health_check_cron,
        "spool" => &args.spool,
        "spool_max" => &args.spool_max,
        "smtp" => &args.smtp,
        "smtp_from" => &args.smtp_from,
        "smtp_from_name" => &args.smtp_from_name,
        "brand" => &args.brand,
        "pagerduty_url" => &args.pagerduty_url,
        "slack_url" => &args.slack_url,
        "pagerduty_key" => &args.pagerduty_key,
        "admin_emails" => &args.admin_emails,
        "call_timeout_quiz_answer" => &args.call_timeout_quiz_answer,
        "call_timeout_winner_selection" => &args.call_timeout_winner_selection,
        "call_timeout_participant_registration" => &args.call_timeout_participant_registration,
        "call_timeout_notification" => &args.call_timeout_notification,
        "call_timeout_async" => &args.call_timeout_async,
        "call_timeout" => &args.call_timeout,
        "call_breaker_failures" => &args.call_breaker_failures,
        "call_breaker_sleep" => &args.call_breaker_sleep,
        "call_breaker_successes" => &args.call_breaker_successes,
        "job_retry_max_attempts" => &args.job_retry_max_attempts,
        "job_retry_initial_delay" => &args.job_retry_initial_delay,
        "job_retry_max_delay" => &args.job_retry_max_delay,
        "job_retry_multiplier" => &args.job_retry_multiplier,
        "app_health_check_interval" => &args.app_health_check_interval,
        "app_health_check_timeout" => &args.app_health_check_timeout,
        "alert_interval" => &args.alert_interval,
        "strava_api_url" => &args.strava_api_url,
        "strava_client_id" => &args.strava_client_id,
        "strava_client_secret" => &args.strava_client_secret,
        "garmin_api_url" => &args.garmin_api_url,
        "garmin_confirm" => &args.garmin_confirm,
        "garmin_backfill_chunk" => &args.garmin_backfill_chunk,
        "otlp_endpoint" => &args.otlp_endpoint,
        "otlp_headers" => &args.otlp_headers,
        "traces_sampler" => &args.traces_sampler,
        "traces_sampler_arg" => &args.traces_sampler_arg,
        "log_format" => &args.log_format,
        _ => &None,
    };
    flag.as_deref()
}
