//! Finds the addresses of a name. It decides nothing: whoever connects vets every answer, the hosts file's included.

use std::{
    error::Error,
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use hickory_resolver::{
    TokioResolver,
    config::{LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts},
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    system_conf::read_system_conf,
};

use super::answer_cache::{Answer, AnswerCache};

/// How long an answer is kept at most, whatever its TTL says: a receiver that moves is followed within this time.
const ANSWER_KEPT_MAX: Duration = Duration::from_secs(300);

/// How long "no such name" is kept at most: somebody may be setting it up just now.
const REFUSAL_KEPT_MAX: Duration = Duration::from_secs(30);

/// How long a name server may take, and how often it is asked again: both fit into the time that a connect may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
const QUERY_RETRIES: usize = 1;

/// How many questions one connection to a name server carries at once: two for each name that may be resolved at once, so that names whose
/// servers are silent do not keep others from being asked about.
const QUERIES_PER_CONNECTION_MAX: usize = 512;

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

    /// What [`Resolve::resolve`] would answer without asking anybody; `None` if it is not known.
    fn known(&self, _host: &str) -> Option<Result<Vec<IpAddr>, ResolveError>> {
        None
    }
}

/// Why there are no addresses. Tenants read it: it names no server and no address of the machine's network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The name does not exist.
    #[error("the host name does not exist")]
    NoSuchHost,
    /// The name exists, without an address.
    #[error("the host name has no address")]
    NoAddress,
    /// The name servers did not answer in time.
    #[error("the name servers did not answer in time")]
    TimedOut,
    /// This machine has no socket to ask a name server with; the words are the system's.
    #[error("cannot query a name server: {0}")]
    OutOfResources(String),
    /// Something else; the log has the resolver's words.
    #[error("cannot resolve the host name")]
    Unavailable,
}

/// Resolves as the machine is set up to: hosts file, then name servers, with answers kept for min(TTL, 5 min). Names are complete as they stand:
/// search domains, which would lead into the machine's own network, are not tried.
pub struct SystemResolver {
    resolver: TokioResolver,
    cache: AnswerCache,
}

impl SystemResolver {
    /// Reads the machine's settings. Without any, the name server on this machine is asked, as the C library does.
    ///
    /// # Errors
    /// What the library says, if its client cannot be built.
    pub fn new() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (config, options) = read_system_conf().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the system's DNS resolver settings; using the name server 127.0.0.1");
            let local = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
            (ResolverConfig::from_name_servers(vec![local]), ResolverOpts::default())
        });
        Self::with_config(config, options)
    }

    fn with_config(config: ResolverConfig, options: ResolverOpts) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (_domain, _search, name_servers) = config.into_parts();
        let config = ResolverConfig::from_name_servers(name_servers);
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        Ok(Self { resolver: builder.with_options(bounded(options)).build()?, cache: AnswerCache::default() })
    }

    async fn ask(&self, host: &str) -> (Answer, Duration) {
        match self.resolver.lookup_ip(host).await {
            Ok(found) => {
                let seconds = found.as_lookup().answers().iter().map(|record| record.ttl).min().unwrap_or_default();
                let lifetime = Duration::from_secs(seconds.into()).min(ANSWER_KEPT_MAX);
                (Ok(found.iter().take(ADDRESSES_MAX).collect()), lifetime)
            }
            Err(error) => refused(host, &error),
        }
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        if let Some(known) = self.known(host) {
            return known;
        }
        let (answer, lifetime) = self.ask(host).await;
        self.cache.put(host, &answer, lifetime, Instant::now());
        answer
    }

    fn known(&self, host: &str) -> Option<Result<Vec<IpAddr>, ResolveError>> {
        self.cache.get(host, Instant::now())
    }
}

fn bounded(mut options: ResolverOpts) -> ResolverOpts {
    // Answers are kept here, without what a resolver keeps beside the addresses.
    options.cache_size = 0;
    options.max_active_requests = QUERIES_PER_CONNECTION_MAX;
    options.timeout = options.timeout.min(QUERY_TIMEOUT);
    options.attempts = options.attempts.min(QUERY_RETRIES);
    // Many machines have an IPv6 address and no way out; a failed first try costs every connect.
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options
}

/// Why there is no answer, and for how long that is believed: only what the name's own servers say is.
fn refused(host: &str, error: &NetError) -> (Answer, Duration) {
    let kind = match error {
        _ if error.is_nx_domain() => ResolveError::NoSuchHost,
        _ if error.is_no_records_found() => ResolveError::NoAddress,
        NetError::Timeout => ResolveError::TimedOut,
        NetError::Io(error) if super::failure::is_shortage(error) => ResolveError::OutOfResources(error.to_string()),
        other => {
            tracing::debug!(host, error = %other, "cannot resolve a host name");
            ResolveError::Unavailable
        }
    };
    let lifetime = match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => Duration::from_secs(none.negative_ttl.unwrap_or_default().into()),
        _ => Duration::ZERO,
    };
    (Err(kind), lifetime.min(REFUSAL_KEPT_MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use hickory_resolver::{
        config::ConnectionConfig,
        proto::{
            op::{Message, ResponseCode},
            rr::{Name, RData, Record, RecordType},
        },
    };
    use tokio::net::UdpSocket;

    use super::*;

    /// A name server on the loopback address that knows `inside.corp.example` and remembers what it was asked.
    async fn name_server() -> (NameServerConfig, Arc<Mutex<Vec<String>>>) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut connection = ConnectionConfig::udp();
        connection.port = socket.local_addr().unwrap().port();
        let config = NameServerConfig::new(Ipv4Addr::LOCALHOST.into(), true, vec![connection]);
        let heard = asked.clone();
        tokio::spawn(async move {
            let mut bytes = [0; 1_024];
            while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
                let question = Message::from_vec(&bytes[..length]).unwrap();
                let query = question.queries[0].clone();
                heard.lock().unwrap().push(query.name().to_string());
                let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
                answer.add_query(query.clone());
                if query.name().to_string() != "inside.corp.example." {
                    answer.metadata.response_code = ResponseCode::NXDomain;
                } else if query.query_type() == RecordType::A {
                    let address = RData::A(Ipv4Addr::new(192, 0, 2, 1).into());
                    answer.add_answer(Record::from_rdata(query.name().clone(), 60, address));
                }
                socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
            }
        });
        (config, asked)
    }

    #[tokio::test]
    async fn names_are_complete_as_they_stand_and_answers_are_kept() {
        let (server, asked) = name_server().await;
        let search = vec![Name::from_ascii("corp.example.").unwrap()];
        let config = ResolverConfig::from_parts(Some(search[0].clone()), search, vec![server]);
        let mut options = ResolverOpts::default();
        options.ndots = 5;
        let resolver = SystemResolver::with_config(config, options).unwrap();
        assert_eq!(resolver.resolve("inside").await, Err(ResolveError::NoSuchHost));
        assert!(asked.lock().unwrap().iter().all(|name| name == "inside."), "{asked:?}");
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(resolver.known("inside.corp.example"), None);
        assert_eq!(resolver.resolve("inside.corp.example").await, Ok(vec![address]));
        let before = asked.lock().unwrap().len();
        assert_eq!(resolver.known("inside.corp.example"), Some(Ok(vec![address])));
        assert_eq!(resolver.resolve("inside.corp.example").await, Ok(vec![address]));
        assert_eq!(asked.lock().unwrap().len(), before, "nobody is asked twice");
    }

    #[tokio::test]
    async fn what_tenants_read_names_no_server() {
        // Nobody answers on this port.
        let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut connection = ConnectionConfig::udp();
        connection.port = port;
        let server = NameServerConfig::new(Ipv4Addr::LOCALHOST.into(), true, vec![connection]);
        let resolver = SystemResolver::with_config(ResolverConfig::from_name_servers(vec![server]), ResolverOpts::default()).unwrap();
        let words = resolver.resolve("a.example").await.unwrap_err().to_string();
        assert!(!words.contains("127.0.0.1") && !words.contains(&port.to_string()), "{words}");
        assert_eq!(resolver.known("a.example"), None, "what could not be asked is asked again");
    }
}
