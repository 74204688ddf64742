//! An endpoint's secret: chosen, shown to its owner, rotated.

use std::time::Duration;

use super::{EndpointAction, find, style_misfit, update};
use crate::{
    ids::{EndpointId, OrganizationId, Ref},
    line::Line,
    manage::{Conflict, Fault, Refusal},
    model::{AuditAction, Author, Endpoint, SealedSecrets, Secret, SigningKey},
    shape::open_key,
    signing,
    time::Timestamp,
};

/// The longest grace in which two secrets sign: a month, past which a forgotten old secret is a risk.
const GRACE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// A request to replace an endpoint's secret.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// How long the old one signs beside the new.
    pub grace: Duration,
    /// The new one; made, of the old one's kind, if absent.
    pub secret: Option<Secret<String>>,
}

/// What an owner sees of an endpoint's secrets.
#[derive(Debug)]
pub struct Revealed {
    /// Signs from now on.
    pub current: SigningKey,
    /// Signs beside it until the instant given.
    pub previous: Option<(SigningKey, Timestamp)>,
}

/// Shows an endpoint's secrets to its owner.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such endpoint.
pub async fn reveal(line: &Line, organization: OrganizationId, of: &Ref<EndpointId>) -> Result<Revealed, Refusal> {
    let endpoint = find(line, organization, of).await?;
    opened(line, &endpoint)
}

/// What kind of key signs an endpoint's requests: `hmac` or `ed25519`.
///
/// # Errors
/// [`Refusal::Store`] if the secret does not open.
pub fn key_kind(line: &Line, endpoint: &Endpoint) -> Result<&'static str, Refusal> {
    open_current(line, endpoint).map(|key| kind_of(&key))
}

/// Replaces the secret. Both sign until the grace ends; two is the most there can be.
///
/// # Errors
/// [`Refusal::Conflict`] while an earlier rotation's grace lasts.
pub async fn rotate_secret(line: &Line, by: &Author, of: &Ref<EndpointId>, rotation: Rotation) -> Result<Revealed, Refusal> {
    let endpoint = find(line, by.organization, of).await?;
    let new = check(line, &rotation, &open_current(line, &endpoint)?)?;
    let rotated = update(line, EndpointAction { by, action: AuditAction::EndpointRotateSecret }, endpoint, |endpoint, now| {
        if let Some((_, until)) = &endpoint.secrets.previous
            && *until > now
        {
            return Err(Refusal::Conflict(
                Conflict::RotationInProgress,
                format!("a rotation is already in progress: the old secret signs until {until}"),
            ));
        }
        if !signing::style_fits(endpoint.signature_style, &new) {
            return Err(Refusal::Invalid(vec![style_misfit()]));
        }
        let sealed = line.ports.vault.seal(endpoint.id.as_uuid(), new.text().expose().as_bytes());
        let old = std::mem::replace(&mut endpoint.secrets.current, sealed);
        endpoint.secrets.previous = (!rotation.grace.is_zero()).then(|| (old, now + rotation.grace));
        Ok(())
    });
    opened(line, &rotated.await?)
}

/// The secret that a new endpoint gets: the one that is given, or a new one of the kind that is named.
pub(super) fn choose(line: &Line, given: Option<&Secret<String>>, kind: Option<&str>, faults: &mut Vec<Fault>) -> Option<SigningKey> {
    if !matches!(kind, None | Some("hmac" | "ed25519")) {
        faults.push(Fault::new("signature_key", "must be `hmac` or `ed25519`"));
        return None;
    }
    let Some(text) = given else {
        let random = line.ports.entropy.secret_bytes();
        return Some(if kind == Some("ed25519") { SigningKey::ed25519_from_random(random) } else { SigningKey::hmac_from_random(random) });
    };
    match SigningKey::parse(text.expose()) {
        Err(fault) => {
            faults.push(Fault::new("secret", fault.to_string()));
            None
        }
        Ok(key) if kind.is_none_or(|kind| kind == kind_of(&key)) => Some(key),
        Ok(key) => {
            faults.push(Fault::new("signature_key", format!("does not match the secret, which is `{}`", kind_of(&key))));
            None
        }
    }
}

/// The secret that signs now, opened.
pub(super) fn open_current(line: &Line, endpoint: &Endpoint) -> Result<SigningKey, Refusal> {
    opened(line, endpoint).map(|revealed| revealed.current)
}

fn opened(line: &Line, endpoint: &Endpoint) -> Result<Revealed, Refusal> {
    let open = |sealed| open_key(endpoint.id, sealed, &*line.ports.vault);
    let SealedSecrets { current, previous } = &endpoint.secrets;
    let now = line.ports.clock.now();
    let previous = match previous {
        Some((sealed, until)) if *until > now => Some((open(sealed)?, *until)),
        _ => None,
    };
    Ok(Revealed { current: open(current)?, previous })
}

fn check(line: &Line, rotation: &Rotation, current: &SigningKey) -> Result<SigningKey, Refusal> {
    let mut faults = Vec::new();
    if rotation.grace > GRACE_MAX {
        faults.push(Fault::new("grace_seconds", format!("must be at most {} (30 days)", GRACE_MAX.as_secs())));
    }
    let kind = rotation.secret.is_none().then(|| kind_of(current));
    match choose(line, rotation.secret.as_ref(), kind, &mut faults) {
        Some(key) if faults.is_empty() => Ok(key),
        _ => Err(Refusal::Invalid(faults)),
    }
}

const fn kind_of(key: &SigningKey) -> &'static str {
    match key {
        SigningKey::Hmac { .. } => "hmac",
        SigningKey::Ed25519 { .. } => "ed25519",
    }
}
