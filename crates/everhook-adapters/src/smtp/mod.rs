//! How e-mail goes out: over SMTP, through the operator's mail server.
//!
//! The engine calls [`SmtpNotifier`] for every attempt at a mail. In reading order: `address` says which server and how it is secured, `compose` writes the
//! mail, `session` opens a connection and transfers one mail after another over it, `sessions` keeps a few of these, and `reply` says what the server replied.

mod address;
mod compose;
mod reply;
mod session;
mod sessions;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use everhook_core::{
    model::{EmailSender, FailureCategory, Report, Response, Sent},
    policy::address::AddressRules,
    ports::{EmailMessage, Notifier},
};
use lettre::transport::smtp::{
    client::{Certificate, CertificateStore, TlsParameters},
    response::Response as Reply,
};
use rustls::pki_types::CertificateDer;

pub use self::address::{SmtpAddress, SmtpAddressError};
use self::{
    compose::Composed,
    session::{Outcome, Session},
    sessions::{SESSIONS_MAX, Sessions},
};
use crate::http::{Connector, Failure, HttpSettings, HttpSetupError, Progress, Stage, SystemResolver};

/// Sends mail through one mail server, over connections kept for the next one.
pub struct SmtpNotifier {
    address: SmtpAddress,
    from: EmailSender,
    connector: Connector,
    /// For STARTTLS.
    tls: TlsParameters,
    sessions: Arc<Sessions>,
}

/// Why there is no notifier, in words for the operator.
#[derive(Debug, thiserror::Error)]
pub enum SmtpSetupError {
    /// What connects could not be set up.
    #[error(transparent)]
    Connector(#[from] HttpSetupError),
    /// TLS could not be set up, or an extra root is not a certificate.
    #[error("cannot initialize TLS to the mail server")]
    Tls(#[source] lettre::transport::smtp::Error),
}

/// Why a mail will never be taken.
struct Refusal {
    category: FailureCategory,
    error: String,
    response: Option<Response>,
}

/// Why a mail was not taken.
enum Ended {
    /// It may be taken later.
    Failed(Failure),
    /// It never will.
    Refused(Refusal),
}

impl SmtpNotifier {
    /// A notifier that sends from this address and trusts `extra_roots` beside the public certificate authorities. Its server is the operator's choice, so that its address is not vetted.
    ///
    /// # Errors
    /// [`SmtpSetupError`] if TLS or the resolver cannot be set up.
    pub fn new(address: SmtpAddress, from: EmailSender, extra_roots: Vec<CertificateDer<'static>>) -> Result<Self, SmtpSetupError> {
        let domain = address.target.host().map(|host| host.to_string()).unwrap_or_default();
        let tls = tls_parameters(domain, &extra_roots).map_err(SmtpSetupError::Tls)?;
        let resolver = Arc::new(SystemResolver::new().map_err(HttpSetupError::Resolver)?);
        let settings = HttpSettings { protocol: None, extra_roots, ..HttpSettings::new(AddressRules::allowing_private()) };
        Ok(Self { connector: Connector::new(settings, resolver)?, tls, address, from, sessions: Sessions::new() })
    }

    /// Connects, greets, secures the connection and logs in as for a mail, and says goodbye: for a person who wants to know.
    ///
    /// # Errors
    /// What a mail would have failed with, in words.
    pub async fn check(&self, within: Duration) -> Result<(), String> {
        let mut progress = Progress::default();
        match tokio::time::timeout(within, Session::open(&self.connector, &self.address, &self.tls, &mut progress)).await {
            Ok(Ok(session)) => {
                session.close().await;
                Ok(())
            }
            Ok(Err(failure)) => Err(failure.error),
            Err(_) => Err(format!("the mail server did not answer within {} s", within.as_secs())),
        }
    }

    /// Transfers the mail. A session is kept only after a mail that was taken: dropping this future midway closes the one in use, since nobody could say
    /// what the server would take for the next command on it.
    async fn transfer(&self, mail: &Composed, progress: &mut Progress, is_our_turn: &mut bool) -> Result<Reply, Ended> {
        let _turn = self.sessions.turn().await;
        *is_our_turn = true;
        let mut kept = self.sessions.take();
        loop {
            let mut session = match kept.take() {
                Some(session) => session,
                None => Session::open(&self.connector, &self.address, &self.tls, progress).await.map_err(Ended::Failed)?,
            };
            progress.stage = Stage::Waiting;
            let started = Instant::now();
            let outcome = session.send(mail).await;
            progress.phases.first_byte = Some(started.elapsed());
            match outcome {
                Outcome::Taken(reply) => {
                    self.sessions.keep(session);
                    return Ok(reply);
                }
                // A fresh session is never found closed, so that this happens once a kept one.
                Outcome::WasClosed => kept = self.sessions.take(),
                Outcome::Ended(ended) => return Err(ended),
            }
        }
    }
}

#[async_trait]
impl Notifier for SmtpNotifier {
    async fn send(&self, message: &EmailMessage) -> Report {
        let started = Instant::now();
        let (mut progress, mut is_our_turn) = (Progress::default(), false);
        let ended = match compose::compose(message, &self.from) {
            Err(refusal) => Err(Ended::Refused(refusal)),
            Ok(mail) => match tokio::time::timeout(message.timeout, self.transfer(&mail, &mut progress, &mut is_our_turn)).await {
                Ok(ended) => ended,
                Err(_) if is_our_turn => Err(Ended::Failed(Failure::deadline(progress.stage, message.timeout))),
                Err(_) => Err(Ended::Failed(busy(message.timeout))),
            },
        };
        let sent = match ended {
            Ok(reply) => Sent::Answered(reply::taken(&reply)),
            Err(Ended::Failed(failure)) => failure.into_sent(None),
            Err(Ended::Refused(Refusal { category, error, response })) => Sent::Refused { category, error, response },
        };
        Report { sent, duration: started.elapsed(), phases: progress.phases }
    }
}

impl Refusal {
    fn new(category: FailureCategory, error: String) -> Self {
        Self { category, error, response: None }
    }

    fn replied(self, code: u16, text: &str) -> Self {
        Self { response: Some(reply::response(code, text)), ..self }
    }
}

fn busy(timeout: Duration) -> Failure {
    let words = format!("all {SESSIONS_MAX} connections to the mail server were busy for {} ms", timeout.as_millis());
    Failure::new(FailureCategory::Timeout, words)
}

fn tls_parameters(domain: String, extra_roots: &[CertificateDer<'static>]) -> Result<TlsParameters, lettre::transport::smtp::Error> {
    let builder = TlsParameters::builder(domain).certificate_store(CertificateStore::WebpkiRoots);
    let roots = extra_roots.iter().map(|root| Certificate::from_der(root.to_vec()));
    roots.into_iter().try_fold(builder, |builder, root| Ok(builder.add_root_certificate(root?)))?.build_rustls()
}
