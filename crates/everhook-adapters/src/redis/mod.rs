//! Redis, where one is set up beside PostgreSQL: what nodes count together, and what makes an answer quicker. Nothing in it is a promise.
//!
//! * `link`: the connection, and what is done while there is none: nothing waits.
//! * `budgets`: the port `ThrottleStore`.
//! * `windows`: the port `BreakerWindows`.
//! * `look_aside`: before the port `EventStore`, for idempotency keys that were seen before.
//! * `notes`: what is written without anybody waiting for it.
//! * `scripts`: what must be atomic, in Redis' own language.
//!
//! Whatever Redis forgets, invents or does not answer must never change what becomes of an event.

mod budgets;
mod link;
mod look_aside;
mod notes;
mod windows;

use std::{sync::Arc, time::Duration};

use redis::IntoConnectionInfo as _;
use tokio::task::JoinSet;
use uuid::Uuid;

pub use self::look_aside::LookAside;
use self::{link::Link, notes::Notes};

/// Where Redis is.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// The address: `redis://user:password@host:port/number`, or `rediss://` for TLS. It may hold a password, and is never shown.
    pub url: String,
    /// The certificates of the authorities that sign its certificate, in PEM; the public ones if absent. Only with `rediss://`.
    pub authorities: Option<Vec<u8>>,
    /// Which installation this is: all its nodes say the same, and no other that uses the same Redis does.
    pub installation: Uuid,
}

/// What is set up cannot be used, whether Redis is there or not.
#[derive(Debug, thiserror::Error)]
pub enum BadSettings {
    /// The address cannot be read.
    #[error("invalid Redis address: expected redis://user:password@host:6379/0, or rediss://… for TLS")]
    Address,
    /// The authorities cannot be read.
    #[error("the certificates of the authorities are not PEM, or none is there")]
    Authorities,
}

/// A Redis that is used for as long as this lives, whether it is there or not.
pub struct Redis {
    link: Arc<Link>,
    /// By what this process holds slots.
    holder: Uuid,
    notes: Notes,
    // Dropping it ends the tasks.
    _tasks: JoinSet<()>,
}

impl Redis {
    /// Begins to use it. One that cannot be reached is waited for a moment, and then used when it comes.
    ///
    /// # Errors
    /// [`BadSettings`]. Nothing else: a Redis that is away keeps nobody from starting.
    pub async fn start(settings: &RedisSettings) -> Result<Self, BadSettings> {
        let client = open(settings)?;
        let link = Arc::new(Link::new(client, format!("everhook:{}:", settings.installation.simple())));
        link.try_now().await;
        let (notes, writing) = Notes::new(link.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(link::watch(link.clone()));
        tasks.spawn(writing);
        Ok(Self { link, holder: Uuid::now_v7(), notes, _tasks: tasks })
    }

    /// Whether it cannot be reached now, as far as is known: what depends on it does without.
    pub fn is_away(&self) -> bool {
        self.link.is_away()
    }
}

/// Connects once and asks whether anybody is there, for a person who wants to know.
///
/// # Errors
/// [`NotThere`] says what is wrong, without anything secret.
pub async fn check(settings: &RedisSettings, within: Duration) -> Result<(), NotThere> {
    let client = open(settings)?;
    let asking = async {
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd("PING").query_async::<String>(&mut connection).await
    };
    match tokio::time::timeout(within, asking).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(NotThere::Refused(error.to_string())),
        Err(_) => Err(NotThere::Silent),
    }
}

/// Why a Redis cannot be used now.
#[derive(Debug, thiserror::Error)]
pub enum NotThere {
    /// What is set up cannot be used.
    #[error(transparent)]
    Settings(#[from] BadSettings),
    /// It could not be reached, or refused; in the library's words.
    #[error("{0}")]
    Refused(String),
    /// It does not answer.
    #[error("it does not answer")]
    Silent,
}

fn open(settings: &RedisSettings) -> Result<redis::Client, BadSettings> {
    let Some(authorities) = &settings.authorities else {
        return redis::Client::open(settings.url.as_str()).map_err(|_| BadSettings::Address);
    };
    if !is_address(&settings.url) {
        return Err(BadSettings::Address);
    }
    // The library takes a file without a certificate for no authority at all, and nobody could be verified.
    if !authorities.windows(CERTIFICATE.len()).any(|part| part == CERTIFICATE) {
        return Err(BadSettings::Authorities);
    }
    let certificates = redis::TlsCertificates { client_tls: None, root_cert: Some(authorities.clone()) };
    redis::Client::build_with_tls(settings.url.as_str(), certificates).map_err(|_| BadSettings::Authorities)
}

/// What a certificate in PEM begins with.
const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Whether an address can be read, before anything is started with it.
pub fn is_address(url: &str) -> bool {
    (url.starts_with("redis://") || url.starts_with("rediss://")) && url.into_connection_info().is_ok()
}

/// A length of time as scripts take it.
fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}
