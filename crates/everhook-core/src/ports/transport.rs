//! How requests go out.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    ids::OrganizationId,
    model::{Report, Target},
};

/// What a request asks of the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutgoingMethod {
    /// To take something. Of the answer, a sample is kept.
    #[default]
    Post,
    /// To take something and to answer with what came of it. The answer is kept whole, as far as it is read: 256 KiB.
    Call,
    /// To give something: a certificate, a set of keys. The answer is kept whole, as far as it is read.
    Get,
    /// The same where what is given may be large: the data of a user. Kept whole up to [`FETCH_BYTES_MAX`]; cut if it is larger.
    Fetch,
}

/// How much of an answer to [`OutgoingMethod::Fetch`] is read: a day of one user has some hundreds of kilobytes.
pub const FETCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A request that is complete, signed and ready.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    /// Whose it is. Organizations never share a connection: what one receiver leaves on it must not answer for another's.
    pub organization: OrganizationId,
    /// What it asks.
    pub method: OutgoingMethod,
    /// Where it goes.
    pub target: Arc<Target>,
    /// Every header but `host` and `content-length`, in order; lower case, checked, no name twice. Values are visible ASCII or UTF-8 without
    /// controls.
    pub headers: Vec<(OutgoingHeader, Bytes)>,
    /// The body.
    pub body: Bytes,
    /// How long it may take, from now to the end of the answer.
    pub timeout: Duration,
}

impl OutgoingRequest {
    /// Every header as it goes over the wire, in order. Transports write these and no others, so that history can show what they wrote.
    pub fn wire_headers(&self) -> impl Iterator<Item = (&OutgoingHeader, Bytes)> {
        let length = (self.method != OutgoingMethod::Get).then(|| (&CONTENT_LENGTH, Bytes::from(self.body.len().to_string())));
        host_first(&self.target, &self.headers).chain(length)
    }
}

/// The same for a request whose body is gone, and its length with it.
pub fn host_first<'a>(target: &Target, headers: &'a [(OutgoingHeader, Bytes)]) -> impl Iterator<Item = (&'a OutgoingHeader, Bytes)> {
    let host = Bytes::copy_from_slice(target.authority().as_bytes());
    std::iter::once((&HOST, host)).chain(headers.iter().map(|(name, value)| (name, value.clone())))
}

static HOST: OutgoingHeader = OutgoingHeader::Borrowed("host");
static CONTENT_LENGTH: OutgoingHeader = OutgoingHeader::Borrowed("content-length");

/// A header's name, lower case. Ours are static and borrowed; an endpoint's and a publisher's are owned.
pub type OutgoingHeader = std::borrow::Cow<'static, str>;

/// Sends requests to strangers' servers.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends `request` and reports what came of it, within `request.timeout` whatever the other side does.
    ///
    /// The address is vetted on every connect, redirects are not followed, and no more of the answer is read than is kept or needed to
    /// reuse the connection. There is no error: a refusal, a reset and a blocked address are reports.
    async fn send(&self, request: OutgoingRequest) -> Report;
}
