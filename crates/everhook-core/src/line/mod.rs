//! The line: publish → claim → attempt → settle, one step a file, and what follows when it ends badly.
//!
//! Read it as an event would: [`publish`] records it, [`claim`] gives it its turn, [`attempt`] sends it, [`settle`] decides what became of it.
//! [`alert`] and [`rule_alert`] publish operational events about what a person should know of, and [`recall`] delivers again what a person asks for.
//! `admission`, `draft` and `selection` are parts of publishing, [`request`], [`email`], `service`, [`job`] and [`callback`] are parts of attempting, and [`erasures`] keeps what was erased from being sent.

pub(crate) mod admission;
pub mod alert;
pub mod alert_subject;
pub mod attempt;
pub mod callback;
pub mod claim;
pub(crate) mod draft;
pub mod email;
pub mod erasures;
pub mod job;
pub mod job_state;
pub mod parking;
pub(crate) mod processing;
pub mod publish;
pub mod recall;
pub mod receive;
pub mod request;
pub mod rule_alert;
pub(crate) mod selection;
pub(crate) mod service;
pub mod settle;
pub mod source_backlogs;
pub(crate) mod spans;
pub(crate) mod tokens;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;
use url::Url;

use self::erasures::Erasures;
use crate::{
    breakdowns::Breakdowns,
    calls::Calls,
    catalog::Catalog,
    counted::Counted,
    ids::{OrganizationId, SourceId},
    limits::{
        budgets::Budgets,
        evaluations::{EvaluationThreads, Evaluations},
        inbound_rates::InboundRates,
        on_demand_limit::OnDemandLimit,
        rates::Rates,
        retry_limit::RetryLimit,
    },
    metrics::{Counter, Metrics},
    model::{EventType, Profile, RetentionPeriods, Target},
    nodes::held_lease::HeldLease,
    owned_tasks::OwnedTasks,
    policy::{
        calls::manifest::ManifestDefaults,
        endpoint_health::EndpointHealthSettings,
        notice::{DEFAULT_BRAND, pagerduty::PAGERDUTY_URL},
    },
    ports::{Lanes, Ports, StoreError, WakeUp},
    processors::Processors,
    providers::ProviderSettings,
    repeated_failure::{RepeatedFailure, RepeatedFailures},
    sources::Sources,
    spool::{backlog::SpoolBacklog, intake::Intake, publishers::Publishers},
};

/// What every step of the line works with.
pub struct Line {
    /// The outside.
    pub ports: Ports,
    /// What is known of applications and endpoints.
    pub catalog: Arc<Catalog>,
    /// What is known of sources.
    pub sources: Sources,
    /// What handles received events inside Everhook.
    pub processors: Processors,
    /// Calls to apps.
    pub calls: Arc<Calls>,
    /// Attempts by event type, retry schedule and source, until they are added up.
    pub breakdowns: Breakdowns,
    /// What happened on this node, in numbers.
    pub metrics: Arc<Metrics>,
    /// Who owns the lanes.
    pub wake_up: Arc<dyn WakeUp>,
    /// Their state.
    pub lanes: Arc<dyn Lanes>,
    /// Who may publish where, also while the store is away.
    pub publishers: Publishers,
    /// Where published events are put: into the store, or into the spool while that is away.
    pub intake: Intake,
    /// Who must queue behind what waits in the spool.
    pub backlog: Arc<SpoolBacklog>,
    /// Rung when something was put into the spool.
    pub spool_bell: Arc<Notify>,
    /// Which lanes this node may send for, and which duties are its.
    pub held_lease: HeldLease,
    /// What this node has in hand of the organizations' limits, where nodes share a store.
    pub budgets: Arc<Budgets>,
    /// How many events each organization may publish.
    pub publish_rates: Rates,
    /// How many requests sources take.
    pub inbound_rates: InboundRates,
    /// What is tried again, and was logged.
    pub repeated_failures: RepeatedFailures,
    /// Whether this machine lacks what requests need.
    shortage: Mutex<RepeatedFailure>,
    /// How this process calls itself in attempts.
    pub node: String,
    /// How long an idempotency key is remembered.
    pub idempotency_window: Duration,
    /// Whether the data of all events is encrypted where it is kept.
    pub seal_payloads: bool,
    /// How long things are kept.
    pub retention: RetentionPeriods,
    /// How endpoints that fail for days are treated.
    pub endpoint_health: EndpointHealthSettings,
    /// How often people may retry by hand.
    pub retry_limit: RetryLimit,
    /// How many verifications and test events may go out.
    pub on_demand_limit: OnDemandLimit,
    /// What must not be sent any more.
    pub erasures: Erasures,
    /// Where schemas and filters are evaluated that are not quick.
    pub evaluations: Arc<Evaluations>,
    /// Rung when there is something new to do for an operation. A ring that nobody hears costs nothing: what there is to do is in the store.
    pub operations_bell: Notify,
    /// The same for backfills of health data.
    pub backfills_bell: Notify,
    /// The same for what deleted organizations and applications have left.
    pub deletions_bell: Notify,
    /// Rung when attempts succeeded: endpoints whose owners were notified of a problem may be among those that work again.
    pub recoveries_bell: Notify,
    /// Rung when a call waits for a person, or something follows from a decision about one that is not done yet.
    pub approvals_bell: Notify,
    /// Rung when the health of another app is to be checked.
    pub health_checks_bell: Notify,
    /// When apps are checked.
    pub health_checks: HealthCheckSettings,
    /// How often alert rules are evaluated.
    pub alert_interval: Duration,
    /// How people are notified.
    pub notifications: NotificationSettings,
    /// When parked deliveries are looked for again.
    pub parking_looks: parking::ParkingLooks,
    /// How much sources have before them that their processors cannot take.
    pub source_backlogs: Arc<Counted<SourceId>>,
    /// What goes on beside requests, and ends with this.
    pub tasks: Arc<OwnedTasks>,
    /// How many health connections organizations have.
    pub connection_counts: Counted<OrganizationId>,
}

/// How many health connections an organization may have: with tokens, each takes some kilobytes.
pub const CONNECTIONS_OF_ORGANIZATION_MAX: u32 = 1_000_000;

/// The settings of a line.
#[derive(Clone, Debug)]
pub struct LineSettings {
    /// How this process calls itself in attempts.
    pub node: String,
    /// How long an idempotency key is remembered.
    pub idempotency_window: Duration,
    /// What holds where nobody set a limit.
    pub profile: Profile,
    /// What applications and their endpoints may take in memory, in bytes.
    pub catalog_bytes_max: usize,
    /// How long things are kept.
    pub retention: RetentionPeriods,
    /// How endpoints that fail for days are treated.
    pub endpoint_health: EndpointHealthSettings,
    /// Where schemas and filters are evaluated that are not quick.
    pub evaluation_threads: EvaluationThreads,
    /// Whether the data of all events is encrypted where it is kept, also of those whose publication does not ask for it.
    pub seal_payloads: bool,
    /// What holds where a manifest does not say.
    pub manifest_defaults: ManifestDefaults,
    /// How health providers are reached.
    pub health_providers: ProviderSettings,
    /// When apps are checked.
    pub health_checks: HealthCheckSettings,
    /// How often alert rules are evaluated.
    pub alert_interval: Duration,
    /// How many requests of calls may be under way.
    pub calls_in_flight_max: u32,
    /// How people are notified.
    pub notifications: NotificationSettings,
}

/// How people are notified of what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationSettings {
    /// What messages call the sender.
    pub brand: String,
    /// Where PagerDuty takes events.
    pub pagerduty_url: Target,
}

impl Default for NotificationSettings {
    fn default() -> Self {
        let url = Url::parse(PAGERDUTY_URL).expect("PagerDuty's URL is one");
        Self { brand: DEFAULT_BRAND.to_owned(), pagerduty_url: Target { written: PAGERDUTY_URL.to_owned(), url } }
    }
}

/// When the health of apps is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheckSettings {
    /// How often each is.
    pub interval: Duration,
    /// How long its answer may take.
    pub timeout: Duration,
}

impl Default for HealthCheckSettings {
    fn default() -> Self {
        Self { interval: Duration::from_secs(300), timeout: Duration::from_secs(5) }
    }
}

impl Line {
    /// A line over these ports.
    pub fn new<O: WakeUp + Lanes + 'static>(ports: Ports, owner: Arc<O>, settings: LineSettings) -> Self {
        let LineSettings {
            node,
            idempotency_window,
            profile,
            catalog_bytes_max,
            retention,
            endpoint_health,
            evaluation_threads,
            seal_payloads,
            manifest_defaults,
            health_providers,
            health_checks,
            alert_interval,
            calls_in_flight_max,
            notifications,
        } = settings;
        let evaluations = Arc::new(Evaluations::new(ports.clock.clone(), evaluation_threads));
        let (backlog, spool_bell) = (Arc::new(SpoolBacklog::new(&ports)), Arc::default());
        let (metrics, tasks): (Arc<Metrics>, Arc<OwnedTasks>) = Default::default();
        Self {
            held_lease: HeldLease::new(ports.leases.terms(), ports.clock.clone()),
            repeated_failures: RepeatedFailures::new(ports.leases.terms()),
            shortage: Mutex::new(RepeatedFailure::reported_at_once()),
            catalog: Arc::new(Catalog::within(catalog_bytes_max, (&ports).into(), profile)),
            sources: Sources::new(&ports),
            processors: Processors::new(&ports, health_providers),
            publishers: Publishers::new(&ports, backlog.clone()),
            intake: Intake::new(&ports, &backlog, &spool_bell, &metrics),
            backlog,
            spool_bell,
            calls: Arc::new(Calls::new(
                &ports,
                (evaluations.clone(), Arc::downgrade(&tasks)),
                manifest_defaults,
                calls_in_flight_max,
                metrics.clone(),
            )),
            metrics,
            breakdowns: Breakdowns::default(),
            evaluations,
            ports,
            wake_up: owner.clone(),
            lanes: owner,
            budgets: Arc::default(),
            publish_rates: Rates::default(),
            inbound_rates: InboundRates::default(),
            retry_limit: RetryLimit::default(),
            on_demand_limit: OnDemandLimit::default(),
            erasures: Erasures::default(),
            operations_bell: Notify::new(),
            backfills_bell: Notify::new(),
            deletions_bell: Notify::new(),
            recoveries_bell: Notify::new(),
            approvals_bell: Notify::new(),
            health_checks_bell: Notify::new(),
            health_checks,
            alert_interval,
            notifications,
            parking_looks: parking::ParkingLooks::default(),
            source_backlogs: Arc::new(Counted::up_to(source_backlogs::SOURCE_BACKLOG_MAX)),
            tasks,
            connection_counts: Counted::up_to(CONNECTIONS_OF_ORGANIZATION_MAX),
            node,
            idempotency_window,
            seal_payloads,
            retention,
            endpoint_health,
        }
    }

    /// Logs that something did not work and is tried again, unless that was logged a moment ago or the keeper of the lease logs it.
    pub(crate) fn log_delay(&self, what: &'static str, error: &StoreError) {
        let words = error.in_words();
        if self.repeated_failures.failed(what, self.ports.clock.uptime()) {
            tracing::warn!("{what} failed and is tried again: {words}");
        } else {
            tracing::debug!("{what} failed and is tried again: {words}");
        }
    }

    /// Counts a notification that was sent beside the deliveries.
    pub(crate) fn count_notification(&self, event_type: &EventType) {
        self.metrics.notifications.get(event_type, Counter::new).add(1);
    }

    /// Logs that this machine lacks what a request needs. Nobody else reports it, so that it is logged at once, and then once a minute.
    pub(crate) fn log_shortage(&self, error: &str) {
        let mut shortage = self.shortage.lock().unwrap_or_else(PoisonError::into_inner);
        if shortage.failed(self.ports.clock.uptime()).is_some() {
            tracing::error!(
                "this machine has run out of a resource that deliveries need ({error}); deliveries wait and are tried again every second. If open files have run out, raise their limit or lower `concurrency`"
            );
        }
    }
}
