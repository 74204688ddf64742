//! The Redis beside a shared store, if there is one: what nodes count together goes there instead of into PostgreSQL. Called by `wiring` with the ports of the
//! store; a node without Redis keeps them as they are.

use std::sync::Arc;

use anyhow::Context as _;
use everhook_adapters::redis::{Redis, RedisSettings};
use everhook_core::ports::Ports;

use crate::{config::Config, store::Store};

/// The same ports, with Redis where it is of use.
///
/// # Errors
/// If the installation cannot be named, or the certificates of `redis_ca_file` cannot be read. A Redis that is away is none: it is used when it comes.
pub async fn with_redis(config: &Config, store: &Store, ports: Ports) -> anyhow::Result<Ports> {
    let Some(url) = &config.redis else { return Ok(ports) };
    let Some(installation) = store.installation().await? else { return Ok(ports) };
    let authorities = match &config.redis_ca_file {
        Some(path) => Some(std::fs::read(path).with_context(|| format!("cannot read redis_ca_file {}", path.display()))?),
        None => None,
    };
    let redis = Arc::new(Redis::start(&RedisSettings { url: url.expose().clone(), authorities, installation }).await?);
    let events = Arc::new(redis.look_aside(ports.events));
    Ok(Ports { events, throttle: redis.clone(), breaker_windows: redis, ..ports })
}
