//! Which URLs an endpoint may have. Called when an endpoint is registered or changed.
//!
//! This is the polite refusal, with a reason for the owner. It is not the guard: names are vetted by their address, on each connect.
//!
//! The parser is a browser's: it takes `https:\\\\host`, `https:host`, `0x7f.1` and fullwidth letters for what they might mean. Other programs take them
//! for something else, so that a URL is accepted only if it says what the parser understands.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use crate::{
    model::Target,
    policy::{
        address::{AddressRules, BlockedAddress},
        broker::{self, BrokerFault},
    },
};

/// The longest URL, in characters as its owner wrote it: what every receiver and proxy on the way can be trusted to take.
pub const URL_CHARS_MAX: usize = 2_048;

/// Names that never lead to a public server: they are answered by the machine or the network that asks.
const LOCAL_SUFFIXES: [&str; 5] = ["localdomain", "local", "internal", "home.arpa", "lan"];

/// What the operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRules {
    /// Whether `http` is allowed beside `https`.
    pub allow_http: bool,
    /// Whether `amqp` and `amqps`, message brokers, are allowed.
    pub allow_amqp: bool,
    /// Which addresses requests may go to.
    pub addresses: AddressRules,
}

/// Why a URL was refused, in words for its owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetFault {
    /// It does not parse; the words are the parser's.
    #[error("is not a URL: {0}")]
    NotAUrl(url::ParseError),
    /// It has blanks, control characters or invisible ones, which a parser would drop without a word.
    #[error("must not contain blanks or control characters")]
    Blank,
    /// It has a backslash, which some parsers take for a slash.
    #[error("must not contain `\\`; write `/`, or `%5c` for a backslash")]
    Backslash,
    /// It has no slashes or too many before the host, which a parser would correct without a word.
    #[error("must have exactly two slashes between the scheme and the host: `https://example.com/`")]
    Slashes,
    /// Its port is empty or has leading zeros.
    #[error("must have a port of 1 to 65535 behind `:`, without leading zeros, or none")]
    Port,
    /// Its host is written as no other program would understand it: percent-encoded, in fullwidth letters, as an unusual form of an address.
    #[error("must have its host written as `{0}`")]
    HostSpelling(String),
    /// A part of its path is `.` or `..`, which a parser would remove without a word.
    #[error("must not have `.` or `..` as a part of its path")]
    DotSegment,
    /// It is longer than [`URL_CHARS_MAX`].
    #[error("must be at most {URL_CHARS_MAX} characters long, and has {0}")]
    TooLong(usize),
    /// It is plain `http`, which must be allowed first.
    #[error("must begin with `https://`; plain http is disabled on this server (`--allow-http` enables it)")]
    PlainHttp,
    /// It is a message broker, which must be allowed first.
    #[error("must begin with `https://`; message brokers are disabled on this server (`--amqp-destinations` enables them)")]
    BrokerOff,
    /// It is a message broker, and does not say where in it.
    #[error(transparent)]
    Broker(#[from] BrokerFault),
    /// It is under any other scheme.
    #[error("must begin with `https://`, not `{0}:`")]
    Scheme(String),
    /// It has a user name or password.
    #[error("must not contain a user name or password; put credentials into a custom header")]
    Userinfo,
    /// It is a message broker, and has a user name or password.
    #[error("must not contain a user name or password; put them into the header `Authorization`, as `Basic` and base64 of `user:password`")]
    BrokerUserinfo,
    /// It has no host.
    #[error("must name a host")]
    NoHost,
    /// Port 0 cannot be connected to.
    #[error("must not use port 0")]
    PortZero,
    /// It names an address that requests must not go to.
    #[error("must be a public address: {0}")]
    Blocked(BlockedAddress),
    /// It names a host that exists only inside some network.
    #[error("must be a public address: `{0}` is a name of a local network")]
    LocalName(String),
}

/// Reads a URL and says whether an endpoint may have it.
///
/// The parser turns every spelling of an IPv4 address (decimal, octal, hexadecimal, shortened) into the address, so that none slips by; then every
/// spelling but the usual one is refused.
///
/// # Errors
/// [`TargetFault`] says what would be right.
pub fn check(url: &str, rules: &TargetRules) -> Result<Target, TargetFault> {
    let chars = url.chars().count();
    if chars > URL_CHARS_MAX {
        return Err(TargetFault::TooLong(chars));
    }
    if url.chars().any(|c| c.is_whitespace() || c.is_control() || is_invisible(c)) {
        return Err(TargetFault::Blank);
    }
    if url.contains('\\') {
        return Err(TargetFault::Backslash);
    }
    let parsed = Url::parse(url).map_err(TargetFault::NotAUrl)?;
    check_scheme(&parsed, rules)?;
    let target = Target { written: url.to_owned(), url: parsed };
    let host = target.host().ok_or(TargetFault::NoHost)?;
    let parts = Parts::read(url).ok_or(TargetFault::Slashes)?;
    if parts.has_userinfo {
        return Err(if target.is_amqp() { TargetFault::BrokerUserinfo } else { TargetFault::Userinfo });
    }
    if target.url.port() == Some(0) {
        return Err(TargetFault::PortZero);
    }
    parts.check_port()?;
    check_host(&host, &rules.addresses)?;
    parts.check_spelling(&host)?;
    parts.check_path()?;
    if target.is_amqp() {
        broker::place(&target.url)?;
    }
    Ok(target)
}

/// First of all: under an unknown scheme the parser does not understand the host as an address, and neither do we.
fn check_scheme(url: &Url, rules: &TargetRules) -> Result<(), TargetFault> {
    match url.scheme() {
        "https" => Ok(()),
        "http" if rules.allow_http => Ok(()),
        "http" => Err(TargetFault::PlainHttp),
        "amqp" | "amqps" if rules.allow_amqp => Ok(()),
        "amqp" | "amqps" => Err(TargetFault::BrokerOff),
        other => Err(TargetFault::Scheme(other.to_owned())),
    }
}

/// Characters that are not seen, or that change the order in which others are.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The parts of a URL as they were written.
struct Parts<'a> {
    has_userinfo: bool,
    host: &'a str,
    port: Option<&'a str>,
    path: &'a str,
}

impl<'a> Parts<'a> {
    /// Takes a URL apart; `None` if not exactly two slashes stand before the host.
    fn read(url: &'a str) -> Option<Self> {
        let (_, rest) = url.split_once(':')?;
        let rest = rest.strip_prefix("//").filter(|rest| !rest.starts_with('/'))?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (userinfo, location) = authority.rsplit_once('@').map_or((None, authority), |(userinfo, location)| (Some(userinfo), location));
        // The colons of an IPv6 address stand inside of its brackets.
        let host_bytes = location.rfind(']').map_or(0, |bracket| bracket + 1);
        let host_bytes = location[host_bytes..].find(':').map_or(location.len(), |colon| host_bytes + colon);
        let (host, port) = location.split_at(host_bytes);
        let path = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
        Some(Self { has_userinfo: userinfo.is_some(), host, port: port.strip_prefix(':'), path })
    }

    fn check_port(&self) -> Result<(), TargetFault> {
        match self.port {
            Some(port) if port.is_empty() || port.starts_with('0') => Err(TargetFault::Port),
            _ => Ok(()),
        }
    }

    /// Whether the host that was understood is what was written, but for the case of letters.
    fn check_spelling(&self, understood: &Host) -> Result<(), TargetFault> {
        let is_same = match understood {
            Host::Ipv4(address) => self.host == address.to_string(),
            Host::Ipv6(address) => {
                let inner = self.host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                inner.and_then(|inner| inner.parse().ok()) == Some(*address)
            }
            Host::Domain(name) if self.host.is_ascii() => self.host.eq_ignore_ascii_case(name),
            Host::Domain(name) => self.host.to_lowercase() == idna::domain_to_unicode(name).0,
        };
        if is_same { Ok(()) } else { Err(TargetFault::HostSpelling(understood.to_string())) }
    }

    fn check_path(&self) -> Result<(), TargetFault> {
        let is_dots = |part: &str| matches!(&*part.to_ascii_lowercase().replace("%2e", "."), "." | "..");
        if self.path.split('/').any(is_dots) { Err(TargetFault::DotSegment) } else { Ok(()) }
    }
}

fn check_host(host: &Host, addresses: &AddressRules) -> Result<(), TargetFault> {
    match host {
        Host::Ipv4(address) => addresses.vet((*address).into()).map_err(TargetFault::Blocked),
        Host::Ipv6(address) => addresses.vet((*address).into()).map_err(TargetFault::Blocked),
        Host::Domain(name) => check_name(name, addresses),
    }
}

fn check_name(written: &str, addresses: &AddressRules) -> Result<(), TargetFault> {
    let name = written.trim_end_matches('.');
    if name.is_empty() {
        return Err(TargetFault::NoHost);
    }
    if is_within(name, "localhost") {
        let loopback = addresses.vet(IpAddr::V4(Ipv4Addr::LOCALHOST));
        return loopback.or_else(|blocked| addresses.vet(IpAddr::V6(Ipv6Addr::LOCALHOST)).map_err(|_| TargetFault::Blocked(blocked)));
    }
    // Where private networks are open, such names are in daily use, and the connect decides.
    let is_local = !name.contains('.') || LOCAL_SUFFIXES.iter().any(|suffix| is_within(name, suffix));
    if is_local && addresses.is_public_only() {
        return Err(TargetFault::LocalName(written.to_owned()));
    }
    Ok(())
}

/// Whether `name` is `zone` or ends in `.zone`. The parser has made both lower case.
fn is_within(name: &str, zone: &str) -> bool {
    name.strip_suffix(zone).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict() -> TargetRules {
        TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() }
    }

    fn fault(url: &str, rules: &TargetRules) -> String {
        check(url, rules).expect_err(url).to_string()
    }

    #[test]
    fn ordinary_urls_are_accepted_and_kept_as_written() {
        let accepted = [
            "https://example.com",
            "https://example.com/hooks?a=b&c=%20#part",
            "HTTPS://Example.COM:8443/Path",
            "https://example.com./",
            "https://bücher.example/",
            "https://8.8.8.8/",
            "https://[2606:4700::1111]:444/x",
            "https://[2606:4700:0:0::1111]/x",
            "https://example.com:443/a..b/.well-known/%2f?x=/../y#/../z",
            "https://BÜCHER.example/",
            "https://xn--bcher-kva.example/",
            "https://faß.example/straße",
            "https://localhost.example.com/",
            "https://notinternal.example/",
        ];
        for url in accepted {
            let target = check(url, &strict()).unwrap_or_else(|fault| panic!("{url}: {fault}"));
            assert_eq!(target.written, url);
        }
    }

    #[test]
    fn a_url_that_cannot_be_requested_is_refused_with_what_would_be_right() {
        let cases = [
            ("", "is not a URL: relative URL without a base"),
            ("example.com/hook", "is not a URL: relative URL without a base"),
            ("https://", "is not a URL: empty host"),
            ("https://./", "must name a host"),
            ("https://example.com:99999/", "is not a URL: invalid port number"),
            ("https://example.com:0/", "must not use port 0"),
            ("https://exa mple.com/", "must not contain blanks or control characters"),
            (" https://example.com/", "must not contain blanks or control characters"),
            ("https://example.com/\r\nX: y", "must not contain blanks or control characters"),
            ("ftp://example.com/", "must begin with `https://`, not `ftp:`"),
            ("file:///etc/passwd", "must begin with `https://`, not `file:`"),
            ("gopher://127.0.0.1/", "must begin with `https://`, not `gopher:`"),
            ("javascript:alert(1)", "must begin with `https://`, not `javascript:`"),
            ("http://example.com/", "must begin with `https://`; plain http is disabled on this server (`--allow-http` enables it)"),
            ("https://user@example.com/", "must not contain a user name or password; put credentials into a custom header"),
            ("https://:secret@example.com/", "must not contain a user name or password; put credentials into a custom header"),
        ];
        for (url, words) in cases {
            assert_eq!(fault(url, &strict()), words, "{url:?}");
        }
        let long = format!("https://example.com/{}", "a".repeat(URL_CHARS_MAX - 20));
        assert!(check(&long, &strict()).is_ok(), "exactly the limit");
        assert_eq!(fault(&format!("{long}b"), &strict()), "must be at most 2048 characters long, and has 2049");
    }

    #[test]
    fn a_url_that_a_parser_would_correct_without_a_word_is_refused() {
        let backslash = "must not contain `\\`; write `/`, or `%5c` for a backslash";
        let blank = "must not contain blanks or control characters";
        let slashes = "must have exactly two slashes between the scheme and the host: `https://example.com/`";
        let port = "must have a port of 1 to 65535 behind `:`, without leading zeros, or none";
        let userinfo = "must not contain a user name or password; put credentials into a custom header";
        let dots = "must not have `.` or `..` as a part of its path";
        let host = "must have its host written as `example.com`";
        let address = "must have its host written as `8.8.8.8`";
        let cases = [
            ("https://93.184.216.34\\@127.0.0.1/", backslash),
            ("https:\\\\example.com\\", backslash),
            ("https://example.com/a\\b", backslash),
            ("https://example.com/\t", blank),
            ("\thttps://example.com/", blank),
            ("https://example.com/ ", blank),
            ("https://example.com/\u{a0}", blank),
            ("https://exam\u{ad}ple.com/", blank),
            ("https://example.com\u{200b}/", blank),
            ("https://example.com/\u{202e}gpj", blank),
            ("https://example.com/\u{7f}", blank),
            ("https:example.com", slashes),
            ("https:/example.com", slashes),
            ("https:///example.com/", slashes),
            ("https:////example.com/", slashes),
            ("https://example.com:/", port),
            ("https://example.com:0443/", port),
            ("https://@example.com/", userinfo),
            ("https://:@example.com/", userinfo),
            ("https://a@b@example.com/", userinfo),
            ("https://example.com/a/../b", dots),
            ("https://example.com/a/.", dots),
            ("https://example.com/%2E%2e/b", dots),
            ("https://ex%61mple.com/", host),
            ("https://example%2ecom/", host),
            ("https://ｅxample.com/", host),
            ("https://example。com/", host),
            ("https://example．com/", host),
            ("https://8.8.2056/", address),
            ("https://134744072/", address),
            ("https://0x8.8.8.8/", address),
            ("https://010.8.8.8/", address),
            ("https://8.8.8.8./", address),
            ("https://８.8.8.8/", address),
        ];
        for (url, words) in cases {
            assert_eq!(fault(url, &strict()), words, "{url:?}");
        }
        let broker = TargetRules { allow_amqp: true, ..strict() };
        for url in [
            "amqp://8.8.2056?exchange=x",
            "amqp://ex%61mple.com?exchange=x",
            "amqp://example.com\\@evil.example?exchange=x",
            "amqp://@example.com?exchange=x",
            "amqp://example.com:?exchange=x",
            "amqp://example。com?exchange=x",
        ] {
            assert!(check(url, &broker).is_err(), "{url}");
        }
    }

    #[test]
    fn no_spelling_of_a_special_address_slips_by() {
        let cases = [
            ("https://127.0.0.1/", "127.0.0.1 is a loopback address"),
            ("https://127.1/", "127.0.0.1 is a loopback address"),
            ("https://2130706433/", "127.0.0.1 is a loopback address"),
            ("https://0x7f000001/", "127.0.0.1 is a loopback address"),
            ("https://0x7f.0.0.0x1/", "127.0.0.1 is a loopback address"),
            ("https://017700000001/", "127.0.0.1 is a loopback address"),
            ("https://0177.0.0.01/", "127.0.0.1 is a loopback address"),
            ("https://127.0.0.1./", "127.0.0.1 is a loopback address"),
            ("https://127.0.0.1:8443/", "127.0.0.1 is a loopback address"),
            ("https://%31%32%37.0.0.1/", "127.0.0.1 is a loopback address"),
            ("https://①②⑦.0.0.1/", "127.0.0.1 is a loopback address"),
            ("https://0/", "0.0.0.0 is an address of \"this network\""),
            ("https://10.0.0.1/", "10.0.0.1 is a private address"),
            ("https://192.168.0.1/", "192.168.0.1 is a private address"),
            ("https://169.254.169.254/latest/meta-data", "169.254.169.254 is a cloud metadata address"),
            ("https://2852039166/", "169.254.169.254 is a cloud metadata address"),
            ("https://[::1]/", "::1 is a loopback address"),
            ("https://[::]/", ":: is the unspecified address"),
            ("https://[::ffff:127.0.0.1]/", "::ffff:127.0.0.1 maps to 127.0.0.1, which is a loopback address"),
            ("https://[::ffff:7f00:1]/", "::ffff:127.0.0.1 maps to 127.0.0.1, which is a loopback address"),
            ("https://[64:ff9b::7f00:1]/", "64:ff9b::7f00:1 is a NAT64 address"),
            ("https://localhost/", "127.0.0.1 is a loopback address"),
            ("https://LOCALHOST/", "127.0.0.1 is a loopback address"),
            ("https://localhost./", "127.0.0.1 is a loopback address"),
            ("https://a.b.localhost/", "127.0.0.1 is a loopback address"),
            ("https://a.localhost../", "127.0.0.1 is a loopback address"),
            ("https://metadata.google.internal/", "`metadata.google.internal` is a name of a local network"),
            ("https://metadata.google.internal./", "`metadata.google.internal.` is a name of a local network"),
            ("https://metadata/", "`metadata` is a name of a local network"),
            ("https://printer.local/", "`printer.local` is a name of a local network"),
        ];
        for (url, words) in cases {
            assert_eq!(fault(url, &strict()), format!("must be a public address: {words}"), "{url}");
        }
    }

    #[test]
    fn what_the_operator_opened_is_accepted() {
        let development = TargetRules { allow_http: true, allow_amqp: true, addresses: AddressRules::allowing_private() };
        for url in [
            "http://localhost:9000/",
            "http://127.0.0.1/",
            "http://receiver/",
            "https://db.internal/",
            "http://[::1]/",
            "amqp://rabbit?routing_key=q",
        ] {
            assert!(check(url, &development).is_ok(), "{url}");
        }
        let one_network =
            TargetRules { allow_http: true, allow_amqp: false, addresses: AddressRules::allowing(vec!["10.0.0.0/8".parse().unwrap()]) };
        assert!(check("http://10.1.2.3/", &one_network).is_ok());
        assert!(check("http://receiver.internal/", &one_network).is_ok(), "the connect decides");
        assert_eq!(fault("http://localhost/", &one_network), "must be a public address: 127.0.0.1 is a loopback address");
    }

    #[test]
    fn a_broker_is_accepted_where_the_operator_allows_brokers_and_its_host_is_read_as_any_other() {
        assert!(fault("amqps://broker.example/?exchange=x", &strict()).contains("`--amqp-destinations` enables them"));
        let open = TargetRules { allow_amqp: true, ..strict() };
        for url in ["amqps://broker.example/?exchange=x", "amqp://8.8.8.8:5673/shop?routing_key=q", "AMQPS://bücher.example?exchange=x"] {
            assert!(check(url, &open).is_ok(), "{url}");
        }
        let blocked = ["127.0.0.1", "0x7f.1", "2130706433", "%31%32%37.0.0.1", "[::1]", "LOCALHOST", "a.localhost."];
        for host in blocked {
            let words = fault(&format!("amqp://{host}/?exchange=x"), &open);
            assert!(words.contains("is a loopback address"), "{host}: {words}");
        }
        let cases = [
            (
                "amqp://user:secret@broker.example?exchange=x",
                "must not contain a user name or password; put them into the header `Authorization`, as `Basic` and base64 of `user:password`",
            ),
            ("amqp://broker.example:0/?exchange=x", "must not use port 0"),
            ("amqp:///vhost?exchange=x", "must name a host"),
            ("amqp:broker.example", "must name a host"),
            ("amqp://broker/?exchange=x", "must be a public address: `broker` is a name of a local network"),
        ];
        for (url, words) in cases {
            assert_eq!(fault(url, &open), words, "{url}");
        }
    }
}
