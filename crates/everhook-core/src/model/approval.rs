//! Approvals: calls that a person decides about, because the app's answer could not be used and the manifest says so. `manage::approvals` decides what
//! follows from what; stores keep it.

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    ids::{ApplicationId, ApprovalId, EventId, LaneId, OrganizationId},
    model::{Actor, CapabilityName},
    time::Timestamp,
};

/// A call that waits for a person, or waited for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Its identity.
    pub id: ApprovalId,
    /// The tenant.
    pub organization: OrganizationId,
    /// Whose capability was called.
    pub application: ApplicationId,
    /// Which.
    pub capability: CapabilityName,
    /// Its lane: what is sealed is sealed for it.
    pub lane_id: LaneId,
    /// Names the call.
    pub request_id: Uuid,
    /// Why the app's answer was not used, in words.
    pub cause: String,
    /// The call, sealed. `None` once nothing needs it any more, and in lists.
    pub call: Option<Bytes>,
    /// When the call was answered with it.
    pub requested_at: Timestamp,
    /// Until when it waits.
    pub expires_at: Timestamp,
    /// How it was decided; `None` while it waits.
    pub decision: Option<ApprovalDecision>,
}

impl Approval {
    /// Its state.
    pub fn status(&self) -> ApprovalStatus {
        match self.decision.as_ref().map(|decision| &decision.end) {
            None => ApprovalStatus::Pending,
            Some(ApprovalEnd::Queued { .. } | ApprovalEnd::Answered { .. }) => ApprovalStatus::Approved,
            Some(ApprovalEnd::Rejected) => ApprovalStatus::Rejected,
            Some(ApprovalEnd::Expired) => ApprovalStatus::Expired,
        }
    }
}

/// How an approval was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalDecision {
    /// What becomes of the call.
    pub end: ApprovalEnd,
    /// Who decided.
    pub by: Actor,
    /// Why, in that one's words.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
    /// The event that follows from the decision and is not published yet: the job, or the message to the caller.
    pub unpublished: Option<EventId>,
}

/// What becomes of a call about which was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalEnd {
    /// The app is asked for it, as a job.
    Queued {
        /// The job.
        job: EventId,
    },
    /// It has ended with what the person gave.
    Answered {
        /// That: a JSON text, sealed. `None` in lists.
        data: Option<Bytes>,
    },
    /// It has ended without an answer.
    Rejected,
    /// Nobody decided in time.
    Expired,
}

/// The state of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalStatus {
    /// It waits for a person.
    Pending,
    /// A person approved the call: it became a job, or has ended with data.
    Approved,
    /// A person rejected it.
    Rejected,
    /// Nobody decided in time.
    Expired,
}

impl ApprovalStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Approved, Self::Rejected, Self::Expired];

    /// Its name, in every store and on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}
