//! Part of step 3: hands an event of a source to its processor, instead of sending a request.

use std::time::Duration;

use crate::{
    catalog::ProcessorDestination,
    line::{Line, alert},
    model::{Event, FailureCategory, PhaseTimes, Report, RetrySchedule, Sent},
    ports::{StoreError, within},
    processors::ProcessorTask,
};

/// How long processing one event may take: a request to a provider and a write, with time to spare.
const PROCESSING_TIMEOUT: Duration = Duration::from_secs(60);

/// Has an event processed.
///
/// # Errors
/// [`StoreError`] if the store failed: that is no attempt. What is damaged in the store is one, so that it ends.
pub(crate) async fn process(line: &Line, to: &ProcessorDestination, event: &Event, schedule: &RetrySchedule) -> Result<Report, StoreError> {
    let (begun, timeout) = (line.ports.clock.uptime(), schedule.timeout.unwrap_or(PROCESSING_TIMEOUT));
    let task = ProcessorTask {
        organization: to.lane.organization,
        application: to.lane.application,
        source_kind: &to.processor.source_kind,
        event,
    };
    let processing = line.processors.get(to.processor.kind).process(task);
    let sent = match within(&*line.ports.clock, timeout, processing).await {
        Some(Ok(sent)) => sent,
        Some(Err(StoreError::Corrupt(error))) => failed(FailureCategory::ServerError, format!("what is stored cannot be read: {error}")),
        Some(Err(error)) => return Err(error),
        None => failed(FailureCategory::Timeout, format!("processing took longer than {} s", timeout.as_secs())),
    };
    if line.processors.take_recorded_alerts()
        && let Err(error) = alert::publish_pending(line).await
    {
        tracing::debug!(
            error = &error as &dyn std::error::Error,
            "cannot publish what a processor reported; it is tried again with the next event"
        );
        line.processors.note_recorded_alerts();
    }
    let duration = line.ports.clock.uptime().saturating_sub(begun);
    Ok(Report { sent, duration, phases: PhaseTimes::default() })
}

fn failed(category: FailureCategory, error: String) -> Sent {
    Sent::Failed { category, error, response: None }
}
