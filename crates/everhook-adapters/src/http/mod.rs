//! How requests go out: HTTP/1.1 over kept-alive connections to strangers' servers.
//!
//! The engine calls [`HttpTransport`] for every attempt. Read in the order of the line: `exchange` sends one request and reads its answer,
//! `pool` keeps connections for the next one, `connect` opens them to vetted addresses only, `resolver` finds those, `look_ups` bounds how many
//! names are being resolved, and `failure` says what went wrong. Nothing here follows a redirect, reads a proxy setting, decompresses an answer, or trusts a name.

mod answer;
mod answer_cache;
mod compose;
mod connect;
mod connection;
mod exchange;
mod failure;
mod look_ups;
mod pool;
mod resolver;

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use everhook_core::{
    model::{Report, Sent},
    policy::address::AddressRules,
    ports::{OutgoingRequest, Transport},
};
use rustls::pki_types::CertificateDer;

use self::pool::{Pool, PoolLimits};
pub use self::resolver::{Resolve, ResolveError, SystemResolver};
pub(crate) use self::{
    connect::{Connector, Stream},
    exchange::{Progress, Stage},
    failure::Failure,
};

/// How the transport behaves, beyond what each request says.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Which addresses requests may go to.
    pub rules: AddressRules,
    /// How long resolving a name, and then opening a connection, may each take at most.
    pub connect_timeout: Duration,
    /// How many unused connections are kept to one origin.
    pub idle_per_origin_max: usize,
    /// How many unused connections are kept for one organization; its longest unused is closed for a new one.
    pub idle_per_organization_max: usize,
    /// How many unused connections are kept in all; whoever keeps the most gives up one for a new one.
    pub idle_total_max: usize,
    /// Certificate authorities that are trusted beside the public ones.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// The protocol that a TLS handshake asks for.
    pub(crate) protocol: Option<&'static [u8]>,
}

impl HttpSettings {
    /// The defaults, with the rules given.
    pub fn new(rules: AddressRules) -> Self {
        Self {
            rules,
            connect_timeout: Duration::from_secs(5),
            // An endpoint has 5 requests under way by default; a fast one that is allowed many should keep all of its connections.
            idle_per_origin_max: 128,
            // Half of all: an organization that is alone on the server keeps as many as it can have requests under way.
            idle_per_organization_max: 512,
            idle_total_max: 1_024,
            extra_roots: Vec::new(),
            protocol: Some(b"http/1.1"),
        }
    }
}

/// Why there is no transport, in words for the operator.
#[derive(Debug, thiserror::Error)]
pub enum HttpSetupError {
    /// An extra root is not a certificate.
    #[error("an extra root certificate is not usable")]
    Root(#[source] rustls::Error),
    /// TLS could not be set up.
    #[error("cannot initialize TLS")]
    Tls(#[source] rustls::Error),
    /// Names could not be resolved with the system's settings.
    #[error("cannot initialize the DNS resolver")]
    Resolver(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Sends requests over HTTP/1.1, with connections kept for the next one.
pub struct HttpTransport {
    connector: Connector,
    pool: Arc<Pool>,
}

impl HttpTransport {
    /// A transport that resolves names as the machine is set up to.
    ///
    /// # Errors
    /// [`HttpSetupError`] if a root certificate is unusable, or TLS or the resolver cannot be set up.
    pub fn new(settings: HttpSettings) -> Result<Self, HttpSetupError> {
        let resolver = SystemResolver::new().map_err(HttpSetupError::Resolver)?;
        Self::with_resolver(settings, Arc::new(resolver))
    }

    /// A transport with a resolver of the caller's choice. Its answers are vetted like any other's.
    ///
    /// # Errors
    /// [`HttpSetupError`] if a root certificate is unusable or TLS cannot be set up.
    pub fn with_resolver(settings: HttpSettings, resolver: Arc<dyn Resolve>) -> Result<Self, HttpSetupError> {
        let limits = PoolLimits {
            idle_per_origin_max: settings.idle_per_origin_max,
            idle_per_organization_max: settings.idle_per_organization_max,
            idle_total_max: settings.idle_total_max,
        };
        Ok(Self { connector: Connector::new(settings, resolver)?, pool: Arc::new(Pool::new(limits)) })
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: OutgoingRequest) -> Report {
        let started = Instant::now();
        // It lives outside of the exchange, so that a deadline which cuts the exchange short leaves what was known by then.
        let mut progress = Progress::of(request.method);
        let ended = {
            // Pinned first, because it is large: the deadline would copy it twice.
            let exchange = pin!(exchange::run(&self.connector, &self.pool, &request, &mut progress));
            tokio::time::timeout(request.timeout, exchange).await
        };
        let sent = match ended {
            Ok(Ok(())) => progress.answered(),
            Ok(Err(failure)) => progress.failed(failure),
            Err(_) => {
                let failure = Failure::deadline(progress.stage, request.timeout);
                progress.failed(failure)
            }
        };
        Report { sent, duration: started.elapsed(), phases: progress.phases }
    }
}

impl Progress {
    fn answered(&mut self) -> Sent {
        match self.take_response() {
            Some(response) => Sent::Answered(response),
            None => self.failed(Failure::no_answer()),
        }
    }

    fn failed(&mut self, failure: Failure) -> Sent {
        failure.into_sent(self.take_response())
    }
}
