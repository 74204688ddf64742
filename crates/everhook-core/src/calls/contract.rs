//! The contract test of an app: a few requests, each of which must be answered in its own way. For the people who write apps.
//!
//! It goes by the transport alone: no breaker, cache or fallback hides what the app does.

mod callbacks;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use url::Url;
use uuid::Uuid;

pub use self::callbacks::{CallbackAddress, CallbackDoor, Heard};
use super::{Calls, OpenCapability, request::signature};
use crate::{
    ids::OrganizationId,
    limits::evaluations::Busy,
    model::{Report, SigningKey, Target},
    policy::{
        calls::{
            answer::{self, AppAnswer, FailureKind},
            contract::{self, Judgment, SHORT_DEADLINE},
            job::TAKE_OVER_TIMEOUT,
        },
        schema::{Schema, SchemaMismatch, Violation},
        work::{SCHEMA_UNITS_MAX, WorkBudget},
    },
    ports::{OutgoingMethod, OutgoingRequest, StoreError, Transport},
};

/// How long one request of the test may take at most: the test is waited for.
const REQUEST_TIMEOUT_MAX: Duration = Duration::from_secs(5);

/// How many more good requests are made to see how long answers take, and how long all of them may take together.
const MORE_ANSWERS: usize = 8;
const MORE_ANSWERS_TIME_MAX: Duration = Duration::from_secs(5);

/// The names of the checks that need a good answer.
const DEADLINE: &str = "deadline of 200 ms";
const CALLBACK: &str = "callback";
const REPEAT: &str = "repeated request";
const TIMES: &str = "answer times";

/// The names of all checks, in their order. Only apps that answer later call back.
pub const CHECK_NAMES: [&str; 9] =
    ["health", "answer", "forged signature", "missing signature", "garbage", DEADLINE, CALLBACK, REPEAT, TIMES];

/// A body that no parser takes.
const GARBAGE: &[u8] = b"{\"broken";

/// What is tested.
pub struct ContractSubject<'a> {
    /// Whose connections are used.
    pub organization: OrganizationId,
    /// The name that the app is told.
    pub capability: &'a str,
    /// The capability's URL.
    pub target: Arc<Target>,
    /// The URL of its health page.
    pub health: Arc<Target>,
    /// What signs.
    pub key: &'a SigningKey,
    /// A payload that the app can answer.
    pub payload: Bytes,
    /// What the data of its answers must be.
    pub schema: Option<&'a Schema>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Where it calls back, if it answers later.
    pub callbacks: Option<CallbacksExpected<'a>>,
}

/// The callbacks of an app that answers later.
#[derive(Clone, Copy)]
pub struct CallbacksExpected<'a> {
    /// Where they are heard.
    pub door: &'a dyn CallbackDoor,
    /// How long the app may take to call back.
    pub timeout: Duration,
    /// How long the test waits for it.
    pub wait: Duration,
}

/// One check of the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContractCheck {
    /// What is checked.
    pub name: &'static str,
    /// Whether the app passed; `None` if it could not be checked.
    pub passed: Option<bool>,
    /// What was seen.
    pub detail: String,
    /// How long the request took.
    pub took: Duration,
}

impl ContractCheck {
    fn new(name: &'static str, judgment: Judgment, took: Duration) -> Self {
        let (passed, detail) = match judgment {
            Ok(detail) => (true, detail),
            Err(detail) => (false, detail),
        };
        Self { name, passed: Some(passed), detail, took }
    }

    fn skipped(name: &'static str) -> Self {
        Self { name, passed: None, detail: "skipped: the app did not answer a valid request correctly".to_owned(), took: Duration::ZERO }
    }
}

/// How a request of the test is signed.
#[derive(Clone, Copy)]
enum Signed {
    Well,
    Wrongly,
    Not,
}

/// Whether an app passed every check.
pub fn is_kept(checks: &[ContractCheck]) -> bool {
    checks.iter().all(|check| check.passed == Some(true))
}

/// Runs the test. `new_id` makes the ids of its requests.
///
/// # Errors
/// [`NotTested`] if the callbacks of the app cannot be heard.
pub async fn check(
    transport: &dyn Transport,
    subject: &ContractSubject<'_>,
    new_id: &(dyn Fn() -> Uuid + Send + Sync),
) -> Result<Vec<ContractCheck>, NotTested> {
    check_by(Fit::Schema(subject.schema), transport, subject, new_id).await
}

/// What says whether the data of an answer is as it should be.
#[derive(Clone, Copy)]
enum Fit<'a> {
    /// This schema, where the test runs.
    Schema(Option<&'a Schema>),
    /// The capability's, as calls go by it: off the threads that serve requests.
    Calls(&'a Calls, &'a OpenCapability),
}

/// A test that is under way.
struct Test<'a> {
    fit: Fit<'a>,
    transport: &'a dyn Transport,
    subject: &'a ContractSubject<'a>,
    new_id: &'a (dyn Fn() -> Uuid + Send + Sync),
    /// How long a request may take.
    timeout: Duration,
    checks: Vec<ContractCheck>,
}

async fn check_by(
    fit: Fit<'_>,
    transport: &dyn Transport,
    subject: &ContractSubject<'_>,
    new_id: &(dyn Fn() -> Uuid + Send + Sync),
) -> Result<Vec<ContractCheck>, NotTested> {
    let timeout = subject.timeout.min(REQUEST_TIMEOUT_MAX);
    let mut test = Test { fit, transport, subject, new_id, timeout, checks: Vec::new() };
    let health = transport.send(subject.health_request(timeout)).await;
    test.note("health", contract::of_health(&health), health.duration);
    match subject.callbacks {
        None => test.answers().await?,
        Some(expected) => callbacks::check(&mut test, expected).await?,
    }
    Ok(test.checks)
}

impl Test<'_> {
    async fn send(&self, id: Uuid, body: &Bytes, signed: Signed, left: Duration) -> Report {
        self.transport.send(self.subject.request(id, body, signed, left)).await
    }

    fn note(&mut self, name: &'static str, judgment: Judgment, took: Duration) {
        self.checks.push(ContractCheck::new(name, judgment, took));
    }

    /// What was not checked because the app gave no good answer.
    fn skip(&mut self, names: &[&'static str]) {
        self.checks.extend(names.iter().copied().map(ContractCheck::skipped));
    }

    /// An app that answers at once.
    async fn answers(&mut self) -> Result<(), NotTested> {
        let (id, payload) = ((self.new_id)(), &self.subject.payload);
        let first = self.send(id, payload, Signed::Well, self.timeout).await;
        let answered = contract::of_answer(&first, self.fit.misfit(&first).await?);
        let is_good = answered.is_ok();
        self.note("answer", answered, first.duration);
        if is_away(&first) {
            // More requests would say the same, each after its timeout.
            self.skip(&["forged signature", "missing signature", "garbage", DEADLINE, REPEAT, TIMES]);
            return Ok(());
        }
        self.refusals(payload, payload).await;
        if !is_good {
            self.skip(&[DEADLINE, REPEAT, TIMES]);
            return Ok(());
        }
        let short = self.send((self.new_id)(), payload, Signed::Well, SHORT_DEADLINE).await;
        self.note(DEADLINE, contract::of_deadline(&short), short.duration);
        let second = self.send(id, payload, Signed::Well, self.timeout).await;
        self.note(REPEAT, contract::of_repeat(&first, &second), second.duration);
        let mut times = vec![first.duration];
        while times.len() <= MORE_ANSWERS && times[1..].iter().sum::<Duration>() < MORE_ANSWERS_TIME_MAX {
            times.push(self.send((self.new_id)(), payload, Signed::Well, self.timeout).await.duration);
        }
        let (judgment, p95) = contract::of_times(&times, self.subject.timeout);
        self.note(TIMES, judgment, p95);
        Ok(())
    }

    /// What every app must refuse: what the platform did not sign, and what is not JSON.
    async fn refusals(&mut self, forged: &Bytes, unsigned: &Bytes) {
        for (name, body, signed) in [("forged signature", forged, Signed::Wrongly), ("missing signature", unsigned, Signed::Not)] {
            let report = self.send((self.new_id)(), body, signed, self.timeout).await;
            self.note(name, contract::of_forgery(&report), report.duration);
        }
        let garbage = self.send((self.new_id)(), &Bytes::from_static(GARBAGE), Signed::Well, self.timeout).await;
        self.note("garbage", contract::of_garbage(&garbage), garbage.duration);
    }
}

/// Whether an app could not be reached, or did not answer at all.
fn is_away(report: &Report) -> bool {
    let kinds = [FailureKind::Network, FailureKind::Timeout, FailureKind::OutOfResources];
    matches!(answer::read(report), AppAnswer::Failure(failure) if kinds.contains(&failure.kind))
}

impl ContractSubject<'_> {
    fn request(&self, id: Uuid, body: &Bytes, signed: Signed, left: Duration) -> OutgoingRequest {
        let text = |value: String| Bytes::from(value);
        let mut headers = vec![
            ("content-type".into(), Bytes::from_static(b"application/json")),
            ("accept".into(), Bytes::from_static(b"application/json")),
            ("x-request-id".into(), text(id.to_string())),
            ("x-capability".into(), text(self.capability.to_owned())),
            ("x-timeout-ms".into(), text(left.as_millis().to_string())),
            ("x-retry-attempt".into(), Bytes::from_static(b"1")),
            ("x-max-attempts".into(), Bytes::from_static(b"1")),
        ];
        match signed {
            Signed::Well => headers.push(("x-platform-signature".into(), signature(self.key, body))),
            // A good signature of another body: what an attacker has who saw a request.
            Signed::Wrongly => headers.push(("x-platform-signature".into(), signature(self.key, b"another body"))),
            Signed::Not => {}
        }
        // An answer that comes a little late is still seen, so that it can be told how late.
        let timeout = left + contract::WAY.max(left / 2);
        OutgoingRequest {
            organization: self.organization,
            method: OutgoingMethod::Call,
            target: self.target.clone(),
            headers,
            body: body.clone(),
            timeout,
        }
    }

    fn health_request(&self, timeout: Duration) -> OutgoingRequest {
        OutgoingRequest {
            organization: self.organization,
            method: OutgoingMethod::Get,
            target: self.health.clone(),
            headers: vec![("accept".into(), Bytes::from_static(b"application/json"))],
            body: Bytes::new(),
            timeout,
        }
    }
}

impl Fit<'_> {
    /// What is wrong with the data of an answer.
    async fn misfit(self, report: &Report) -> Result<Option<String>, Busy> {
        let AppAnswer::Success { data, .. } = answer::read(report) else { return Ok(None) };
        self.misfit_of(&data).await
    }

    /// What is wrong with some data, or with the result of a job.
    async fn misfit_of(self, data: &Bytes) -> Result<Option<String>, Busy> {
        match self {
            Self::Calls(calls, capability) => calls.misfit(capability, data).await,
            Self::Schema(schema) => Ok(schema.and_then(|schema| misfit(schema, data))),
        }
    }
}

fn misfit(schema: &Schema, data: &[u8]) -> Option<String> {
    let value = serde_json::from_slice(data).ok()?;
    match schema.check(&value, &mut WorkBudget::new(SCHEMA_UNITS_MAX)).err()? {
        SchemaMismatch::Violation(Violation { path, reason }) => Some(format!("does not match the schema at `{path}`: {reason}")),
        SchemaMismatch::TooCostly => Some("checking the answer against the schema takes too much work".to_owned()),
    }
}

/// Why an app was not tested.
#[derive(Debug, thiserror::Error)]
pub enum NotTested {
    /// The capability has no URL, or the path of the health page makes none.
    #[error("there is no URL to test")]
    NoUrl,
    /// The organization has as many requests to apps under way as it may have.
    #[error("too many requests to apps are in progress")]
    NoSlot,
    /// Too much is being evaluated.
    #[error("too much is being evaluated")]
    Busy,
    /// The callbacks of the app cannot be kept or read.
    #[error("the store could not be reached")]
    Store(#[from] StoreError),
}

impl From<Busy> for NotTested {
    fn from(Busy: Busy) -> Self {
        Self::Busy
    }
}

impl Calls {
    /// Tests a capability as its manifest says, with a payload that the app can answer. Its requests have one place of those of calls.
    ///
    /// # Errors
    /// [`NotTested`].
    pub(crate) async fn check_contract(
        &self,
        capability: &OpenCapability,
        health_path: &str,
        payload: Bytes,
        callbacks: Option<CallbacksExpected<'_>>,
    ) -> Result<Vec<ContractCheck>, NotTested> {
        let target = capability.target.clone().ok_or(NotTested::NoUrl)?;
        let base_url = target.written.strip_suffix(&capability.spec.path).ok_or(NotTested::NoUrl)?;
        let written = format!("{base_url}{health_path}");
        let health = Arc::new(Target { url: Url::parse(&written).map_err(|_| NotTested::NoUrl)?, written });
        let _slot = self.gates.slots.take(capability.organization).ok_or(NotTested::NoSlot)?;
        let subject = ContractSubject {
            organization: capability.organization,
            capability: capability.name.as_str(),
            target,
            health,
            key: &capability.keys.current,
            payload,
            schema: None,
            timeout: if callbacks.is_some() { TAKE_OVER_TIMEOUT } else { capability.spec.timeout },
            callbacks,
        };
        let new_id = || self.entropy.uuid(self.clock.now());
        check_by(Fit::Calls(self, capability), &*self.transport, &subject, &new_id).await
    }
}
