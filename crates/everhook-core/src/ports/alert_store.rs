//! Alert rules of organizations, and the state of each rule for each target. Used by the job that evaluates rules, and by people.

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    ids::{AlertRuleId, AlertStatusId, OrganizationId},
    model::{AlertStage, AlertStatus, AuditEntry, OrganizationAlertRule, Page, PageRequest},
    ports::{Alert, StoreError},
    time::Timestamp,
};

/// What organizations say about alert rules: their own ones, and default ones that they changed.
///
/// Every method fails with [`StoreError::Unavailable`] if the store cannot be reached, and then changed nothing, as far as is known.
#[async_trait]
pub trait AlertRuleStore: Send + Sync {
    /// The rules of an organization, by name.
    async fn alert_rules(&self, organization: OrganizationId) -> Result<Vec<OrganizationAlertRule>, StoreError>;

    /// The rules of all organizations after an id, in the order of ids; at most so many.
    async fn alert_rules_after(&self, after: Option<AlertRuleId>, limit: u32) -> Result<Vec<OrganizationAlertRule>, StoreError>;

    /// Writes a rule: a new one, if the organization has none of that name and fewer than `count_max`, or, with `read_at`, the one of that id, if nobody changed
    /// it since.
    async fn put_alert_rule(
        &self,
        rule: OrganizationAlertRule,
        read_at: Option<Timestamp>,
        count_max: u32,
        entry: AuditEntry,
    ) -> Result<AlertRulePut, StoreError>;

    /// Deletes a rule of an organization by its name; says whether there was one.
    async fn delete_alert_rule(&self, organization: OrganizationId, name: &str, entry: AuditEntry) -> Result<bool, StoreError>;
}

/// What became of a rule that was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertRulePut {
    /// It is written.
    Put,
    /// Somebody else wrote or deleted it.
    Changed,
    /// The organization has as many as it may.
    TooMany,
}

/// The state of alert rules for their targets. Only what is not `ok`, or has a history, is kept.
///
/// Every method fails with [`StoreError::Unavailable`] if the store cannot be reached, and then changed nothing, as far as is known.
#[async_trait]
pub trait AlertStore: Send + Sync {
    /// Alerts of all organizations that are not `ok`, after an id, in the order of ids; at most so many. It costs as much as there are of these.
    async fn open_alerts(&self, after: Option<AlertStatusId>, limit: u32) -> Result<Vec<AlertStatus>, StoreError>;

    /// Keeps changes of alerts, each with what is reported of it, in one atomic write. Each says whether it was kept: it is not if the alert is no longer in the state
    /// it was seen, so that of several nodes that report the same, one does.
    async fn save_alerts(&self, changes: Vec<AlertChange>) -> Result<Vec<bool>, StoreError>;

    /// The state of a rule for one target; `None` if nothing is kept of it.
    async fn alert_at(&self, organization: OrganizationId, rule: &str, target: Uuid) -> Result<Option<AlertStatus>, StoreError>;

    /// An alert of an organization.
    async fn alert(&self, organization: OrganizationId, id: AlertStatusId) -> Result<Option<AlertStatus>, StoreError>;

    /// Lists alerts of an organization, the newest first.
    async fn alerts(&self, organization: OrganizationId, filter: AlertFilter, page: PageRequest) -> Result<Page<AlertStatus>, StoreError>;

    /// Silences an alert until then, or no longer; says whether there is one.
    async fn silence_alert(
        &self,
        organization: OrganizationId,
        id: AlertStatusId,
        until: Option<Timestamp>,
        entry: AuditEntry,
    ) -> Result<bool, StoreError>;

    /// Forgets alerts that have been `ok` since before the instant given, at most so many; says how many.
    async fn forget_alerts(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError>;
}

/// A change of the state of an alert.
#[derive(Clone, Debug)]
pub struct AlertChange {
    /// The new state. Its revision is the one that was seen; 0 if nothing was kept. If there is nothing to keep of it, it is deleted.
    pub status: AlertStatus,
    /// What is reported.
    pub alert: Option<Alert>,
}

/// Which alerts are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertFilter {
    /// Those of this stage.
    pub stage: Option<AlertStage>,
    /// Those that are silenced at this instant, or, with `false`, those that are not.
    pub silenced: Option<(Timestamp, bool)>,
    /// Those of this rule.
    pub rule: Option<String>,
    /// Those about this thing.
    pub target: Option<Uuid>,
}
