//! What the store last said of alert rules, alerts and administrators, and whether it answers: read every five seconds, beside the evaluation, which never
//! waits for it.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::FutureExt as _;

use super::EVALUATED_EVERY;
use crate::{
    ids::{OrganizationId, Ref},
    line::Line,
    model::{AlertMetric, AlertRule, AlertScope, AlertStatus, Cursor, EmailAddress, PageRequest},
    policy::alerts::defaults::server_in_force,
    ports::{AlertFilter, StoreError, within},
    time::Timestamp,
};

/// How long a read may take before it counts as failed.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// How many alerts about the organization `default` and the server are read: the rules of both, and no more.
const RECORDS: PageRequest = PageRequest { limit: 250, cursor: Cursor::Newest };

/// How many waiting deliveries are counted, for each that a rule allows, and at the most: a second of a reader's time.
const COUNTED_FOR_EACH: f64 = 10.0;
const COUNTED_MIN: f64 = 10_001.0;
const COUNTED_MAX: f64 = 1_000_000.0;

/// How much longer than counting took the store is left alone.
const REST: u32 = 50;

/// What is known.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The rules about the server.
    pub rules: Arc<[AlertRule]>,
    /// What is recorded of alerts about the server.
    pub records: Arc<[AlertStatus]>,
    /// Whom mail goes to.
    pub admin_emails: Vec<EmailAddress>,
    /// The deliveries that wait, while the store answers.
    pub waiting: Option<u64>,
    /// How many reads failed in a row.
    pub failures: u32,
    /// Since when they fail.
    pub away_since: Option<Timestamp>,
    has_answered: bool,
}

impl View {
    /// Whether the store answered the last time.
    pub fn answers(&self) -> bool {
        self.has_answered && self.failures == 0
    }
}

/// Keeps it.
pub(super) struct StoreView {
    organization: OrganizationId,
    view: Mutex<View>,
}

/// What one look at the store found.
struct Looked {
    rules: Arc<[AlertRule]>,
    records: Arc<[AlertStatus]>,
    admin_emails: Option<Vec<EmailAddress>>,
    waiting: Option<u64>,
}

impl StoreView {
    /// Nothing was read yet: the default rules hold.
    pub fn new(organization: OrganizationId, admin_emails: Vec<EmailAddress>) -> Self {
        let view = View {
            rules: server_in_force(&[]).into(),
            records: Arc::new([]),
            admin_emails,
            waiting: None,
            failures: 0,
            away_since: None,
            has_answered: false,
        };
        Self { organization, view: Mutex::new(view) }
    }

    /// What is known now.
    pub fn now(&self) -> View {
        self.view().clone()
    }

    /// Looks again and again, for ever. Never panics.
    pub async fn keep_up(&self, line: &Line) {
        let clock = &line.ports.clock;
        let mut count_at = clock.now();
        loop {
            let begun_at = clock.now();
            let counts = begun_at >= count_at;
            let looked = AssertUnwindSafe(within(&**clock, READ_TIMEOUT, self.look(line, counts))).catch_unwind().await;
            let now = clock.now();
            if counts {
                count_at = now + now.since(begun_at) * REST;
            }
            match looked {
                Ok(Some(Ok(looked))) => self.note(looked),
                Ok(Some(Err(error))) => self.note_failure(&error, now),
                Ok(None) => self.note_failure(&StoreError::unavailable("no answer in time"), now),
                Err(_) => tracing::error!("panic while reading alert rules about the server; they are read again"),
            }
            clock.sleep_until(now + EVALUATED_EVERY).await;
        }
    }

    async fn look(&self, line: &Line, counts: bool) -> Result<Looked, StoreError> {
        let ports = &line.ports;
        let own: Vec<AlertRule> = ports.alert_rules.alert_rules(self.organization).await?.into_iter().map(|own| own.rule).collect();
        let rules = server_in_force(&own);
        let filter = AlertFilter { target: Some(*self.organization.as_uuid()), ..AlertFilter::default() };
        let mut records = ports.alerts.alerts(self.organization, filter, RECORDS).await?.rows;
        records.retain(|record| record.rule.scope == AlertScope::Server);
        let organization = ports.organizations.organization(&Ref::Id(self.organization)).await?;
        let waiting = match counts {
            true => {
                let measured = ports.store_measurements.queue_measurements(ports.clock.now(), counted(&rules)).await?;
                Some(measured.waiting.iter().sum())
            }
            false => self.view().waiting,
        };
        let admin_emails = organization.map(|organization| organization.admin_emails);
        Ok(Looked { rules: rules.into(), records: records.into(), admin_emails, waiting })
    }

    fn note(&self, looked: Looked) {
        let mut view = self.view();
        (view.rules, view.records, view.waiting) = (looked.rules, looked.records, looked.waiting);
        if let Some(admin_emails) = looked.admin_emails {
            view.admin_emails = admin_emails;
        }
        (view.failures, view.away_since, view.has_answered) = (0, None, true);
    }

    /// Whoever keeps the lease logs that the store is away, and the alert does.
    fn note_failure(&self, error: &StoreError, now: Timestamp) {
        tracing::debug!("reading alert rules about the server failed and is tried again: {}", error.in_words());
        let mut view = self.view();
        (view.failures, view.waiting) = (view.failures.saturating_add(1), None);
        view.away_since.get_or_insert(now);
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Up to how many waiting deliveries are counted: some more than the rule allows, so that the alert says by how much.
fn counted(rules: &[AlertRule]) -> u32 {
    let threshold = rules.iter().find(|rule| rule.metric == AlertMetric::Depth).map_or(0.0, |rule| rule.threshold);
    (threshold * COUNTED_FOR_EACH).clamp(COUNTED_MIN, COUNTED_MAX) as u32
}
