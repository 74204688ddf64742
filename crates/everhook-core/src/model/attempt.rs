//! Attempts: one request of a delivery whose outcome was recorded.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;

use crate::{
    ids::RevisionNumber,
    model::{BreakerState, Parking},
    time::Timestamp,
};

/// One request of a delivery, as it is recorded and shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// 1-based; unique in its delivery.
    pub number: u32,
    /// How it ended.
    pub status: AttemptStatus,
    /// Why it failed; `None` if it did not.
    pub failure_category: Option<FailureCategory>,
    /// What was wrong, or what it waits for, in words; `None` on success.
    pub error: Option<String>,
    /// The answer, if one came.
    pub response: Option<Response>,
    /// How long the request took, from its start to the end of the answer.
    pub duration: Duration,
    /// How long each part of it took.
    pub phases: PhaseTimes,
    /// When its turn came.
    pub scheduled_at: Timestamp,
    /// When it was taken from its lane.
    pub picked_at: Timestamp,
    /// When the request was begun, and the instant that it was signed with.
    pub executed_at: Timestamp,
    /// When it will be tried again.
    pub next_retry_at: Option<Timestamp>,
    /// The revision of its endpoint that shaped the request; `None` if Everhook failed before there was one.
    pub revision: Option<RevisionNumber>,
    /// The node that made the request.
    pub node: String,
    /// How the request named its sender: `Everhook/` and the version that built it.
    pub user_agent: Cow<'static, str>,
    /// The state of the endpoint's breaker when its turn came.
    pub breaker: BreakerState,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptStatus {
    /// A 2xx in time.
    Success,
    /// It will be tried again.
    Failed,
    /// The last one.
    Exhausted,
    /// It found that something outside must come first.
    Parked,
}

impl AttemptStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Success, Self::Failed, Self::Exhausted, Self::Parked];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Exhausted => "exhausted",
            Self::Parked => "parked",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// What kind of failure it was: decides the shortest wait before the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureCategory {
    /// No complete answer in time, or `408`.
    Timeout,
    /// `5xx`.
    ServerError,
    /// `4xx` that has no category of its own.
    ClientError,
    /// The connection was refused, reset, or spoke no HTTP.
    Network,
    /// The host's name could not be resolved.
    Dns,
    /// The TLS handshake failed.
    Tls,
    /// `429`.
    RateLimit,
    /// `413`.
    PayloadTooLarge,
    /// `3xx`: redirects are not followed.
    Redirect,
    /// The host's address is one that requests must not go to.
    BlockedAddress,
}

impl FailureCategory {
    /// All categories.
    pub const ALL: [Self; 10] = [
        Self::Timeout,
        Self::ServerError,
        Self::ClientError,
        Self::Network,
        Self::Dns,
        Self::Tls,
        Self::RateLimit,
        Self::PayloadTooLarge,
        Self::Redirect,
        Self::BlockedAddress,
    ];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::ServerError => "server_error",
            Self::ClientError => "client_error",
            Self::Network => "network",
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::RateLimit => "rate_limit",
            Self::PayloadTooLarge => "payload_too_large",
            Self::Redirect => "redirect",
            Self::BlockedAddress => "blocked_address",
        }
    }

    /// Reads its name; `ssl` is understood for `tls`.
    pub fn parse(name: &str) -> Option<Self> {
        let name = if name == "ssl" { "tls" } else { name };
        Self::ALL.into_iter().find(|category| category.as_str() == name)
    }
}

/// What became of one request. An endpoint's refusal is data here, never an error of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its result.
    pub sent: Sent,
    /// How long it took, from its start to the end of the answer.
    pub duration: Duration,
    /// How long each part of it took.
    pub phases: PhaseTimes,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// An answer, complete within the deadline (or cut at the bound on its size).
    Answered(Response),
    /// No complete answer: over HTTP, the category is one of `timeout`, `network`, `dns`, `tls`, `blocked_address`. A broker that refuses a
    /// message says so without a status: then it may be any.
    Failed {
        /// What kind of failure.
        category: FailureCategory,
        /// What was wrong, in words.
        error: String,
        /// The head of the answer, if it came before the failure.
        response: Option<Response>,
    },
    /// The other side refused it for good: it would refuse the same again. A mail server that does not know the recipient says so; over HTTP, what an
    /// answer means is decided from its status instead.
    Refused {
        /// What kind of failure.
        category: FailureCategory,
        /// What was wrong, in words.
        error: String,
        /// What it answered.
        response: Option<Response>,
    },
    /// The other side can do nothing with it until something outside has come. Such an attempt is not counted by the schedule.
    Parked {
        /// What must come, and until when.
        parking: Parking,
        /// What it answered.
        response: Option<Response>,
    },
    /// No request was made: this machine had no file descriptor, memory or port for it. That says nothing about the endpoint, so that it is no attempt.
    OutOfResources {
        /// What was missing, in words.
        error: String,
    },
}

/// What an endpoint answered, bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status, or a mail server's reply code.
    pub status: u16,
    /// The headers, at most 64 of them and 8 KiB in all.
    pub headers: Vec<(String, Bytes)>,
    /// The first 1 KiB of the body.
    pub body_sample: Bytes,
    /// What else came and is not kept.
    pub cut: Cut,
    /// When the endpoint asked to be tried again.
    pub retry_after: Option<RetryAfter>,
}

/// What a bound left out of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Some of its headers.
    pub headers: bool,
    /// The rest of its body.
    pub body: bool,
}

/// What a `Retry-After` header asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// After this long.
    Delay(Duration),
    /// Not before this instant.
    At(Timestamp),
}

/// How long each part of a request took; `None` for parts that did not happen (a reused connection has no DNS part).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseTimes {
    /// Resolving the host's name.
    pub dns: Option<Duration>,
    /// Opening the connection.
    pub connect: Option<Duration>,
    /// The TLS handshake.
    pub tls: Option<Duration>,
    /// From the request's first byte to the answer's.
    pub first_byte: Option<Duration>,
}
