//! Where the health checks of apps are kept: when each is due, and what the last one found.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    ids::ApplicationId,
    model::{AppCheck, AppHealth},
    ports::{Alert, StoreError},
    time::Timestamp,
};

/// The health checks of apps. A check is made, moved and removed by the write that puts the manifest
/// ([`ManifestStore::put_manifest`](crate::ports::ManifestStore::put_manifest)) or changes where the app is
/// ([`ApplicationStore::update_application`](crate::ports::ApplicationStore::update_application)), and goes with its application.
///
/// Every method fails with [`StoreError::Unavailable`] if the store cannot be reached, and then changed nothing, as far as is known.
#[async_trait]
pub trait AppHealthStore: Send + Sync {
    /// The health check of an application; `None` if it has none.
    async fn app_check(&self, application: ApplicationId) -> Result<Option<AppCheck>, StoreError>;

    /// When the next check is due; `None` if there is none.
    async fn next_app_check(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Takes checks that are due, the most overdue ones, so many of them, and lets each be due again after `now`, whole intervals after it was due: so each
    /// keeps its own part of the interval. A check that is taken and never made is made at its next turn.
    async fn take_app_checks(&self, now: Timestamp, interval: Duration, limit: u32) -> Result<Vec<AppCheck>, StoreError>;

    /// Keeps what a check found, and the alerts about it, in one write, if the application still has one. Says whether it did.
    async fn keep_app_health(&self, application: ApplicationId, found: AppHealth, alerts: Vec<Alert>) -> Result<bool, StoreError>;
}
