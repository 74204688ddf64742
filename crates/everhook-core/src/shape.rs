//! What shapes an endpoint's requests, opened and ready to use: the present one of an endpoint that is sent to, or a revision of the past.
//!
//! The catalog keeps one for each endpoint; whoever shows what was sent opens one for a moment. Nothing here may log or return a key.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    ids::EndpointId,
    model::{PayloadStyle, Revision, SealedSecret, SignatureStyle, SigningKey, Target},
    ports::{OutgoingHeader, StoreError, Vault},
    signing::Keys,
};

/// A revision, prepared once for all requests that are built with it.
pub struct Shape {
    /// The URL, shared with each request.
    pub target: Arc<Target>,
    /// The secrets, opened.
    pub keys: Keys,
    /// How `X-Webhook-Signature` is written.
    pub signature_style: SignatureStyle,
    /// What the body is.
    pub payload_style: PayloadStyle,
    /// The endpoint's own headers, lower case.
    pub headers: Vec<(OutgoingHeader, Bytes)>,
    /// The endpoint's id as text, for `X-Webhook-ID`.
    pub id_text: Bytes,
}

impl Shape {
    /// Prepares a revision of an endpoint.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if a secret does not open.
    pub fn open(endpoint: EndpointId, revision: Revision, vault: &dyn Vault) -> Result<Self, StoreError> {
        let keys = Keys {
            current: open_key(endpoint, &revision.secrets.current, vault)?,
            previous: match &revision.secrets.previous {
                Some((sealed, until)) => Some((open_key(endpoint, sealed, vault)?, *until)),
                None => None,
            },
        };
        let lower_case = |(name, value): (String, String)| (name.to_ascii_lowercase().into(), Bytes::from(value));
        Ok(Self {
            target: Arc::new(revision.target),
            keys,
            signature_style: revision.signature_style,
            payload_style: revision.payload_style,
            headers: revision.headers.into_iter().map(lower_case).collect(),
            id_text: Bytes::from(endpoint.to_string()),
        })
    }
}

/// Opens one of an endpoint's secrets.
pub(crate) fn open_key(endpoint: EndpointId, sealed: &SealedSecret, vault: &dyn Vault) -> Result<SigningKey, StoreError> {
    let plain = vault.open(endpoint.as_uuid(), sealed).map_err(StoreError::corrupt)?;
    let text = String::from_utf8(plain).map_err(StoreError::corrupt)?;
    SigningKey::parse(&text).map_err(StoreError::corrupt)
}
