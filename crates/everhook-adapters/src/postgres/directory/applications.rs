//! Applications.

use everhook_core::{
    ids::{ApplicationId, OrganizationId, Ref, ScheduleVersion, Uid},
    model::{Application, ApplicationKind, CheckChange, EmailAddress, Page, PageRequest, PoolAssignment, PoolName},
    ports::{CONFIG_PAGE_ENDPOINTS, ConfigCursor, ConfigPage, ConfigRead, ConfigVersion, Created, Updated},
};
use tokio_postgres::Row;

use super::{
    super::{
        app_health,
        fault::Outcome,
        page::{Between, List, list, rows_wanted},
        reader::Reader,
        rows::{Columns, Key},
        transaction::Tx,
    },
    channels, endpoints, manifests,
    organizations::is_at_limit,
};
use crate::encoding::{
    limits_json,
    spelling::{kind_name, read_kind},
};

const INSERT: &str = include_str!("../queries/insert_application.sql");
const INSERT_COUNTERS: &str = include_str!("../queries/insert_application_counters.sql");
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

pub(super) async fn create(tx: &Tx<'_>, application: &Application, notify: Option<ScheduleVersion>) -> Outcome<Created> {
    match taken(tx, application).await? {
        Some(Taken::Uid) => Ok(Created::UidTaken),
        Some(Taken::Name) => Ok(Created::NameTaken),
        None if is_at_limit(tx, application.organization, COUNT, |limits| limits.applications).await? => Ok(Created::TooMany),
        None => {
            tx.execute(ADD_TO_COUNT, &[&application.organization.key(), &1_i64]).await?;
            insert(tx, application).await?;
            channels::follow_owners(tx, application.organization, &[application.owner_email.as_ref()], notify).await?;
            Ok(Created::Created)
        }
    }
}

pub(super) async fn insert(tx: &Tx<'_>, application: &Application) -> Outcome<()> {
    tx.execute(
        INSERT,
        &[
            &application.id.key(),
            &application.organization.key(),
            &application.uid.as_ref().map(Uid::as_str),
            &application.name,
            &kind_name(application.kind),
            &application.created_at.as_micros(),
            &application.strict_event_types,
            &application.owner_email.as_ref().map(EmailAddress::as_str),
            &application.base_url,
            &application.health_path,
        ],
    )
    .await?;
    tx.execute(INSERT_COUNTERS, &[&application.id.key()]).await?;
    Ok(())
}

pub(super) async fn find(reader: &Reader, organization: OrganizationId, of: &Ref<ApplicationId>) -> Outcome<Option<Application>> {
    let found = match of {
        Ref::Id(id) => reader.query_opt(BY_ID, &[&organization.key(), &id.key()]).await?,
        Ref::Uid(uid) => reader.query_opt(BY_UID, &[&organization.key(), &uid.as_str()]).await?,
    };
    found.as_ref().map(of_row).transpose()
}

pub(super) async fn find_built_in(reader: &Reader, organization: OrganizationId, kind: ApplicationKind) -> Outcome<Option<Application>> {
    reader.query_opt(OF_KIND, &[&organization.key(), &kind_name(kind)]).await?.as_ref().map(of_row).transpose()
}

pub(super) async fn list(reader: &Reader, organization: OrganizationId, page: PageRequest) -> Outcome<Page<Application>> {
    let between = Between::of(page);
    let (organization, wanted) = (organization.key(), rows_wanted(page));
    let rows = LIST.read(reader, page, &[&organization, &between.after, &between.before, &wanted], of_row).await?;
    Ok(Page::from_read(rows, page, |application| *application.id.as_uuid()))
}

pub(super) async fn update(
    tx: &Tx<'_>,
    read: &Application,
    changed: &Application,
    check: &CheckChange,
    notify: Option<ScheduleVersion>,
) -> Outcome<Updated> {
    if !is_still(tx, read).await? {
        return Ok(Updated::Changed);
    }
    if let CheckChange::Replace { manifest_version, .. } = check
        && manifests::version(tx, read.id).await? != *manifest_version
    {
        return Ok(Updated::Changed);
    }
    match taken(tx, changed).await? {
        Some(Taken::Uid) => return Ok(Updated::UidTaken),
        Some(Taken::Name) => return Ok(Updated::NameTaken),
        None => {}
    }
    tx.execute(
        UPDATE,
        &[
            &changed.organization.key(),
            &changed.id.key(),
            &changed.uid.as_ref().map(Uid::as_str),
            &changed.name,
            &changed.strict_event_types,
            &changed.owner_email.as_ref().map(EmailAddress::as_str),
            &changed.base_url,
            &changed.health_path,
        ],
    )
    .await?;
    if let CheckChange::Replace { plan, .. } = check {
        app_health::plan(tx, changed.organization, changed.id, plan.as_ref()).await?;
    }
    if read.owner_email != changed.owner_email {
        let owners = [read.owner_email.as_ref(), changed.owner_email.as_ref()];
        channels::follow_owners(tx, changed.organization, &owners, notify).await?;
    }
    tx.bump_config(changed.id).await?;
    Ok(Updated::Updated)
}

/// Reads the application and what changed of it in one snapshot, so that the version is that of exactly these endpoints. Says whether this pool sends
/// for it.
pub(super) async fn read_configuration(snapshot: &Tx<'_>, id: ApplicationId, pool: &str, after: ConfigCursor) -> Outcome<ConfigRead> {
    let Some(row) = snapshot.query_opt(WITH_VERSION, &[&id.key(), &pool]).await? else { return Ok(ConfigRead::NotFound) };
    let purged_version: i64 = row.value("purged_version")?;
    if after.since.is_some_and(|since| since < purged_version) {
        return Ok(ConfigRead::Outdated);
    }
    let mut page = page_of_row(&row)?;
    let (changed, may_be_more) = endpoints::changed(snapshot, id, after, CONFIG_PAGE_ENDPOINTS).await?;
    if let Some((version, last)) = changed.last().filter(|_| may_be_more) {
        page.next = Some(after.next(page.version, *version, last.id));
    }
    page.endpoints = changed.into_iter().map(|(_, endpoint)| endpoint).collect();
    Ok(ConfigRead::Page(Box::new(page)))
}

/// A page without endpoints.
fn page_of_row(row: &Row) -> Outcome<ConfigPage> {
    Ok(ConfigPage {
        application: of_row(row)?,
        version: ConfigVersion { application: row.value("config_version")?, organization: row.value("organization_version")? },
        limits: row.spelled("limits", limits_json::read)?,
        pool: PoolAssignment {
            pool: row.spelled("worker_pool", |name: &str| PoolName::parse(name))?,
            is_here: row.value("is_here")?,
            moves: row.value("moves")?,
        },
        endpoints: Vec::new(),
        next: None,
    })
}

/// Whether an application is as it was read. Asked while the organization is locked, so that the answer still holds at the end of the change.
pub(super) async fn is_still(tx: &Tx<'_>, read: &Application) -> Outcome<bool> {
    Ok(of_id(tx, read.organization, read.id).await?.as_ref() == Some(read))
}

/// An application of an organization, as this transaction sees it.
pub(super) async fn of_id(tx: &Tx<'_>, organization: OrganizationId, id: ApplicationId) -> Outcome<Option<Application>> {
    tx.query_opt(BY_ID, &[&organization.key(), &id.key()]).await?.as_ref().map(of_row).transpose()
}

/// Whether an organization has this application. Asked while the organization is locked, so that the answer still holds at the end of the change.
pub(super) async fn exists(tx: &Tx<'_>, organization: OrganizationId, id: ApplicationId) -> Outcome<bool> {
    Ok(of_id(tx, organization, id).await?.is_some())
}

/// Asked while the organization is locked, so that the answer still holds at the end of the change.
async fn taken(tx: &Tx<'_>, application: &Application) -> Outcome<Option<Taken>> {
    let organization = application.organization.key();
    let is_other = |holder: Option<Row>| match holder {
        Some(holder) => holder.id("id").map(|id: ApplicationId| id != application.id),
        None => Ok(false),
    };
    if let Some(uid) = &application.uid
        && is_other(tx.query_opt(BY_UID, &[&organization, &uid.as_str()]).await?)?
    {
        return Ok(Some(Taken::Uid));
    }
    let holder = tx.query_opt(BY_NAME, &[&organization, &application.name]).await?;
    Ok(is_other(holder)?.then_some(Taken::Name))
}

fn of_row(row: &Row) -> Outcome<Application> {
    Ok(Application {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        uid: row.uid_opt("uid")?,
        name: row.value("name")?,
        kind: row.spelled("kind", read_kind)?,
        strict_event_types: row.value("strict_event_types")?,
        owner_email: row.spelled_opt("owner_email", |text: &str| EmailAddress::parse(text).ok())?,
        base_url: row.value("base_url")?,
        health_path: row.value("health_path")?,
        created_at: row.instant("created_at")?,
    })
}
