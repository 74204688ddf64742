//! Deliveries over TLS: the broker behind a door with a certificate.

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use everhook_adapters::{
    http::{HttpSettings, Resolve, ResolveError},
    rabbitmq::AmqpTransport,
};
use everhook_core::{model::FailureCategory, policy::address::AddressRules, ports::Transport as _};
use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{
    broker::{AMPLE, Broker},
    destination::{assert_delivered, failed, request},
};

struct Loopback;

#[async_trait]
impl Resolve for Loopback {
    async fn resolve(&self, _host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        Ok(vec!["127.0.0.1".parse().unwrap()])
    }
}

/// A port with a certificate for `name` that leads to the broker's.
async fn door(name: &str, broker: &Broker) -> (CertificateDer<'static>, u16) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap().der().clone();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, to) = (listener.local_addr().unwrap().port(), broker.url.port().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut client) = acceptor.accept(stream).await else { continue };
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    (certificate, port)
}

#[tokio::test]
async fn a_broker_is_spoken_to_over_tls_if_its_certificate_is_good() {
    let Some(broker) = Broker::connect().await else { return };
    let queue = broker.queue("out", &[]).await;
    let (certificate, port) = door("broker.example", &broker).await;
    let mut settings = HttpSettings::new(AddressRules::allowing(vec!["127.0.0.1/32".parse().unwrap()]));
    let send = async |settings: &HttpSettings, host: &str| {
        let transport = AmqpTransport::with_resolver(settings.clone(), Arc::new(Loopback)).unwrap();
        transport.send(request(&format!("amqps://{host}:{port}/?routing_key={queue}"), AMPLE)).await
    };
    let (category, error) = failed(send(&settings, "broker.example").await);
    assert!(category == FailureCategory::Tls && error.contains("not issued by a trusted authority"), "{error}");
    settings.extra_roots.push(certificate);
    let (category, error) = failed(send(&settings, "other.example").await);
    assert!(category == FailureCategory::Tls && error.contains("for another host name"), "{error}");
    let report = send(&settings, "broker.example").await;
    assert_delivered(&report);
    assert!(report.phases.tls.is_some());
    broker.get(&queue).await;
}
