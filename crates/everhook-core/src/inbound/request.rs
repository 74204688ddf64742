//! A request as it came in, borrowed: nothing of it is copied to be verified.

use bytes::Bytes;

/// What a provider sent.
#[derive(Clone, Copy, Debug)]
pub struct InboundRequest<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The URL as the provider called it: the source's `public_url`, or scheme, host, path and query.
    pub url: &'a str,
    /// The query without its `?`.
    pub query: &'a str,
    /// What stands behind the source in the path: `/in/{source}/{event_type}`.
    pub path_type: Option<&'a str>,
    /// Names in lower case, in order; one that was sent twice is there twice.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body, whole.
    pub body: &'a Bytes,
    /// Whether a person has just armed the source to take a key from a handshake.
    pub awaiting_handshake: bool,
}
