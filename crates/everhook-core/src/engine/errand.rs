//! What the owner has done for it in the background: reads of backlogs, looks at endpoints, sweeps, alerts. None holds up a delivery.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;

use super::{
    board::{LaneFacts, QueueKey},
    sweep::sweep,
};
use crate::{
    flow::{
        Line, alert,
        claim::{Look, claim},
    },
    ids::{ApplicationId, EndpointId},
    lifecycle,
    model::CancelCause,
    ports::{DueRead, LaneHead, StoreError},
    time::Timestamp,
};

/// Something to be done.
#[derive(Clone, Copy)]
pub(super) enum Errand {
    /// Read what is due in one queue.
    Look(Look),
    /// Find every queue that has something waiting.
    Survey,
    /// See how an endpoint stands.
    Inspect(ApplicationId, EndpointId),
    /// Cancel what waits for an endpoint that gets no events any more.
    Sweep(EndpointId, CancelCause, Timestamp),
    /// Tell the alerts that wait.
    TellAlerts,
}

/// What came of it. A failure of the store or a panic is an answer too: the owner decides when to try again.
pub(super) enum Done {
    Looked(QueueKey, Option<DueRead>),
    Surveyed(Option<Vec<(LaneHead, Standing)>>),
    Inspected(ApplicationId, EndpointId, Option<Standing>),
    Swept,
    AlertsTold(bool),
}

/// How an endpoint stands.
#[derive(Clone, Copy)]
pub(super) enum Standing {
    /// It gets events.
    Open(LaneFacts),
    /// It does not; what was made until the instant is cancelled.
    Closed(CancelCause, Timestamp),
}

/// Runs an errand. Never panics.
pub(super) async fn run(line: Arc<Line>, errand: Errand) -> Done {
    match AssertUnwindSafe(attend(&line, errand)).catch_unwind().await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "{} is delayed", errand.name());
            errand.failed()
        }
        Err(_) => {
            tracing::error!("{} panicked and is tried again", errand.name());
            errand.failed()
        }
    }
}

async fn attend(line: &Line, errand: Errand) -> Result<Done, StoreError> {
    Ok(match errand {
        Errand::Look(look) => Done::Looked((look.endpoint, look.priority), Some(claim(line, look).await?)),
        Errand::Survey => Done::Surveyed(Some(survey(line).await?)),
        Errand::Inspect(application, endpoint) => Done::Inspected(application, endpoint, Some(inspect(line, application, endpoint).await?)),
        Errand::Sweep(endpoint, cause, made_until) => {
            sweep(line, endpoint, cause, made_until).await;
            Done::Swept
        }
        Errand::TellAlerts => {
            alert::tell_pending(line).await?;
            Done::AlertsTold(true)
        }
    })
}

async fn survey(line: &Line) -> Result<Vec<(LaneHead, Standing)>, StoreError> {
    let heads = line.ports.deliveries.lanes().await?;
    let mut surveyed = Vec::with_capacity(heads.len());
    for head in heads {
        match inspect(line, head.application, head.endpoint).await {
            Ok(standing) => surveyed.push((head, standing)),
            // One application that cannot be read must not keep the others from being looked at.
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, endpoint.id = %head.endpoint, "an endpoint cannot be read; its deliveries wait");
            }
        }
    }
    Ok(surveyed)
}

/// What waits for a closed endpoint and was made until now is cancelled. The time is taken before the look: whatever is made for an endpoint that
/// is open again is made after it.
async fn inspect(line: &Line, application: ApplicationId, endpoint: EndpointId) -> Result<Standing, StoreError> {
    let now = line.ports.clock.now();
    let view = line.catalog.application(application).await?;
    let Some(destination) = view.as_ref().and_then(|view| view.destination(endpoint)) else {
        // A deleted endpoint is no longer part of its application.
        return Ok(Standing::Closed(CancelCause::EndpointDeleted, now));
    };
    let endpoint = &destination.endpoint;
    Ok(match lifecycle::cancellation(endpoint.state) {
        Some(cause) => Standing::Closed(cause, now),
        None => Standing::Open(LaneFacts {
            organization: endpoint.organization,
            application: endpoint.application,
            max_concurrency: endpoint.max_concurrency,
        }),
    })
}

impl Errand {
    fn name(self) -> &'static str {
        match self {
            Self::Look(_) => "reading a backlog",
            Self::Survey => "looking for waiting deliveries",
            Self::Inspect(..) => "looking at a changed endpoint",
            Self::Sweep(..) => "cancelling deliveries",
            Self::TellAlerts => "telling alerts",
        }
    }

    fn failed(self) -> Done {
        match self {
            Self::Look(look) => Done::Looked((look.endpoint, look.priority), None),
            Self::Survey => Done::Surveyed(None),
            Self::Inspect(application, endpoint) => Done::Inspected(application, endpoint, None),
            Self::Sweep(..) => Done::Swept,
            Self::TellAlerts => Done::AlertsTold(false),
        }
    }
}
