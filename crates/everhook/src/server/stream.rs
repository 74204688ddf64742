//! A client's connection whose writes must get on: a client that does not read its answer would otherwise hold the connection, and the answer's memory, for ever.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

/// How long writes may take.
#[derive(Clone, Copy, Debug)]
pub struct WriteTimeouts {
    /// How long a client may leave an answer unread without taking a single byte.
    pub stalled_for: Duration,
    /// How long a client may take for one answer, however steadily it reads.
    pub answer_for: Duration,
}

/// A stream that fails once the other side has not read for too long.
pub struct ClientStream<S> {
    stream: S,
    timeouts: WriteTimeouts,
    blocked: Option<Blocked>,
}

/// An answer that the other side did not take at once.
struct Blocked {
    since: Instant,
    progress_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<S> ClientStream<S> {
    /// Watches over the writes of a stream.
    pub fn new(stream: S, timeouts: WriteTimeouts) -> Self {
        Self { stream, timeouts, blocked: None }
    }

    /// Some bytes were taken. If these were all that there were, the answer is with the system, and its time is over.
    fn progressed(&mut self, written: usize, offered: usize) {
        if written == offered {
            self.blocked = None;
        } else if let Some(blocked) = &mut self.blocked {
            blocked.progress_at = Instant::now();
        }
    }

    /// No byte was taken: wait, but not for ever.
    fn poll_write_timeout(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let WriteTimeouts { stalled_for, answer_for } = self.timeouts;
        let blocked = self.blocked.get_or_insert_with(|| {
            let now = Instant::now();
            Blocked { since: now, progress_at: now, timer: Box::pin(tokio::time::sleep_until(now)) }
        });
        let deadline = (blocked.progress_at + stalled_for).min(blocked.since + answer_for);
        if blocked.timer.deadline() != deadline {
            blocked.timer.as_mut().reset(deadline);
        }
        ready!(blocked.timer.as_mut().poll(context));
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer"))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Ready(Ok(written)) => {
                self.progressed(written, bytes.len());
                Poll::Ready(Ok(written))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.poll_write_timeout(context).map(Err),
        }
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write_vectored(context, slices) {
            Poll::Ready(Ok(written)) => {
                self.progressed(written, slices.iter().map(|slice| slice.len()).sum());
                Poll::Ready(Ok(written))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.poll_write_timeout(context).map(Err),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Pending => self.poll_write_timeout(context).map(Err),
            ready => ready,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_shutdown(context) {
            Poll::Pending => self.poll_write_timeout(context).map(Err),
            ready => ready,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;

    /// Short, so that nobody waits for them; far enough apart to tell which of the two struck.
    const TIMEOUTS: WriteTimeouts = WriteTimeouts { stalled_for: Duration::from_millis(200), answer_for: Duration::from_millis(800) };

    /// Writes 100 bytes through a pipe that holds 10, and says how long that took, and whether it went well.
    async fn write_to(reading: impl Future<Output = ()> + Send + 'static, ours: DuplexStream) -> (Duration, bool) {
        let began = Instant::now();
        let reading = tokio::spawn(reading);
        let written = ClientStream::new(ours, TIMEOUTS).write_all(&[7; 100]).await;
        reading.abort();
        (began.elapsed(), written.is_ok())
    }

    async fn read_every(mut theirs: DuplexStream, bytes: usize, pause: Duration) {
        let mut buffer = vec![0; bytes];
        while theirs.read_exact(&mut buffer).await.is_ok() {
            tokio::time::sleep(pause).await;
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_given_up() {
        let (ours, theirs) = tokio::io::duplex(10);
        let never = async move {
            let _open = theirs;
            std::future::pending().await
        };
        let (took, is_written) = write_to(never, ours).await;
        assert!(!is_written && (TIMEOUTS.stalled_for..TIMEOUTS.answer_for).contains(&took), "{took:?}");
    }

    #[tokio::test]
    async fn a_client_that_reads_a_byte_now_and_then_is_given_up_when_the_answer_has_had_its_time() {
        let (ours, theirs) = tokio::io::duplex(10);
        let (took, is_written) = write_to(read_every(theirs, 1, Duration::from_millis(50)), ours).await;
        assert!(!is_written && took >= TIMEOUTS.answer_for, "{took:?}");
    }

    #[tokio::test]
    async fn a_slow_client_that_keeps_reading_gets_its_answers_each_in_its_own_time() {
        let (ours, theirs) = tokio::io::duplex(10);
        let reading = tokio::spawn(read_every(theirs, 10, Duration::from_millis(20)));
        let (began, mut stream) = (Instant::now(), ClientStream::new(ours, TIMEOUTS));
        // The pipe is empty after each, as it is when a client has read one answer and asks for another.
        while began.elapsed() < TIMEOUTS.answer_for * 2 {
            stream.write_all(&[7; 50]).await.expect("it is read");
        }
        reading.abort();
    }
}
