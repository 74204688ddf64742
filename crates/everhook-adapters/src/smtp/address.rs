//! Which mail server, as the operator wrote it: `smtp://user:password@host:port` or `smtps://…`. It has a password and is never shown.

use everhook_core::model::{Secret, Target};
use lettre::transport::smtp::{authentication::Credentials, extension::ClientId};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

/// The port for mail between servers, for relays that ask for no password.
const RELAY_PORT: u16 = 25;

/// The port for mail of those who log in, secured by STARTTLS.
const SUBMISSION_PORT: u16 = 587;

/// The port that is under TLS from the first byte.
const SUBMISSIONS_PORT: u16 = 465;

/// A mail server of the operator's. It has a password, and cannot be shown.
#[derive(Clone)]
pub struct SmtpAddress {
    /// Where to connect, spelled as a URL of the web so that our connector understands it.
    pub(super) target: Target,
    pub(super) security: Security,
    pub(super) credentials: Option<Credentials>,
    /// How we introduce ourselves.
    pub(super) hello: ClientId,
}

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    /// From the first byte.
    Implicit,
    /// By STARTTLS, and nothing is sent to a server that does not offer it.
    Required,
    /// By STARTTLS where the server offers it.
    WhereOffered,
    /// Not at all.
    None,
}

/// Why a URL does not name a mail server, in words for the operator. It never repeats the URL, which has a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SmtpAddressError {
    /// It does not parse, or is under another scheme.
    #[error("must be a URL as in smtp://user:password@host:587 or smtps://user:password@host")]
    Url,
    /// A parameter is not known.
    #[error("accepts one parameter, only with smtp://: tls=required, tls=opportunistic or tls=none")]
    Parameter,
}

impl SmtpAddress {
    /// Reads a mail server's URL, credentials included.
    ///
    /// Under `smtp`, the connection is secured by STARTTLS. Where a password is sent to another machine, that is required unless the parameter `tls` says
    /// otherwise: whoever can remove the offer from the server's reply could read the password. A path names this machine in `EHLO`.
    ///
    /// # Errors
    /// [`SmtpAddressError`] says what would be right.
    pub fn read(url: &Secret<String>) -> Result<Self, SmtpAddressError> {
        let parsed: Url = url.expose().parse().map_err(|_| SmtpAddressError::Url)?;
        let is_secure = match parsed.scheme() {
            "smtp" => false,
            "smtps" => true,
            _ => return Err(SmtpAddressError::Url),
        };
        let host = Host::parse(parsed.host_str().unwrap_or_default()).map_err(|_| SmtpAddressError::Url)?;
        let credentials = credentials(&parsed)?;
        let security = security(&parsed, is_secure, credentials.is_some() && !is_loopback(&host))?;
        let port = parsed.port().unwrap_or(match (is_secure, credentials.is_some()) {
            (true, _) => SUBMISSIONS_PORT,
            (false, true) => SUBMISSION_PORT,
            (false, false) => RELAY_PORT,
        });
        let scheme = if is_secure { "https" } else { "http" };
        let written = format!("{scheme}://{host}:{port}/");
        let url = written.parse().map_err(|_| SmtpAddressError::Url)?;
        Ok(Self { target: Target { written, url }, security, credentials, hello: hello(&parsed)? })
    }
}

fn credentials(url: &Url) -> Result<Option<Credentials>, SmtpAddressError> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8().map(|text| text.into_owned()).map_err(|_| SmtpAddressError::Url);
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        (user, password) => Ok(Some(Credentials::new(decode(user)?, decode(password.unwrap_or_default())?))),
    }
}

fn security(url: &Url, is_secure: bool, exposes_password: bool) -> Result<Security, SmtpAddressError> {
    let mut security = match (is_secure, exposes_password) {
        (true, _) => Security::Implicit,
        (false, true) => Security::Required,
        (false, false) => Security::WhereOffered,
    };
    for (name, value) in url.query_pairs() {
        security = match (is_secure, &*name, &*value) {
            (false, "tls", "required") => Security::Required,
            (false, "tls", "opportunistic") => Security::WhereOffered,
            (false, "tls", "none") => Security::None,
            _ => return Err(SmtpAddressError::Parameter),
        };
    }
    Ok(security)
}

fn is_loopback(host: &Host) -> bool {
    match host {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
        Host::Domain(name) => name == "localhost",
    }
}

fn hello(url: &Url) -> Result<ClientId, SmtpAddressError> {
    let name = url.path().trim_matches('/');
    if name.is_empty() {
        return Ok(ClientId::default());
    }
    if name.len() > 253 || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')) {
        return Err(SmtpAddressError::Url);
    }
    Ok(ClientId::Domain(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<SmtpAddress, SmtpAddressError> {
        SmtpAddress::read(&Secret::new(url.to_owned()))
    }

    #[test]
    fn a_password_goes_to_another_machine_only_under_tls_unless_the_operator_says_otherwise() {
        let cases = [
            ("smtp://mail.example", 25, Security::WhereOffered),
            ("smtp://mail.example:2525", 2525, Security::WhereOffered),
            ("smtp://u:p@mail.example", 587, Security::Required),
            ("smtp://u:p@127.0.0.1:2525", 2525, Security::WhereOffered),
            ("smtp://u:p@localhost", 587, Security::WhereOffered),
            ("smtp://u:p@mail.example?tls=opportunistic", 587, Security::WhereOffered),
            ("smtp://u:p@mail.example?tls=none", 587, Security::None),
            ("smtp://mail.example?tls=required", 25, Security::Required),
            ("smtps://u:p@mail.example", 465, Security::Implicit),
            ("smtps://mail.example:466/", 466, Security::Implicit),
        ];
        for (url, port, security) in cases {
            let address = read(url).unwrap();
            assert_eq!((address.target.port(), address.security), (Some(port), security), "{url}");
        }
    }

    #[test]
    fn credentials_are_percent_decoded_and_a_path_is_the_name_of_this_machine() {
        let address = read("smtp://ops%40example.com:p%2Fw%3A@mail.example/hooks.example.com").unwrap();
        assert_eq!(address.credentials, Some(Credentials::new("ops@example.com".to_owned(), "p/w:".to_owned())));
        assert_eq!(address.hello, ClientId::Domain("hooks.example.com".to_owned()));
        assert_eq!(read("smtp://mail.example").unwrap().credentials, None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in
            ["", "mail.example", "http://mail.example", "smtp://", "smtp:///x", "smtp://mail.example/a%0d%0ab", "smtp://u:%ff@mail.example"]
        {
            assert_eq!(read(bad).err(), Some(SmtpAddressError::Url), "{bad}");
        }
        for bad in ["smtps://mail.example?tls=none", "smtp://mail.example?tls=yes", "smtp://mail.example?pool=9"] {
            assert_eq!(read(bad).err(), Some(SmtpAddressError::Parameter), "{bad}");
        }
    }
}
