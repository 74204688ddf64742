//! Sources: where webhooks of other providers come in. Made, changed, deleted, shown.
//!
//! Everything that is kept was checked here by what will read the requests: a source that is there can be opened. After a change the cache of opened
//! sources is notified, so that the next request already meets it.

mod control;
mod settings;
mod statistics;

pub use control::{Captured, HANDSHAKE_AWAITED_FOR, await_handshake, capture_key, pause, resume};
pub use settings::{DedupeInput, RateLimitInput, ResponseInput, SourceChange};
pub use statistics::{SourceReport, statistics};

use super::{CHANGE_ROUNDS_MAX, Conflict, Fault, Noun, Refusal, applications, audit, changed_at, no_such_application, unexpected};
use crate::{
    ids::{ApplicationId, OrganizationId, Ref, SourceId},
    line::Line,
    model::{
        ApplicationKind, AuditAction, Author, Cursor, PageRequest, RecipeTexts, Secret, Source, SourceActivity, SourceName, SourceRateLimit,
    },
    policy::audit::{Facts, changed, made, removed},
    ports::{Created, StoreError, Updated},
    sources,
    time::Timestamp,
};

/// How many sources an organization may have: each provider of each integration has one. Those of an application are deleted in one write.
pub const SOURCES_MAX: u32 = 1_000;

/// How many sources are read at once.
const PAGE: u32 = 250;

/// A source that somebody wants.
#[derive(Clone, Debug, Default)]
pub struct NewSource {
    /// The application that gets its events, by id or uid; the organization's `default` if absent.
    pub application: Option<String>,
    /// Everything that can be changed later.
    pub settings: SourceChange,
}

/// A source's secrets, as its owner may see them.
#[derive(Debug)]
pub struct RevealedSource {
    /// What the provider signs with, the newest first.
    pub secrets: Vec<Secret<String>>,
    /// What the provider shows in its handshake.
    pub verify_token: Option<Secret<String>>,
}

/// Makes a source.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says what is taken or that there are too many.
pub async fn create(line: &Line, by: &Author, new: NewSource) -> Result<Source, Refusal> {
    let source = checked(line, by.organization, new, None).await?;
    let note = made(&audit::of_source(&source));
    let entry = audit::entry(line, by, AuditAction::SourceCreate, source.id.as_uuid(), note);
    match line.ports.sources.create_source(source.clone(), SOURCES_MAX, entry).await? {
        Created::Created => {
            announce(line, &source);
            Ok(source)
        }
        Created::NameTaken => Err(Refusal::name_taken(source.name.as_str())),
        Created::NoSuchApplication => Err(Refusal::Invalid(vec![no_such_application()])),
        Created::TooMany => {
            let words = format!("the organization has reached the limit of {SOURCES_MAX} sources");
            Err(Refusal::Conflict(Conflict::LimitReached, words))
        }
        Created::UidTaken | Created::NoSuchSchedule | Created::ConfigTooLarge => Err(unexpected()),
    }
}

/// What a source would be, without writing it: a new one, or the one that was found, changed.
pub(super) async fn checked(line: &Line, organization: OrganizationId, new: NewSource, found: Option<Source>) -> Result<Source, Refusal> {
    let mut faults = Vec::new();
    let source = match found {
        Some(found) => found,
        None => {
            let application = find_application(line, organization, new.application.as_deref(), &mut faults).await?;
            settings::require(&new.settings, &mut faults);
            blank(line, organization, application)
        }
    };
    settings::apply(line, new.settings, source, faults)
}

/// Whether two states of a source say the same. Secrets are compared as they are: sealed anew, the same one looks different.
pub(super) fn is_same(line: &Line, one: &Source, other: &Source) -> Result<bool, StoreError> {
    let opened = |source: &Source| sources::credentials(source, &*line.ports.vault);
    if opened(one)? != opened(other)? {
        return Ok(false);
    }
    let sealed_alike = Source { secrets: one.secrets.clone(), verify_token: one.verify_token.clone(), ..other.clone() };
    Ok(*one == sealed_alike)
}

/// Changes the fields that are given, for requests from now on.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says what is missing or taken.
pub async fn change(line: &Line, by: &Author, of: &Ref<SourceId>, asked: SourceChange) -> Result<Source, Refusal> {
    update(line, by, AuditAction::SourceUpdate, of, |source| settings::apply(line, asked.clone(), source, Vec::new())).await
}

/// Deletes a source: requests to it are answered with 404 from now on. Events that came in stay, and those that wait for it to be resumed are delivered.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such source.
pub async fn delete(line: &Line, by: &Author, of: &Ref<SourceId>) -> Result<(), Refusal> {
    let found = find(line, by.organization, of).await?;
    let entry = audit::entry(line, by, AuditAction::SourceDelete, found.id.as_uuid(), removed(&audit::of_source(&found)));
    // Before, because nobody could ask for it again if this failed behind the deletion. What comes in between follows by itself: a release holds on for a
    // while.
    control::release_held(line, &found).await?;
    let is_deleted = line.ports.sources.delete_source(by.organization, found.id, entry).await?;
    announce_deleted(line, &found);
    if is_deleted { Ok(()) } else { Err(Refusal::NotFound(Noun::Source)) }
}

/// Finds a source by its id or its name.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has none.
pub async fn find(line: &Line, organization: OrganizationId, of: &Ref<SourceId>) -> Result<Source, Refusal> {
    line.ports.sources.source(organization, of).await?.ok_or(Refusal::NotFound(Noun::Source))
}

/// What happened at sources last, in their order: what is written, and what this node has not written yet.
///
/// # Errors
/// [`StoreError`] if the store cannot be reached.
pub async fn activity(line: &Line, of: &[SourceId]) -> Result<Vec<SourceActivity>, StoreError> {
    let written = line.ports.sources.source_activity(of.to_vec()).await?;
    let known = |id: &SourceId| {
        let mut activity = line.sources.activity.unwritten(*id);
        written.iter().filter(|(found, _)| found == id).for_each(|(_, written)| activity.merge(written.clone()));
        activity
    };
    Ok(of.iter().map(known).collect())
}

/// Shows a source's secrets to its owner.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such source.
pub async fn reveal(line: &Line, organization: OrganizationId, of: &Ref<SourceId>) -> Result<RevealedSource, Refusal> {
    Ok(revealed(line, &find(line, organization, of).await?)?)
}

/// The same of a source that was found.
///
/// # Errors
/// [`StoreError::Corrupt`] if they were sealed with another key.
pub fn revealed(line: &Line, source: &Source) -> Result<RevealedSource, StoreError> {
    let opened = sources::credentials(source, &*line.ports.vault)?;
    Ok(RevealedSource {
        secrets: opened.secrets.into_iter().map(Secret::new).collect(),
        verify_token: opened.verify_token.map(Secret::new),
    })
}

/// A source was made or changed: the next request meets it as it is now, and so does its processor.
fn announce(line: &Line, source: &Source) {
    line.sources.changed(source);
    if source.processor.is_some() {
        announce_lane(line, source);
    }
}

/// The sources of an organization, or of one of its applications, that have a processor. Asked before they are deleted with their owner.
pub(super) async fn with_processor(
    line: &Line,
    organization: OrganizationId,
    application: Option<ApplicationId>,
) -> Result<Vec<Source>, StoreError> {
    let (mut found, mut cursor) = (Vec::new(), Cursor::Newest);
    // As many pages as an organization may have, and one for those that were made meanwhile.
    for _ in 0..=SOURCES_MAX / PAGE {
        let page = line.ports.sources.sources(organization, application, PageRequest { limit: PAGE, cursor }).await?;
        found.extend(page.rows.into_iter().filter(|source| source.processor.is_some()));
        let Some(next) = page.next else { break };
        cursor = next;
    }
    Ok(found)
}

/// Sources were deleted with their owner: what waits for their processors, also what is parked, is cancelled by the owners of the lanes.
pub(super) fn announce_deleted_processors(line: &Line, sources: &[Source]) {
    sources.iter().for_each(|source| announce_lane(line, source));
}

/// A source was deleted: no request meets it any more.
fn announce_deleted(line: &Line, source: &Source) {
    line.sources.deleted(source.id);
    if source.processor.is_some() {
        announce_lane(line, source);
    }
}

/// The same for its processor, whose lane may end by it.
fn announce_lane(line: &Line, source: &Source) {
    line.catalog.forget_organization(source.organization);
    line.wake_up.changed(source.application, source.id.into());
}

/// Changes a source and writes it back. If somebody else was faster, it is read again and the change made on the newer row.
async fn update(
    line: &Line,
    by: &Author,
    action: AuditAction,
    of: &Ref<SourceId>,
    mut edit: impl FnMut(Source) -> Result<Source, Refusal>,
) -> Result<Source, Refusal> {
    let mut found = find(line, by.organization, of).await?;
    for _ in 0..CHANGE_ROUNDS_MAX {
        let (read_at, before): (Timestamp, Facts) = (found.updated_at, audit::of_source(&found));
        let (id, read) = (found.id, found.clone());
        let mut edited = edit(found)?;
        edited.updated_at = changed_at(line, read_at);
        let note = changed(&before, &audit::of_source(&edited));
        if note.says_nothing() {
            return Ok(read);
        }
        let entry = audit::entry(line, by, action, id.as_uuid(), note);
        match line.ports.sources.update_source(edited.clone(), read_at, entry).await? {
            Updated::Updated => {
                announce(line, &edited);
                if read.processor.is_some() && edited.processor.is_none() {
                    announce_lane(line, &edited);
                }
                return Ok(edited);
            }
            Updated::NameTaken => return Err(Refusal::name_taken(edited.name.as_str())),
            Updated::Changed => found = find(line, by.organization, &Ref::Id(id)).await?,
            Updated::UidTaken | Updated::NoSuchSchedule => return Err(unexpected()),
        }
    }
    Err(Refusal::concurrent_change("source"))
}

/// The application of a new source. What cannot be one is added to the faults.
async fn find_application(
    line: &Line,
    organization: OrganizationId,
    named: Option<&str>,
    faults: &mut Vec<Fault>,
) -> Result<Option<ApplicationId>, StoreError> {
    let found = match named {
        None => line.ports.applications.built_in_application(organization, ApplicationKind::Default).await?,
        Some(name) => applications::find_named(line, organization, name).await?,
    };
    match found {
        Some(application) if application.kind == ApplicationKind::Operational => {
            faults.push(Fault::new("application_id", "must not be `operational`: it has Everhook's own events"));
            Ok(None)
        }
        Some(application) => Ok(Some(application.id)),
        None => {
            faults.push(no_such_application());
            Ok(None)
        }
    }
}

/// A source without settings. The placeholder for a missing application or name is never stored: the fault is reported.
fn blank(line: &Line, organization: OrganizationId, application: Option<ApplicationId>) -> Source {
    let now = line.ports.clock.now();
    let id = SourceId::from_uuid(line.ports.entropy.uuid(now));
    Source {
        id,
        organization,
        application: application.unwrap_or_else(|| ApplicationId::from_uuid(*id.as_uuid())),
        name: SourceName::parse("unset").expect("a well-formed name"),
        kind: String::new(),
        recipe: RecipeTexts::new(),
        secrets: Vec::new(),
        verify_token: None,
        subscription_id: None,
        app_id: None,
        audience: None,
        public_url: None,
        tolerance: None,
        ip_allowlist: Vec::new(),
        rate_limit: SourceRateLimit::default(),
        dedupe: None,
        forward: true,
        processor: None,
        forward_headers: Vec::new(),
        keep_headers: Vec::new(),
        response: None,
        paused: None,
        awaiting_handshake_until: None,
        created_at: now,
        updated_at: now,
    }
}
