//! The rotation of the sealing key: its state, stopping it and resuming it. Called by the API; carried out by `jobs::resealing`.

use uuid::Uuid;

use super::{Refusal, audit};
use crate::{
    line::Line,
    model::{AuditAction, Author, SealKeyId, Sealing},
    policy::audit::{Facts, changed},
    ports::StoreError,
};

/// The state of sealing, on this node and in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealingStatus {
    /// In the store.
    pub sealing: Sealing,
    /// The key that this node is to seal with: another than the store's while other nodes are awaited.
    pub wanted: SealKeyId,
    /// The nodes that do not seal with the store's key yet.
    pub awaited: Vec<String>,
}

/// Its state; `None` in a store that no server has started on.
///
/// # Errors
/// [`StoreError`] if the store cannot be reached.
pub async fn find(line: &Line) -> Result<Option<SealingStatus>, StoreError> {
    let Some(sealing) = line.ports.sealing.sealing().await? else { return Ok(None) };
    let wanted = line.ports.vault.keys().wanted;
    let awaited = line.ports.sealing.sealing_otherwise(if sealing.rotation.is_some() { sealing.key } else { wanted }).await?;
    Ok(Some(SealingStatus { sealing, wanted, awaited }))
}

/// Stops a rotation, or resumes it. Repeating it changes nothing.
///
/// # Errors
/// [`StoreError`] if the store cannot be reached.
pub async fn set_cancelled(line: &Line, by: &Author, is_cancelled: bool) -> Result<Option<SealingStatus>, Refusal> {
    let action = if is_cancelled { AuditAction::SealingCancel } else { AuditAction::SealingResume };
    let facts = |is_cancelled: bool| Facts::default().plain("is_cancelled", is_cancelled);
    let entry = audit::entry(line, by, action, &Uuid::nil(), changed(&facts(!is_cancelled), &facts(is_cancelled)));
    line.ports.sealing.set_rotation_cancelled(is_cancelled, entry).await?;
    Ok(find(line).await?)
}
