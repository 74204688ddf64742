//! What happened in a run, in order: the publishers' side, the receivers' side, and what was done to the machine. The oracle judges it, a person
//! reads it, and its hash says whether two runs were the same.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use everhook_core::{
    ids::{ApprovalId, DeliveryId, EventId},
    model::{FailureCategory, Fingerprint},
    ports::Clock,
    time::Timestamp,
};

use super::settings::{Change, Limits, Settings};
use crate::{clock::SimClock, world::BEGINNING};

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident $letter:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub usize);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
    )+};
}

numbers! {
    /// An organization of the run.
    TenantNo "T";
    /// An endpoint of the run.
    EndpointNo "E";
    /// One try of a publisher.
    PublicationNo "P";
    /// A request that arrived.
    RequestNo "R";
    /// A call of an app.
    CallNo "C";
    /// A mail on its way.
    MailNo "M";
}

/// One line of the log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What the clock showed.
    pub at: Timestamp,
    /// How much time had really passed, without the jumps of the clock.
    pub lived: Duration,
    /// What happened.
    pub what: Happening,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// An endpoint was made so.
    EndpointMade(EndpointNo, Settings),
    /// A publisher asks.
    Publishing(Box<Publishing>),
    /// A publisher is answered.
    Answered(PublicationNo, Answered),
    /// This event was just accepted, for an endpoint that is well and idle, while nothing was wrong with the machine.
    DueAtOnce(EventId),
    /// A request arrives at an endpoint.
    RequestBegan(Box<Request>),
    /// A request is over.
    RequestEnded(RequestNo, EndpointNo, Reply),
    /// An owner asks for a change of an endpoint.
    Changing(EndpointNo, Change),
    /// The change is acknowledged.
    Changed(EndpointNo, Change),
    /// What the store says about an endpoint, after a change whose outcome nobody was told.
    Found(EndpointNo, Settings),
    /// Somebody asks for other limits of an organization.
    Limiting(TenantNo, Limits),
    /// They hold.
    Limited(TenantNo, Limits),
    /// Deliveries that are held although nothing is before them, if there are any: the next look of the engine frees them.
    HeldFirst(Vec<DeliveryId>),
    /// The store will fail at one of its next calls.
    FaultPlanned(String),
    /// The disk is full.
    DiskFilled,
    /// The disk has space again.
    DiskFreed,
    /// The database's log is moved into its file, in this manner.
    Checkpointed(&'static str),
    /// A dead letter was brought back, as this delivery.
    Recalled(DeliveryId),
    /// Somebody asks for an event to be erased.
    Erasing(EventId),
    /// It is erased.
    Erased(EventId),
    /// A provider pushes.
    Pushing(Summary),
    /// A provider is answered, with a success or not.
    PushAnswered(Summary, bool),
    /// Somebody asks that these secrets of the shop's source are in force, by their number, and no others.
    SecretsChanging(Vec<u32>),
    /// They are.
    SecretsChanged(Vec<u32>),
    /// The shop pushes, signed with the secret of this number.
    SignedPushing(u32, u32),
    /// The shop is answered.
    SignedAnswered(u32, SignedAnswer),
    /// A user of the provider is connected.
    UserConnected(u32),
    /// Somebody calls this capability of an app.
    CallBegan(CallNo, &'static str),
    /// The caller has an answer, from there.
    CallAnswered(CallNo, &'static str),
    /// The caller is told that the call is this job.
    CallQueued(CallNo, EventId),
    /// The caller is told that a person decides about the call.
    CallPending(CallNo, ApprovalId),
    /// A person decides about a call.
    PersonDecided(ApprovalId, Decision, Taken),
    /// The caller is told that there is no answer.
    CallRefused(CallNo),
    /// The app gives a good answer to a call whose answers are kept.
    AppAnswered,
    /// The mail of this delivery, to this address, is handed to the mail server.
    MailBegan(MailNo, DeliveryId, String),
    /// The mail server has it.
    MailTaken(MailNo),
    /// Its sender knows how it ended.
    MailEnded(MailNo, MailEnd),
    /// The mail server goes away for so long.
    MailServerAway(Duration),
    /// The app is asked to do a job.
    AppAsked(EventId),
    /// The app calls back.
    CalledBack(EventId, Result, Taken),
    /// The app says how far it is, in percent.
    ProgressReported(EventId, u8, Taken),
    /// Somebody asks that what the source takes waits.
    SourceHeld,
    /// Somebody asks that it goes on.
    SourceResumed,
    /// The process will die in the middle of one of its next writes.
    DeathPlanned(u64),
    /// The process is gone.
    Died(String),
    /// The process stopped as it was asked to.
    Stopped,
    /// The process runs again.
    Started,
    /// The clock was moved, by so many microseconds.
    ClockMoved(i64),
    /// From here on everything is well.
    Healed,
}

/// What a publisher asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publishing {
    /// Which try.
    pub publication: PublicationNo,
    /// Which application, by its number in the run.
    pub application: usize,
    /// The event's type.
    pub event_type: String,
    /// Its idempotency key, if the publisher gave one.
    pub key: Option<String>,
    /// Its ordering key, if the publisher gave one.
    pub ordering_key: Option<String>,
    /// What it says.
    pub fingerprint: Fingerprint,
    /// Endpoints that must get it.
    pub wanted_by: Vec<EndpointNo>,
    /// Endpoints that may get it: nobody outside knows how they stand.
    pub perhaps_by: Vec<EndpointNo>,
}

/// What an app makes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// This number.
    Done(u64),
    /// Nothing, for good.
    Failed,
}

/// What a person makes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The app is to be asked.
    Queue,
    /// This number is the answer.
    Answer(u64),
    /// There is no answer.
    Reject,
}

/// What the shop is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedAnswer {
    /// It is recorded.
    Taken,
    /// Its signature is wrong.
    Refused,
    /// The store failed, or nobody answered.
    Failed,
}

/// How a mail ended, as its sender knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailEnd {
    /// The server said that it took it.
    Replied,
    /// The connection broke, before or after it was taken.
    Broken,
}

/// Whether a callback, or a decision, was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was, now or before.
    Yes,
    /// The job has ended, or was answered otherwise.
    No,
    /// The store failed.
    Perhaps,
    /// There is no such job.
    Unknown,
}

/// What a provider says about a user's day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Summary {
    /// Which user.
    pub user: u32,
    /// Which day, from 0.
    pub day: u32,
    /// How many steps.
    pub steps: u32,
}

impl Summary {
    /// What it is recognized by if it comes again.
    pub fn key(self) -> String {
        self.to_string()
    }

    /// The day in the calendar: any day of a 28-day month exists.
    pub fn date(self) -> String {
        let day = self.day;
        format!("{:04}-{:02}-{:02}", 2000 + day / 336, 1 + day / 28 % 12, 1 + day % 28)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user-{}/day-{}/{}-steps", self.user, self.day, self.steps)
    }
}

/// What a publisher is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Accepted, with so many deliveries.
    Accepted(EventId, u32),
    /// The key was used before, by this event.
    Duplicate(EventId),
    /// The key is that of this event, which says something else or was erased.
    KeyReused(EventId),
    /// Nothing, or that it failed.
    NotAccepted,
}

/// A request that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which one.
    pub request: RequestNo,
    /// Where.
    pub endpoint: EndpointNo,
    /// The event that it carries.
    pub event: EventId,
    /// The delivery.
    pub delivery: DeliveryId,
    /// Which attempt it says it is.
    pub attempt: u32,
}

/// How a request ended, as the receiver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Answered so, with or without a `Retry-After`.
    Status(u16, Option<Duration>),
    /// It failed on the way.
    Failed(FailureCategory),
    /// The sender went away.
    Abandoned,
}

impl Happening {
    /// Whether what was in the process's memory is gone.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Died(_) | Self::Stopped)
    }
}

impl Reply {
    /// Whether it is a 2xx.
    pub fn is_success(self) -> bool {
        matches!(self, Self::Status(200..=299, _))
    }

    /// The `Retry-After` of an answer for which it counts.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Status(429 | 503, retry_after) => retry_after,
            _ => None,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.at.as_micros() - BEGINNING.as_micros();
        write!(f, "{:>12.6} {}", micros as f64 / 1e6, self.what)
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndpointMade(endpoint, settings) => write!(f, "{endpoint} is made: {settings:?}"),
            Self::Publishing(asked) => {
                let Publishing { publication, application, event_type, key, .. } = asked.as_ref();
                let key = key.as_deref().unwrap_or("none");
                write!(f, "{publication} publishes {event_type} to application {application}, key {key}")
            }
            Self::Answered(publication, Answered::Accepted(event, deliveries)) => {
                write!(f, "{publication} is accepted as {event} with {deliveries} deliveries")
            }
            Self::Answered(publication, Answered::Duplicate(event)) => write!(f, "{publication} is a duplicate of {event}"),
            Self::Answered(publication, Answered::KeyReused(event)) => write!(f, "{publication} is refused: its key is that of {event}"),
            Self::Answered(publication, Answered::NotAccepted) => write!(f, "{publication} is not accepted"),
            Self::DueAtOnce(event) => write!(f, "event {event} is to be sent at once"),
            Self::RequestBegan(request) => {
                let Request { request, endpoint, event, delivery, attempt } = request.as_ref();
                write!(f, "{request} arrives at {endpoint}: delivery {delivery} attempt {attempt} of event {event}")
            }
            Self::RequestEnded(request, endpoint, reply) => write!(f, "{request} at {endpoint} ends: {reply:?}"),
            Self::Changing(endpoint, change) => write!(f, "{endpoint} is to change: {change:?}"),
            Self::Changed(endpoint, change) => write!(f, "{endpoint} is changed: {change:?}"),
            Self::Found(endpoint, settings) => write!(f, "{endpoint} is found so: {settings:?}"),
            Self::Limiting(tenant, limits) => write!(f, "{tenant} is to be limited: {limits:?}"),
            Self::Limited(tenant, limits) => write!(f, "{tenant} is limited: {limits:?}"),
            Self::HeldFirst(deliveries) => write!(f, "held behind nothing: {deliveries:?}"),
            Self::FaultPlanned(fault) => write!(f, "the store will fail: {fault}"),
            Self::DiskFilled => f.write_str("the disk is full"),
            Self::DiskFreed => f.write_str("the disk has space again"),
            Self::Checkpointed(manner) => write!(f, "the log is moved into the file: {manner}"),
            Self::Recalled(delivery) => write!(f, "a dead letter is brought back as delivery {delivery}"),
            Self::Erasing(event) => write!(f, "event {event} is to be erased"),
            Self::Erased(event) => write!(f, "event {event} is erased"),
            Self::Pushing(summary) => write!(f, "the provider pushes {summary}"),
            Self::PushAnswered(summary, true) => write!(f, "the push {summary} is accepted"),
            Self::PushAnswered(summary, false) => write!(f, "the push {summary} is not accepted"),
            Self::SecretsChanging(secrets) => write!(f, "the shop's secrets are to be {secrets:?}"),
            Self::SecretsChanged(secrets) => write!(f, "the shop's secrets are {secrets:?}"),
            Self::SignedPushing(push, secret) => write!(f, "the shop pushes {push}, signed with secret {secret}"),
            Self::SignedAnswered(push, answer) => write!(f, "the shop's push {push} is answered: {answer:?}"),
            Self::UserConnected(user) => write!(f, "user {user} is connected"),
            Self::CallBegan(call, capability) => write!(f, "{call} calls {capability}"),
            Self::CallAnswered(call, source) => write!(f, "{call} is answered by {source}"),
            Self::CallQueued(call, job) => write!(f, "{call} is job {job}"),
            Self::CallPending(call, approval) => write!(f, "{call} waits for a person as approval {approval}"),
            Self::PersonDecided(approval, decision, taken) => write!(f, "approval {approval} is decided: {decision:?}, taken: {taken:?}"),
            Self::AppAnswered => f.write_str("the app gives an answer that is kept"),
            Self::ProgressReported(job, percent, taken) => write!(f, "the app has done {percent} % of job {job}, taken: {taken:?}"),
            Self::CallRefused(call) => write!(f, "{call} has no answer"),
            Self::MailBegan(mail, delivery, to) => write!(f, "{mail} is handed to the mail server: delivery {delivery} to {to}"),
            Self::MailTaken(mail) => write!(f, "{mail} is taken"),
            Self::MailEnded(mail, end) => write!(f, "{mail} ends: {end:?}"),
            Self::MailServerAway(span) => write!(f, "the mail server goes away for {} s", span.as_secs()),
            Self::AppAsked(job) => write!(f, "the app is asked to do job {job}"),
            Self::CalledBack(job, result, taken) => write!(f, "the app calls back about job {job}: {result:?}, taken: {taken:?}"),
            Self::SourceHeld => f.write_str("the source is to be held"),
            Self::SourceResumed => f.write_str("the source is to go on"),
            Self::DeathPlanned(changes) => write!(f, "the process will die after {changes} more changes of the disk"),
            Self::Died(how) => write!(f, "the process dies: {how}"),
            Self::Stopped => f.write_str("the process stops as asked"),
            Self::Started => f.write_str("the process starts"),
            Self::ClockMoved(micros) => write!(f, "the clock is moved by {} s", *micros as f64 / 1e6),
            Self::Healed => f.write_str("everything is well from here on"),
        }
    }
}

/// The log of one run.
pub struct Log {
    clock: Arc<SimClock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    clock_moved_micros: i64,
}

impl Log {
    /// An empty log on this clock.
    pub fn new(clock: Arc<SimClock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// Writes a line.
    pub fn note(&self, what: Happening) {
        let at = self.clock.now();
        let mut state = self.state();
        if let Happening::ClockMoved(micros) = what {
            state.clock_moved_micros += micros;
        }
        let lived = at.as_micros() - BEGINNING.as_micros() - state.clock_moved_micros;
        let lived = Duration::from_micros(u64::try_from(lived).unwrap_or(0));
        state.entries.push(Entry { at, lived, what });
    }

    /// Looks at all lines.
    pub fn read<T>(&self, look: impl FnOnce(&[Entry]) -> T) -> T {
        look(&self.state().entries)
    }

    /// A number that two runs share only if the same things happened in them at the same times (FNV-1a over all lines).
    pub fn fingerprint(&self) -> u64 {
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        let line = |fingerprint: u64, entry: &Entry| entry.to_string().bytes().fold(fingerprint, hash);
        self.read(|entries| entries.iter().fold(0xCBF2_9CE4_8422_2325, line))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
