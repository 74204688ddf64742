//! One request and its answer: find a connection, send, read the head, read the body, all bounded.
//!
//! The transport runs it under the request's deadline; whatever is known when that strikes is in [`Progress`].

use std::{borrow::Cow, sync::Arc, time::Instant};

use bytes::{BufMut as _, Bytes, BytesMut};
use everhook_core::{
    model::{Cut, PhaseTimes, Response, RetryAfter},
    policy::retry_after,
    ports::{OutgoingHeader, OutgoingRequest},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri,
    header::{RETRY_AFTER, TRANSFER_ENCODING},
};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use url::Position;

use super::{
    connect::{Body, Connection, Connector},
    failure::{Failure, is_end_without_notice},
    pool::Pool,
};

/// How much of a body is read before the connection is given up instead of reused.
const BODY_READ_MAX: usize = 64 * 1024;
/// How much of a body is kept.
const BODY_KEPT_MAX: usize = 1024;
/// How many headers of an answer are kept, and how many bytes of names and values in all.
const HEADERS_KEPT_MAX: usize = 64;
const HEADER_BYTES_KEPT_MAX: usize = 8 * 1024;
/// How many kept connections may turn out closed before a fresh one is opened.
const STALE_TRIES_MAX: usize = 3;

/// How far an exchange has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
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
    body_sample: BytesMut,
    body_cut: bool,
}

impl Progress {
    /// The answer as far as it came; `None` if not even its head did.
    pub(super) fn take_response(&mut self) -> Option<Response> {
        let mut response = self.head.take()?;
        response.body_sample = std::mem::take(&mut self.body_sample).freeze();
        response.cut.body = self.body_cut;
        Some(response)
    }
}

/// Sends `request` and reads its answer into `progress`.
pub(super) async fn run(
    connector: &Connector,
    pool: &Arc<Pool>,
    request: &OutgoingRequest,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let target = &*request.target;
    let origin = &target.url[..Position::BeforePath];
    let mut message = compose(request)?;
    for _ in 0..STALE_TRIES_MAX {
        let Some(mut connection) = pool.take(origin).await else { break };
        match send(&mut connection, message, progress).await {
            Ok(unread) => return finish(connection, unread, pool, origin, progress).await,
            Err(Unsent::Unharmed(returned)) => message = *returned,
            Err(Unsent::Lost(error)) if may_be_stale(&error) => message = compose(request)?,
            Err(Unsent::Lost(error)) => return Err(Failure::exchange(&error)),
        }
    }
    let mut connection = connector.open(target, progress).await?;
    match send(&mut connection, message, progress).await {
        Ok(unread) => finish(connection, unread, pool, origin, progress).await,
        Err(Unsent::Unharmed(_)) => Err(Failure::no_answer()),
        Err(Unsent::Lost(error)) => Err(Failure::exchange(&error)),
    }
}

/// An answer whose head was read.
struct Unread {
    body: Incoming,
    /// Neither a length nor chunks tell where the body ends: the connection's end does.
    ends_by_close: bool,
}

/// A message that was not answered.
enum Unsent {
    /// It was never written; here it is again.
    Unharmed(Box<Request<Body>>),
    /// It was written, at least in part.
    Lost(hyper::Error),
}

/// Whether a failure on a *reused* connection may only mean that the receiver closed it, as servers do with idle connections, at the moment
/// at which the request was written. Then the request is repeated on another connection. If the receiver had taken it after all, it
/// sees it twice, under the same `webhook-id`: at-least-once delivery promises no less, and a failed attempt would repeat it as well.
fn may_be_stale(error: &hyper::Error) -> bool {
    !error.is_parse() && !error.is_user()
}

/// Writes the message and reads the head of the answer.
async fn send(connection: &mut Connection, message: Request<Body>, progress: &mut Progress) -> Result<Unread, Unsent> {
    progress.stage = Stage::Waiting;
    let started = Instant::now();
    match connection.sender.try_send_request(message).await {
        Ok(answer) => {
            progress.phases.first_byte = Some(started.elapsed());
            progress.stage = Stage::Reading;
            let (parts, body) = answer.into_parts();
            progress.head = Some(head_of(parts.status.as_u16(), &parts.headers));
            let ends_by_close = body.size_hint().exact().is_none() && !parts.headers.contains_key(TRANSFER_ENCODING);
            Ok(Unread { body, ends_by_close })
        }
        Err(mut error) => Err(match error.take_message() {
            Some(message) => Unsent::Unharmed(Box::new(message)),
            None => Unsent::Lost(error.into_error()),
        }),
    }
}

/// Reads the body, and keeps the connection if nothing of it is left unread.
async fn finish(connection: Connection, unread: Unread, pool: &Arc<Pool>, origin: &str, progress: &mut Progress) -> Result<(), Failure> {
    match read_body(unread, progress).await? {
        BodyEnd::Complete => pool.park(origin, connection),
        BodyEnd::GivenUp => drop(connection),
    }
    Ok(())
}

/// How the reading of a body ended.
enum BodyEnd {
    /// With its last byte.
    Complete,
    /// Before: it was too long, or its end was the end of the connection.
    GivenUp,
}

async fn read_body(mut unread: Unread, progress: &mut Progress) -> Result<BodyEnd, Failure> {
    let mut read = 0;
    while let Some(frame) = unread.body.frame().await {
        let data = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            // Servers that end an answer by closing often skip TLS's farewell. Nothing that is kept depends on the rest of the body.
            Err(error) if unread.ends_by_close && is_end_without_notice(&error) => return Ok(BodyEnd::GivenUp),
            Err(error) => return Err(Failure::exchange(&error)),
        };
        let room = BODY_KEPT_MAX - progress.body_sample.len();
        progress.body_sample.extend_from_slice(&data[..data.len().min(room)]);
        progress.body_cut |= data.len() > room;
        read += data.len();
        if read > BODY_READ_MAX {
            return Ok(BodyEnd::GivenUp);
        }
    }
    Ok(BodyEnd::Complete)
}

/// The request as it goes over the wire: hyper adds nothing to it, and writes headers in the order of their adding.
fn compose(request: &OutgoingRequest) -> Result<Request<Body>, Failure> {
    let uri = Uri::try_from(request.target.path_and_query()).map_err(|_| Failure::unsendable("the path of the URL"))?;
    let mut headers = HeaderMap::with_capacity(request.headers.len() + 2);
    for (name, value) in request.wire_headers() {
        let unsendable = || Failure::unsendable(&format!("the header `{name}`"));
        let value = HeaderValue::from_maybe_shared(value).map_err(|_| unsendable())?;
        headers.append(header_name(name).ok_or_else(unsendable)?, value);
    }
    let mut message = Request::new(Body::new(request.body.clone()));
    *message.method_mut() = Method::POST;
    *message.uri_mut() = uri;
    *message.headers_mut() = headers;
    Ok(message)
}

/// Ours are static, lower case and checked, as the port promises: they are shared instead of copied.
fn header_name(name: &OutgoingHeader) -> Option<HeaderName> {
    match name {
        Cow::Borrowed(ours) => Some(HeaderName::from_static(ours)),
        Cow::Owned(theirs) => HeaderName::from_bytes(theirs.as_bytes()).ok(),
    }
}

/// What is kept of an answer's head.
///
/// The values are copied into one piece of memory: slices of the connection's read buffer would hold all of it for as long as the attempt
/// waits to be written.
fn head_of(status: u16, headers: &HeaderMap) -> Response {
    let mut values = BytesMut::with_capacity(kept(headers).map(|(_, value)| value.len()).sum());
    let mut kept_headers = Vec::with_capacity(headers.len().min(HEADERS_KEPT_MAX));
    for (name, value) in kept(headers) {
        values.put_slice(value.as_bytes());
        kept_headers.push((name.as_str().to_owned(), values.split().freeze()));
    }
    let cut = Cut { headers: kept_headers.len() < headers.len(), body: false };
    Response { status, headers: kept_headers, body_sample: Bytes::new(), cut, retry_after: retry_after_of(headers) }
}

/// The headers that fit: one that is too long for what is left is passed over.
fn kept(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    let mut left = HEADER_BYTES_KEPT_MAX;
    let fits = move |(name, value): &(&HeaderName, &HeaderValue)| match left.checked_sub(name.as_str().len() + value.len()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    headers.iter().filter(fits).take(HEADERS_KEPT_MAX)
}

fn retry_after_of(headers: &HeaderMap) -> Option<RetryAfter> {
    retry_after::parse(headers.get(RETRY_AFTER)?.to_str().ok()?)
}
