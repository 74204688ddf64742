//! Chooses who carries a request by the scheme of its URL. Wired in where message brokers are allowed; knows nothing of either way.

use std::sync::Arc;

use async_trait::async_trait;
use everhook_core::{
    model::Report,
    ports::{OutgoingRequest, Transport},
};

/// One transport for web servers and one for message brokers, as one.
pub struct ByScheme {
    /// Carries `http` and `https`.
    pub web: Arc<dyn Transport>,
    /// Carries `amqp` and `amqps`.
    pub brokers: Arc<dyn Transport>,
}

#[async_trait]
impl Transport for ByScheme {
    async fn send(&self, request: OutgoingRequest) -> Report {
        if request.target.is_amqp() { self.brokers.send(request).await } else { self.web.send(request).await }
    }
}
