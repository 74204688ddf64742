//! What organizations are to be told: the port `Outbox`, and how other writes put something into it.

use async_trait::async_trait;
use everhook_core::ports::{Alert, AlertId, Outbox, StoreError};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    PostgresStore,
    fault::Outcome,
    rows::{Columns, Key},
    transaction::Tx,
};

const PENDING_ALERTS: &str = include_str!("queries/pending_alerts.sql");
const FORGET_ALERTS: &str = include_str!("queries/forget_alerts.sql");
pub(super) const INSERT_ALERTS: &str = include_str!("queries/insert_alerts.sql");

#[async_trait]
impl Outbox for PostgresStore {
    async fn pending(&self, limit: u32) -> Result<Vec<Alert>, StoreError> {
        let rows = self.line_reader().await?.query(PENDING_ALERTS, &[&i64::from(limit)]).await?;
        Ok(rows.iter().map(alert_of_row).collect::<Outcome<_>>()?)
    }

    async fn done(&self, ids: Vec<AlertId>) -> Result<(), StoreError> {
        self.line_reader().await?.execute(FORGET_ALERTS, &[&ids]).await?;
        Ok(())
    }
}

/// Keeps what organizations are to be told.
pub(super) async fn keep(tx: &Tx<'_>, alerts: &[Alert]) -> Outcome<()> {
    if !alerts.is_empty() {
        let alerts: Vec<_> = alerts.iter().collect();
        tx.execute(INSERT_ALERTS, &AlertColumns::new(&alerts).parameters()).await?;
    }
    Ok(())
}

/// Alerts, column by column.
pub(super) struct AlertColumns<'a> {
    ids: Vec<Uuid>,
    organizations: Vec<Uuid>,
    types: Vec<&'a str>,
    data: Vec<&'a [u8]>,
}

impl<'a> AlertColumns<'a> {
    pub(super) fn new(alerts: &[&'a Alert]) -> Self {
        Self {
            ids: alerts.iter().map(|alert| alert.id).collect(),
            organizations: alerts.iter().map(|alert| alert.organization.key()).collect(),
            types: alerts.iter().map(|alert| alert.event_type.as_str()).collect(),
            data: alerts.iter().map(|alert| &*alert.data).collect(),
        }
    }

    /// The parameters of [`INSERT_ALERTS`].
    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.ids, &self.organizations, &self.types, &self.data]
    }
}

fn alert_of_row(row: &Row) -> Outcome<Alert> {
    Ok(Alert {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        event_type: row.event_type("event_type")?,
        data: row.value::<Vec<u8>>("data")?.into(),
    })
}
