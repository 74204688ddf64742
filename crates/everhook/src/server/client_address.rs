//! Which client a request comes from: the other side of its connection, or, behind proxies that are trusted, the address that they saw.
//!
//! Only `X-Forwarded-For` is read, from its right end: everything to the left of the first address that is no trusted proxy was written by the client itself.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;

/// How proxies pass on whom they speak for.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// How many addresses are looked at: no chain of trusted proxies is longer, and whatever is left of them is the client's own word.
const HOPS_MAX: usize = 16;

/// The client of a request that came over a connection from `peer`.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted_proxies: &[IpNet]) -> IpAddr {
    let is_trusted = |address: &IpAddr| trusted_proxies.iter().any(|network| network.contains(address));
    let mut client = peer.to_canonical();
    for hop in forwarded_for(headers).take(HOPS_MAX) {
        if !is_trusted(&client) {
            break;
        }
        // A hop that cannot be read hides everything behind it.
        let Some(address) = parse_hop(hop) else { break };
        client = address.to_canonical();
    }
    client
}

/// The addresses that proxies passed on, the nearest first.
fn forwarded_for(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
    let hops = values.into_iter().rev().flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
    // Each by itself: what a client wrote must not make the hop behind it unreadable.
    hops.map(|hop| std::str::from_utf8(hop).unwrap_or_default().trim())
}

/// An address, with or without a port: proxies write both.
fn parse_hop(text: &str) -> Option<IpAddr> {
    let without_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    text.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip())).or_else(without_brackets)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn client(peer: &str, forwarded_for: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded_for {
            headers.append(FORWARDED_FOR, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let trusted = ["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        client_address(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn only_trusted_proxies_say_whom_they_speak_for() {
        for (peer, forwarded_for, expected) in [
            ("192.0.2.1", &[][..], "192.0.2.1"),
            // A stranger's word is worth nothing.
            ("192.0.2.1", &["198.51.100.7"][..], "192.0.2.1"),
            ("10.0.0.1", &["198.51.100.7"][..], "198.51.100.7"),
            // What the client wrote itself is to the left of what the proxy saw.
            ("10.0.0.1", &["203.0.113.9, 198.51.100.7"][..], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.9, 198.51.100.7, 10.0.0.2"][..], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.9", "198.51.100.7"][..], "198.51.100.7"),
            ("::ffff:10.0.0.1", &["::ffff:198.51.100.7"][..], "198.51.100.7"),
            ("2001:db8::1", &["[2001:db9::7]:443"][..], "2001:db9::7"),
            ("2001:db8::1", &["[2001:db9::7]"][..], "2001:db9::7"),
            ("10.0.0.1", &["198.51.100.7:52101"][..], "198.51.100.7"),
            // Nothing is guessed.
            ("10.0.0.1", &["unknown"][..], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7, unknown"][..], "10.0.0.1"),
            ("10.0.0.1", &[""][..], "10.0.0.1"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"][..], "10.0.0.3"),
            ("10.0.0.1", &["\u{e4}, 198.51.100.7"][..], "198.51.100.7"),
        ] {
            assert_eq!(client(peer, forwarded_for), expected, "{peer} {forwarded_for:?}");
        }
    }
}
