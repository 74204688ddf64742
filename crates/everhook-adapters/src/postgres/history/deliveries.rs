//! Deliveries, as history shows them. Open ones and those that have ended lie in two tables; a list merges them.

use std::iter;

use everhook_core::{
    ids::{DeliveryId, OrganizationId, ScheduleVersion},
    model::{Attempt, Delivery, EventType, FailureCategory, LaneKind, Page, PageRequest},
    ports::DeliveryFilter,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    super::{
        fault::Outcome,
        page::{Between, List, bounds, list, rows_wanted},
        rows::{Columns, Int, Key, Params},
        transaction::Tx,
    },
    attempts,
};
use crate::encoding::{
    page::{is_backward, merge},
    spelling::{StageFilter, read_category, stage_filter},
};

const OF_ENDPOINT: List = list!("../queries/deliveries_of_endpoint_page.sql");
const OF_EVENT: List = list!("../queries/deliveries_of_event_page.sql");
const ENDPOINTS: &str = include_str!("../queries/endpoints_with_deliveries.sql");
const BY_ID: &str = include_str!("../queries/delivery_by_id.sql");

/// The endpoints whose lists the first statement merges: it may read a page from each.
const ENDPOINTS_AT_FIRST: usize = 8;
/// Those that each further statement merges: an organization of ten thousand endpoints takes some hundred and fifty.
const ENDPOINTS_AT_ONCE: usize = 64;

pub(super) async fn list(
    snapshot: &Tx<'_>,
    organization: OrganizationId,
    filter: &DeliveryFilter,
    page: PageRequest,
) -> Outcome<Page<Delivery>> {
    let search = Search { snapshot, organization, filter, page };
    let between = Between::of_span(page, filter.made);
    let endpoint: Option<Vec<Uuid>> = filter.endpoint.as_ref().map(|endpoint| vec![endpoint.key()]);
    let rows = match (filter.event, endpoint) {
        (Some(_), endpoint) => search.read(OF_EVENT, endpoint.as_deref(), between).await?,
        (None, Some(endpoint)) => search.read(OF_ENDPOINT, Some(&endpoint), between).await?,
        (None, None) => search.read_every_endpoint(between).await?,
    };
    Ok(Page::from_read(rows, page, |delivery| *delivery.id.as_uuid()))
}

pub(super) async fn find(snapshot: &Tx<'_>, organization: OrganizationId, id: DeliveryId) -> Outcome<Option<(Delivery, Vec<Attempt>)>> {
    let Some(row) = snapshot.query_opt(BY_ID, &[&organization.key(), &id.key()]).await? else { return Ok(None) };
    Ok(Some((of_row(&row)?, attempts::of_delivery(snapshot, id).await?)))
}

/// One page of one list, with all that narrows it.
struct Search<'s> {
    snapshot: &'s Tx<'s>,
    organization: OrganizationId,
    filter: &'s DeliveryFilter,
    page: PageRequest,
}

impl Search<'_> {
    async fn read(&self, list: List, endpoints: Option<&[Uuid]>, between: Between) -> Outcome<Vec<Delivery>> {
        let filter = self.filter;
        let StageFilter { stage, or_stage, attempts_min } = stage_filter(filter.status);
        let (from, to) = bounds(filter.made);
        let parameters: Params<'_> = &[
            &self.organization.key(),
            &between.after,
            &between.before,
            &rows_wanted(self.page),
            &filter.application.as_ref().map(Key::key),
            &endpoints,
            &filter.event.as_ref().map(Key::key),
            &filter.event_type.as_ref().map(EventType::as_str),
            &stage.map(Int),
            &Int(attempts_min),
            &filter.category.map(FailureCategory::as_str),
            &from,
            &to,
            &or_stage.map(Int),
            &filter.http_status.map(|(first, _)| i32::from(first)),
            &filter.http_status.map(|(_, last)| i32::from(last)),
        ];
        let sql = if is_backward(self.page) { list.newer } else { list.older };
        self.snapshot.query(sql, parameters).await?.iter().map(of_row).collect()
    }

    /// Merges the lists of the organization's endpoints. Once a page is full, further endpoints only add what belongs before the page's last
    /// row, so that most of them cost one look-up.
    async fn read_every_endpoint(&self, mut between: Between) -> Outcome<Vec<Delivery>> {
        let mut merged: Vec<Delivery> = Vec::new();
        let endpoints = self.endpoints().await?;
        let (first, others) = endpoints.split_at(endpoints.len().min(ENDPOINTS_AT_FIRST));
        for some in iter::once(first).chain(others.chunks(ENDPOINTS_AT_ONCE)) {
            let more = self.read(OF_ENDPOINT, Some(some), between).await?;
            if let Some(last) = merge(&mut merged, more, self.page, |delivery| *delivery.id.as_uuid()) {
                let bound = if is_backward(self.page) { &mut between.before } else { &mut between.after };
                *bound = last;
            }
        }
        Ok(merged)
    }

    async fn endpoints(&self) -> Outcome<Vec<Uuid>> {
        let application = self.filter.application.as_ref().map(Key::key);
        self.snapshot.query(ENDPOINTS, &[&self.organization.key(), &application]).await?.iter().map(|row| row.id("id")).collect()
    }
}

fn of_row(row: &Row) -> Outcome<Delivery> {
    Ok(Delivery {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        event: row.id("event_id")?,
        event_type: row.event_type("event_type")?,
        lane_id: row.id("endpoint_id")?,
        kind: row.spelled("lane_kind", |name: &str| LaneKind::parse(name))?,
        priority: row.priority("priority")?,
        retry_schedule: ScheduleVersion(row.value("retry_schedule")?),
        stage: row.stage()?,
        attempts: row.number("attempts")?,
        failure_category: row.spelled_opt("failure_category", read_category)?,
        last_error: row.value("last_error")?,
        replay_of: row.id_opt("replay_of")?,
        operation: row.id_opt("operation_id")?,
        created_at: row.instant("created_at")?,
    })
}
