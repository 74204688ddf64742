//! Connections: which profile a provider's user is. Making one releases what waited for it.

use super::super::{Conflict, Fault, Noun, Refusal, audit, refuse_faults};
use crate::{
    ids::{HealthConnectionId, OrganizationId},
    line::{CONNECTIONS_OF_ORGANIZATION_MAX, Line, parking},
    model::{
        AuditAction, Author, Secret,
        health::{
            Connection, EXTERNAL_USER_ID_RULE, ExternalUserId, PERMISSION_BYTES_MAX, PERMISSIONS_MAX, PROFILE_ID_RULE, Permissions,
            ProfileId, Provider, TOKEN_BYTES_MAX, Tokens,
        },
    },
    policy::audit::{Facts, made, removed},
    ports::{Connected, HealthUser},
    processors::{awaited_connection, tokens},
    time::Timestamp,
};

/// How many profiles one user of a provider may be: metrics are written for each.
pub const PROFILES_OF_A_USER_MAX: u32 = 20;

/// A connection that somebody wants, as written.
#[derive(Clone, Debug, Default)]
pub struct NewConnection {
    /// `garmin` or `strava`.
    pub provider: Option<String>,
    /// The user, by the provider's name.
    pub external_user_id: Option<String>,
    /// Whose data it is.
    pub profile_id: Option<String>,
    /// What authorizes requests to the provider.
    pub access_token: Option<Secret<String>>,
    /// What gets the next one.
    pub refresh_token: Option<Secret<String>>,
    /// When the access token ends.
    pub expires_at: Option<Timestamp>,
    /// What the user lets the provider pass on.
    pub permissions: Option<Vec<String>>,
}

/// Makes a connection, or begins the one anew that joins the same user and profile. What waited for it is processed from now on.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says that there are too many.
pub async fn connect(line: &Line, by: &Author, new: NewConnection) -> Result<Connection, Refusal> {
    let connection = check(line, by.organization, new)?;
    let awaited = awaited_connection(connection.provider, &connection.external_user);
    make_room(line, &connection).await?;
    let (id, now) = (connection.id, connection.created_at);
    let entry = audit::entry(line, by, AuditAction::HealthConnectionCreate, connection.id.as_uuid(), made(&facts(&connection)));
    let kept = match line.ports.health_connections.connect(connection, PROFILES_OF_A_USER_MAX, entry).await? {
        Connected::Kept(kept) => *kept,
        Connected::TooMany => {
            let words = format!("the user has reached the limit of {PROFILES_OF_A_USER_MAX} profiles");
            return Err(Refusal::Conflict(Conflict::LimitReached, words));
        }
    };
    if kept.id == id {
        line.connection_counts.take(by.organization, 1, now);
    }
    // Behind the connection: whatever is released finds it. If this fails, the caller asks again, and the same connection is begun anew.
    parking::release(line, by.organization, &awaited).await?;
    Ok(kept)
}

/// Refuses one more connection of an organization that has as many as it may. One that is there already is always begun anew.
async fn make_room(line: &Line, new: &Connection) -> Result<(), Refusal> {
    let (counts, connections) = (&line.connection_counts, &line.ports.health_connections);
    if counts.is_to_be_counted(new.organization, 1, new.created_at) {
        let count = connections.connections_count(new.organization, CONNECTIONS_OF_ORGANIZATION_MAX + 1).await?;
        counts.note_count(new.organization, count, new.created_at);
    }
    if counts.has_room(new.organization, 1) {
        return Ok(());
    }
    let (organization, provider, external_user) = (new.organization, new.provider, new.external_user.clone());
    let of_user = connections.connections_of(HealthUser { organization, provider, external_user }).await?;
    if of_user.iter().any(|connection| connection.profile == new.profile) {
        return Ok(());
    }
    let words = format!("the organization has reached the limit of {CONNECTIONS_OF_ORGANIZATION_MAX} connections");
    Err(Refusal::Conflict(Conflict::LimitReached, words))
}

/// Finds a connection.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has none.
pub async fn find(line: &Line, organization: OrganizationId, id: HealthConnectionId) -> Result<Connection, Refusal> {
    line.ports.health_connections.connection(organization, id).await?.ok_or(Refusal::NotFound(Noun::HealthConnection))
}

/// Deletes a connection. Metrics stay; events that come about the user from now on wait for another connection.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has none.
pub async fn delete(line: &Line, by: &Author, id: HealthConnectionId) -> Result<(), Refusal> {
    let found = find(line, by.organization, id).await?;
    let entry = audit::entry(line, by, AuditAction::HealthConnectionDelete, id.as_uuid(), removed(&facts(&found)));
    let is_deleted = line.ports.health_connections.delete_connection(by.organization, id, entry).await?;
    if is_deleted { Ok(()) } else { Err(Refusal::NotFound(Noun::HealthConnection)) }
}

fn check(line: &Line, organization: OrganizationId, new: NewConnection) -> Result<Connection, Refusal> {
    let (mut faults, now) = (Vec::new(), line.ports.clock.now());
    let id = HealthConnectionId::from_uuid(line.ports.entropy.uuid(now));
    let found = &mut faults;
    let names = || Provider::ALL.map(Provider::as_str).join("`, `");
    let provider =
        required("provider", new.provider.as_deref(), found, |name| Provider::parse(name).ok_or_else(|| format!("must be `{}`", names())));
    let user = required("external_user_id", new.external_user_id.as_deref(), found, |text| {
        ExternalUserId::parse(text).ok_or_else(|| EXTERNAL_USER_ID_RULE.to_owned())
    });
    let profile =
        required("profile_id", new.profile_id.as_deref(), found, |text| ProfileId::parse(text).ok_or_else(|| PROFILE_ID_RULE.to_owned()));
    for (field, token) in [("access_token", &new.access_token), ("refresh_token", &new.refresh_token)] {
        if token.as_ref().is_some_and(|token| !is_token(token.expose())) {
            found.push(Fault::new(field, format!("must be 1 to {TOKEN_BYTES_MAX} printable ASCII characters without blanks")));
        }
    }
    for (field, is_given) in [("refresh_token", new.refresh_token.is_some()), ("expires_at", new.expires_at.is_some())] {
        if is_given && new.access_token.is_none() {
            found.push(Fault::new(field, "requires `access_token`"));
        }
    }
    if let Some(permissions) = &new.permissions {
        check_permissions(permissions, found);
    }
    refuse_faults(faults)?;
    let (Some(provider), Some(external_user), Some(profile)) = (provider, user, profile) else { return Err(super::super::unexpected()) };
    let tokens = new.access_token.map(|access| {
        let user = HealthUser { organization, provider, external_user: external_user.clone() };
        tokens::seal(&*line.ports.vault, &user, &Tokens { access, refresh: new.refresh_token, expires_at: new.expires_at })
    });
    let permissions = new.permissions.map(|names| Permissions::of(names.iter().map(String::as_str)));
    Ok(Connection {
        id,
        organization,
        provider,
        external_user,
        profile,
        tokens,
        permissions,
        is_connected: true,
        reauthorization_needed_since: None,
        created_at: now,
        updated_at: now,
    })
}

fn required<T>(
    field: &'static str,
    text: Option<&str>,
    faults: &mut Vec<Fault>,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let read = text.map_or_else(|| Err("is required".to_owned()), read);
    read.map_err(|reason| faults.push(Fault::new(field, reason))).ok()
}

fn is_token(text: &str) -> bool {
    (1..=TOKEN_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn check_permissions(names: &[String], faults: &mut Vec<Fault>) {
    let is_good = |name: &String| (1..=PERMISSION_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    if names.len() > PERMISSIONS_MAX || !names.iter().all(is_good) {
        let reason = format!("must be at most {PERMISSIONS_MAX} texts of 1 to {PERMISSION_BYTES_MAX} bytes without control characters");
        faults.push(Fault::new("permissions", reason));
    }
}

/// A connection as the audit log shows it: nothing that names the person, because it outlives the connection.
fn facts(connection: &Connection) -> Facts {
    Facts::default()
        .plain("provider", connection.provider.as_str())
        .plain("has_tokens", connection.tokens.is_some())
        .plain("is_connected", connection.is_connected)
}
