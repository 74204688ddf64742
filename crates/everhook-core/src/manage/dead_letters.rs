//! Dead letters that a person throws away. Bringing one back is `line::recall`'s.

use super::{Conflict, Noun, Refusal, audit};
use crate::{
    ids::DeliveryId,
    line::Line,
    model::{AuditAction, Author, DeadLetterStatus},
    policy::audit::{Facts, changed},
    ports::Discarded,
};

/// Throws a dead letter away. It stays in history as `discarded`.
///
/// # Errors
/// [`Refusal::Conflict`] if it is not `dead`.
pub async fn discard(line: &Line, by: &Author, id: DeliveryId) -> Result<(), Refusal> {
    let status = |status: DeadLetterStatus| Facts::default().plain("status", status.as_str());
    let note = changed(&status(DeadLetterStatus::Dead), &status(DeadLetterStatus::Discarded));
    let entry = audit::entry(line, by, AuditAction::DeadLetterDiscard, id.as_uuid(), note);
    match line.ports.history.discard(by.organization, id, entry).await? {
        Discarded::Discarded => Ok(()),
        Discarded::NotFound => Err(Refusal::NotFound(Noun::DeadLetter)),
        Discarded::NotDead(status) => {
            Err(Refusal::Conflict(Conflict::DeadLetterNotDead, format!("the dead letter is {}, not dead", status.as_str())))
        }
    }
}
