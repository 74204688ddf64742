//! Starting, stopping and restarting the engine.
//!
//! If the owner panics, its requests are aborted, the outcomes it had are written, and a new owner reads everything from the store: nothing is
//! stranded in a memory that nobody looks at.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

pub use crate::lanes::{EngineSettings, EngineStatus};
use crate::{
    jobs::{alert_rules, approvals, backfills, call_records, deletions, endpoint_health, health_checks, operations, resealing, retention},
    lanes::{
        Hints,
        owner::{Connections, Owner, OwnerExit},
        settler::{self, Unwritten},
    },
    line::Line,
    nodes::{exchange, keeper},
    ports::{Roles, WaitingQueue},
    time::Timestamp,
};

/// How long a panicked engine waits before it starts again.
const RESTART_DELAY: Duration = Duration::from_millis(200);

/// How many queues of endpoints that are not in the catalog are taken at once from what other nodes hinted: as many as are looked up in one second, about.
const UNKNOWN_QUEUES_MAX: usize = 256;

/// How long a stop waits for outcomes to be written, at the least.
const SETTLE_GRACE: Duration = Duration::from_secs(5);

/// How long a stop waits for the lease to be ended: it ends by itself a little later.
const LEASE_GRACE: Duration = Duration::from_secs(2);

/// A running engine. Dropping it without [`Engine::stop`] aborts it, as a crash would.
pub struct Engine {
    clock: Arc<dyn crate::ports::Clock>,
    stop: watch::Sender<Option<Timestamp>>,
    status: watch::Receiver<EngineStatus>,
    task: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts the engine on the current runtime.
    pub fn start(line: Arc<Line>, hints: Hints, settings: EngineSettings) -> Self {
        let (stop, stopped) = watch::channel(None);
        let (report, status) = watch::channel(EngineStatus::default());
        let clock = line.ports.clock.clone();
        let task = tokio::spawn(supervise(line, hints, settings, stopped, report));
        Self { clock, stop, status, task: Some(task) }
    }

    /// What it is doing now.
    pub fn status(&self) -> EngineStatus {
        *self.status.borrow()
    }

    /// What it is doing, for whoever asks again and again.
    pub fn statuses(&self) -> watch::Receiver<EngineStatus> {
        self.status.clone()
    }

    /// Stops: starts nothing new, lets what is in flight end within `grace`, aborts the rest (it still waits in the store), and writes every outcome.
    /// A caller that stops waiting for that aborts it.
    pub async fn stop(mut self, grace: Duration) {
        // A stopped engine has no receiver; then there is nothing to tell.
        let _ = self.stop.send(Some(self.clock.now() + grace));
        if let Some(task) = &mut self.task
            && let Err(error) = task.await
        {
            tracing::error!(error = &error as &dyn std::error::Error, "the delivery engine did not stop cleanly");
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn supervise(
    line: Arc<Line>,
    mut hints: Hints,
    settings: EngineSettings,
    stop: watch::Receiver<Option<Timestamp>>,
    status: watch::Sender<EngineStatus>,
) {
    let (operations, retention) = (operations::run(line.clone()), retention::run(line.clone()));
    let (deletions, resealing) = (deletions::run(line.clone()), resealing::run(line.clone()));
    let (backfills, endpoint_health) = (backfills::run(line.clone()), endpoint_health::run(line.clone()));
    let (health_checks, approvals, alert_rules) =
        (health_checks::run(line.clone()), approvals::run(line.clone()), alert_rules::run(line.clone()));
    let beside = [
        operations.boxed(),
        retention.boxed(),
        deletions.boxed(),
        resealing.boxed(),
        backfills.boxed(),
        endpoint_health.boxed(),
        health_checks.boxed(),
        approvals.boxed(),
        alert_rules.boxed(),
        call_records::run(line.clone()).boxed(),
    ];
    let beside = beside.map(|task| AbortOnDrop(tokio::spawn(task)));
    let between = between_nodes(&line, settings.roles, &stop);
    loop {
        let ended = match await_lease(&line, stop.clone()).await {
            Some(_) => run_once(line.clone(), &mut hints, settings, stop.clone(), status.clone()).await,
            None => OwnerExit::Stopped,
        };
        match ended {
            OwnerExit::Stopped => {
                for task in beside {
                    task.abort().await;
                }
                end_lease(&line, between).await;
                return;
            }
            OwnerExit::Lost => continue,
            OwnerExit::SettlerGone => {}
        }
        status.send_modify(|status| status.restarts += 1);
        tracing::error!(restarts = status.borrow().restarts, "panic in the delivery engine; it restarts from the store");
        line.ports.clock.sleep_until(line.ports.clock.now() + RESTART_DELAY).await;
    }
}

/// What runs only where nodes share a store: one keeps the lease, one listens to the others, one asks for its part of what they share.
fn between_nodes(line: &Arc<Line>, roles: Roles, stop: &watch::Receiver<Option<Timestamp>>) -> Vec<AbortOnDrop> {
    if !line.held_lease.is_shared() {
        return Vec::new();
    }
    let keeper = keeper::run(line.clone(), roles, stop.clone());
    let tasks = [tokio::spawn(keeper), tokio::spawn(listen(line.clone())), tokio::spawn(exchange::run(line.clone()))];
    tasks.map(AbortOnDrop).into()
}

/// Hears the hints of other nodes, and says which ones this node wants.
async fn listen(line: Arc<Line>) {
    let (hints, mut changes) = (&line.ports.remote_hints, line.held_lease.changes());
    hints.holds(changes.borrow_and_update().staying());
    loop {
        tokio::select! {
            // In order, not by chance: a seed must give the same run again.
            biased;
            // `Line` owns the sender, so the channel cannot close here.
            _ = changes.changed() => hints.holds(changes.borrow_and_update().staying()),
            mut queues = hints.next() => {
                WaitingQueue::merge(&mut queues);
                line.wake_up.waiting(known_first(&line, queues));
            }
        }
    }
}

/// Those of endpoints that this node knows, and then a few others: hints can be forged, and must not crowd out those that are not.
fn known_first(line: &Line, queues: Vec<WaitingQueue>) -> Vec<WaitingQueue> {
    let is_known = |queue: &WaitingQueue| line.catalog.known(queue.application).is_some_and(|view| view.enabled(queue.lane_id).is_some());
    let (mut known, mut unknown): (Vec<_>, Vec<_>) = queues.into_iter().partition(is_known);
    unknown.truncate(UNKNOWN_QUEUES_MAX);
    known.append(&mut unknown);
    known
}

/// Waits until there is a lease; `None` if it is told to stop first.
async fn await_lease(line: &Line, mut stop: watch::Receiver<Option<Timestamp>>) -> Option<()> {
    let mut changes = line.held_lease.changes();
    tokio::select! {
        // In order, not by chance: a seed must give the same run again.
        biased;
        // The line lives, and so does the sender.
        _ = changes.wait_for(|state| state.has_lease) => Some(()),
        _ = stop.wait_for(Option::is_some) => None,
    }
}

/// The last step of a stop: others may take what was held at once.
async fn end_lease(line: &Line, between: Vec<AbortOnDrop>) {
    if !line.held_lease.is_shared() {
        return;
    }
    for task in between {
        task.abort().await;
    }
    line.held_lease.revoke();
    exchange::hand_back(line).await;
    let clock = &line.ports.clock;
    tokio::select! {
        biased;
        ended = line.ports.leases.end() => {
            if let Err(error) = ended {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot release the lease; it expires on its own");
            }
        }
        () = clock.sleep_until(clock.now() + LEASE_GRACE) => tracing::warn!("cannot release the lease in time; it expires on its own"),
    }
}

/// One life of the engine. The settler ends when the owner's end of the channel is gone, after it has written what it was given.
async fn run_once(
    line: Arc<Line>,
    hints: &mut Hints,
    settings: EngineSettings,
    stop: watch::Receiver<Option<Timestamp>>,
    status: watch::Sender<EngineStatus>,
) -> OwnerExit {
    let _life = line.held_lease.life().await;
    let (outcomes, to_settle) = mpsc::unbounded_channel();
    let (settled, written) = mpsc::unbounded_channel();
    let unwritten = Arc::new(Unwritten::default());
    let settler = AbortOnDrop(tokio::spawn(settler::run(line.clone(), unwritten.clone(), to_settle, settled)));
    let with = Connections { hints, outcomes, written, unwritten, stop: stop.clone(), status };
    let ended = AssertUnwindSafe(Owner::new(line.clone(), settings, with).run()).catch_unwind().await;
    let stop_at = *stop.borrow();
    write_the_rest(&line, settler, stop_at).await;
    ended.unwrap_or(OwnerExit::SettlerGone)
}

/// Waits for the settler. A stop does not wait for a store that cannot be written to: what is unwritten is sent again by the next start.
async fn write_the_rest(line: &Line, settler: AbortOnDrop, stop_at: Option<Timestamp>) {
    let clock = &line.ports.clock;
    let patience = async {
        match stop_at {
            Some(stop_at) => clock.sleep_until(stop_at.max(clock.now() + SETTLE_GRACE)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        // In order, not by chance: a seed must give the same run again.
        biased;
        settled = settler.join() => {
            if let Err(error) = settled {
                tracing::error!(error = &error as &dyn std::error::Error, "the task that writes outcomes did not stop cleanly");
            }
        }
        () = patience => tracing::error!("cannot write all outcomes before shutdown; their requests will be repeated"),
    }
}

/// A task that ends with the future that waits for it.
struct AbortOnDrop(JoinHandle<()>);

impl AbortOnDrop {
    async fn join(mut self) -> Result<(), tokio::task::JoinError> {
        (&mut self.0).await
    }

    /// Ends it wherever it stands, and waits until it has let go of everything.
    async fn abort(mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
