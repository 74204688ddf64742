//! Heeds what other nodes changed: what this one remembers of it is dropped, and its lanes are told. Run by wiring where nodes share a store.
//!
//! A change is followed by whoever reads first: the store stays the judge of every write, so that a node that lags a little sends by the old
//! settings and never loses anything.

use std::{sync::Arc, time::Duration};

use crate::{
    flow::Line,
    ids::ApiKeyId,
    ports::{CHANGES_EVERY, Change, ChangeCursor},
    trouble::Trouble,
};

/// How long to wait before changes are asked for again when they could not be read.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long changes must be unreadable before that is told. Whoever keeps the lease tells of a store that is away.
const TOLD_AFTER: Duration = Duration::from_secs(30);

/// What must not be remembered of API keys any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleKeys {
    /// This one was revoked.
    One(ApiKeyId),
    /// Any of them may have been.
    All,
}

/// Follows the changes after `seen` for ever, or returns at once where the store has one owner. `seen` was read before anything was remembered; `forget_keys` is told of keys that were revoked.
pub async fn follow(line: Arc<Line>, seen: ChangeCursor, forget_keys: impl Fn(StaleKeys) + Send + Sync) {
    let (mut seen, mut trouble) = (seen, Trouble::told_after(TOLD_AFTER));
    while line.tenure.is_shared() {
        let delay = match line.ports.changes.changes(seen).await {
            Ok(changed) => {
                seen = changed.cursor;
                if trouble.worked(line.ports.clock.uptime()).is_some() {
                    tracing::info!("what other nodes changed can be read again");
                }
                for change in changed.changes {
                    heed(&line, change, &forget_keys).await;
                }
                if changed.has_more { Duration::ZERO } else { CHANGES_EVERY }
            }
            Err(error) => {
                if line.tenure.is_trusted() && trouble.failed(line.ports.clock.uptime()).is_some() {
                    tracing::warn!("what other nodes changed cannot be read: {}", error.in_words());
                }
                RETRY_DELAY
            }
        };
        line.ports.clock.sleep_until(line.ports.clock.now() + delay).await;
    }
}

async fn heed(line: &Line, change: Change, forget_keys: &(impl Fn(StaleKeys) + Sync)) {
    match change {
        Change::Endpoint(application, endpoint) => {
            line.catalog.forget(application);
            line.wake_up.changed(application, endpoint);
        }
        Change::Application(application) => line.catalog.forget(application),
        Change::Organization(organization) => {
            line.catalog.forget_organization(organization);
            line.wake_up.organization_changed(organization);
            line.operations_bell.notify_one();
        }
        Change::Definitions(organization) => line.catalog.forget_organization(organization),
        Change::ApiKey(key) => {
            // The spool first: whoever asked it between the two would have the key again, and keep it.
            line.publishers.forget_key(key).await;
            forget_keys(StaleKeys::One(key));
        }
        Change::Erased(event) => {
            line.erasures.remember(&[event], line.ports.clock.now());
            line.wake_up.erased(vec![event]);
        }
        Change::Everything => {
            line.catalog.forget_all();
            line.wake_up.everything_changed();
            line.operations_bell.notify_one();
            line.publishers.forget_keys().await;
            forget_keys(StaleKeys::All);
        }
    }
}
