//! The audit log's nouns: who changed what, when, and from what to what.
//!
//! Every port call that changes something for somebody takes an [`AuditEntry`] and writes it in the same transaction. Entries are never changed.

use uuid::Uuid;

use crate::{
    ids::{ApiKeyId, AuditEntryId, OrganizationId},
    time::Timestamp,
};

/// Who made a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Somebody with an API key. The name is the key's at that time, because the key may be gone by the time that it is read.
    Key {
        /// The key's record.
        id: ApiKeyId,
        /// What it was called.
        name: String,
    },
    /// Everhook itself: at its start, or because of what an endpoint answered.
    Server,
}

/// Who makes a change, and in which organization. Every use case that changes something takes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The tenant whose things are changed.
    pub organization: OrganizationId,
    /// Who changes them.
    pub actor: Actor,
}

impl Author {
    /// Everhook itself.
    pub const fn server(organization: OrganizationId) -> Self {
        Self { organization, actor: Actor::Server }
    }

    /// The same one, in another organization.
    pub fn within(&self, organization: OrganizationId) -> Self {
        Self { organization, actor: self.actor.clone() }
    }
}

/// A line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its identity.
    pub id: AuditEntryId,
    /// Whose log it is in.
    pub organization: OrganizationId,
    /// When the change was made.
    pub at: Timestamp,
    /// Who made it.
    pub actor: Actor,
    /// What was done.
    pub action: AuditAction,
    /// To what.
    pub resource: Uuid,
    /// What became different.
    pub note: AuditNote,
}

/// What a change made different: JSON objects with the fields that changed. Nothing secret is in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditNote {
    /// As it was; `None` if it was not there.
    pub before: Option<String>,
    /// As it is now; `None` if it is gone.
    pub after: Option<String>,
    /// Whether some of it was too long to be kept.
    pub is_cut: bool,
}

impl AuditNote {
    /// Whether nothing became different: no such entry is written, and neither is what it would be about.
    pub fn says_nothing(&self) -> bool {
        let is_empty = |side: &Option<String>| side.as_deref() == Some("{}");
        is_empty(&self.before) && is_empty(&self.after)
    }
}

macro_rules! actions {
    ($($(#[$doc:meta])* $action:ident = $noun:literal $verb:literal;)+) => {
        /// What was done, to which kind of thing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AuditAction {
            $($(#[$doc])* $action,)+
        }

        impl AuditAction {
            /// All actions.
            pub const ALL: &[Self] = &[$(Self::$action,)+];

            /// Its name on every wire: `endpoint.update`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$action => concat!($noun, ".", $verb),)+
                }
            }

            /// The kind of thing that it is done to.
            pub const fn noun(self) -> &'static str {
                match self {
                    $(Self::$action => $noun,)+
                }
            }
        }
    };
}

actions! {
    /// An organization was made, with its built-in applications.
    OrganizationCreate = "organization" "create";
    /// An organization was changed.
    OrganizationUpdate = "organization" "update";
    /// An organization was deleted. In the log of the organization that the author acted in.
    OrganizationDelete = "organization" "delete";
    /// An application was made.
    ApplicationCreate = "application" "create";
    /// An application was changed.
    ApplicationUpdate = "application" "update";
    /// An application was deleted, and with it its endpoints and the keys that reached it alone.
    ApplicationDelete = "application" "delete";
    /// An application's manifest was put.
    ApplicationPutManifest = "application" "put_manifest";
    /// What signs the requests to an application was made.
    ApplicationCreateSecret = "application" "create_secret";
    /// What signs the requests to an application was replaced.
    ApplicationRotateSecret = "application" "rotate_secret";
    /// The breaker of a capability was reset.
    ApplicationResetBreaker = "application" "reset_breaker";
    /// The breaker of a capability was forced open.
    ApplicationForceOpen = "application" "force_open_breaker";
    /// The breaker of a capability was forced closed.
    ApplicationForceClose = "application" "force_close_breaker";
    /// A call that waited for a person was approved.
    ApprovalApprove = "approval" "approve";
    /// A call that waited for a person was rejected.
    ApprovalReject = "approval" "reject";
    /// A call waited for a person until its time was over.
    ApprovalExpire = "approval" "expire";
    /// An endpoint was made.
    EndpointCreate = "endpoint" "create";
    /// An endpoint was changed.
    EndpointUpdate = "endpoint" "update";
    /// An endpoint was deleted.
    EndpointDelete = "endpoint" "delete";
    /// An endpoint was paused.
    EndpointPause = "endpoint" "pause";
    /// An endpoint was resumed.
    EndpointResume = "endpoint" "resume";
    /// An endpoint's secret was replaced.
    EndpointRotateSecret = "endpoint" "rotate_secret";
    /// An endpoint was disabled because of what it answered.
    EndpointDisable = "endpoint" "disable";
    /// An endpoint's breaker was reset, also by enabling the endpoint again.
    EndpointResetBreaker = "endpoint" "reset_breaker";
    /// An endpoint's breaker was forced open.
    EndpointForceOpen = "endpoint" "force_open_breaker";
    /// An endpoint's breaker was forced closed.
    EndpointForceClose = "endpoint" "force_close_breaker";
    /// A retry schedule was made.
    ScheduleCreate = "retry_schedule" "create";
    /// A retry schedule was changed.
    ScheduleUpdate = "retry_schedule" "update";
    /// A retry schedule was deleted.
    ScheduleDelete = "retry_schedule" "delete";
    /// The endpoints of a retry schedule were moved to another.
    ScheduleReassign = "retry_schedule" "reassign";
    /// An event type was defined.
    EventTypeCreate = "event_type" "create";
    /// An event type's definition was changed.
    EventTypeUpdate = "event_type" "update";
    /// An event type's definition was deleted.
    EventTypeDelete = "event_type" "delete";
    /// An alert rule was written, or a default one was changed first.
    AlertRuleCreate = "alert_rule" "create";
    /// An alert rule was changed.
    AlertRuleUpdate = "alert_rule" "update";
    /// An alert rule was deleted, or a default one is as it was.
    AlertRuleDelete = "alert_rule" "delete";
    /// An alert was silenced.
    AlertSilence = "alert" "silence";
    /// An alert is no longer silenced.
    AlertUnsilence = "alert" "unsilence";
    /// A source was made.
    SourceCreate = "source" "create";
    /// A source was changed.
    SourceUpdate = "source" "update";
    /// A source was deleted.
    SourceDelete = "source" "delete";
    /// A source was paused.
    SourcePause = "source" "pause";
    /// A source was resumed.
    SourceResume = "source" "resume";
    /// A source was made to wait for the key of a handshake.
    SourceAwaitHandshake = "source" "await_handshake";
    /// A source took the key that came in a handshake.
    SourceCaptureKey = "source" "capture_key";
    /// A channel was made.
    ChannelCreate = "channel" "create";
    /// A channel was changed.
    ChannelUpdate = "channel" "update";
    /// A channel was deleted.
    ChannelDelete = "channel" "delete";
    /// A health connection was made, or begun anew.
    HealthConnectionCreate = "health_connection" "create";
    /// A health connection was deleted.
    HealthConnectionDelete = "health_connection" "delete";
    /// Everything about a health profile was erased. The resource is the organization.
    HealthProfileErase = "health_profile" "erase";
    /// An API key was made.
    ApiKeyCreate = "api_key" "create";
    /// An API key was revoked.
    ApiKeyRevoke = "api_key" "revoke";
    /// The next attempt of waiting deliveries was brought forward.
    DeliveryAttemptNow = "delivery" "attempt_now";
    /// A delivery was cancelled.
    DeliveryCancel = "delivery" "cancel";
    /// A dead letter was thrown away.
    DeadLetterDiscard = "dead_letter" "discard";
    /// An event's data was erased.
    EventErase = "event" "erase";
    /// A bulk action was begun; what it is about is in the entry.
    OperationBegin = "operation" "begin";
    /// A bulk action was stopped before its end.
    OperationCancel = "operation" "cancel";
    /// A rotation of the sealing key was stopped before its end. In the log of the organization that the author acted in.
    SealingCancel = "sealing" "cancel";
    /// A rotation of the sealing key continues. In the log of the organization that the author acted in.
    SealingResume = "sealing" "resume";
}

impl AuditAction {
    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|action| action.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_read_as_it_is_written_and_begins_with_its_noun() {
        for action in AuditAction::ALL {
            assert_eq!(AuditAction::parse(action.as_str()), Some(*action));
            assert_eq!(action.as_str().split_once('.').map(|(noun, _)| noun), Some(action.noun()));
        }
        assert_eq!(AuditAction::parse("endpoint"), None);
    }
}
