//! Applications.

use everhook_core::{
    ids::{ApplicationId, OrganizationId, Ref, Uid},
    model::{Application, ApplicationKind, CheckChange, EmailAddress, Page, PageRequest, PoolAssignment},
    ports::{CONFIG_PAGE_ENDPOINTS, ConfigCursor, ConfigPage, ConfigRead, ConfigVersion, Created, Updated},
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    super::{
        app_health,
        fault::Outcome,
        limits_json,
        page::{Between, List, list, rows_wanted},
        rows::{Columns, Key},
        spelling::{kind_name, read_kind},
        transaction::Tx,
    },
    channels, endpoints, manifests,
    organizations::is_at_limit,
};

const INSERT: &str = include_str!("../queries/insert_application.sql");
const COUNT: &str = include_str!("../queries/count_applications.sql");
const BY_ID: &str = include_str!("../queries/application_by_id.sql");
const BY_UID: &str = include_str!("../queries/application_by_uid.sql");
const BY_NAME: &str = include_str!("../queries/application_by_name.sql");
const OF_KIND: &str = include_str!("../queries/application_of_kind.sql");
const WITH_VERSION: &str = include_str!("../queries/application_with_version.sql");
const LIST: List = list!("../queries/applications_page.sql");
pub(super) const ADD_TO_COUNT: &str = include_str!("../queries/add_to_application_count.sql");
const UPDATE: &str = include_str!("../queries/update_application.sql");

/// What another application of the organization has already.
enum Taken {
    Uid,
    Name,
}

pub(super) fn create(tx: &mut Tx<'_>, application: &Application) -> Outcome<Created> {
    match taken(tx, application)? {
        Some(Taken::Uid) => Ok(Created::UidTaken),
        Some(Taken::Name) => Ok(Created::NameTaken),
        None if is_at_limit(tx, application.organization, COUNT, |limits| limits.applications)? => Ok(Created::TooMany),
        None => {
            tx.prepare(ADD_TO_COUNT)?.execute(params![application.organization.key(), 1])?;
            insert(tx, application)?;
            channels::follow_owners(tx, application.organization, [application.owner_email.as_ref()])?;
            Ok(Created::Created)
        }
    }
}

pub(super) fn insert(tx: &Tx<'_>, application: &Application) -> Outcome<()> {
    tx.prepare(INSERT)?.execute(params![
        application.id.key(),
        application.organization.key(),
        application.uid.as_ref().map(Uid::as_str),
        application.name,
        kind_name(application.kind),
        application.created_at.as_micros(),
        application.strict_event_types,
        application.owner_email.as_ref().map(EmailAddress::as_str),
        application.base_url,
        application.health_path
    ])?;
    Ok(())
}

pub(super) fn find(connection: &Connection, organization: OrganizationId, of: &Ref<ApplicationId>) -> Outcome<Option<Application>> {
    let found = match of {
        Ref::Id(id) => connection.prepare_cached(BY_ID)?.query_row(params![organization.key(), id.key()], of_row),
        Ref::Uid(uid) => connection.prepare_cached(BY_UID)?.query_row(params![organization.key(), uid.as_str()], of_row),
    };
    Ok(found.optional()?)
}

pub(super) fn find_built_in(connection: &Connection, organization: OrganizationId, kind: ApplicationKind) -> Outcome<Option<Application>> {
    let mut statement = connection.prepare_cached(OF_KIND)?;
    Ok(statement.query_row(params![organization.key(), kind_name(kind)], of_row).optional()?)
}

pub(super) fn list(connection: &Connection, organization: OrganizationId, page: PageRequest) -> Outcome<Page<Application>> {
    let between = Between::of(page);
    let parameters = params![organization.key(), between.after, between.before, rows_wanted(page)];
    let rows = LIST.read(connection, page, parameters, of_row)?;
    Ok(Page::from_read(rows, page, |application| *application.id.as_uuid()))
}

pub(super) fn update(tx: &mut Tx<'_>, read: &Application, changed: &Application, check: &CheckChange) -> Outcome<Updated> {
    if !is_still(tx, read)? {
        return Ok(Updated::Changed);
    }
    if let CheckChange::Replace { manifest_version, .. } = check
        && manifests::version(tx, read.id)? != *manifest_version
    {
        return Ok(Updated::Changed);
    }
    match taken(tx, changed)? {
        Some(Taken::Uid) => return Ok(Updated::UidTaken),
        Some(Taken::Name) => return Ok(Updated::NameTaken),
        None => {}
    }
    tx.prepare(UPDATE)?.execute(params![
        changed.organization.key(),
        changed.id.key(),
        changed.uid.as_ref().map(Uid::as_str),
        changed.name,
        changed.strict_event_types,
        changed.owner_email.as_ref().map(EmailAddress::as_str),
        changed.base_url,
        changed.health_path
    ])?;
    if let CheckChange::Replace { plan, .. } = check {
        app_health::plan(tx, changed.organization, changed.id, plan.as_ref())?;
    }
    if read.owner_email != changed.owner_email {
        channels::follow_owners(tx, changed.organization, [read.owner_email.as_ref(), changed.owner_email.as_ref()])?;
    }
    tx.bump_config(changed.id)?;
    Ok(Updated::Updated)
}

/// Whether an application is as it was read. Asked inside the write, so that the answer still holds at its end.
pub(super) fn is_still(tx: &Tx<'_>, read: &Application) -> Outcome<bool> {
    Ok(find(tx.connection(), read.organization, &Ref::Id(read.id))?.as_ref() == Some(read))
}

/// Reads the application and what changed of it in one snapshot, so that the version is that of exactly these endpoints.
pub(super) fn read_configuration(connection: &Connection, id: ApplicationId, after: ConfigCursor) -> Outcome<ConfigRead> {
    let snapshot = connection.unchecked_transaction()?;
    let mut statement = snapshot.prepare_cached(WITH_VERSION)?;
    let Some((mut page, purged_version)) = statement.query_row([id.key()], page_of_row).optional()? else {
        return Ok(ConfigRead::NotFound);
    };
    if after.since.is_some_and(|since| since < purged_version) {
        return Ok(ConfigRead::Outdated);
    }
    let (changed, may_be_more) = endpoints::changed(&snapshot, id, after, CONFIG_PAGE_ENDPOINTS)?;
    if let Some((version, last)) = changed.last().filter(|_| may_be_more) {
        page.next = Some(after.next(page.version, *version, last.id));
    }
    page.endpoints = changed.into_iter().map(|(_, endpoint)| endpoint).collect();
    Ok(ConfigRead::Page(Box::new(page)))
}

/// A page without endpoints, and the version since which all changes are known.
fn page_of_row(row: &Row<'_>) -> rusqlite::Result<(ConfigPage, i64)> {
    let page = ConfigPage {
        application: of_row(row)?,
        version: ConfigVersion { application: row.get("config_version")?, organization: row.get("organization_version")? },
        limits: row.spelled("limits", |json: String| limits_json::read(&json))?,
        pool: PoolAssignment::only(),
        endpoints: Vec::new(),
        next: None,
    };
    Ok((page, row.get("purged_version")?))
}

/// Asked inside the write, so that the answer still holds at its end.
fn taken(tx: &Tx<'_>, application: &Application) -> Outcome<Option<Taken>> {
    let connection = tx.connection();
    let is_other = |holder: Option<Application>| holder.is_some_and(|holder| holder.id != application.id);
    if let Some(uid) = &application.uid
        && is_other(find(connection, application.organization, &Ref::Uid(uid.clone()))?)
    {
        return Ok(Some(Taken::Uid));
    }
    let mut by_name = tx.prepare(BY_NAME)?;
    let holder = by_name.query_row(params![application.organization.key(), application.name], of_row).optional()?;
    Ok(is_other(holder).then_some(Taken::Name))
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<Application> {
    Ok(Application {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        uid: row.uid_opt("uid")?,
        name: row.get("name")?,
        kind: row.spelled("kind", read_kind)?,
        strict_event_types: row.get("strict_event_types")?,
        owner_email: row.spelled_opt("owner_email", |text: String| EmailAddress::parse(&text).ok())?,
        base_url: row.get("base_url")?,
        health_path: row.get("health_path")?,
        created_at: row.instant("created_at")?,
    })
}
