//! Manifests: what an application answers when it is called, and what happens if it does not. `policy::calls` reads them; `calls` goes by them.

use std::{collections::BTreeMap, fmt, time::Duration};

use aws_lc_rs::digest;
use uuid::Uuid;

use crate::{
    ids::{ApplicationId, LaneId, OrganizationId, is_name_byte},
    model::{Application, BreakerConfig, EmailAddress},
    time::Timestamp,
};

/// The longest name of a capability.
pub const CAPABILITY_NAME_BYTES_MAX: usize = 100;

/// The name of a function that an application answers: `^[A-Za-z0-9_.:-]{1,100}$`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapabilityName(String);

impl CapabilityName {
    /// Checks the spelling.
    pub fn parse(text: &str) -> Option<Self> {
        let is_spelled = (1..=CAPABILITY_NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_name_byte);
        is_spelled.then(|| Self(text.to_owned()))
    }

    /// The text as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The lane of this capability of an application. Computed from both, so that nobody needs to look it up, and a capability that is removed from a
    /// manifest and comes back has the same one.
    pub fn lane(&self, application: ApplicationId) -> LaneId {
        lane_of(b"everhook capability ", application, self.0.as_bytes())
    }
}

/// The lane in which the callers of an application's jobs are notified of how these ended. It is beside the lanes of the capabilities, so that an app that is away
/// holds up nobody's news.
pub fn callback_lane(application: ApplicationId) -> LaneId {
    lane_of(b"everhook callbacks ", application, b"")
}

fn lane_of(purpose: &[u8], application: ApplicationId, name: &[u8]) -> LaneId {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(purpose);
    hash.update(application.as_uuid().as_bytes());
    hash.update(name);
    let hash = hash.finish();
    let bytes: [u8; 16] = hash.as_ref()[..16].try_into().expect("a SHA-256 has 32 bytes");
    LaneId::from_uuid(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

impl fmt::Display for CapabilityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An application's manifest, as it is kept: the document as its owner wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptManifest {
    /// Whose.
    pub application: ApplicationId,
    /// The tenant that owns the application.
    pub organization: OrganizationId,
    /// Rises by one with each change. Answers that were cached under another version are not used.
    pub version: i64,
    /// The JSON text.
    pub document: String,
    /// The owner that it names.
    pub owner_email: Option<EmailAddress>,
    /// When this version was written.
    pub updated_at: Timestamp,
}

/// A manifest that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// What the paths of the capabilities are behind; if it is `None`, the application's base URL.
    pub base_url: Option<String>,
    /// Who gets the alerts about the application; if it is `None`, the application's owner.
    pub owner_email: Option<EmailAddress>,
    /// Where its health is checked.
    pub health_path: HealthPath,
    /// What it answers.
    pub capabilities: BTreeMap<CapabilityName, Capability>,
}

/// Where a manifest has the health of its app checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthPath {
    /// Where the application says.
    OfApplication,
    /// Nowhere.
    Off,
    /// Behind the base URL.
    At(String),
}

impl Manifest {
    /// What the paths of the capabilities are behind; without it nothing can be called.
    pub fn base_url<'a>(&'a self, application: &'a Application) -> Option<&'a str> {
        self.base_url.as_deref().or(application.base_url.as_deref())
    }

    /// Where the health of the app is checked, behind the base URL; `None` if it is not.
    pub fn health_path<'a>(&'a self, application: &'a Application) -> Option<&'a str> {
        match &self.health_path {
            HealthPath::OfApplication => application.health_path.as_deref(),
            HealthPath::Off => None,
            HealthPath::At(path) => Some(path),
        }
    }
}

/// A function that an application answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Capability {
    /// Where, behind the base URL. Begins with a slash.
    pub path: String,
    /// How long a caller waits at most.
    pub timeout: Duration,
    /// How many requests one call, or one job of an `async` capability, may make one after the other; 1 if it is not retried.
    pub attempts_max: u32,
    /// How the delay between them grows.
    pub backoff: CallBackoff,
    /// What is answered instead, in this order.
    pub fallback: Vec<FallbackStep>,
    /// When the app is left alone.
    pub breaker: BreakerConfig,
    /// Opens the breaker on slow answers as well.
    pub slow_calls: Option<SlowCallRule>,
    /// Whether the app may be asked the same twice at once.
    pub idempotent: bool,
    /// When a second request is made although the first is under way. Only with `idempotent`.
    pub hedge: Option<Hedge>,
    /// How many requests the app is sent at once, at most.
    pub max_concurrency: u32,
    /// How long answers are good for.
    pub cache: CacheAges,
    /// What the `data` of an answer must be: a JSON Schema.
    pub response_schema: Option<String>,
    /// Whether the app is asked.
    pub mode: CallMode,
    /// Whether the app answers later, by a callback: calls become jobs at once.
    pub is_async: bool,
    /// Another version of the app, on trial.
    pub canary: Option<Canary>,
}

impl Capability {
    /// Whether a call may end without an answer that is ready: as a job, or waiting for a person.
    pub fn may_answer_later(&self) -> bool {
        self.is_async || self.fallback.iter().any(|step| matches!(step, FallbackStep::Queue | FallbackStep::Manual { .. }))
    }
}

/// Another version of an app that some calls go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    /// Where it is.
    pub base_url: String,
    /// How many in a hundred calls go to it.
    pub percent: u32,
    /// Whether it was withdrawn: then no call goes to it.
    pub is_withdrawn: bool,
}

/// How the delay before a retry grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallBackoff {
    /// Doubles.
    Exponential,
    /// Grows by the first delay each time.
    Linear,
    /// Stays.
    Fixed,
}

/// Whether an app is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMode {
    /// It is, and its answer counts.
    Live,
    /// It is, but every call is answered by the fallback: what the app would have answered is compared with that.
    Shadow,
    /// It is not: every call is answered by the fallback.
    Off,
}

/// What is answered instead of the app.
#[derive(Clone, Debug, PartialEq)]
pub enum FallbackStep {
    /// The last good answer to the same `cache_key`.
    Cache,
    /// This JSON text.
    Static(String),
    /// A fair choice from a list in the payload.
    RandomPick {
        /// A JSON pointer to the list.
        from: String,
        /// How many.
        count: PickCount,
    },
    /// What another URL answers.
    Http {
        /// Where.
        url: String,
        /// How long it may take. Taken from the app's share of the deadline.
        timeout: Duration,
    },
    /// The call becomes a job: the app is asked later.
    Queue,
    /// A person decides about the call.
    Manual {
        /// How long it waits for that.
        expires_after: Duration,
    },
    /// An error.
    Error,
}

impl FallbackStep {
    /// Its name in a manifest and in what a call explains.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Static(_) => "static",
            Self::RandomPick { .. } => "random_pick",
            Self::Http { .. } => "http",
            Self::Queue => "queue",
            Self::Manual { .. } => "manual",
            Self::Error => "error",
        }
    }
}

/// How many are picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PickCount {
    /// So many.
    Number(u32),
    /// As the payload says there: a number, or as many as a list has.
    Pointer(String),
}

/// When a second request is made although the first is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hedge {
    /// After which time.
    pub after: HedgeDelay,
    /// How many in a hundred requests it may add.
    pub budget_percent: u32,
}

/// When a request is slow enough for a second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeDelay {
    /// When it takes longer than 95 in a hundred of the last minutes did.
    P95,
    /// After this long.
    Fixed(Duration),
}

/// When slow answers open a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowCallRule {
    /// An answer that takes longer is slow.
    pub slower_than: Duration,
    /// Opens from so many slow ones in a hundred.
    pub percentage: u32,
    /// Fewer calls in the window say nothing.
    pub calls_min: u32,
}

/// How long an answer is good for, counted from when it came. All zero: answers are not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheAges {
    /// So long, it is answered without asking the app.
    pub fresh: Duration,
    /// So long after that, it is answered at once, and the app is asked for the next one.
    pub stale_while_revalidate: Duration,
    /// So long after `fresh`, it is answered if the app fails.
    pub stale_if_error: Duration,
}

impl CacheAges {
    /// Whether answers are kept.
    pub fn is_used(&self) -> bool {
        !self.kept_for().is_zero()
    }

    /// How long an answer is of any use.
    pub fn kept_for(&self) -> Duration {
        self.fresh.saturating_add(self.stale_while_revalidate.max(self.stale_if_error))
    }
}

/// An answer as it is kept for later calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedAnswer {
    /// Whose, and to what.
    pub key: CacheKey,
    /// The `data` of the answer, a JSON text.
    pub data: bytes::Bytes,
    /// When it came.
    pub stored_at: Timestamp,
    /// When it is of no use any more.
    pub expires_at: Timestamp,
}

/// What an answer is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey {
    /// The capability's lane.
    pub lane_id: LaneId,
    /// A hash of the manifest's version and the caller's `cache_key`.
    pub hash: [u8; 32],
}

/// How many answers a capability has in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneAnswers {
    /// Its lane.
    pub lane_id: LaneId,
    /// How many.
    pub answers: u64,
    /// How many bytes of them.
    pub bytes: u64,
}

/// A draw that was made instead of an app's answer: everything that is needed to make it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FairDraw {
    /// The call that it answered.
    pub request_id: Uuid,
    /// The tenant.
    pub organization: OrganizationId,
    /// Whose capability.
    pub application: ApplicationId,
    /// Which.
    pub capability: CapabilityName,
    /// When.
    pub drawn_at: Timestamp,
    /// What it was drawn with: 32 random bytes.
    pub seed: [u8; 32],
    /// SHA-256 of the list's JSON text as it came.
    pub list_hash: [u8; 32],
    /// How many the list had.
    pub list_length: u32,
    /// How many were picked: which ones follows from the seed, the length and this number.
    pub picked: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_capability_of_each_application_has_a_lane_of_its_own_and_always_the_same() {
        let name = |text: &str| CapabilityName::parse(text).unwrap();
        let application = |n| ApplicationId::from_uuid(Uuid::from_u128(n));
        let lanes = [(1, "a"), (1, "b"), (2, "a"), (2, "b")].map(|(n, text)| name(text).lane(application(n)));
        assert_eq!(lanes, [(1, "a"), (1, "b"), (2, "a"), (2, "b")].map(|(n, text)| name(text).lane(application(n))));
        assert_eq!(lanes.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn a_name_is_short_and_plain() {
        for good in ["winnerSelection", "quiz:answer_submit", "a", &"x".repeat(100)] {
            assert!(CapabilityName::parse(good).is_some(), "{good}");
        }
        for bad in ["", "a b", "ä", "a/b", &"x".repeat(101)] {
            assert!(CapabilityName::parse(bad).is_none(), "{bad}");
        }
    }
}
