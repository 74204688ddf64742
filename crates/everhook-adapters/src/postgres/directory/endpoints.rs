//! Endpoints. How one is spelled in columns is in `endpoint_row`.
//!
//! The counters of an application are locked before the row of one of its endpoints, here as on the line: two changes that meet wait, and never
//! for each other.

use everhook_core::{
    ids::{ApplicationId, EndpointId, OrganizationId, Ref, RevisionNumber, ScheduleId},
    model::{Endpoint, EndpointState, EventType, Page, PageRequest, Revision},
    ports::{CONFIG_PAGE_BYTES, ConfigCursor, Created, EndpointFilter, EndpointUpdated},
    time::Timestamp,
};

use super::{
    super::{
        fault::Outcome,
        page::{Between, List, SearchEnd, list, rows_before_search_end, rows_wanted},
        reader::Reader,
        rows::{Columns, Key, Params},
        transaction::Tx,
    },
    applications, can_be_kept,
    endpoint_row::{Bound, of_row, revision_of_row},
    order_change::{self, ModeChange},
    organizations::is_at_limit,
    retry_schedules,
};
use crate::encoding::endpoint_columns::{ConfigSize, config_bytes};

const INSERT: &str = include_str!("../queries/insert_endpoint.sql");
const UPDATE: &str = include_str!("../queries/update_endpoint.sql");
const KEEP_REVISION: &str = include_str!("../queries/keep_endpoint_revision.sql");
const REVISION: &str = include_str!("../queries/endpoint_revision.sql");
const DRAINING: &str = include_str!("../queries/application_of_draining_endpoint.sql");
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

pub(super) async fn create(tx: &Tx<'_>, endpoint: &Endpoint) -> Outcome<Created> {
    if uid_is_taken(tx, endpoint).await? {
        return Ok(Created::UidTaken);
    }
    if schedule_is_missing(tx, endpoint).await? {
        return Ok(Created::NoSuchSchedule);
    }
    if !applications::exists(tx, endpoint.organization, endpoint.application).await? {
        return Ok(Created::NoSuchApplication);
    }
    if is_at_limit(tx, endpoint.organization, COUNT, |limits| limits.endpoints).await? {
        return Ok(Created::TooMany);
    }
    let Some(growth) = config_size(tx, endpoint).await?.growth(endpoint) else { return Ok(Created::ConfigTooLarge) };
    tx.execute(INSERT, &Bound::of(endpoint).columns_and(&[&config_bytes(endpoint)])).await?;
    tx.execute(KEEP_REVISION, &[&endpoint.id.key()]).await?;
    if !matches!(endpoint.state, EndpointState::Deleted { .. }) {
        tx.execute(ADD_TO_COUNT, &[&endpoint.organization.key(), &1_i64]).await?;
    }
    tx.endpoint_grew(endpoint.application, endpoint.id, growth).await?;
    Ok(Created::Created)
}

pub(super) async fn find(reader: &Reader, organization: OrganizationId, of: &Ref<EndpointId>) -> Outcome<Option<Endpoint>> {
    let found = match of {
        Ref::Id(id) => reader.query_opt(BY_ID, &[&organization.key(), &id.key()]).await?,
        Ref::Uid(uid) => reader.query_opt(BY_UID, &[&organization.key(), &uid.as_str()]).await?,
    };
    found.as_ref().map(of_row).transpose()
}

pub(super) async fn list(
    reader: &Reader,
    organization: OrganizationId,
    filter: &EndpointFilter,
    page: PageRequest,
) -> Outcome<Page<Endpoint>> {
    let (label, value) = match &filter.label {
        Some((label, value)) => (Some(label), value.as_ref()),
        None => (None, None),
    };
    if !label.into_iter().chain(value).all(|text| can_be_kept(text)) {
        return Ok(Page::from_read(Vec::new(), page, |endpoint: &Endpoint| *endpoint.id.as_uuid()));
    }
    let end = search_end(reader, organization, filter, page).await?;
    let between = Between::of_search(page, end);
    // By an index of its own: an organization may have many others.
    let list = if filter.application.is_some() { LIST_OF_APPLICATION } else { LIST };
    let rows = list
        .read(
            reader,
            page,
            &[
                &organization.key(),
                &between.after,
                &between.before,
                &rows_wanted(page),
                &filter.application.as_ref().map(ApplicationId::key),
                &filter.enabled,
                &filter.event_type.as_ref().map(EventType::as_str),
                &filter.follows.as_ref().map(ScheduleId::key),
                &label,
                &value,
            ],
            of_row,
        )
        .await?;
    Ok(Page::from_walk(rows, page, |endpoint| *endpoint.id.as_uuid(), end.map(|end| end.last)))
}

/// Where a page stops comparing endpoints with the filter; `None` if the list ends sooner.
async fn search_end(
    reader: &Reader,
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
    let parameters: Params<'_> = &[&of, &between.after, &between.before, &rows_before_search_end(compared_max)];
    let ids = list.read(reader, page, parameters, |row| Ok(row.try_get(0)?)).await?;
    Ok(SearchEnd::of(&ids))
}

/// The endpoints that changed after a place, each with the version at which it did, in that order: so many, or as many as have
/// [`CONFIG_PAGE_BYTES`]. Says whether there may be more.
pub(super) async fn changed(
    snapshot: &Tx<'_>,
    application: ApplicationId,
    after: ConfigCursor,
    limit: usize,
) -> Outcome<(Vec<(i64, Endpoint)>, bool)> {
    // A reader that knows nothing knows no endpoint that was deleted.
    let deleted_since = after.since.unwrap_or(i64::MAX);
    let rows_max = i64::try_from(limit).unwrap_or(i64::MAX);
    let parameters: Params<'_> =
        &[&application.key(), &after.version, &after.endpoint.key(), &deleted_since, &rows_max, &CONFIG_PAGE_BYTES];
    let rows = snapshot.query(CHANGED, parameters).await?;
    let (mut changed, mut bytes) = (Vec::with_capacity(rows.len()), 0);
    for row in rows {
        let endpoint = of_row(&row)?;
        bytes += config_bytes(&endpoint);
        changed.push((row.value("changed_version")?, endpoint));
    }
    let may_be_more = changed.len() >= limit || bytes >= CONFIG_PAGE_BYTES;
    Ok((changed, may_be_more))
}

pub(super) async fn update(tx: &Tx<'_>, endpoint: &Endpoint, read_at: Timestamp) -> Outcome<EndpointUpdated> {
    if uid_is_taken(tx, endpoint).await? {
        return Ok(EndpointUpdated::UidTaken);
    }
    let mode_change = order_change::plan_change(tx, endpoint, read_at).await?;
    if let ModeChange::Refused = mode_change {
        return Ok(EndpointUpdated::OrderSettles);
    }
    if schedule_is_missing(tx, endpoint).await? {
        return Ok(EndpointUpdated::NoSuchSchedule);
    }
    let Some(growth) = config_size(tx, endpoint).await?.growth(endpoint) else { return Ok(EndpointUpdated::ConfigTooLarge) };
    let columns = Bound::of(endpoint);
    if tx.execute(UPDATE, &columns.columns_and(&[&read_at.as_micros(), &config_bytes(endpoint)])).await? == 0 {
        return Ok(EndpointUpdated::Changed);
    }
    tx.execute(KEEP_REVISION, &[&endpoint.id.key()]).await?;
    if let ModeChange::Raises(position) = mode_change {
        order_change::raise_barrier(tx, endpoint.id, position).await?;
    }
    if let EndpointState::Deleted { .. } = endpoint.state {
        // It was not deleted before: such a row is not updated.
        tx.execute(ADD_TO_COUNT, &[&endpoint.organization.key(), &-1_i64]).await?;
    }
    tx.endpoint_grew(endpoint.application, endpoint.id, growth).await?;
    Ok(EndpointUpdated::Updated)
}

pub(super) async fn revision(
    reader: &Reader,
    organization: OrganizationId,
    endpoint: EndpointId,
    number: RevisionNumber,
) -> Outcome<Option<Revision>> {
    let found = reader.query_opt(REVISION, &[&organization.key(), &endpoint.key(), &i64::from(number.0)]).await?;
    found.as_ref().map(revision_of_row).transpose()
}

/// Says whether there was anything to end.
pub(super) async fn end_drain(tx: &Tx<'_>, endpoint: EndpointId) -> Outcome<bool> {
    let Some(row) = tx.query_opt(DRAINING, &[&endpoint.key()]).await? else { return Ok(false) };
    let application = row.id("application_id")?;
    tx.lock_counters(&[application]).await?;
    let is_ended = tx.execute(END_DRAIN, &[&endpoint.key()]).await? > 0;
    if is_ended {
        tx.endpoint_changed(application, endpoint).await?;
    }
    Ok(is_ended)
}

/// Asked while the organization is locked, so that the answer still holds at the end of the change.
async fn config_size(tx: &Tx<'_>, endpoint: &Endpoint) -> Outcome<ConfigSize> {
    match tx.query_opt(CONFIG_SIZE, &[&endpoint.application.key(), &endpoint.id.key()]).await? {
        Some(row) => Ok(ConfigSize { of_application: row.value("of_application")?, of_endpoint: row.value("of_endpoint")? }),
        None => Ok(ConfigSize { of_application: 0, of_endpoint: 0 }),
    }
}

/// Asked while the organization is locked, so that the answer still holds at the end of the change. A deleted endpoint holds no uid and contends
/// for none.
async fn uid_is_taken(tx: &Tx<'_>, endpoint: &Endpoint) -> Outcome<bool> {
    let (Some(uid), EndpointState::Enabled | EndpointState::Disabled { .. }) = (&endpoint.uid, endpoint.state) else {
        return Ok(false);
    };
    if let Some(holder) = tx.query_opt(BY_UID, &[&endpoint.organization.key(), &uid.as_str()]).await? {
        return Ok(holder.id::<EndpointId>("id")? != endpoint.id);
    }
    tx.execute(FREE_UID, &[&endpoint.organization.key(), &uid.as_str()]).await?;
    Ok(false)
}

/// A deleted endpoint follows no schedule.
async fn schedule_is_missing(tx: &Tx<'_>, endpoint: &Endpoint) -> Outcome<bool> {
    match (endpoint.follows, endpoint.state) {
        (Some(id), EndpointState::Enabled | EndpointState::Disabled { .. }) => {
            Ok(!retry_schedules::exists(tx, endpoint.organization, id).await?)
        }
        _ => Ok(false),
    }
}
