//! One open connection: bytes out, bytes in, both driven by the task that waits for the answer. `connect` opens it, `exchange` speaks HTTP on it, `pool`
//! keeps it in between.
//!
//! Nobody drives a connection that is kept unused, so that its end is noticed at its next use or by the pool's look, whichever is first.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// How much room a read has, at least. Answers to webhooks fit as a rule.
const READ_BYTES: usize = 4 * 1024;

/// What bytes travel on: a socket, or TLS on one.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<Io: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for Io {}

/// An open connection. Dropping it closes the socket at once, whatever the other side is doing.
pub(super) struct Connection {
    stream: Box<dyn ByteStream>,
}

/// A request as it goes over the wire. It can be sent again.
pub(super) struct Message<'a> {
    pub(super) head: Vec<u8>,
    pub(super) body: &'a [u8],
}

/// How much of a message has gone out.
#[derive(Default)]
pub(super) struct Sending {
    written: usize,
    is_flushed: bool,
    /// Why no more of it can go out.
    failure: Option<io::Error>,
}

impl Connection {
    pub(super) fn new(stream: impl ByteStream + 'static) -> Self {
        Self { stream: Box::new(stream) }
    }

    /// Waits for more of the answer, which is added to `received`, and sends meanwhile what is left of the message: an answer may come before
    /// its request was read. Says how many bytes came; none means that the other side has ended.
    ///
    /// # Errors
    /// What the stream met. A message that cannot be sent is an error only once nothing more of an answer is there to be read.
    pub(super) async fn receive(&mut self, message: &Message<'_>, sending: &mut Sending, received: &mut Vec<u8>) -> io::Result<usize> {
        poll_fn(|context| {
            self.poll_send(context, message, sending);
            match self.poll_read(context, received) {
                Poll::Pending => sending.failure.take().map_or(Poll::Pending, |failure| Poll::Ready(Err(failure))),
                ready => ready,
            }
        })
        .await
    }

    /// Whether it can take another message: it is open, and nothing came on it that nobody asked for.
    pub(super) fn is_usable(&mut self) -> bool {
        let mut byte = [0];
        let looked = Pin::new(&mut self.stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut ReadBuf::new(&mut byte));
        looked.is_pending()
    }

    fn poll_send(&mut self, context: &mut Context<'_>, message: &Message<'_>, sending: &mut Sending) {
        while !sending.is_over() {
            let step = if sending.has_written(message) {
                Pin::new(&mut self.stream).poll_flush(context).map_ok(|()| sending.is_flushed = true)
            } else {
                let parts = message.from(sending.written);
                Pin::new(&mut self.stream).poll_write_vectored(context, &parts).map(|written| sending.advance(written?))
            };
            match step {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(failure)) => sending.failure = Some(failure),
            }
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>, received: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        if received.capacity() == received.len() {
            received.reserve(READ_BYTES);
        }
        pin!(self.stream.read_buf(received)).poll(context)
    }
}

impl Message<'_> {
    /// What is left of it past so many bytes.
    fn from(&self, written: usize) -> [IoSlice<'_>; 2] {
        let head = self.head.get(written..).unwrap_or_default();
        let body = self.body.get(written.saturating_sub(self.head.len())..).unwrap_or_default();
        [IoSlice::new(head), IoSlice::new(body)]
    }

    fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

impl Sending {
    /// Whether the whole message has gone out.
    pub(super) fn is_complete(&self) -> bool {
        self.is_flushed
    }

    fn is_over(&self) -> bool {
        self.is_flushed || self.failure.is_some()
    }

    fn has_written(&self, message: &Message<'_>) -> bool {
        self.written == message.len()
    }

    fn advance(&mut self, written: usize) -> io::Result<()> {
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.written += written;
        Ok(())
    }
}
