//! What was written becomes what is true. Every fault is found, not only the first.

use std::{
    net::SocketAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use everhook_adapters::{postgres, redis, vault};
use everhook_core::{
    manage::api_keys,
    model::{PoolName, Profile, Secret},
    policy::{address::AddressRules, target::TargetRules},
    ports::APPLICATION_CONFIG_BYTES_MAX,
};
use ipnet::IpNet;

use super::{
    Config, LogFormat, NodeRoles, SealKey, amqp, calls, email, endpoint_health, health, notifications, raw::Setting, retention, spool,
    traces, units,
};
use crate::sealing::{KEY_FILE, OLD_KEY_FILE};

/// How many requests may be under way at once: each holds a socket, and a process has some tens of thousands.
const CONCURRENCY: RangeInclusive<usize> = 1..=20_000;
/// How large `data` may be allowed to be: it is held in memory, several times over.
const PAYLOAD_BYTES: RangeInclusive<usize> = 1..=16 << 20;
/// How large a batch may be allowed to be.
const BATCH_BYTES: RangeInclusive<usize> = 1..=256 << 20;
/// What the catalog may be allowed to take: at least two applications as large as they may be, so that one never pushes all others out.
const CATALOG_BYTES: RangeInclusive<usize> = 2 * APPLICATION_CONFIG_BYTES_MAX as usize..=1 << 40;
/// How long idempotency keys may be remembered: each is a row.
const IDEMPOTENCY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30 * 86_400);

/// Checks every setting; `None` if one that is needed could not be read, and then its fault is among the others.
pub(super) fn check(settings: &[Setting], faults: &mut Vec<String>) -> Option<Config> {
    let mut reader = Reader { settings, faults };
    let listen = reader.needed("listen", parse_listen);
    let metrics_listen = reader.optional("metrics_listen", parse_listen);
    let data = reader.needed("data", parse_path);
    let database = reader.optional("database", parse_database);
    let (redis, redis_ca_file) = read_redis(&mut reader);
    let roles = read_roles(&mut reader, database.is_some());
    let pool = read_pool(&mut reader, roles, database.is_some());
    let admin_key = reader.optional("admin_key", parse_admin_key);
    let seal_key = read_seal_key(&mut reader, data.as_deref());
    let old_seal_key = read_old_seal_key(&mut reader, data.as_deref());
    let targets = read_targets(&mut reader);
    let (amqp_source, amqp_hints) = amqp::broker(&mut reader);
    let public_url = reader.optional("public_url", parse_public_url);
    let trusted_proxies = reader.optional("trusted_proxies", parse_trusted_proxies).unwrap_or_default();
    let profile = reader.needed("profile", parse_profile);
    let concurrency = reader.needed("concurrency", parse_concurrency);
    let payload_bytes_max = reader.needed("payload_max", |text| in_range(units::parse_size(text)?, PAYLOAD_BYTES));
    let batch_bytes_max = reader.needed("batch_max", |text| in_range(units::parse_size(text)?, BATCH_BYTES));
    let catalog_bytes_max = reader.needed("catalog_max", |text| in_range(units::parse_size(text)?, CATALOG_BYTES));
    let idempotency_window = reader.needed("idempotency_window", |text| in_range(units::parse_duration(text)?, IDEMPOTENCY));
    let retention = retention::periods(&mut reader);
    let archive = reader.optional("archive", parse_path);
    let endpoint_health = endpoint_health::read(&mut reader);
    let spool = spool::read(&mut reader, data.as_deref(), database.is_some(), roles.api, payload_bytes_max);
    let (email, admin_emails) = email::read(&mut reader);
    let notifications = notifications::read(&mut reader, targets.as_ref());
    let server_alerts = notifications::read_server_alerts(&mut reader, targets.as_ref());
    let health_providers = health::read(&mut reader, targets.as_ref());
    let seal_payloads = reader.needed("seal_payloads", parse_bool);
    let manifest_defaults = calls::read(&mut reader);
    let health_checks = calls::read_health_checks(&mut reader);
    let alert_interval = calls::read_alert_interval(&mut reader);
    let traces = traces::read(&mut reader);
    let log_format = reader.needed("log_format", parse_log_format);
    Some(Config {
        listen: listen?,
        metrics_listen,
        data: data?,
        database,
        redis,
        redis_ca_file,
        roles,
        pool,
        admin_key,
        seal_key: seal_key?,
        old_seal_key,
        seal_payloads: seal_payloads?,
        targets: targets?,
        amqp_source,
        amqp_hints,
        public_url,
        trusted_proxies,
        profile: profile?,
        concurrency: concurrency?,
        payload_bytes_max: payload_bytes_max?,
        batch_bytes_max: batch_bytes_max?,
        catalog_bytes_max: catalog_bytes_max?,
        idempotency_window: idempotency_window?,
        retention: retention?,
        archive,
        endpoint_health: endpoint_health?,
        spool,
        email,
        admin_emails,
        notifications: notifications?,
        server_alerts,
        manifest_defaults: manifest_defaults?,
        health_checks: health_checks?,
        alert_interval: alert_interval?,
        health_providers: health_providers?,
        traces,
        log_format: log_format?,
    })
}

/// Reads settings one by one and remembers what was wrong with each.
pub(super) struct Reader<'a> {
    settings: &'a [Setting],
    pub(super) faults: &'a mut Vec<String>,
}

impl Reader<'_> {
    pub(super) fn optional<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let setting = self.settings.iter().find(|setting| setting.name == name)?;
        match parse(setting.text.as_deref()?) {
            Ok(value) => Some(value),
            Err(reason) => {
                let value = setting.shown().unwrap_or_default().escape_debug();
                self.faults.push(format!("{name} = `{value}` ({}): {reason}", setting.source()));
                None
            }
        }
    }

    /// Whether anything is written for a setting, right or wrong.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.settings.iter().any(|setting| setting.name == name && setting.text.is_some())
    }

    /// As `optional`, for settings that the server cannot do without. They have defaults; one that lost its default is a fault like any other.
    pub(super) fn needed<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        if !self.is_set(name) {
            self.faults.push(format!("{name}: must be set"));
        }
        self.optional(name, parse)
    }
}

/// Where nodes that share a store count.
fn read_redis(reader: &mut Reader<'_>) -> (Option<Secret<String>>, Option<PathBuf>) {
    let redis = reader.optional("redis", parse_redis);
    if redis.is_some() && !reader.is_set("database") {
        reader.faults.push("redis: requires `database`".to_owned());
    }
    let authorities = reader.optional("redis_ca_file", parse_path);
    if authorities.is_some() && !redis.as_ref().is_some_and(|url| url.expose().starts_with("rediss://")) {
        reader.faults.push("redis_ca_file: requires `redis` with `rediss://`".to_owned());
    }
    (redis, authorities)
}

/// Which roles a node has: all, or those that are named.
fn read_roles(reader: &mut Reader<'_>, is_shared: bool) -> NodeRoles {
    let [api, worker, scheduler] = ["api", "worker", "scheduler"].map(|name| reader.optional(name, parse_bool));
    let is_chosen = [api, worker, scheduler].contains(&Some(true));
    let has = |role: Option<bool>| role.unwrap_or(!is_chosen);
    let roles = NodeRoles { api: has(api), worker: has(worker), scheduler: has(scheduler) };
    if roles != NodeRoles::ALL && !is_shared {
        reader.faults.push("api, worker, scheduler: roles require `database`".to_owned());
    }
    if roles == (NodeRoles { api: false, worker: false, scheduler: false }) {
        reader.faults.push("api, worker, scheduler: a node needs at least one role".to_owned());
    }
    roles
}

/// Which worker pool a node belongs to. Naming one where it means nothing is a fault: somebody expects something of it.
fn read_pool(reader: &mut Reader<'_>, roles: NodeRoles, is_shared: bool) -> PoolName {
    let named = reader.optional("pool", |text| PoolName::parse(text).ok_or_else(|| format!("must be {}", PoolName::RULE)));
    if reader.is_set("pool") && !is_shared {
        reader.faults.push("pool: worker pools require `database`".to_owned());
    } else if reader.is_set("pool") && !roles.worker {
        reader.faults.push("pool: requires the role `worker`".to_owned());
    }
    named.unwrap_or_default()
}

/// Where the sealing key comes from: the data folder unless something else is said.
fn read_seal_key(reader: &mut Reader<'_>, data: Option<&Path>) -> Option<SealKey> {
    let given = reader.optional("seal_key", parse_seal_key);
    let file = reader.optional("seal_key_file", parse_path);
    if given.is_some() && file.is_some() {
        reader.faults.push("seal_key and seal_key_file: set only one of them".to_owned());
    }
    match given {
        Some(key) => Some(SealKey::Given(key)),
        None => file.or_else(|| data.map(|data| data.join(KEY_FILE))).map(SealKey::File),
    }
}

/// Where the key comes from that was used before: the data folder, if it has one, unless something else is said.
fn read_old_seal_key(reader: &mut Reader<'_>, data: Option<&Path>) -> Option<SealKey> {
    let given = reader.optional("seal_key_old", parse_seal_key);
    let file = reader.optional("seal_key_old_file", parse_path);
    if given.is_some() && file.is_some() {
        reader.faults.push("seal_key_old and seal_key_old_file: set only one of them".to_owned());
    }
    let own = || data.map(|data| data.join(OLD_KEY_FILE)).filter(|path| path.exists());
    given.map(SealKey::Given).or_else(|| file.or_else(own).map(SealKey::File))
}

/// Which URLs endpoints may have. Who opens private networks has no certificates there, so that plain http comes with them.
fn read_targets(reader: &mut Reader<'_>) -> Option<TargetRules> {
    let allow_http = reader.needed("allow_http", parse_bool);
    let networks = reader.needed("allow_private_networks", parse_networks);
    let allow_amqp = reader.needed("amqp_destinations", |text| amqp::allowed(parse_bool(text)?));
    let addresses = networks?;
    Some(TargetRules { allow_http: allow_http? || !addresses.is_public_only(), allow_amqp: allow_amqp?, addresses })
}

fn parse_database(text: &str) -> Result<Secret<String>, String> {
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        return Err("must be the address of a PostgreSQL database, as in postgres://user:password@host:5432/database".to_owned());
    }
    match postgres::place(text) {
        Ok(_) => Ok(Secret::new(text.to_owned())),
        Err(error) => Err(format!("{:#}", anyhow::Error::from(error))),
    }
}

fn parse_redis(text: &str) -> Result<Secret<String>, String> {
    if redis::is_address(text) {
        Ok(Secret::new(text.to_owned()))
    } else {
        Err("must be the address of a Redis, as in redis://user:password@host:6379/0, or rediss:// for TLS".to_owned())
    }
}

pub(super) fn in_range<T: PartialOrd + std::fmt::Debug>(value: T, range: RangeInclusive<T>) -> Result<T, String> {
    if range.contains(&value) { Ok(value) } else { Err(format!("must be {:?} to {:?}", range.start(), range.end())) }
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    // `localhost` is understood without a resolver, which could be slow or wrong at start.
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| "must be an address and a port, as in 127.0.0.1:8080 or [::]:8080".to_owned())
}

pub(super) fn parse_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') { Err("must be a path".to_owned()) } else { Ok(PathBuf::from(text)) }
}

fn parse_admin_key(text: &str) -> Result<Secret<String>, String> {
    if api_keys::is_well_formed(text) {
        Ok(Secret::new(text.to_owned()))
    } else {
        Err("must be `eh_` and 20 to 100 of the characters A-Z a-z 0-9 _ -".to_owned())
    }
}

fn parse_seal_key(text: &str) -> Result<Secret<[u8; 32]>, String> {
    vault::parse_key(text).map(Secret::new).map_err(|error| error.to_string())
}

pub(super) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

fn parse_networks(text: &str) -> Result<AddressRules, String> {
    match parse_bool(text) {
        Ok(true) => return Ok(AddressRules::allowing_private()),
        Ok(false) => return Ok(AddressRules::public_only()),
        Err(_) => {}
    }
    parse_blocks(text).map(AddressRules::allowing).map_err(|reason| format!("must be true, false or a list of CIDR blocks: {reason}"))
}

/// Where this server is, as others see it: they may reach it below a path of a proxy.
fn parse_public_url(text: &str) -> Result<String, String> {
    let wrong = || "must be an http or https URL without user, query and fragment, as in https://hooks.example.com".to_owned();
    let url = url::Url::parse(text).map_err(|_| wrong())?;
    let is_good = ["http", "https"].contains(&url.scheme())
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if is_good { Ok(url.as_str().trim_end_matches('/').to_owned()) } else { Err(wrong()) }
}

fn parse_trusted_proxies(text: &str) -> Result<Vec<IpNet>, String> {
    parse_blocks(text).map_err(|reason| format!("must be a list of CIDR blocks: {reason}"))
}

fn parse_blocks(text: &str) -> Result<Vec<IpNet>, String> {
    let parse = |block: &str| block.trim().parse::<IpNet>().map_err(|_| format!("`{}` is not a CIDR block", block.trim().escape_debug()));
    text.split(',').map(parse).collect()
}

fn parse_profile(text: &str) -> Result<Profile, String> {
    match text {
        "plain" => Ok(Profile::plain()),
        "hosted" => Ok(Profile::hosted()),
        _ => Err("must be plain or hosted".to_owned()),
    }
}

fn parse_concurrency(text: &str) -> Result<usize, String> {
    in_range(text.parse().map_err(|_| "must be a number".to_owned())?, CONCURRENCY)
}

fn parse_log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("must be text or json".to_owned()),
    }
}
