//! Which key values are sealed with, and how far a rotation to another one is.

use std::fmt;

use uuid::Uuid;

use crate::time::Timestamp;

/// Identifies sealing keys without revealing anything about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SealKeyId(pub [u8; 4]);

impl SealKeyId {
    /// Reads what [`fmt::Display`] writes: eight hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_written_so = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let number = u32::from_str_radix(text, 16).ok().filter(|_| is_written_so)?;
        Some(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for SealKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

/// The state of sealing in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealing {
    /// What is sealed from now on is sealed with this key.
    pub key: SealKeyId,
    /// The rotation that is under way, if any: both keys are needed until it has ended.
    pub rotation: Option<Rotation>,
    /// When the last rotation ended.
    pub ended_at: Option<Timestamp>,
}

/// A rotation: everything that is sealed with another key is sealed with the new one, in passes over all sealed values, until a pass finds nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The key that some values may still be sealed with.
    pub from: SealKeyId,
    /// Whether a person stopped it. Both keys stay needed.
    pub is_cancelled: bool,
    /// Which pass is under way, from 1.
    pub pass: u32,
    /// Where it is.
    pub place: SealedPlace,
    /// How many rows this pass has sealed again.
    pub resealed_in_pass: u64,
    /// How many rows were examined, in all passes.
    pub looked_at: u64,
    /// How many rows were sealed again.
    pub resealed: u64,
    /// How many values this pass could not open: they are damaged, or sealed with a key that is neither. They are left as they are.
    pub unreadable: u64,
    /// When it began.
    pub began_at: Timestamp,
    /// When the pass may begin.
    pub not_before: Timestamp,
}

/// Where a pass is: behind this row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedPlace {
    /// The table that is examined.
    pub kind: SealedKind,
    /// The id of the last row.
    pub id: Uuid,
    /// Its number, of rows that have one beside the id.
    pub number: i64,
}

impl SealedPlace {
    /// Before the first row.
    pub const FIRST: Self = Self::first_of(SealedKind::Endpoints);

    /// Before the first row of a kind.
    pub const fn first_of(kind: SealedKind) -> Self {
        Self { kind, id: Uuid::nil(), number: 0 }
    }
}

/// What has sealed values, in the order in which a pass examines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedKind {
    /// Secrets and header values of endpoints.
    Endpoints,
    /// The same of their revisions.
    Revisions,
    /// Secrets and tokens of sources.
    Sources,
    /// URLs and keys of channels.
    Channels,
    /// What signs the requests to applications.
    ApplicationSecrets,
    /// Tokens of health connections.
    HealthConnections,
    /// Answers of apps. Those that are sealed otherwise are removed: nothing depends on them.
    CachedAnswers,
    /// What apps said about jobs.
    Jobs,
    /// Calls that wait for a person, and what people answered.
    Approvals,
    /// What health metrics were made of.
    HealthMetrics,
    /// Data of events, and kept headers of those that were received.
    Payloads,
}

impl SealedKind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Endpoints,
        Self::Revisions,
        Self::Sources,
        Self::Channels,
        Self::ApplicationSecrets,
        Self::HealthConnections,
        Self::CachedAnswers,
        Self::Jobs,
        Self::Approvals,
        Self::HealthMetrics,
        Self::Payloads,
    ];

    /// Its name, for stores and people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints",
            Self::Revisions => "endpoint_revisions",
            Self::Sources => "sources",
            Self::Channels => "channels",
            Self::ApplicationSecrets => "application_secrets",
            Self::HealthConnections => "health_connections",
            Self::CachedAnswers => "cached_answers",
            Self::Jobs => "jobs",
            Self::Approvals => "approvals",
            Self::HealthMetrics => "health_metrics",
            Self::Payloads => "payloads",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// What is examined after it; `None` after the last.
    pub fn next(self) -> Option<Self> {
        let at = Self::ALL.into_iter().position(|kind| kind == self)?;
        Self::ALL.get(at + 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_key_is_eight_digits() {
        let id = SealKeyId([0, 1, 0xab, 0xff]);
        assert_eq!((id.to_string().as_str(), SealKeyId::parse("0001abff")), ("0001abff", Some(id)));
        for other in ["", "1abff", "0001ABFF", "+001abff", "0001abff0", "0001abfg"] {
            assert_eq!(SealKeyId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_pass_looks_at_every_kind_once() {
        let mut walked = vec![SealedPlace::FIRST.kind];
        while let Some(next) = walked.last().and_then(|kind| kind.next()) {
            walked.push(next);
        }
        assert_eq!(walked, SealedKind::ALL);
        assert!(SealedKind::ALL.into_iter().all(|kind| SealedKind::parse(kind.as_str()) == Some(kind)));
    }
}
