//! The contract test of an app: a few requests, each of which must be answered in its own way. For the people who write apps.
//!
//! It goes by the transport alone: no breaker, cache or fallback hides what the app does.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use url::Url;
use uuid::Uuid;

use super::{Calls, OpenCapability, request::signature};
use crate::{
    ids::OrganizationId,
    limits::evaluations::Busy,
    model::{Report, SigningKey, Target},
    policy::{
        calls::{
            answer::{self, AppAnswer, FailureKind},
            contract::{self, Judgment, SHORT_DEADLINE},
        },
        schema::{Schema, SchemaMismatch, Violation},
        work::{SCHEMA_UNITS_MAX, WorkBudget},
    },
    ports::{OutgoingMethod, OutgoingRequest, Transport},
};

/// How long one request of the test may take at most: the test is waited for.
const REQUEST_TIMEOUT_MAX: Duration = Duration::from_secs(5);

/// The names of the checks that need a good answer.
const DEADLINE: &str = "deadline of 200 ms";
const REPEAT: &str = "repeated request";

/// The names of all checks, in their order.
pub const CHECK_NAMES: [&str; 7] = ["health", "answer", "forged signature", "missing signature", "garbage", DEADLINE, REPEAT];

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
pub async fn check(
    transport: &dyn Transport,
    subject: &ContractSubject<'_>,
    new_id: &(dyn Fn() -> Uuid + Send + Sync),
) -> Vec<ContractCheck> {
    check_by(Fit::Schema(subject.schema), transport, subject, new_id).await.expect("a schema here is never busy")
}

/// What says whether the data of an answer is as it should be.
#[derive(Clone, Copy)]
enum Fit<'a> {
    /// This schema, where the test runs.
    Schema(Option<&'a Schema>),
    /// The capability's, as calls go by it: off the threads that serve requests.
    Calls(&'a Calls, &'a OpenCapability),
}

async fn check_by(
    fit: Fit<'_>,
    transport: &dyn Transport,
    subject: &ContractSubject<'_>,
    new_id: &(dyn Fn() -> Uuid + Send + Sync),
) -> Result<Vec<ContractCheck>, Busy> {
    let timeout = subject.timeout.min(REQUEST_TIMEOUT_MAX);
    let send = async |id, body: &Bytes, signed, left| transport.send(subject.request(id, body, signed, left)).await;
    let health = transport.send(subject.health_request(timeout)).await;
    let mut checks = vec![ContractCheck::new("health", contract::of_health(&health), health.duration)];
    let id = new_id();
    let first = send(id, &subject.payload, Signed::Well, timeout).await;
    let answered = contract::of_answer(&first, fit.misfit(&first).await?);
    let is_good = answered.is_ok();
    checks.push(ContractCheck::new("answer", answered, first.duration));
    if is_away(&first) {
        // Four more requests would say the same, each after its timeout.
        checks.extend(CHECK_NAMES[2..].iter().copied().map(ContractCheck::skipped));
        return Ok(checks);
    }
    for (name, signed) in [("forged signature", Signed::Wrongly), ("missing signature", Signed::Not)] {
        let report = send(new_id(), &subject.payload, signed, timeout).await;
        checks.push(ContractCheck::new(name, contract::of_forgery(&report), report.duration));
    }
    let garbage = send(new_id(), &Bytes::from_static(GARBAGE), Signed::Well, timeout).await;
    checks.push(ContractCheck::new("garbage", contract::of_garbage(&garbage), garbage.duration));
    if !is_good {
        checks.extend([DEADLINE, REPEAT].map(ContractCheck::skipped));
        return Ok(checks);
    }
    let short = send(new_id(), &subject.payload, Signed::Well, SHORT_DEADLINE).await;
    checks.push(ContractCheck::new(DEADLINE, contract::of_deadline(&short), short.duration));
    let second = send(id, &subject.payload, Signed::Well, timeout).await;
    checks.push(ContractCheck::new(REPEAT, contract::of_repeat(&first, &second), second.duration));
    Ok(checks)
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
        match self {
            Self::Calls(calls, capability) => calls.misfit(capability, &data).await,
            Self::Schema(schema) => Ok(schema.and_then(|schema| misfit(schema, &data))),
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTested {
    /// The capability has no URL, or the path of the health page makes none.
    NoUrl,
    /// The organization has as many requests to apps under way as it may have.
    NoSlot,
    /// Too much is being evaluated.
    Busy,
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
            timeout: capability.spec.timeout,
        };
        let new_id = || self.entropy.uuid(self.clock.now());
        let checking = check_by(Fit::Calls(self, capability), &*self.transport, &subject, &new_id);
        checking.await.map_err(|Busy| NotTested::Busy)
    }
}
