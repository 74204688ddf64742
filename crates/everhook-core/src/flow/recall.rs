//! Bringing a dead letter back: a new delivery of the same event to the same endpoint, with fresh attempts and today's URL, secret and schedule.

use crate::{
    flow::Line,
    ids::{DeliveryId, OrganizationId},
    lifecycle,
    model::{DeadLetter, DeadLetterStatus},
    ports::{Committed, Recall, Recalled, StoreError},
};

/// Why a dead letter was not brought back.
#[derive(Debug, thiserror::Error)]
pub enum RecallError {
    /// There is no such dead letter in this organization.
    #[error("there is no such dead letter")]
    NotFound,
    /// It is not dead.
    #[error("the dead letter is {}, not dead", .0.as_str())]
    NotDead(DeadLetterStatus),
    /// Its endpoint gets no events now.
    #[error("its endpoint is disabled or deleted: enable it first")]
    EndpointClosed,
    /// The store failed; nothing was changed, as far as is known.
    #[error("the dead letter could not be brought back")]
    Store(#[from] StoreError),
}

/// Makes a new delivery for a dead letter. Returns the dead letter as it stands now, and the new delivery's id.
///
/// # Errors
/// [`RecallError`] says why there is nothing to bring back.
pub async fn recall(line: &Line, organization: OrganizationId, id: DeliveryId) -> Result<(DeadLetter, DeliveryId), RecallError> {
    let found = line.ports.history.dead_letter(organization, id).await?.ok_or(RecallError::NotFound)?;
    if found.status != DeadLetterStatus::Dead {
        return Err(RecallError::NotDead(found.status));
    }
    let view = line.catalog.application(found.application).await?;
    let destination = view.and_then(|view| view.destination(found.endpoint).cloned()).ok_or(RecallError::EndpointClosed)?;
    if lifecycle::cancellation(destination.endpoint.state).is_some() {
        return Err(RecallError::EndpointClosed);
    }
    let now = line.ports.clock.now();
    let delivery = DeliveryId::from_uuid(line.ports.entropy.uuid(now));
    let recall = Recall { organization, dead_letter: id, delivery, retry_schedule: destination.endpoint.retry_schedule, at: now };
    match line.ports.deliveries.recall(recall).await? {
        Recalled::NotFound => Err(RecallError::NotFound),
        Recalled::NotDead(status) => Err(RecallError::NotDead(status)),
        Recalled::Requeued { dead_letter, due, priority } => {
            line.wake_up.committed(vec![Committed {
                organization,
                application: dead_letter.application,
                endpoint: dead_letter.endpoint,
                priority,
                max_concurrency: destination.endpoint.max_concurrency,
                due,
            }]);
            Ok((dead_letter, delivery))
        }
    }
}
