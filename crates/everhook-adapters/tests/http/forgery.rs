//! Server-side request forgery: whatever the URL, the name servers or the answers say, a special address gets no byte.

use std::{sync::Arc, time::Duration};

use everhook_adapters::http::{HttpSettings, HttpTransport};
use everhook_core::{
    model::FailureCategory,
    policy::{
        address::AddressRules,
        target::{TargetRules, check},
    },
    ports::Transport,
};

use super::{Names, answered, failed, loopback_settings, post, request, server::Server};

/// Hosts that lead to special addresses, each with what the report must say. Every name resolves to the loopback address.
const HOSTILE_HOSTS: [(&str, &str); 76] = [
    // Loopback in every spelling that some program takes for it.
    ("127.0.0.1", "127.0.0.1 is a loopback address"),
    ("127.0.0.1.", "127.0.0.1 is a loopback address"),
    ("127.1", "127.0.0.1 is a loopback address"),
    ("127.0.1", "127.0.0.1 is a loopback address"),
    ("2130706433", "127.0.0.1 is a loopback address"),
    ("0x7f000001", "127.0.0.1 is a loopback address"),
    ("0X7F.1", "127.0.0.1 is a loopback address"),
    ("0x7f.0x0.0x0.0x1", "127.0.0.1 is a loopback address"),
    ("017700000001", "127.0.0.1 is a loopback address"),
    ("0177.0.0.1", "127.0.0.1 is a loopback address"),
    ("0177.0.0.0x1", "127.0.0.1 is a loopback address"),
    ("00000177.0.0.1", "127.0.0.1 is a loopback address"),
    ("%31%32%37.0.0.1", "127.0.0.1 is a loopback address"),
    ("127%2e0%2e0%2e1", "127.0.0.1 is a loopback address"),
    ("①②⑦.⓪.⓪.①", "127.0.0.1 is a loopback address"),
    ("127。0。0。1", "127.0.0.1 is a loopback address"),
    ("127.8.8.8", "127.8.8.8 is a loopback address"),
    ("[::1]", "::1 is a loopback address"),
    ("[0:0:0:0:0:0:0:1]", "::1 is a loopback address"),
    ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1 maps to 127.0.0.1, which is a loopback address"),
    ("[::ffff:7f00:1]", "::ffff:127.0.0.1 maps to 127.0.0.1, which is a loopback address"),
    ("[0:0:0:0:0:ffff:127.0.0.1]", "::ffff:127.0.0.1 maps to 127.0.0.1, which is a loopback address"),
    ("[::127.0.0.1]", "is an IPv4-compatible address"),
    ("[::ffff:0:127.0.0.1]", "is an IPv4-translated address"),
    ("[64:ff9b::127.0.0.1]", "is a NAT64 address"),
    ("[64:ff9b:1::7f00:1]", "is a local NAT64 address"),
    ("[2002:7f00:1::]", "is a 6to4 address"),
    ("[2001:0:7f00:1::]", "is a Teredo address"),
    // The unspecified address: most kernels take it for loopback.
    ("0", "0.0.0.0 is an address of \"this network\""),
    ("0.0.0.0", "0.0.0.0 is an address of \"this network\""),
    ("0x0", "0.0.0.0 is an address of \"this network\""),
    ("0.1.2.3", "0.1.2.3 is an address of \"this network\""),
    ("[::]", ":: is the unspecified address"),
    ("[::ffff:0.0.0.0]", "maps to 0.0.0.0, which is an address of \"this network\""),
    // Private networks.
    ("10.0.0.1", "10.0.0.1 is a private address"),
    ("167772161", "10.0.0.1 is a private address"),
    ("172.16.0.1", "172.16.0.1 is a private address"),
    ("172.31.255.255", "172.31.255.255 is a private address"),
    ("192.168.0.1", "192.168.0.1 is a private address"),
    ("0300.0250.0.1", "192.168.0.1 is a private address"),
    ("[::ffff:10.0.0.1]", "maps to 10.0.0.1, which is a private address"),
    ("[::ffff:c0a8:1]", "maps to 192.168.0.1, which is a private address"),
    ("[64:ff9b::10.0.0.1]", "is a NAT64 address"),
    ("[2002:c0a8:1::1]", "is a 6to4 address"),
    ("[fc00::1]", "fc00::1 is a private (unique local) address"),
    ("[fd12:3456::1]", "is a private (unique local) address"),
    ("[fec0::1]", "is a private (site-local) address"),
    ("100.64.0.1", "is a carrier-grade NAT (shared) address"),
    ("100.127.255.254", "is a carrier-grade NAT (shared) address"),
    // Link-local addresses and the metadata services of clouds.
    ("169.254.1.1", "is a link-local address"),
    ("169.254.169.254", "169.254.169.254 is a cloud metadata address"),
    ("2852039166", "169.254.169.254 is a cloud metadata address"),
    ("0xa9fea9fe", "169.254.169.254 is a cloud metadata address"),
    ("0251.0376.0251.0376", "169.254.169.254 is a cloud metadata address"),
    ("[::ffff:169.254.169.254]", "maps to 169.254.169.254, which is a cloud metadata address"),
    ("168.63.129.16", "is a cloud metadata address"),
    ("100.100.100.200", "is a cloud metadata address"),
    ("[fd00:ec2::254]", "is a cloud metadata address"),
    ("[fe80::1]", "is a link-local address"),
    // Everything else that is not a public server.
    ("192.0.0.8", "is an address reserved for protocols"),
    ("192.0.2.1", "is a documentation address"),
    ("192.88.99.1", "is a 6to4 relay address"),
    ("198.18.0.1", "is a benchmarking address"),
    ("224.0.0.1", "is a multicast address"),
    ("255.255.255.255", "is the broadcast address"),
    ("[100::1]", "is a discard-only address"),
    ("[2001:db8::1]", "is a documentation address"),
    ("[ff02::1]", "is a multicast address"),
    // Names.
    ("localhost", "the address of `localhost` is a loopback address"),
    ("LocalHost", "the address of `localhost` is a loopback address"),
    ("localhost.", "the address of `localhost.` is a loopback address"),
    ("a.b.localhost", "the address of `a.b.localhost` is a loopback address"),
    ("a.localhost.", "the address of `a.localhost.` is a loopback address"),
    ("metadata.google.internal", "the address of `metadata.google.internal` is a loopback address"),
    ("metadata.google.internal.", "the address of `metadata.google.internal.` is a loopback address"),
    ("metadata", "the address of `metadata` is a loopback address"),
];

fn public_only() -> TargetRules {
    TargetRules { allow_http: true, allow_amqp: false, addresses: AddressRules::public_only() }
}

fn transport(rules: AddressRules, names: Names) -> HttpTransport {
    HttpTransport::with_resolver(HttpSettings::new(rules), Arc::new(names)).unwrap()
}

/// The connection to a special address would have been tried long before this is over.
const SOON: Duration = Duration::from_millis(300);

#[tokio::test]
async fn no_hostile_target_is_registered_and_none_gets_a_byte() {
    let server = Server::answering("HTTP/1.1 200 OK\r\n\r\n").await;
    let transport = transport(AddressRules::public_only(), Names::everything_is("127.0.0.1"));
    for scheme in ["http", "https"] {
        for (host, words) in HOSTILE_HOSTS {
            let url = format!("{scheme}://{host}:{}/", server.port);
            assert!(check(&url, &public_only()).is_err(), "{url} is refused at registration");
            let (category, error, response) = failed(transport.send(request(&url, SOON)).await);
            assert_eq!(category, FailureCategory::BlockedAddress, "{url}: {error}");
            assert!(error.starts_with("connection not permitted: ") && error.ends_with(words), "{url}: {error}");
            assert_eq!(response, None);
        }
    }
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn a_url_with_credentials_or_tricks_around_the_host_gets_no_further() {
    let server = Server::answering("HTTP/1.1 200 OK\r\n\r\n").await;
    let transport = transport(AddressRules::public_only(), Names::everything_is("127.0.0.1"));
    let tricks = [
        "http://example.com@127.0.0.1:PORT/",
        "http://example.com:80@127.0.0.1:PORT/",
        "http://127.0.0.1:PORT@example.com:PORT/",
        "http://example.com%40127.0.0.1:PORT@example.com:PORT/",
        "http:127.0.0.1:PORT/",
        "http:\\\\127.0.0.1:PORT\\",
        "http:////127.0.0.1:PORT/",
        "http://127.0.0.1:PORT\\@example.com/",
        "http://127.0.0.1:PORT#@example.com/",
        "http://127.0.0.1:PORT?@example.com/",
    ];
    for trick in tricks {
        let url = trick.replace("PORT", &server.port.to_string());
        assert!(check(&url, &public_only()).is_err(), "{url} is refused at registration");
        assert_eq!(failed(transport.send(request(&url, SOON)).await).0, FailureCategory::BlockedAddress, "{url}");
    }
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn an_ordinary_name_that_resolves_to_special_addresses_is_blocked() {
    let server = Server::answering("HTTP/1.1 200 OK\r\n\r\n").await;
    for answer in [&["127.0.0.1"][..], &["::ffff:127.0.0.1"], &["10.0.0.1", "127.0.0.1"], &["::1", "127.0.0.1", "fe80::1"]] {
        let transport = transport(AddressRules::public_only(), Names::default().with("hooks.example", &[answer]));
        let url = format!("http://hooks.example:{}/", server.port);
        assert!(check(&url, &public_only()).is_ok(), "the name looks harmless");
        assert_eq!(failed(post(&transport, &url).await).0, FailureCategory::BlockedAddress, "{answer:?}");
    }
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn a_name_that_changes_after_it_was_allowed_is_vetted_again_on_the_next_connect() {
    let server = Server::answering("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
    let names = Names::default().with("rebinding.example", &[&["127.0.0.1"], &["169.254.169.254"], &["127.0.0.1"]]);
    let transport = HttpTransport::with_resolver(loopback_settings(), Arc::new(names)).unwrap();
    let url = format!("http://rebinding.example:{}/", server.port);
    assert_eq!(answered(post(&transport, &url).await).status, 200);
    let (category, error, _) = failed(post(&transport, &url).await);
    assert_eq!(category, FailureCategory::BlockedAddress);
    assert_eq!(error, "connection not permitted: the address of `rebinding.example` is a cloud metadata address");
    assert_eq!(answered(post(&transport, &url).await).status, 200);
}

#[tokio::test]
async fn of_several_addresses_only_the_allowed_ones_are_connected_to() {
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let names = Names::default().with("mixed.example", &[&["169.254.169.254", "64:ff9b::a00:1", "127.0.0.1"]]);
    let transport = HttpTransport::with_resolver(loopback_settings(), Arc::new(names)).unwrap();
    assert_eq!(answered(post(&transport, &format!("http://mixed.example:{}/", server.port)).await).status, 200);
}

#[tokio::test]
async fn what_the_machine_itself_says_about_a_name_is_vetted_too() {
    let server = Server::answering("HTTP/1.1 200 OK\r\n\r\n").await;
    let transport = HttpTransport::new(HttpSettings::new(AddressRules::public_only())).unwrap();
    let (category, error, _) = failed(post(&transport, &format!("http://localhost:{}/", server.port)).await);
    assert_eq!(category, FailureCategory::BlockedAddress, "{error}");
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let inside = Server::answering("HTTP/1.1 200 OK\r\n\r\n").await;
    for status in [301, 302, 303, 307, 308] {
        let location = inside.url();
        let server = Server::answering(format!("HTTP/1.1 {status} Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")).await;
        let transport = HttpTransport::with_resolver(loopback_settings(), Arc::new(Names::default())).unwrap();
        let response = answered(post(&transport, &server.url()).await);
        assert_eq!(response.status, status);
        assert_eq!(response.headers[0], ("location".to_owned(), location.into()));
    }
    assert_eq!(inside.accepted(), 0);
}

#[tokio::test]
async fn an_address_behind_a_name_is_shown_only_if_it_is_public() {
    // A port that was just free, with nobody listening.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let names = Names::default().with("inside.example", &[&["127.0.0.1"]]).with("metadata.example", &[&["169.254.169.254", "10.1.2.3"]]);
    let transport = HttpTransport::with_resolver(loopback_settings(), Arc::new(names)).unwrap();
    let (category, error, _) = failed(post(&transport, &format!("http://inside.example:{port}/")).await);
    assert_eq!((category, error), (FailureCategory::Network, format!("inside.example:{port} refused the connection")));
    let (_, error, _) = failed(post(&transport, "http://metadata.example/").await);
    assert_eq!(error, "connection not permitted: the address of `metadata.example` is a cloud metadata address");
    let (_, error, _) = failed(post(&transport, &format!("http://127.0.0.1:{port}/")).await);
    assert_eq!(error, format!("127.0.0.1:{port} refused the connection"), "what the owner wrote is no secret");
}
