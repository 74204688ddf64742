//! The mail server that administrators are told through: it takes mails, breaks the connection before or after it took one, and is away for a while.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::{
    ids::DeliveryId,
    model::{Cut, FailureCategory, PhaseTimes, Report, Response, Sent},
    ports::{Clock, EmailMessage, Notifier},
    time::Timestamp,
};

use super::{
    Simulation,
    log::{Happening, Log, MailEnd, MailNo},
};
use crate::{clock::SimClock, dice::Dice, disk::Disk};

/// The longest time that it is away, in minutes: shorter than mails are tried.
const AWAY_MINUTES_MAX: u64 = 60;

/// A mail server of a run.
pub(super) struct MailServer {
    clock: Arc<SimClock>,
    disk: Arc<Disk>,
    log: Arc<Log>,
    dice: Dice,
    away_until: Mutex<Timestamp>,
    mails: AtomicUsize,
    healed: AtomicBool,
}

impl MailServer {
    /// One that is there. Mails of a process whose disk is off go nowhere: it is dead.
    pub(super) fn new(clock: Arc<SimClock>, disk: Arc<Disk>, log: Arc<Log>, seed: u64) -> Self {
        let (mails, healed) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { clock, disk, log, dice: Dice::new(seed), away_until: Mutex::new(Timestamp::EPOCH), mails, healed }
    }

    /// From now on it takes every mail at once.
    pub(super) fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
    }

    /// It goes away for so long.
    fn go_away(&self, span: Duration) {
        *self.away_until() = self.clock.now() + span;
        self.log.note(Happening::MailServerAway(span));
    }

    fn away_until(&self) -> MutexGuard<'_, Timestamp> {
        self.away_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it handles the next mail, and after how long it answers.
    fn handling(&self) -> (Duration, Handling) {
        let soon = Duration::from_millis(1 + self.dice.below(300));
        match self.dice.below(10) {
            _ if self.healed.load(Ordering::Relaxed) => (soon, Handling::Takes),
            _ if self.clock.now() < *self.away_until() => (soon, Handling::Breaks),
            0 => (soon, Handling::Breaks),
            1 => (soon, Handling::TakesAndBreaks),
            2 => (Duration::from_millis(1_000 + self.dice.below(9_000)), Handling::Takes),
            _ => (soon, Handling::Takes),
        }
    }
}

/// What the mail server does with a mail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handling {
    Takes,
    /// The mail is taken, and the connection is gone before the reply.
    TakesAndBreaks,
    Breaks,
}

#[async_trait]
impl Notifier for MailServer {
    async fn send(&self, message: &EmailMessage) -> Report {
        if self.disk.is_off() {
            std::future::pending::<()>().await;
        }
        let begun_at = self.clock.now();
        let mail = MailNo(self.mails.fetch_add(1, Ordering::Relaxed));
        let (delivery, to) = (DeliveryId::from_uuid(message.id), message.to.to_string());
        self.log.note(Happening::MailBegan(mail, delivery, to));
        let (after, handling) = self.handling();
        // It is taken before the reply: whoever dies in between does not know.
        self.clock.sleep_until(begun_at + after / 2).await;
        if handling != Handling::Breaks {
            self.log.note(Happening::MailTaken(mail));
        }
        self.clock.sleep_until(begun_at + after).await;
        let end = if handling == Handling::Takes { MailEnd::Replied } else { MailEnd::Broken };
        self.log.note(Happening::MailEnded(mail, end));
        Report { sent: end.sent(), duration: self.clock.now().since(begun_at), phases: PhaseTimes::default() }
    }
}

impl MailEnd {
    fn sent(self) -> Sent {
        match self {
            Self::Replied => Sent::Answered(Response {
                status: 250,
                headers: Vec::new(),
                body_sample: Bytes::new(),
                cut: Cut::default(),
                retry_after: None,
            }),
            Self::Broken => Sent::Failed { category: FailureCategory::Network, error: "the connection broke".to_owned(), response: None },
        }
    }
}

impl Simulation {
    /// The mail server goes away for a while.
    pub(super) fn let_the_mail_server_go(&self) {
        self.mail_server.go_away(Duration::from_secs(60 * (1 + self.dice.below(AWAY_MINUTES_MAX))));
    }
}
