//! What a call is answered with, and how it came to that.

use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use crate::{model::BreakerState, policy::calls::answer::AppFailure};

/// What came of a call.
#[derive(Clone, Debug)]
pub struct CallAnswer {
    /// Names the call: the `X-Request-ID` that the app saw.
    pub request_id: Uuid,
    /// The answer; or why there is none.
    pub result: Result<Answer, AppFailure>,
    /// Why the app's answer was not used, where something else was.
    pub failure: Option<AppFailure>,
    /// How the breaker stood at the end.
    pub circuit: BreakerState,
    /// How long the caller waited.
    pub duration: Duration,
    /// What was tried, in order.
    pub steps: Vec<Step>,
    /// What else the fallback makes of the call. Then there is no result.
    pub handed_over: Option<Handover>,
}

/// What becomes of a call that is answered later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// It becomes a job.
    Queue,
    /// It waits for a person.
    Manual {
        /// For so long.
        expires_after: Duration,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who gave it.
    pub source: AnswerSource,
    /// A JSON text.
    pub data: Bytes,
    /// How old it is, if it was kept.
    pub age: Option<Duration>,
    /// What the caller should know.
    pub warning: Option<String>,
}

/// Who gave an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerSource {
    /// The app.
    App,
    /// The app, earlier.
    Cache,
    /// What the manifest says instead.
    Default,
}

impl AnswerSource {
    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Cache => "cache",
            Self::Default => "default",
        }
    }
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// `cache`, `app`, or the step of the fallback.
    pub step: &'static str,
    /// `hit`, `stale`, `miss`, `answered`, `queued`, `pending`, `failed`, `skipped` or `shadowed`.
    pub outcome: &'static str,
    /// How long it took.
    pub took: Duration,
    /// Why it failed or was skipped.
    pub reason: Option<String>,
}
