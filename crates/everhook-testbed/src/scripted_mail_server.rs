//! A scripted mail server on the test's clock: it takes mail, refuses it, or is away, and remembers everything that was handed to it. What real SMTP does is
//! tested with `mail_server`.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::{
    model::{Cut, FailureCategory, PhaseTimes, Report, Response, Sent},
    ports::{Clock, EmailMessage, Notifier},
    time::Timestamp,
};

/// What becomes of one mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// It is taken, after this long.
    Takes(Duration),
    /// It is taken, and the sender never learns of it.
    TakesAndHangsUp,
    /// The server cannot be reached.
    IsAway,
    /// Its certificate is not believed.
    IsNotBelieved,
    /// It will never take this mail.
    Refuses,
}

/// A mail that the server took.
#[derive(Clone, Debug)]
pub struct Mail {
    /// When.
    pub at: Timestamp,
    /// The mail.
    pub message: EmailMessage,
}

/// A mail server that does as it is told.
pub struct ScriptedMailServer {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    first: VecDeque<Handling>,
    then: Handling,
    taken: Vec<Mail>,
    asked: usize,
}

impl ScriptedMailServer {
    /// One that takes every mail at once.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let state = State { first: VecDeque::new(), then: Handling::Takes(Duration::ZERO), taken: Vec::new(), asked: 0 };
        Self { clock, state: Mutex::new(state) }
    }

    /// Handles the next mails as in `first`, in turn, then all others as `then` says.
    pub fn script(&self, first: impl IntoIterator<Item = Handling>, then: Handling) {
        let mut state = self.state();
        (state.first, state.then) = (first.into_iter().collect(), then);
    }

    /// What it took, in order.
    pub fn taken(&self) -> Vec<Mail> {
        self.state().taken.clone()
    }

    /// The addresses of what it took, in order.
    pub fn taken_for(&self) -> Vec<String> {
        self.state().taken.iter().map(|mail| mail.message.to.to_string()).collect()
    }

    /// How often it was asked to take a mail.
    pub fn asked(&self) -> usize {
        self.state().asked
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, message: &EmailMessage) {
        let mail = Mail { at: self.clock.now(), message: message.clone() };
        self.state().taken.push(mail);
    }
}

#[async_trait]
impl Notifier for ScriptedMailServer {
    async fn send(&self, message: &EmailMessage) -> Report {
        let handling = {
            let mut state = self.state();
            state.asked += 1;
            state.first.pop_front().unwrap_or(state.then)
        };
        let failed = |category, error: &str| Sent::Failed { category, error: error.to_owned(), response: None };
        let sent = match handling {
            Handling::Takes(after) => {
                if !after.is_zero() {
                    self.clock.sleep_for(after).await;
                }
                self.take(message);
                Sent::Answered(reply(250))
            }
            Handling::TakesAndHangsUp => {
                self.take(message);
                failed(FailureCategory::Network, "the connection was closed")
            }
            Handling::IsAway => failed(FailureCategory::Network, "connection refused"),
            Handling::IsNotBelieved => failed(FailureCategory::Tls, "the certificate has expired"),
            Handling::Refuses => Sent::Refused {
                category: FailureCategory::ClientError,
                error: "the mail server replied 550".to_owned(),
                response: Some(reply(550)),
            },
        };
        Report { sent, duration: Duration::ZERO, phases: PhaseTimes::default() }
    }
}

fn reply(status: u16) -> Response {
    Response { status, headers: Vec::new(), body_sample: Bytes::new(), cut: Cut::default(), retry_after: None }
}
