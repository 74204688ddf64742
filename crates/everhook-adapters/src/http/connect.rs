//! Opens connections: resolve, vet, connect, secure. Called when the pool has no connection to the origin.
//!
//! The guard against request forgery is here: the very address that is connected to was vetted a moment before, on every connect.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use everhook_core::{ids::OrganizationId, model::Target, policy::address::AddressRules, ports::OutgoingRequest};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs, pki_types::ServerName};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    HttpSettings, HttpSetupError,
    connection::Connection,
    exchange::{Progress, Stage},
    failure::{Failure, Peer, TOO_MANY_LOOK_UPS},
    look_ups::LookUps,
    resolver::{Resolve, ResolveError},
};

/// How many of a name's addresses are tried, within one connect timeout.
const ADDRESSES_TRIED_MAX: usize = 4;

/// How long a request waits until its host name may be resolved: a small part of the time that it has for all the rest.
const LOOK_UP_AWAITED_MAX: Duration = Duration::from_secs(2);

/// A connection to a vetted address.
pub(crate) enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Under TLS, to a server that proved its name.
    Secure(Box<TlsStream<TcpStream>>),
}

/// What is needed to open connections.
pub(crate) struct Connector {
    rules: AddressRules,
    connect_timeout: Duration,
    resolver: Arc<dyn Resolve>,
    look_ups: LookUps,
    tls: TlsConnector,
}

impl Connector {
    pub(crate) fn new(settings: HttpSettings, resolver: Arc<dyn Resolve>) -> Result<Self, HttpSetupError> {
        let tls = tls_config(settings.extra_roots, settings.protocol)?;
        let tls = TlsConnector::from(Arc::new(tls));
        Ok(Self { rules: settings.rules, connect_timeout: settings.connect_timeout, resolver, look_ups: LookUps::default(), tls })
    }

    /// Opens a connection to the origin that the request goes to, noting how long each part took.
    pub(super) async fn open(&self, request: &OutgoingRequest, progress: &mut Progress) -> Result<Connection, Failure> {
        match self.reach(&request.target, Some(request.organization), progress).await? {
            Stream::Secure(stream) => Ok(Connection::new(*stream)),
            Stream::Plain(stream) => Ok(Connection::new(stream)),
        }
    }

    /// Opens a connection on which nothing has been said yet, whatever will be spoken there, for an organization or for the operator.
    pub(crate) async fn reach(
        &self,
        target: &Target,
        organization: Option<OrganizationId>,
        progress: &mut Progress,
    ) -> Result<Stream, Failure> {
        let addresses = self.allowed_addresses(target, organization, progress).await?;
        let port = target.port().ok_or_else(Failure::no_host)?;
        let stream = self.connect(target, &addresses, port, progress).await?;
        if target.is_secure() {
            return Ok(Stream::Secure(Box::new(self.secure(stream, target, progress).await?)));
        }
        Ok(Stream::Plain(stream))
    }

    /// The addresses that requests may go to, of those that the target has now.
    ///
    /// One allowed address is enough: only allowed ones are connected to, and a network that translates addresses adds special ones to
    /// every name.
    async fn allowed_addresses(
        &self,
        target: &Target,
        organization: Option<OrganizationId>,
        progress: &mut Progress,
    ) -> Result<Vec<IpAddr>, Failure> {
        let mut addresses = match target.literal_address() {
            Some(address) => vec![address],
            None => self.resolve(&target.host().ok_or_else(Failure::no_host)?.to_string(), organization, progress).await?,
        };
        let mut blocked = None;
        addresses.retain(|&address| self.rules.vet(address).map_err(|reason| blocked.get_or_insert(reason).to_owned()).is_ok());
        addresses.truncate(ADDRESSES_TRIED_MAX);
        match blocked {
            Some(reason) if addresses.is_empty() => {
                tracing::debug!(host = target.authority(), "connection not permitted: {reason}");
                Err(Failure::blocked(target, reason))
            }
            _ => Ok(addresses),
        }
    }

    async fn resolve(&self, host: &str, organization: Option<OrganizationId>, progress: &mut Progress) -> Result<Vec<IpAddr>, Failure> {
        let found = match self.resolver.known(host) {
            Some(known) => {
                progress.phases.dns = Some(Duration::ZERO);
                known
            }
            None => self.look_up(host, organization, progress).await,
        };
        match found {
            Ok(addresses) if addresses.is_empty() => Err(Failure::unresolved(host, &ResolveError::NoAddress)),
            Ok(addresses) => Ok(addresses),
            Err(error) => Err(Failure::unresolved(host, &error)),
        }
    }

    /// Resolves a name when it is the organization's turn. The wait for that has a time limit of its own: it is no fault of the name's.
    async fn look_up(
        &self,
        host: &str,
        organization: Option<OrganizationId>,
        progress: &mut Progress,
    ) -> Result<Vec<IpAddr>, ResolveError> {
        progress.stage = Stage::AwaitingLookUp;
        let awaited_max = LOOK_UP_AWAITED_MAX.min(self.connect_timeout);
        let Ok(_permit) = timeout(awaited_max, self.look_ups.begin(organization)).await else {
            return Err(ResolveError::OutOfResources(TOO_MANY_LOOK_UPS.to_owned()));
        };
        progress.stage = Stage::Resolving;
        let started = Instant::now();
        let found = timeout(self.connect_timeout, self.resolver.resolve(host)).await;
        progress.phases.dns = Some(started.elapsed());
        found.unwrap_or(Err(ResolveError::TimedOut))
    }

    /// Tries the addresses in turn, each with an equal share of the time that is left.
    async fn connect(&self, target: &Target, addresses: &[IpAddr], port: u16, progress: &mut Progress) -> Result<TcpStream, Failure> {
        progress.stage = Stage::Connecting;
        let started = Instant::now();
        let mut last_failure = Failure::no_host();
        for (tried, &address) in addresses.iter().enumerate() {
            let address = SocketAddr::new(address, port);
            let peer = Peer { target, address };
            let left = self.connect_timeout.saturating_sub(started.elapsed());
            let share = left / u32::try_from(addresses.len() - tried).unwrap_or(1);
            let outcome = timeout(share, TcpStream::connect(address)).await;
            progress.phases.connect = Some(started.elapsed());
            match outcome {
                Ok(Ok(stream)) => {
                    // A request is written at once and then waited for: nothing is gained by holding back its last packet.
                    stream.set_nodelay(true).map_err(|error| Failure::unreachable(&peer, &error))?;
                    return Ok(stream);
                }
                Ok(Err(error)) => last_failure = Failure::unreachable(&peer, &error),
                Err(_) => last_failure = Failure::connect_timeout(&peer, started.elapsed()),
            }
        }
        Err(last_failure)
    }

    async fn secure(&self, stream: TcpStream, target: &Target, progress: &mut Progress) -> Result<TlsStream<TcpStream>, Failure> {
        progress.stage = Stage::Securing;
        let started = Instant::now();
        let secured = self.tls.connect(server_name(target)?, stream).await;
        progress.phases.tls = Some(started.elapsed());
        secured.map_err(|error| Failure::handshake(&error))
    }
}

fn tls_config(
    extra_roots: Vec<rustls::pki_types::CertificateDer<'static>>,
    protocol: Option<&'static [u8]>,
) -> Result<ClientConfig, HttpSetupError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for root in extra_roots {
        roots.add(root).map_err(HttpSetupError::Root)?;
    }
    // The provider is passed, not installed: another crate that brings a second one must not make this panic.
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(HttpSetupError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
    Ok(config)
}

/// The name that the certificate must be for: the host without the dot that may end it.
fn server_name(target: &Target) -> Result<ServerName<'static>, Failure> {
    if let Some(address) = target.literal_address() {
        return Ok(ServerName::from(address));
    }
    let host = target.host().map(|host| host.to_string()).unwrap_or_default().trim_end_matches('.').to_owned();
    ServerName::try_from(host).map_err(|_| Failure::no_host())
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use everhook_core::model::Sent;
    use futures_util::future::join_all;
    use uuid::Uuid;

    use super::*;

    /// Name servers that never answer.
    struct Silent;

    #[async_trait]
    impl Resolve for Silent {
        async fn resolve(&self, _host: &str) -> Result<Vec<IpAddr>, ResolveError> {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn a_wait_for_other_look_ups_is_no_failure_of_the_endpoint() {
        let settings = HttpSettings { connect_timeout: Duration::from_millis(20), ..HttpSettings::new(AddressRules::public_only()) };
        let connector = Connector::new(settings, Arc::new(Silent)).unwrap();
        let organization = Some(OrganizationId::from_uuid(Uuid::from_u128(1)));
        let written = "https://hook.example/".to_owned();
        let target = Target { url: written.parse().unwrap(), written };
        let sent = async || {
            let mut progress = Progress::default();
            connector.reach(&target, organization, &mut progress).await.err().expect("nobody answers").into_sent(None)
        };
        assert!(matches!(sent().await, Sent::Failed { .. }), "its own name servers did not answer");
        let _held = join_all((0..super::super::look_ups::PER_ORGANIZATION_MAX).map(|_| connector.look_ups.begin(organization))).await;
        assert_eq!(sent().await, Sent::OutOfResources { error: TOO_MANY_LOOK_UPS.to_owned() });
        let at_deadline = Failure::deadline(Stage::AwaitingLookUp, Duration::from_secs(1)).into_sent(None);
        assert!(matches!(at_deadline, Sent::OutOfResources { .. }));
    }
}
