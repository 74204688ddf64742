//! Carries operations out: one task beside the owner, which selects what each is about and works it off, a bounded step at a time.
//!
//! Started by the supervisor, woken by the line's bell. It remembers nothing that matters: each step begins with what the store says and ends in
//! one atomic write, so that a crash between any two costs nothing and repeats nothing. Operations take turns, a step each. What it makes are
//! ordinary deliveries, which take their turns in their lanes; it never sends anything itself.

mod automatic;
mod selecting;
mod working;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    ids::{OperationId, OrganizationId},
    line::{Line, alert},
    model::{self, Operation, OperationKind, OperationStatus, Selection},
    policy::bucket::Bucket,
    ports::{Cleared, Ending, OpenOperation, Phase, StoreError},
    time::Timestamp,
};

/// How long to wait before trying again what the store refused, or what panicked.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How often is looked for something to do where nodes share a store.
const SHARED_INTERVAL: Duration = Duration::from_secs(1);

/// How many operations take turns. An organization may have a few, so that this is more than there are.
const OPEN_MAX: u32 = 10_000;

/// How many items of an operation that has ended are forgotten in one write.
const CLEAR_BATCH: u32 = 1_000;

/// Carries operations out for ever. Never panics.
pub(crate) async fn run(line: Arc<Line>) {
    let mut duty = Duty::new(line.clone());
    loop {
        let next = match AssertUnwindSafe(duty.round()).catch_unwind().await {
            // Other nodes ring only their own bells, and duties change hands.
            Ok(Next::WhenRung) if line.held_lease.is_shared() => Next::At(line.ports.clock.now() + SHARED_INTERVAL),
            Ok(next) => next,
            Err(_) => {
                tracing::error!("panic in a step of an operation; it is tried again");
                Next::At(line.ports.clock.now() + RETRY_DELAY)
            }
        };
        match next {
            // Between two steps everybody else has their turn.
            Next::Now => tokio::task::yield_now().await,
            Next::At(at) => tokio::select! {
                () = line.operations_bell.notified() => duty.look_at = Timestamp::EPOCH,
                () = line.ports.clock.sleep_until(at) => {}
            },
            Next::WhenRung => {
                line.operations_bell.notified().await;
                duty.look_at = Timestamp::EPOCH;
            }
        }
    }
}

/// When there is something to do again. Ordered by urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Now,
    At(Timestamp),
    WhenRung,
}

struct Duty {
    line: Arc<Line>,
    /// How fast operations may go, for those that have a limit. A restart fills them, which is worth one burst.
    buckets: FxHashMap<OperationId, Bucket>,
    /// The same for organizations whose dead letters come back by themselves.
    auto_buckets: FxHashMap<OrganizationId, Bucket>,
    /// The operations whose selection this node has begun or gone on with.
    selecting: FxHashSet<OperationId>,
    /// When to look for such dead letters. Whoever changes what should happen rings the bell.
    look_at: Timestamp,
    /// Whether an end may have been recorded that was not told yet.
    has_untold: bool,
}

impl Duty {
    fn new(line: Arc<Line>) -> Self {
        let (buckets, auto_buckets) = (FxHashMap::default(), FxHashMap::default());
        Self { line, buckets, auto_buckets, selecting: FxHashSet::default(), look_at: Timestamp::EPOCH, has_untold: false }
    }

    /// One step of each operation, and a look at what comes back by itself.
    async fn round(&mut self) -> Next {
        let open = match self.open_operations().await {
            Ok(open) => open,
            Err(error) => return self.delayed(&error),
        };
        let is_open = |id: &OperationId| open.iter().any(|open| open.operation.id == *id);
        self.buckets.retain(|id, _| is_open(id));
        self.selecting.retain(is_open);
        let mut next = Next::WhenRung;
        for open in open {
            if !self.line.held_lease.does(model::Duty::Operations) {
                break;
            }
            let step = match self.step(&open).await {
                Ok(step) => step,
                Err(error @ StoreError::Corrupt(_)) => self.give_up(&open.operation, &error).await,
                Err(error) => self.delayed(&error),
            };
            next = next.min(step);
        }
        next.min(self.bring_back().await).min(self.tell().await)
    }

    /// The operations that are this node's to carry out.
    async fn open_operations(&self) -> Result<Vec<OpenOperation>, StoreError> {
        if !self.line.held_lease.does(model::Duty::Operations) {
            return Ok(Vec::new());
        }
        self.line.ports.operations.open_operations(OPEN_MAX).await
    }

    async fn step(&mut self, open: &OpenOperation) -> Result<Next, StoreError> {
        match open.phase {
            Phase::Selecting(after) => {
                self.forget_cached_application(open);
                selecting::step(&self.line, open, after).await?;
                Ok(Next::Now)
            }
            // Carried out by a task of its own.
            Phase::Selected if open.operation.kind == OperationKind::Backfill => Ok(Next::WhenRung),
            Phase::Selected => self.work(&open.operation).await,
            Phase::Clearing => {
                self.has_untold = true;
                Ok(match self.line.ports.operations.clear(open.operation.id, CLEAR_BATCH).await? {
                    Cleared::SomeLeft => Next::Now,
                    Cleared::All => Next::WhenRung,
                })
            }
        }
    }

    /// Where nodes share a store, another may have enabled an endpoint just before it began the operation: before this node's first look at what an
    /// operation is about, it forgets what it remembers of the application. Once, because publishers need it, too, and later changes are not meant.
    fn forget_cached_application(&mut self, open: &OpenOperation) {
        if let Selection::Events(events) = &open.selection
            && self.line.held_lease.is_shared()
            && self.selecting.insert(open.operation.id)
        {
            self.line.catalog.forget(events.application);
        }
    }

    async fn end(&mut self, operation: &Operation, status: OperationStatus) -> Result<Next, StoreError> {
        let at = self.line.ports.clock.now();
        let (organization, id) = (operation.organization, operation.id);
        // As it stands now, so that what is told is the whole.
        let Some(found) = self.line.ports.operations.operation(organization, id).await? else { return Ok(Next::WhenRung) };
        let alert = alert::of_operation(&self.line, &found, status, at);
        self.has_untold = true;
        self.line.ports.operations.end(Ending { organization, operation: id, status, at, alert, entry: None }).await?;
        Ok(Next::Now)
    }

    /// What cannot be understood does not heal by trying again.
    async fn give_up(&mut self, operation: &Operation, error: &StoreError) -> Next {
        tracing::error!(error = error as &dyn std::error::Error, operation.id = %operation.id, "cannot continue an operation");
        match self.end(operation, OperationStatus::Failed).await {
            Ok(next) => next,
            Err(error) => self.delayed(&error),
        }
    }

    /// Tells the organization of ends.
    async fn tell(&mut self) -> Next {
        if !self.has_untold {
            return Next::WhenRung;
        }
        match alert::publish_pending(&self.line).await {
            Ok(()) => {
                self.has_untold = false;
                Next::WhenRung
            }
            Err(error) => self.delayed(&error),
        }
    }

    fn delayed(&self, error: &StoreError) -> Next {
        self.line.log_delay("continuing operations", error);
        Next::At(self.line.ports.clock.now() + RETRY_DELAY)
    }
}
