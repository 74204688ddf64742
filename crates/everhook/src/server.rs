//! Drives connections: takes them, bounds them, and lets them end when the server stops.

use std::{
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use anyhow::Context as _;
use axum::Router;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

/// How many connections are served at once. More wait in the system's queue; each costs some tens of kilobytes.
const CONNECTIONS_MAX: usize = 10_000;

/// How long the head of a request may take to arrive, idle time before it included: it bounds slow and forgotten clients alike.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest head of a request, and the most headers in it.
const HEAD_BYTES_MAX: usize = 32 * 1024;
const HEADERS_MAX: usize = 100;

/// The largest buffer of a connection: a payload of the usual kind in one piece.
const BUFFER_BYTES_MAX: usize = 128 * 1024;

/// How long to wait after the system refused a connection (no more descriptors, as a rule) before taking the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server that takes requests from when it is opened until it is stopped. Its clones are the same server.
#[derive(Clone)]
pub struct Server {
    /// Where it takes requests.
    pub address: SocketAddr,
    closed: Arc<Mutex<Option<TcpListener>>>,
    routes: Routes,
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
    /// Makes the address ours. Whoever connects waits until the server is opened.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub async fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        Ok(Self {
            address: listener.local_addr().context("the listening address cannot be read")?,
            closed: Arc::new(Mutex::new(Some(listener))),
            routes: Routes::default(),
            stopping: CancellationToken::new(),
            connections: TaskTracker::new(),
        })
    }

    /// Whether requests are taken.
    pub fn is_open(&self) -> bool {
        self.lock().is_none()
    }

    /// Lets requests in, from now on to these routes.
    pub fn open(&self, router: Router) {
        self.routes.replace(router);
        if let Some(listener) = self.lock().take() {
            let accepting = accept(listener, self.routes.clone(), self.stopping.clone(), self.connections.clone());
            self.connections.spawn(accepting);
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
            tracing::warn!(connections = self.connections.len(), "some requests did not end in time and are dropped");
        }
    }
}

async fn accept(listener: TcpListener, routes: Routes, stopping: CancellationToken, connections: TaskTracker) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let builder = builder();
    loop {
        let taken = tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            taken = take(&listener, &slots) => taken,
        };
        match taken {
            Ok((stream, slot)) => {
                let serving = serve(builder.clone(), stream, routes.clone(), stopping.clone(), slot);
                connections.spawn(serving);
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a connection could not be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn take(listener: &TcpListener, slots: &Arc<Semaphore>) -> std::io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let slot = slots.clone().acquire_owned().await.expect("the slots are never closed");
    let (stream, _) = listener.accept().await?;
    Ok((stream, slot))
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX);
    builder
}

/// Serves one connection. The slot is held until it ends.
async fn serve(builder: http1::Builder, stream: TcpStream, routes: Routes, stopping: CancellationToken, slot: OwnedSemaphorePermit) {
    // Answers are small and complete: waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request: Request<Incoming>| routes.current().oneshot(request));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = &error as &dyn std::error::Error, "a connection ended early");
    }
    drop(slot);
}
