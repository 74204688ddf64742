//! API keys. The text is made here, shown once, and kept only as a hash.

use aws_lc_rs::digest;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};

use super::{Conflict, Fault, Noun, Refusal, applications, audit, check_name, no_such_application, refuse_faults};
use crate::{
    ids::{ApiKeyId, ApplicationId, OrganizationId},
    line::Line,
    model::{ApiKey, ApiKeyHash, AuditAction, Author, Cursor, PageRequest, Scope, Scopes, Secret},
    policy::audit::{made, removed},
    ports::{Created, StoreError},
    time::Timestamp,
};

/// What every key begins with, so that a leaked one is recognized.
pub const PREFIX: &str = "eh_";

/// How many characters of a key behind [`PREFIX`] are kept and shown. Of the shortest key that an operator may choose, 16 stay unknown: 96 bits.
const SHOWN_CHARS: usize = 4;

/// How many keys an organization can have, the expired ones included: each service and each person has one, and those that are no longer used
/// are revoked.
pub const API_KEYS_MAX: u32 = 1_000;

/// How many keys are examined in one read.
const KEYS_PAGE: u32 = 250;

/// A key that somebody wants.
#[derive(Clone, Debug, Default)]
pub struct NewApiKey {
    /// Shown to people.
    pub name: Option<String>,
    /// The names of its scopes.
    pub scopes: Vec<String>,
    /// The only application that it reaches, by id or uid; all of its organization's if absent.
    pub application: Option<String>,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
}

/// Makes a key. Only an admin may grant `admin`.
///
/// # Errors
/// [`Refusal::Invalid`] lists what is not acceptable.
pub async fn create(line: &Line, by: &Author, granted_by: Scopes, new: NewApiKey) -> Result<(ApiKey, Secret<String>), Refusal> {
    let now = line.ports.clock.now();
    let mut faults = Vec::new();
    let (name, scopes) = check(&new, granted_by, now, &mut faults);
    let application = find_application(line, by.organization, &new, scopes, &mut faults).await?;
    refuse_faults(faults)?;
    let text = make_text(line);
    let key = ApiKey {
        id: ApiKeyId::from_uuid(line.ports.entropy.uuid(now)),
        organization: by.organization,
        application,
        name,
        prefix: prefix(text.expose()),
        scopes,
        created_at: now,
        expires_at: new.expires_at,
        last_used_at: None,
    };
    match store(line, by, key.clone(), hash(text.expose()), API_KEYS_MAX).await? {
        Created::Created => Ok((key, text)),
        Created::TooMany => Err(Refusal::Conflict(
            Conflict::LimitReached,
            format!("the organization has reached the limit of {API_KEYS_MAX} API keys: revoke one"),
        )),
        Created::NoSuchApplication => Err(Refusal::Invalid(vec![no_such_application()])),
        _ => Err(Refusal::Conflict(Conflict::ConcurrentChange, "this key already exists: try again".to_owned())),
    }
}

/// Revokes a key: it is refused from now on. Only an admin may revoke an `admin` key, which is the server's and not the organization's.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such key; [`Refusal::Forbidden`] if it may do more than the one who revokes it.
pub async fn revoke(line: &Line, by: &Author, revoked_by: Scopes, id: ApiKeyId) -> Result<(), Refusal> {
    let key = find(line, by.organization, id).await?;
    // The scopes of a key never change, so that what is read here still holds when it is revoked.
    if key.scopes.allow(Scope::Admin) && !revoked_by.allow(Scope::Admin) {
        return Err(Refusal::Forbidden("only an admin key can revoke an `admin` key".to_owned()));
    }
    let entry = audit::entry(line, by, AuditAction::ApiKeyRevoke, id.as_uuid(), removed(&audit::of_api_key(&key)));
    let revoked = line.ports.api_keys.revoke_api_key(by.organization, id, entry).await?;
    line.publishers.forget_key(id).await;
    if revoked { Ok(()) } else { Err(Refusal::NotFound(Noun::ApiKey)) }
}

/// Applies that keys were revoked with what they reached: they admit nobody while the store is away, either.
pub(super) async fn forget_revoked(line: &Line, keys: &[ApiKeyId]) {
    for id in keys {
        line.publishers.forget_key(*id).await;
    }
}

/// Finds a key's record.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such key.
pub async fn find(line: &Line, organization: OrganizationId, id: ApiKeyId) -> Result<ApiKey, Refusal> {
    let found = line.ports.api_keys.api_key_by_id(organization, id).await?;
    found.ok_or(Refusal::NotFound(Noun::ApiKey))
}

/// Sees to it that this very key is an admin key of the server; false if it is in use as a key that may do less.
///
/// # Errors
/// [`StoreError`] if the store cannot be reached.
pub async fn ensure_admin(line: &Line, organization: OrganizationId, text: &Secret<String>) -> Result<bool, StoreError> {
    let hash = hash(text.expose());
    if let Some(known) = line.ports.api_keys.api_key(&hash).await? {
        return Ok(is_good_admin(&known, line.ports.clock.now()));
    }
    let record = admin_record(line, organization, "set by the operator", text);
    match store(line, &Author::server(organization), record, hash, u32::MAX).await? {
        Created::Created => Ok(true),
        _ => Err(StoreError::Conflict),
    }
}

/// Makes an admin key if the server has none that is good; `None` if it has.
///
/// # Errors
/// [`StoreError`] if the store cannot be reached.
pub async fn first_admin(line: &Line, organization: OrganizationId) -> Result<Option<Secret<String>>, StoreError> {
    let now = line.ports.clock.now();
    if has_key(line, organization, |key| is_good_admin(key, now)).await? {
        return Ok(None);
    }
    let text = make_text(line);
    let record = admin_record(line, organization, "first admin key", &text);
    match store(line, &Author::server(organization), record, hash(text.expose()), u32::MAX).await? {
        Created::Created => Ok(Some(text)),
        _ => Err(StoreError::Conflict),
    }
}

/// The hash under which a key is kept.
pub fn hash(text: &str) -> ApiKeyHash {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    ApiKeyHash(digest.as_ref().try_into().expect("SHA-256 is 32 bytes long"))
}

/// Whether a text that the operator chose may be an admin key: `eh_` and 20 to 100 of `[A-Za-z0-9_-]`.
pub fn is_well_formed(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|rest| {
        (20..=100).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    })
}

fn check(new: &NewApiKey, granted_by: Scopes, now: Timestamp, faults: &mut Vec<Fault>) -> (String, Scopes) {
    let name = match new.name.clone().map(check_name) {
        None => Err("is required".to_owned()),
        Some(checked) => checked,
    };
    let name = name.unwrap_or_else(|reason| {
        faults.push(Fault::new("name", reason));
        String::new()
    });
    if new.scopes.is_empty() {
        faults.push(Fault::new("scopes", "must name at least one of publish, read, manage, admin"));
    }
    let mut scopes = Vec::new();
    for scope in &new.scopes {
        match Scope::parse(scope) {
            None => faults.push(Fault::new("scopes", format!("`{}` is not one of publish, read, manage, admin", scope.escape_debug()))),
            Some(Scope::Admin) if !granted_by.allow(Scope::Admin) => {
                faults.push(Fault::new("scopes", "only an admin key can grant `admin`"));
            }
            Some(scope) => scopes.push(scope),
        }
    }
    if new.expires_at.is_some_and(|at| at <= now) {
        faults.push(Fault::new("expires_at", "must be in the future"));
    }
    (name, scopes.into_iter().collect())
}

/// The application that a key is limited to. An admin key acts in every organization, and is limited to none.
async fn find_application(
    line: &Line,
    organization: OrganizationId,
    new: &NewApiKey,
    scopes: Scopes,
    faults: &mut Vec<Fault>,
) -> Result<Option<ApplicationId>, StoreError> {
    let Some(name) = &new.application else { return Ok(None) };
    if scopes.allow(Scope::Admin) {
        faults.push(Fault::new("application_id", "cannot be given for a key with the scope `admin`"));
        return Ok(None);
    }
    let found = applications::find_named(line, organization, name).await?;
    if found.is_none() {
        faults.push(no_such_application());
    }
    Ok(found.map(|application| application.id))
}

/// What is kept and shown of a key's text.
fn prefix(text: &str) -> String {
    text.chars().take(PREFIX.len() + SHOWN_CHARS).collect()
}

async fn store(line: &Line, by: &Author, key: ApiKey, hash: ApiKeyHash, count_max: u32) -> Result<Created, StoreError> {
    let entry = audit::entry(line, by, AuditAction::ApiKeyCreate, key.id.as_uuid(), made(&audit::of_api_key(&key)));
    line.ports.api_keys.create_api_key(key, hash, count_max, entry).await
}

fn make_text(line: &Line) -> Secret<String> {
    Secret::new(format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(line.ports.entropy.secret_bytes())))
}

fn admin_record(line: &Line, organization: OrganizationId, name: &str, text: &Secret<String>) -> ApiKey {
    let now = line.ports.clock.now();
    ApiKey {
        id: ApiKeyId::from_uuid(line.ports.entropy.uuid(now)),
        organization,
        application: None,
        name: name.to_owned(),
        prefix: prefix(text.expose()),
        scopes: [Scope::Admin].into_iter().collect(),
        created_at: now,
        expires_at: None,
        last_used_at: None,
    }
}

fn is_good_admin(key: &ApiKey, now: Timestamp) -> bool {
    key.scopes.allow(Scope::Admin) && key.expires_at.is_none_or(|at| at > now)
}

async fn has_key(line: &Line, organization: OrganizationId, is_meant: impl Fn(&ApiKey) -> bool) -> Result<bool, StoreError> {
    let mut cursor = Cursor::Newest;
    loop {
        let page = line.ports.api_keys.api_keys(organization, PageRequest { limit: KEYS_PAGE, cursor }).await?;
        if page.rows.iter().any(&is_meant) {
            return Ok(true);
        }
        // Every page ends at an older key than the one before, so that this ends with the list.
        match page.next {
            Some(next) => cursor = next,
            None => return Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    #[test]
    fn an_operators_key_is_eh_and_20_to_100_plain_characters() {
        let good = |rest: &str| is_well_formed(&format!("eh_{rest}"));
        assert!(good(&"a".repeat(20)) && good(&"Z9_-".repeat(25)));
        assert!(!good(&"a".repeat(19)) && !good(&"a".repeat(101)) && !good(&format!("{}!", "a".repeat(30))));
        assert!(!is_well_formed(&"a".repeat(40)));
    }

    #[test]
    fn everything_wrong_with_a_new_key_is_said_at_once() {
        let manage = [Scope::Manage].into_iter().collect();
        let scopes = vec!["admin".into(), "root".into()];
        let faults = faults(&NewApiKey { scopes, expires_at: Some(NOW), ..NewApiKey::default() }, manage);
        let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(fields, ["name", "scopes", "scopes", "expires_at"]);
    }

    #[test]
    fn only_an_admin_grants_admin() {
        let new = NewApiKey { name: Some("ci".into()), scopes: vec!["admin".into()], ..NewApiKey::default() };
        assert!(faults(&new, [Scope::Admin].into_iter().collect()).is_empty());
        assert!(!faults(&new, [Scope::Manage].into_iter().collect()).is_empty());
    }

    #[test]
    fn four_characters_of_a_key_are_shown() {
        assert_eq!(prefix("eh_abcdefghijklmnopqrst"), "eh_abcd");
    }

    fn faults(new: &NewApiKey, granted_by: Scopes) -> Vec<Fault> {
        let mut faults = Vec::new();
        check(new, granted_by, NOW, &mut faults);
        faults
    }
}
