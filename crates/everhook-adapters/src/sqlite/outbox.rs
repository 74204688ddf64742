//! What organizations are to be told: the port `Outbox`, and how other writes put something into it.

use async_trait::async_trait;
use everhook_core::ports::{Alert, AlertId, Outbox, StoreError};
use rusqlite::{Row, params};

use super::{
    SqliteStore,
    fault::Outcome,
    rows::{Columns, Key},
    transaction::Tx,
};

const PENDING_ALERTS: &str = include_str!("queries/pending_alerts.sql");
const FORGET_ALERT: &str = include_str!("queries/forget_alert.sql");
const INSERT_ALERT: &str = include_str!("queries/insert_alert.sql");

#[async_trait]
impl Outbox for SqliteStore {
    async fn pending(&self, limit: u32) -> Result<Vec<Alert>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(PENDING_ALERTS)?;
            let alerts = statement.query_map([limit], alert_of_row)?.collect::<Result<_, _>>()?;
            Ok(alerts)
        })
        .await
    }

    async fn done(&self, ids: Vec<AlertId>) -> Result<(), StoreError> {
        self.write(ids.len(), move |tx| {
            let mut forget = tx.prepare(FORGET_ALERT)?;
            for id in &ids {
                forget.execute([id.key()])?;
            }
            Ok(())
        })
        .await
    }
}

/// Keeps what an organization is to be told.
pub(super) fn keep(tx: &Tx<'_>, alert: &Alert) -> Outcome<()> {
    let parameters = params![alert.id.key(), alert.organization.key(), alert.event_type.as_str(), &*alert.data];
    tx.prepare(INSERT_ALERT)?.execute(parameters)?;
    Ok(())
}

fn alert_of_row(row: &Row<'_>) -> rusqlite::Result<Alert> {
    Ok(Alert {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        event_type: row.event_type("event_type")?,
        data: row.get::<_, Vec<u8>>("data")?.into(),
    })
}
