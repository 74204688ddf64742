//! What organizations are to be told, kept with the write that it tells of.

use everhook_core::ports::Alert;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    fault::Outcome,
    rows::{Columns, Key},
};

pub(super) const INSERT_ALERTS: &str = include_str!("queries/insert_alerts.sql");

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

/// Reads an alert.
pub(super) fn alert_of_row(row: &Row) -> Outcome<Alert> {
    Ok(Alert {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        event_type: row.event_type("event_type")?,
        data: row.value::<Vec<u8>>("data")?.into(),
    })
}
