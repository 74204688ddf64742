//! The owner's alarm clock.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::{line::Line, time::Timestamp};

/// The next instant at which something is to be done. Set again only when it changes, because most rounds do not change it.
#[derive(Default)]
pub(super) struct Alarm {
    at: Option<Timestamp>,
    sleep: Option<BoxFuture<'static, ()>>,
}

impl Alarm {
    /// At which instant it is to ring.
    pub(super) fn set(&mut self, line: &Arc<Line>, at: Timestamp) {
        if self.at == Some(at) && self.sleep.is_some() {
            return;
        }
        let clock = line.ports.clock.clone();
        self.at = Some(at);
        self.sleep = Some(Box::pin(async move { clock.sleep_until(at).await }));
    }

    /// Returns when it rings.
    pub(super) async fn rung(&mut self) {
        if let Some(sleep) = &mut self.sleep {
            sleep.await;
        }
        self.sleep = None;
    }
}
