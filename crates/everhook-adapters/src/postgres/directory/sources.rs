//! Sources, and what happened at them last: the port `SourceStore`.

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, OrganizationId, Ref, ScheduleVersion, SourceId},
    model::{
        AuditEntry, Page, PageRequest, PauseMode, ProcessorKind, SealedSecret, Source, SourceActivity, SourceName, SourcePause,
        SourceRateLimit,
    },
    ports::{Change, Created, SourceStore, StoreError, Updated},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    super::{
        PostgresStore,
        audit_log::conclude,
        collisions::retry_on_conflict,
        fault::Outcome,
        page::{Between, List, list, rows_wanted},
        reader::Reader,
        rows::{Columns, Key, unreadable},
        transaction::Tx,
    },
    applications, changing, processors,
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

#[async_trait]
impl SourceStore for PostgresStore {
    async fn create_source(&self, source: Source, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError> {
        let schedule = self.schedule_of_processor(&source).await?;
        changed!(self, source.organization, entry, |tx| create(&tx, &source, schedule, count_max))
    }

    async fn source(&self, organization: OrganizationId, of: &Ref<SourceId>) -> Result<Option<Source>, StoreError> {
        Ok(find(&self.reader().await?, organization, of).await?)
    }

    async fn source_by_id(&self, id: SourceId) -> Result<Option<Source>, StoreError> {
        Ok(by_id(&self.line_reader().await?, id).await?)
    }

    async fn sources(
        &self,
        organization: OrganizationId,
        application: Option<ApplicationId>,
        page: PageRequest,
    ) -> Result<Page<Source>, StoreError> {
        Ok(list(&self.reader().await?, organization, application, page).await?)
    }

    async fn update_source(&self, source: Source, read_at: Timestamp, entry: AuditEntry) -> Result<Updated, StoreError> {
        let schedule = self.schedule_of_processor(&source).await?;
        changed!(self, source.organization, entry, |tx| update(&tx, &source, schedule, read_at))
    }

    async fn delete_source(&self, organization: OrganizationId, id: SourceId, entry: AuditEntry) -> Result<bool, StoreError> {
        changed!(self, organization, entry, |tx| delete(&tx, organization, id))
    }

    async fn note_source_activity(&self, news: Vec<(SourceId, SourceActivity)>) -> Result<(), StoreError> {
        Ok(note_activity(&self.reader().await?, &news).await?)
    }

    async fn source_activity(&self, of: Vec<SourceId>) -> Result<Vec<(SourceId, SourceActivity)>, StoreError> {
        let ids: Vec<Uuid> = of.iter().map(Key::key).collect();
        let rows = self.reader().await?.query(ACTIVITY, &[&ids]).await?;
        Ok(rows.iter().map(activity_of_row).collect::<Outcome<_>>()?)
    }
}

async fn create(tx: &Tx<'_>, source: &Source, schedule: Option<ScheduleVersion>, count_max: u32) -> Outcome<Created> {
    let organization = source.organization;
    if is_taken(tx, source).await? {
        return Ok(Created::NameTaken);
    }
    let count: i64 = tx.query_one(COUNT, &[&organization.key()]).await?.value("count")?;
    if count >= i64::from(count_max) {
        return Ok(Created::TooMany);
    }
    if !applications::exists(tx, organization, source.application).await? {
        return Ok(Created::NoSuchApplication);
    }
    tx.execute(
        INSERT,
        &[
            &source.id.key(),
            &organization.key(),
            &source.application.key(),
            &source.name.as_str(),
            &source.kind,
            &source_json::write_recipe(&source.recipe),
            &source_json::write_secrets(&source.secrets),
            &source.verify_token.as_ref().map(|token| &token.0),
            &source_json::write_settings(source),
            &source.paused.map(|pause| pause.at.as_micros()),
            &source.paused.map(|pause| pause.mode.as_str()),
            &source.awaiting_handshake_until.map(Timestamp::as_micros),
            &source.created_at.as_micros(),
            &source.updated_at.as_micros(),
            &source.processor.map(ProcessorKind::as_str),
            &schedule.map(|version| version.0),
        ],
    )
    .await?;
    tx.note_change(Change::Source(source.id)).await?;
    if source.processor.is_some() {
        processors::follow(tx, source).await?;
    }
    Ok(Created::Created)
}

async fn find(reader: &Reader, organization: OrganizationId, of: &Ref<SourceId>) -> Outcome<Option<Source>> {
    match of {
        Ref::Id(id) => Ok(by_id(reader, *id).await?.filter(|source| source.organization == organization)),
        Ref::Uid(name) => reader.query_opt(BY_NAME, &[&organization.key(), &name.as_str()]).await?.as_ref().map(of_row).transpose(),
    }
}

async fn by_id(reader: &Reader, id: SourceId) -> Outcome<Option<Source>> {
    reader.query_opt(BY_ID, &[&id.key()]).await?.as_ref().map(of_row).transpose()
}

async fn list(
    reader: &Reader,
    organization: OrganizationId,
    application: Option<ApplicationId>,
    page: PageRequest,
) -> Outcome<Page<Source>> {
    let between = Between::of(page);
    let (organization, wanted, application) = (organization.key(), rows_wanted(page), application.as_ref().map(ApplicationId::key));
    let rows = LIST.read(reader, page, &[&organization, &between.after, &between.before, &wanted, &application], of_row).await?;
    Ok(Page::from_read(rows, page, |source| *source.id.as_uuid()))
}

async fn update(tx: &Tx<'_>, source: &Source, schedule: Option<ScheduleVersion>, read_at: Timestamp) -> Outcome<Updated> {
    if is_taken(tx, source).await? {
        return Ok(Updated::NameTaken);
    }
    let had_processor = tx.query_opt(BY_ID, &[&source.id.key()]).await?.as_ref().map(of_row).transpose()?.is_some_and(has_processor);
    let changed = tx
        .execute(
            UPDATE,
            &[
                &source.id.key(),
                &source.organization.key(),
                &read_at.as_micros(),
                &source.name.as_str(),
                &source.kind,
                &source_json::write_recipe(&source.recipe),
                &source_json::write_secrets(&source.secrets),
                &source.verify_token.as_ref().map(|token| &token.0),
                &source_json::write_settings(source),
                &source.paused.map(|pause| pause.at.as_micros()),
                &source.paused.map(|pause| pause.mode.as_str()),
                &source.awaiting_handshake_until.map(Timestamp::as_micros),
                &source.updated_at.as_micros(),
                &source.processor.map(ProcessorKind::as_str),
                &schedule.map(|version| version.0),
            ],
        )
        .await?;
    if changed == 0 {
        return Ok(Updated::Changed);
    }
    tx.note_change(Change::Source(source.id)).await?;
    if had_processor || source.processor.is_some() {
        processors::follow(tx, source).await?;
    }
    Ok(Updated::Updated)
}

fn has_processor(source: Source) -> bool {
    source.processor.is_some()
}

/// Whether another source of the organization has this name. Asked while the organization is locked, so that the answer still holds at the end of the
/// change.
async fn is_taken(tx: &Tx<'_>, source: &Source) -> Outcome<bool> {
    match tx.query_opt(BY_NAME, &[&source.organization.key(), &source.name.as_str()]).await? {
        Some(holder) => Ok(holder.id::<SourceId>("id")? != source.id),
        None => Ok(false),
    }
}

async fn delete(tx: &Tx<'_>, organization: OrganizationId, id: SourceId) -> Outcome<bool> {
    let before = tx.query_opt(BY_ID, &[&id.key()]).await?.as_ref().map(of_row).transpose()?;
    if tx.query(DELETE, &[&organization.key(), &id.key()]).await?.is_empty() {
        return Ok(false);
    }
    tx.note_change(Change::Source(id)).await?;
    if let Some(source) = before.filter(|source| source.processor.is_some()) {
        processors::changed(tx, &source).await?;
    }
    Ok(true)
}

/// Deletes those of an application that is deleted in the same write.
pub(super) async fn delete_of_application(tx: &Tx<'_>, organization: OrganizationId, application: ApplicationId) -> Outcome<()> {
    tell(tx, &tx.query(DELETE_OF_APPLICATION, &[&organization.key(), &application.key()]).await?).await
}

/// Deletes those of an organization that is deleted in the same write.
pub(super) async fn delete_of_organization(tx: &Tx<'_>, organization: OrganizationId) -> Outcome<()> {
    tell(tx, &tx.query(DELETE_OF_ORGANIZATION, &[&organization.key()]).await?).await
}

/// Tells the nodes that remember these sources.
async fn tell(tx: &Tx<'_>, rows: &[Row]) -> Outcome<()> {
    let changes: Vec<Change> = rows.iter().map(|row| row.id("id").map(Change::Source)).collect::<Outcome<_>>()?;
    tx.note_changes(&changes).await
}

async fn note_activity(reader: &Reader, news: &[(SourceId, SourceActivity)]) -> Outcome<()> {
    let ids: Vec<Uuid> = news.iter().map(|(id, _)| id.key()).collect();
    let accepted: Vec<Option<i64>> = news.iter().map(|(_, activity)| activity.accepted_at.map(Timestamp::as_micros)).collect();
    let refused: Vec<Option<i64>> = news.iter().map(|(_, activity)| activity.refused.as_ref().map(|(at, _)| at.as_micros())).collect();
    let why: Vec<Option<&str>> = news.iter().map(|(_, activity)| activity.refused.as_ref().map(|(_, why)| why.as_str())).collect();
    let handshakes: Vec<Option<i64>> = news.iter().map(|(_, activity)| activity.handshake_at.map(Timestamp::as_micros)).collect();
    reader.execute(NOTE_ACTIVITY, &[&ids, &accepted, &refused, &why, &handshakes]).await?;
    Ok(())
}

fn activity_of_row(row: &Row) -> Outcome<(SourceId, SourceActivity)> {
    let refused = row.instant_opt("refused_at")?.zip(row.value("refusal")?);
    let activity = SourceActivity { accepted_at: row.instant_opt("accepted_at")?, refused, handshake_at: row.instant_opt("handshake_at")? };
    Ok((row.id("source_id")?, activity))
}

fn of_row(row: &Row) -> Outcome<Source> {
    let mode = row.spelled_opt("paused_mode", PauseMode::parse)?;
    let source = Source {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id("application_id")?,
        name: row.spelled("name", SourceName::parse)?,
        kind: row.value("kind")?,
        recipe: row.spelled("recipe", source_json::read_recipe)?,
        secrets: row.spelled("secrets", source_json::read_secrets)?,
        verify_token: row.value::<Option<Vec<u8>>>("verify_token")?.map(SealedSecret),
        subscription_id: None,
        app_id: None,
        audience: None,
        public_url: None,
        tolerance: None,
        ip_allowlist: Vec::new(),
        rate_limit: SourceRateLimit::default(),
        dedupe: None,
        forward: true,
        processor: row.spelled_opt("processor", |name: &str| ProcessorKind::parse(name))?,
        forward_headers: Vec::new(),
        keep_headers: Vec::new(),
        response: None,
        paused: row.instant_opt("paused_at")?.zip(mode).map(|(at, mode)| SourcePause { at, mode }),
        awaiting_handshake_until: row.instant_opt("awaiting_handshake_until")?,
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    };
    source_json::read_settings(row.value("settings")?, source).ok_or_else(|| unreadable("settings"))
}
