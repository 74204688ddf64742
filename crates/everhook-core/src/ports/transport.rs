//! How requests go out.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use crate::model::{Report, Target};

/// A POST that is complete, signed and ready.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    /// Where it goes.
    pub target: Arc<Target>,
    /// Every header but `Host` and `Content-Length`, lower case, checked. Values are visible ASCII or UTF-8 without controls.
    pub headers: Vec<(OutgoingHeader, Bytes)>,
    /// The body.
    pub body: Bytes,
    /// How long it may take, from now to the end of the answer.
    pub timeout: Duration,
}

/// A header's name, lower case. Ours are static, an endpoint's own are shared.
pub type OutgoingHeader = std::borrow::Cow<'static, str>;

/// Sends requests to strangers' servers.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Posts `request` and reports what came of it, within `request.timeout` whatever the other side does.
    ///
    /// The address is vetted on every connect, redirects are not followed, and no more of the answer is read than is kept or needed to
    /// reuse the connection. There is no error: a refusal, a reset and a blocked address are reports.
    async fn send(&self, request: OutgoingRequest) -> Report;
}
