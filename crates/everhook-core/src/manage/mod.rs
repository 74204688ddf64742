//! The control plane: what people may change, one file a resource. Called by the API and by wiring; never on the way of an event.
//!
//! Each use case takes who asks, as an `Author`, and what was asked for as plain values, checks every rule of the domain, and reports all faults at once. After a change the
//! catalog forgets the application and the owner of the lanes is notified, so that the next event already meets it.

pub mod alert_rules;
pub mod alerts;
pub mod api_keys;
pub mod app_health;
pub mod applications;
pub mod approvals;
mod audit;
pub mod auto_replay;
pub mod channels;
pub mod dead_letters;
pub mod deliveries;
pub mod endpoints;
pub mod erasing;
pub mod event_types;
pub mod finding;
pub mod health;
pub mod jobs;
pub mod manifests;
pub mod notifications;
pub mod operations;
pub mod organizations;
mod owners;
pub mod received;
pub mod schedules;
pub mod sealing;
pub mod sent;
pub mod sources;
pub mod transfer;
pub mod why;

use std::{fmt, time::Duration};

use crate::{ids::Uid, limits::on_demand_limit::OnDemandRefusal, line::Line, ports::StoreError, time::Timestamp};

/// The longest name of anything, in characters.
const NAME_CHARS_MAX: usize = 256;
/// How often a change is made again because somebody else was faster. Each round needs another change in the same millisecond.
const CHANGE_ROUNDS_MAX: u32 = 10;

/// How many rows are examined in one go when somebody asks how many an operation would be of.
const COUNT_BATCH: u32 = 2_000;
/// How long one attempt may be allowed to take.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// What one field of a request should have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field, as the user spells it.
    pub field: String,
    /// What would be right, as the rest of a sentence that begins with the field.
    pub reason: String,
}

impl Fault {
    /// A fault of `field`.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

/// A kind of thing that can be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noun {
    /// The tenant.
    Organization,
    /// An integration of it.
    Application,
    /// A URL that gets events.
    Endpoint,
    /// Where webhooks come in.
    Source,
    /// An API key.
    ApiKey,
    /// When failed deliveries are tried again.
    RetrySchedule,
    /// A type of events.
    EventType,
    /// A bulk action.
    Operation,
    /// What gave up.
    DeadLetter,
    /// What happened.
    Event,
    /// One event for one endpoint.
    Delivery,
    /// That a health provider's user is a profile.
    HealthConnection,
    /// What an application answers, or is to answer.
    Manifest,
    /// A function that an application answers.
    Capability,
    /// A draw that answered a call.
    Draw,
    /// A call that a person decides about.
    Approval,
    /// When something is reported.
    AlertRule,
    /// The state of a rule for one target.
    Alert,
    /// Where notifications are sent.
    Channel,
}

impl Noun {
    /// What requests name one by.
    pub fn named_by(self) -> &'static str {
        match self {
            Self::Organization | Self::Application | Self::Endpoint => "id or uid",
            Self::Source | Self::RetrySchedule | Self::EventType => "id or name",
            Self::Alert
            | Self::ApiKey
            | Self::Operation
            | Self::DeadLetter
            | Self::Event
            | Self::Delivery
            | Self::HealthConnection
            | Self::Approval => "id",
            Self::Manifest => "application",
            Self::Capability | Self::AlertRule | Self::Channel => "name",
            Self::Draw => "request id",
        }
    }
}

impl fmt::Display for Noun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Organization => "organization",
            Self::Application => "application",
            Self::Endpoint => "endpoint",
            Self::Source => "source",
            Self::ApiKey => "API key",
            Self::RetrySchedule => "retry schedule",
            Self::EventType => "event type",
            Self::Operation => "operation",
            Self::DeadLetter => "dead letter",
            Self::Event => "event",
            Self::Delivery => "delivery",
            Self::HealthConnection => "connection",
            Self::Manifest => "manifest",
            Self::Capability => "capability",
            Self::Draw => "draw",
            Self::Approval => "approval",
            Self::AlertRule => "alert rule",
            Self::Alert => "alert",
            Self::Channel => "channel",
        })
    }
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Some fields are not acceptable; all of them are listed.
    #[error("some fields are invalid")]
    Invalid(Vec<Fault>),
    /// There is no such thing in this organization.
    #[error("no {noun} has this {named_by}", noun = .0, named_by = .0.named_by())]
    NotFound(Noun),
    /// The current state does not allow it; the text says why.
    #[error("{1}")]
    Conflict(Conflict, String),
    /// The URL did not return the challenge that `verify_url` asks for.
    #[error("the URL could not be verified")]
    VerificationFailed(Fault),
    /// The caller's key may not do this; the words say what may.
    #[error("{0}")]
    Forbidden(String),
    /// Too many verifications or test events are under way, or were sent.
    #[error(transparent)]
    OnDemand(#[from] OnDemandRefusal),
    /// Too much is being evaluated to check it now; nothing was changed.
    #[error("too many schemas are being checked")]
    Busy,
    /// The store failed; nothing was changed, as far as is known.
    #[error("cannot store the change")]
    Store(#[from] StoreError),
}

/// The kinds of conflict that a program may want to tell apart. Each is a problem type of the API, with a page of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The uid belongs to another row.
    UidTaken,
    /// The name belongs to another row.
    NameTaken,
    /// Others change the same row at the same time: the same request may succeed now.
    ConcurrentChange,
    /// A limit has been reached.
    LimitReached,
    /// The endpoints of an application would have more configuration than they may.
    ApplicationTooLarge,
    /// It is built in and cannot be changed.
    BuiltIn,
    /// The operation cannot be cancelled.
    OperationRequired,
    /// The retry schedule is in use by endpoints.
    RetryScheduleInUse,
    /// The grace period of an earlier rotation has not ended.
    RotationInProgress,
    /// `ordering` was changed, and deliveries from before are still open.
    OrderingChangeInProgress,
    /// The kind of the source sends no key in its handshake.
    NoHandshakeKey,
    /// The endpoint is disabled.
    EndpointDisabled,
    /// The dead letter is not `dead`.
    DeadLetterNotDead,
    /// The operation has ended.
    OperationEnded,
    /// As many operations are under way as may be.
    TooManyOperations,
    /// The delivery has ended.
    DeliveryEnded,
    /// An attempt of the delivery is under way.
    AttemptUnderWay,
    /// A different decision about the call was made before, or it has expired.
    ApprovalDecided,
    /// The manifest has no base URL.
    AppNotCallable,
}

impl Refusal {
    fn uid_taken(uid: &str) -> Self {
        Self::Conflict(Conflict::UidTaken, format!("the uid `{uid}` is taken"))
    }

    fn name_taken(name: &str) -> Self {
        Self::Conflict(Conflict::NameTaken, format!("the name `{name}` is taken"))
    }

    fn concurrent_change(noun: &str) -> Self {
        Self::Conflict(Conflict::ConcurrentChange, format!("the {noun} is being changed by others: try again"))
    }
}

/// When something is changed that was read as of `read_at`. Two changes within one tick of the clock must still differ, or the second would not see the
/// first.
fn changed_at(line: &Line, read_at: Timestamp) -> Timestamp {
    line.ports.clock.now().max(Timestamp::from_micros(read_at.as_micros() + 1))
}

/// An application that a field names is not there, or is not one that the caller reaches.
pub fn no_such_application() -> Fault {
    Fault::new("application_id", "is not an application of this organization")
}

/// What a store answers that no caller of this kind can bring about: read again, decide again.
fn unexpected() -> Refusal {
    Refusal::Store(StoreError::Conflict)
}

/// What a request wants of one field: absent is not the same as null.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// The field is absent: it stays as it is.
    #[default]
    Keep,
    /// The field is null: it goes back to its default.
    Clear,
    /// The field is given.
    Set(T),
}

impl<T> Change<T> {
    /// Reads the value that is given; what it says wrong is added to the faults, under the field's name.
    fn check<U>(self, field: &str, faults: &mut Vec<Fault>, read: impl FnOnce(T) -> Result<U, String>) -> Change<U> {
        match self {
            Self::Keep => Change::Keep,
            Self::Clear => Change::Clear,
            Self::Set(value) => match read(value) {
                Ok(value) => Change::Set(value),
                Err(reason) => {
                    faults.push(Fault::new(field, reason));
                    Change::Keep
                }
            },
        }
    }

    /// What is asked for, where a null asks for the default.
    fn requested(&self) -> Option<T>
    where
        T: Clone,
    {
        match self {
            Self::Set(value) => Some(value.clone()),
            Self::Keep | Self::Clear => None,
        }
    }

    /// Changes a field that has a default.
    fn apply(self, field: &mut T, default: T) {
        match self {
            Self::Keep => {}
            Self::Clear => *field = default,
            Self::Set(value) => *field = value,
        }
    }

    /// Changes a field that may be empty.
    fn apply_to_option(self, field: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Clear => *field = None,
            Self::Set(value) => *field = Some(value),
        }
    }
}

/// The longest description of anything, in characters.
const DESCRIPTION_CHARS_MAX: usize = 4_096;

/// Text that is shown to people: not blank, bounded, no control characters.
fn check_name(name: String) -> Result<String, String> {
    if name.trim().is_empty() {
        return Err("must not be blank".to_owned());
    }
    check_text(name, NAME_CHARS_MAX)
}

/// Text that is shown to people: bounded, and without control characters but line breaks and tabs.
fn check_text(text: String, chars_max: usize) -> Result<String, String> {
    let chars = text.chars().count();
    if chars > chars_max {
        return Err(format!("must be at most {chars_max} characters long, and has {chars}"));
    }
    if text.chars().any(|char| char.is_control() && !matches!(char, '\n' | '\r' | '\t')) {
        return Err("must not contain control characters".to_owned());
    }
    Ok(text)
}

fn check_timeout(timeout: Duration) -> Result<Duration, String> {
    if (TIMEOUT_MIN..=TIMEOUT_MAX).contains(&timeout) { Ok(timeout) } else { Err("must be 100 to 60000".to_owned()) }
}

fn check_uid(uid: String) -> Result<Uid, String> {
    Uid::parse(&uid).ok_or_else(|| "must be 1 to 128 of the characters A-Z a-z 0-9 _ . : - and not a UUID".to_owned())
}

fn refuse_faults(faults: Vec<Fault>) -> Result<(), Refusal> {
    if faults.is_empty() { Ok(()) } else { Err(Refusal::Invalid(faults)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_not_blank_not_endless_and_has_no_control_characters() {
        for good in ["a", "Größe 你好", "  padded ", &"x".repeat(256)] {
            assert!(check_name(good.to_owned()).is_ok(), "{good}");
        }
        for bad in ["", "   ", "nul\0", "bell\u{7}", &"x".repeat(257)] {
            assert!(check_name(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn absent_keeps_null_clears_and_a_value_sets() {
        for (change, expected) in [(Change::Keep, Some(1)), (Change::Clear, None), (Change::Set(2), Some(2))] {
            let mut field = Some(1);
            change.apply_to_option(&mut field);
            assert_eq!(field, expected);
        }
    }
}
