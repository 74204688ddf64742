//! One open connection, driven by whoever uses it. `connect` opens it, `exchange` sends on it, `pool` keeps it in between.
//!
//! Reading and writing happen in the task that waits for the answer: a task for each connection would cost two wake-ups a request. Nobody
//! drives a connection that is kept unused, so that its end is noticed at its next use or by the pool's look, whichever is first.

use std::{
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Frame, Incoming},
    client::conn::{
        TrySendError,
        http1::{self, SendRequest},
    },
    rt::{Read, Write},
};

/// The body of a request: one piece, known in full.
pub(super) type Body = Full<Bytes>;

/// An open connection. Dropping it closes the socket at once, whatever the other side is doing.
pub(super) struct Connection {
    sender: SendRequest<Body>,
    driver: Driver,
}

/// What reads and writes for the sender; `None` once the connection has ended.
struct Driver(Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>);

impl Connection {
    pub(super) fn new<Io>(sender: SendRequest<Body>, connection: http1::Connection<Io, Body>) -> Self
    where
        Io: Read + Write + Unpin + Send + 'static,
    {
        Self { sender, driver: Driver(Some(Box::pin(connection))) }
    }

    /// Sends a message and waits for the head of its answer. On a connection that has ended meanwhile, the message comes back unsent.
    pub(super) async fn send(&mut self, message: Request<Body>) -> Result<Response<Incoming>, TrySendError<Request<Body>>> {
        let answer = self.sender.try_send_request(message);
        self.driver.drive(answer).await
    }

    /// The next piece of an answer's body; `None` at its end.
    pub(super) async fn next_frame(&mut self, body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
        self.driver.drive(body.frame()).await
    }

    /// Whether the last exchange is over for both sides. An answer may come before its request was written whole.
    pub(super) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Looks whether an unused connection was closed, or spoiled by bytes that nobody asked for.
    pub(super) fn has_ended(&mut self) -> bool {
        self.driver.advance(&mut Context::from_waker(Waker::noop()));
        self.driver.0.is_none()
    }
}

impl Driver {
    /// Waits for `step`, reading and writing meanwhile. A step that was served with the one before it costs no look at the socket.
    async fn drive<T>(&mut self, step: impl Future<Output = T>) -> T {
        let mut step = pin!(step);
        std::future::poll_fn(|context| {
            if let Poll::Ready(done) = step.as_mut().poll(context) {
                return Poll::Ready(done);
            }
            self.advance(context);
            step.as_mut().poll(context)
        })
        .await
    }

    /// What the connection met is told to the exchange under way. The end drops it, which tells a message that was not yet taken.
    fn advance(&mut self, context: &mut Context<'_>) {
        if let Some(connection) = &mut self.0
            && let Poll::Ready(_told) = connection.as_mut().poll(context)
        {
            self.0 = None;
        }
    }
}
