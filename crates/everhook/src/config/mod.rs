//! Configuration: what was written (flags, environment, file, defaults) becomes what is true, once, with every fault reported at once.
//!
//! `raw` gathers texts and where they came from; `check` reads them; `in_force` says what follows where nothing is written. The rest of the program
//! sees only [`Config`].

mod amqp;
mod calls;
mod check;
mod email;
mod endpoint_health;
mod file;
mod health;
mod in_force;
mod notifications;
mod raw;
mod retention;
mod spool;
#[cfg(test)]
mod tests;
mod traces;
pub(crate) mod units;

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use everhook_core::{
    line::{HealthCheckSettings, NotificationSettings},
    model::{EmailAddress, PoolName, Profile, RetentionPeriods, Secret},
    policy::{calls::manifest::ManifestDefaults, endpoint_health::EndpointHealthSettings, target::TargetRules},
    providers::ProviderSettings,
};

pub use email::EmailConfig;
use ipnet::IpNet;
pub use notifications::ServerAlertConfig;
pub use raw::{Origin, Setting};
pub use traces::TracesConfig;

/// The flags that `serve` and `demo` take. Each is also an environment variable (`EVERHOOK_…`) and a key of the file.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeArgs {
    /// Read settings from this file [default: everhook.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Listen on this address [default: 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Serve metrics without a key at this address, in addition to /metrics of the API, which requires an admin key
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_listen: Option<String>,
    /// Store all data in this folder [default: ./everhook-data]
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<String>,
    /// Store all data in this PostgreSQL database instead, shared by several nodes: postgres://user:password@host:5432/database
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
    /// Count limits of organizations in this Redis; requires --database: redis://user:password@host:6379/0
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// Verify the certificate of a rediss:// server by the authorities in this file (PEM) instead of the public ones
    #[arg(long, value_name = "FILE")]
    pub redis_ca_file: Option<String>,
    /// Serve the API; other roles only if they are also named [default: all roles]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub api: Option<String>,
    /// Send deliveries; other roles only if they are also named
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub worker: Option<String>,
    /// Do the work that one node does at a time (operations, alerts, retention); other roles only if they are also named
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub scheduler: Option<String>,
    /// Send only for the organizations of this worker pool [default: default]
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// Create this admin key at each start if missing, instead of printing one at the first start
    #[arg(long, value_name = "KEY")]
    pub admin_key: Option<String>,
    /// Encrypt secrets with this key: base64 of 32 bytes
    #[arg(long, value_name = "KEY")]
    pub seal_key: Option<String>,
    /// Encrypt secrets with the key in this file [default: seal.key in the data folder; created if missing, except with --database]
    #[arg(long, value_name = "FILE")]
    pub seal_key_file: Option<String>,
    /// Decrypt with this key, too, until everything is encrypted with the new one: base64 of 32 bytes
    #[arg(long, value_name = "KEY")]
    pub seal_key_old: Option<String>,
    /// Decrypt with the key in this file, too [default: seal.key.old in the data folder, if it exists]
    #[arg(long, value_name = "FILE")]
    pub seal_key_old_file: Option<String>,
    /// Encrypt the data of published events in the store
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub seal_payloads: Option<String>,
    /// Permit endpoints with plain http
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub allow_http: Option<String>,
    /// Permit endpoints in private networks: `true`, or a list of CIDR blocks. Implies --allow-http
    #[arg(long, value_name = "NETWORKS", num_args = 0..=1, default_missing_value = "true")]
    pub allow_private_networks: Option<String>,
    /// Permit endpoints that are message brokers: `amqp://` and `amqps://`
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub amqp_destinations: Option<String>,
    /// Use this RabbitMQ, for hints between nodes and to consume events from a queue: amqp://user:password@host:5672/vhost
    #[arg(long, value_name = "URL")]
    pub amqp: Option<String>,
    /// Consume events from this queue
    #[arg(long, value_name = "NAME")]
    pub amqp_source_queue: Option<String>,
    /// The organization of events from the queue, by id or uid [default: default]
    #[arg(long, value_name = "ID")]
    pub amqp_source_organization: Option<String>,
    /// The application of events from the queue that name none, by id or uid [default: the organization's default]
    #[arg(long, value_name = "ID")]
    pub amqp_source_application: Option<String>,
    /// The URL that others reach this server by, for the URLs of sources: https://hooks.example.com
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// Your proxies, as CIDR blocks: peers without a limit on connections, whose X-Forwarded-For says which client calls a source
    #[arg(long, value_name = "NETWORKS")]
    pub trusted_proxies: Option<String>,
    /// Limits for endpoints and organizations that have none: `plain` (no limits) or `hosted` (100 and 1,000 per minute) [default: plain]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// The maximum number of requests in progress [default: 512]
    #[arg(long, value_name = "N")]
    pub concurrency: Option<String>,
    /// The maximum size of an event's data [default: 256KiB]
    #[arg(long, value_name = "SIZE")]
    pub payload_max: Option<String>,
    /// The maximum size of a batch [default: 16MiB]
    #[arg(long, value_name = "SIZE")]
    pub batch_max: Option<String>,
    /// The maximum memory for applications and their endpoints [default: 512MiB]
    #[arg(long, value_name = "SIZE")]
    pub catalog_max: Option<String>,
    /// How long idempotency keys are valid [default: 24h]
    #[arg(long, value_name = "DURATION")]
    pub idempotency_window: Option<String>,
    /// How long events and their deliveries are kept after the last delivery has ended; `never` removes none [default: 90d]
    #[arg(long, value_name = "DURATION")]
    pub retention_events: Option<String>,
    /// How long attempts are kept after the last delivery of their event has ended [default: as long as events]
    #[arg(long, value_name = "DURATION")]
    pub retention_attempts: Option<String>,
    /// How long dead letters and their events are kept after the last failure; `never` removes none [default: 365d]
    #[arg(long, value_name = "DURATION")]
    pub retention_dead_letters: Option<String>,
    /// How long statistics of endpoints and sources are kept; `never` removes none [default: 90d]
    #[arg(long, value_name = "DURATION")]
    pub retention_rollups: Option<String>,
    /// How long health metrics are kept after they were received; `never` removes none [default: never]
    #[arg(long, value_name = "DURATION")]
    pub retention_health: Option<String>,
    /// How long operations are kept after they have ended; `never` removes none [default: 90d]
    #[arg(long, value_name = "DURATION")]
    pub retention_operations: Option<String>,
    /// How long entries of the audit log are kept; `never` removes none [default: 365d]
    #[arg(long, value_name = "DURATION")]
    pub retention_audit_log: Option<String>,
    /// How often expired data is removed [default: 1h]
    #[arg(long, value_name = "DURATION")]
    pub retention_interval: Option<String>,
    /// Write expired dead letters and received events to compressed files in this folder before they are removed
    #[arg(long, value_name = "FOLDER")]
    pub archive: Option<String>,
    /// What happens to endpoints that fail for days: `true` warns and disables, `warn` only warns, `observe` only logs, `false` does nothing [default: true]
    #[arg(long, value_name = "true|warn|observe|false")]
    pub disable_failing_endpoints: Option<String>,
    /// How long an endpoint fails before its owner is warned [default: 3d]
    #[arg(long, value_name = "DURATION")]
    pub endpoint_warning_after: Option<String>,
    /// How long an endpoint fails before it is disabled [default: 5d]
    #[arg(long, value_name = "DURATION")]
    pub endpoint_disable_after: Option<String>,
    /// The time within which failures make an endpoint count as failing [default: 24h]
    #[arg(long, value_name = "DURATION")]
    pub endpoint_failing_window: Option<String>,
    /// The minimum time between the first and the last of these failures [default: 12h]
    #[arg(long, value_name = "DURATION")]
    pub endpoint_failing_spread: Option<String>,
    /// The minimum number of these failures [default: 3]
    #[arg(long, value_name = "COUNT")]
    pub endpoint_failing_min: Option<String>,
    /// When endpoints are checked, as cron writes it, in UTC; six fields begin with the second [default: 0 8 * * *]
    #[arg(long, value_name = "CRON")]
    pub health_check_cron: Option<String>,
    /// The folder in which events wait while the database is unavailable [default: spool in the data folder]
    #[arg(long, value_name = "FOLDER")]
    pub spool: Option<String>,
    /// The maximum size of the spool [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub spool_max: Option<String>,
    /// Send e-mail through this mail server: smtp://user:password@host:587 or smtps://user:password@host
    #[arg(long, value_name = "URL")]
    pub smtp: Option<String>,
    /// The sender of e-mail: an address, or Name <address>
    #[arg(long, value_name = "ADDRESS")]
    pub smtp_from: Option<String>,
    /// Show this name as the sender of e-mail; one in --smtp-from wins
    #[arg(long, value_name = "NAME")]
    pub smtp_from_name: Option<String>,
    /// The administrators of the organization `default`, who get an e-mail when an endpoint is disabled: addresses, separated by commas
    #[arg(long, value_name = "ADDRESSES")]
    pub admin_emails: Option<String>,
    /// The name of this server in notifications [default: Everhook]
    #[arg(long, value_name = "NAME")]
    pub brand: Option<String>,
    /// The URL of PagerDuty's Events API [default: https://events.pagerduty.com/v2/enqueue]
    #[arg(long, value_name = "URL")]
    pub pagerduty_url: Option<String>,
    /// Send alerts about the server itself to this URL, an incoming webhook of Slack or of what understands the same
    #[arg(long, value_name = "URL")]
    pub slack_url: Option<String>,
    /// Send alerts about the server itself to this integration of PagerDuty
    #[arg(long, value_name = "KEY")]
    pub pagerduty_key: Option<String>,
    /// The timeout of calls that check a quiz answer, if the manifest has none [default: 2s]
    #[arg(long, value_name = "DURATION")]
    pub call_timeout_quiz_answer: Option<String>,
    /// The timeout of calls that select winners, if the manifest has none [default: 5s]
    #[arg(long, value_name = "DURATION")]
    pub call_timeout_winner_selection: Option<String>,
    /// The timeout of calls that register a participant, if the manifest has none [default: 3s]
    #[arg(long, value_name = "DURATION")]
    pub call_timeout_participant_registration: Option<String>,
    /// The timeout of calls that send a notification, if the manifest has none [default: 2s]
    #[arg(long, value_name = "DURATION")]
    pub call_timeout_notification: Option<String>,
    /// The timeout of calls of all other capabilities, if the manifest has none [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub call_timeout: Option<String>,
    /// The timeout of jobs of `async` capabilities, if the manifest has none [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub call_timeout_async: Option<String>,
    /// How many failures in a row open the circuit breaker of a capability [default: 5]
    #[arg(long, value_name = "N")]
    pub call_breaker_failures: Option<String>,
    /// How long the circuit breaker of a capability stays open [default: 60s]
    #[arg(long, value_name = "DURATION")]
    pub call_breaker_sleep: Option<String>,
    /// How many successes close the circuit breaker of a capability again [default: 3]
    #[arg(long, value_name = "N")]
    pub call_breaker_successes: Option<String>,
    /// How often a job is attempted at most [default: 3]
    #[arg(long, value_name = "N")]
    pub job_retry_max_attempts: Option<String>,
    /// How long before a job is attempted again for the first time [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub job_retry_initial_delay: Option<String>,
    /// The longest time between two attempts at a job [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub job_retry_max_delay: Option<String>,
    /// The factor from one of these delays to the next [default: 2]
    #[arg(long, value_name = "NUMBER")]
    pub job_retry_multiplier: Option<String>,
    /// How often apps with a health page are checked [default: 5m]
    #[arg(long, value_name = "DURATION")]
    pub app_health_check_interval: Option<String>,
    /// The timeout of requests to health pages [default: 5s]
    #[arg(long, value_name = "DURATION")]
    pub app_health_check_timeout: Option<String>,
    /// How often alert rules are evaluated [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub alert_interval: Option<String>,
    /// The base URL of Strava's API [default: https://www.strava.com/api/v3]
    #[arg(long, value_name = "URL")]
    pub strava_api_url: Option<String>,
    /// The id of your application at Strava, to refresh the tokens of athletes
    #[arg(long, value_name = "ID")]
    pub strava_client_id: Option<String>,
    /// The secret of your application at Strava
    #[arg(long, value_name = "SECRET")]
    pub strava_client_secret: Option<String>,
    /// The base URL of Garmin's API [default: https://apis.garmin.com]
    #[arg(long, value_name = "URL")]
    pub garmin_api_url: Option<String>,
    /// Confirm deregistrations and permission changes with Garmin before they take effect [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub garmin_confirm: Option<String>,
    /// The longest period that a backfill requests from Garmin at once, 1 to 90 days [default: 30d]
    #[arg(long, value_name = "DURATION")]
    pub garmin_backfill_chunk: Option<String>,
    /// Send spans of traces to this collector of OpenTelemetry, over HTTP: http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// Headers that the collector requires: name=value pairs, separated by commas
    #[arg(long, value_name = "HEADERS")]
    pub otlp_headers: Option<String>,
    /// Which traces are recorded, by OpenTelemetry's names [default: parentbased_always_on]
    #[arg(long, value_name = "NAME")]
    pub traces_sampler: Option<String>,
    /// The share of traces that a sampler with a ratio records, 0 to 1 [default: 1]
    #[arg(long, value_name = "SHARE")]
    pub traces_sampler_arg: Option<String>,
    /// Write the log as `text` or `json` [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
}

/// What is in force. Trusted from here on.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where requests are taken. Port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Where metrics are served to everybody, if anywhere.
    pub metrics_listen: Option<SocketAddr>,
    /// The folder that holds the embedded store.
    pub data: PathBuf,
    /// The shared store, if it is used instead.
    pub database: Option<Secret<String>>,
    /// What nodes that share a store count in, if it is not the store itself.
    pub redis: Option<Secret<String>>,
    /// The authorities that sign its certificate, if they are not the public ones.
    pub redis_ca_file: Option<PathBuf>,
    /// What this node is there for.
    pub roles: NodeRoles,
    /// The worker pool that it belongs to, if it sends.
    pub pool: PoolName,
    /// A key that is ensured at each start; one is made and printed at the first start if absent.
    pub admin_key: Option<Secret<String>>,
    /// What seals secrets.
    pub seal_key: SealKey,
    /// What secrets may still be sealed with, while a rotation is under way.
    pub old_seal_key: Option<SealKey>,
    /// Whether the data of published events is sealed, too.
    pub seal_payloads: bool,
    /// Which URLs endpoints may have.
    pub targets: TargetRules,
    /// The queue that events are taken from, if any.
    pub amqp_source: Option<AmqpSource>,
    /// The broker through which nodes that share a store hint each other, with its credentials, if any.
    pub amqp_hints: Option<Secret<String>>,
    /// What the URLs of this server begin with, as others see them, without a slash at the end; what each client calls it by if absent.
    pub public_url: Option<String>,
    /// Peers that may take as many connections as there are.
    pub trusted_proxies: Vec<IpNet>,
    /// What holds where nobody set a limit.
    pub profile: Profile,
    /// How many requests may be under way at once.
    pub concurrency: usize,
    /// The largest `data` of an event, in bytes.
    pub payload_bytes_max: usize,
    /// The largest body of a batch, in bytes.
    pub batch_bytes_max: usize,
    /// What applications and their endpoints may take in memory, in bytes.
    pub catalog_bytes_max: usize,
    /// How long an idempotency key is remembered.
    pub idempotency_window: Duration,
    /// How long things are kept.
    pub retention: RetentionPeriods,
    /// Where some of what expires is kept outside the store, if anywhere.
    pub archive: Option<PathBuf>,
    /// How endpoints that fail for days are treated.
    pub endpoint_health: EndpointHealthSettings,
    /// Where events wait while the shared store is away, if this node takes any.
    pub spool: Option<SpoolConfig>,
    /// How e-mail goes out, if it does.
    pub email: Option<EmailConfig>,
    /// Who administers the organization `default`; `None` leaves that as it is.
    pub admin_emails: Option<Vec<EmailAddress>>,
    /// How people are told.
    pub notifications: NotificationSettings,
    /// Where alerts about the server go beside the administrators' e-mail.
    pub server_alerts: ServerAlertConfig,
    /// What holds for calls where a manifest does not say.
    pub manifest_defaults: ManifestDefaults,
    /// How health providers are reached.
    pub health_providers: ProviderSettings,
    /// When apps are checked.
    pub health_checks: HealthCheckSettings,
    /// How often alert rules are evaluated.
    pub alert_interval: Duration,
    /// Where spans of traces go, if anywhere.
    pub traces: Option<TracesConfig>,
    /// How the log is written.
    pub log_format: LogFormat,
}

/// Where events wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolConfig {
    /// The folder.
    pub folder: PathBuf,
    /// How many bytes may wait.
    pub bytes_max: u64,
}

/// What a node is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRoles {
    /// It takes requests.
    pub api: bool,
    /// It sends.
    pub worker: bool,
    /// It does what one node does at a time.
    pub scheduler: bool,
}

impl NodeRoles {
    /// All of them.
    pub const ALL: Self = Self { api: true, worker: true, scheduler: true };
}

/// A queue that events are taken from.
#[derive(Clone, Debug)]
pub struct AmqpSource {
    /// The broker, with its credentials.
    pub url: Secret<String>,
    /// The queue.
    pub queue: String,
    /// The organization that the events are published in, by id or uid; the default one if absent.
    pub organization: Option<String>,
    /// The application of events that name none, by id or uid; the organization's default one if absent.
    pub application: Option<String>,
}

/// Where the sealing key comes from.
#[derive(Clone, Debug)]
pub enum SealKey {
    /// It was given.
    Given(Secret<[u8; 32]>),
    /// It is in this file. A node of its own makes it there if the file is missing; nodes that share a store must be given one.
    File(PathBuf),
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// A configuration with the settings it was read from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What is in force.
    pub config: Config,
    /// Each setting as it is in force, and where that was written.
    pub settings: Vec<Setting>,
}

/// Everything that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFaults(pub Vec<String>);

impl fmt::Display for ConfigFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid configuration:")?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  - {fault}"))
    }
}

impl std::error::Error for ConfigFaults {}

impl ServeArgs {
    /// Reads the configuration that these flags, the environment and the file make together.
    ///
    /// # Errors
    /// [`ConfigFaults`] lists everything that is wrong.
    pub fn load(&self) -> Result<Loaded, ConfigFaults> {
        self.load_from(std::env::vars_os())
    }

    /// As [`ServeArgs::load`], with an environment of the caller's making.
    ///
    /// # Errors
    /// [`ConfigFaults`] lists everything that is wrong.
    pub fn load_from(
        &self,
        environment: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    ) -> Result<Loaded, ConfigFaults> {
        let mut faults = Vec::new();
        let environment = raw::environment(environment, &mut faults);
        let file = file::read(self.config.as_deref(), environment.get("config"), &mut faults);
        let mut settings = raw::gather(self, &environment, &file);
        let config = check::check(&settings, &mut faults);
        match config {
            Some(config) if faults.is_empty() => {
                in_force::complete(&mut settings, &config);
                Ok(Loaded { config, settings })
            }
            _ => Err(ConfigFaults(faults)),
        }
    }
}
