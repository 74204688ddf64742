//! Bringing a dead letter back: a new delivery of the same event to the same endpoint, with fresh attempts and today's URL, secret and schedule.

use crate::{
    flow::Line,
    ids::{DeliveryId, OrganizationId},
    lifecycle,
    model::{DeadLetter, DeadLetterStatus, Placement},
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

/// How often a recall is made again because the configuration changed under it, as a publish is.
const ROUNDS_MAX: u32 = 20;

/// Makes a new delivery for a dead letter. Returns the dead letter as it stands now, and the new delivery's id.
///
/// # Errors
/// [`RecallError`] says why there is nothing to bring back.
pub async fn recall(line: &Line, organization: OrganizationId, id: DeliveryId) -> Result<(DeadLetter, DeliveryId), RecallError> {
    let found = line.ports.history.dead_letter(organization, id).await?.ok_or(RecallError::NotFound)?;
    if found.status != DeadLetterStatus::Dead {
        return Err(RecallError::NotDead(found.status));
    }
    for _ in 0..ROUNDS_MAX {
        if let Some(recalled) = recall_once(line, &found).await? {
            return Ok(recalled);
        }
        line.catalog.forget(found.application);
    }
    Err(RecallError::Store(StoreError::Conflict))
}

/// `None` if the configuration changed meanwhile.
async fn recall_once(line: &Line, found: &DeadLetter) -> Result<Option<(DeadLetter, DeliveryId)>, RecallError> {
    let view = line.catalog.application(found.application).await?.ok_or(RecallError::EndpointClosed)?;
    let destination = view.destination(found.endpoint).ok_or(RecallError::EndpointClosed)?;
    let endpoint = &destination.endpoint;
    if lifecycle::cancellation(endpoint.state).is_some() {
        return Err(RecallError::EndpointClosed);
    }
    let now = line.ports.clock.now();
    let delivery = DeliveryId::from_uuid(line.ports.entropy.uuid(now));
    let recall = Recall {
        organization: found.organization,
        dead_letter: found.id,
        delivery,
        retry_schedule: endpoint.retry_schedule,
        placement: Placement::of(endpoint.ordering),
        config_version: view.config_version,
        at: now,
    };
    match line.ports.deliveries.recall(recall).await? {
        Recalled::ConfigChanged => Ok(None),
        Recalled::NotFound => Err(RecallError::NotFound),
        Recalled::NotDead(status) => Err(RecallError::NotDead(status)),
        Recalled::Requeued { dead_letter, due, priority } => {
            if let Some(due) = due {
                line.wake_up.committed(vec![Committed { lane: destination.lane.clone(), priority, due }]);
            }
            Ok(Some((dead_letter, delivery)))
        }
    }
}
