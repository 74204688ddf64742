//! The other side of the network: endpoints of many characters, which write down what arrives and how it ends.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::{
    line::request::header,
    model::{Cut, FailureCategory, PhaseTimes, Report, Response, RetryAfter, Sent},
    ports::{Clock, OutgoingRequest, Transport},
    time::Timestamp,
};

use super::apps::{APP, AskedJob, KEPT_PATH};
use super::log::{EndpointNo, Happening, Log, Reply, Request, RequestNo};
use crate::{clock::SimClock, dice::Dice, disk::Disk};

/// The longest `Retry-After` that a receiver asks for.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(10 * 60);

/// What kind of receiver an endpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Character {
    /// Answers 200 within a fraction of a second.
    Healthy,
    /// Is well for some minutes, then answers 500 for some.
    Flapping,
    /// Answers 500.
    Dead,
    /// Answers 200 after seconds, sometimes too late.
    Slow,
    /// Accepts the request and says nothing.
    Hanging,
    /// Answers 429 and asks for patience, most of the time.
    RateLimiting,
    /// Answers 503 and asks for patience, most of the time.
    Overloaded,
    /// Answers 302.
    Redirecting,
    /// Answers 200, and one day 410.
    Leaving,
    /// Cannot be reached, each time for another reason.
    Unreachable,
    /// Answers 200 at once for two minutes, then says nothing for two.
    Turning,
    /// Answers 200 as late as a quick one may.
    Dripping,
}

impl Character {
    /// All that endpoints of ordinary organizations have; the healthy one more than once, because most receivers are.
    const CAST: [Self; 12] = [
        Self::Healthy,
        Self::Healthy,
        Self::Healthy,
        Self::Flapping,
        Self::Dead,
        Self::Slow,
        Self::Hanging,
        Self::RateLimiting,
        Self::Overloaded,
        Self::Redirecting,
        Self::Leaving,
        Self::Unreachable,
    ];

    /// One of them.
    pub fn any(dice: &Dice) -> Self {
        Self::CAST[dice.below(Self::CAST.len() as u64) as usize]
    }

    /// How it answers now, and after how long.
    fn reply(self, now: Timestamp, dice: &Dice) -> (Duration, Option<Reply>) {
        let soon = Duration::from_millis(1 + dice.below(200));
        let status = |status| Some(Reply::Status(status, None));
        let asking = |status: u16, retry_after: Duration| match dice.below(4) {
            0 => Some(Reply::Status(200, None)),
            1 => Some(Reply::Status(status, None)),
            _ => Some(Reply::Status(status, Some(retry_after))),
        };
        let retry_after = Duration::from_secs(dice.below(RETRY_AFTER_MAX.as_secs() / if dice.below(4) == 0 { 1 } else { 10 }));
        match self {
            Self::Healthy => (soon, status(200 + dice.below(5) as u16)),
            Self::Flapping if now.as_secs() / 300 % 2 == 0 => (soon, status(200)),
            Self::Flapping | Self::Dead => (soon, status(500 + dice.below(3) as u16)),
            Self::Slow => (Duration::from_millis(500 + dice.below(20_000)), status(200)),
            Self::Hanging => (soon, None),
            Self::RateLimiting => (soon, asking(429, retry_after)),
            Self::Overloaded => (soon, asking(503, retry_after)),
            Self::Redirecting => (soon, status(302)),
            Self::Leaving => (soon, status(if dice.below(40) == 0 { 410 } else { 200 })),
            Self::Turning if now.as_secs() / 120 % 2 == 0 => (soon, status(200)),
            Self::Turning => (soon, None),
            Self::Dripping => (Duration::from_millis(950), status(200)),
            Self::Unreachable => (soon, Some(Reply::Failed(unreachable_because(dice)))),
        }
    }
}

fn unreachable_because(dice: &Dice) -> FailureCategory {
    [FailureCategory::Dns, FailureCategory::Network, FailureCategory::Tls][dice.below(3) as usize]
}

/// All receivers of a run.
pub struct Receivers {
    clock: Arc<SimClock>,
    disk: Arc<Disk>,
    log: Arc<Log>,
    dice: Dice,
    hosts: Mutex<BTreeMap<String, Host>>,
    /// What the app was asked to do, in order.
    jobs: Mutex<Vec<AskedJob>>,
    requests: AtomicUsize,
    healed: AtomicBool,
}

#[derive(Clone, Copy)]
struct Host {
    endpoint: EndpointNo,
    character: Character,
    has_said_gone: bool,
}

impl Receivers {
    /// No receivers yet. Requests of a process whose disk is off go nowhere: it is dead.
    pub fn new(clock: Arc<SimClock>, disk: Arc<Disk>, log: Arc<Log>, seed: u64) -> Self {
        Self {
            clock,
            disk,
            log,
            dice: Dice::new(seed),
            hosts: Mutex::default(),
            jobs: Mutex::default(),
            requests: AtomicUsize::new(0),
            healed: AtomicBool::new(false),
        }
    }

    /// Puts a receiver behind a URL.
    pub fn add(&self, url: String, endpoint: EndpointNo, character: Character) {
        self.hosts().insert(url, Host { endpoint, character, has_said_gone: false });
    }

    /// From now on everybody answers 200 at once.
    pub fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
    }

    /// Whether the endpoint has ever answered 410, so that only the store knows whether it is disabled.
    pub fn has_said_gone(&self, endpoint: EndpointNo) -> bool {
        self.hosts().values().any(|host| host.endpoint == endpoint && host.has_said_gone)
    }

    /// What the app was asked to do, in order.
    pub(super) fn asked_jobs(&self) -> Vec<AskedJob> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How the app answers, and after how long.
    fn app_reply(&self, request: &OutgoingRequest) -> (Duration, AppReply) {
        let soon = Duration::from_millis(1 + self.dice.below(200));
        let is_well = self.healed.load(Ordering::Relaxed);
        let Some(asked) = AskedJob::read(&request.body) else {
            let (after, reply) = match self.dice.below(6) {
                _ if is_well => (soon, AppReply::Says(200, GOOD)),
                0 => (soon, AppReply::Silent),
                1 => (soon, AppReply::Says(500, "no")),
                2 => (soon, AppReply::Says(200, "garbage")),
                3 => (soon, AppReply::Fails(unreachable_because(&self.dice))),
                4 => (Duration::from_millis(700 + self.dice.below(600)), AppReply::Says(200, GOOD)),
                _ => (soon, AppReply::Says(200, GOOD)),
            };
            if reply == AppReply::Says(200, GOOD) && request.target.written.ends_with(KEPT_PATH) {
                self.log.note(Happening::AppAnswered);
            }
            return (after, reply);
        };
        self.log.note(Happening::AppAsked(asked.job));
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        match self.dice.below(8) {
            _ if is_well => (soon, AppReply::Says(202, "")),
            0 => (soon, AppReply::Silent),
            1 => (soon, AppReply::Says(500, "no")),
            2 => (soon, AppReply::Fails(unreachable_because(&self.dice))),
            3 => (Duration::from_secs(self.dice.below(20)), AppReply::Says(202, "")),
            _ => (soon, AppReply::Says(202, "")),
        }
    }

    fn hosts(&self) -> MutexGuard<'_, BTreeMap<String, Host>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrives(&self, request: &OutgoingRequest) -> UnderWay<'_> {
        let text = |name| header(&request.headers, name).unwrap_or_default();
        let host = self.hosts().get(&request.target.written).copied().expect("requests go to endpoints of the run");
        let number = RequestNo(self.requests.fetch_add(1, Ordering::Relaxed));
        self.log.note(Happening::RequestBegan(Box::new(Request {
            request: number,
            endpoint: host.endpoint,
            event: text("webhook-id").parse().expect("an event's id"),
            delivery: text("x-webhook-delivery").parse().expect("a delivery's id"),
            attempt: text("x-webhook-attempt").parse().expect("an attempt's number"),
        })));
        UnderWay { receivers: self, request: number, host, is_over: false }
    }
}

/// A request under way. If its sender goes away, that is written down.
struct UnderWay<'a> {
    receivers: &'a Receivers,
    request: RequestNo,
    host: Host,
    is_over: bool,
}

impl UnderWay<'_> {
    fn ends(mut self, reply: Reply) {
        self.is_over = true;
        if matches!(reply, Reply::Status(410, _)) {
            let mut hosts = self.receivers.hosts();
            hosts.values_mut().filter(|host| host.endpoint == self.host.endpoint).for_each(|host| host.has_said_gone = true);
        }
        self.receivers.log.note(Happening::RequestEnded(self.request, self.host.endpoint, reply));
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.receivers.log.note(Happening::RequestEnded(self.request, self.host.endpoint, Reply::Abandoned));
        }
    }
}

#[async_trait]
impl Transport for Receivers {
    async fn send(&self, request: OutgoingRequest) -> Report {
        if self.disk.is_off() {
            std::future::pending::<()>().await;
        }
        let begun_at = self.clock.now();
        if request.target.written.starts_with(APP) {
            let (after, reply) = self.app_reply(&request);
            let reply = if after < request.timeout { reply } else { AppReply::Silent };
            self.clock.sleep_until(begun_at + if reply == AppReply::Silent { request.timeout } else { after }).await;
            return Report { sent: reply.sent(), duration: self.clock.now().since(begun_at), phases: PhaseTimes::default() };
        }
        let under_way = self.arrives(&request);
        let (after, reply) = match self.healed.load(Ordering::Relaxed) {
            true => (Duration::from_millis(1), Some(Reply::Status(200, None))),
            false => under_way.host.character.reply(begun_at, &self.dice),
        };
        let reply = reply.filter(|_| after < request.timeout);
        self.clock.sleep_until(begun_at + if reply.is_some() { after } else { request.timeout }).await;
        let reply = reply.unwrap_or(Reply::Failed(FailureCategory::Timeout));
        under_way.ends(reply);
        Report { sent: sent(reply), duration: self.clock.now().since(begun_at), phases: PhaseTimes::default() }
    }
}

/// What a good app answers.
const GOOD: &str = r#"{"success":true,"data":1}"#;

/// What the app does with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AppReply {
    Says(u16, &'static str),
    Fails(FailureCategory),
    Silent,
}

impl AppReply {
    fn sent(self) -> Sent {
        match self {
            Self::Says(status, body) => Sent::Answered(Response {
                status,
                headers: Vec::new(),
                body_sample: Bytes::from_static(body.as_bytes()),
                cut: Cut::default(),
                retry_after: None,
            }),
            Self::Fails(category) => sent(Reply::Failed(category)),
            Self::Silent => sent(Reply::Failed(FailureCategory::Timeout)),
        }
    }
}

fn sent(reply: Reply) -> Sent {
    match reply {
        Reply::Status(status, retry_after) => {
            let retry_after = retry_after.map(RetryAfter::Delay);
            Sent::Answered(Response {
                status,
                headers: Vec::new(),
                body_sample: Bytes::from_static(b"ok"),
                cut: Cut::default(),
                retry_after,
            })
        }
        Reply::Failed(category) => Sent::Failed { category, error: format!("simulated {}", category.as_str()), response: None },
        Reply::Abandoned => unreachable!("a request whose sender went away reports nothing"),
    }
}
