//! What a request turned out to be.

use bytes::Bytes;

use super::{KeyRequest, Refusal};
use crate::model::{EventType, Secret};

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It proves the URL and carries no event: answer it, store nothing.
    Handshake(Handshake),
    /// It is the provider's.
    Accepted(Accepted),
    /// It is not, or cannot be read.
    Refused(Refusal),
    /// A key must be fetched first; then [`Verifier::read_with_key`](super::Verifier::read_with_key).
    NeedsKey(KeyRequest),
}

/// An answered handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// What to answer.
    pub reply: Reply,
    /// What else to do.
    pub effect: Option<HandshakeEffect>,
}

/// What a handshake asks for beside an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeEffect {
    /// Keep this as the source's secret; the source awaits no handshake any more.
    Capture(Secret<String>),
    /// Request this URL, on a host that the recipe allows, to confirm the subscription.
    Visit(String),
}

/// A request that is the provider's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// What it carries: one item, or those of a batch; none where the batch was empty.
    pub items: Vec<Item>,
    /// What to answer once they are stored.
    pub reply: Reply,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What kind of thing.
    pub event_type: EventType,
    /// The provider's id of it.
    pub id: Option<String>,
    /// The provider's user that it is about.
    pub external_user: Option<String>,
    /// Its bytes as they were sent: a slice of the request's body.
    pub body: Bytes,
    /// What the bytes are. `None`: JSON.
    pub content_type: Option<String>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// Headers beside the length.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}
