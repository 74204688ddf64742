//! Erasing one person: the profile's metrics and connections, and the received events about the users that only this profile was connected with. Or, where
//! nobody is connected, the received events about one user of a provider.
//!
//! Events know their source and not its kind. What came through a source that was deleted, or has another kind now, is found by the audit log, which says of
//! every source what kinds it had.
//!
//! Connections go last: whatever stops before that can be asked for again and finds what is left.

use std::collections::BTreeSet;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::Value;
use uuid::Uuid;

use super::super::{Refusal, audit, erasing::erase_event};
use crate::{
    ids::{OrganizationId, SourceId},
    line::Line,
    model::{
        AuditAction, AuditEntry, Author, Cursor, PageRequest,
        health::{Connection, ExternalUserId, ProfileId, Provider},
    },
    policy::audit::{Facts, removed},
    ports::{AuditFilter, ConnectionFilter, HealthUser, ReceivedFilter, StoreError, TimeRange},
};

/// How many rows one step reads or deletes.
const ROWS_A_STEP: u32 = 250;

/// What was erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasedProfile {
    /// Connections.
    pub connections: u64,
    /// Metrics.
    pub metrics: u64,
    /// Received events.
    pub events: u64,
}

/// Erases a profile. Doing it again finds nothing more and is no fault: what is received meanwhile about a user whom nobody is connected with is found.
///
/// # Errors
/// [`Refusal`] if the store fails: call again.
pub async fn erase_profile(line: &Line, by: &Author, profile: &ProfileId) -> Result<ErasedProfile, Refusal> {
    let mut erased = ErasedProfile::default();
    let users = users_of_profile_alone(line, by.organization, profile).await?;
    let sources = Sources::find(line, by.organization, users.iter().map(|(provider, _)| *provider)).await?;
    for user in &users {
        erased.events += erase_events(line, by, &sources, user).await?;
    }
    erased.metrics += erase_metrics(line, by.organization, profile).await?;
    let hash: String = digest(&SHA256, profile.as_str().as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let note = removed(&Facts::default().plain("profile_id_sha256", hash));
    let entry = audit::entry(line, by, AuditAction::HealthProfileErase, by.organization.as_uuid(), note);
    let gone = line.ports.health_metrics.erase_connections(by.organization, profile.clone(), entry).await?;
    erased.connections += u64::from(gone.connections);
    // What was written or received while the connections were still there.
    erased.metrics += erase_metrics(line, by.organization, profile).await?;
    for user in &users {
        erased.events += erase_events(line, by, &sources, user).await?;
    }
    Ok(erased)
}

/// Erases what was received about a user of a provider, whoever is connected with the user, and returns how many events that were. Connections and metrics
/// stay: they are of profiles. Doing it again finds what was received meanwhile.
///
/// # Errors
/// [`Refusal`] if the store fails: call again.
pub async fn erase_user(line: &Line, by: &Author, provider: Provider, user: ExternalUserId) -> Result<u64, Refusal> {
    let sources = Sources::find(line, by.organization, [provider].into_iter()).await?;
    erase_events(line, by, &sources, &(provider, user)).await
}

/// The users whom this profile is connected with and no other.
async fn users_of_profile_alone(
    line: &Line,
    organization: OrganizationId,
    profile: &ProfileId,
) -> Result<Vec<(Provider, ExternalUserId)>, StoreError> {
    let (mut users, mut cursor) = (Vec::new(), Some(Cursor::Newest));
    while let Some(at) = cursor {
        let filter = ConnectionFilter { profile: Some(profile.clone()), ..ConnectionFilter::default() };
        let page = line.ports.health_connections.connections(organization, filter, PageRequest { limit: ROWS_A_STEP, cursor: at }).await?;
        for Connection { provider, external_user, .. } in page.rows {
            let user = HealthUser { organization, provider, external_user: external_user.clone() };
            let of_user = line.ports.health_connections.connections_of(user).await?;
            if of_user.iter().all(|connection| connection.profile == *profile) {
                users.push((provider, external_user));
            }
        }
        cursor = page.next;
    }
    Ok(users)
}

async fn erase_metrics(line: &Line, organization: OrganizationId, profile: &ProfileId) -> Result<u64, StoreError> {
    let mut erased = 0;
    loop {
        let step = line.ports.health_metrics.erase_metrics(organization, profile.clone(), ROWS_A_STEP).await?;
        erased += u64::from(step);
        if step < ROWS_A_STEP {
            return Ok(erased);
        }
    }
}

/// Erases what was received about a user, through every source that is or was of the provider.
async fn erase_events(line: &Line, by: &Author, sources: &Sources, (provider, user): &(Provider, ExternalUserId)) -> Result<u64, Refusal> {
    let mut erased = 0;
    for source in sources.of(*provider) {
        let filter =
            ReceivedFilter { source, event_type: None, external_user: Some(user.as_str().to_owned()), accepted: TimeRange::default() };
        loop {
            let first = PageRequest { limit: ROWS_A_STEP, cursor: Cursor::Newest };
            // An event that was erased names no user any more, and is not found again.
            let page = line.ports.history.received_events(by.organization, filter.clone(), first).await?;
            if page.rows.is_empty() {
                break;
            }
            for received in page.rows {
                erase_event(line, by, received.event.id).await?;
                erased += 1;
            }
        }
    }
    Ok(erased)
}

/// The sources of an organization that are of a health provider, or once were.
struct Sources(BTreeSet<(Provider, SourceId)>);

impl Sources {
    /// Looks for them among those that are there, and in the audit log. Nothing is read where no provider is asked about.
    async fn find(line: &Line, organization: OrganizationId, providers: impl Iterator<Item = Provider>) -> Result<Self, StoreError> {
        let providers: BTreeSet<Provider> = providers.collect();
        let mut found = BTreeSet::new();
        if providers.is_empty() {
            return Ok(Self(found));
        }
        let of_kind = |kind: &str| providers.iter().copied().find(|provider| provider.as_str() == kind);
        let mut cursor = Some(Cursor::Newest);
        while let Some(at) = cursor {
            let page = line.ports.sources.sources(organization, None, PageRequest { limit: ROWS_A_STEP, cursor: at }).await?;
            found.extend(page.rows.iter().filter_map(|source| Some((of_kind(&source.kind)?, source.id))));
            cursor = page.next;
        }
        for action in [AuditAction::SourceCreate, AuditAction::SourceUpdate, AuditAction::SourceDelete] {
            let (filter, mut cursor) = (AuditFilter { action: Some(action), ..AuditFilter::default() }, Some(Cursor::Newest));
            while let Some(at) = cursor {
                let page = line.ports.audit_log.audit_log(organization, filter, PageRequest { limit: ROWS_A_STEP, cursor: at }).await?;
                for entry in &page.rows {
                    let source = SourceId::from_uuid(entry.resource);
                    found.extend(kinds_in(entry).iter().filter_map(|kind| Some((of_kind(kind)?, source))));
                }
                cursor = page.next;
            }
        }
        Ok(Self(found))
    }

    fn of(&self, provider: Provider) -> impl Iterator<Item = SourceId> {
        let range = (provider, SourceId::from_uuid(Uuid::nil()))..=(provider, SourceId::from_uuid(Uuid::max()));
        self.0.range(range).map(|(_, source)| *source)
    }
}

/// The kinds that an entry says a source had, before and after the change.
fn kinds_in(entry: &AuditEntry) -> Vec<String> {
    let kind = |side: &Option<String>| {
        let facts: Value = serde_json::from_str(side.as_deref()?).ok()?;
        facts.get("kind")?.as_str().map(ToOwned::to_owned)
    };
    [kind(&entry.note.before), kind(&entry.note.after)].into_iter().flatten().collect()
}
