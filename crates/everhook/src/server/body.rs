//! A request's body on its way to a handler. What the handler leaves unread is read and dropped, within bounds: most clients send all of a request before
//! they read the answer, and would see a broken connection instead of it.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::{runtime::Handle, sync::Semaphore};

/// How much of a body is read and dropped: as much as the largest batch may have by default.
const DRAINED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long that may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long nothing may come of it. Bodies that come slowly must not occupy all drains.
const DRAIN_STALLED_FOR: Duration = Duration::from_millis(500);

/// How many bodies are drained at once; others wait for that within the same time. Reading what nobody wants must not take the processor, nor buffers,
/// which grow to some hundred kilobytes while much comes in.
static DRAINS: Semaphore = Semaphore::const_new(16);
/// After so many bytes a drain pauses for so long: 2 MB take a sixteenth of a second, and all drains together at most half a gigabyte a second.
const DRAIN_STEP_BYTES: usize = 128 * 1024;
const DRAIN_PAUSE: Duration = Duration::from_millis(4);

/// What is small: a client has sent it before it looks for an answer.
const SMALL_BYTES: u64 = 64 * 1024;

/// A body that is drained if it is dropped before its end.
pub struct RequestBody {
    incoming: Option<Incoming>,
    /// It is not drained: the client waits to be asked for it, so that nothing comes before that, and asking just to drop it would be a waste.
    is_left_unread: bool,
}

impl RequestBody {
    /// The body of a request with these headers.
    pub fn new(incoming: Incoming, headers: &HeaderMap) -> Self {
        let waits_to_be_asked = headers.get(header::EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        Self { incoming: Some(incoming), is_left_unread: waits_to_be_asked }
    }

    /// The same one, which is left unread with the connection if it is not small.
    pub fn drained_if_small(mut self) -> Self {
        let is_small = self.size_hint().upper().is_some_and(|bytes| bytes <= SMALL_BYTES);
        self.is_left_unread |= !is_small;
        self
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.is_left_unread = false;
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let frame = std::task::ready!(Pin::new(incoming).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.incoming = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(incoming) = self.incoming.take().filter(|incoming| !incoming.is_end_stream() && !self.is_left_unread) else { return };
        // The answer does not wait for it. When the connection ends, so does this.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(tokio::time::timeout(DRAIN_TIMEOUT, drain(incoming)));
        }
    }
}

/// Reads to the end and drops what comes. Whatever is left when this gives up, the connection is closed with.
async fn drain(mut body: impl Body<Data = Bytes> + Unpin) {
    let _permit = DRAINS.acquire().await;
    let (mut bytes, mut pause_at) = (0, DRAIN_STEP_BYTES);
    while bytes <= DRAINED_BYTES_MAX
        && let Ok(Some(Ok(frame))) = tokio::time::timeout(DRAIN_STALLED_FOR, body.frame()).await
    {
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes >= pause_at {
            pause_at = bytes + DRAIN_STEP_BYTES;
            tokio::time::sleep(DRAIN_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A body of which nothing ever comes.
    struct Silent;

    impl Body for Silent {
        type Data = Bytes;
        type Error = hyper::Error;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_body_of_which_nothing_comes_is_given_up_long_before_its_time_is_over() {
        let began = Instant::now();
        drain(Silent).await;
        assert!(began.elapsed() < DRAIN_TIMEOUT / 2, "{:?}", began.elapsed());
    }
}
