//! Requests over TLS: whom to trust, and how a refusal is worded.

use std::{sync::Arc, time::Duration};

use everhook_adapters::http::HttpTransport;
use everhook_core::{model::FailureCategory, ports::Transport};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;

use super::{
    Names, SHORT, answered, failed, loopback_settings, post, request,
    server::{Server, read_request},
    transport,
};

/// A self-signed certificate for `name`, and a server's configuration with it.
fn certificate(name: &str, adjust: impl FnOnce(&mut CertificateParams)) -> (CertificateDer<'static>, TlsAcceptor) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    adjust(&mut params);
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (certificate, TlsAcceptor::from(Arc::new(config)))
}

async fn secure_server(acceptor: TlsAcceptor) -> Server {
    Server::start(move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            while read_request(&mut stream).await.is_some() {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
            }
        }
    })
    .await
}

/// A transport that trusts `root`, for which every name is the loopback address.
fn trusting(root: CertificateDer<'static>) -> HttpTransport {
    let mut settings = loopback_settings();
    settings.extra_roots.push(root);
    HttpTransport::with_resolver(settings, Arc::new(Names::everything_is("127.0.0.1"))).unwrap()
}

#[tokio::test]
async fn a_trusted_server_is_answered_over_one_kept_connection() {
    let (root, acceptor) = certificate("hooks.example", |_| {});
    let server = secure_server(acceptor).await;
    let transport = trusting(root);
    let report = post(&transport, &format!("https://hooks.example:{}/", server.port)).await;
    assert!(report.phases.tls.is_some());
    assert_eq!(answered(report).body_sample, "ok");
    assert_eq!(answered(post(&transport, &format!("https://hooks.example:{}/", server.port)).await).status, 200);
    assert_eq!(server.accepted(), 1);
    let with_dot = post(&transport, &format!("https://hooks.example.:{}/", server.port)).await;
    assert_eq!(answered(with_dot).status, 200, "a dot at the end of the name changes nothing");
}

#[tokio::test]
async fn a_certificate_for_an_address_is_good_for_that_address() {
    let (root, acceptor) = certificate("127.0.0.1", |_| {});
    let server = secure_server(acceptor).await;
    assert_eq!(answered(post(&trusting(root), &format!("https://127.0.0.1:{}/", server.port)).await).status, 200);
}

#[tokio::test]
async fn a_bad_certificate_is_a_tls_failure_that_says_what_is_bad() {
    let (self_signed, acceptor) = certificate("127.0.0.1", |_| {});
    drop(self_signed);
    let server = secure_server(acceptor).await;
    let (category, error, _) = failed(post(&transport(), &format!("https://127.0.0.1:{}/", server.port)).await);
    assert_eq!(category, FailureCategory::Tls);
    assert!(error.contains("was not issued by a trusted authority (it may be self-signed"), "{error}");

    type Adjust = fn(&mut CertificateParams);
    let cases: [(&str, Adjust, &str); 3] = [
        ("other.example", |_| {}, "the server's certificate is for another host name"),
        ("hooks.example", |params| params.not_after = date_time_ymd(2020, 1, 1), "the server's certificate has expired"),
        ("hooks.example", |params| params.not_before = date_time_ymd(4000, 1, 1), "the server's certificate is not valid yet"),
    ];
    for (name, adjust, words) in cases {
        let (root, acceptor) = certificate(name, adjust);
        let server = secure_server(acceptor).await;
        let (category, error, _) = failed(post(&trusting(root), &format!("https://hooks.example:{}/", server.port)).await);
        assert_eq!((category, error), (FailureCategory::Tls, format!("the TLS handshake failed: {words}")));
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_a_tls_failure() {
    let closing = Server::start(|stream, _| async move { drop(stream) }).await;
    assert_eq!(failed(post(&transport(), &format!("https://127.0.0.1:{}/", closing.port)).await).0, FailureCategory::Tls);
    let cases: [(&[u8], &str); 3] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the server's response is not TLS; it may use plain http on this port"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "the server supports only TLS versions older than 1.2, which are disabled"),
        (b"\x15\x03\x03\x00\x02\x02\x78", "the server does not support HTTP/1.1"),
    ];
    for (answer, words) in cases {
        let server = Server::start(move |mut stream, _| async move {
            let mut hello = [0; 64];
            tokio::io::AsyncReadExt::read_exact(&mut stream, &mut hello).await.unwrap();
            stream.write_all(answer).await.unwrap();
            read_request(&mut stream).await;
        })
        .await;
        let (category, error, _) = failed(post(&transport(), &format!("https://127.0.0.1:{}/", server.port)).await);
        assert_eq!((category, error), (FailureCategory::Tls, format!("the TLS handshake failed: {words}")));
    }
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_a_timeout() {
    let server = Server::start(|stream, _| async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(stream);
    })
    .await;
    let report = transport().send(request(&format!("https://127.0.0.1:{}/", server.port), SHORT)).await;
    let (category, error, _) = failed(report);
    assert_eq!((category, error.as_str()), (FailureCategory::Timeout, "the TLS handshake did not finish within 150 ms"));
}

#[tokio::test]
async fn an_answer_that_ends_by_closing_needs_no_tls_farewell_but_one_with_a_length_must_be_complete() {
    let (root, acceptor) = certificate("hooks.example", |_| {});
    for (length, counts) in [("", true), ("Content-Length: 100\r\n", false)] {
        let acceptor = acceptor.clone();
        let server = Server::start(move |stream, _| {
            let acceptor = acceptor.clone();
            async move {
                let mut stream = acceptor.accept(stream).await.unwrap();
                read_request(&mut stream).await;
                stream.write_all(format!("HTTP/1.1 200 OK\r\n{length}\r\nbye").as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                // Dropped without a shutdown: the socket closes, TLS says nothing.
            }
        })
        .await;
        let report = post(&trusting(root.clone()), &format!("https://hooks.example:{}/", server.port)).await;
        if counts {
            assert_eq!(answered(report).body_sample, "bye");
        } else {
            assert_eq!(failed(report).0, FailureCategory::Network);
        }
    }
}
