//! The simulation: from one seed, organizations, endpoints of every character, load, changes, crashes, power cuts, faults of the store and jumps of
//! the clock; the real core on the real SQLite. First safety, then everything heals, then liveness. The same seed gives the same run.
//!
//! `population`, `neighbors`, `providers`, `shop`, `apps` and `organizer` make who is there, `mails` is their mail server, `load`, `changes`, `recalls`, `erasures` and `disasters` are what happens to them, `receivers` is the other side of the network,
//! `log` is what happened, and `oracle` says whether that was right. The `simulate` binary and the tests call [`run`].

mod apps;
mod changes;
mod disasters;
mod erasures;
mod flow;
mod healing;
mod load;
pub mod log;
mod look;
mod mails;
mod neighbors;
pub mod oracle;
mod organizer;
mod population;
mod providers;
mod recalls;
mod receivers;
pub mod settings;
mod shop;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use everhook_core::{
    ids::{ApplicationId, DeliveryId, OrganizationId},
    ports::Clock,
    time::Timestamp,
};

use self::{
    apps::Caller,
    disasters::{PlannedDeath, SOON_CHANGES},
    load::Attempted,
    log::{Happening, Log},
    mails::MailServer,
    neighbors::Neighbors,
    oracle::{ALWAYS, AT_THE_END, EndpointFacts, Evidence, Facts, Rule, Stored, Violation, judge},
    providers::Provider,
    receivers::Receivers,
    settings::{Limits, Settings},
    shop::Shop,
};
use crate::{
    dice::Dice,
    disk::{Disk, Mounted, Syncing, mount},
    world::{BEGINNING, Ground, World},
};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Where all chance comes from.
    pub seed: u64,
    /// How long things happen, in simulated time, before they heal.
    pub span: Duration,
    /// Whether the disk syncs.
    pub syncing: Syncing,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed that gives it again.
    pub seed: u64,
    /// Two runs with the same number were the same.
    pub fingerprint: u64,
    /// What was counted.
    pub tally: Tally,
    /// The rule that was broken, if one was.
    pub violation: Option<Violation>,
    /// What happened, one line each.
    pub trace: Vec<String>,
}

/// What was counted in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events that were accepted.
    pub accepted: usize,
    /// Pushes of providers that were accepted.
    pub received: usize,
    /// Calls that became jobs.
    pub jobs: usize,
    /// Mails that the mail server took.
    pub mails: usize,
    /// Requests that were sent.
    pub requests: usize,
    /// Those among them that repeated one whose outcome was lost.
    pub repeated: usize,
    /// Deliveries that ended so.
    pub delivered: usize,
    /// Deliveries that ended so.
    pub dead: usize,
    /// Deliveries that ended so.
    pub cancelled: usize,
    /// Deliveries that had an order.
    pub ordered: usize,
    /// Times that a breaker opened.
    pub openings: usize,
    /// Changes that owners made: pauses, modes, rates, breakers by hand and the rest.
    pub changes: usize,
    /// Times that the process was killed.
    pub kills: usize,
    /// Times that the power was cut.
    pub power_cuts: usize,
    /// Graceful restarts.
    pub restarts: usize,
    /// Faults that were planned in the store.
    pub faults: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.received += other.received;
        self.jobs += other.jobs;
        self.mails += other.mails;
        self.requests += other.requests;
        self.repeated += other.repeated;
        self.delivered += other.delivered;
        self.dead += other.dead;
        self.cancelled += other.cancelled;
        self.ordered += other.ordered;
        self.openings += other.openings;
        self.changes += other.changes;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.restarts += other.restarts;
        self.faults += other.faults;
    }
}

/// Runs one seed on a runtime of its own, in this thread.
pub fn run(plan: Plan) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut simulation = Simulation::new(plan).await;
        let violation = simulation.live().await.err();
        simulation.outcome(violation)
    })
}

/// A run under way.
struct Simulation {
    plan: Plan,
    dice: Dice,
    disk: Arc<Disk>,
    log: Arc<Log>,
    receivers: Arc<Receivers>,
    mail_server: Arc<MailServer>,
    // The world goes before the place where its files are.
    world: World,
    database: PathBuf,
    _mounted: Mounted,
    tenants: Vec<OrganizationId>,
    /// The applications that events are published to, with their tenants.
    applications: Vec<(usize, ApplicationId)>,
    operational: BTreeSet<ApplicationId>,
    /// How many administrators are told of the events of these.
    administrators: BTreeMap<ApplicationId, usize>,
    endpoints: Vec<EndpointFacts>,
    /// How each endpoint stands, as far as its owner knows.
    settings: Vec<Settings>,
    /// Whether somebody forced its breaker and did not reset it since.
    perhaps_forced: Vec<bool>,
    /// What each tenant may use.
    limits: Vec<Limits>,
    /// How many tries publishers made.
    publications: usize,
    /// What was published with a key of late, to be published again.
    recent: VecDeque<Attempted>,
    /// What was not accepted, and whose publisher tries again.
    unanswered: Vec<Attempted>,
    planned_death: Option<PlannedDeath>,
    /// Who does its worst, and who must not notice.
    neighbors: Option<Neighbors>,
    /// Who pushes, and about whom.
    provider: Option<Provider>,
    /// Who pushes what is signed.
    shop: Option<Shop>,
    /// Who calls an app.
    caller: Option<Caller>,
    /// How many of the tenants and endpoints have owners who change them.
    changeable: Changeable,
    tally: Tally,
}

/// The first of them have owners who change them; the others are the neighbors'.
#[derive(Clone, Copy, Default)]
struct Changeable {
    tenants: u64,
    endpoints: u64,
}

impl Simulation {
    async fn new(plan: Plan) -> Self {
        let ground = Ground::new(plan.seed);
        let disk = Disk::new(plan.syncing);
        let mounted = mount(ground.folder.path(), &disk);
        let log = Arc::new(Log::new(ground.clock.clone()));
        let receivers = Arc::new(Receivers::new(ground.clock.clone(), disk.clone(), log.clone(), plan.seed ^ 0x5EED));
        let database = ground.folder.path().join("everhook.db");
        let mail_server = Arc::new(MailServer::new(ground.clock.clone(), disk.clone(), log.clone(), plan.seed ^ 0x3A11));
        let world = World::on(Ground { transport: Some(receivers.clone()), notifier: Some(mail_server.clone()), ..ground }).await;
        let mut simulation = Self {
            plan,
            dice: Dice::new(plan.seed.rotate_left(32) ^ 0xD1CE),
            disk,
            log,
            receivers,
            mail_server,
            world,
            database,
            _mounted: mounted,
            tenants: Vec::new(),
            applications: Vec::new(),
            operational: BTreeSet::new(),
            administrators: BTreeMap::new(),
            endpoints: Vec::new(),
            settings: Vec::new(),
            perhaps_forced: Vec::new(),
            limits: Vec::new(),
            publications: 0,
            recent: VecDeque::new(),
            unanswered: Vec::new(),
            planned_death: None,
            neighbors: None,
            provider: None,
            shop: None,
            caller: None,
            changeable: Changeable::default(),
            tally: Tally::default(),
        };
        simulation.populate().await;
        simulation.changeable = Changeable { tenants: simulation.tenants.len() as u64, endpoints: simulation.endpoints.len() as u64 };
        simulation.settle_neighbors().await;
        simulation.settle_provider().await;
        simulation.settle_shop().await;
        simulation.settle_caller().await;
        simulation
    }

    /// Things happen, then everything heals.
    async fn live(&mut self) -> Result<(), Violation> {
        let end = BEGINNING + self.plan.span;
        while self.world.clock.now() < end {
            self.pass(self.some_gap()).await?;
            self.look_for_stranded();
            if self.dice.below(5) == 0 {
                self.free_the_disk();
            }
            match self.dice.below(20) {
                0 => self.let_the_hostile_burst().await?,
                1..6 => self.nudge_the_quiet().await?,
                6..10 => self.let_the_provider_act().await?,
                10..14 => self.let_the_caller_act().await?,
                14..17 => self.let_the_shop_act().await?,
                _ => {}
            }
            match self.dice.below(100) {
                0..54 => self.publish_some().await?,
                54..56 => self.checkpoint().await?,
                56..57 => self.erase_something().await?,
                57..72 => self.change_an_endpoint().await?,
                72..74 => self.change_limits().await?,
                74..76 => self.recall_something().await?,
                76..77 => self.let_the_mail_server_go(),
                77..83 => self.plan_a_fault(),
                83..85 => self.fill_the_disk(),
                85..87 => self.move_the_clock(),
                87..90 => self.restart_gracefully().await?,
                90..93 => self.kill().await?,
                93..96 => self.cut_the_power().await?,
                _ => self.plan_a_death(SOON_CHANGES),
            }
        }
        self.heal_and_wait().await
    }

    /// Many things at once, or nothing for minutes.
    fn some_gap(&self) -> Duration {
        let millis_max = match self.dice.below(10) {
            0..6 => 2_000,
            6..9 => 30_000,
            _ => 240_000,
        };
        Duration::from_millis(self.dice.below(millis_max))
    }

    /// Lets time pass; if the process dies in it, it comes back.
    async fn pass(&mut self, span: Duration) -> Result<(), Violation> {
        let end = self.world.clock.now() + span;
        loop {
            self.world.settle_down().await;
            if self.disk.is_off() {
                return self.come_back().await;
            }
            match self.world.clock.next_wake().filter(|at| *at <= end) {
                Some(at) => self.world.clock.move_to(at),
                None => break,
            }
        }
        self.world.clock.move_to(end);
        Ok(())
    }

    /// Asks the oracle about what the store holds.
    fn judge(&self, rules: &[Rule], stored: &Stored, due_ends: &BTreeMap<DeliveryId, Timestamp>) -> Result<(), Violation> {
        let facts = Facts { endpoints: &self.endpoints, operational: &self.operational, stored, due_ends };
        self.log.read(|entries| judge(rules, &Evidence::new(entries, facts)))
    }

    fn outcome(&self, violation: Option<Violation>) -> Outcome {
        let mut tally = self.tally;
        let mut made = BTreeSet::new();
        self.log.read(|entries| {
            for entry in entries {
                match &entry.what {
                    Happening::Answered(_, log::Answered::Accepted(..)) => tally.accepted += 1,
                    Happening::PushAnswered(_, true) | Happening::SignedAnswered(_, log::SignedAnswer::Taken) => tally.received += 1,
                    Happening::CallQueued(..) => tally.jobs += 1,
                    Happening::MailTaken(_) => tally.mails += 1,
                    Happening::Changed(..) | Happening::Limited(..) => tally.changes += 1,
                    Happening::RequestBegan(request) => {
                        tally.requests += 1;
                        tally.repeated += usize::from(!made.insert((request.delivery, request.attempt)));
                    }
                    _ => {}
                }
            }
        });
        Outcome {
            seed: self.plan.seed,
            fingerprint: self.log.fingerprint(),
            tally,
            violation,
            trace: self.log.read(|entries| entries.iter().map(ToString::to_string).collect()),
        }
    }
}
