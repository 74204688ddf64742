//! Says what went wrong with a request: a category for the retry policy and a sentence for the endpoint's owner.
//!
//! The sentences tell what the other side did and, where there is a usual cause, what to look at. They never contain the request, nor an address
//! that is not public unless the owner wrote it: which addresses a private network has is not for tenants to find out.

use std::{fmt, io, net::SocketAddr, time::Duration};

use everhook_core::{
    model::{FailureCategory, Response, Sent, Target},
    policy::address::{AddressRules, BlockedAddress},
};
use rustix::io::Errno;
use rustls::{AlertDescription, CertificateError, Error as TlsError, PeerIncompatible};

use super::{
    answer::Fault,
    exchange::{ANSWER_HEAD_BYTES_MAX, Broken, Stage},
    resolver::ResolveError,
};

/// What the system says when a socket cannot be had: no descriptors (of the process, of the system), no memory, no buffers.
#[cfg(unix)]
const SHORTAGES: &[Errno] = &[Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
#[cfg(not(unix))]
const SHORTAGES: &[Errno] = &[Errno::MFILE, Errno::NOBUFS];

/// What is said if a host name waited in vain to be resolved.
pub(super) const TOO_MANY_LOOK_UPS: &str = "too many host names are being resolved";

/// Why there is no complete answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) category: FailureCategory,
    pub(crate) error: String,
    /// This machine lacked what a connection needs, and the other side has nothing to do with it.
    is_shortage: bool,
}

/// Whom a connection was to be opened to. Shown by the address, or by the name that led to it if the address is not public.
pub(super) struct Peer<'a> {
    pub(super) target: &'a Target,
    pub(super) address: SocketAddr,
}

impl fmt::Display for Peer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_public = AddressRules::public_only().vet(self.address.ip()).is_ok();
        match self.target.host() {
            Some(name) if self.target.literal_address().is_none() && !is_public => write!(f, "{name}:{}", self.address.port()),
            _ => write!(f, "{}", self.address),
        }
    }
}

impl Failure {
    pub(crate) fn new(category: FailureCategory, error: impl Into<String>) -> Self {
        Self { category, error: error.into(), is_shortage: false }
    }

    /// What is reported of a request that failed so, with what had come of its answer.
    pub(crate) fn into_sent(self, response: Option<Response>) -> Sent {
        if self.is_shortage {
            return Sent::OutOfResources { error: self.error };
        }
        Sent::Failed { category: self.category, error: self.error, response }
    }

    /// This machine has no socket, memory or port for the connection.
    fn shortage(error: &io::Error) -> Self {
        Self::out_of_resources(error.to_string())
    }

    /// The request was not made because of a bound of ours: it does not count as the endpoint's failure.
    pub(crate) fn out_of_resources(error: impl Into<String>) -> Self {
        Self { is_shortage: true, ..Self::new(FailureCategory::Network, error) }
    }

    /// The address is one that requests must not go to.
    pub(super) fn blocked(target: &Target, reason: BlockedAddress) -> Self {
        let words = match (target.literal_address(), target.host()) {
            (None, Some(name)) => format!("connection not permitted: the address of `{name}` is {}", reason.range),
            _ => format!("connection not permitted: {reason}"),
        };
        Self::new(FailureCategory::BlockedAddress, words)
    }

    /// The name has no address, as far as is known.
    pub(super) fn unresolved(host: &str, error: &ResolveError) -> Self {
        if let ResolveError::OutOfResources(words) = error {
            return Self::out_of_resources(words.as_str());
        }
        Self::new(FailureCategory::Dns, format!("{host}: {error}"))
    }

    /// The connection was not opened.
    pub(super) fn unreachable(peer: &Peer<'_>, error: &io::Error) -> Self {
        // Without a port of our own there is no connection to this one address; a machine without IPv6 says the same of every IPv6 address.
        let has_no_port = has_code(error, &[Errno::ADDRNOTAVAIL]) && peer.address.is_ipv4();
        if is_shortage(error) || has_no_port {
            return Self::shortage(error);
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::new(FailureCategory::Network, format!("{peer} refused the connection")),
            io::ErrorKind::TimedOut => Self::new(FailureCategory::Timeout, format!("{peer} did not accept the connection in time")),
            _ => Self::new(FailureCategory::Network, format!("no connection to {peer}: {error}")),
        }
    }

    /// Nobody answered the connect.
    pub(super) fn connect_timeout(peer: &Peer<'_>, after: Duration) -> Self {
        Self::new(FailureCategory::Timeout, format!("{peer} did not accept the connection within {}", in_words(after)))
    }

    /// The TLS handshake failed.
    pub(crate) fn handshake(error: &io::Error) -> Self {
        match tls_error(error) {
            Some(tls) => Self::new(FailureCategory::Tls, format!("the TLS handshake failed: {}", tls_words(tls))),
            None if is_closed(error) => Self::new(
                FailureCategory::Tls,
                "the TLS handshake failed: the server closed the connection; it may support only TLS versions older than 1.2, which are disabled",
            ),
            None => Self::new(FailureCategory::Tls, format!("the TLS handshake failed: {error}")),
        }
    }

    /// Something failed after the connection was opened.
    pub(super) fn exchange(broken: &Broken) -> Self {
        if let Broken::Stream(error) = broken
            && let Some(tls) = tls_error(error)
        {
            return Self::new(FailureCategory::Tls, format!("the TLS connection failed: {}", tls_words(tls)));
        }
        Self::new(FailureCategory::Network, exchange_words(broken))
    }

    /// The time was up.
    pub(crate) fn deadline(stage: Stage, timeout: Duration) -> Self {
        let (category, what) = match stage {
            Stage::AwaitingLookUp => return Self::out_of_resources(TOO_MANY_LOOK_UPS),
            Stage::Resolving => (FailureCategory::Dns, "the host name was not resolved"),
            Stage::Connecting => (FailureCategory::Timeout, "the connection was not accepted"),
            Stage::Securing => (FailureCategory::Timeout, "the TLS handshake did not finish"),
            Stage::Waiting => (FailureCategory::Timeout, "no response arrived"),
            Stage::Reading => (FailureCategory::Timeout, "the response was not complete"),
        };
        Self::new(category, format!("{what} within {}", in_words(timeout)))
    }

    /// The connection ended before the request was written.
    pub(super) fn no_answer() -> Self {
        Self::new(FailureCategory::Network, "the connection was closed before the request was sent")
    }

    /// The URL has no host that could be connected to. Registration refuses such URLs.
    pub(super) fn no_host() -> Self {
        Self::new(FailureCategory::Dns, "the URL has no host")
    }

    /// A part of the request cannot be written as HTTP. Registration refuses such parts.
    pub(super) fn unsendable(part: &str) -> Self {
        Self::new(FailureCategory::Network, format!("not sent: {part} cannot be written as HTTP"))
    }
}

/// Whether this machine lacks what a socket needs: descriptors (of the process or the system), memory or buffers.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    has_code(error, SHORTAGES)
}

fn has_code(error: &io::Error, codes: &[Errno]) -> bool {
    error.raw_os_error().is_some_and(|code| codes.contains(&Errno::from_raw_os_error(code)))
}

fn exchange_words(broken: &Broken) -> String {
    match broken {
        Broken::Answer(Fault::TooLarge) => {
            let limit = ANSWER_HEAD_BYTES_MAX / 1024;
            format!("the head of the response is larger than {limit} KiB or has more than 100 headers")
        }
        Broken::Answer(Fault::NotHttp) => "the response is not HTTP/1.1".to_owned(),
        Broken::Answer(Fault::UnclearEnd) => {
            "the headers of the response contradict each other about its length (`Content-Length`, `Transfer-Encoding`)".to_owned()
        }
        Broken::Stream(error) if error.kind() == io::ErrorKind::ConnectionReset => {
            "the connection was reset before the response was complete".to_owned()
        }
        Broken::Stream(error) if !is_closed(error) => format!("the connection failed: {error}"),
        Broken::Stream(_) | Broken::Closed => "the connection was closed before the response was complete".to_owned(),
    }
}

fn tls_words(error: &TlsError) -> String {
    match error {
        TlsError::InvalidCertificate(fault) => certificate_words(fault),
        TlsError::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13)
        | TlsError::AlertReceived(AlertDescription::ProtocolVersion) => {
            "the server supports only TLS versions older than 1.2, which are disabled".to_owned()
        }
        TlsError::PeerIncompatible(_)
        | TlsError::AlertReceived(AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity) => {
            format!("the server and this client have no cipher in common; the server may support only outdated ones ({error})")
        }
        TlsError::AlertReceived(AlertDescription::NoApplicationProtocol) => "the server does not support HTTP/1.1".to_owned(),
        TlsError::AlertReceived(AlertDescription::UnrecognisedName) => "the server does not know this host name".to_owned(),
        TlsError::AlertReceived(AlertDescription::CertificateRequired) => "the server asks for a client certificate".to_owned(),
        TlsError::InvalidMessage(_) => "the server's response is not TLS; it may use plain http on this port".to_owned(),
        other => other.to_string(),
    }
}

fn certificate_words(fault: &CertificateError) -> String {
    match fault {
        CertificateError::UnknownIssuer => {
            "the server's certificate was not issued by a trusted authority (it may be self-signed, or an intermediate certificate is missing)"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "the server's certificate has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "the server's certificate is not valid yet".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another host name".to_owned()
        }
        CertificateError::Revoked => "the server's certificate was revoked".to_owned(),
        other => format!("the server's certificate is not valid: {other}"),
    }
}

fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// A length of time as people write it: `300 ms`, `15 s`, `7.5 s`.
fn in_words(length: Duration) -> String {
    if length < Duration::from_secs(1) {
        return format!("{} ms", length.as_millis());
    }
    let tenths = length.as_millis() / 100;
    match tenths % 10 {
        0 => format!("{} s", tenths / 10),
        rest => format!("{}.{rest} s", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_lacks_is_no_failure_of_the_endpoint() {
        let url = "https://a.example/";
        let target = Target { written: url.to_owned(), url: url.parse().expect("a URL") };
        let four = Peer { target: &target, address: SocketAddr::from(([93, 184, 216, 34], 443)) };
        let six = Peer { target: &target, address: SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 443)) };
        let ours = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::ADDRNOTAVAIL];
        let theirs = [Errno::CONNREFUSED, Errno::TIMEDOUT, Errno::HOSTUNREACH, Errno::NETUNREACH, Errno::CONNRESET];
        for code in ours {
            let sent = Failure::unreachable(&four, &code.into()).into_sent(None);
            assert!(matches!(sent, Sent::OutOfResources { .. }), "{code}: {sent:?}");
        }
        for code in theirs {
            let sent = Failure::unreachable(&four, &code.into()).into_sent(None);
            assert!(matches!(sent, Sent::Failed { .. }), "{code}: {sent:?}");
        }
        let sent = Failure::unreachable(&six, &Errno::ADDRNOTAVAIL.into()).into_sent(None);
        assert!(matches!(sent, Sent::Failed { .. }), "a machine without IPv6: {sent:?}");
        let look_up = |error: &ResolveError| Failure::unresolved("a.example", error).into_sent(None);
        assert!(matches!(look_up(&ResolveError::OutOfResources("no socket".to_owned())), Sent::OutOfResources { .. }));
        assert!(matches!(look_up(&ResolveError::NoSuchHost), Sent::Failed { category: FailureCategory::Dns, .. }));
    }
}
