//! A Redis that is spoken to over TLS.

use std::path::Path;

use everhook_adapters::redis::{BadSettings, Redis, RedisSettings};
use rcgen::{CertificateParams, KeyPair};
use uuid::Uuid;

use crate::redis::{away::take, server::Server};

/// One that takes TLS and nothing else, with a certificate for this machine that nobody has signed.
fn start_with_tls(folder: &Path) -> Option<Server> {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let write = |name: &str, pem: String| {
        let path = folder.join(name);
        std::fs::write(&path, pem).unwrap();
        path.to_string_lossy().into_owned()
    };
    let (certificate, key) = (write("certificate.pem", certificate.pem()), write("key.pem", key.serialize_pem()));
    Server::start_as(|port| {
        let args =
            ["--port", "0", "--tls-auth-clients", "no", "--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
        args.map(str::to_owned).into()
    })
}

#[tokio::test]
async fn a_certificate_that_nobody_signed_is_refused_unless_the_address_says_that_it_is_not_checked() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = start_with_tls(folder.path()) else { return };
    let redis = async |after: &str| {
        let url = format!("rediss://127.0.0.1:{}/{after}", server.port());
        Redis::start(&RedisSettings { url, authorities: None, installation: Uuid::now_v7() }).await.unwrap()
    };
    let checked = redis("").await;
    assert!(checked.is_away() && take(&checked).await.is_err());
    let unchecked = redis("#insecure").await;
    take(&unchecked).await.unwrap();
    assert!(!unchecked.is_away());
    // With the certificate of its authority it is verified: its own here, which signed itself.
    let with = async |authorities: Vec<u8>| {
        let url = format!("rediss://127.0.0.1:{}/", server.port());
        Redis::start(&RedisSettings { url, authorities: Some(authorities), installation: Uuid::now_v7() }).await
    };
    let verified = with(std::fs::read(folder.path().join("certificate.pem")).unwrap()).await.unwrap();
    take(&verified).await.unwrap();
    assert!(!verified.is_away());
    // Another authority has not signed it, and what is none at all is refused at once.
    let other = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&KeyPair::generate().unwrap()).unwrap();
    assert!(with(other.pem().into_bytes()).await.unwrap().is_away());
    assert!(matches!(with(b"nothing".to_vec()).await, Err(BadSettings::Authorities)));
    // Without TLS nobody is answered there.
    let plain = Redis::start(&RedisSettings { url: server.url(), authorities: None, installation: Uuid::now_v7() }).await.unwrap();
    assert!(plain.is_away());
}
