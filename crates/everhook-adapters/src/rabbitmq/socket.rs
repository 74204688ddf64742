//! The socket that lapin speaks on: opened and secured by us, and closed by us at once when nobody wants it any more.
//!
//! lapin reads and writes in a thread of its own, for as long as the other side keeps the connection open. A broker that says nothing, or a
//! request that was given up, must not leave that thread behind: the socket ends with its [`CloseOnDrop`]. And the other way round: whoever waits
//! for lapin's answer learns from the guard that the socket has ended, because lapin forgets some of those who wait.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use async_rs::{Runtime, Tokio, traits::Reactor, util::RuntimeParts};
use futures_util::Stream as Items;
use lapin::AsyncTcpStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::{
    compat::{Compat, TokioAsyncReadCompatExt as _},
    sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned},
};

use crate::http::Stream;

/// What lapin runs on: tokio, with sockets of ours.
pub(super) type LapinRuntime = RuntimeParts<Tokio, Sockets>;

/// Keeps a socket open. Dropping it closes the socket, whatever lapin or the other side is doing.
pub(super) struct CloseOnDrop {
    _wanted: DropGuard,
    lost: CancellationToken,
}

impl CloseOnDrop {
    /// Returns once the socket has ended, from whichever side.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

/// A socket that is handed to lapin once.
pub(super) struct Once(Mutex<Option<Socket>>);

/// The form in which lapin takes a socket.
pub(super) type Socket = Compat<Guarded>;

impl Once {
    /// Closes the connection when the guard is dropped.
    pub(super) fn new(stream: Stream) -> (Self, CloseOnDrop) {
        let (ended, lost) = (CancellationToken::new(), CancellationToken::new());
        let io: Box<dyn Io> = match stream {
            Stream::Plain(stream) => Box::new(stream),
            Stream::Secure(stream) => Box::new(stream),
        };
        let guarded = Guarded { io, ended: ended.clone(), ending: Box::pin(ended.clone().cancelled_owned()), lost: lost.clone() };
        (Self(Mutex::new(Some(guarded.compat()))), CloseOnDrop { _wanted: ended.drop_guard(), lost })
    }

    /// The socket. There is no second one: a link that ended is replaced, not repaired.
    pub(super) fn take(&self) -> lapin::Result<AsyncTcpStream<Socket>> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(AsyncTcpStream::Plain(socket.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?))
    }
}

/// The runtime for a link, in the tokio runtime that calls this.
pub(super) fn runtime() -> Runtime<LapinRuntime> {
    let tokio = Tokio::current();
    Runtime::new(RuntimeParts::new(tokio.clone(), Sockets(tokio)))
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A socket that fails to be read once its guard is dropped, which ends lapin's thread.
pub(super) struct Guarded {
    io: Box<dyn Io>,
    ended: CancellationToken,
    /// Wakes the reader only: it remembers one waker, and the reader is always waiting.
    ending: Pin<Box<WaitForCancellationFutureOwned>>,
    lost: CancellationToken,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.lost.cancel();
    }
}

impl AsyncRead for Guarded {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.ending.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        let is_end = match &read {
            Poll::Ready(Ok(())) => buffer.filled().len() == before && buffer.remaining() > 0,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_end {
            self.lost.cancel();
        }
        read
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.ended.is_cancelled() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// Timers are tokio's. Connections come from [`Once`], and whatever else lapin might open is refused: it would not have been vetted.
#[derive(Clone, Debug)]
pub(super) struct Sockets(Tokio);

impl Reactor for Sockets {
    type TcpStream = Socket;
    type Sleep = <Tokio as Reactor>::Sleep;

    #[allow(refining_impl_trait)]
    fn register<H: Send + 'static>(&self, _handle: H) -> io::Result<Socket> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, length: Duration) -> Self::Sleep {
        self.0.sleep(length)
    }

    fn interval(&self, length: Duration) -> impl Items<Item = Instant> + Send + 'static {
        self.0.interval(length)
    }

    fn tcp_connect_addr(&self, _address: SocketAddr) -> impl Future<Output = io::Result<Socket>> + Send + 'static {
        std::future::ready(Err(io::ErrorKind::Unsupported.into()))
    }
}
