//! Alert rules, and how they stand at what they watch: the ports `AlertRuleStore` and `AlertStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{AlertRuleId, AlertStatusId, OrganizationId},
    model::{AlertStage, AlertStatus, AuditEntry, OrganizationAlertRule, Page, PageRequest},
    ports::{AlertChange, AlertFilter, AlertRulePut, AlertRuleStore, AlertStore, StoreError},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    audit_log::conclude,
    collisions::retry_on_conflict,
    directory::changing,
    fault::Outcome,
    outbox::{AlertColumns, INSERT_ALERTS},
    page::{Between, List, list, rows_wanted},
    rows::{Columns, Key},
    transaction::Tx,
};
use crate::encoding::alert_json;

const RULES: &str = include_str!("queries/alert_rules_of_organization.sql");
const RULES_AFTER: &str = include_str!("queries/alert_rules_after.sql");
const COUNT_RULES: &str = include_str!("queries/count_alert_rules.sql");
const INSERT_RULE: &str = include_str!("queries/insert_alert_rule.sql");
const UPDATE_RULE: &str = include_str!("queries/update_alert_rule.sql");
const DELETE_RULE: &str = include_str!("queries/delete_alert_rule.sql");
const OPEN: &str = include_str!("queries/open_alerts.sql");
const AT: &str = include_str!("queries/alert_at.sql");
const BY_ID: &str = include_str!("queries/alert_by_id.sql");
const LIST: List = list!("queries/alerts_page.sql");
const INSERT: &str = include_str!("queries/insert_alert_status.sql");
const UPDATE: &str = include_str!("queries/update_alert_status.sql");
const DELETE: &str = include_str!("queries/delete_alert_status.sql");
const SILENCE: &str = include_str!("queries/silence_alert.sql");
const FORGET: &str = include_str!("queries/forget_alerts_over.sql");

#[async_trait]
impl AlertRuleStore for PostgresStore {
    async fn alert_rules(&self, organization: OrganizationId) -> Result<Vec<OrganizationAlertRule>, StoreError> {
        let rows = self.reader().await?.query(RULES, &[&organization.key()]).await?;
        Ok(rows.iter().map(rule_of_row).collect::<Outcome<_>>()?)
    }

    async fn alert_rules_after(&self, after: Option<AlertRuleId>, limit: u32) -> Result<Vec<OrganizationAlertRule>, StoreError> {
        let after = after.map_or(Uuid::nil(), |id| id.key());
        let rows = self.reader().await?.query(RULES_AFTER, &[&after, &i64::from(limit)]).await?;
        Ok(rows.iter().map(rule_of_row).collect::<Outcome<_>>()?)
    }

    async fn put_alert_rule(
        &self,
        rule: OrganizationAlertRule,
        read_at: Option<Timestamp>,
        count_max: u32,
        entry: AuditEntry,
    ) -> Result<AlertRulePut, StoreError> {
        let put = retry_on_conflict(|| async {
            let mut connection = self.connection().await?;
            let tx = changing(&mut connection, rule.organization).await?;
            let outcome = put_rule(&tx, &rule, read_at, count_max).await?;
            conclude(tx, outcome, &entry).await
        });
        Ok(put.await?)
    }

    async fn delete_alert_rule(&self, organization: OrganizationId, name: &str, entry: AuditEntry) -> Result<bool, StoreError> {
        let deleted = retry_on_conflict(|| async {
            let mut connection = self.connection().await?;
            let tx = changing(&mut connection, organization).await?;
            let is_deleted = tx.execute(DELETE_RULE, &[&organization.key(), &name]).await? > 0;
            conclude(tx, is_deleted, &entry).await
        });
        Ok(deleted.await?)
    }
}

async fn put_rule(tx: &Tx<'_>, own: &OrganizationAlertRule, read_at: Option<Timestamp>, count_max: u32) -> Outcome<AlertRulePut> {
    let (id, organization, definition) = (own.id.key(), own.organization.key(), alert_json::rule(&own.rule));
    let updated_at = own.updated_at.as_micros();
    let written = match read_at {
        Some(read_at) => tx.execute(UPDATE_RULE, &[&id, &organization, &definition, &updated_at, &read_at.as_micros()]).await?,
        None => {
            let count: i64 = tx.query_one(COUNT_RULES, &[&organization]).await?.value("count")?;
            if count >= i64::from(count_max) {
                return Ok(AlertRulePut::TooMany);
            }
            let created_at = own.created_at.as_micros();
            tx.execute(INSERT_RULE, &[&id, &organization, &own.rule.name, &definition, &created_at, &updated_at]).await?
        }
    };
    Ok(if written > 0 { AlertRulePut::Put } else { AlertRulePut::Changed })
}

#[async_trait]
impl AlertStore for PostgresStore {
    async fn open_alerts(&self, after: Option<AlertStatusId>, limit: u32) -> Result<Vec<AlertStatus>, StoreError> {
        let after = after.map_or(Uuid::nil(), |id| id.key());
        let rows = self.reader().await?.query(OPEN, &[&after, &i64::from(limit)]).await?;
        Ok(rows.iter().map(status_of_row).collect::<Outcome<_>>()?)
    }

    async fn save_alerts(&self, changes: Vec<AlertChange>) -> Result<Vec<bool>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        let mut saved = Vec::with_capacity(changes.len());
        for change in &changes {
            saved.push(save(&tx, change).await?);
        }
        tx.commit().await?;
        Ok(saved)
    }

    async fn alert_at(&self, organization: OrganizationId, rule: &str, target: Uuid) -> Result<Option<AlertStatus>, StoreError> {
        let row = self.reader().await?.query_opt(AT, &[&organization.key(), &rule, &target]).await?;
        Ok(row.as_ref().map(status_of_row).transpose()?)
    }

    async fn alert(&self, organization: OrganizationId, id: AlertStatusId) -> Result<Option<AlertStatus>, StoreError> {
        let row = self.reader().await?.query_opt(BY_ID, &[&id.key(), &organization.key()]).await?;
        Ok(row.as_ref().map(status_of_row).transpose()?)
    }

    async fn alerts(&self, organization: OrganizationId, filter: AlertFilter, page: PageRequest) -> Result<Page<AlertStatus>, StoreError> {
        let reader = self.reader().await?;
        let between = Between::of(page);
        let (organization, wanted) = (organization.key(), rows_wanted(page));
        let (stage, rule) = (filter.stage.map(AlertStage::as_str), filter.rule.as_deref());
        let (silenced_at, is_silenced) = filter.silenced.map(|(at, is)| (at.as_micros(), is)).unzip();
        let rows = LIST
            .read(
                &reader,
                page,
                &[&organization, &between.after, &between.before, &wanted, &stage, &rule, &filter.target, &silenced_at, &is_silenced],
                status_of_row,
            )
            .await?;
        Ok(Page::from_read(rows, page, |status| *status.id.as_uuid()))
    }

    async fn silence_alert(
        &self,
        organization: OrganizationId,
        id: AlertStatusId,
        until: Option<Timestamp>,
        entry: AuditEntry,
    ) -> Result<bool, StoreError> {
        let until = until.map(Timestamp::as_micros);
        let silenced = retry_on_conflict(|| async {
            let mut connection = self.connection().await?;
            let tx = changing(&mut connection, organization).await?;
            let is_silenced = tx.execute(SILENCE, &[&id.key(), &organization.key(), &until]).await? > 0;
            conclude(tx, is_silenced, &entry).await
        });
        Ok(silenced.await?)
    }

    async fn forget_alerts(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let forgotten = self.reader().await?.execute(FORGET, &[&before.as_micros(), &i64::from(limit)]).await?;
        Ok(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }
}

async fn save(tx: &Tx<'_>, change: &AlertChange) -> Outcome<bool> {
    let status = &change.status;
    let (id, seen) = (status.id.key(), i64::try_from(status.revision).unwrap_or(i64::MAX));
    let (stage, since, updated_at) = (status.stage.as_str(), status.since.as_micros(), status.updated_at.as_micros());
    let (reported_at, silenced_until) = (status.reported_at.map(Timestamp::as_micros), status.silenced_until.map(Timestamp::as_micros));
    let (definition, episodes) = (alert_json::rule(&status.rule), alert_json::episodes(&status.episodes));
    let saved = if seen == 0 {
        let (organization, application) = (status.organization.key(), status.application.as_ref().map(Key::key));
        tx.execute(
            INSERT,
            &[
                &id,
                &organization,
                &status.rule.name,
                &status.target,
                &application,
                &stage,
                &since,
                &status.value,
                &updated_at,
                &reported_at,
                &silenced_until,
                &definition,
                &episodes,
            ],
        )
        .await?
    } else if status.is_empty() {
        tx.execute(DELETE, &[&id, &seen]).await?
    } else {
        tx.execute(UPDATE, &[&id, &stage, &since, &status.value, &updated_at, &reported_at, &silenced_until, &definition, &episodes, &seen])
            .await?
    };
    if let Some(alert) = change.alert.as_ref().filter(|_| saved > 0) {
        tx.execute(INSERT_ALERTS, &AlertColumns::new(&[alert]).parameters()).await?;
    }
    Ok(saved > 0)
}

fn rule_of_row(row: &Row) -> Outcome<OrganizationAlertRule> {
    Ok(OrganizationAlertRule {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        rule: row.spelled("definition", alert_json::read_rule)?,
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    })
}

fn status_of_row(row: &Row) -> Outcome<AlertStatus> {
    Ok(AlertStatus {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        rule: row.spelled("definition", alert_json::read_rule)?,
        target: row.value("target_id")?,
        application: row.id_opt("application_id")?,
        stage: row.spelled("stage", AlertStage::parse)?,
        since: row.instant("since")?,
        value: row.value("value")?,
        updated_at: row.instant("updated_at")?,
        reported_at: row.instant_opt("reported_at")?,
        silenced_until: row.instant_opt("silenced_until")?,
        episodes: row.spelled("episodes", alert_json::read_episodes)?,
        revision: row.number("revision")?,
    })
}
