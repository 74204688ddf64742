//! Revisions: what shaped an endpoint's requests at a time. Kept for as long as attempts that were made with one, so that history can say what
//! was sent; see decision 0022.

use crate::{
    ids::RevisionNumber,
    model::{Endpoint, PayloadStyle, SealedSecrets, SignatureStyle, Target},
};

/// Everything of an endpoint that a receiver can see in a request. It never changes: an endpoint that does gets a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Where requests went.
    pub target: Target,
    /// What signed them, sealed as the endpoint's own are.
    pub secrets: SealedSecrets,
    /// How `X-Webhook-Signature` was written.
    pub signature_style: SignatureStyle,
    /// What the body was.
    pub payload_style: PayloadStyle,
    /// Added to every request, as the owner wrote them.
    pub headers: Vec<(String, String)>,
}

impl Revision {
    /// What shapes this endpoint's requests now.
    pub fn of(endpoint: &Endpoint) -> Self {
        Self {
            target: endpoint.target.clone(),
            secrets: endpoint.secrets.clone(),
            signature_style: endpoint.signature_style,
            payload_style: endpoint.payload_style,
            headers: endpoint.headers.clone(),
        }
    }

    /// The number that an endpoint has after a change: a new one only if a receiver could notice the difference.
    pub fn number_after(before: &Endpoint, after: &Endpoint) -> RevisionNumber {
        if Self::of(before) == Self::of(after) { before.revision } else { before.revision.next() }
    }
}
