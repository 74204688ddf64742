//! What is done to the machine: kills, power cuts, also in the middle of a write or of a start, restarts, faults of the store, jumps of the clock.

use std::{collections::BTreeMap, time::Duration};

use everhook_core::ports::Clock;
use rusqlite::Connection;

use super::{ALWAYS, Simulation, log::Happening, look::Reading, oracle::Violation};
use crate::{disk::Survival, faults::Kind};

/// How often in a row a start may be interrupted.
const BROKEN_STARTS_MAX: u32 = 3;

/// Within how many changes of the disk a planned death comes: some commits from now.
pub(super) const SOON_CHANGES: u64 = 60;

/// About how many changes a checkpoint makes.
const CHECKPOINT_CHANGES: u64 = 20;

/// How long a graceful stop may take.
const GRACE: Duration = Duration::from_secs(30);

/// A death in the middle of a write, and what it leaves.
#[derive(Clone, Copy)]
pub(super) struct PlannedDeath(Survival);

impl Simulation {
    /// The store fails at one of its next calls, before or after it did what was asked.
    pub(super) fn plan_a_fault(&mut self) {
        let kind = [Kind::Before, Kind::Midway, Kind::After][self.dice.below(3) as usize];
        let passing = self.dice.below(30) as u32;
        self.world.faults.plan(passing, kind);
        self.tally.faults += 1;
        self.log.note(Happening::FaultPlanned(format!("{kind:?}, after {passing} calls")));
    }

    /// Nothing can be written for a while.
    pub(super) fn fill_the_disk(&self) {
        if !self.disk.is_full() {
            self.disk.fill();
            self.log.note(Happening::DiskFilled);
        }
    }

    /// Somebody makes space, if there is none.
    pub(super) fn free_the_disk(&self) {
        if self.disk.is_full() {
            self.disk.free();
            self.log.note(Happening::DiskFreed);
        }
    }

    /// The store moves its log into the file only once in 32 MiB, or when it is closed. Here it happens more often, and now and then the process
    /// dies in it.
    pub(super) async fn checkpoint(&mut self) -> Result<(), Violation> {
        let manner = ["PASSIVE", "RESTART", "TRUNCATE"][self.dice.below(3) as usize];
        self.log.note(Happening::Checkpointed(manner));
        if self.dice.below(3) == 0 {
            self.plan_a_death(CHECKPOINT_CHANGES);
        }
        // It fails if the disk is full or goes off, which is what it is for.
        let _ = Connection::open(&self.database).and_then(|connection| connection.pragma(None, "wal_checkpoint", manner, |_| Ok(())));
        if self.disk.is_off() { self.come_back().await } else { Ok(()) }
    }

    /// The machine was suspended, or somebody set its clock.
    pub(super) fn move_the_clock(&mut self) {
        let by = Duration::from_secs(1 + self.dice.below(1_800));
        self.world.clock.move_to(self.world.clock.now() + by);
        self.log.note(Happening::ClockMoved(micros(by)));
    }

    /// The process dies in the middle of one of its next writes.
    pub(super) fn plan_a_death(&mut self, within_changes: u64) {
        let changes = self.dice.below(within_changes);
        self.planned_death = Some(PlannedDeath(self.some_survival()));
        self.disk.power_off_after(changes);
        self.log.note(Happening::DeathPlanned(changes));
    }

    pub(super) async fn kill(&mut self) -> Result<(), Violation> {
        self.planned_death = Some(PlannedDeath(Survival::Everything));
        self.come_back().await
    }

    pub(super) async fn cut_the_power(&mut self) -> Result<(), Violation> {
        self.planned_death = Some(PlannedDeath(self.some_cut()));
        self.come_back().await
    }

    /// Stops the process as an operator would; sometimes the power fails before it starts again.
    pub(super) async fn restart_gracefully(&mut self) -> Result<(), Violation> {
        let disk = self.disk.clone();
        self.world.stop_unless(GRACE, || disk.is_off()).await;
        if self.disk.is_off() {
            return self.come_back().await;
        }
        self.tally.restarts += 1;
        self.log.note(Happening::Stopped);
        if self.dice.below(3) == 0 {
            return self.cut_the_power().await;
        }
        self.drop_callers();
        self.world.kill().await;
        self.start(Survival::Everything).await
    }

    /// The process is dead, or dies now. It comes back after a while, on what is left of its files.
    pub(super) async fn come_back(&mut self) -> Result<(), Violation> {
        let PlannedDeath(survival) = self.planned_death.take().unwrap_or(PlannedDeath(Survival::Everything));
        self.disk.power_off();
        self.count(survival);
        self.log.note(Happening::Died(in_words(survival).to_owned()));
        self.drop_callers();
        self.world.kill().await;
        self.start(survival).await
    }

    async fn start(&mut self, survival: Survival) -> Result<(), Violation> {
        self.stay_down();
        self.free_the_disk();
        self.disk.power_off();
        self.disk.power_on(survival, &self.dice);
        for _ in 0..BROKEN_STARTS_MAX {
            if self.dice.below(8) == 0 {
                self.die_while_starting().await;
            }
        }
        self.world.try_start().map_err(|error| Violation {
            rule: "the store opens after every death",
            because: format!("{:#}", anyhow::Error::new(error)),
        })?;
        self.log.note(Happening::Started);
        self.check_the_file()?;
        self.judge(ALWAYS, &self.look(Reading::Quick).await?, &BTreeMap::new())
    }

    /// What is recovered at a start is written, too, and that may be interrupted.
    async fn die_while_starting(&mut self) {
        self.disk.power_off_after(self.dice.below(20));
        // Whether it opened before it died makes no difference.
        let _ = self.world.try_start();
        let survival = self.some_survival();
        self.count(survival);
        self.disk.power_off();
        self.log.note(Happening::Died(format!("while starting, {}", in_words(survival))));
        self.world.kill().await;
        self.disk.power_on(survival, &self.dice);
    }

    /// Time goes on while the process is down, and its clock may be set back a little.
    fn stay_down(&self) {
        let clock = &self.world.clock;
        clock.move_to(clock.now() + Duration::from_millis(self.dice.below(20_000)));
        if self.dice.below(5) == 0 {
            let by = Duration::from_millis(1 + self.dice.below(3_000));
            clock.set_back(by);
            self.log.note(Happening::ClockMoved(-micros(by)));
        }
    }

    /// SQLite's own look at the whole file: a page that was torn would show here first.
    fn check_the_file(&self) -> Result<(), Violation> {
        let check =
            || -> rusqlite::Result<String> { Connection::open(&self.database)?.pragma_query_value(None, "quick_check", |row| row.get(0)) };
        let said = check().unwrap_or_else(|error| error.to_string());
        if said == "ok" { Ok(()) } else { Err(Violation { rule: "the file is whole after every death", because: said }) }
    }

    fn count(&mut self, survival: Survival) {
        if survival == Survival::Everything {
            self.tally.kills += 1;
        } else {
            self.tally.power_cuts += 1;
        }
    }

    fn some_survival(&self) -> Survival {
        if self.dice.below(3) == 0 { Survival::Everything } else { self.some_cut() }
    }

    fn some_cut(&self) -> Survival {
        [Survival::Synced, Survival::Beginning, Survival::Scattered][self.dice.below(3) as usize]
    }
}

fn in_words(survival: Survival) -> &'static str {
    match survival {
        Survival::Everything => "killed",
        Survival::Synced => "power cut, nothing unsynced survives",
        Survival::Beginning => "power cut, a beginning of the unsynced survives",
        Survival::Scattered => "power cut, what is unsynced survives here and there",
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).expect("a short span")
}
