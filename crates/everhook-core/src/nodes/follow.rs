//! Applies what other nodes changed: what this one remembers of it is dropped, and its lanes are notified. Run by wiring where nodes share a store.
//!
//! A change is followed by whoever reads first: the store stays the judge of every write, so that a node that lags a little sends by the old
//! settings and never loses anything.

use std::{sync::Arc, time::Duration};

use crate::{
    ids::ApiKeyId,
    line::Line,
    ports::{CHANGES_EVERY, Change, ChangeCursor},
    repeated_failure::RepeatedFailure,
};

/// How long to wait before changes are asked for again when they could not be read.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long changes must be unreadable before that is logged. Whoever keeps the lease reports a store that is away.
const TOLD_AFTER: Duration = Duration::from_secs(30);

/// What must not be remembered of API keys any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleKeys {
    /// This one was revoked.
    One(ApiKeyId),
    /// Any of them may have been.
    All,
}

/// Follows the changes after `seen` for ever, or returns at once where the store has one owner. `seen` was read before anything was remembered; `forget_keys` is called for keys that were revoked.
pub async fn follow(line: Arc<Line>, seen: ChangeCursor, forget_keys: impl Fn(StaleKeys) + Send + Sync) {
    let (mut seen, mut repeated_failure) = (seen, RepeatedFailure::reported_after(TOLD_AFTER));
    while line.held_lease.is_shared() {
        let delay = match line.ports.changes.changes(seen).await {
            Ok(changed) => {
                seen = changed.cursor;
                if repeated_failure.worked(line.ports.clock.uptime()).is_some() {
                    tracing::info!("reading changes made by other nodes works again");
                }
                for change in changed.changes {
                    apply_change(&line, change, &forget_keys).await;
                }
                if changed.has_more { Duration::ZERO } else { CHANGES_EVERY }
            }
            Err(error) => {
                if line.held_lease.is_trusted() && repeated_failure.failed(line.ports.clock.uptime()).is_some() {
                    tracing::warn!("cannot read changes made by other nodes; this node may use outdated settings: {}", error.in_words());
                }
                RETRY_DELAY
            }
        };
        line.ports.clock.sleep_until(line.ports.clock.now() + delay).await;
    }
}

async fn apply_change(line: &Line, change: Change, forget_keys: &(impl Fn(StaleKeys) + Sync)) {
    match change {
        Change::Endpoint(application, endpoint) => {
            line.catalog.forget(application);
            line.wake_up.changed(application, endpoint.into());
            line.calls.breaker_changed(application, endpoint.into());
        }
        Change::Application(application) => {
            line.catalog.forget(application);
            line.calls.forget(application);
            line.deletions_bell.notify_one();
        }
        Change::Organization(organization) => {
            line.catalog.forget_organization(organization);
            line.calls.forget_organization(organization);
            line.wake_up.organization_changed(organization);
            line.operations_bell.notify_one();
            line.deletions_bell.notify_one();
        }
        Change::Source(source) => line.sources.forget(source),
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
        Change::Cancelled(_, endpoint) => line.wake_up.cancelled(endpoint.into()),
        Change::Everything => {
            line.catalog.forget_all();
            line.sources.forget_all();
            line.calls.forget_all();
            line.wake_up.everything_changed();
            line.operations_bell.notify_one();
            line.publishers.forget_keys().await;
            forget_keys(StaleKeys::All);
        }
    }
}
