//! The health of an application: what its last check found, and how its calls went.

use std::time::Duration;

use super::{Noun, Refusal};
use crate::{
    ids::{ApplicationId, OrganizationId, Ref},
    line::Line,
    model::{AppCheck, AppStatus, AttemptStatistics},
    policy::calls::health::{self, CallsOf},
};

/// Calls of this long count.
const LOOKED_BACK: Duration = Duration::from_secs(86_400);

/// How an application is.
#[derive(Clone, Debug)]
pub struct AppHealthFacts {
    /// Which.
    pub application: ApplicationId,
    /// Its health check; `None` if its manifest names no health page.
    pub check: Option<AppCheck>,
    /// How it is; `None` if it was not checked yet.
    pub status: Option<AppStatus>,
    /// What is wrong, in words.
    pub reasons: Vec<String>,
    /// How its calls went in the last 24 hours.
    pub statistics: AttemptStatistics,
}

/// How an application is. It costs one read for each of its capabilities.
///
/// # Errors
/// [`Refusal::NotFound`] if there is no such application.
pub async fn get(line: &Line, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<AppHealthFacts, Refusal> {
    let app = line.calls.app(organization, of).await?.ok_or(Refusal::NotFound(Noun::Application))?;
    let check = line.ports.app_health.app_check(app.application).await?;
    let now = line.ports.clock.now();
    let (mut of_capabilities, mut statistics) = (Vec::with_capacity(app.capabilities.len()), AttemptStatistics::default());
    for capability in app.capabilities.values() {
        let found = line.ports.statistics.attempt_statistics(capability.lane_id, now - LOOKED_BACK, now).await?;
        statistics.merge(&found);
        of_capabilities.push((capability, found));
    }
    of_capabilities.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    let calls: Vec<CallsOf<'_>> = of_capabilities
        .iter()
        .map(|(capability, statistics)| CallsOf { capability: capability.name.as_str(), timeout: capability.spec.timeout, statistics })
        .collect();
    let overall = check.as_ref().and_then(|check| check.found.as_ref()).map(|found| health::overall(found, &calls));
    let (status, reasons) = overall.map_or((None, Vec::new()), |(status, reasons)| (Some(status), reasons));
    Ok(AppHealthFacts { application: app.application, check, status, reasons, statistics })
}
