//! A small HTTP/1.1 client for the commands that talk to a running server: `publish`, `bench`, `demo`.
//!
//! One [`Connection`] is one keep-alive connection that sends one request at a time and opens again when it was lost. It never
//! repeats a request by itself: whether a request whose answer was lost may be sent again is for the caller to know.

use std::{fmt, sync::Arc, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Method, Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, DATE, HOST},
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs, pki_types::ServerName},
};
use url::Url;

/// Longer than any answer of a healthy server takes: a batch of 1,000 events is stored in well under a second.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest answer that is read. The longest list page of 250 rows stays far below it.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Which server a command talks to, and as whom.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerArgs {
    /// The server's address.
    #[arg(long, env = "EVERHOOK_URL", default_value = "http://127.0.0.1:8080", value_name = "URL")]
    pub url: Url,
    /// The API key to use (`eh_…`).
    #[arg(long, env = "EVERHOOK_KEY", hide_env_values = true, value_name = "KEY")]
    pub key: Option<String>,
}

/// An address checked once, so that every connection to it can be opened without asking again.
#[derive(Clone)]
pub struct Server {
    host: String,
    port: u16,
    /// What stands before every path: empty, or the prefix under which a proxy serves Everhook.
    prefix: String,
    host_header: HeaderValue,
    authorization: Option<HeaderValue>,
    tls: Option<TlsConnector>,
}

impl Server {
    /// Checks an `http://` or `https://` address and the key that goes with it.
    ///
    /// # Errors
    /// When the URL has another scheme or no host, or the key holds bytes that no header can carry.
    pub fn new(url: &Url, key: Option<&str>) -> anyhow::Result<Arc<Self>> {
        let tls = match url.scheme() {
            "http" => None,
            "https" => Some(tls_connector()?),
            other => bail!("`{url}`: only http and https are supported, not `{other}`"),
        };
        let host = url.host_str().with_context(|| format!("`{url}` has no host"))?.to_owned();
        let port = url.port_or_known_default().with_context(|| format!("`{url}` has no port"))?;
        let authorization = key.map(bearer).transpose()?;
        let host_header = HeaderValue::from_str(&format!("{host}:{port}")).context("the host cannot be sent in a header")?;
        let prefix = url.path().trim_end_matches('/').to_owned();
        Ok(Arc::new(Self { host, port, prefix, host_header, authorization, tls }))
    }

    /// The same server, as somebody without a key: a provider.
    #[must_use]
    pub fn without_key(&self) -> Arc<Self> {
        Arc::new(Self { authorization: None, ..self.clone() })
    }

    /// The server that a command's arguments name.
    ///
    /// # Errors
    /// As [`Server::new`].
    pub fn from_args(args: &ServerArgs) -> anyhow::Result<Arc<Self>> {
        Self::new(&args.url, args.key.as_deref())
    }
}

fn bearer(key: &str) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| anyhow!("the key contains invalid characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

pub(super) fn tls_connector() -> anyhow::Result<TlsConnector> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    // The provider is named: a second one linked in by a dependency would otherwise make rustls panic at run time.
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .context("cannot initialize TLS")?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// One keep-alive connection.
pub struct Connection {
    server: Arc<Server>,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// A connection that is opened by its first use.
    pub const fn new(server: Arc<Server>) -> Self {
        Self { server, sender: None }
    }

    /// Opens the connection unless it is open.
    ///
    /// # Errors
    /// When nobody listens there, or TLS fails; nothing was sent.
    pub async fn open(&mut self) -> anyhow::Result<&mut SendRequest<Full<Bytes>>> {
        let is_open = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !is_open {
            self.sender = Some(connect(&self.server).await?);
        }
        Ok(self.sender.as_mut().expect("it was set just above"))
    }

    /// Sends one request and reads its whole answer, whatever its status. A body is sent as JSON.
    ///
    /// # Errors
    /// When no whole answer came. The server may or may not have acted on the request.
    pub async fn send(&mut self, method: Method, path: &str, body: impl Into<Bytes>) -> anyhow::Result<Answer> {
        self.send_with(method, path, &[], body).await
    }

    /// As [`Connection::send`], with headers that it does not set itself.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn send_with(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Answer> {
        let mut request = self.request(method, path, body.into())?;
        request.headers_mut().extend(headers.iter().cloned());
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.exchange(request)).await;
        let answer = answer.unwrap_or_else(|_| Err(anyhow!("no response within {} s", ANSWER_TIMEOUT.as_secs())));
        if answer.is_err() {
            self.sender = None;
        }
        answer
    }

    /// Sends one request and reads the JSON that a 2xx answers; an empty answer reads as `null`.
    ///
    /// # Errors
    /// [`Refusal`] where the server said no; other errors where it said nothing that could be understood.
    pub async fn ask(&mut self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let answer = self.send(method, path, body).await?;
        answer.into_json()
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Request<Full<Bytes>>> {
        let uri = format!("{}{path}", self.server.prefix);
        let mut request = Request::builder().method(method).uri(uri).header(HOST, self.server.host_header.clone());
        if let Some(authorization) = &self.server.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        request.body(Full::new(body)).with_context(|| format!("`{path}` is not a path"))
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        let response = self.open().await?.send_request(request).await.context("the connection was lost before a response arrived")?;
        let status = response.status();
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|cause| anyhow!("cannot read the response: {cause}"))?.to_bytes();
        Ok(Answer { status, date, body })
    }
}

async fn connect(server: &Server) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let Server { host, port, .. } = server;
    let bare_host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((bare_host, *port)).await.with_context(|| format!("cannot reach {host}:{port}"))?;
    stream.set_nodelay(true)?;
    match &server.tls {
        None => shake_hands(stream).await,
        Some(connector) => {
            let name = ServerName::try_from(bare_host.to_owned()).with_context(|| format!("`{host}` cannot have a certificate"))?;
            let stream = connector.connect(name, stream).await.with_context(|| format!("TLS with {host}:{port} failed"))?;
            shake_hands(stream).await
        }
    }
}

async fn shake_hands(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // An error of the connection also fails the request that is under way on it, which is where it is told.
    tokio::spawn(connection);
    Ok(sender)
}

/// A whole answer, not judged yet.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its header `Date`.
    pub date: Option<String>,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    /// The JSON of a 2xx; an empty body reads as `null`.
    ///
    /// # Errors
    /// [`Refusal`] for any other status; a plain error if the body is no JSON.
    pub fn into_json(self) -> anyhow::Result<Value> {
        if !self.status.is_success() {
            return Err(Refusal::read(self.status, &self.body).into());
        }
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).context("the response is not JSON: is this an Everhook server?")
    }
}

/// The server's no, in its own words, on one line a fault.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// What was wrong: `field: reason` for each fault, or the problem's detail.
    pub reasons: Vec<String>,
}

/// How much of an answer that is no problem JSON is shown.
const FOREIGN_BODY_CHARS_SHOWN: usize = 200;

impl Refusal {
    /// Reads problem JSON (RFC 9457); of anything else, shows the beginning.
    pub fn read(status: StatusCode, body: &[u8]) -> Self {
        let reasons = match serde_json::from_slice::<Value>(body) {
            Ok(problem) if problem.is_object() => problem_reasons(&problem),
            _ => vec![String::from_utf8_lossy(body).chars().take(FOREIGN_BODY_CHARS_SHOWN).collect()],
        };
        Self { status, reasons }
    }
}

fn problem_reasons(problem: &Value) -> Vec<String> {
    let text = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
    let faults = problem["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let faults: Vec<String> = faults
        .iter()
        .map(|fault| match (text(fault, "field"), text(fault, "reason")) {
            (Some(field), Some(reason)) => format!("{field}: {reason}"),
            (one, other) => one.or(other).unwrap_or_else(|| fault.to_string()),
        })
        .collect();
    if !faults.is_empty() {
        return faults;
    }
    vec![text(problem, "detail").or_else(|| text(problem, "title")).unwrap_or_else(|| problem.to_string())]
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status.as_u16(), self.reasons.join("; "))?;
        match self.status {
            StatusCode::UNAUTHORIZED => write!(f, " (set a key with --key or EVERHOOK_KEY)"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_reads_as_one_line_for_people() {
        let two = r#"{"title":"t","detail":"d","errors":[{"field":"event_types[0]","reason":"is no pattern"},{"field":"url","reason":"is empty"}]}"#;
        let cases = [
            (422, two, "422: event_types[0]: is no pattern; url: is empty"),
            (413, r#"{"title":"Too large","detail":"`data` is 300000 bytes"}"#, "413: `data` is 300000 bytes"),
            (404, r#"{"title":"Not found"}"#, "404: Not found"),
            (502, "<html>bad gateway</html>", "502: <html>bad gateway</html>"),
            (401, r#"{"detail":"no key was given"}"#, "401: no key was given (set a key with --key or EVERHOOK_KEY)"),
        ];
        for (status, body, line) in cases {
            let status = StatusCode::from_u16(status).expect("a valid status");
            assert_eq!(Refusal::read(status, body.as_bytes()).to_string(), line);
        }
    }

    #[test]
    fn only_http_and_https_addresses_are_taken() {
        for (url, is_taken) in [
            ("http://127.0.0.1:8080", true),
            ("https://hooks.example.com/everhook/", true),
            ("http://[::1]:8080", true),
            ("ftp://example.com", false),
            ("unix:/run/everhook", false),
        ] {
            let url: Url = url.parse().expect("a URL");
            assert_eq!(Server::new(&url, Some("eh_key")).is_ok(), is_taken, "{url}");
        }
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_refused() {
        let url: Url = "http://127.0.0.1:8080".parse().expect("a URL");
        assert!(Server::new(&url, Some("eh_\n")).is_err());
    }
}
