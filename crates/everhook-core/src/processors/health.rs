//! Makes health metrics of what Garmin and Strava push.
//!
//! The mapping says what an event means; here that is done, for every profile that is connected with the provider's user. Every effect is one write that may
//! be repeated: metrics are found by what they are of, and a connection that has no tokens loses none.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    health::{self, ActivityChange, Effect, Missing},
    ids::HealthMetricId,
    model::{
        AfterExpiry, Cut, Event, EventType, Expiry, FailureCategory, Parking, Response, Sent, WaitsFor,
        health::{Connection, ExternalUserId, MetricDraft, Permissions, ProfileId, Provider},
    },
    ports::{Alert, Clock, Entropy, HealthConnections, HealthMetrics, HealthUser, MetricWrite, Ports, StoreError},
    processors::{Processor, ProcessorTask},
};

use super::{health_fetching::Confirmed, provider_access::ProviderAccess};

/// How long after it was received an event waits for its user to be connected. Past it, it becomes a dead letter, which can be brought back.
const UNKNOWN_USER_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// The operational event about a user who withdrew.
const DEREGISTERED: &str = "connection.deregistered";

/// The processor of health data.
pub(super) struct HealthProcessor {
    connections: Arc<dyn HealthConnections>,
    pub(super) metrics: Arc<dyn HealthMetrics>,
    pub(super) access: Arc<ProviderAccess>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// That alerts were recorded, which no settlement knows of.
    recorded_alerts: Arc<AtomicBool>,
}

/// What deliveries about a user wait for whom no profile is connected with. Whoever makes a connection releases it.
///
/// The user is named by a hash: what was waited for is told in attempts and remembered after a release, and must not name a user who was erased.
pub fn awaited_connection(provider: Provider, user: &ExternalUserId) -> WaitsFor {
    let hash: String = digest(&SHA256, user.as_str().as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    WaitsFor::parse(&format!("connection:{}:sha256:{hash}", provider.as_str())).expect("a hash is short and plain")
}

/// An event about a user who is connected.
pub(super) struct Task<'a> {
    of: ProcessorTask<'a>,
    pub(super) user: HealthUser,
    /// At least one.
    pub(super) connected: Vec<Connection>,
    pub(super) missing: Vec<Missing>,
}

#[async_trait]
impl Processor for HealthProcessor {
    async fn process(&self, task: ProcessorTask<'_>) -> Result<Sent, StoreError> {
        let Some(provider) = Provider::parse(task.source_kind) else {
            return Ok(refused(format!("sources of the kind `{}` have no health data", task.source_kind)));
        };
        let mapped = match health::map(provider, task.event.event_type.as_str(), &task.event.data) {
            Ok(mapped) => mapped,
            Err(unmappable) => return Ok(refused(unmappable.to_string())),
        };
        if let Effect::KeptRaw(why) = mapped.effect {
            return Ok(done(&json!({ "note": why.describe() })));
        }
        let named = task.event.received.as_ref().and_then(|received| received.external_user.as_deref());
        let Some(external_user) = named.and_then(ExternalUserId::parse) else {
            return Ok(refused("the event names no user".to_owned()));
        };
        let user = HealthUser { organization: task.organization, provider, external_user };
        let connections = self.connections.connections_of(user.clone()).await?;
        let connected: Vec<Connection> = connections.into_iter().filter(|connection| connection.is_connected).collect();
        if connected.is_empty() {
            return Ok(self.without_connection(&mapped.effect, &user, task.event));
        }
        self.carry_out(Task { of: task, user, connected, missing: mapped.missing }, mapped.effect).await
    }
}

impl HealthProcessor {
    pub(super) fn new(ports: &Ports, access: Arc<ProviderAccess>, recorded_alerts: Arc<AtomicBool>) -> Self {
        Self {
            access,
            connections: ports.health_connections.clone(),
            metrics: ports.health_metrics.clone(),
            clock: ports.clock.clone(),
            entropy: ports.entropy.clone(),
            recorded_alerts,
        }
    }

    async fn carry_out(&self, task: Task<'_>, effect: Effect) -> Result<Sent, StoreError> {
        match effect {
            Effect::Metrics(drafts) => self.write(&task, drafts).await,
            Effect::Deregistration | Effect::Deauthorized => match self.confirm_withdrawal(&task).await? {
                Confirmed::Yes => self.deregister(&task).await,
                Confirmed::No => Ok(done(&task.report(json!({ "note": "the provider says that the user is still connected" })))),
                Confirmed::NotYet(sent) => Ok(sent),
            },
            Effect::PermissionChange { permissions, .. } => match self.confirm_permissions(&task, permissions).await? {
                Ok(permissions) => self.keep_permissions(&task, permissions).await,
                Err(sent) => Ok(sent),
            },
            Effect::Activity { id, change: ActivityChange::Delete } => self.delete_activity(&task, id).await,
            Effect::Activity { id, change: ActivityChange::Fetch } => self.fetch_activity(task, id).await,
            Effect::Ping { data, callback_url } => self.fetch_ping(task, data, &callback_url).await,
            Effect::KeptRaw(why) => Ok(done(&json!({ "note": why.describe() }))),
        }
    }

    pub(super) async fn write(&self, task: &Task<'_>, drafts: Vec<MetricDraft>) -> Result<Sent, StoreError> {
        let at = self.clock.now();
        let connections: Vec<_> = task.connected.iter().map(|connection| (connection.id, connection.profile.clone())).collect();
        let count = connections.len() * drafts.len();
        let new_ids = (0..count).map(|_| HealthMetricId::from_uuid(self.entropy.uuid(at))).collect();
        let write = MetricWrite { organization: task.user.organization, provider: task.user.provider, connections, drafts, new_ids, at };
        let Some(written) = self.metrics.write_metrics(write).await? else {
            // They went while this was under way.
            return Ok(self.parked(&task.user, task.of.event));
        };
        let counts = json!({ "inserted": written.inserted, "updated": written.updated, "unchanged": written.unchanged });
        Ok(done(&task.report(counts)))
    }

    async fn deregister(&self, task: &Task<'_>) -> Result<Sent, StoreError> {
        let (at, HealthUser { organization, provider, .. }) = (self.clock.now(), &task.user);
        let data = json!({
            "organization_id": organization.to_string(),
            "application_id": task.of.application.to_string(),
            "provider": provider.as_str(),
            // Not the profiles or the user: this event outlives them when they are erased.
            "connection_ids": task.connected.iter().map(|connection| connection.id.to_string()).collect::<Vec<_>>(),
            "deregistered_at": at.to_string(),
        });
        let alert = Alert {
            id: self.entropy.uuid(at),
            organization: *organization,
            event_type: EventType::parse(DEREGISTERED).expect("our own event types are well-formed"),
            data: Bytes::from(data.to_string()),
        };
        let ended = self.connections.deregister(task.user.clone(), at, alert).await?;
        self.recorded_alerts.store(true, Ordering::Release);
        Ok(done(&task.report(json!({ "deregistered": ended }))))
    }

    async fn keep_permissions(&self, task: &Task<'_>, permissions: Option<Permissions>) -> Result<Sent, StoreError> {
        let Some(permissions) = permissions else {
            return Ok(done(&task.report(json!({ "note": "the event does not say which permissions there are" }))));
        };
        let names: Vec<String> = permissions.iter().map(str::to_owned).collect();
        self.connections.keep_permissions(task.user.clone(), permissions, self.clock.now()).await?;
        Ok(done(&task.report(json!({ "permissions": names }))))
    }
}

impl HealthProcessor {
    /// What has an effect on a user waits for the connection. What only takes something away from a connection has nothing to take.
    fn without_connection(&self, effect: &Effect, user: &HealthUser, event: &Event) -> Sent {
        match effect {
            Effect::Metrics(_) | Effect::Activity { change: ActivityChange::Fetch, .. } | Effect::Ping { .. } => self.parked(user, event),
            Effect::Deregistration
            | Effect::Deauthorized
            | Effect::PermissionChange { .. }
            | Effect::Activity { change: ActivityChange::Delete, .. }
            | Effect::KeptRaw(_) => done(&json!({ "note": "no profile is connected with this user" })),
        }
    }

    /// Waits for the connection. The time counts from when the event was received: those that are held behind it end with it, not one after another.
    fn parked(&self, user: &HealthUser, event: &Event) -> Sent {
        let at = event.created_at + UNKNOWN_USER_FOR;
        if at <= self.clock.now() {
            return refused("no profile was connected with this user within 30 days".to_owned());
        }
        let waits_for = awaited_connection(user.provider, &user.external_user);
        Sent::Parked { parking: Parking { waits_for, expiry: Some(Expiry { at, then: AfterExpiry::GivesUp }) }, response: None }
    }
}

impl Task<'_> {
    pub(super) fn profiles(&self) -> Vec<ProfileId> {
        self.connected.iter().map(|connection| connection.profile.clone()).collect()
    }

    /// What was done, with the number of profiles and what the event lacked.
    pub(super) fn report(&self, mut what: Value) -> Value {
        what["profiles"] = json!(self.connected.len());
        if !self.missing.is_empty() {
            what["missing"] = json!(self.missing.iter().map(Missing::to_string).collect::<Vec<_>>());
        }
        what
    }
}

pub(super) fn done(report: &Value) -> Sent {
    let body_sample = Bytes::from(report.to_string());
    Sent::Answered(Response { status: 200, headers: Vec::new(), body_sample, cut: Cut::default(), retry_after: None })
}

pub(super) fn failed(error: &str) -> Sent {
    Sent::Failed { category: FailureCategory::ServerError, error: error.to_owned(), response: None }
}

/// It would be the same again: it becomes a dead letter at once.
pub(super) fn refused(error: String) -> Sent {
    Sent::Refused { category: FailureCategory::ClientError, error, response: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_tells_users_apart_and_does_not_name_them() {
        let awaited = |provider, user: &str| awaited_connection(provider, &ExternalUserId::parse(user).unwrap());
        let names = [awaited(Provider::Strava, "4711"), awaited(Provider::Strava, "4712"), awaited(Provider::Garmin, "4711")];
        assert!(names.iter().all(|name| !name.as_str().contains("471")), "{names:?}");
        assert!(names[0] != names[1] && names[0] != names[2]);
        assert_eq!(names[0], awaited(Provider::Strava, "4711"));
    }
}
