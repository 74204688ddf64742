//! Alert rules, and how they stand at what they watch: the ports `AlertRuleStore` and `AlertStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{AlertRuleId, AlertStatusId, OrganizationId},
    model::{AlertStage, AlertStatus, AuditEntry, OrganizationAlertRule, Page, PageRequest},
    ports::{AlertChange, AlertFilter, AlertRulePut, AlertRuleStore, AlertStore, StoreError},
    time::Timestamp,
};
use rusqlite::{OptionalExtension, Row, params};
use uuid::Uuid;

use super::{
    SqliteStore,
    fault::Outcome,
    outbox,
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
impl AlertRuleStore for SqliteStore {
    async fn alert_rules(&self, organization: OrganizationId) -> Result<Vec<OrganizationAlertRule>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(RULES)?;
            Ok(statement.query_map([organization.key()], rule_of_row)?.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn alert_rules_after(&self, after: Option<AlertRuleId>, limit: u32) -> Result<Vec<OrganizationAlertRule>, StoreError> {
        let after = after.map_or(Uuid::nil(), |id| *id.as_uuid());
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(RULES_AFTER)?;
            Ok(statement.query_map(params![after.key(), limit], rule_of_row)?.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn put_alert_rule(
        &self,
        rule: OrganizationAlertRule,
        read_at: Option<Timestamp>,
        count_max: u32,
        entry: AuditEntry,
    ) -> Result<AlertRulePut, StoreError> {
        self.change(1, entry, move |tx| put_rule(tx, &rule, read_at, count_max)).await
    }

    async fn delete_alert_rule(&self, organization: OrganizationId, name: &str, entry: AuditEntry) -> Result<bool, StoreError> {
        let name = name.to_owned();
        self.change(1, entry, move |tx| Ok(tx.prepare(DELETE_RULE)?.execute(params![organization.key(), name])? > 0)).await
    }
}

fn put_rule(tx: &Tx<'_>, own: &OrganizationAlertRule, read_at: Option<Timestamp>, count_max: u32) -> Outcome<AlertRulePut> {
    let definition = alert_json::rule(&own.rule);
    let written = match read_at {
        Some(read_at) => {
            let parameters = params![own.id.key(), own.organization.key(), definition, own.updated_at.as_micros(), read_at.as_micros()];
            tx.prepare(UPDATE_RULE)?.execute(parameters)?
        }
        None => {
            let count: u32 = tx.prepare(COUNT_RULES)?.query_row([own.organization.key()], |row| row.get("count"))?;
            if count >= count_max {
                return Ok(AlertRulePut::TooMany);
            }
            let (created_at, updated_at) = (own.created_at.as_micros(), own.updated_at.as_micros());
            let parameters = params![own.id.key(), own.organization.key(), own.rule.name, definition, created_at, updated_at];
            tx.prepare(INSERT_RULE)?.execute(parameters)?
        }
    };
    Ok(if written > 0 { AlertRulePut::Put } else { AlertRulePut::Changed })
}

#[async_trait]
impl AlertStore for SqliteStore {
    async fn open_alerts(&self, after: Option<AlertStatusId>, limit: u32) -> Result<Vec<AlertStatus>, StoreError> {
        let after = after.map_or(Uuid::nil(), |id| *id.as_uuid());
        self.read_history(move |connection| {
            let mut statement = connection.prepare_cached(OPEN)?;
            Ok(statement.query_map(params![after.key(), limit], status_of_row)?.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn save_alerts(&self, changes: Vec<AlertChange>) -> Result<Vec<bool>, StoreError> {
        self.write(changes.len() * 2, move |tx| changes.iter().map(|change| save(tx, change)).collect()).await
    }

    async fn alert_at(&self, organization: OrganizationId, rule: &str, target: Uuid) -> Result<Option<AlertStatus>, StoreError> {
        let rule = rule.to_owned();
        self.read(move |connection| {
            let parameters = params![organization.key(), rule, target.key()];
            Ok(connection.prepare_cached(AT)?.query_row(parameters, status_of_row).optional()?)
        })
        .await
    }

    async fn alert(&self, organization: OrganizationId, id: AlertStatusId) -> Result<Option<AlertStatus>, StoreError> {
        self.read(move |connection| {
            Ok(connection.prepare_cached(BY_ID)?.query_row(params![id.key(), organization.key()], status_of_row).optional()?)
        })
        .await
    }

    async fn alerts(&self, organization: OrganizationId, filter: AlertFilter, page: PageRequest) -> Result<Page<AlertStatus>, StoreError> {
        self.read_history(move |connection| {
            let between = Between::of(page);
            let (silenced_at, is_silenced) = filter.silenced.map(|(at, is)| (at.as_micros(), is)).unzip();
            let parameters = params![
                organization.key(),
                between.after,
                between.before,
                rows_wanted(page),
                filter.stage.map(AlertStage::as_str),
                filter.rule,
                filter.target.as_ref().map(Key::key),
                silenced_at,
                is_silenced
            ];
            let rows = LIST.read(connection, page, parameters, status_of_row)?;
            Ok(Page::from_read(rows, page, |status| *status.id.as_uuid()))
        })
        .await
    }

    async fn silence_alert(
        &self,
        organization: OrganizationId,
        id: AlertStatusId,
        until: Option<Timestamp>,
        entry: AuditEntry,
    ) -> Result<bool, StoreError> {
        let until = until.map(Timestamp::as_micros);
        self.change(1, entry, move |tx| Ok(tx.prepare(SILENCE)?.execute(params![id.key(), organization.key(), until])? > 0)).await
    }

    async fn forget_alerts(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.write(limit as usize, move |tx| {
            let forgotten = tx.prepare(FORGET)?.execute(params![before.as_micros(), limit])?;
            Ok(u32::try_from(forgotten).unwrap_or(u32::MAX))
        })
        .await
    }
}

fn save(tx: &mut Tx<'_>, change: &AlertChange) -> Outcome<bool> {
    let status = &change.status;
    let seen = i64::try_from(status.revision).unwrap_or(i64::MAX);
    let (since, updated_at) = (status.since.as_micros(), status.updated_at.as_micros());
    let (reported_at, silenced_until) = (status.reported_at.map(Timestamp::as_micros), status.silenced_until.map(Timestamp::as_micros));
    let (definition, episodes) = (alert_json::rule(&status.rule), alert_json::episodes(&status.episodes));
    let saved = if seen == 0 {
        tx.prepare(INSERT)?.execute(params![
            status.id.key(),
            status.organization.key(),
            status.rule.name,
            status.target.key(),
            status.application.as_ref().map(Key::key),
            status.stage.as_str(),
            since,
            status.value,
            updated_at,
            reported_at,
            silenced_until,
            definition,
            episodes
        ])?
    } else if status.is_empty() {
        tx.prepare(DELETE)?.execute(params![status.id.key(), seen])?
    } else {
        tx.prepare(UPDATE)?.execute(params![
            status.id.key(),
            status.stage.as_str(),
            since,
            status.value,
            updated_at,
            reported_at,
            silenced_until,
            definition,
            episodes,
            seen
        ])?
    };
    if let Some(alert) = change.alert.as_ref().filter(|_| saved > 0) {
        outbox::keep(tx, alert)?;
    }
    Ok(saved > 0)
}

fn rule_of_row(row: &Row<'_>) -> rusqlite::Result<OrganizationAlertRule> {
    Ok(OrganizationAlertRule {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        rule: row.spelled("definition", |written: String| alert_json::read_rule(&written))?,
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    })
}

fn status_of_row(row: &Row<'_>) -> rusqlite::Result<AlertStatus> {
    Ok(AlertStatus {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        rule: row.spelled("definition", |written: String| alert_json::read_rule(&written))?,
        target: row.id("target_id")?,
        application: row.id_opt("application_id")?,
        stage: row.spelled("stage", |name: String| AlertStage::parse(&name))?,
        since: row.instant("since")?,
        value: row.get("value")?,
        updated_at: row.instant("updated_at")?,
        reported_at: row.instant_opt("reported_at")?,
        silenced_until: row.instant_opt("silenced_until")?,
        episodes: row.spelled("episodes", |written: String| alert_json::read_episodes(&written))?,
        revision: row.spelled("revision", |revision: i64| u64::try_from(revision).ok())?,
    })
}
