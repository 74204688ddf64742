//! Empties the spool into the store, oldest first. One task a node, started by wiring; it ends with the process.
//!
//! An event that waits was accepted: nothing is checked a second time and no rate is counted. Endpoints are matched now. It leaves the spool only
//! after the store has it, so that a crash between the two has it forwarded again; the store knows its id then, and makes nothing of it.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;

use crate::{
    catalog::ApplicationView,
    flow::{
        Line,
        draft::{Draft, Views},
    },
    ids::{ApplicationId, EventId},
    ports::{Committed, EventAlias, Recorded, Spool, SpooledEvent, StoreError, within},
};

/// How many events are forwarded in one go: enough that the commit no longer counts, few enough that memory does not.
const FORWARD_BATCH: u32 = 500;
/// How long to wait before a store that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// How long an empty spool is left alone when nobody rings: a start without the store rings another bell, and a ring may be lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a batch is matched again because the configuration changed under it, before a pause.
const MATCH_ROUNDS_MAX: u32 = 20;

/// Forwards what waits for ever, or returns at once where there is no spool. Beside it, what is remembered of keys is checked once.
pub async fn forward(line: Arc<Line>) {
    let Some(spool) = line.ports.spool.clone() else { return };
    tokio::join!(check_keys(&line), empty(line.clone(), spool));
}

/// As soon as the store answers.
async fn check_keys(line: &Line) {
    while line.publishers.check_keys().await.is_err() {
        pause(line).await;
    }
}

async fn empty(line: Arc<Line>, spool: Arc<dyn Spool>) {
    let mut forwarder = Forwarder { line, spool, batch: FORWARD_BATCH, failures: 0, forwarded: 0, set_aside: 0 };
    loop {
        if forwarder.spool.standing().events == 0 {
            forwarder.tell_drained();
            let line = &forwarder.line;
            within(&*line.ports.clock, LOOK_EVERY, line.spool_bell.notified()).await;
            continue;
        }
        let worked = AssertUnwindSafe(forwarder.forward_some()).catch_unwind().await;
        let worked = worked.unwrap_or_else(|_| Err(StoreError::unavailable("a defect stopped forwarding")));
        if !forwarder.goes_on_after(worked).await {
            pause(&forwarder.line).await;
        }
    }
}

/// The one who empties the spool.
struct Forwarder {
    line: Arc<Line>,
    spool: Arc<dyn Spool>,
    /// How many events are taken at once: one after a failure, and twice as many after each success.
    batch: u32,
    /// How often in a row the store failed.
    failures: u32,
    /// How many were forwarded, and how many could not be, since it was last empty.
    forwarded: u64,
    set_aside: u64,
}

/// What became of the first events of a batch, and why no more of them could be forwarded.
struct Round {
    /// Positions of those that are in the store.
    stored: Vec<i64>,
    /// Those whose key was taken.
    aliases: Vec<EventAlias>,
    failure: Option<StoreError>,
}

impl Forwarder {
    /// Forwards one batch. What came through before a failure is removed all the same.
    async fn forward_some(&mut self) -> Result<(), StoreError> {
        let mut waiting = self.spool.oldest(self.batch).await?;
        if waiting.is_empty() && self.spool.standing().events > 0 {
            // Trying again at once would never end.
            return Err(StoreError::unavailable("the spool does not show what it counts"));
        }
        for _ in 0..MATCH_ROUNDS_MAX {
            let (drafts, homeless) = self.draft_each(&waiting).await?;
            for (position, event) in homeless {
                self.set_aside(position, event, "the store does not have its application".to_owned()).await?;
                waiting.retain(|spooled| spooled.position != position);
            }
            let round = self.record(drafts).await;
            waiting.retain(|spooled| !round.stored.contains(&spooled.position));
            self.conclude(round).await?;
            if waiting.is_empty() {
                return Ok(());
            }
        }
        Err(StoreError::Conflict)
    }

    /// Matches each event with its endpoints. The second list has those whose application is gone.
    async fn draft_each(&self, waiting: &[SpooledEvent]) -> Result<(Vec<(i64, Draft)>, Vec<(i64, EventId)>), StoreError> {
        let (mut drafts, mut homeless, mut views) = (Vec::with_capacity(waiting.len()), Vec::new(), Views::default());
        for SpooledEvent { position, incoming } in waiting {
            match self
                .view(&mut views, incoming.event.application)
                .await?
                .filter(|view| view.application.organization == incoming.organization)
            {
                Some(view) => drafts.push((*position, Draft::new(&self.line, incoming.clone(), &view))),
                None => homeless.push((*position, incoming.event.id)),
            }
        }
        Ok((drafts, homeless))
    }

    /// An application that cannot be understood is no fault of its events: they wait until it can.
    async fn view(&self, views: &mut Views, application: ApplicationId) -> Result<Option<Arc<ApplicationView>>, StoreError> {
        if let Some(view) = views.get(application) {
            return Ok(Some(view));
        }
        let read = self.line.catalog.application(application).await;
        let view = read.map_err(|error| match error {
            StoreError::Corrupt(cause) => StoreError::unavailable(format!("the application {application} cannot be read: {cause}")),
            other => other,
        })?;
        view.iter().for_each(|view| views.keep(view));
        Ok(view)
    }

    /// Records what was matched, and hands it over to its lanes. What must be matched again is in neither list of the round.
    async fn record(&self, drafts: Vec<(i64, Draft)>) -> Round {
        let mut round = Round { stored: Vec::new(), aliases: Vec::new(), failure: None };
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
                Ok(Recorded::Duplicate { event, .. }) => {
                    round.stored.push(position);
                    // Its own id: it was recorded before, by a try whose answer was lost or by a node that died before it was removed.
                    round.aliases.extend((event != id).then_some(EventAlias { alias: id, event }));
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
    async fn conclude(&mut self, round: Round) -> Result<(), StoreError> {
        if !round.aliases.is_empty() {
            self.line.ports.events.alias(round.aliases).await?;
        }
        if !round.stored.is_empty() {
            let count = round.stored.len() as u64;
            self.spool.forwarded(round.stored).await?;
            self.forwarded += count;
        }
        round.failure.map_or(Ok(()), Err)
    }

    async fn set_aside(&mut self, position: i64, event: EventId, reason: String) -> Result<(), StoreError> {
        self.spool.set_aside(position, reason.clone(), self.line.ports.clock.now()).await?;
        self.set_aside += 1;
        tracing::error!(
            event.id = %event,
            "the spooled event {event} cannot be forwarded: {reason}. It is kept in the spool's table `unforwarded`, and tried again at each start"
        );
        Ok(())
    }

    /// Says whether to go on at once.
    async fn goes_on_after(&mut self, worked: Result<(), StoreError>) -> bool {
        match worked {
            Ok(()) => {
                (self.batch, self.failures) = ((self.batch * 2).min(FORWARD_BATCH), 0);
                true
            }
            // If one of them is what the store will never take, it is found by itself; if the store is away, one shows that as well as many.
            Err(_) if self.batch > 1 => {
                self.batch = 1;
                true
            }
            Err(StoreError::Corrupt(cause)) => self.refuse_oldest(cause.to_string()).await,
            Err(error) => {
                if self.failures == 0 {
                    let waiting = self.spool.standing().events;
                    tracing::warn!(error = &error as &dyn std::error::Error, "{waiting} events wait in the spool until the store is back");
                }
                self.failures += 1;
                false
            }
        }
    }

    async fn refuse_oldest(&mut self, reason: String) -> bool {
        let Ok(oldest) = self.spool.oldest(1).await else { return false };
        let Some(SpooledEvent { position, incoming }) = oldest.into_iter().next() else { return true };
        self.set_aside(position, incoming.event.id, reason).await.is_ok()
    }

    fn tell_drained(&mut self) {
        if self.forwarded > 0 || self.set_aside > 0 {
            let (forwarded, set_aside) = (self.forwarded, self.set_aside);
            tracing::info!(forwarded, set_aside, "the spool is empty again: {forwarded} events were forwarded, {set_aside} could not be");
            (self.forwarded, self.set_aside) = (0, 0);
        }
    }
}

async fn pause(line: &Line) {
    let clock = &line.ports.clock;
    clock.sleep_until(clock.now() + RETRY_DELAY).await;
}
