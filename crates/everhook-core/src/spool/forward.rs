//! Empties the spool into the store: each application's events in order, and many applications at the same time. One task a node, started by
//! wiring; it ends with the process.
//!
//! Each application is carried by itself. If none comes through, the store is away, and all wait. If some do, those that do not are *stalled*:
//! they are tried again by themselves, less and less often, and hold up nobody else (`backlog`). If one fails while nothing else waits, a write of
//! another row shows whether it is the store. That is believed of one application at a time: where several fail, it is the store, or the way to it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use tokio::sync::mpsc;

use crate::{
    ids::{ApplicationId, OrganizationId},
    limits::evaluations::EVALUATION_TIMEOUT,
    line::Line,
    ports::{SpooledEvent, StoreError, within},
    spool::{
        backlog::STALLED_MAX,
        carry::{Failure, SpoolTransfer},
        intake::STORE_PATIENCE,
    },
};

/// How many events are forwarded in one go: enough that the commit no longer counts, few enough that memory does not.
const FORWARD_BATCH: u32 = 500;
/// How many applications have their turn in one go: the store records them in few commits, and no more of its connections wait than it has for
/// as many publishers.
const TURNS_AT_ONCE: usize = 64;
/// How many of them are tried in one go after nothing came through. If the store is away, one shows that as well as many; if it is not, more of
/// them find one sooner that comes through.
const TRIALS_AT_ONCE: usize = 8;
/// How long to wait before a store that failed is tried again, and before a stalled application is for the first time.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// The longest wait before a stalled application is tried again: a try may keep a connection for seconds, and nobody else waits for it.
const STALLED_DELAY_MAX: Duration = Duration::from_secs(30);
/// How long the filters of one application may take in a turn. While any turn lasts, everybody's events queue behind it: whoever needs longer is
/// stalled, and then has [`EVALUATION_TIMEOUT`] for each try, for which nobody else waits.
const TURN_EVALUATION_TIMEOUT: Duration = Duration::from_millis(200);
/// How long an empty spool is left alone when nobody rings: a start without the store rings another bell, and a ring may be lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Forwards what waits for ever, or returns at once where there is no spool. Beside it, what is remembered of keys is checked once.
pub async fn forward(line: Arc<Line>) {
    let Some(spool) = line.ports.spool.clone() else { return };
    let transfer = SpoolTransfer::new(line.clone(), spool);
    let (stalls, stalled) = mpsc::channel(STALLED_MAX);
    let forwarder = Forwarder { transfer: &transfer, stalls, batch: FORWARD_BATCH, failures: 0, last_turn: None, stalled_alone: None };
    tokio::join!(check_keys(&line), forwarder.empty(), retry_stalled(&transfer, stalled));
}

/// As soon as the store answers.
async fn check_keys(line: &Line) {
    while line.publishers.check_keys().await.is_err() {
        pause(line, RETRY_DELAY).await;
    }
}

/// Forwards the events of every application that is not stalled.
struct Forwarder<'c> {
    transfer: &'c SpoolTransfer,
    /// Who is stalled from now on.
    stalls: mpsc::Sender<ApplicationId>,
    /// How many events are taken at once: one of each application after a failure, and twice as many after each success.
    batch: u32,
    /// How often in a row nothing came through.
    failures: u32,
    /// Who had the last turn: the next one is behind it.
    last_turn: Option<ApplicationId>,
    /// Who was last found to be stalled while nothing else waited.
    stalled_alone: Option<ApplicationId>,
}

/// What became of an application's turn.
struct Turn {
    application: ApplicationId,
    organization: OrganizationId,
    carried: Result<(), Failure>,
}

impl Forwarder<'_> {
    async fn empty(mut self) {
        let SpoolTransfer { line, .. } = self.transfer;
        loop {
            let next = self.next_applications();
            if next.is_empty() {
                self.tell_drained();
                within(&*line.ports.clock, LOOK_EVERY, line.spool_bell.notified()).await;
            } else if !self.forward_some(next).await {
                pause(line, RETRY_DELAY).await;
            }
        }
    }

    /// The applications that have something waiting and are not stalled, in turn.
    fn next_applications(&self) -> Vec<ApplicationId> {
        let mut waiting = self.transfer.spool.applications();
        waiting.retain(|application| !self.transfer.line.backlog.is_stalled(*application));
        let had_their_turn = waiting.partition_point(|application| Some(*application) <= self.last_turn);
        waiting.rotate_left(had_their_turn);
        waiting.truncate(if self.batch == 1 { TRIALS_AT_ONCE } else { TURNS_AT_ONCE });
        waiting
    }

    /// Forwards some events of each, and says whether to go on at once.
    async fn forward_some(&mut self, applications: Vec<ApplicationId>) -> bool {
        let of_each = (self.batch / u32::try_from(applications.len()).unwrap_or(u32::MAX)).max(1);
        let turns = match self.transfer.spool.oldest(applications, of_each).await {
            Ok(events) => self.carry_each(events).await,
            Err(error) => return self.continues_after_failure(&error.into()),
        };
        if turns.is_empty() {
            // Trying again at once would never end.
            return self.continues_after_failure(&hidden());
        }
        match &turns[..] {
            [alone] if self.fails_alone(alone).await => {
                self.stalled_alone = Some(alone.application);
                self.stall(alone.application)
            }
            _ => self.continues_after(turns),
        }
    }

    /// Carries the events of each application, all applications at once.
    async fn carry_each(&mut self, events: Vec<SpooledEvent>) -> Vec<Turn> {
        self.last_turn = events.last().map(|last| last.incoming.event.application).or(self.last_turn);
        let mut parts: BTreeMap<ApplicationId, Vec<SpooledEvent>> = BTreeMap::new();
        for event in events {
            parts.entry(event.incoming.event.application).or_default().push(event);
        }
        let transfer = self.transfer;
        let carry = |(application, events): (ApplicationId, Vec<SpooledEvent>)| async move {
            let organization = events[0].incoming.organization;
            Turn { application, organization, carried: transfer.carry(application, events, TURN_EVALUATION_TIMEOUT).await }
        };
        join_all(parts.into_iter().map(carry)).await
    }

    /// Whether the events of an application, the only one that waits, are not taken although the store takes writes.
    async fn fails_alone(&self, turn: &Turn) -> bool {
        let backlog = &self.transfer.line.backlog;
        let is_believed = self.batch == 1 && !self.stalled_alone.is_some_and(|other| backlog.is_stalled(other));
        if !is_believed || !matches!(turn.carried, Err(Failure::NotTaken(_))) {
            return false;
        }
        let ports = &self.transfer.line.ports;
        matches!(within(&*ports.clock, STORE_PATIENCE, ports.organizations.try_write(turn.organization)).await, Some(Ok(())))
    }

    /// Finds out whether the store or single applications are the reason of what failed, and says whether to go on at once.
    fn continues_after(&mut self, turns: Vec<Turn>) -> bool {
        let any_came_through = turns.iter().any(|turn| turn.carried.is_ok());
        let mut held_up = None;
        for Turn { application, carried, .. } in turns {
            if let Err(failure) = carried
                && !((any_came_through || failure.concerns_one_application()) && self.stall(application))
            {
                held_up = Some(failure);
            }
        }
        if any_came_through {
            (self.batch, self.failures) = ((self.batch * 2).min(FORWARD_BATCH), 0);
            return true;
        }
        held_up.is_none_or(|failure| self.continues_after_failure(&failure))
    }

    /// After many at once, a few are tried; after those, there is a pause.
    fn continues_after_failure(&mut self, failure: &Failure) -> bool {
        if self.batch > 1 {
            self.batch = 1;
            return true;
        }
        if self.failures == 0 {
            let waiting = self.transfer.spool.status().events;
            tracing::warn!(error = failure as &dyn std::error::Error, "the store is unavailable; {waiting} events wait in the spool");
        }
        self.failures = self.failures.saturating_add(1);
        false
    }

    fn stall(&self, application: ApplicationId) -> bool {
        // There is a place for each that may be stalled.
        self.transfer.line.backlog.stall(application) && self.stalls.try_send(application).is_ok()
    }

    fn tell_drained(&self) {
        if self.transfer.spool.status().events > 0 {
            return;
        }
        let (forwarded, set_aside) = self.transfer.tally();
        if forwarded > 0 || set_aside > 0 {
            tracing::info!(
                forwarded,
                set_aside,
                "the spool is empty: {forwarded} events were forwarded, {set_aside} could not be forwarded"
            );
        }
    }
}

/// Sees each stalled application through, for ever.
async fn retry_stalled(transfer: &SpoolTransfer, mut stalled: mpsc::Receiver<ApplicationId>) {
    let mut under_way = FuturesUnordered::new();
    loop {
        tokio::select! {
            newcomer = stalled.recv() => match newcomer {
                Some(application) => under_way.push(retry_stalled_application(transfer, application)),
                None => return,
            },
            Some(()) = under_way.next() => {}
        }
    }
}

/// Carries what waits of a stalled application, at first one event at a time, until nothing does. The first try is made at once: what failed as the
/// store came back needs no second one, and nobody need hear of it.
async fn retry_stalled_application(transfer: &SpoolTransfer, application: ApplicationId) {
    let (mut batch, mut delay, mut is_told) = (1, RETRY_DELAY, false);
    while !transfer.line.backlog.end_stall(application) {
        match carry_some(transfer, application, batch).await {
            Ok(()) => (batch, delay) = ((batch * 2).min(FORWARD_BATCH), RETRY_DELAY),
            Err(_) if batch > 1 => batch = 1,
            Err(failure) => {
                if !is_told {
                    let error = &failure as &dyn std::error::Error;
                    tracing::warn!(application.id = %application, error, "the application {application} is stalled: the store rejects its events, which wait in the spool");
                    is_told = true;
                }
                pause(&transfer.line, delay).await;
                delay = (delay * 2).min(STALLED_DELAY_MAX);
            }
        }
    }
    if is_told {
        tracing::info!(application.id = %application, "the application {application} is no longer stalled");
    }
}

/// Carries the oldest events of an application. One alone that the store refuses is set aside.
async fn carry_some(transfer: &SpoolTransfer, application: ApplicationId, limit: u32) -> Result<(), Failure> {
    let events = transfer.spool.oldest(vec![application], limit).await?;
    let first = events.first().map(|event| (event.position, event.incoming.event.id)).ok_or_else(hidden)?;
    let is_alone = events.len() == 1;
    match (transfer.carry(application, events, EVALUATION_TIMEOUT).await, first) {
        (Err(Failure::Refused(reason)), (position, event)) if is_alone => transfer.set_aside(position, event, &reason).await,
        (carried, _) => carried,
    }
}

fn hidden() -> Failure {
    StoreError::unavailable("the spool does not show what it counts").into()
}

async fn pause(line: &Line, delay: Duration) {
    let clock = &line.ports.clock;
    clock.sleep_until(clock.now() + delay).await;
}
