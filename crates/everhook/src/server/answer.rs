//! The memory of large answers, counted until the client has taken them: a tenant that asks for many at once, and reads none, gets no more.

use std::sync::{Arc, OnceLock};

use axum::{
    body::{Body, HttpBody as _},
    response::Response,
};
use bytes::Bytes;
use everhook_core::ids::OrganizationId;
use http::Request;
use http_body_util::BodyExt as _;

use super::body::RequestBody;
use crate::{
    api::{self, Turn},
    memory::{Charge, MemoryBudget, MemoryLimits, NoRoom},
};

/// Answers that are smaller are not counted: a connection costs about as much.
const COUNTED_FROM_BYTES: u64 = 64 * 1024;

/// What an answer may have, as a rule: an organization that has no room for another of those reads nothing until it has taken what waits for it.
const LARGE_ANSWER_BYTES: usize = 4 << 20;

/// How many bytes of answers may wait to be taken by their clients.
const LIMITS: MemoryLimits = MemoryLimits { total: 64 << 20, organization: 24 << 20, kept_for_small: 16 << 20 };

/// What becomes known of a request while it is answered; an extension of every request.
#[derive(Clone)]
pub struct RequestContext(Arc<Known>);

struct Known {
    answers: Arc<MemoryBudget>,
    /// In whose name it is made. Empty for what is open to all, which is the same memory for everybody.
    organization: OnceLock<OrganizationId>,
    /// The memory of its body, until it is answered.
    body: OnceLock<Charge>,
    /// Its turn to read, until it is answered.
    turn: OnceLock<Turn>,
}

impl RequestContext {
    fn new(answers: Arc<MemoryBudget>) -> Self {
        Self(Arc::new(Known { answers, organization: OnceLock::new(), body: OnceLock::new(), turn: OnceLock::new() }))
    }

    /// Keeps a turn to read until the request is answered.
    pub fn take_turn(&self, turn: Turn) {
        let _ = self.0.turn.set(turn);
    }

    /// Refuses to read for an organization that has no room for a large answer left: most of the work would be in vain.
    ///
    /// # Errors
    /// [`NoRoom`] if there is none.
    pub fn check_answers(&self) -> Result<(), NoRoom> {
        let Some(organization) = self.organization() else { return Ok(()) };
        Charge::new(self.0.answers.clone(), organization).would_fit(LARGE_ANSWER_BYTES)
    }

    /// Remembers in whose name the request is made.
    pub fn set_organization(&self, organization: OrganizationId) {
        let _ = self.0.organization.set(organization);
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
    pub async fn count<F>(&self, mut request: Request<RequestBody>, answer: impl FnOnce(Request<RequestBody>) -> F) -> Response
    where
        F: Future<Output = Result<Response, std::convert::Infallible>>,
    {
        let context = RequestContext::new(self.0.clone());
        request.extensions_mut().insert(context.clone());
        let response = answer(request).await.unwrap_or_else(|never| match never {});
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
            Err(_) => api::too_many_answers(),
        }
    }
}
