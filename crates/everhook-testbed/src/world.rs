//! The world of a scenario: given an endpoint, when time passes, then this arrived.

mod build;
mod leftovers;
mod look;
mod shared;
mod wiring;

use std::{sync::Arc, time::Duration};

use everhook_core::{
    engine::EngineStatus,
    ids::{ApplicationId, AuditEntryId, OrganizationId},
    limits::evaluations::EvaluationThreads,
    line::Line,
    model::{Actor, Application, ApplicationKind, AuditAction, AuditEntry, AuditNote, Author, Organization},
    policy::endpoint_health::EndpointHealthSettings,
    ports::{Archive, Clock, Entropy, NewOrganization, Notifier, Ports, Transport},
    time::Timestamp,
};
use tempfile::TempDir;

pub use build::{EndpointBuilder, EventBuilder, Receiver};
use shared::SharedStore;
use wiring::Running;
pub use wiring::line_settings;

use crate::{
    clock::SimClock, cluster::Registry, dice::Dice, faults::Faults, network::ScriptedNetwork, scripted_mail_server::ScriptedMailServer,
};

/// How often every task may run without anything changing before the world counts as still. A call of the embedded store ends within one run, so that once
/// would nearly always do.
const STILL_TURNS: usize = 8;
/// How many tasks tokio runs, of those that are ready, before it comes back to whoever yields. Each time costs a system call, and a simulated day has many.
const TASKS_A_ROUND: usize = 61;

/// The instant at which every world begins.
pub const BEGINNING: Timestamp = Timestamp::from_secs(1_800_000_000);

/// The real core on a real store; time, network and dice are the test's. The store is the embedded one, or the shared one where the environment says
/// so: there, too, nobody else is beside it.
///
/// It needs a runtime with one thread, so that a run can be repeated. A scenario that leaves work over fails when its world is dropped; see `leftovers`.
pub struct World {
    /// The time.
    pub clock: Arc<SimClock>,
    /// The dice.
    pub dice: Arc<Dice>,
    /// The other side.
    pub network: Arc<ScriptedNetwork>,
    /// The mail server.
    pub mail_server: Arc<ScriptedMailServer>,
    /// What goes wrong in the store.
    pub faults: Arc<Faults>,
    /// The organization of the scenario.
    pub organization: OrganizationId,
    /// Its application `default`.
    pub application: ApplicationId,
    /// Its application `operational`.
    pub operational: ApplicationId,
    transport: Arc<dyn Transport>,
    notifier: Arc<dyn Notifier>,
    /// What it agrees on with other nodes, if there are any.
    registry: Option<Arc<Registry>>,
    /// How large its spool may become, if it has one.
    spool_bytes_max: Option<u64>,
    running: Option<Running>,
    folder: TempDir,
    /// The shared store, if it is that one. A crash does not touch it: it is another process.
    shared: Option<SharedStore>,
    endpoints_made: u32,
    /// How endpoints that fail are treated from the next start on.
    pub endpoint_health: EndpointHealthSettings,
    /// How often alert rules are evaluated from the next start on. Hardly ever, unless a scenario is about them.
    pub alert_interval: Duration,
    /// Where schemas and filters are evaluated that are not quick, from the next start on.
    pub evaluation_threads: EvaluationThreads,
    /// Where what expires is kept from the next start on.
    pub archive: Option<Arc<dyn Archive>>,
    /// Whether it may be dropped with work undone.
    may_leave_work: bool,
}

/// What a world stands on, for those who bring their own.
pub struct Ground {
    /// What the dice begin with.
    pub seed: u64,
    /// The time.
    pub clock: Arc<SimClock>,
    /// Where the store is.
    pub folder: TempDir,
    /// How requests go out, instead of over the scripted network.
    pub transport: Option<Arc<dyn Transport>>,
    /// How mails go out, instead of through the scripted mail server.
    pub notifier: Option<Arc<dyn Notifier>>,
}

impl Ground {
    /// A clock at the [`BEGINNING`], an empty folder, and the scripted network.
    pub fn new(seed: u64) -> Self {
        Self { seed, clock: Arc::new(SimClock::at(BEGINNING)), folder: folder(), transport: None, notifier: None }
    }
}

/// What is beside a world.
#[derive(Default)]
struct Beside {
    registry: Option<Arc<Registry>>,
    shared: Option<SharedStore>,
    spool_bytes_max: Option<u64>,
}

impl World {
    /// A world with one organization and a running engine.
    pub async fn new() -> Self {
        Self::seeded(1).await
    }

    /// The same, with other dice.
    pub async fn seeded(seed: u64) -> Self {
        let beside = Beside { shared: SharedStore::if_asked_for().await, ..Beside::default() };
        Self::found(Ground::new(seed), beside).await
    }

    /// The same, on this ground, which holds the embedded store. Whoever brings it also judges what is left over.
    pub async fn on(ground: Ground) -> Self {
        let mut world = Self::found(ground, Beside::default()).await;
        world.leaves_work_over();
        world
    }

    /// A world whose store can go away, and that has a spool of so many bytes for that time.
    pub async fn spooling(bytes_max: u64) -> Self {
        let beside = Beside { spool_bytes_max: Some(bytes_max), ..Beside::default() };
        Self::found(Ground::new(1), beside).await
    }

    /// The same, for a cluster: it takes events, and leaves sending and duties to other nodes.
    pub async fn fronting(ground: Ground) -> Self {
        let registry = Registry::new(ground.clock.clone());
        Self::found(ground, Beside { registry: Some(registry), ..Beside::default() }).await
    }

    async fn found(ground: Ground, beside: Beside) -> Self {
        let Ground { seed, clock, folder, transport, notifier } = ground;
        let Beside { registry, shared, spool_bytes_max } = beside;
        let dice = Arc::new(Dice::new(seed));
        let network = Arc::new(ScriptedNetwork::new(clock.clone()));
        let mail_server = Arc::new(ScriptedMailServer::new(clock.clone()));
        let mut world = Self {
            transport: transport.unwrap_or_else(|| network.clone()),
            network,
            notifier: notifier.unwrap_or_else(|| mail_server.clone()),
            mail_server,
            faults: Faults::none(),
            organization: OrganizationId::from_uuid(dice.uuid(BEGINNING)),
            application: ApplicationId::from_uuid(dice.uuid(BEGINNING)),
            operational: ApplicationId::from_uuid(dice.uuid(BEGINNING)),
            registry,
            spool_bytes_max,
            running: None,
            folder,
            shared,
            endpoints_made: 0,
            endpoint_health: EndpointHealthSettings::default(),
            alert_interval: wiring::ALERT_INTERVAL,
            evaluation_threads: EvaluationThreads::Inline,
            archive: None,
            may_leave_work: false,
            clock,
            dice,
        };
        world.start_again();
        world.found_organization().await;
        world
    }

    /// The line that runs now.
    pub fn line(&self) -> &Arc<Line> {
        &self.running.as_ref().expect("the world is running").line
    }

    /// What the engine is doing.
    pub fn status(&self) -> EngineStatus {
        self.running.as_ref().expect("the world is running").engine.status()
    }

    /// Lets time pass. Everything that is due in it happens, in order.
    pub async fn pass(&mut self, span: Duration) {
        let end = self.clock.now() + span;
        loop {
            self.settle_down().await;
            match self.clock.next_wake().filter(|at| *at <= end) {
                Some(at) => self.clock.move_to(at),
                None => break,
            }
        }
        self.clock.move_to(end);
        self.settle_down().await;
    }

    /// Lets everything happen that needs no time to pass.
    pub async fn settle_down(&self) {
        let mut before = self.heartbeat();
        let mut still = 0;
        while still < still_rounds() {
            let answered = self.wait_for_server().await;
            let now = self.heartbeat();
            still = if now == before && !answered { still + 1 } else { 0 };
            before = now;
        }
    }

    /// Lets every task run as many times, and waits for as many of a server's answers.
    pub async fn let_run(&self, rounds: u32) {
        for _ in 0..rounds {
            while self.wait_for_server().await {}
        }
    }

    /// Whether it runs on the store that nodes share.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Lets every task run many times.
    async fn let_all_run(&self) {
        let mut rounds = 0;
        while rounds < still_rounds() {
            rounds = if self.wait_for_server().await { 0 } else { rounds + 1 };
        }
    }

    /// Lets every task run once. Says whether there is a server that was being asked something; one of its answers is waited for then, so that the
    /// server has the processor meanwhile.
    async fn wait_for_server(&self) -> bool {
        let is_busy = match &self.shared {
            Some(shared) => shared.store.wait_while_busy().await,
            None => false,
        };
        tokio::task::yield_now().await;
        is_busy
    }

    /// Kills the process: everything in memory is gone, requests under way are cut. Then starts it again on the same files.
    pub async fn crash(&mut self) {
        self.kill().await;
        self.start_again();
    }

    /// Kills the process, and leaves it dead.
    pub async fn kill(&mut self) {
        self.running = None;
        // Aborted tasks are dropped when they are next looked at; only then is the data folder free.
        self.let_all_run().await;
    }

    /// Stops the engine as an operator would, while time goes on.
    pub async fn stop_within(&mut self, grace: Duration) {
        self.stop_unless(grace, || false).await;
    }

    /// The same, but the process dies in it as soon as `dies` says so.
    pub async fn stop_unless(&mut self, grace: Duration, dies: impl Fn() -> bool) {
        let running = self.running.take().expect("the world is running");
        let stopped = tokio::spawn(running.engine.stop(grace));
        while !stopped.is_finished() {
            self.let_all_run().await;
            if dies() {
                stopped.abort();
            } else if let Some(at) = self.clock.next_wake() {
                self.clock.move_to(at);
            }
        }
    }

    /// Ends the scenario: an idle engine stops at once.
    pub async fn end(mut self) {
        self.assert_operational_events_fit_their_schemas().await;
        let before = self.clock.now();
        self.stop_within(Duration::from_secs(30)).await;
        assert_eq!(self.clock.now(), before, "an idle engine took its time to stop");
    }

    /// What it agrees on with other nodes, if it fronts some.
    pub fn registry(&self) -> Option<&Arc<Registry>> {
        self.registry.as_ref()
    }

    /// The outside, as a node would have it that has nobody beside it.
    pub fn bare_ports(&self) -> Ports {
        self.running.as_ref().expect("the world is running").bare.clone()
    }

    async fn found_organization(&self) {
        let new = NewOrganization {
            organization: Organization {
                id: self.organization,
                uid: None,
                name: "Acme".to_owned(),
                limits: Default::default(),
                worker_pool: Default::default(),
                admin_emails: Vec::new(),
                created_at: BEGINNING,
            },
            default: self.application_of(self.application, "default", ApplicationKind::Default),
            operational: self.application_of(self.operational, "operational", ApplicationKind::Operational),
        };
        self.line().ports.organizations.create_organization(new, self.entry()).await.expect("the organization is made");
    }

    fn application_of(&self, id: ApplicationId, name: &str, kind: ApplicationKind) -> Application {
        let (organization, name) = (self.organization, name.to_owned());
        Application {
            id,
            organization,
            uid: None,
            name,
            kind,
            strict_event_types: false,
            owner_email: None,
            base_url: None,
            // Few scenarios are about health checks: their manifests name a health page.
            health_path: None,
            created_at: BEGINNING,
        }
    }

    /// Who makes the changes of a scenario.
    pub fn author(&self) -> Author {
        Author::server(self.organization)
    }

    /// An entry for the audit log, for changes that the scenario makes in the store itself.
    pub(crate) fn entry(&self) -> AuditEntry {
        let at = self.clock.now();
        AuditEntry {
            id: AuditEntryId::from_uuid(self.dice.uuid(at)),
            organization: self.organization,
            at,
            actor: Actor::Server,
            action: AuditAction::EndpointUpdate,
            resource: *self.organization.as_uuid(),
            note: AuditNote::default(),
        }
    }

    /// Changes whenever anything happens.
    fn heartbeat(&self) -> (usize, Option<Timestamp>, EngineStatus) {
        (self.network.arrival_count(), self.clock.next_wake(), self.status())
    }
}

/// How many rounds of the runtime let every task run [`STILL_TURNS`] times.
fn still_rounds() -> usize {
    STILL_TURNS * (1 + tokio::runtime::Handle::current().metrics().num_alive_tasks() / TASKS_A_ROUND)
}

/// In memory where the system has such a place: a simulated crash keeps the files whatever they lie on, and flushing to a disk would be most of
/// the time. Crashes of the real machine are the business of other tests.
fn folder() -> TempDir {
    let in_memory = std::path::Path::new("/dev/shm");
    let made = if in_memory.is_dir() { tempfile::tempdir_in(in_memory) } else { tempfile::tempdir() };
    made.expect("a temporary folder")
}
