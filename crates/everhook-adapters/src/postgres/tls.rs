//! How the way to the server is protected, by the names that PostgreSQL's own clients have for it.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use tokio_postgres::{
    Config, Socket,
    config::{Host, SslMode},
    tls::MakeTlsConnect,
};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::Url;

use super::OpenError;

/// The port that is meant where none is named.
const DEFAULT_PORT: u16 = 5432;

/// Where the server is, and how the way to it is protected.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: Tls,
}

impl Address {
    /// Reads an address. `sslmode` may be `disable`, `prefer` (encrypted if the server can, which is the default), `require` (always encrypted) or
    /// `verify-full` (and its certificate is checked, by the usual roots or those of `sslrootcert`). A socket of this machine (`host=/folder`) is
    /// never encrypted: nobody can listen, and servers offer it nowhere.
    pub(super) fn parse(text: &str) -> Result<Self, OpenError> {
        // The library takes the first for the end of the password, and what is left of that for the host, which is shown.
        if text.matches('@').count() > 1 {
            return Err(OpenError::Address("has more than one `@`: write those of the password as %40"));
        }
        let (text, verification) = take_verification(text)?;
        let mut config: Config = text.parse().map_err(OpenError::Url)?;
        let hosts = config.get_hosts();
        if !hosts.is_empty() && hosts.iter().all(|host| matches!(host, Host::Unix(_))) {
            config.ssl_mode(SslMode::Disable);
        }
        Ok(Self { config, tls: Tls(MakeRustlsConnect::new(client(verification)?)) })
    }

    /// Where it leads, for people. Several hosts are tried in turn.
    pub(super) fn place(&self) -> String {
        let ports = self.config.get_ports();
        let place = |(index, host): (usize, &Host)| match host {
            Host::Tcp(name) => format!("{name}:{}", ports.get(index).or(ports.first()).unwrap_or(&DEFAULT_PORT)),
            Host::Unix(folder) => folder.display().to_string(),
        };
        let places: Vec<String> = self.config.get_hosts().iter().enumerate().map(place).collect();
        // Without a name it is the user's.
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{}/{database}", places.join(","))
    }
}

/// Encrypts what goes over a network.
#[derive(Clone)]
pub(super) struct Tls(MakeRustlsConnect);

impl MakeTlsConnect<Socket> for Tls {
    type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Error;

    /// Asked for before it is known whether anything is encrypted. A socket has no name, and none would be refused.
    fn make_tls_connect(&mut self, domain: &str) -> Result<Self::TlsConnect, Self::Error> {
        let domain = if domain.is_empty() { "localhost" } else { domain };
        MakeTlsConnect::<Socket>::make_tls_connect(&mut self.0, domain)
    }
}

/// How a server shows who it is.
enum Verification {
    /// It need not, as with `prefer` and `require`.
    None,
    /// By a certificate that these roots vouch for.
    By(RootCertStore),
}

/// The library knows no `verify-full`: it is understood here, and what is left of the address means that encryption is required.
fn take_verification(text: &str) -> Result<(String, Verification), OpenError> {
    let Ok(mut url) = Url::parse(text) else { return Ok((text.to_owned(), Verification::None)) };
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let value = |wanted: &str| pairs.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let is_verified = matches!(value("sslmode").as_deref(), Some("verify-full" | "verify-ca"));
    if !is_verified && value("sslrootcert").is_some() {
        return Err(OpenError::Address("names a file by `sslrootcert`, which needs `sslmode=verify-full`: else no certificate is checked"));
    }
    if !is_verified {
        return Ok((text.to_owned(), Verification::None));
    }
    let roots = match value("sslrootcert") {
        Some(path) => read_roots(&path)?,
        None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
    };
    let others = pairs.into_iter().filter(|(name, _)| name != "sslmode" && name != "sslrootcert");
    url.query_pairs_mut().clear().extend_pairs(others).append_pair("sslmode", "require");
    Ok((url.into(), Verification::By(roots)))
}

fn read_roots(path: &str) -> Result<RootCertStore, OpenError> {
    let refused = |why: String| OpenError::RootCertificates { path: path.to_owned(), why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| refused(error.to_string()))? {
        let certificate = certificate.map_err(|error| refused(error.to_string()))?;
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    Ok(roots)
}

fn client(verification: Verification) -> Result<ClientConfig, OpenError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::Refused(error.to_string()))?;
    Ok(match verification {
        Verification::By(roots) => builder.with_root_certificates(roots).with_no_client_auth(),
        Verification::None => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider))).with_no_client_auth(),
    })
}

/// Takes any certificate: the way is hidden from those who listen, not from one who stands in for the server. What `prefer` and `require` mean.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_how_the_way_is_protected() {
        let table = [
            ("postgres://u:p@h:5432/d", SslMode::Prefer),
            ("postgres://u:p@h/d?sslmode=disable", SslMode::Disable),
            ("postgres://u:p@h/d?sslmode=require&application_name=x", SslMode::Require),
            ("postgres://u:p@h/d?application_name=x&sslmode=verify-full", SslMode::Require),
            ("host=h user=u", SslMode::Prefer),
            ("postgres:///d?host=/var/run/postgresql&sslmode=require", SslMode::Disable),
            ("postgres://u@%2Fvar%2Frun%2Fpostgresql/d", SslMode::Disable),
            ("postgres://u@h/d?host=/var/run/postgresql", SslMode::Prefer),
        ];
        for (text, mode) in table {
            assert_eq!(Address::parse(text).ok().map(|address| address.config.get_ssl_mode()), Some(mode), "{text}");
        }
        let wrong = [
            ("postgres://u:p@h/d?sslmode=verify-full&sslrootcert=/nowhere.pem", "cannot use the file /nowhere.pem of `sslrootcert`"),
            ("postgres://u:p@h/d?sslrootcert=/nowhere.pem", "needs `sslmode=verify-full`"),
            ("postgres://u:p@h/d?sslmode=require&sslrootcert=/nowhere.pem", "needs `sslmode=verify-full`"),
            ("postgres://u@h/d?sslmode=maybe", "invalid database address"),
            ("postgres://u:p@ss@h/d", "write those of the password as %40"),
        ];
        for (text, words) in wrong {
            let error = Address::parse(text).err().expect(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn people_are_told_where_an_address_leads_and_never_by_which_password() {
        let table = [
            ("postgres://u:p%40ss@h:5433/d", "h:5433/d"),
            ("postgres://u:pass@h", "h:5432/u"),
            ("postgres://u:pass@a:1,b:2/d?sslmode=require", "a:1,b:2/d"),
            ("postgres://u:pass@%2Frun%2Fpostgresql/d", "/run/postgresql/d"),
            ("postgres://h/d", "h:5432/d"),
        ];
        for (text, place) in table {
            assert_eq!(Address::parse(text).expect(text).place(), place, "{text}");
        }
    }
}
