//! The health of apps: what is checked every few minutes, and what was found. `policy::calls::health` decides; `jobs::health_checks` asks.

use std::time::Duration;

use crate::{
    ids::{ApplicationId, OrganizationId},
    time::Timestamp,
};

/// Where the health of an application is checked, and when for the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppCheckPlan {
    /// The URL of its health page.
    pub url: String,
    /// When it is checked first. One that is checked already keeps its turn.
    pub first_at: Timestamp,
}

/// What a change of an application does to the health check of its app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckChange {
    /// Nothing.
    Keep,
    /// It is checked as planned from now on, and no more if nothing is planned.
    Replace {
        /// The version of the manifest that the plan follows from; 0 if there was none.
        manifest_version: i64,
        /// How it is checked.
        plan: Option<AppCheckPlan>,
    },
}

/// The health check of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppCheck {
    /// Whose.
    pub application: ApplicationId,
    /// The tenant that owns the application.
    pub organization: OrganizationId,
    /// The URL of its health page.
    pub url: String,
    /// When it is checked next.
    pub next_at: Timestamp,
    /// What the last check found; `None` if there was none yet.
    pub found: Option<AppHealth>,
}

/// What a health check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppHealth {
    /// What it says about the app.
    pub status: AppStatus,
    /// When the check ended.
    pub checked_at: Timestamp,
    /// How long the request took.
    pub took: Duration,
    /// The checks in a row that failed, and when the first of them ended; `None` if the last one did not fail.
    pub failing: Option<FailingChecks>,
    /// What was seen, in words.
    pub detail: String,
    /// What the app says about its parts: a JSON text.
    pub checks: Option<String>,
}

/// Checks in a row that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingChecks {
    /// How many.
    pub count: u32,
    /// When the first of them ended.
    pub since: Timestamp,
}

/// How an app is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AppStatus {
    /// It answers as it should.
    Healthy,
    /// It answers, but not well.
    Degraded,
    /// It does not answer its health check.
    Unhealthy,
}

impl AppStatus {
    const ALL: [Self; 3] = [Self::Healthy, Self::Degraded, Self::Unhealthy];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}
