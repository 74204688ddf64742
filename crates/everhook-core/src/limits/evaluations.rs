//! Where schemas and filters are evaluated: at once if that is quick, else on threads of their own.
//!
//! Used by publishing, by forwarding from the spool, by searches, and where schemas are defined. What tenants define may take milliseconds for each
//! event. The threads that serve everybody must not be busy with it, so that it waits for one of a few other threads. An organization has one of them at
//! most for what it publishes, one for what waits in the spool, and one for what it searches; who waits too long is told so.

use std::{
    panic::resume_unwind,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    ids::{EndpointId, OrganizationId},
    model::Event,
    policy::work::{INLINE_BYTES_MAX, INLINE_UNITS_MAX, REQUEST_UNITS_MAX, WorkBudget},
    ports::{Clock, within},
    pruned::Pruned,
};

/// How long all evaluations of one request may wait and take together, from its first that is not quick: shorter than publishers wait for an answer.
pub const EVALUATION_TIMEOUT: Duration = Duration::from_secs(5);

/// How much is done at once before others have a turn, in units: some 500 µs.
const YIELD_UNITS: u64 = 5 * INLINE_UNITS_MAX;

/// How many bytes are parsed in a unit.
const PARSED_BYTES_A_UNIT: u64 = 4;

/// Where evaluations run that are not quick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationThreads {
    /// Where they are asked for, in the order in which they are: for simulations, which have one thread.
    Inline,
    /// On so many threads beside those that serve requests.
    Beside(usize),
}

/// Evaluates what is not quick.
pub struct Evaluations {
    clock: Arc<dyn Clock>,
    /// One for each thread; `None` where there are none.
    threads: Option<Arc<Semaphore>>,
    /// Whose turn it is within each organization and origin.
    turns: Mutex<Pruned<(OrganizationId, Origin), Arc<Semaphore>>>,
}

/// Who asks for an evaluation. Each has turns of its own, so that publishers do not starve what waits in the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    /// Whoever waits for an answer.
    Request,
    /// Forwarding of events that were accepted before.
    Spool,
    /// Searches for events: publishing does not wait for them.
    Search,
}

/// Nothing was evaluated: others of the organization, or of many organizations, are before it for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too much is being evaluated")]
pub struct Busy;

impl Evaluations {
    /// On these threads.
    pub fn new(clock: Arc<dyn Clock>, threads: EvaluationThreads) -> Self {
        let threads = match threads {
            EvaluationThreads::Inline => None,
            EvaluationThreads::Beside(threads) => Some(Arc::new(Semaphore::new(threads))),
        };
        Self { clock, threads, turns: Mutex::default() }
    }

    /// Does some work that may take milliseconds, when it is the organization's turn. Once begun it ends, also if nobody waits for it any more.
    ///
    /// # Errors
    /// [`Busy`] if it could not begin and end within the timeout.
    pub async fn run<T: Send + 'static>(
        &self,
        organization: OrganizationId,
        timeout: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        self.run_for(Origin::Request, organization, timeout, work).await
    }

    /// The same for what searches compare, which has turns of its own: an organization's publishers do not wait for its searches.
    ///
    /// # Errors
    /// [`Busy`] if it could not begin and end within the timeout.
    pub async fn run_search<T: Send + 'static>(
        &self,
        organization: OrganizationId,
        timeout: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        self.run_for(Origin::Search, organization, timeout, work).await
    }

    async fn run_for<T: Send + 'static>(
        &self,
        origin: Origin,
        organization: OrganizationId,
        timeout: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let Some(threads) = &self.threads else { return Ok(work()) };
        let turn = self.turn(organization, origin);
        let running = async {
            // The turn first: what waits for a thread is then one of each organization and origin, and organizations get them one after the other.
            let places = (acquire(turn).await, acquire(threads.clone()).await);
            let working = tokio::task::spawn_blocking(move || {
                let _places = places;
                work()
            });
            match working.await {
                Ok(done) => Ok(done),
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                // The process ends.
                Err(_) => Err(Busy),
            }
        };
        within(&*self.clock, timeout, running).await.unwrap_or(Err(Busy))
    }

    fn turn(&self, organization: OrganizationId, origin: Origin) -> Arc<Semaphore> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever waits or works has a copy.
        turns.entry((organization, origin), |turn| Arc::strong_count(turn) > 1, || Arc::new(Semaphore::new(1))).clone()
    }
}

async fn acquire(semaphore: Arc<Semaphore>) -> OwnedSemaphorePermit {
    semaphore.acquire_owned().await.expect("it is never closed")
}

/// The data of an event, parsed once at most.
pub(crate) struct EventData {
    bytes: Bytes,
    /// `None` inside if it cannot be parsed: it holds a number that no double can hold, or nests as deep as it may.
    parsed: Option<Option<Arc<Value>>>,
}

impl EventData {
    /// Not parsed yet. What is not JSON by its content type is never parsed: nothing can be seen in it.
    pub(crate) fn of(event: &Event) -> Self {
        Self { bytes: event.data.clone(), parsed: if event.content_type.may_be_json() { None } else { Some(None) } }
    }
}

/// What the events of one request have used and may still use.
pub(crate) struct RequestWork {
    /// What each organization may use: alerts of several are told together.
    units_max: u64,
    used: FxHashMap<OrganizationId, u64>,
    origin: Origin,
    /// How long it may take in all, from the first that is not quick.
    timeout: Duration,
    /// By uptime. Set by the first that is not quick.
    ends_at: Option<Duration>,
    /// What was done at once since others had a turn, in units.
    since_yield: u64,
}

/// Why something was not evaluated to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotEvaluated {
    /// The event alone takes too much; at the filter of this endpoint, if it was one.
    TooCostly(Option<EndpointId>),
    /// The events of the request take too much together.
    RequestTooCostly,
    /// Too much is being evaluated.
    Busy,
}

impl From<Busy> for NotEvaluated {
    fn from(Busy: Busy) -> Self {
        Self::Busy
    }
}

/// What an evaluation returns: its result, or the endpoint at whose filter the budget ended.
pub(crate) type Evaluated<T> = Result<T, Option<EndpointId>>;

impl RequestWork {
    /// Of one request.
    pub(crate) fn new() -> Self {
        Self {
            units_max: REQUEST_UNITS_MAX,
            used: FxHashMap::default(),
            origin: Origin::Request,
            timeout: EVALUATION_TIMEOUT,
            ends_at: None,
            since_yield: 0,
        }
    }

    /// Of events that were accepted before: each has its own bound, and together they have none but this timeout.
    pub(crate) fn of_accepted(timeout: Duration) -> Self {
        Self { units_max: u64::MAX, origin: Origin::Spool, timeout, ..Self::new() }
    }

    /// How long the rest may take.
    pub(crate) fn timeout(&mut self, clock: &dyn Clock) -> Result<Duration, Busy> {
        let now = clock.uptime();
        let ends_at = *self.ends_at.get_or_insert(now + self.timeout);
        ends_at.checked_sub(now).filter(|left| !left.is_zero()).ok_or(Busy)
    }

    /// Evaluates something about an event's data, within `units_max` and what is left of the request's.
    ///
    /// It is tried at once if the data is small or parsed already. If that is not quick, it is begun anew on another thread.
    pub(crate) async fn evaluate<T: Send + 'static>(
        &mut self,
        evaluations: &Evaluations,
        organization: OrganizationId,
        data: &mut EventData,
        units_max: u64,
        evaluate: impl Fn(Option<&Value>, &mut WorkBudget) -> Evaluated<T> + Send + 'static,
    ) -> Result<T, NotEvaluated> {
        let left = self.units_max - self.used.get(&organization).copied().unwrap_or(0);
        let allowed = units_max.min(left);
        if allowed == 0 {
            return Err(NotEvaluated::RequestTooCostly);
        }
        self.yield_now_and_then(data).await;
        if let Some(value) = data.if_quick() {
            let mut budget = WorkBudget::new(allowed.min(INLINE_UNITS_MAX));
            let evaluated = evaluate(value.as_deref(), &mut budget);
            self.since_yield += budget.spent();
            if evaluated.is_ok() || allowed <= INLINE_UNITS_MAX {
                return self.account(organization, evaluated, budget, units_max);
            }
        }
        let (bytes, parsed) = (data.bytes.clone(), data.parsed.clone());
        let work = move || {
            let value = parsed.unwrap_or_else(|| parse(&bytes));
            let mut budget = WorkBudget::new(allowed);
            let evaluated = evaluate(value.as_deref(), &mut budget);
            (value, evaluated, budget)
        };
        let timeout = self.timeout(&*evaluations.clock)?;
        let (value, evaluated, budget) = evaluations.run_for(self.origin, organization, timeout, work).await?;
        data.parsed = Some(value);
        self.account(organization, evaluated, budget, units_max)
    }

    /// A thousand evaluations that are quick are not quick together: whoever else is served by this thread has a turn in between.
    async fn yield_now_and_then(&mut self, data: &EventData) {
        if data.parsed.is_none() {
            self.since_yield += data.bytes.len() as u64 / PARSED_BYTES_A_UNIT;
        }
        if self.since_yield > YIELD_UNITS {
            self.since_yield = 0;
            tokio::task::yield_now().await;
        }
    }

    fn account<T>(
        &mut self,
        organization: OrganizationId,
        evaluated: Evaluated<T>,
        budget: WorkBudget,
        units_max: u64,
    ) -> Result<T, NotEvaluated> {
        let is_whole = budget.units() >= units_max;
        if budget.spent() > 0 {
            *self.used.entry(organization).or_default() += budget.spent();
        }
        evaluated.map_err(|endpoint| if is_whole { NotEvaluated::TooCostly(endpoint) } else { NotEvaluated::RequestTooCostly })
    }
}

impl EventData {
    /// The value, if it is there or can be had at once.
    fn if_quick(&mut self) -> Option<Option<Arc<Value>>> {
        if self.parsed.is_none() && self.bytes.len() <= INLINE_BYTES_MAX {
            self.parsed = Some(parse(&self.bytes));
        }
        self.parsed.clone()
    }
}

fn parse(bytes: &[u8]) -> Option<Arc<Value>> {
    serde_json::from_slice(bytes).ok().map(Arc::new)
}

#[cfg(test)]
mod tests;
