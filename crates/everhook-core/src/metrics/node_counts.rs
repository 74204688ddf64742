//! What is counted by organization and event type, by retry schedule and by source, and what breakers did.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustc_hash::FxHashMap;

use crate::{
    ids::OrganizationId,
    metrics::{Counter, LABEL_SETS_MAX, OUTCOMES, Spread},
    model::{AttemptStatus, BreakerCause, BreakerState, BreakerTransition, EventType, FailureCategory},
};

/// The outcomes of attempts, and one place for those without a failure before the categories of the others.
const STATUSES: usize = 4;
const CATEGORIES: usize = 1 + FailureCategory::ALL.len();

/// Attempts of one event type, by outcome and why they failed.
#[derive(Debug)]
pub struct OutcomeCounts([[Counter; CATEGORIES]; STATUSES]);

impl Default for OutcomeCounts {
    fn default() -> Self {
        Self([const { [const { Counter::new() }; CATEGORIES] }; STATUSES])
    }
}

impl OutcomeCounts {
    pub(super) fn count(&self, status: AttemptStatus, category: Option<FailureCategory>) {
        self.0[status as usize][category.map_or(0, |category| 1 + category as usize)].add(1);
    }

    /// Each outcome that there was.
    pub fn all(&self) -> impl Iterator<Item = (AttemptStatus, Option<FailureCategory>, u64)> {
        let categories = || std::iter::once(None).chain(FailureCategory::ALL.into_iter().map(Some));
        let counts = AttemptStatus::ALL.into_iter().flat_map(move |status| categories().map(move |category| (status, category)));
        counts
            .zip(self.0.iter().flatten())
            .map(|((status, category), count)| (status, category, count.get()))
            .filter(|(.., count)| *count > 0)
    }
}

/// Attempts, by organization and event type. A type is found by its name as it stands in an event, without a copy of it.
pub struct EventTypes {
    known: RwLock<FxHashMap<OrganizationId, FxHashMap<EventType, Arc<OutcomeCounts>>>>,
    count: AtomicUsize,
    other: Arc<OutcomeCounts>,
    max: usize,
}

impl Default for EventTypes {
    fn default() -> Self {
        Self::with_room_for(LABEL_SETS_MAX)
    }
}

impl EventTypes {
    /// For so many event types of all organizations together.
    pub fn with_room_for(max: usize) -> Self {
        Self { known: RwLock::default(), count: AtomicUsize::new(0), other: Arc::default(), max }
    }

    /// The counts of a type, made if there is room for them, and else those of all others.
    pub fn get(&self, organization: OrganizationId, event_type: &EventType) -> Arc<OutcomeCounts> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.get(&organization).and_then(|types| types.get(event_type)) {
            return counts.clone();
        }
        drop(known);
        if self.count.load(Ordering::Relaxed) >= self.max {
            return self.other.clone();
        }
        self.insert(organization, event_type)
    }

    fn insert(&self, organization: OrganizationId, event_type: &EventType) -> Arc<OutcomeCounts> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let types = known.entry(organization).or_default();
        if let Some(counts) = types.get(event_type) {
            return counts.clone();
        }
        // Under the lock, so that it is exact.
        if self.count.load(Ordering::Relaxed) >= self.max {
            return self.other.clone();
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        types.entry(event_type.clone()).or_default().clone()
    }

    /// Every type with its counts, in no order.
    pub fn all(&self) -> Vec<(OrganizationId, EventType, Arc<OutcomeCounts>)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let types = known.iter().flat_map(|(organization, types)| types.iter().map(move |(name, counts)| (organization, name, counts)));
        types.map(|(organization, name, counts)| (*organization, name.clone(), counts.clone())).collect()
    }

    /// The counts of all types that found no room.
    pub fn other(&self) -> &Arc<OutcomeCounts> {
        &self.other
    }
}

/// How many attempts of a delivery are told apart; later ones count as the last of these.
const NUMBERS: usize = 3;

/// Attempts that go by one version of a retry schedule.
#[derive(Debug, Default)]
pub struct ScheduleCounts {
    /// What the schedule is called; empty for all that found no room.
    pub name: String,
    counts: [[Counter; NUMBERS]; OUTCOMES.len()],
}

impl ScheduleCounts {
    pub(super) fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub(super) fn count(&self, number: u32, status: AttemptStatus) {
        let number = (number.max(1) as usize - 1).min(NUMBERS - 1);
        if let Some(outcome) = OUTCOMES.iter().position(|outcome| *outcome == status) {
            self.counts[outcome][number].add(1);
        }
    }

    /// Each outcome that there was, with the number of the attempt; the last number stands for itself and all later ones.
    pub fn all(&self) -> impl Iterator<Item = (AttemptStatus, usize, u64)> {
        let of = move |outcome: usize| (0..NUMBERS).map(move |number| (OUTCOMES[outcome], number + 1, self.counts[outcome][number].get()));
        (0..OUTCOMES.len()).flat_map(of).filter(|(.., count)| *count > 0)
    }
}

/// How many reasons are told apart for which a source rejects requests.
const REASONS_MAX: usize = 32;

/// Under what other reasons are counted.
const OTHER_REASON: &str = "other";

/// Requests to one source, and what became of their events.
#[derive(Debug)]
pub struct SourceCounts {
    /// That were accepted.
    pub accepted: Counter,
    /// That proved the URL.
    pub handshakes: Counter,
    rejected: Mutex<BTreeMap<String, u64>>,
    /// Events, in the order of [`SourceEvents::ALL`].
    events: [Counter; SourceEvents::ALL.len()],
    /// How many seconds lay between the receipt of an event and the end of a delivery of it, without replays.
    pub latency: Spread<{ LATENCY_BOUNDS.len() }>,
    /// The kind that the source had when a request last came to this node; empty before, and for all that found no room.
    kind: RwLock<Arc<str>>,
}

/// How many seconds lie between the receipt of an event and the end of a delivery of it: the upper bounds of the buckets. Retries take hours.
pub const LATENCY_BOUNDS: [f64; 12] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0, 43_200.0];

/// What is counted of the events of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceEvents {
    /// It was received; duplicates too.
    Received,
    /// A delivery of it succeeded, or its processor was done with it.
    Completed,
    /// An attempt of it failed.
    Failed,
    /// A delivery of it became a dead letter.
    Dead,
}

impl SourceEvents {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Received, Self::Completed, Self::Failed, Self::Dead];

    /// Its name as a label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Dead => "dead",
        }
    }
}

impl Default for SourceCounts {
    fn default() -> Self {
        Self {
            accepted: Counter::new(),
            handshakes: Counter::new(),
            rejected: Mutex::default(),
            events: Default::default(),
            latency: Spread::new(LATENCY_BOUNDS),
            kind: RwLock::new("".into()),
        }
    }
}

impl SourceCounts {
    /// Counts events.
    pub fn count(&self, what: SourceEvents, more: u64) {
        self.events[what as usize].add(more);
    }

    /// How many events there were.
    pub fn events(&self, what: SourceEvents) -> u64 {
        self.events[what as usize].get()
    }

    /// Notes the kind of the source.
    pub fn note_kind(&self, kind: &str) {
        if *self.kind() != *kind {
            *self.kind.write().unwrap_or_else(PoisonError::into_inner) = kind.into();
        }
    }

    /// The kind of the source, as far as this node has seen it.
    pub fn kind(&self) -> Arc<str> {
        self.kind.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts one that was rejected.
    pub fn reject(&self, reason: &str) {
        let mut rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = rejected.get_mut(reason) {
            *count += 1;
            return;
        }
        let reason = if rejected.len() < REASONS_MAX { reason } else { OTHER_REASON };
        *rejected.entry(reason.to_owned()).or_default() += 1;
    }

    /// Each reason for which some were rejected.
    pub fn rejected(&self) -> BTreeMap<String, u64> {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What became of an event that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventResult {
    /// It is in the store.
    Recorded,
    /// It waits in the spool.
    Spooled,
    /// Its idempotency key was given to the same event before.
    Duplicate,
    /// It was not taken: its content, a limit or its key is in the way.
    Rejected,
    /// It could not be written.
    Failed,
}

impl EventResult {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Recorded, Self::Spooled, Self::Duplicate, Self::Rejected, Self::Failed];

    /// Its name as a label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Spooled => "spooled",
            Self::Duplicate => "duplicate",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
        }
    }
}

/// The states of a breaker, and the causes for which it changes by itself.
const STATES: [BreakerState; 3] = [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen];
const CAUSES: usize = BreakerCause::ALL.len();

/// What breakers did by themselves, by state and cause.
#[derive(Debug)]
pub struct Transitions {
    counts: [[[Counter; CAUSES]; STATES.len()]; STATES.len()],
    /// Becoming half-open is nothing that a breaker does: it is noticed when it decides.
    half_opened: Counter,
}

impl Default for Transitions {
    fn default() -> Self {
        Self { counts: [const { [const { [const { Counter::new() }; CAUSES] }; STATES.len()] }; STATES.len()], half_opened: Counter::new() }
    }
}

/// Why a breaker becomes half-open.
const SLEEP_OVER: &str = "sleep_over";

impl Transitions {
    /// Counts one.
    pub fn count(&self, transition: &BreakerTransition) {
        let place = |state| STATES.iter().position(|known| *known == state).unwrap_or_default();
        self.counts[place(transition.from)][place(transition.to)][transition.cause as usize].add(1);
        if transition.from == BreakerState::HalfOpen {
            self.half_opened.add(1);
        }
    }

    /// Each that there was: from, to, and why.
    pub fn all(&self) -> Vec<(BreakerState, BreakerState, &'static str, u64)> {
        let mut found = Vec::new();
        for (from, to, cause) in STATES
            .iter()
            .enumerate()
            .flat_map(|(from, _)| (0..STATES.len()).flat_map(move |to| (0..CAUSES).map(move |cause| (from, to, cause))))
        {
            found.push((STATES[from], STATES[to], BreakerCause::ALL[cause].as_str(), self.counts[from][to][cause].get()));
        }
        found.push((BreakerState::Open, BreakerState::HalfOpen, SLEEP_OVER, self.half_opened.get()));
        found.retain(|(.., count)| *count > 0);
        found
    }
}
