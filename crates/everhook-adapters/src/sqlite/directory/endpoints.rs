//! Endpoints. How one is spelled in columns is in `endpoint_row`.

use everhook_core::{
    ids::{ApplicationId, EndpointId, OrganizationId, Ref, RevisionNumber, ScheduleId},
    model::{Endpoint, EndpointState, EventType, Page, PageRequest, Revision},
    ports::{CONFIG_PAGE_BYTES, ConfigCursor, Created, EndpointFilter, EndpointUpdated, ScheduleRef},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::{
    super::{
        fault::Outcome,
        ordering::{self, ModeChange},
        page::{Between, List, SearchEnd, list, rows_before_search_end, rows_wanted},
        rows::{Columns, Key},
        transaction::Tx,
    },
    applications,
    endpoint_row::{self, of_row},
    organizations::is_at_limit,
    retry_schedules,
};
use crate::encoding::endpoint_columns::{ConfigSize, config_bytes};

const INSERT_LANE: &str = include_str!("../queries/insert_lane.sql");
const INSERT: &str = include_str!("../queries/insert_endpoint.sql");
const UPDATE: &str = include_str!("../queries/update_endpoint.sql");
const KEEP_REVISION: &str = include_str!("../queries/keep_endpoint_revision.sql");
const REVISION: &str = include_str!("../queries/endpoint_revision.sql");
const END_DRAIN: &str = include_str!("../queries/end_drain.sql");
const COUNT: &str = include_str!("../queries/count_endpoints.sql");
const BY_ID: &str = include_str!("../queries/endpoint_by_id.sql");
const BY_UID: &str = include_str!("../queries/endpoint_by_uid.sql");
const FREE_UID: &str = include_str!("../queries/free_uid_of_deleted_application.sql");
const CHANGED: &str = include_str!("../queries/changed_endpoints.sql");
const CONFIG_SIZE: &str = include_str!("../queries/config_size.sql");
pub(super) const ADD_TO_COUNT: &str = include_str!("../queries/add_to_endpoint_count.sql");
const LIST_OF_APPLICATION: List = list!("../queries/endpoints_of_application_page.sql");
const LIST: List = list!("../queries/endpoints_page.sql");
const SEARCH_END_IN_APPLICATION: List = list!("../queries/search_end_in_application.sql");
const SEARCH_END_IN_ORGANIZATION: List = list!("../queries/search_end_in_organization.sql");

pub(super) fn create(tx: &mut Tx<'_>, endpoint: &Endpoint) -> Outcome<Created> {
    if uid_is_taken(tx, endpoint)? {
        return Ok(Created::UidTaken);
    }
    if schedule_is_missing(tx, endpoint)? {
        return Ok(Created::NoSuchSchedule);
    }
    if applications::find(tx.connection(), endpoint.organization, &Ref::Id(endpoint.application))?.is_none() {
        return Ok(Created::NoSuchApplication);
    }
    if is_at_limit(tx, endpoint.organization, COUNT, |limits| limits.endpoints)? {
        return Ok(Created::TooMany);
    }
    let Some(growth) = config_size(tx, endpoint)?.growth(endpoint) else { return Ok(Created::ConfigTooLarge) };
    let lane = params![endpoint.id.key(), "endpoint", endpoint.organization.key(), endpoint.application.key()];
    tx.prepare(INSERT_LANE)?.execute(lane)?;
    let mut insert = tx.prepare(INSERT)?;
    endpoint_row::bind(&mut insert, endpoint)?;
    insert.raw_bind_parameter(endpoint_row::COLUMNS + 1, config_bytes(endpoint))?;
    insert.raw_execute()?;
    tx.prepare(KEEP_REVISION)?.execute([endpoint.id.key()])?;
    if !matches!(endpoint.state, EndpointState::Deleted { .. }) {
        tx.prepare(ADD_TO_COUNT)?.execute(params![endpoint.organization.key(), 1])?;
    }
    tx.endpoint_grew(endpoint.application, endpoint.id, growth)?;
    Ok(Created::Created)
}

pub(super) fn find(connection: &Connection, organization: OrganizationId, of: &Ref<EndpointId>) -> Outcome<Option<Endpoint>> {
    let found = match of {
        Ref::Id(id) => connection.prepare_cached(BY_ID)?.query_row(params![organization.key(), id.key()], of_row),
        Ref::Uid(uid) => connection.prepare_cached(BY_UID)?.query_row(params![organization.key(), uid.as_str()], of_row),
    };
    Ok(found.optional()?)
}

pub(super) fn list(
    connection: &Connection,
    organization: OrganizationId,
    filter: &EndpointFilter,
    page: PageRequest,
) -> Outcome<Page<Endpoint>> {
    let end = search_end(connection, organization, filter, page)?;
    let between = Between::of(page).ending_before(page, end);
    let parameters = params![
        organization.key(),
        between.after,
        between.before,
        rows_wanted(page),
        filter.application.as_ref().map(ApplicationId::key),
        filter.enabled,
        filter.event_type.as_ref().map(EventType::as_str),
        filter.follows.as_ref().map(ScheduleId::key),
        filter.label.as_ref().map(|(key, _)| key),
        filter.label.as_ref().and_then(|(_, value)| value.as_ref())
    ];
    // By an index of its own: an organization may have many others.
    let list = if filter.application.is_some() { LIST_OF_APPLICATION } else { LIST };
    let rows = list.read(connection, page, parameters, of_row)?;
    Ok(Page::from_walk(rows, page, |endpoint| *endpoint.id.as_uuid(), end.map(|end| end.last)))
}

/// Where a page stops comparing endpoints with the filter; `None` if the list ends sooner.
fn search_end(
    connection: &Connection,
    organization: OrganizationId,
    filter: &EndpointFilter,
    page: PageRequest,
) -> Outcome<Option<SearchEnd>> {
    let Some(compared_max) = filter.compared_max else { return Ok(None) };
    let between = Between::of(page);
    let (list, of) = match &filter.application {
        Some(application) => (SEARCH_END_IN_APPLICATION, application.key()),
        None => (SEARCH_END_IN_ORGANIZATION, organization.key()),
    };
    let parameters = params![of, between.after, between.before, rows_before_search_end(compared_max)];
    let ids = list.read(connection, page, parameters, |row| Ok(Uuid::from_bytes(row.get(0)?)))?;
    Ok(SearchEnd::of(&ids))
}

/// The endpoints that changed after a place, each with the version at which it did, in that order: so many, or as many as have
/// [`CONFIG_PAGE_BYTES`]. Says whether there may be more.
pub(super) fn changed(
    connection: &Connection,
    application: ApplicationId,
    after: ConfigCursor,
    limit: usize,
) -> Outcome<(Vec<(i64, Endpoint)>, bool)> {
    let mut statement = connection.prepare_cached(CHANGED)?;
    // A reader that knows nothing knows no endpoint that was deleted.
    let deleted_since = after.since.unwrap_or(i64::MAX);
    let version = statement.column_index("changed_version")?;
    let rows_max = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![application.key(), after.version, after.endpoint.key(), deleted_since, rows_max])?;
    let (mut changed, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let endpoint = of_row(row)?;
        bytes += config_bytes(&endpoint);
        changed.push((row.get(version)?, endpoint));
        if changed.len() >= limit || bytes >= CONFIG_PAGE_BYTES {
            return Ok((changed, true));
        }
    }
    Ok((changed, false))
}

pub(super) fn update(tx: &mut Tx<'_>, endpoint: &Endpoint, read_at: Timestamp) -> Outcome<EndpointUpdated> {
    if uid_is_taken(tx, endpoint)? {
        return Ok(EndpointUpdated::UidTaken);
    }
    let mode_change = ordering::plan_change(tx, endpoint, read_at)?;
    if let ModeChange::Refused = mode_change {
        return Ok(EndpointUpdated::OrderSettles);
    }
    if schedule_is_missing(tx, endpoint)? {
        return Ok(EndpointUpdated::NoSuchSchedule);
    }
    let Some(growth) = config_size(tx, endpoint)?.growth(endpoint) else { return Ok(EndpointUpdated::ConfigTooLarge) };
    let mut update = tx.prepare(UPDATE)?;
    endpoint_row::bind(&mut update, endpoint)?;
    update.raw_bind_parameter(endpoint_row::COLUMNS + 1, read_at.as_micros())?;
    update.raw_bind_parameter(endpoint_row::COLUMNS + 2, config_bytes(endpoint))?;
    if update.raw_execute()? == 0 {
        return Ok(EndpointUpdated::Changed);
    }
    tx.prepare(KEEP_REVISION)?.execute([endpoint.id.key()])?;
    if let ModeChange::Raises(position) = mode_change {
        ordering::raise_barrier(tx, endpoint.id.into(), position)?;
    }
    if let EndpointState::Deleted { .. } = endpoint.state {
        // It was not deleted before: such a row is not updated.
        tx.prepare(ADD_TO_COUNT)?.execute(params![endpoint.organization.key(), -1])?;
    }
    tx.endpoint_grew(endpoint.application, endpoint.id, growth)?;
    Ok(EndpointUpdated::Updated)
}

pub(super) fn revision(
    connection: &Connection,
    organization: OrganizationId,
    endpoint: EndpointId,
    number: RevisionNumber,
) -> Outcome<Option<Revision>> {
    let parameters = params![organization.key(), endpoint.key(), number.0];
    Ok(connection.prepare_cached(REVISION)?.query_row(parameters, endpoint_row::revision_of_row).optional()?)
}

pub(super) fn end_drain(tx: &mut Tx<'_>, endpoint: EndpointId) -> Outcome<()> {
    let application = tx.prepare(END_DRAIN)?.query_row([endpoint.key()], |row| row.id("application_id")).optional()?;
    match application {
        Some(application) => tx.endpoint_changed(application, endpoint),
        None => Ok(()),
    }
}

/// Asked inside the write, so that the answer still holds at its end.
fn config_size(tx: &Tx<'_>, endpoint: &Endpoint) -> Outcome<ConfigSize> {
    let read = |row: &Row<'_>| Ok(ConfigSize { of_application: row.get("of_application")?, of_endpoint: row.get("of_endpoint")? });
    let found = tx.prepare(CONFIG_SIZE)?.query_row(params![endpoint.application.key(), endpoint.id.key()], read).optional()?;
    Ok(found.unwrap_or(ConfigSize { of_application: 0, of_endpoint: 0 }))
}

/// Asked inside the write, so that the answer still holds at its end. A deleted endpoint holds no uid and contends for none.
fn uid_is_taken(tx: &Tx<'_>, endpoint: &Endpoint) -> Outcome<bool> {
    let (Some(uid), EndpointState::Enabled | EndpointState::Disabled { .. }) = (&endpoint.uid, endpoint.state) else {
        return Ok(false);
    };
    if let Some(holder) = find(tx.connection(), endpoint.organization, &Ref::Uid(uid.clone()))? {
        return Ok(holder.id != endpoint.id);
    }
    tx.prepare(FREE_UID)?.execute(params![endpoint.organization.key(), uid.as_str()])?;
    Ok(false)
}

/// Asked inside the write, so that no endpoint follows a schedule that was deleted meanwhile. A deleted endpoint follows none.
fn schedule_is_missing(tx: &Tx<'_>, endpoint: &Endpoint) -> Outcome<bool> {
    let (Some(id), EndpointState::Enabled | EndpointState::Disabled { .. }) = (endpoint.follows, endpoint.state) else {
        return Ok(false);
    };
    Ok(retry_schedules::find(tx.connection(), endpoint.organization, &ScheduleRef::Id(id))?.is_none())
}
