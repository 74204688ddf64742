//! Sources, and what happened at them last: the port `SourceStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, OrganizationId, Ref, SourceId},
    model::{
        AuditEntry, Page, PageRequest, PauseMode, ProcessorKind, SealedSecret, Source, SourceActivity, SourceName, SourcePause,
        SourceRateLimit,
    },
    ports::{Created, SourceStore, StoreError, Updated},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    super::{
        SqliteStore,
        fault::Outcome,
        page::{Between, List, list, rows_wanted},
        rows::{Columns, Key, unreadable},
        transaction::Tx,
    },
    applications, processors,
};
use crate::encoding::source_json;

const INSERT: &str = include_str!("../queries/insert_source.sql");
const UPDATE: &str = include_str!("../queries/update_source.sql");
const DELETE: &str = include_str!("../queries/delete_source.sql");
const DELETE_OF_APPLICATION: &str = include_str!("../queries/delete_sources_of_application.sql");
const DELETE_OF_ORGANIZATION: &str = include_str!("../queries/delete_sources_of_organization.sql");
const COUNT: &str = include_str!("../queries/count_sources.sql");
const BY_ID: &str = include_str!("../queries/source_by_id.sql");
const BY_NAME: &str = include_str!("../queries/source_by_name.sql");
const LIST: List = list!("../queries/sources_page.sql");
const NOTE_ACTIVITY: &str = include_str!("../queries/note_source_activity.sql");
const ACTIVITY: &str = include_str!("../queries/source_activity.sql");
const FORGET_ACTIVITY: &str = include_str!("../queries/forget_source_activity.sql");

#[async_trait]
impl SourceStore for SqliteStore {
    async fn create_source(&self, source: Source, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError> {
        self.change(1, entry, move |tx| create(tx, &source, count_max)).await
    }

    async fn source(&self, organization: OrganizationId, of: &Ref<SourceId>) -> Result<Option<Source>, StoreError> {
        let of = of.clone();
        self.read(move |connection| find(connection, organization, &of)).await
    }

    async fn source_by_id(&self, id: SourceId) -> Result<Option<Source>, StoreError> {
        self.read(move |connection| by_id(connection, id)).await
    }

    async fn sources(
        &self,
        organization: OrganizationId,
        application: Option<ApplicationId>,
        page: PageRequest,
    ) -> Result<Page<Source>, StoreError> {
        self.read(move |connection| list(connection, organization, application, page)).await
    }

    async fn update_source(&self, source: Source, read_at: Timestamp, entry: AuditEntry) -> Result<Updated, StoreError> {
        self.change(1, entry, move |tx| update(tx, &source, read_at)).await
    }

    async fn delete_source(&self, organization: OrganizationId, id: SourceId, entry: AuditEntry) -> Result<bool, StoreError> {
        self.change(2, entry, move |tx| delete(tx, organization, id)).await
    }

    async fn note_source_activity(&self, news: Vec<(SourceId, SourceActivity)>) -> Result<(), StoreError> {
        self.write(news.len(), move |tx| note_activity(tx, &news)).await
    }

    async fn source_activity(&self, of: Vec<SourceId>) -> Result<Vec<(SourceId, SourceActivity)>, StoreError> {
        self.read(move |connection| read_activity(connection, &of)).await
    }
}

fn create(tx: &mut Tx<'_>, source: &Source, count_max: u32) -> Outcome<Created> {
    let organization = source.organization;
    if is_taken(tx, source)? {
        return Ok(Created::NameTaken);
    }
    let count: u32 = tx.prepare(COUNT)?.query_row([organization.key()], |row| row.get(0))?;
    if count >= count_max {
        return Ok(Created::TooMany);
    }
    if applications::find(tx.connection(), organization, &Ref::Id(source.application))?.is_none() {
        return Ok(Created::NoSuchApplication);
    }
    let schedule = processors::schedule(tx, source)?;
    tx.prepare(INSERT)?.execute(params![
        source.id.key(),
        organization.key(),
        source.application.key(),
        source.name.as_str(),
        source.kind,
        source_json::write_recipe(&source.recipe),
        source_json::write_secrets(&source.secrets),
        source.verify_token.as_ref().map(|token| &token.0),
        source_json::write_settings(source),
        source.paused.map(|pause| pause.at.as_micros()),
        source.paused.map(|pause| pause.mode.as_str()),
        source.awaiting_handshake_until.map(Timestamp::as_micros),
        source.created_at.as_micros(),
        source.updated_at.as_micros(),
        source.processor.map(ProcessorKind::as_str),
        schedule.map(|version| version.0)
    ])?;
    if source.processor.is_some() {
        processors::follow(tx, source)?;
    }
    Ok(Created::Created)
}

fn find(connection: &Connection, organization: OrganizationId, of: &Ref<SourceId>) -> Outcome<Option<Source>> {
    match of {
        Ref::Id(id) => Ok(by_id(connection, *id)?.filter(|source| source.organization == organization)),
        Ref::Uid(name) => {
            Ok(connection.prepare_cached(BY_NAME)?.query_row(params![organization.key(), name.as_str()], of_row).optional()?)
        }
    }
}

fn by_id(connection: &Connection, id: SourceId) -> Outcome<Option<Source>> {
    Ok(connection.prepare_cached(BY_ID)?.query_row([id.key()], of_row).optional()?)
}

fn list(
    connection: &Connection,
    organization: OrganizationId,
    application: Option<ApplicationId>,
    page: PageRequest,
) -> Outcome<Page<Source>> {
    let between = Between::of(page);
    let application = application.as_ref().map(ApplicationId::key);
    let parameters = params![organization.key(), between.after, between.before, rows_wanted(page), application];
    let rows = LIST.read(connection, page, parameters, of_row)?;
    Ok(Page::from_read(rows, page, |source| *source.id.as_uuid()))
}

fn update(tx: &mut Tx<'_>, source: &Source, read_at: Timestamp) -> Outcome<Updated> {
    if is_taken(tx, source)? {
        return Ok(Updated::NameTaken);
    }
    let had_processor = by_id(tx.connection(), source.id)?.is_some_and(|before| before.processor.is_some());
    let schedule = processors::schedule(tx, source)?;
    let changed = tx.prepare(UPDATE)?.execute(params![
        source.id.key(),
        source.organization.key(),
        read_at.as_micros(),
        source.name.as_str(),
        source.kind,
        source_json::write_recipe(&source.recipe),
        source_json::write_secrets(&source.secrets),
        source.verify_token.as_ref().map(|token| &token.0),
        source_json::write_settings(source),
        source.paused.map(|pause| pause.at.as_micros()),
        source.paused.map(|pause| pause.mode.as_str()),
        source.awaiting_handshake_until.map(Timestamp::as_micros),
        source.updated_at.as_micros(),
        source.processor.map(ProcessorKind::as_str),
        schedule.map(|version| version.0)
    ])?;
    if changed == 0 {
        return Ok(Updated::Changed);
    }
    if had_processor || source.processor.is_some() {
        processors::follow(tx, source)?;
    }
    Ok(Updated::Updated)
}

/// Whether another source of the organization has this name.
fn is_taken(tx: &Tx<'_>, source: &Source) -> Outcome<bool> {
    let named = params![source.organization.key(), source.name.as_str()];
    let holder: Option<SourceId> = tx.prepare(BY_NAME)?.query_row(named, |row| row.id("id")).optional()?;
    Ok(holder.is_some_and(|id| id != source.id))
}

fn delete(tx: &mut Tx<'_>, organization: OrganizationId, id: SourceId) -> Outcome<bool> {
    let had_processor = by_id(tx.connection(), id)?.is_some_and(|before| before.processor.is_some());
    let is_deleted = tx.prepare(DELETE)?.execute(params![organization.key(), id.key()])? > 0;
    if is_deleted {
        tx.prepare(FORGET_ACTIVITY)?.execute([id.key()])?;
        if had_processor {
            tx.bump_organization(organization)?;
        }
    }
    Ok(is_deleted)
}

/// Deletes those of an application that is deleted in the same write.
pub(super) fn delete_of_application(tx: &Tx<'_>, organization: OrganizationId, application: ApplicationId) -> Outcome<()> {
    delete_all(tx, DELETE_OF_APPLICATION, params![organization.key(), application.key()])
}

/// Deletes those of an organization that is deleted in the same write.
pub(super) fn delete_of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    delete_all(tx, DELETE_OF_ORGANIZATION, params![organization.key()])
}

fn delete_all(tx: &Tx<'_>, sql: &'static str, of: &[&dyn rusqlite::ToSql]) -> Outcome<()> {
    let gone: Vec<SourceId> = tx.prepare(sql)?.query_map(of, |row| row.id("id"))?.collect::<Result<_, _>>()?;
    for id in gone {
        tx.prepare(FORGET_ACTIVITY)?.execute([id.key()])?;
    }
    Ok(())
}

fn note_activity(tx: &Tx<'_>, news: &[(SourceId, SourceActivity)]) -> Outcome<()> {
    let mut note = tx.prepare(NOTE_ACTIVITY)?;
    for (id, activity) in news {
        note.execute(params![
            id.key(),
            activity.accepted_at.map(Timestamp::as_micros),
            activity.refused.as_ref().map(|(at, _)| at.as_micros()),
            activity.refused.as_ref().map(|(_, why)| why),
            activity.handshake_at.map(Timestamp::as_micros)
        ])?;
    }
    Ok(())
}

fn read_activity(connection: &Connection, of: &[SourceId]) -> Outcome<Vec<(SourceId, SourceActivity)>> {
    let mut statement = connection.prepare_cached(ACTIVITY)?;
    let mut found = Vec::new();
    for id in of {
        found.extend(statement.query_row([id.key()], activity_of_row).optional()?);
    }
    Ok(found)
}

fn activity_of_row(row: &Row<'_>) -> rusqlite::Result<(SourceId, SourceActivity)> {
    let refused = row.instant_opt("refused_at")?.zip(row.get("refusal")?);
    let activity = SourceActivity { accepted_at: row.instant_opt("accepted_at")?, refused, handshake_at: row.instant_opt("handshake_at")? };
    Ok((row.id("source_id")?, activity))
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<Source> {
    let mode = row.spelled_opt("paused_mode", |name: String| PauseMode::parse(&name))?;
    let source = Source {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        name: row.spelled("name", |name: String| SourceName::parse(&name))?,
        kind: row.get("kind")?,
        recipe: row.spelled("recipe", |json: String| source_json::read_recipe(&json))?,
        secrets: row.spelled("secrets", |json: String| source_json::read_secrets(&json))?,
        verify_token: row.get::<_, Option<Vec<u8>>>("verify_token")?.map(SealedSecret),
        subscription_id: None,
        app_id: None,
        audience: None,
        public_url: None,
        tolerance: None,
        ip_allowlist: Vec::new(),
        rate_limit: SourceRateLimit::default(),
        dedupe: None,
        forward: true,
        processor: row.spelled_opt("processor", |name: String| ProcessorKind::parse(&name))?,
        forward_headers: Vec::new(),
        keep_headers: Vec::new(),
        response: None,
        paused: row.instant_opt("paused_at")?.zip(mode).map(|(at, mode)| SourcePause { at, mode }),
        awaiting_handshake_until: row.instant_opt("awaiting_handshake_until")?,
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    };
    source_json::read_settings(&row.get::<_, String>("settings")?, source).ok_or_else(|| unreadable("settings"))
}
