//! Configuration: what was written (flags, environment, file, defaults) becomes what is true, once, with every fault reported at once.
//!
//! `raw` gathers texts and where they came from; `check` reads them; `in_force` says what follows where nothing is written. The rest of the program
//! sees only [`Config`].

mod amqp;
mod check;
mod file;
mod in_force;
mod raw;
mod retention;
mod spool;
#[cfg(test)]
mod tests;
pub(crate) mod units;

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use everhook_core::{
    model::{PoolName, Profile, RetentionPeriods, Secret},
    policy::target::TargetRules,
};

use ipnet::IpNet;
pub use raw::{Origin, Setting};

/// The flags that `serve` and `demo` take. Each is also an environment variable (`EVERHOOK_…`) and a key of the file.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeArgs {
    /// Read settings from this file [default: everhook.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Take requests at this address [default: 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Keep everything in this folder [default: ./everhook-data]
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<String>,
    /// Keep everything in this PostgreSQL instead, shared by several nodes: postgres://user:password@host:5432/database
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
    /// Count limits of organizations in this Redis, beside --database: redis://user:password@host:6379/0
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// Take requests; other roles only if they are named too [default: all roles]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub api: Option<String>,
    /// Send deliveries; other roles only if they are named too
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub worker: Option<String>,
    /// Do what one node does at a time (operations, alerts, cleaning up); other roles only if they are named too
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub scheduler: Option<String>,
    /// Send only for the organizations of this worker pool [default: default]
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// Make this key an admin key at each start, instead of printing one at the first
    #[arg(long, value_name = "KEY")]
    pub admin_key: Option<String>,
    /// Seal secrets with this key: base64 of 32 bytes
    #[arg(long, value_name = "KEY")]
    pub seal_key: Option<String>,
    /// Seal secrets with the key in this file [default: seal.key in the data folder; made if missing, but not with --database]
    #[arg(long, value_name = "FILE")]
    pub seal_key_file: Option<String>,
    /// Allow endpoints with plain http
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub allow_http: Option<String>,
    /// Allow endpoints in private networks, or in these: `true` or a list of CIDR blocks. Implies --allow-http
    #[arg(long, value_name = "NETWORKS", num_args = 0..=1, default_missing_value = "true")]
    pub allow_private_networks: Option<String>,
    /// Allow endpoints that are message brokers: `amqp://` and `amqps://`
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub amqp_destinations: Option<String>,
    /// Use this RabbitMQ, for hints between nodes that share a store, and to take events from a queue: amqp://user:password@host:5672/vhost
    #[arg(long, value_name = "URL")]
    pub amqp: Option<String>,
    /// Take events from this queue of it
    #[arg(long, value_name = "NAME")]
    pub amqp_source_queue: Option<String>,
    /// Publish them in this organization, by id or uid [default: the default one]
    #[arg(long, value_name = "ID")]
    pub amqp_source_organization: Option<String>,
    /// Publish those that name no application to this one, by id or uid [default: the organization's default one]
    #[arg(long, value_name = "ID")]
    pub amqp_source_application: Option<String>,
    /// Give these peers as many connections as there are, as CIDR blocks: proxies of yours, which stand for many clients
    #[arg(long, value_name = "NETWORKS")]
    pub trusted_proxies: Option<String>,
    /// Limits for endpoints and organizations that have none: `plain` (no limits) or `hosted` (100 a minute and 1,000 a minute) [default: plain]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Send at most this many requests at once [default: 512]
    #[arg(long, value_name = "N")]
    pub concurrency: Option<String>,
    /// Take events with at most this much data [default: 256KiB]
    #[arg(long, value_name = "SIZE")]
    pub payload_max: Option<String>,
    /// Take batches of at most this size [default: 16MiB]
    #[arg(long, value_name = "SIZE")]
    pub batch_max: Option<String>,
    /// Remember idempotency keys for this long [default: 24h]
    #[arg(long, value_name = "DURATION")]
    pub idempotency_window: Option<String>,
    /// Keep events and their deliveries for this long after the last of these has ended, or for ever: `never` [default: 90d]
    #[arg(long, value_name = "DURATION")]
    pub retention_events: Option<String>,
    /// Keep attempts for this long after the last delivery of their event has ended [default: as long as events]
    #[arg(long, value_name = "DURATION")]
    pub retention_attempts: Option<String>,
    /// Keep dead letters, with their events, for this long after the last failure, or for ever: `never` [default: 365d]
    #[arg(long, value_name = "DURATION")]
    pub retention_dead_letters: Option<String>,
    /// Keep figures of endpoints for this long, or for ever: `never` [default: 90d]
    #[arg(long, value_name = "DURATION")]
    pub retention_rollups: Option<String>,
    /// Look for what is past its time this often [default: 1h]
    #[arg(long, value_name = "DURATION")]
    pub retention_interval: Option<String>,
    /// Let events wait in this folder while the database is away [default: spool in the data folder]
    #[arg(long, value_name = "FOLDER")]
    pub spool: Option<String>,
    /// Let at most this much of them wait [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub spool_max: Option<String>,
    /// Write the log as `text` or `json` [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
}

/// What is in force. Trusted from here on.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where requests are taken. Port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The folder that holds the embedded store.
    pub data: PathBuf,
    /// The shared store, if it is used instead.
    pub database: Option<Secret<String>>,
    /// What nodes that share a store count in, if it is not the store itself.
    pub redis: Option<Secret<String>>,
    /// What this node is there for.
    pub roles: NodeRoles,
    /// The worker pool that it belongs to, if it sends.
    pub pool: PoolName,
    /// A key that is ensured at each start; one is made and printed at the first start if absent.
    pub admin_key: Option<Secret<String>>,
    /// What seals secrets.
    pub seal_key: SealKey,
    /// Which URLs endpoints may have.
    pub targets: TargetRules,
    /// The queue that events are taken from, if any.
    pub amqp_source: Option<AmqpSource>,
    /// The broker through which nodes that share a store hint each other, with its credentials, if any.
    pub amqp_hints: Option<Secret<String>>,
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
    /// How long an idempotency key is remembered.
    pub idempotency_window: Duration,
    /// How long things are kept.
    pub retention: RetentionPeriods,
    /// Where events wait while the shared store is away, if this node takes any.
    pub spool: Option<SpoolConfig>,
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
        f.write_str("the configuration is not right:")?;
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
