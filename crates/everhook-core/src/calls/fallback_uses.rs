//! Uses of a capability's fallback that its organization was not told of yet. Pure.
//!
//! The first is told at once, what follows is added up for a minute: an app that is down would else be an event for each call.

use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use serde_json::json;
use uuid::Uuid;

use super::OpenCapability;
use crate::{
    ids::{ApplicationId, LaneId, OrganizationId},
    model::EventType,
    policy::calls::answer::FailureKind,
    ports::{Alert, AlertId},
    time::Timestamp,
};

/// How often it is told that a fallback of one capability is used. What happens in between is counted.
const REPORTED_EVERY: Duration = Duration::from_secs(60);

/// The uses of all fallbacks, by capability.
#[derive(Default)]
pub(super) struct FallbackUses(FxHashMap<LaneId, Uses>);

/// The uses of one.
struct Uses {
    organization: OrganizationId,
    application: ApplicationId,
    capability: String,
    counts: FxHashMap<(&'static str, FailureKind), u64>,
    last_request: Uuid,
    reported_at: Option<Timestamp>,
}

impl FallbackUses {
    /// A step was used because the app's answer could not be.
    pub(super) fn note(&mut self, of: &OpenCapability, step: &'static str, kind: FailureKind, request: Uuid) {
        let uses = self.0.entry(of.lane_id).or_insert_with(|| Uses {
            organization: of.organization,
            application: of.application,
            capability: of.name.as_str().to_owned(),
            counts: FxHashMap::default(),
            last_request: request,
            reported_at: None,
        });
        *uses.counts.entry((step, kind)).or_default() += 1;
        uses.last_request = request;
    }

    /// What is to be told now, at most so much: the rest goes on counting. Each is logged as well, so that the log has a line a minute and not one a call.
    pub(super) fn take(&mut self, most: usize, now: Timestamp, id: impl Fn() -> AlertId) -> Vec<Alert> {
        self.0.retain(|_, uses| !uses.counts.is_empty() || !uses.is_due(now));
        let due = self.0.values_mut().filter(|uses| !uses.counts.is_empty() && uses.is_due(now));
        due.take(most).map(|uses| uses.take(id(), now)).collect()
    }

    /// When something is to be told next, if something waits.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        let waiting = self.0.values().filter(|uses| !uses.counts.is_empty());
        waiting.map(|uses| uses.reported_at.map_or(Timestamp::EPOCH, |at| at + REPORTED_EVERY)).min()
    }
}

impl Uses {
    fn is_due(&self, now: Timestamp) -> bool {
        self.reported_at.is_none_or(|at| now.since(at) >= REPORTED_EVERY)
    }

    fn take(&mut self, id: AlertId, now: Timestamp) -> Alert {
        self.reported_at = Some(now);
        let counts = std::mem::take(&mut self.counts);
        let mut uses: Vec<_> = counts.into_iter().map(|((step, kind), count)| (step, kind.as_str(), count)).collect();
        uses.sort_unstable();
        let count: u64 = uses.iter().map(|(_, _, count)| count).sum();
        // The caller was let through without the app: who chose that should see how often it happens.
        let failed_open: u64 =
            uses.iter().filter(|(step, ..)| !matches!(*step, "error" | "cache" | "queue" | "manual")).map(|(_, _, count)| count).sum();
        let uses: Vec<_> = uses.iter().map(|(step, reason, count)| json!({"step": step, "reason": reason, "count": count})).collect();
        tracing::info!(
            application.id = %self.application,
            capability = %self.capability,
            count,
            failed_open,
            "the fallback of `{}` answered {count} calls because the app's answer could not be used",
            self.capability
        );
        let data = json!({
            "organization_id": self.organization.to_string(),
            "application_id": self.application.to_string(),
            "capability": self.capability,
            "count": count,
            "failed_open": failed_open,
            "uses": uses,
            "last_request_id": self.last_request.to_string(),
            "reported_at": now.to_string(),
        });
        Alert {
            id,
            organization: self.organization,
            event_type: EventType::parse("call.fallback").expect("our own event types are well-formed"),
            data: Bytes::from(data.to_string()),
        }
    }
}
