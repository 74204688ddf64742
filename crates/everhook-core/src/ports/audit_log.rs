//! The audit log: read here. Entries are written by the port calls that they are about, in the same transaction.

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    ids::{ApiKeyId, OrganizationId},
    model::{AuditAction, AuditEntry, Page, PageRequest},
    ports::{
        AlertRulePut, Begun, Created, Decided, Deleted, Discarded, EndpointUpdated, Moved, ScheduleDeleted, StoreError, TimeRange, Updated,
    },
};

/// Who changed what.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Lists an organization's entries, newest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn audit_log(&self, organization: OrganizationId, filter: AuditFilter, page: PageRequest)
    -> Result<Page<AuditEntry>, StoreError>;
}

/// Which entries to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// By this one.
    pub actor: Option<ActorFilter>,
    /// Of this action.
    pub action: Option<AuditAction>,
    /// About this thing.
    pub resource: Option<Uuid>,
    /// Made in this span.
    pub made: TimeRange,
}

/// Whose entries to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorFilter {
    /// Those by a key.
    Key(ApiKeyId),
    /// Those by Everhook itself.
    Server,
}

/// What a store answers to a change. An entry is written with the change if it took place, and otherwise not.
pub trait Effect {
    /// Whether something is different now.
    fn took_place(&self) -> bool;
}

macro_rules! effects {
    ($($done:pat => $answer:ty;)+) => {$(
        impl Effect for $answer {
            fn took_place(&self) -> bool {
                matches!(self, $done)
            }
        }
    )+};
}

effects! {
    Self::Put => AlertRulePut;
    Self::Created => Created;
    Self::Updated => Updated;
    Self::Updated => EndpointUpdated;
    Self::Deleted => ScheduleDeleted;
    Self::Moved(1..) => Moved;
    Self::Discarded => Discarded;
    Self::Begun => Begun;
    Self::Decided => Decided;
    Self::Deleted(_) => Deleted;
}

/// Whether there was anything to remove.
impl Effect for bool {
    fn took_place(&self) -> bool {
        *self
    }
}
