//! Deliveries, as history shows them.

use everhook_core::{
    ids::{ApplicationId, DeliveryId, EndpointId, EventId, OrganizationId, ScheduleVersion},
    model::{Attempt, Delivery, EventType, FailureCategory, LaneKind, Page, PageRequest},
    ports::DeliveryFilter,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    super::{
        fault::Outcome,
        page::{Between, List, bounds, is_backward, list, merge, rows_wanted},
        rows::{Columns, Key},
        spelling::{StageFilter, read_category, read_priority, stage_filter},
    },
    attempts,
};

const OF_ENDPOINT: List = list!("../queries/deliveries_of_endpoint_page.sql");
const OF_EVENT: List = list!("../queries/deliveries_of_event_page.sql");
const ENDPOINTS: &str = include_str!("../queries/endpoints_with_deliveries.sql");
const BY_ID: &str = include_str!("../queries/delivery_by_id.sql");

pub(super) fn list(
    connection: &Connection,
    organization: OrganizationId,
    filter: &DeliveryFilter,
    page: PageRequest,
) -> Outcome<Page<Delivery>> {
    let snapshot = connection.unchecked_transaction()?;
    let search = Search { connection: &snapshot, organization, filter, page };
    let between = Between::of(page).within(filter.made);
    let rows = match (filter.event, filter.endpoint) {
        (Some(_), endpoint) => search.read(OF_EVENT, endpoint, between)?,
        (None, Some(endpoint)) => search.read(OF_ENDPOINT, Some(endpoint), between)?,
        (None, None) => search.read_every_endpoint(between)?,
    };
    Ok(Page::from_read(rows, page, |delivery| *delivery.id.as_uuid()))
}

pub(super) fn find(connection: &Connection, organization: OrganizationId, id: DeliveryId) -> Outcome<Option<(Delivery, Vec<Attempt>)>> {
    let snapshot = connection.unchecked_transaction()?;
    let mut statement = snapshot.prepare_cached(BY_ID)?;
    let Some(delivery) = statement.query_row(params![organization.key(), id.key()], of_row).optional()? else { return Ok(None) };
    let attempts = attempts::of_delivery(&snapshot, id)?;
    Ok(Some((delivery, attempts)))
}

/// One page of one list, with all that narrows it.
struct Search<'s> {
    connection: &'s Connection,
    organization: OrganizationId,
    filter: &'s DeliveryFilter,
    page: PageRequest,
}

impl Search<'_> {
    fn read(&self, list: List, endpoint: Option<EndpointId>, between: Between) -> Outcome<Vec<Delivery>> {
        let filter = self.filter;
        let StageFilter { stage, or_stage, attempts_min } = stage_filter(filter.status);
        let (from, to) = bounds(filter.made);
        let parameters = params![
            self.organization.key(),
            between.after,
            between.before,
            rows_wanted(self.page),
            filter.application.as_ref().map(ApplicationId::key),
            endpoint.as_ref().map(EndpointId::key),
            filter.event.as_ref().map(EventId::key),
            filter.event_type.as_ref().map(EventType::as_str),
            stage,
            attempts_min,
            filter.category.map(FailureCategory::as_str),
            from,
            to,
            or_stage,
            filter.http_status.map(|(first, _)| first),
            filter.http_status.map(|(_, last)| last)
        ];
        list.read(self.connection, self.page, parameters, of_row)
    }

    /// Merges the lists of the organization's endpoints. Once a page is full, an endpoint only adds what belongs before the page's last row, so
    /// that most of them cost one look-up.
    fn read_every_endpoint(&self, mut between: Between) -> Outcome<Vec<Delivery>> {
        let mut merged: Vec<Delivery> = Vec::new();
        for endpoint in self.endpoints()? {
            let more = self.read(OF_ENDPOINT, Some(endpoint), between)?;
            if let Some(last) = merge(&mut merged, more, self.page, |delivery| *delivery.id.as_uuid()) {
                let bound = if is_backward(self.page) { &mut between.before } else { &mut between.after };
                *bound = last.into_bytes();
            }
        }
        Ok(merged)
    }

    fn endpoints(&self) -> Outcome<Vec<EndpointId>> {
        let mut statement = self.connection.prepare_cached(ENDPOINTS)?;
        let parameters = params![self.organization.key(), self.filter.application.as_ref().map(ApplicationId::key)];
        Ok(statement.query_map(parameters, |row| row.id("id"))?.collect::<Result<_, _>>()?)
    }
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        event: row.id("event_id")?,
        event_type: row.event_type("event_type")?,
        lane_id: row.id("endpoint_id")?,
        kind: row.spelled("lane_kind", |name: String| LaneKind::parse(&name))?,
        priority: row.spelled("priority", read_priority)?,
        retry_schedule: ScheduleVersion(row.get("retry_schedule")?),
        stage: row.stage()?,
        attempts: row.get("attempts")?,
        failure_category: row.spelled_opt("failure_category", read_category)?,
        last_error: row.get("last_error")?,
        replay_of: row.id_opt("replay_of")?,
        operation: row.id_opt("operation_id")?,
        created_at: row.instant("created_at")?,
    })
}

#[cfg(test)]
mod tests {
    use everhook_core::time::Timestamp;

    use super::{super::super::migrate::migrate, *};

    #[test]
    fn no_list_walks_more_than_the_stretch_of_its_own_index() {
        let connection = Connection::open_in_memory().expect("memory");
        migrate(&connection, Timestamp::EPOCH).expect("the tables");
        let begins = [
            (OF_ENDPOINT, "SEARCH d USING INDEX deliveries_by_lane (lane=? AND id>? AND id<?)"),
            (OF_EVENT, "SEARCH o USING PRIMARY KEY (id>? AND id<?)"),
        ];
        for (list, begin) in begins {
            for sql in [list.older, list.newer] {
                let plan = plan(&connection, sql);
                assert!(plan.iter().any(|step| step == begin), "{plan:#?}");
                let walks =
                    plan.iter().filter(|step| step.contains("SCAN ") || step.contains("deliveries_by_lane") && *step != begin).count();
                assert_eq!(walks, 0, "{plan:#?}");
            }
        }
    }

    fn plan(connection: &Connection, sql: &str) -> Vec<String> {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
        let steps = statement.raw_query().mapped(|row| row.get("detail")).collect::<Result<_, _>>();
        steps.expect("a plan")
    }
}
