//! One connection to the mail server: opened and secured, then used for one mail after another.

use std::{
    error::Error as _,
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use everhook_core::model::FailureCategory;
use lettre::transport::smtp::{
    Error as SmtpError,
    authentication::DEFAULT_MECHANISMS,
    client::{AsyncSmtpConnection, AsyncTokioStream, TlsParameters},
    commands::{Data, Mail, Rcpt},
    response::Response as Reply,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    Ended, Refusal,
    address::{Security, SmtpAddress},
    compose::Composed,
    reply,
};
use crate::http::{Connector, Failure, Progress, Stage, Stream};

/// The reply by which a server says that it closes the connection.
const CLOSING: u16 = 421;

/// What a server replies to a mail that is too large for it.
const TOO_LARGE: u16 = 552;

/// An open connection, past the greeting, under TLS if it must be, logged in.
pub(super) struct Session {
    connection: AsyncSmtpConnection,
    pub(super) unused_since: Instant,
    /// It has carried a mail before, and may have ended unnoticed since.
    pub(super) is_reused: bool,
}

/// What came of a mail on a session.
pub(super) enum Outcome {
    /// The server took it; the session is good for the next.
    Taken(Reply),
    /// It did not.
    Ended(Ended),
    /// A kept session had ended before the mail began: nothing was transferred, so that it can go over a fresh one.
    WasClosed,
}

impl Session {
    /// Connects, secures the connection as the address says, and logs in.
    pub(super) async fn open(
        connector: &Connector,
        address: &SmtpAddress,
        tls: &TlsParameters,
        progress: &mut Progress,
    ) -> Result<Self, Failure> {
        let stream = Socket(connector.reach(&address.target, None, progress).await?);
        progress.stage = Stage::Waiting;
        let greeted = AsyncSmtpConnection::connect_with_transport(Box::new(stream), &address.hello).await;
        let mut connection = greeted.map_err(|error| unable("did not greet us", &error))?;
        let is_offered = connection.can_starttls() && address.security != Security::Implicit;
        match address.security {
            Security::Required | Security::WhereOffered if is_offered => {
                progress.stage = Stage::Securing;
                let secured = connection.starttls(tls.clone(), &address.hello).await;
                secured.map_err(|error| unsecured(&error))?;
                progress.stage = Stage::Waiting;
            }
            Security::Required => return Err(Failure::new(FailureCategory::Tls, NOT_OFFERED)),
            _ => {}
        }
        if let Some(credentials) = &address.credentials {
            let accepted = connection.auth(DEFAULT_MECHANISMS, credentials).await;
            accepted.map_err(|error| unable("did not accept our credentials", &error))?;
        }
        Ok(Self { connection, unused_since: Instant::now(), is_reused: false })
    }

    /// Transfers one mail. After anything but [`Outcome::Taken`], the session is at an unknown point and must not be used again.
    pub(super) async fn send(&mut self, mail: &Composed) -> Outcome {
        // A server that does not take our sender is for the operator to correct, and may take it later.
        match self.connection.command(Mail::new(Some(mail.from.clone()), vec![])).await {
            Ok(_) => {}
            Err(error) if self.is_reused && is_closed(&error) => return Outcome::WasClosed,
            Err(error) => return Outcome::Ended(Ended::Failed(unable("did not accept the sender", &error))),
        }
        if let Err(error) = self.connection.command(Rcpt::new(mail.to.clone(), vec![])).await {
            return Outcome::Ended(judge("did not accept the recipient", &error));
        }
        if let Err(error) = self.connection.command(Data).await {
            return Outcome::Ended(judge("did not accept the mail", &error));
        }
        match self.connection.message(&mail.bytes).await {
            Ok(reply) => {
                (self.is_reused, self.unused_since) = (true, Instant::now());
                Outcome::Taken(reply)
            }
            Err(error) => Outcome::Ended(judge("did not accept the mail", &error)),
        }
    }

    /// Says goodbye.
    pub(super) async fn close(mut self) {
        self.connection.abort().await;
    }
}

const NOT_OFFERED: &str =
    "not sent: the mail server does not support STARTTLS; set tls=none or tls=opportunistic in its address to send without encryption";

/// A 5xx that is about this mail ends it; all else may pass.
fn judge(what: &str, error: &SmtpError) -> Ended {
    let Some(code) = error.status().filter(|_| error.is_permanent()) else { return Ended::Failed(unable(what, error)) };
    let category = if u16::from(code) == TOO_LARGE { FailureCategory::PayloadTooLarge } else { FailureCategory::ClientError };
    let words = reply::words(error);
    Ended::Refused(Refusal::new(category, format!("the mail server {what}: {words}")).replied(code.into(), &words))
}

/// What a mail server could not do now, in words.
fn unable(what: &str, error: &SmtpError) -> Failure {
    let words = reply::words(error);
    if error.status().is_some() {
        return Failure::new(FailureCategory::ServerError, format!("the mail server {what}: {words}"));
    }
    Failure::new(FailureCategory::Network, format!("the mail server {what}: {words}"))
}

/// Why STARTTLS failed: the server's word, or the handshake.
fn unsecured(error: &SmtpError) -> Failure {
    if error.status().is_some() {
        return unable("did not begin TLS", error);
    }
    let mut cause = error.source();
    while let Some(deeper) = cause {
        if let Some(error) = deeper.downcast_ref::<io::Error>() {
            return Failure::handshake(error);
        }
        cause = deeper.source();
    }
    Failure::new(FailureCategory::Tls, format!("the TLS handshake failed: {}", reply::words(error)))
}

/// Whether the server had closed the connection, or is about to.
fn is_closed(error: &SmtpError) -> bool {
    error.status().is_none_or(|code| u16::from(code) == CLOSING)
}

/// A connection of our connector's, in the form in which lettre takes one.
struct Socket(Stream);

impl AsyncTokioStream for Socket {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Stream::Plain(stream) => stream.peer_addr(),
            Stream::Secure(stream) => stream.get_ref().0.peer_addr(),
        }
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = self.peer_addr().unwrap_or_else(|_| SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        f.debug_tuple("Socket").field(&address).finish()
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Secure(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Secure(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Secure(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Secure(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
