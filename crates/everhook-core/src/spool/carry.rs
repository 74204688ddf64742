//! Brings events of one application from the spool into the store.
//!
//! Used by `forward`, which decides whose turn it is and what a failure means. An event that waits was accepted: nothing is checked a second time
//! and no rate is counted. Endpoints are matched now. It leaves the spool only after the store has it, so that a crash between the two has it
//! carried again; the store knows its id then, and makes nothing of it.
//!
//! If another event has its idempotency key meanwhile, it becomes an event of its own all the same, under its id as key: a publisher that was
//! answered cannot be told any more. Only if that other event was erased, the two are taken for the same: erasing must not be undone.
//! What a provider sent twice is stored twice also if it is the same byte for byte, as `receive` does: the second says what it repeats, and goes to nobody.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;

use crate::{
    catalog::ApplicationView,
    ids::{ApplicationId, EventId},
    limits::evaluations::{Busy, RequestWork},
    line::{Line, draft::Draft, publish::MATCH_ROUNDS_MAX, selection::select_accepted},
    ports::{Committed, EventAlias, KeyOrigin, KeyReused, Recorded, Spool, SpooledEvent, StoreError},
};

/// Moves events from the spool into the store.
pub(crate) struct SpoolTransfer {
    /// The line.
    pub(crate) line: Arc<Line>,
    /// Where they wait.
    pub(crate) spool: Arc<dyn Spool>,
    /// How many were carried, and how many could not be, since somebody last asked.
    carried: AtomicU64,
    set_aside: AtomicU64,
}

/// Why events of an application could not be carried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Its configuration cannot be understood here. That is no fault of its events: they wait until it can.
    #[error("cannot read the application: {0}")]
    Unreadable(String),
    /// The store says that a value of one of them is wrong, and always will.
    #[error("the store rejects its data: {0}")]
    Refused(String),
    /// The filters of its endpoints could not be evaluated in time. What came before that is in the store.
    #[error("evaluating the filters of its endpoints takes too long")]
    Busy(#[from] Busy),
    /// The store or the spool failed: it is away, or somebody keeps what they need.
    #[error("the store did not accept them")]
    NotTaken(#[from] StoreError),
}

impl Failure {
    /// Whether it is a matter of this application alone, and not of the store.
    pub(crate) const fn concerns_one_application(&self) -> bool {
        match self {
            Self::Unreadable(_) | Self::Refused(_) | Self::Busy(_) => true,
            Self::NotTaken(_) => false,
        }
    }
}

/// What there is for each event of a batch, with its position in the spool.
type Placed<T> = Vec<(i64, T)>;

/// The first events of a batch, matched.
struct Drafted {
    drafts: Placed<Draft>,
    /// Those whose application is gone.
    orphaned: Placed<EventId>,
    /// Whether these are all.
    ended: Result<(), Busy>,
}

/// What became of the first events of a batch, and why no more of them could be carried.
#[derive(Default)]
struct Round {
    /// Positions of those that are in the store.
    stored: Vec<i64>,
    /// Those whose key was taken.
    aliases: Vec<EventAlias>,
    /// Positions of those that are to be recorded once more with a key of their own, and the events that have theirs.
    key_taken: Vec<(i64, EventId)>,
    failure: Option<StoreError>,
}

impl SpoolTransfer {
    /// Between this spool and the store of this line.
    pub(crate) fn new(line: Arc<Line>, spool: Arc<dyn Spool>) -> Self {
        Self { line, spool, carried: AtomicU64::new(0), set_aside: AtomicU64::new(0) }
    }

    /// Carries events of one application, in order, and evaluates their filters for so long. What came through before a failure is removed all the
    /// same.
    pub(crate) async fn carry(
        &self,
        application: ApplicationId,
        events: Vec<SpooledEvent>,
        evaluation_timeout: Duration,
    ) -> Result<(), Failure> {
        let work = RequestWork::of_accepted(evaluation_timeout);
        let carried = AssertUnwindSafe(self.try_to_carry(application, events, work)).catch_unwind().await;
        carried.unwrap_or_else(|_| Err(StoreError::unavailable("a panic stopped forwarding").into()))
    }

    /// Keeps an event that can never be carried where a person can look at it.
    pub(crate) async fn set_aside(&self, position: i64, event: EventId, reason: &str) -> Result<(), Failure> {
        self.spool.set_aside(position, reason.to_owned(), self.line.ports.clock.now()).await?;
        self.set_aside.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            event.id = %event,
            "cannot forward the spooled event {event}: {reason}. It is kept in the spool's table `unforwarded` and tried again at each start"
        );
        Ok(())
    }

    /// How many events were carried, and how many were set aside, since this was last asked.
    pub(crate) fn tally(&self) -> (u64, u64) {
        (self.carried.swap(0, Ordering::Relaxed), self.set_aside.swap(0, Ordering::Relaxed))
    }

    async fn try_to_carry(&self, application: ApplicationId, mut waiting: Vec<SpooledEvent>, mut work: RequestWork) -> Result<(), Failure> {
        for _ in 0..MATCH_ROUNDS_MAX {
            let view = self.view(application).await?;
            let Drafted { drafts, orphaned, ended } = self.draft_each(view.as_deref(), &waiting, &mut work).await;
            for (position, event) in orphaned {
                self.set_aside(position, event, "its application does not exist in the store").await?;
                waiting.retain(|spooled| spooled.position != position);
            }
            let round = self.record(drafts).await;
            waiting.retain(|spooled| !round.stored.contains(&spooled.position));
            for spooled in &mut waiting {
                let taken = round.key_taken.iter().find(|(position, _)| *position == spooled.position);
                taken.into_iter().for_each(|(_, original)| give_own_key(spooled, *original));
            }
            self.conclude(round).await?;
            ended?;
            if waiting.is_empty() {
                return Ok(());
            }
        }
        Err(StoreError::Conflict.into())
    }

    async fn view(&self, application: ApplicationId) -> Result<Option<Arc<ApplicationView>>, Failure> {
        self.line.catalog.application(application).await.map_err(|error| match error {
            StoreError::Corrupt(cause) => Failure::Unreadable(cause.to_string()),
            other => other.into(),
        })
    }

    /// Matches each event with its endpoints, all of them by one configuration, up to the first whose filters could not be evaluated in time:
    /// none behind it may overtake it.
    async fn draft_each(&self, view: Option<&ApplicationView>, waiting: &[SpooledEvent], work: &mut RequestWork) -> Drafted {
        let (mut drafts, mut orphaned) = (Vec::with_capacity(waiting.len()), Vec::new());
        for SpooledEvent { position, incoming } in waiting {
            match view.filter(|view| view.application.organization == incoming.organization) {
                Some(view) => match select_accepted(&self.line.evaluations, incoming, view, work).await {
                    Ok(matches) => drafts.push((*position, Draft::new(&self.line, incoming.clone(), view, matches))),
                    Err(busy) => return Drafted { drafts, orphaned, ended: Err(busy) },
                },
                None => orphaned.push((*position, incoming.event.id)),
            }
        }
        Drafted { drafts, orphaned, ended: Ok(()) }
    }

    /// Records what was matched, and hands it over to its lanes. What must be matched again is in neither list of the round.
    async fn record(&self, drafts: Placed<Draft>) -> Round {
        let mut round = Round::default();
        if drafts.is_empty() {
            return round;
        }
        let recorded = self.line.ports.events.record(drafts.iter().map(|(_, draft)| draft.to_new_event()).collect()).await;
        let mut committed: Vec<Committed> = Vec::new();
        for ((position, draft), recorded) in drafts.into_iter().zip(recorded) {
            let id = draft.incoming.event.id;
            match recorded {
                Ok(Recorded::Accepted { sequence_number, held }) => {
                    round.stored.push(position);
                    draft.hand_over(sequence_number, &held, &mut committed);
                }
                Ok(Recorded::Duplicate { event, .. }) if event != id && draft.incoming.event.received.is_some() => {
                    round.key_taken.push((position, event));
                }
                Ok(Recorded::Duplicate { event, .. }) => {
                    round.stored.push(position);
                    // Its own id: it was recorded before, by a try whose answer was lost or by a node that died before it was removed.
                    round.aliases.extend((event != id).then_some(EventAlias { alias: id, event }));
                }
                Ok(Recorded::KeyReused(KeyReused { original, is_erased: true })) => {
                    tracing::error!(
                        event.id = %id,
                        "the spooled event {id} has the idempotency key of {original}, whose data was erased; it is treated as a duplicate and not sent"
                    );
                    round.stored.push(position);
                    round.aliases.push(EventAlias { alias: id, event: original });
                }
                Ok(Recorded::KeyReused(KeyReused { original, is_erased: false })) => {
                    tracing::warn!(
                        event.id = %id,
                        "the spooled event {id} has the idempotency key of {original}, a different event; it is stored with its own id as key"
                    );
                    round.key_taken.push((position, original));
                }
                Ok(Recorded::ConfigChanged) => self.line.catalog.forget(draft.incoming.event.application),
                Err(error) => {
                    round.failure.get_or_insert(error);
                }
            }
        }
        if !committed.is_empty() {
            self.line.wake_up.committed(committed);
        }
        round
    }

    /// Removes what is in the store now. Aliases come first: once an event is removed, nobody would make its alias.
    async fn conclude(&self, round: Round) -> Result<(), Failure> {
        if !round.aliases.is_empty() {
            self.line.ports.events.alias(round.aliases).await.map_err(refusal)?;
        }
        if !round.stored.is_empty() {
            let count = round.stored.len() as u64;
            self.spool.forwarded(round.stored).await?;
            self.carried.fetch_add(count, Ordering::Relaxed);
        }
        round.failure.map_or(Ok(()), |error| Err(refusal(error)))
    }
}

/// Gives an event its own id as its idempotency key, because another event has the one that its publisher or provider gave. The publisher was told that it
/// was accepted before the store could say so: it is not refused any more. A crash before it leaves the spool does the same again, under the same id.
fn give_own_key(spooled: &mut SpooledEvent, original: EventId) {
    let incoming = &mut spooled.incoming;
    // A provider's id says that two are the same: it repeats the other one, and is delivered to nobody.
    if let Some(received) = &mut incoming.event.received {
        received.duplicate_of.get_or_insert(original);
    }
    incoming.event.idempotency_key = incoming.event.id.to_string();
    incoming.key = KeyOrigin::Made;
}

/// What the store said of the events themselves.
fn refusal(error: StoreError) -> Failure {
    match error {
        StoreError::Corrupt(cause) => Failure::Refused(cause.to_string()),
        other => other.into(),
    }
}
