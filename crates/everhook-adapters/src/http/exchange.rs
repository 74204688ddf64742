//! One request and its answer: find a connection, send, read the head, read the body, all bounded.
//!
//! The transport runs it under the request's deadline; whatever is known when that strikes is in [`Progress`].
//!
//! HTTP/1.1 is spoken here and in `answer` by hand: requests have one form, answers are read no further than they are kept, and a
//! library's connection would cost a task, two channels and two maps of headers for each (decision 0025).

use std::{io, sync::Arc, time::Instant};

use everhook_core::{
    model::{PhaseTimes, Response},
    ports::{FETCH_BYTES_MAX, OutgoingMethod, OutgoingRequest},
};
use url::Position;

use super::{
    answer::{self, End, Framing, Head},
    compose::compose,
    connect::Connector,
    connection::{Connection, Message, Sending},
    failure::Failure,
    pool::{Pool, PoolKey},
};

/// The largest head of an answer, interim ones before it included: what common servers and proxies allow themselves.
pub(super) const ANSWER_HEAD_BYTES_MAX: usize = 32 * 1024;
/// How much of a body is read before the connection is given up instead of reused.
const BODY_READ_MAX: usize = 64 * 1024;
/// The same for the answer of an app that was called: as large as what it is asked may be.
const CALL_BODY_READ_MAX: usize = 256 * 1024;
/// How much is kept of the answer to something that was posted: enough to see what went wrong.
const SAMPLE_KEPT_MAX: usize = 1024;
/// How many kept connections may turn out closed before a fresh one is opened.
const STALE_TRIES_MAX: usize = 3;

/// How far an exchange has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Other host names are being resolved first.
    AwaitingLookUp,
    #[default]
    Resolving,
    Connecting,
    Securing,
    Waiting,
    Reading,
}

/// What is known of an exchange while it runs.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) stage: Stage,
    pub(crate) phases: PhaseTimes,
    head: Option<Response>,
    body_sample: Vec<u8>,
    /// How much of the body is kept, and how much is read.
    body_kept_max: usize,
    body_read_max: usize,
    body_cut: bool,
}

impl Progress {
    /// Nothing has happened yet.
    pub(super) fn of(method: OutgoingMethod) -> Self {
        let (body_kept_max, body_read_max) = match method {
            OutgoingMethod::Post => (SAMPLE_KEPT_MAX, BODY_READ_MAX),
            OutgoingMethod::Get => (BODY_READ_MAX, BODY_READ_MAX),
            OutgoingMethod::Fetch => (FETCH_BYTES_MAX, FETCH_BYTES_MAX),
            OutgoingMethod::Call => (CALL_BODY_READ_MAX, CALL_BODY_READ_MAX),
        };
        Self { body_kept_max, body_read_max, ..Self::default() }
    }

    /// The answer as far as it came; `None` if not even its head did.
    pub(super) fn take_response(&mut self) -> Option<Response> {
        let mut response = self.head.take()?;
        response.body_sample = std::mem::take(&mut self.body_sample).into();
        response.cut.body = self.body_cut;
        Some(response)
    }

    fn sample(&mut self, data: &[u8]) {
        let room = self.body_kept_max - self.body_sample.len();
        self.body_sample.extend_from_slice(&data[..data.len().min(room)]);
        self.body_cut |= data.len() > room;
    }
}

/// Why an answer is not complete.
#[derive(Debug)]
pub(super) enum Broken {
    /// The stream failed.
    Stream(io::Error),
    /// The other side ended it too early.
    Closed,
    /// What came is no answer.
    Answer(answer::Fault),
}

/// Sends `request` and reads its answer into `progress`.
pub(super) async fn run(
    connector: &Connector,
    pool: &Arc<Pool>,
    request: &OutgoingRequest,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let target = &*request.target;
    let key = PoolKey { organization: request.organization, origin: &target.url[..Position::BeforePath] };
    let message = compose(request)?;
    for _ in 0..STALE_TRIES_MAX {
        let Some(connection) = pool.take(key) else { break };
        let mut exchange = Exchange::new(connection, &message);
        match exchange.run(progress).await {
            Err(broken) if exchange.may_be_stale(&broken) => {}
            ended => return exchange.end(ended, pool, key),
        }
    }
    let mut exchange = Exchange::new(connector.open(request, progress).await?, &message);
    let ended = exchange.run(progress).await;
    exchange.end(ended, pool, key)
}

/// A message on a connection.
struct Exchange<'a> {
    connection: Connection,
    message: &'a Message<'a>,
    sending: Sending,
    /// What came and is not read yet.
    received: Vec<u8>,
    has_received: bool,
}

/// How a complete answer leaves its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The next answer begins behind it.
    Reusable,
    /// Something of it is unread, or its end is the connection's.
    GivenUp,
}

impl<'a> Exchange<'a> {
    fn new(connection: Connection, message: &'a Message<'a>) -> Self {
        Self { connection, message, sending: Sending::default(), received: Vec::new(), has_received: false }
    }

    async fn run(&mut self, progress: &mut Progress) -> Result<After, Broken> {
        progress.stage = Stage::Waiting;
        let started = Instant::now();
        let head = self.read_head().await?;
        progress.phases.first_byte = Some(started.elapsed());
        progress.stage = Stage::Reading;
        progress.head = Some(head.response);
        let after = self.read_body(head.framing, progress).await?;
        Ok(if head.keeps_alive { after } else { After::GivenUp })
    }

    /// Whether a failure on a *reused* connection may only mean that the receiver closed it, as servers do with idle connections, at the moment
    /// at which the request was written. Then the request is repeated on another connection. If the receiver had taken it after all, it
    /// sees it twice, under the same `webhook-id`: at-least-once delivery promises no less, and a failed attempt would repeat it as well.
    fn may_be_stale(&self, broken: &Broken) -> bool {
        !self.has_received && !matches!(broken, Broken::Answer(_))
    }

    /// Keeps the connection if the next exchange can begin on it.
    fn end(self, ended: Result<After, Broken>, pool: &Arc<Pool>, key: PoolKey<'_>) -> Result<(), Failure> {
        let after = ended.map_err(|broken| Failure::exchange(&broken))?;
        if after == After::Reusable && self.sending.is_complete() && self.received.is_empty() {
            pool.park(key, self.connection);
        }
        Ok(())
    }

    /// Sends the message and reads the head of its answer, past interim ones.
    async fn read_head(&mut self) -> Result<Head, Broken> {
        let mut interim_bytes = 0;
        loop {
            let known = self.received.len();
            self.receive().await?;
            // A head that comes byte by byte is read once for each line, not for each byte. The first bytes show whether it is one at all.
            if known > 0 && !self.received[known..].contains(&b'\n') && self.received.len() < ANSWER_HEAD_BYTES_MAX {
                continue;
            }
            while let Some(head) = answer::read_head(&self.received).map_err(Broken::Answer)? {
                self.received.drain(..head.bytes);
                if !matches!(head.response.status, 100 | 102..=199) {
                    return Ok(head);
                }
                interim_bytes += head.bytes;
            }
            if interim_bytes + self.received.len() >= ANSWER_HEAD_BYTES_MAX {
                return Err(Broken::Answer(answer::Fault::TooLarge));
            }
        }
    }

    async fn read_body(&mut self, mut framing: Framing, progress: &mut Progress) -> Result<After, Broken> {
        if framing.is_empty() {
            return Ok(After::Reusable);
        }
        let mut read = 0;
        loop {
            let taken = framing.take(&self.received, |data| progress.sample(data)).map_err(Broken::Answer)?;
            self.received.drain(..taken.bytes);
            read += taken.bytes;
            if read + self.received.len() > progress.body_read_max {
                progress.body_cut |= progress.body_kept_max == progress.body_read_max;
                return Ok(After::GivenUp);
            }
            match taken.end {
                End::Exact => return Ok(After::Reusable),
                End::Odd => return Ok(After::GivenUp),
                End::NotYet => {}
            }
            match self.receive().await {
                Ok(()) => {}
                // Servers that end an answer by closing often skip TLS's farewell. Nothing that is kept depends on the rest of the body.
                Err(broken) if framing == Framing::UntilClose && broken.is_end() => return Ok(After::GivenUp),
                Err(broken) => return Err(broken),
            }
        }
    }

    async fn receive(&mut self) -> Result<(), Broken> {
        match self.connection.receive(self.message, &mut self.sending, &mut self.received).await {
            Ok(0) => Err(Broken::Closed),
            Ok(_) => {
                self.has_received = true;
                Ok(())
            }
            Err(error) => Err(Broken::Stream(error)),
        }
    }
}

impl Broken {
    /// Whether the other side ended the connection in an orderly way, or as good as that.
    fn is_end(&self) -> bool {
        match self {
            Self::Closed => true,
            Self::Stream(error) => error.kind() == io::ErrorKind::UnexpectedEof,
            Self::Answer(_) => false,
        }
    }
}
