//! Alert rules and alerts that cannot be read or written on demand.

use async_trait::async_trait;
use everhook_core::{
    ids::{AlertRuleId, AlertStatusId, LaneId, OrganizationId},
    model::{AlertStatus, AttemptStatistics, AuditEntry, OrganizationAlertRule, Page, PageRequest},
    ports::{
        AlertChange, AlertFilter, AlertRulePut, AlertRuleStore, AlertSignals, AlertStore, LaneMinute, Signal, SignalPage, SignalPlace,
        SourceMinute, StoreError,
    },
    time::Timestamp,
};
use uuid::Uuid;

use super::{Faulty, Kind, injected};

#[async_trait]
impl<S: AlertRuleStore> AlertRuleStore for Faulty<S> {
    async fn alert_rules(&self, organization: OrganizationId) -> Result<Vec<OrganizationAlertRule>, StoreError> {
        through!(self, self.store.alert_rules(organization))
    }

    async fn alert_rules_after(&self, after: Option<AlertRuleId>, limit: u32) -> Result<Vec<OrganizationAlertRule>, StoreError> {
        through!(self, self.store.alert_rules_after(after, limit))
    }

    async fn put_alert_rule(
        &self,
        rule: OrganizationAlertRule,
        read_at: Option<Timestamp>,
        count_max: u32,
        entry: AuditEntry,
    ) -> Result<AlertRulePut, StoreError> {
        through!(self, self.store.put_alert_rule(rule, read_at, count_max, entry))
    }

    async fn delete_alert_rule(&self, organization: OrganizationId, name: &str, entry: AuditEntry) -> Result<bool, StoreError> {
        through!(self, self.store.delete_alert_rule(organization, name, entry))
    }
}

#[async_trait]
impl<S: AlertStore> AlertStore for Faulty<S> {
    async fn open_alerts(&self, after: Option<AlertStatusId>, limit: u32) -> Result<Vec<AlertStatus>, StoreError> {
        through!(self, self.store.open_alerts(after, limit))
    }

    async fn save_alerts(&self, changes: Vec<AlertChange>) -> Result<Vec<bool>, StoreError> {
        through!(self, self.store.save_alerts(changes))
    }

    async fn alert_at(&self, organization: OrganizationId, rule: &str, target: Uuid) -> Result<Option<AlertStatus>, StoreError> {
        through!(self, self.store.alert_at(organization, rule, target))
    }

    async fn alert(&self, organization: OrganizationId, id: AlertStatusId) -> Result<Option<AlertStatus>, StoreError> {
        through!(self, self.store.alert(organization, id))
    }

    async fn alerts(&self, organization: OrganizationId, filter: AlertFilter, page: PageRequest) -> Result<Page<AlertStatus>, StoreError> {
        through!(self, self.store.alerts(organization, filter, page))
    }

    async fn silence_alert(
        &self,
        organization: OrganizationId,
        id: AlertStatusId,
        until: Option<Timestamp>,
        entry: AuditEntry,
    ) -> Result<bool, StoreError> {
        through!(self, self.store.silence_alert(organization, id, until, entry))
    }

    async fn forget_alerts(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        through!(self, self.store.forget_alerts(before, limit))
    }
}

#[async_trait]
impl<S: AlertSignals> AlertSignals for Faulty<S> {
    async fn lane_minutes(&self, since: Timestamp, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<LaneMinute>, StoreError> {
        through!(self, self.store.lane_minutes(since, after, limit))
    }

    async fn source_minutes(
        &self,
        since: Timestamp,
        after: Option<SignalPlace>,
        limit: u32,
    ) -> Result<SignalPage<SourceMinute>, StoreError> {
        through!(self, self.store.source_minutes(since, after, limit))
    }

    async fn open_circuits(&self, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError> {
        through!(self, self.store.open_circuits(after, limit))
    }

    async fn dead_letter_counts(&self, count_max: u32, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError> {
        through!(self, self.store.dead_letter_counts(count_max, after, limit))
    }

    async fn source_depths(&self, count_max: u32, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError> {
        through!(self, self.store.source_depths(count_max, after, limit))
    }

    async fn failing_apps(&self, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError> {
        through!(self, self.store.failing_apps(after, limit))
    }

    async fn minutes_of_lane(
        &self,
        lane_id: LaneId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, AttemptStatistics)>, StoreError> {
        through!(self, self.store.minutes_of_lane(lane_id, from, to))
    }
}
