//! Finds the addresses of a name. It decides nothing: whoever connects vets every answer, the hosts file's included.

use std::{
    error::Error,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use async_trait::async_trait;
use hickory_resolver::{
    TokioResolver,
    config::{LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts},
    net::{NetError, runtime::TokioRuntimeProvider},
};

/// How long an answer is kept at most, whatever its TTL says: a receiver that moves is followed within this time.
const ANSWER_KEPT_MAX: Duration = Duration::from_secs(300);

/// How long "no such name" is kept at most: somebody may be setting it up just now.
const REFUSAL_KEPT_MAX: Duration = Duration::from_secs(30);

/// How many answers are kept: a few kilobytes each at worst, so some megabytes.
const ANSWERS_KEPT_MAX: u64 = 4_096;

/// How many addresses of one name are looked at; more are an attack or a mistake.
const ADDRESSES_MAX: usize = 16;

/// Finds the addresses of a name.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// The addresses of `host`, the preferred one first. Not vetted.
    ///
    /// # Errors
    /// [`ResolveError`] if there are none, or it cannot be known.
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError>;
}

/// Why there are no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The name does not exist.
    #[error("there is no such host name")]
    NoSuchHost,
    /// The name exists, without an address.
    #[error("the host name has no address")]
    NoAddress,
    /// The name servers did not answer in time.
    #[error("the name servers did not answer in time")]
    TimedOut,
    /// Something else; the words are the resolver's.
    #[error("the host name could not be resolved: {0}")]
    Unavailable(String),
}

/// Resolves as the machine is set up to: hosts file, then name servers, with answers kept for min(TTL, 5 min).
pub struct SystemResolver {
    resolver: TokioResolver,
}

impl SystemResolver {
    /// Reads the machine's settings. Without any, the name server on this machine is asked, as the C library does.
    ///
    /// # Errors
    /// What the library says, if its client cannot be built.
    pub fn new() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let provider = TokioRuntimeProvider::default;
        let mut builder = TokioResolver::builder(provider()).unwrap_or_else(|error| {
            tracing::warn!(%error, "the machine's resolver settings could not be read: asking a name server on 127.0.0.1");
            let local = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
            TokioResolver::builder_with_config(ResolverConfig::from_name_servers(vec![local]), provider())
        });
        bound(builder.options_mut());
        Ok(Self { resolver: builder.build()? })
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let found = self.resolver.lookup_ip(host).await.map_err(|error| in_our_words(&error))?;
        Ok(found.iter().take(ADDRESSES_MAX).collect())
    }
}

fn bound(options: &mut ResolverOpts) {
    options.positive_max_ttl = Some(ANSWER_KEPT_MAX);
    options.negative_max_ttl = Some(REFUSAL_KEPT_MAX);
    options.cache_size = ANSWERS_KEPT_MAX;
    // Many machines have an IPv6 address and no way out; a failed first try costs every connect.
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
}

fn in_our_words(error: &NetError) -> ResolveError {
    match error {
        _ if error.is_nx_domain() => ResolveError::NoSuchHost,
        _ if error.is_no_records_found() => ResolveError::NoAddress,
        NetError::Timeout => ResolveError::TimedOut,
        other => ResolveError::Unavailable(other.to_string()),
    }
}
