//! Which addresses requests may go to: the guard against server-side request forgery.
//!
//! Called with literal addresses when an endpoint is registered, and with the resolved address on every connect. It must never be asked
//! about a name: names change between the question and the use.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// What addresses requests may go to: the public ones, and those that the operator opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRules {
    opened: Opened,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Opened {
    Nothing,
    Networks(Vec<IpNet>),
    Everything,
}

/// Why an address is refused. Its `Display` is a sentence without the full stop: `127.0.0.1 is a loopback address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedAddress {
    /// The address that was asked about.
    pub address: IpAddr,
    /// The IPv4 address inside it that is the reason, if it is an IPv4-mapped one.
    pub inner: Option<Ipv4Addr>,
    /// What it is, with its article: `a loopback address`.
    pub range: &'static str,
}

impl AddressRules {
    /// Public addresses only: what a server on the internet should have.
    pub const fn public_only() -> Self {
        Self { opened: Opened::Nothing }
    }

    /// Public addresses and these networks, whatever else they are.
    pub fn allowing(nets: Vec<IpNet>) -> Self {
        Self { opened: if nets.is_empty() { Opened::Nothing } else { Opened::Networks(nets) } }
    }

    /// Every address, loopback and metadata services included: for development.
    pub const fn allowing_private() -> Self {
        Self { opened: Opened::Everything }
    }

    /// Whether nothing was opened beyond public addresses.
    pub fn is_public_only(&self) -> bool {
        self.opened == Opened::Nothing
    }

    /// Says whether a request may go to `address`.
    ///
    /// # Errors
    /// [`BlockedAddress`] names the special range it lies in.
    pub fn vet(&self, address: IpAddr) -> Result<(), BlockedAddress> {
        if self.opens(address) {
            return Ok(());
        }
        match address {
            IpAddr::V4(v4) => refuse(address, None, special_v4(v4)),
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                // The kernel sends such a packet over IPv4, to the address inside.
                Some(inner) if self.opens(inner.into()) => Ok(()),
                Some(inner) => refuse(address, Some(inner), special_v4(inner)),
                None => refuse(address, None, special_v6(v6)),
            },
        }
    }

    fn opens(&self, address: IpAddr) -> bool {
        match &self.opened {
            Opened::Nothing => false,
            Opened::Networks(nets) => nets.iter().any(|net| net.contains(&address)),
            Opened::Everything => true,
        }
    }
}

impl fmt::Display for BlockedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inner {
            None => write!(f, "{} is {}", self.address, self.range),
            Some(inner) => write!(f, "{} maps to {inner}, which is {}", self.address, self.range),
        }
    }
}

impl std::error::Error for BlockedAddress {}

fn refuse(address: IpAddr, inner: Option<Ipv4Addr>, range: Option<&'static str>) -> Result<(), BlockedAddress> {
    range.map_or(Ok(()), |range| Err(BlockedAddress { address, inner, range }))
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    SPECIAL_V4.iter().find(|(net, _)| net.contains(&address)).map(|(_, range)| *range)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let named = SPECIAL_V6.iter().find(|(net, _)| net.contains(&address)).map(|(_, range)| *range);
    // Only 2000::/3 has been given out as public space. Whatever else exists or will exist is refused until somebody opens it.
    named.or_else(|| (!GLOBAL_UNICAST.contains(&address)).then_some("not a public address"))
}

const GLOBAL_UNICAST: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// The IANA registry of special-purpose IPv4 addresses, multicast, and what clouds put outside of it. The first match gives the words.
const SPECIAL_V4: &[(Ipv4Net, &str)] = &[
    (v4([0, 0, 0, 0], 8), "an address of \"this network\""),
    (v4([10, 0, 0, 0], 8), "a private address"),
    (v4([100, 100, 100, 200], 32), "a cloud metadata address"),
    (v4([100, 64, 0, 0], 10), "a carrier-grade NAT (shared) address"),
    (v4([127, 0, 0, 0], 8), "a loopback address"),
    (v4([168, 63, 129, 16], 32), "a cloud metadata address"),
    (v4([169, 254, 169, 254], 32), "a cloud metadata address"),
    (v4([169, 254, 0, 0], 16), "a link-local address"),
    (v4([172, 16, 0, 0], 12), "a private address"),
    (v4([192, 0, 0, 0], 24), "an address reserved for protocols"),
    (v4([192, 0, 2, 0], 24), "a documentation address"),
    (v4([192, 31, 196, 0], 24), "an address of the AS112 service"),
    (v4([192, 52, 193, 0], 24), "a multicast tunnel (AMT) address"),
    (v4([192, 88, 99, 0], 24), "a 6to4 relay address"),
    (v4([192, 168, 0, 0], 16), "a private address"),
    (v4([192, 175, 48, 0], 24), "an address of the AS112 service"),
    (v4([198, 18, 0, 0], 15), "a benchmarking address"),
    (v4([198, 51, 100, 0], 24), "a documentation address"),
    (v4([203, 0, 113, 0], 24), "a documentation address"),
    (v4([224, 0, 0, 0], 4), "a multicast address"),
    (v4([255, 255, 255, 255], 32), "the broadcast address"),
    (v4([240, 0, 0, 0], 4), "a reserved address"),
];

/// The IANA registry of special-purpose IPv6 addresses, and every form that hides an IPv4 address. The first match gives the words.
///
/// Forms that hide one are refused whole, whatever is inside: no public server is reached only through them, and where the packet comes
/// out depends on somebody's gateway.
const SPECIAL_V6: &[(Ipv6Net, &str)] = &[
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "the unspecified address"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "a loopback address"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "an IPv4-compatible address"),
    (v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), "an IPv4-translated address"),
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), "a NAT64 address"),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "a local NAT64 address"),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), "a discard-only address"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), "a Teredo address"),
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), "a benchmarking address"),
    (v6([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28), "an ORCHID address"),
    (v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28), "an ORCHIDv2 address"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "an address reserved for protocols"),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "a documentation address"),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "a 6to4 address"),
    (v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48), "an address of the AS112 service"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "a documentation address"),
    (v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16), "a segment routing address"),
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), "a cloud metadata address"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "a private (unique local) address"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "a link-local address"),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "a private (site-local) address"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "a multicast address"),
];

const fn v4(octets: [u8; 4], prefix: u8) -> Ipv4Net {
    let [a, b, c, d] = octets;
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(segments: [u16; 8], prefix: u8) -> Ipv6Net {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rules say about an address: `None` if it may be used.
    fn verdict(rules: &AddressRules, address: &str) -> Option<String> {
        rules.vet(address.parse().unwrap()).err().map(|blocked| blocked.to_string())
    }

    #[test]
    fn every_special_address_is_refused_and_named() {
        let cases = [
            ("0.0.0.0", "0.0.0.0 is an address of \"this network\""),
            ("0.1.2.3", "0.1.2.3 is an address of \"this network\""),
            ("10.0.0.0", "10.0.0.0 is a private address"),
            ("10.255.255.255", "10.255.255.255 is a private address"),
            ("100.64.0.1", "100.64.0.1 is a carrier-grade NAT (shared) address"),
            ("100.127.255.255", "100.127.255.255 is a carrier-grade NAT (shared) address"),
            ("100.100.100.200", "100.100.100.200 is a cloud metadata address"),
            ("127.0.0.1", "127.0.0.1 is a loopback address"),
            ("127.255.255.254", "127.255.255.254 is a loopback address"),
            ("168.63.129.16", "168.63.129.16 is a cloud metadata address"),
            ("169.254.0.1", "169.254.0.1 is a link-local address"),
            ("169.254.169.254", "169.254.169.254 is a cloud metadata address"),
            ("172.16.0.1", "172.16.0.1 is a private address"),
            ("172.31.255.255", "172.31.255.255 is a private address"),
            ("192.0.0.1", "192.0.0.1 is an address reserved for protocols"),
            ("192.0.2.1", "192.0.2.1 is a documentation address"),
            ("192.31.196.1", "192.31.196.1 is an address of the AS112 service"),
            ("192.52.193.1", "192.52.193.1 is a multicast tunnel (AMT) address"),
            ("192.88.99.1", "192.88.99.1 is a 6to4 relay address"),
            ("192.168.1.1", "192.168.1.1 is a private address"),
            ("192.175.48.1", "192.175.48.1 is an address of the AS112 service"),
            ("198.18.0.1", "198.18.0.1 is a benchmarking address"),
            ("198.19.255.255", "198.19.255.255 is a benchmarking address"),
            ("198.51.100.7", "198.51.100.7 is a documentation address"),
            ("203.0.113.7", "203.0.113.7 is a documentation address"),
            ("224.0.0.1", "224.0.0.1 is a multicast address"),
            ("239.255.255.250", "239.255.255.250 is a multicast address"),
            ("240.0.0.1", "240.0.0.1 is a reserved address"),
            ("255.255.255.255", "255.255.255.255 is the broadcast address"),
            ("::", ":: is the unspecified address"),
            ("::1", "::1 is a loopback address"),
            ("::127.0.0.1", "::7f00:1 is an IPv4-compatible address"),
            ("::8.8.8.8", "::808:808 is an IPv4-compatible address"),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1 maps to 127.0.0.1, which is a loopback address"),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.1 maps to 10.0.0.1, which is a private address"),
            ("::ffff:169.254.169.254", "::ffff:169.254.169.254 maps to 169.254.169.254, which is a cloud metadata address"),
            ("::ffff:0:127.0.0.1", "::ffff:0:7f00:1 is an IPv4-translated address"),
            ("64:ff9b::7f00:1", "64:ff9b::7f00:1 is a NAT64 address"),
            ("64:ff9b::808:808", "64:ff9b::808:808 is a NAT64 address"),
            ("64:ff9b:1::a00:1", "64:ff9b:1::a00:1 is a local NAT64 address"),
            ("100::1", "100::1 is a discard-only address"),
            ("2001::1", "2001::1 is a Teredo address"),
            ("2001:2::1", "2001:2::1 is a benchmarking address"),
            ("2001:10::1", "2001:10::1 is an ORCHID address"),
            ("2001:20::1", "2001:20::1 is an ORCHIDv2 address"),
            ("2001:1ff::1", "2001:1ff::1 is an address reserved for protocols"),
            ("2001:db8::1", "2001:db8::1 is a documentation address"),
            ("2002:7f00:1::", "2002:7f00:1:: is a 6to4 address"),
            ("2620:4f:8000::1", "2620:4f:8000::1 is an address of the AS112 service"),
            ("3fff:fff::1", "3fff:fff::1 is a documentation address"),
            ("5f00::1", "5f00::1 is a segment routing address"),
            ("fc00::1", "fc00::1 is a private (unique local) address"),
            ("fd00:ec2::254", "fd00:ec2::254 is a cloud metadata address"),
            ("fe80::1", "fe80::1 is a link-local address"),
            ("fec0::1", "fec0::1 is a private (site-local) address"),
            ("ff02::1", "ff02::1 is a multicast address"),
            ("200::1", "200::1 is not a public address"),
            ("4000::1", "4000::1 is not a public address"),
        ];
        for (address, words) in cases {
            assert_eq!(verdict(&AddressRules::public_only(), address).as_deref(), Some(words));
            assert_eq!(verdict(&AddressRules::allowing_private(), address), None, "{address} is open in development");
        }
    }

    #[test]
    fn public_addresses_are_allowed_up_to_the_edge_of_each_range() {
        let public = [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.88.98.255",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.101.0",
            "203.0.114.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "2000::1",
            "2001:200::1",
            "2001:db7::1",
            "2001:db9::1",
            "2003::1",
            "2606:4700::1111",
            "3fff:1000::1",
        ];
        for address in public {
            assert_eq!(verdict(&AddressRules::public_only(), address), None, "{address}");
        }
    }

    #[test]
    fn an_allow_list_opens_its_networks_and_nothing_else() {
        let rules =
            AddressRules::allowing(vec!["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap(), "64:ff9b::/96".parse().unwrap()]);
        let cases = [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("fd12::1", true),
            ("64:ff9b::a00:1", true),
            ("8.8.8.8", true),
            ("10.2.0.1", false),
            ("::ffff:10.2.0.1", false),
            ("::10.1.2.3", false),
            ("2002:a01:203::", false),
            ("fc00::1", false),
            ("127.0.0.1", false),
        ];
        for (address, allowed) in cases {
            assert_eq!(verdict(&rules, address).is_none(), allowed, "{address}");
        }
        assert!(AddressRules::allowing(vec![]).is_public_only());
    }
}
