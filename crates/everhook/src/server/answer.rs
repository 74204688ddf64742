//! The memory of large answers, counted until the client has taken them: a tenant that asks for many at once, and reads none, gets no more.

use std::{
    net::IpAddr,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use everhook_core::{ids::OrganizationId, ports};
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use ipnet::IpNet;

use super::{admission::Answering, body::RequestBody, client_address::client_address};
use crate::{
    api::{self, Turn},
    memory::{Charge, MemoryBudget, MemoryLimits, NoRoom},
};

/// Answers that are smaller are not counted: a connection costs about as much, and the system takes them at once.
const COUNTED_FROM_BYTES: u64 = 64 * 1024;

/// What an answer may have, as a rule: an organization that has no room for another of those reads nothing until it has taken what waits for it.
const LARGE_ANSWER_BYTES: usize = 4 << 20;

/// How many bytes of answers may wait to be taken by their clients.
const LIMITS: MemoryLimits = MemoryLimits { total: 64 << 20, organization: 24 << 20, kept_for_small: 16 << 20 };

/// Where a connection comes from.
#[derive(Clone)]
pub(super) struct Connection {
    /// Its other side.
    pub(super) peer: IpAddr,
    /// Who may speak for others.
    pub(super) trusted_proxies: Arc<[IpNet]>,
}

/// What becomes known of a request while it is answered; an extension of every request.
#[derive(Clone)]
pub struct RequestContext(Arc<Known>);

struct Known {
    answers: Arc<MemoryBudget>,
    connection: Connection,
    /// In whose name it is made. Empty for what is open to all, which is the same memory for everybody.
    organization: OnceLock<OrganizationId>,
    /// The memory of its body, until it is answered.
    body: OnceLock<Charge>,
    /// Its turn to read, until it is answered.
    turn: OnceLock<Turn>,
}

impl RequestContext {
    fn new(answers: Arc<MemoryBudget>, connection: Connection) -> Self {
        let (organization, body, turn) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self(Arc::new(Known { answers, connection, organization, body, turn }))
    }

    /// The client that made the request, also behind proxies that are trusted.
    pub fn client_address(&self, headers: &HeaderMap) -> IpAddr {
        let Connection { peer, trusted_proxies } = &self.0.connection;
        client_address(*peer, headers, trusted_proxies)
    }

    /// Keeps a turn to read until the request is answered.
    pub fn take_turn(&self, turn: Turn) {
        let _ = self.0.turn.set(turn);
    }

    /// Refuses to read for an organization that has left so much unread that there is no room for another large answer: most of the work would be in
    /// vain. Whoever left little unread may always ask, whatever others hold.
    ///
    /// # Errors
    /// [`NoRoom`] if there is none.
    pub fn check_answers(&self) -> Result<(), NoRoom> {
        let Some(organization) = self.organization() else { return Ok(()) };
        Charge::new(self.0.answers.clone(), organization).would_fit_or_holds_little(LARGE_ANSWER_BYTES)
    }

    /// Remembers in whose name the request is made, also for the reads of the store that it makes.
    pub fn set_organization(&self, organization: OrganizationId) {
        let _ = self.0.organization.set(organization);
        ports::set_requester(organization);
    }

    /// In whose name it is made, once its key was looked at.
    pub fn organization(&self) -> Option<OrganizationId> {
        self.0.organization.get().copied()
    }

    /// Counts the memory of the request's body until it is answered.
    pub fn hold(&self, body: Charge) {
        let _ = self.0.body.set(body);
    }
}

/// What the answers under way take.
pub struct Answers(Arc<MemoryBudget>);

impl Default for Answers {
    fn default() -> Self {
        Self(MemoryBudget::new(LIMITS))
    }
}

/// Keeps a connection at work until a large answer was handed to the system, so that it is not closed as idle meanwhile. What is small the system takes
/// at once.
pub(super) fn hold_until_sent(response: Response, answering: Answering) -> Response {
    if response.body().size_hint().exact().is_some_and(|bytes| bytes < COUNTED_FROM_BYTES) {
        return response;
    }
    response.map(|body| Body::new(SentBody { body, answering: Arc::new(answering) }))
}

/// The body of an answer that is being sent until all of its parts are dropped.
struct SentBody {
    body: Body,
    answering: Arc<Answering>,
}

impl HttpBody for SentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let hold = |bytes| Bytes::from_owner(Sending { bytes, _answering: self.answering.clone() });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(hold))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A part of an answer.
struct Sending {
    bytes: Bytes,
    _answering: Arc<Answering>,
}

impl AsRef<[u8]> for Sending {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An answer that is counted until it is dropped, which is when all of it was handed to the system.
struct Counted {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Answers {
    /// Answers a request, unless the answers that its organization does not take have used up the memory for them.
    pub(super) async fn count<F>(
        &self,
        mut request: Request<RequestBody>,
        connection: Connection,
        answer: impl FnOnce(Request<RequestBody>) -> F,
    ) -> Response
    where
        F: Future<Output = Result<Response, std::convert::Infallible>>,
    {
        let context = RequestContext::new(self.0.clone(), connection);
        request.extensions_mut().insert(context.clone());
        let response = ports::request(answer(request)).await.unwrap_or_else(|never| match never {});
        match (response.body().size_hint().exact(), context.organization()) {
            (Some(size), Some(organization)) if size >= COUNTED_FROM_BYTES => self.charge(response, organization).await,
            _ => response,
        }
    }

    async fn charge(&self, response: Response, organization: OrganizationId) -> Response {
        let (parts, body) = response.into_parts();
        let Ok(collected) = body.collect().await else { return api::internal_error() };
        let bytes = collected.to_bytes();
        let mut charge = Charge::new(self.0.clone(), organization);
        // One alone always fits: otherwise what is there could never be read.
        match charge.grow_or_first(bytes.len()) {
            Ok(()) => Response::from_parts(parts, Body::from(Bytes::from_owner(Counted { bytes, _charge: charge }))),
            Err(no_room) => api::too_many_answers(no_room),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{
        super::admission::{Admission, ConnectionLimits},
        *,
    };

    #[tokio::test]
    async fn a_connection_is_at_work_until_a_large_answer_was_handed_to_the_system() {
        let limits = ConnectionLimits { connections: 8, reserve: 8, trusted_proxies: Vec::new() };
        let admitted = Admission::new(limits).admit("192.0.2.1".parse().unwrap(), Instant::now()).unwrap();
        let is_idle = || admitted.idle_for(Instant::now()).is_some();
        for (bytes, is_held) in [(1_000, false), (100_000, true)] {
            let answering = admitted.activity().begin();
            assert!(!is_idle());
            let response = hold_until_sent(Response::new(Body::from(vec![7; bytes])), answering);
            assert_eq!(response.body().size_hint().exact(), Some(bytes as u64));
            assert_eq!(!is_idle(), is_held);
            let sent = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!((sent.len(), !is_idle()), (bytes, is_held));
            drop(sent);
            assert!(is_idle());
        }
    }
}
