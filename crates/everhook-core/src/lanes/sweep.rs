//! Cancels what waits for an endpoint that was disabled or deleted, in small steps that let other writes pass.

use std::time::Duration;

use crate::{ids::LaneId, line::Line, model::CancelCause, ports::CancelWaiting, time::Timestamp};

/// How many deliveries one step cancels.
const SWEEP_BATCH: u32 = 500;

/// How long a sweep waits after a failed step.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Cancels everything that was made for the endpoint until `made_until` and still waits.
pub(super) async fn sweep(line: &Line, lane_id: LaneId, cause: CancelCause, made_until: Timestamp) {
    loop {
        let at = line.ports.clock.now();
        let step = CancelWaiting { lane_id, made_until, cause, at, limit: SWEEP_BATCH };
        match line.ports.deliveries.cancel_waiting(step).await {
            Ok(cancelled) if cancelled < SWEEP_BATCH => return,
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => {
                line.log_delay("cancelling the deliveries of an endpoint", &error);
                line.ports.clock.sleep_until(at + RETRY_DELAY).await;
            }
        }
    }
}
