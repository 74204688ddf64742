//! What handles received events inside Everhook.

use async_trait::async_trait;

use crate::{
    ids::{ApplicationId, OrganizationId},
    model::{Event, Sent},
    ports::StoreError,
};

/// An event of a source, on its way into a processor.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorTask<'a> {
    /// The tenant.
    pub organization: OrganizationId,
    /// The application of the source.
    pub application: ApplicationId,
    /// The kind of the source: who sent the event.
    pub source_kind: &'a str,
    /// The event.
    pub event: &'a Event,
}

/// Built-in code that handles the events of sources.
#[async_trait]
pub trait Processor: Send + Sync {
    /// Handles an event and reports what came of it, as a transport reports what came of a request:
    /// [`Sent::Answered`] with status 200 when it was handled, [`Sent::Parked`] when something outside must come first, [`Sent::Failed`] when it may work
    /// later, [`Sent::Refused`] when it never will.
    ///
    /// It may be called again with the same event, also while an earlier call has not ended or after it was cut off at any point: the effect must be that
    /// of one call.
    ///
    /// # Errors
    /// [`StoreError`] if the store failed: that is no attempt, and the event is handed over again.
    async fn process(&self, task: ProcessorTask<'_>) -> Result<Sent, StoreError>;
}
