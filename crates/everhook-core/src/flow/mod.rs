//! The line: publish → claim → attempt → settle, one step a file, and what follows when it ends badly.
//!
//! Read it as an event would: [`publish`] records it, [`claim`] gives it its turn, [`attempt`] sends it, [`settle`] decides what became of it.
//! [`alert`] tells the organization about an end that a person should know of, and [`recall`] does again what a person
//! asks for, within the [`retry_limit`]. Where the store is away, events wait in the spool until [`forward`] brings them there, [`backlog`]
//! knows who must queue behind them, and [`publishers`] who may publish. [`follow`] heeds what other nodes changed, [`erasures`] keeps what was erased from being sent, and [`evaluations`] keeps schemas
//! and filters that take long from holding others up.

pub mod alert;
pub mod attempt;
pub mod backlog;
pub mod budgets;
mod carry;
pub mod claim;
mod draft;
pub mod erasures;
pub mod evaluations;
pub mod follow;
pub mod forward;
pub mod on_demand_limit;
pub mod publish;
pub mod publishers;
pub mod rates;
pub mod recall;
pub mod request;
pub mod retry_limit;
mod selection;
pub mod settle;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use self::{
    backlog::Backlog,
    budgets::Budgets,
    erasures::Erasures,
    evaluations::{EvaluationThreads, Evaluations},
    on_demand_limit::OnDemandLimit,
    publishers::Publishers,
    rates::Rates,
    retry_limit::RetryLimit,
};
use crate::{
    catalog::Catalog,
    model::{Profile, RetentionPeriods},
    ports::{Lanes, Ports, StoreError, WakeUp},
    tenure::Tenure,
    trouble::{Trouble, Troubles},
};

/// What every step of the line works with.
pub struct Line {
    /// The outside.
    pub ports: Ports,
    /// What is known of applications and endpoints.
    pub catalog: Arc<Catalog>,
    /// Who owns the lanes.
    pub wake_up: Arc<dyn WakeUp>,
    /// How they stand.
    pub lanes: Arc<dyn Lanes>,
    /// Who may publish where, also while the store is away.
    pub publishers: Publishers,
    /// Who must queue behind what waits in the spool.
    pub backlog: Arc<Backlog>,
    /// Rung when something was put into the spool.
    pub spool_bell: Notify,
    /// Which lanes this node may send for, and which duties are its.
    pub tenure: Tenure,
    /// What this node has in hand of the organizations' limits, where nodes share a store.
    pub budgets: Arc<Budgets>,
    /// How many events each organization may publish.
    pub publish_rates: Rates,
    /// What is tried again, and was told.
    pub troubles: Troubles,
    /// Whether this machine lacks what requests need.
    shortage: Mutex<Trouble>,
    /// How this process calls itself in attempts.
    pub node: String,
    /// How long an idempotency key is remembered.
    pub idempotency_window: Duration,
    /// How long things are kept.
    pub retention: RetentionPeriods,
    /// How often people may retry by hand.
    pub retry_limit: RetryLimit,
    /// How many verifications and test events may go out.
    pub on_demand_limit: OnDemandLimit,
    /// What must not be sent any more.
    pub erasures: Erasures,
    /// Where schemas and filters are evaluated that are not quick.
    pub evaluations: Evaluations,
    /// Rung when there is something new to do for an operation. A ring that nobody hears costs nothing: what there is to do is in the store.
    pub operations_bell: Notify,
}

/// What a line is told by the one who starts it.
#[derive(Clone, Debug)]
pub struct LineSettings {
    /// How this process calls itself in attempts.
    pub node: String,
    /// How long an idempotency key is remembered.
    pub idempotency_window: Duration,
    /// What holds where nobody set a limit.
    pub profile: Profile,
    /// How long things are kept.
    pub retention: RetentionPeriods,
    /// Where schemas and filters are evaluated that are not quick.
    pub evaluation_threads: EvaluationThreads,
}

impl Line {
    /// A line over these ports.
    pub fn new<O: WakeUp + Lanes + 'static>(ports: Ports, owner: Arc<O>, settings: LineSettings) -> Self {
        let LineSettings { node, idempotency_window, profile, retention, evaluation_threads } = settings;
        let backlog = Arc::new(Backlog::new(&ports));
        Self {
            tenure: Tenure::new(ports.leases.terms(), ports.clock.clone()),
            troubles: Troubles::new(ports.leases.terms()),
            shortage: Mutex::new(Trouble::told_at_once()),
            catalog: Arc::new(Catalog::new(ports.directory.clone(), ports.vault.clone(), profile)),
            publishers: Publishers::new(&ports, backlog.clone()),
            backlog,
            spool_bell: Notify::new(),
            evaluations: Evaluations::new(ports.clock.clone(), evaluation_threads),
            ports,
            wake_up: owner.clone(),
            lanes: owner,
            budgets: Arc::default(),
            publish_rates: Rates::default(),
            retry_limit: RetryLimit::default(),
            on_demand_limit: OnDemandLimit::default(),
            erasures: Erasures::default(),
            operations_bell: Notify::new(),
            node,
            idempotency_window,
            retention,
        }
    }

    /// Tells that something did not work and is tried again, unless that was told a moment ago or whoever keeps the lease tells of it.
    pub(crate) fn tell_delay(&self, what: &'static str, error: &StoreError) {
        let words = error.in_words();
        if self.troubles.failed(what, self.ports.clock.uptime()) {
            tracing::warn!("{what} is delayed: {words}");
        } else {
            tracing::debug!("{what} is delayed: {words}");
        }
    }

    /// Tells that this machine lacks what a request needs. Nobody else tells of it, so that it is told at once, and then once a minute.
    pub(crate) fn tell_shortage(&self, error: &str) {
        let mut shortage = self.shortage.lock().unwrap_or_else(PoisonError::into_inner);
        if shortage.failed(self.ports.clock.uptime()).is_some() {
            tracing::error!(
                "deliveries wait because there is no room for their connections ({error}). They are tried again each second; if open files are short, raise \
                 their limit or lower `concurrency`"
            );
        }
    }
}
