//! Why a request was refused: a status for the provider, a word for counters, a sentence for people.

use std::{fmt, time::Duration};

/// Why a request was refused. Never says what would have been right about a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The source has no secret yet: its handshake was not made.
    NoSecret,
    /// There is no signature, or no token.
    MissingSignature {
        /// Where it should be.
        place: String,
    },
    /// The signature cannot be read.
    UnreadableSignature {
        /// What is wrong with it.
        reason: String,
    },
    /// No secret of the source made this signature.
    BadSignature,
    /// The secret that was sent is not the source's.
    BadToken,
    /// A JSON web token that is signed, and does not hold what it must.
    BadClaim {
        /// The claim.
        claim: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no timestamp, or none that can be read.
    UnreadableTimestamp {
        /// What is wrong with it.
        reason: String,
    },
    /// It was signed too long ago.
    TimestampTooOld {
        /// How long.
        age: Duration,
        /// How long it may be.
        tolerance: Duration,
    },
    /// It was signed in the future.
    TimestampTooNew {
        /// How far.
        ahead: Duration,
        /// How far it may be.
        tolerance: Duration,
    },
    /// A part of the signed text is missing.
    MissingPart {
        /// Which.
        part: String,
    },
    /// The body is not what the recipe says.
    UnreadableBody {
        /// What is wrong with it.
        reason: String,
    },
    /// The body is too large.
    BodyTooLarge {
        /// The largest that is taken.
        max: usize,
    },
    /// A batch has too many items.
    TooManyItems {
        /// The most that are taken.
        max: usize,
    },
    /// A member of the body has a value that the recipe does not list.
    UnknownValue {
        /// `unknown_` and the member.
        word: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The event belongs to another subscription or app.
    NotOurs {
        /// The member that says so.
        pointer: String,
    },
    /// The key would have to be fetched from where the recipe does not allow it.
    ForbiddenKeyUrl {
        /// What is wrong with the URL.
        reason: String,
    },
    /// A handshake that is not answered.
    BadHandshake {
        /// What is wrong with it.
        reason: String,
    },
    /// A method that carries no event and makes no handshake.
    Method,
}

impl Refusal {
    /// The HTTP status.
    pub const fn status(&self) -> u16 {
        match self {
            Self::NoSecret
            | Self::MissingSignature { .. }
            | Self::UnreadableSignature { .. }
            | Self::BadSignature
            | Self::BadToken
            | Self::BadClaim { .. }
            | Self::UnreadableTimestamp { .. }
            | Self::TimestampTooOld { .. }
            | Self::TimestampTooNew { .. }
            | Self::MissingPart { .. }
            | Self::NotOurs { .. }
            | Self::ForbiddenKeyUrl { .. }
            | Self::BadHandshake { .. } => 401,
            Self::UnreadableBody { .. } | Self::UnknownValue { .. } => 400,
            Self::Method => 405,
            Self::BodyTooLarge { .. } | Self::TooManyItems { .. } => 413,
        }
    }

    /// One word, for counters and programs.
    pub fn reason(&self) -> &str {
        match self {
            Self::NoSecret => "no_secret",
            Self::MissingSignature { .. } => "missing_signature",
            Self::UnreadableSignature { .. } => "unreadable_signature",
            Self::BadSignature => "bad_signature",
            Self::BadToken => "bad_token",
            Self::BadClaim { .. } => "bad_claim",
            Self::UnreadableTimestamp { .. } => "unreadable_timestamp",
            Self::TimestampTooOld { .. } => "timestamp_too_old",
            Self::TimestampTooNew { .. } => "timestamp_too_new",
            Self::MissingPart { .. } => "missing_part",
            Self::UnreadableBody { .. } => "unreadable_body",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::TooManyItems { .. } => "too_many_items",
            Self::UnknownValue { word, .. } => word,
            Self::NotOurs { .. } => "not_ours",
            Self::ForbiddenKeyUrl { .. } => "forbidden_key_url",
            Self::BadHandshake { .. } => "bad_handshake",
            Self::Method => "method_not_allowed",
        }
    }

    /// One sentence for people.
    pub fn detail(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSecret => {
                f.write_str("the source has no secret yet: set one, or await the provider's handshake (`POST …/await-handshake`)")
            }
            Self::MissingSignature { place } => write!(f, "there is no {place}"),
            Self::UnreadableSignature { reason }
            | Self::UnreadableTimestamp { reason }
            | Self::UnreadableBody { reason }
            | Self::UnknownValue { reason, .. }
            | Self::ForbiddenKeyUrl { reason }
            | Self::BadHandshake { reason } => f.write_str(reason),
            Self::BadSignature => f.write_str("no secret of the source made this signature of this request"),
            Self::BadToken => f.write_str("the token is not the source's"),
            Self::BadClaim { claim, reason } => write!(f, "the claim `{claim}` of the token {reason}"),
            Self::TimestampTooOld { age, tolerance } => {
                write!(f, "the timestamp is {} s old; at most {} s are accepted", age.as_secs(), tolerance.as_secs())
            }
            Self::TimestampTooNew { ahead, tolerance } => {
                write!(f, "the timestamp is {} s in the future; at most {} s are accepted", ahead.as_secs(), tolerance.as_secs())
            }
            Self::MissingPart { part } => write!(f, "the signed text holds {part}, which the request does not have"),
            Self::BodyTooLarge { max } => write!(f, "the body is too large; at most {max} bytes are accepted"),
            Self::TooManyItems { max } => write!(f, "the batch has too many items; at most {max} are accepted"),
            Self::NotOurs { pointer } => write!(f, "`{pointer}` names something else than this source is for"),
            Self::Method => f.write_str("events are sent with POST"),
        }
    }
}
