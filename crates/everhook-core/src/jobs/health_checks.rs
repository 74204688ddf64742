//! Checks the health of apps: a GET of each app's health page every few minutes.
//!
//! Started by the supervisor; where nodes share a store, it works while the duty is this node's, so that each app is asked once. It remembers nothing: when
//! a check is due is in the store, and one that a crash took away is made at its next turn.
//!
//! What it may cost is bounded whatever tenants set up: so many checks are begun in a second, so many are under way, few of one organization, and fewer at
//! one host of it. What an organization wants beyond that is left out until its next turn, and holds up nobody else.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt as _;
use rustc_hash::FxHashMap;
use serde_json::json;
use tokio::{sync::Semaphore, task::JoinSet};
use url::Url;

use crate::{
    ids::{OrganizationId, Ref},
    line::{Line, alert::publish_pending},
    model::{AppCheck, AppHealth, Duty, EventType, Target},
    policy::calls::health::{self, Notice},
    ports::{Alert, StoreError},
    time::Timestamp,
};

/// How many checks are begun in one second: 60,000 apps in five minutes; and after a long stop, no herd.
const BEGUN_A_SECOND: u32 = 200;
const SECOND: Duration = Duration::from_secs(1);

/// How many may be under way: as many as hang for five seconds of all that begin in a second and a quarter. Where open files are few, half as many as
/// requests of calls.
const UNDER_WAY_MAX: usize = 256;
/// How many of one organization.
const OF_ORGANIZATION_MAX: usize = 16;
/// How many of one organization at one host: a tenant that names a stranger's host in a thousand manifests has no more.
const OF_HOST_MAX: usize = 4;
/// How many of one organization may wait for their turn. The others are left out until they are due again.
const WAITING_OF_ORGANIZATION_MAX: usize = 100;
/// How many may wait in all.
const WAITING_MAX: usize = 10_000;

/// How long the store is not asked at the most, although nothing is due as far as this node knows: where it alone puts manifests,
const LOOK_INTERVAL: Duration = Duration::from_secs(3_600);
/// where other nodes do, and after a failure.
const LOOK_INTERVAL_SHARED: Duration = Duration::from_secs(60);

/// Checks for ever. Never panics.
pub(crate) async fn run(line: Arc<Line>) {
    let mut checker = Checker::new(line.clone());
    loop {
        let delay = match AssertUnwindSafe(checker.begin_due()).catch_unwind().await {
            Ok(Ok(delay)) => delay,
            Ok(Err(error)) => {
                line.log_delay("checking the health of apps", &error);
                LOOK_INTERVAL_SHARED
            }
            Err(_) => {
                tracing::error!("panic while checking the health of apps; it is tried again");
                LOOK_INTERVAL_SHARED
            }
        };
        tokio::select! {
            biased;
            () = line.health_checks_bell.notified() => {}
            () = line.ports.clock.sleep_until(line.ports.clock.now() + delay) => {}
        }
    }
}

struct Checker {
    line: Arc<Line>,
    slots: Arc<Semaphore>,
    organizations: FxHashMap<OrganizationId, Arc<Share>>,
    hosts: FxHashMap<(OrganizationId, String), Arc<Semaphore>>,
    /// Those that wait or are under way. They end with this.
    checks: JoinSet<()>,
}

/// What one organization may have.
struct Share {
    waiting: Arc<Semaphore>,
    under_way: Arc<Semaphore>,
}

impl Checker {
    fn new(line: Arc<Line>) -> Self {
        let half_of_calls = line.calls.in_flight_max().div_ceil(2) as usize;
        let slots = Arc::new(Semaphore::new(UNDER_WAY_MAX.min(half_of_calls)));
        Self { line, slots, organizations: FxHashMap::default(), hosts: FxHashMap::default(), checks: JoinSet::new() }
    }

    /// Begins what is due. Says after how long to look again.
    async fn begin_due(&mut self) -> Result<Duration, StoreError> {
        self.tidy_up();
        if !self.line.held_lease.does(Duty::HealthChecks) {
            return Ok(LOOK_INTERVAL_SHARED);
        }
        let (store, now) = (&self.line.ports.app_health, self.line.ports.clock.now());
        let latest = if self.line.held_lease.is_shared() { LOOK_INTERVAL_SHARED } else { LOOK_INTERVAL };
        let until_next = |next: Option<Timestamp>| next.map_or(latest, |at| at.since(now).clamp(SECOND, latest));
        let next = store.next_app_check().await?;
        let room = WAITING_MAX.saturating_sub(self.checks.len());
        let limit = BEGUN_A_SECOND.min(u32::try_from(room).unwrap_or(u32::MAX));
        if next.is_none_or(|at| at > now) || limit == 0 {
            return Ok(until_next(next));
        }
        let taken = store.take_app_checks(now, self.line.health_checks.interval, limit).await?;
        let is_all = taken.len() < limit as usize;
        for check in taken {
            self.begin(check);
        }
        Ok(if is_all { until_next(self.line.ports.app_health.next_app_check().await?) } else { SECOND })
    }

    /// Begins a check as soon as its organization, its host and this node have room for it.
    fn begin(&mut self, check: AppCheck) {
        let Ok(url) = Url::parse(&check.url) else { return };
        let share = self.organizations.entry(check.organization).or_insert_with(|| {
            let of = |count| Arc::new(Semaphore::new(count));
            Arc::new(Share { waiting: of(WAITING_OF_ORGANIZATION_MAX), under_way: of(OF_ORGANIZATION_MAX) })
        });
        let Ok(place) = share.waiting.clone().try_acquire_owned() else { return };
        let host = url.host_str().unwrap_or_default().to_owned();
        let of_host = self.hosts.entry((check.organization, host)).or_insert_with(|| Arc::new(Semaphore::new(OF_HOST_MAX))).clone();
        let (line, share, slots) = (self.line.clone(), share.clone(), self.slots.clone());
        self.checks.spawn(async move {
            // The narrowest first, so that nobody holds a place of this node while it waits for one of its own.
            let Ok(_of_host) = of_host.acquire_owned().await else { return };
            let Ok(_of_organization) = share.under_way.clone().acquire_owned().await else { return };
            let Ok(_slot) = slots.acquire_owned().await else { return };
            drop(place);
            let application = check.application;
            let target = Arc::new(Target { written: check.url.clone(), url });
            if let Err(error) = make(&line, check, target).await {
                line.log_delay("keeping the health of an app", &error);
                tracing::debug!(application.id = %application, "a health check was lost");
            }
        });
    }

    /// Forgets checks that have ended, and organizations and hosts that have none.
    fn tidy_up(&mut self) {
        while let Some(ended) = self.checks.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                tracing::error!("panic in the health check of an app; it is checked again at its next turn");
            }
        }
        self.hosts.retain(|_, of_host| Arc::strong_count(of_host) > 1 || of_host.available_permits() < OF_HOST_MAX);
        self.organizations.retain(|_, share| Arc::strong_count(share) > 1);
    }
}

/// Asks the app, keeps what was found, and tells whoever should know.
async fn make(line: &Arc<Line>, check: AppCheck, target: Arc<Target>) -> Result<(), StoreError> {
    let report = line.ports.transport.send(line.calls.health_request(check.organization, target, line.health_checks.timeout)).await;
    let Some(seen) = health::read(&report) else {
        line.log_shortage("a health check of an app was left out");
        return Ok(());
    };
    let found = health::after(check.found.as_ref(), seen, line.ports.clock.now(), report.duration);
    let notice = health::notice(check.found.as_ref(), &found);
    let alerts = match notice {
        Some(notice) => vec![alert(line, &check, &found, notice).await?],
        None => Vec::new(),
    };
    let is_kept = line.ports.app_health.keep_app_health(check.application, found, alerts).await?;
    if let Some(Notice::Unhealthy(failing)) = notice.filter(|_| is_kept) {
        line.calls.app_is_away(check.organization, check.application, failing.since).await?;
    }
    if notice.is_some() && is_kept {
        // What could not be published waits in the outbox, and is tried again with the next alert.
        publish_pending(line).await?;
    }
    Ok(())
}

async fn alert(line: &Line, check: &AppCheck, found: &AppHealth, notice: Notice) -> Result<Alert, StoreError> {
    let (event_type, failing) = match notice {
        Notice::Unhealthy(failing) => ("app.unhealthy", failing),
        Notice::Healthy(failing) => ("app.healthy", failing),
    };
    // Read only now: few checks have something to report.
    let application = line.ports.applications.application(check.organization, &Ref::Id(check.application)).await?;
    let data = json!({
        "organization_id": check.organization.to_string(),
        "application_id": check.application.to_string(),
        "application_name": application.map(|application| application.name),
        "url": check.url,
        "status": found.status.as_str(),
        "detail": found.detail,
        "failure_count": failing.count,
        "failing_since": failing.since.to_string(),
        "checked_at": found.checked_at.to_string(),
    });
    Ok(Alert {
        id: line.ports.entropy.uuid(found.checked_at),
        organization: check.organization,
        event_type: EventType::parse(event_type).expect("our own event types are well-formed"),
        data: Bytes::from(data.to_string()),
    })
}
