//! What signs the requests to an application: made before its first call, shown to its owner, rotated.

use std::time::Duration;

use super::find_application;
use crate::{
    ids::{ApplicationId, OrganizationId, Ref},
    line::Line,
    manage::{CHANGE_ROUNDS_MAX, Conflict, Fault, Refusal, audit, endpoints::Revealed},
    model::{AuditAction, AuditNote, Author, SealedSecret, SealedSecrets, SigningKey},
    ports::{SecretsChange, StoreError},
};

/// The longest grace in which both secrets are good: a month, past which a forgotten old secret is a risk.
const GRACE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Shows what signs the requests to an application. It is made if it was never needed.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such application.
pub async fn reveal(line: &Line, by: &Author, of: &Ref<ApplicationId>) -> Result<Revealed, Refusal> {
    let application = find_application(line, by.organization, of).await?;
    let secrets = ensure(line, by, application.id).await?;
    opened(line, application.id, &secrets)
}

/// Replaces what signs. While the grace lasts, `X-Platform-Signature` is made with the old one and `X-Platform-Signature-Next` with the new one.
///
/// # Errors
/// [`Refusal::Conflict`] while an earlier rotation's grace lasts.
pub async fn rotate_secret(line: &Line, by: &Author, of: &Ref<ApplicationId>, grace: Duration) -> Result<Revealed, Refusal> {
    let application = find_application(line, by.organization, of).await?.id;
    if grace > GRACE_MAX {
        let reason = format!("must be at most {} (30 days)", GRACE_MAX.as_secs());
        return Err(Refusal::Invalid(vec![Fault::new("grace_seconds", reason)]));
    }
    for _ in 0..CHANGE_ROUNDS_MAX {
        let read = ensure(line, by, application).await?;
        let now = line.ports.clock.now();
        if let Some((_, until)) = read.previous.as_ref().filter(|(_, until)| *until > now) {
            let words = format!("a rotation is already in progress: the old secret signs until {until}");
            return Err(Refusal::Conflict(Conflict::RotationInProgress, words));
        }
        let current = make(line, application);
        let previous = (!grace.is_zero()).then(|| (read.current.clone(), now + grace));
        let secrets = SealedSecrets { current, previous };
        if put(line, by, AuditAction::ApplicationRotateSecret, application, Some(read), secrets.clone()).await? {
            return opened(line, application, &secrets);
        }
    }
    Err(Refusal::concurrent_change("secret"))
}

/// What signs, made if it is not there yet.
pub(super) async fn ensure(line: &Line, by: &Author, application: ApplicationId) -> Result<SealedSecrets, Refusal> {
    for _ in 0..CHANGE_ROUNDS_MAX {
        if let Some(secrets) = line.ports.manifests.application_secrets(application).await? {
            return Ok(secrets);
        }
        let secrets = SealedSecrets { current: make(line, application), previous: None };
        if put(line, by, AuditAction::ApplicationCreateSecret, application, None, secrets.clone()).await? {
            return Ok(secrets);
        }
        find_application(line, by.organization, &Ref::Id(application)).await?;
    }
    Err(Refusal::concurrent_change("secret"))
}

fn make(line: &Line, application: ApplicationId) -> SealedSecret {
    let key = SigningKey::hmac_from_random(line.ports.entropy.secret_bytes());
    line.ports.vault.seal(application.as_uuid(), key.text().expose().as_bytes())
}

async fn put(
    line: &Line,
    by: &Author,
    action: AuditAction,
    application: ApplicationId,
    read: Option<SealedSecrets>,
    secrets: SealedSecrets,
) -> Result<bool, Refusal> {
    let entry = audit::entry(line, by, action, application.as_uuid(), AuditNote::default());
    let organization: OrganizationId = by.organization;
    let is_put = line.ports.manifests.put_application_secrets(SecretsChange { organization, application, read, secrets }, entry).await?;
    if is_put {
        line.calls.forget(application);
    }
    Ok(is_put)
}

fn opened(line: &Line, application: ApplicationId, secrets: &SealedSecrets) -> Result<Revealed, Refusal> {
    let open = |sealed: &SealedSecret| -> Result<SigningKey, StoreError> {
        let plain = line.ports.vault.open(application.as_uuid(), sealed).map_err(StoreError::corrupt)?;
        let text = String::from_utf8(plain).map_err(StoreError::corrupt)?;
        SigningKey::parse(&text).map_err(StoreError::corrupt)
    };
    let now = line.ports.clock.now();
    let previous = match &secrets.previous {
        Some((sealed, until)) if *until > now => Some((open(sealed)?, *until)),
        _ => None,
    };
    Ok(Revealed { current: open(&secrets.current)?, previous })
}
