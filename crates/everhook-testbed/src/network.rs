//! A scripted network: every host answers as its script says, and everything that was sent is remembered.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::{
    line::request,
    model::{AfterExpiry, Cut, Expiry, FailureCategory, Parking, PhaseTimes, Report, Response, RetryAfter, Sent, WaitsFor},
    ports::{Clock, OutgoingRequest, Transport},
    time::Timestamp,
};
use std::collections::HashMap;

/// How a host answers one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With this status, at once.
    Status(u16),
    /// With this status and this body, at once.
    Body(u16, &'static str),
    /// With this status, after this long.
    Slow(u16, Duration),
    /// With this status and this body, after this long.
    SlowBody(u16, &'static str, Duration),
    /// With this status and a `Retry-After`.
    RetryAfter(u16, Duration),
    /// Not at all: the request fails so.
    Fails(FailureCategory),
    /// Not before the request's time is up.
    Hangs,
    /// Not at all: this machine has no descriptor for the request.
    OutOfResources,
    /// That something must come first: the delivery is parked for what [`waited_for`] says, until so long from now, and then fails or gives up.
    Parks(Option<(Duration, AfterExpiry)>),
    /// The same, without an end, after this long.
    SlowlyParks(Duration),
    /// The transport itself panics: a fault of ours.
    Panics,
}

/// What every parked delivery of a scripted network waits for.
pub fn waited_for() -> WaitsFor {
    WaitsFor::parse("connection:strava:4711").expect("a good name")
}

/// A request that arrived at a host.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When.
    pub at: Timestamp,
    /// Where: the URL as its owner wrote it.
    pub url: String,
    /// The event that it carried.
    pub event: String,
    /// The delivery.
    pub delivery: String,
    /// Which attempt of the delivery it said it was.
    pub attempt: u32,
    /// What was answered.
    pub answer: Answer,
    /// The whole request.
    pub request: OutgoingRequest,
}

/// Hosts that answer as they are told.
pub struct ScriptedNetwork {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    scripts: HashMap<String, Script>,
    arrivals: Vec<Arrival>,
}

/// What a host answers: these in turn, then the last one for ever.
struct Script {
    first: VecDeque<Answer>,
    then: Answer,
}

impl ScriptedNetwork {
    /// A network on this clock. A URL without a script answers 200.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// Lets a URL answer with `first` in turn, then with `then` for ever.
    pub fn script(&self, url: &str, first: impl IntoIterator<Item = Answer>, then: Answer) {
        self.state().scripts.insert(url.to_owned(), Script { first: first.into_iter().collect(), then });
    }

    /// Everything that arrived, in order.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.state().arrivals.clone()
    }

    /// How many requests arrived.
    pub fn arrival_count(&self) -> usize {
        self.state().arrivals.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_in(&self, request: OutgoingRequest) -> Answer {
        let header = |name| request::header(&request.headers, name).unwrap_or_default().to_owned();
        let url = request.target.written.clone();
        let mut state = self.state();
        let answer = match state.scripts.get_mut(&url) {
            None => Answer::Status(200),
            Some(script) => script.first.pop_front().unwrap_or(script.then),
        };
        let arrival = Arrival {
            at: self.clock.now(),
            url,
            event: header("webhook-id"),
            delivery: header("x-webhook-delivery"),
            attempt: header("x-webhook-attempt").parse().unwrap_or(0),
            answer,
            request,
        };
        state.arrivals.push(arrival);
        answer
    }
}

#[async_trait]
impl Transport for ScriptedNetwork {
    async fn send(&self, request: OutgoingRequest) -> Report {
        let (begun_at, timeout) = (self.clock.now(), request.timeout);
        let sent = match self.take_in(request) {
            Answer::Status(status) => answered(status, None),
            Answer::Body(status, body) => with_body(answered(status, None), body),
            Answer::RetryAfter(status, delay) => answered(status, Some(RetryAfter::Delay(delay))),
            Answer::Slow(status, after) if after < timeout => {
                self.clock.sleep_until(begun_at + after).await;
                answered(status, None)
            }
            Answer::SlowBody(status, body, after) if after < timeout => {
                self.clock.sleep_until(begun_at + after).await;
                with_body(answered(status, None), body)
            }
            Answer::Slow(..) | Answer::SlowBody(..) | Answer::Hangs => {
                self.clock.sleep_until(begun_at + timeout).await;
                failed(FailureCategory::Timeout)
            }
            Answer::Fails(category) => failed(category),
            Answer::Parks(expiry) => parked(expiry.map(|(after, then)| Expiry { at: begun_at + after, then })),
            Answer::SlowlyParks(after) => {
                self.clock.sleep_until(begun_at + after).await;
                parked(None)
            }
            Answer::OutOfResources => Sent::OutOfResources { error: "scripted shortage".to_owned() },
            Answer::Panics => panic!("the script asked for a panic"),
        };
        Report { sent, duration: self.clock.now().since(begun_at), phases: PhaseTimes::default() }
    }
}

fn answered(status: u16, retry_after: Option<RetryAfter>) -> Sent {
    Sent::Answered(Response { status, headers: Vec::new(), body_sample: Bytes::from_static(b"ok"), cut: Cut::default(), retry_after })
}

fn with_body(sent: Sent, body: &'static str) -> Sent {
    match sent {
        Sent::Answered(response) => Sent::Answered(Response { body_sample: Bytes::from_static(body.as_bytes()), ..response }),
        other => other,
    }
}

fn parked(expiry: Option<Expiry>) -> Sent {
    Sent::Parked { parking: Parking { waits_for: waited_for(), expiry }, response: None }
}

fn failed(category: FailureCategory) -> Sent {
    Sent::Failed { category, error: format!("scripted {}", category.as_str()), response: None }
}
