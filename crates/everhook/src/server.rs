//! Drives connections: takes them, bounds them, and lets them end when the server stops.
//!
//! `admission` says who gets one, `client_address` who asks behind proxies, `stream` ends those whose client does not read, `body` reads what a handler leaves unread, and `answer` counts the
//! memory of answers until they are sent.

mod admission;
mod answer;
mod body;
mod client_address;
mod stream;

use std::{
    convert::Infallible,
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use axum::{Router, response::Response};
use everhook_core::repeated_failure::RepeatedFailure;
use futures_util::FutureExt as _;
use http::{HeaderValue, header};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ipnet::IpNet;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

use self::{
    admission::{Activity, Admitted, ConnectionPurpose},
    answer::{Answers, Connection},
    body::RequestBody,
    stream::{ClientStream, WriteTimeouts},
};
pub use self::{
    admission::{Admission, ConnectionLimits},
    answer::RequestContext,
};
use crate::api;

/// How long the head of a request may take to arrive, idle time before it included: it bounds slow and forgotten clients alike.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest head of a request, and the most headers in it.
const HEAD_BYTES_MAX: usize = 32 * 1024;
const HEADERS_MAX: usize = 100;

/// The largest buffer of a connection: a payload of the usual kind in one piece.
const BUFFER_BYTES_MAX: usize = 128 * 1024;

/// What the system keeps of an answer that is not read, of which it takes twice as much: megabytes a connection if it had its way.
const SEND_BUFFER_BYTES: u32 = 128 * 1024;
/// How many connections may wait to be taken.
const LISTEN_BACKLOG: u32 = 1_024;

/// How long an answer may wait for its client to read: some seconds of a bad line are not an attack, and a whole answer is at most some megabytes.
const WRITE_TIMEOUTS: WriteTimeouts = WriteTimeouts { stalled_for: Duration::from_secs(30), answer_for: Duration::from_secs(120) };

/// How long a connection of the reserve may take for the head of its request, and in all: a health check sends it at once.
const RESERVE_HEAD_TIMEOUT: Duration = Duration::from_secs(2);
const RESERVE_TIMEOUT: Duration = Duration::from_secs(10);

/// What is answered on connections of the reserve.
const HEALTH_CHECKS: [&str; 2] = ["/healthz", "/readyz"];

/// How long a client may stay that has sent no whole request when the server stops.
const IDLE_STOP_GRACE: Duration = Duration::from_secs(5);

/// How long to wait after the system refused a connection (no more descriptors, as a rule) before taking the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server that takes requests from when it is opened until it is stopped. Its clones are the same server.
#[derive(Clone)]
pub struct Server {
    /// Where it takes requests.
    pub address: SocketAddr,
    closed: Arc<Mutex<Option<TcpListener>>>,
    routes: Routes,
    admission: Arc<Admission>,
    answers: Arc<Answers>,
    trusted_proxies: Arc<[IpNet]>,
    stopping: CancellationToken,
    connections: TaskTracker,
}

/// What requests are answered by. It can be replaced while connections are open.
#[derive(Clone, Default)]
struct Routes(Arc<RwLock<Router>>);

impl Routes {
    fn current(&self) -> Router {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, router: Router) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = router;
    }
}

impl Server {
    /// Makes the address ours. Whoever connects waits until the server is opened, and then gets a connection within these limits.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub async fn bind(address: SocketAddr, limits: ConnectionLimits) -> anyhow::Result<Self> {
        let listener = listen(address).with_context(|| format!("cannot listen on {address}"))?;
        Ok(Self {
            address: listener.local_addr().context("cannot read the listening address")?,
            closed: Arc::new(Mutex::new(Some(listener))),
            routes: Routes::default(),
            trusted_proxies: limits.trusted_proxies.clone().into(),
            admission: Admission::new(limits),
            answers: Arc::default(),
            stopping: CancellationToken::new(),
            connections: TaskTracker::new(),
        })
    }

    /// Whether requests are taken.
    pub fn is_open(&self) -> bool {
        self.lock().is_none()
    }

    /// What counts the clients that are connected. Routes that show it hold this and not the server, which holds its routes.
    pub fn admission(&self) -> Arc<Admission> {
        self.admission.clone()
    }

    /// Lets requests in, from now on to these routes.
    pub fn open(&self, router: Router) {
        self.routes.replace(router);
        if let Some(listener) = self.lock().take() {
            self.connections.spawn(accept(listener, self.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<TcpListener>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes no more connections, closes those that are idle, and waits for requests under way to end, as long as `grace`.
    pub async fn stop(&self, grace: Duration) {
        self.stopping.cancel();
        self.connections.close();
        if tokio::time::timeout(grace, self.connections.wait()).await.is_err() {
            tracing::warn!(connections = self.connections.len(), "some requests did not finish in time and are dropped");
        }
    }
}

/// As the library's own `bind`, with a bound on what the system keeps of answers for clients that do not read; connections inherit it.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

async fn accept(listener: TcpListener, server: Server) {
    let (ordinary, reserve) = (builder(HEAD_TIMEOUT), reserve_builder());
    let (began, mut shortage) = (Instant::now(), RepeatedFailure::reported_at_once());
    loop {
        let taken = tokio::select! {
            biased;
            () = server.stopping.cancelled() => return,
            taken = listener.accept() => taken,
        };
        match taken {
            Ok((stream, address)) => match server.admission.admit(address.ip(), Instant::now()) {
                Some(admitted) if admitted.seat == ConnectionPurpose::Reserve => {
                    let serving = serve_reserve(reserve.clone(), stream, server.clone(), admitted);
                    server.connections.spawn(serving);
                }
                Some(admitted) => {
                    let serving = serve(ordinary.clone(), stream, address.ip(), server.clone(), admitted);
                    server.connections.spawn(serving);
                }
                None => refuse(stream),
            },
            Err(error) => {
                if shortage.failed(began.elapsed()).is_some() {
                    tracing::error!(error = &error as &dyn std::error::Error, "cannot accept connections; clients wait");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Says no where there is no room even for that: as much as the system takes at once, and nothing is waited for.
fn refuse(stream: TcpStream) {
    // Asked directly, and not to block: the runtime does not know yet what the socket is ready for.
    let Ok(mut stream) = stream.into_std() else { return };
    // What has come already is read, because the system would otherwise throw the answer away with it.
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write(REFUSAL);
}

/// The answer where no request was read.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

fn builder(head_timeout: Duration) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX);
    builder
}

fn reserve_builder() -> http1::Builder {
    let mut builder = builder(RESERVE_HEAD_TIMEOUT);
    builder.keep_alive(false);
    builder
}

fn client(stream: TcpStream) -> TokioIo<ClientStream<TcpStream>> {
    // Answers are small and complete: waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    TokioIo::new(ClientStream::new(stream, WRITE_TIMEOUTS))
}

/// Serves one connection. Its seat is held until it ends.
async fn serve(builder: http1::Builder, stream: TcpStream, peer: IpAddr, server: Server, admitted: Admitted) {
    let activity = admitted.activity();
    let answer = {
        let server = server.clone();
        service_fn(move |request| answer(server.clone(), peer, activity.clone(), request))
    };
    let mut connection = pin!(builder.serve_connection(client(stream), answer));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = admitted.evicted() => return,
        () = server.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = idle_until_given_up(&admitted) => return,
                () = admitted.evicted() => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = &error as &dyn std::error::Error, "a connection was closed early");
    }
}

/// Returns once a connection has been without a request for so long that nobody waits for it to end.
async fn idle_until_given_up(admitted: &Admitted) {
    let began = Instant::now();
    loop {
        let idle_for = admitted.idle_for(Instant::now()).unwrap_or_default().min(began.elapsed());
        if idle_for >= IDLE_STOP_GRACE {
            return;
        }
        tokio::time::sleep(IDLE_STOP_GRACE - idle_for).await;
    }
}

async fn answer(server: Server, peer: IpAddr, activity: Activity, request: Request<Incoming>) -> Result<Response, Infallible> {
    let answering = activity.begin();
    let (parts, incoming) = request.into_parts();
    let body = RequestBody::new(incoming, &parts.headers);
    let connection = Connection { peer, trusted_proxies: server.trusted_proxies.clone() };
    let request = Request::from_parts(parts, body);
    let response = server.answers.count(request, connection, |request| server.routes.current().oneshot(request)).await;
    Ok(answer::hold_until_sent(response, answering))
}

/// Serves one request on a connection of the reserve: a health check, or the answer that the server is full.
async fn serve_reserve(builder: http1::Builder, stream: TcpStream, server: Server, admitted: Admitted) {
    let activity = admitted.activity();
    let answer = service_fn(|request: Request<Incoming>| {
        // Once it has its answer it may be closed for another: whether that is read is up to the client.
        let answering = activity.begin();
        answer_in_reserve(server.routes.current(), request).inspect(move |_| drop(answering))
    });
    let connection = builder.serve_connection(client(stream), answer);
    tokio::select! {
        _ = tokio::time::timeout(RESERVE_TIMEOUT, connection) => {}
        () = admitted.evicted() => {}
    }
}

async fn answer_in_reserve(routes: Router, request: Request<Incoming>) -> Result<Response, Infallible> {
    let (parts, incoming) = request.into_parts();
    let body = RequestBody::new(incoming, &parts.headers).drained_if_small();
    let mut response = if HEALTH_CHECKS.contains(&parts.uri.path()) {
        routes.oneshot(Request::from_parts(parts, body)).await?
    } else {
        api::too_many_connections()
    };
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    Ok(response)
}
