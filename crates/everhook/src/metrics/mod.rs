//! What this node shows to whoever watches it: counts of the core, and measurements of the store and the system, as Prometheus reads them.
//!
//! An answer is written from memory alone. What must be asked for is asked in the background, every few seconds, and less often where that takes long: it may
//! never cost the store more than a fiftieth of a reader.

mod families;
mod process;
mod render;
mod text;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use everhook_core::{
    engine::EngineStatus,
    ids::OrganizationId,
    line::Line,
    metrics::{DURATION_BOUNDS, LABEL_SETS_MAX, Spreading},
    ports::{QueueMeasurements, StoreError},
};
use tokio::sync::watch;

use self::process::ProcessMeasurements;
pub use self::text::CONTENT_TYPE;
use crate::{descriptors::Shares, server::Admission};

/// How often the store and the system are asked, at the most.
const ASKED_EVERY: Duration = Duration::from_secs(5);

/// How much longer than it took to ask the store it is left alone.
const REST: u32 = 50;

/// How long the store may take to answer before it counts as unavailable.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many deliveries that wait are counted: a second of a reader's time.
const WAITING_MAX: u32 = 1_000_000;

/// How many moments are remembered for percentiles: those of the last five minutes.
const MOMENTS: usize = 60;

/// What is shown.
pub struct Exposition {
    line: Arc<Line>,
    engine: watch::Receiver<EngineStatus>,
    admission: Arc<Admission>,
    shares: Shares,
    pool: String,
    started_at: f64,
    kept: Mutex<Kept>,
}

/// What was asked for.
#[derive(Default)]
struct Kept {
    measurements: Option<(Instant, Measurements)>,
    store_available: bool,
    process: ProcessMeasurements,
    moments: VecDeque<Lengths>,
}

/// How long attempts took.
type Lengths = Spreading<{ DURATION_BOUNDS.len() }>;

/// What the store says.
struct Measurements {
    queues: QueueMeasurements,
    dead_letters: Vec<(OrganizationId, u64)>,
    disabled_endpoints: u64,
}

impl Exposition {
    /// What this node shows.
    pub fn new(line: Arc<Line>, engine: watch::Receiver<EngineStatus>, admission: Arc<Admission>, shares: Shares, pool: String) -> Self {
        let started_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        Self { line, engine, admission, shares, pool, started_at, kept: Mutex::new(Kept { store_available: true, ..Kept::default() }) }
    }

    /// Asks what must be asked for, again and again.
    pub async fn ask(&self) {
        tokio::join!(self.ask_store(), self.ask_system());
    }

    async fn ask_store(&self) {
        loop {
            let began = Instant::now();
            let answer = tokio::time::timeout(PATIENCE, self.measurements()).await;
            let took = began.elapsed();
            self.keep_measurements(answer.ok().and_then(Result::ok));
            tokio::time::sleep(ASKED_EVERY.max(took * REST)).await;
        }
    }

    async fn measurements(&self) -> Result<Measurements, StoreError> {
        let (store, now) = (&self.line.ports.store_measurements, self.line.ports.clock.now());
        Ok(Measurements {
            queues: store.queue_measurements(now, WAITING_MAX).await?,
            dead_letters: store.dead_letters_by_organization(LABEL_SETS_MAX as u32).await?,
            disabled_endpoints: store.disabled_endpoint_count().await?,
        })
    }

    async fn ask_system(&self) {
        loop {
            let process = tokio::task::spawn_blocking(ProcessMeasurements::read).await.unwrap_or_default();
            self.keep_moment(process);
            tokio::time::sleep(ASKED_EVERY).await;
        }
    }

    /// `None` if the store did not answer: what it said before stays, and grows old.
    fn keep_measurements(&self, measurements: Option<Measurements>) {
        let mut kept = self.kept();
        kept.store_available = measurements.is_some();
        if let Some(measurements) = measurements {
            kept.measurements = Some((Instant::now(), measurements));
        }
    }

    fn keep_moment(&self, process: ProcessMeasurements) {
        let moment = self.lengths();
        let mut kept = self.kept();
        kept.process = process;
        kept.moments.push_back(moment);
        if kept.moments.len() > MOMENTS {
            kept.moments.pop_front();
        }
    }

    /// How long all attempts took until now.
    fn lengths(&self) -> Lengths {
        let [success, failed, exhausted] = self.line.metrics.durations.each_ref().map(|spread| spread.read());
        success.and(&failed).and(&exhausted)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::families;

    const DOCUMENT: &str = include_str!("../../../../docs/monitoring.md");

    /// The names in the tables of the document: the first cell of a row, before its labels.
    fn documented() -> BTreeSet<&'static str> {
        let cells = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `"));
        cells.filter_map(|cell| cell.split(['`', '{']).next()).filter(|name| name.contains('_') && !name.starts_with("OTEL")).collect()
    }

    #[test]
    fn every_metric_is_documented_and_every_documented_one_exists() {
        let exported: BTreeSet<&str> = families::ALL.iter().map(|family| family.name).collect();
        assert_eq!(exported.len(), families::ALL.len(), "two metrics have one name");
        let settings = ["metrics_listen"];
        let documented: BTreeSet<&str> = documented().into_iter().filter(|name| !settings.contains(name)).collect();
        assert_eq!(exported, documented, "the table and docs/monitoring.md differ");
    }

    #[test]
    fn names_and_kinds_agree() {
        for family in families::ALL {
            let is_counter = matches!(family.kind, super::text::Kind::Counter);
            assert_eq!(family.name.ends_with("_total"), is_counter, "{}", family.name);
            assert!(family.help.ends_with('.') && !family.help.contains(['\\', '\n']), "{}", family.name);
        }
    }
}
