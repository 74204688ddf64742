//! A source in a person's hand: paused, resumed, made to take the key of a handshake.

use std::time::Duration;

use super::{find, update};
use crate::{
    ids::{Ref, SourceId},
    inbound::{SECRET_BYTES_MAX, SECRETS_MAX},
    line::{Line, parking},
    manage::{Conflict, Fault, Refusal},
    model::{AuditAction, Author, PauseMode, Secret, Source, SourcePause},
    sources,
};

/// How long a key that comes in a handshake is taken after a person asked for it: long enough to click through a provider's page, and short enough that
/// nobody else comes by.
pub const HANDSHAKE_AWAITED_FOR: Duration = Duration::from_secs(10 * 60);

/// What became of a key that came in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Captured {
    /// It is the source's newest secret.
    Kept,
    /// Nobody asked for it, or it came too late: nothing was changed.
    NotAwaited,
}

/// Pauses a source, or changes what a pause means. `mode` is `hold` if absent.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such source, [`Refusal::Invalid`] if the mode is none.
pub async fn pause(line: &Line, by: &Author, of: &Ref<SourceId>, mode: Option<&str>) -> Result<Source, Refusal> {
    let found = find(line, by.organization, of).await?;
    let wrong = || Refusal::Invalid(vec![Fault::new("mode", "must be `hold` or `refuse`")]);
    let mode = mode.map_or(Some(PauseMode::default()), PauseMode::parse).ok_or_else(wrong)?;
    if found.paused.is_some_and(|pause| pause.mode == mode) {
        return Ok(found);
    }
    let now = line.ports.clock.now();
    update(line, by, AuditAction::SourcePause, &Ref::Id(found.id), |source| {
        // One that is paused already is paused since then.
        let at = source.paused.map_or(now, |pause| pause.at);
        Ok(Source { paused: Some(SourcePause { at, mode }), ..source })
    })
    .await
}

/// Resumes a source. What came in meanwhile is delivered.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such source.
pub async fn resume(line: &Line, by: &Author, of: &Ref<SourceId>) -> Result<Source, Refusal> {
    let source = find(line, by.organization, of).await?;
    if source.paused.is_none() {
        return Ok(source);
    }
    // Before, because nobody could ask for it again if this failed behind the change; and after, because the pause may have been another by then.
    release_held(line, &source).await?;
    let mut ended = source.clone();
    let resumed = update(line, by, AuditAction::SourceResume, &Ref::Id(source.id), |source| {
        ended = source.clone();
        Ok(Source { paused: None, ..source })
    })
    .await?;
    release_held(line, &ended).await?;
    Ok(resumed)
}

/// Lets the deliveries go that were made during a source's pause.
pub(super) async fn release_held(line: &Line, source: &Source) -> Result<(), Refusal> {
    if let Some(held) = source.held_by_pause() {
        parking::release(line, source.organization, &held).await?;
    }
    Ok(())
}

/// Takes the key that the provider sends in its handshake, for ten minutes from now.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such source, [`Refusal::Conflict`] if its kind sends no key.
pub async fn await_handshake(line: &Line, by: &Author, of: &Ref<SourceId>) -> Result<Source, Refusal> {
    let found = find(line, by.organization, of).await?;
    if !sources::takes_key(&found.kind, &found.recipe) {
        let words = format!("the kind `{}` does not send a key in its handshake: set `secrets` instead", found.kind);
        return Err(Refusal::Conflict(Conflict::NoHandshakeKey, words));
    }
    let until = line.ports.clock.now() + HANDSHAKE_AWAITED_FOR;
    let arm = |source| Ok(Source { awaiting_handshake_until: Some(until), ..source });
    update(line, by, AuditAction::SourceAwaitHandshake, &Ref::Id(found.id), arm).await
}

/// Keeps a key that came in a handshake as the newest secret, if it is awaited. Called by the door.
///
/// # Errors
/// [`Refusal`] if the source is gone, the key is not acceptable, or the store cannot be written to.
pub async fn capture_key(line: &Line, source: &Source, key: &Secret<String>) -> Result<Captured, Refusal> {
    let text = key.expose();
    if text.trim().is_empty() || text.len() > SECRET_BYTES_MAX {
        return Err(Refusal::Invalid(vec![Fault::new("secrets", format!("must have 1 to {SECRET_BYTES_MAX} bytes"))]));
    }
    let (by, of) = (Author::server(source.organization), Ref::Id(source.id));
    if !find(line, by.organization, &of).await?.is_awaiting_handshake(line.ports.clock.now()) {
        return Ok(Captured::NotAwaited);
    }
    let sealed = line.ports.vault.seal(source.id.as_uuid(), text.as_bytes());
    let kept = update(line, &by, AuditAction::SourceCaptureKey, &of, |mut source| {
        if !source.is_awaiting_handshake(line.ports.clock.now()) {
            return Err(Refusal::Conflict(
                Conflict::ConcurrentChange,
                "another key was captured in the meantime; send the request again".to_owned(),
            ));
        }
        // Earlier ones stay: a provider may have several webhooks at one URL, each with a key of its own.
        source.secrets.truncate(SECRETS_MAX - 1);
        source.secrets.insert(0, sealed.clone());
        source.awaiting_handshake_until = None;
        Ok(source)
    });
    match kept.await {
        Ok(_) => Ok(Captured::Kept),
        Err(Refusal::Conflict(..)) => Ok(Captured::NotAwaited),
        Err(refusal) => Err(refusal),
    }
}
