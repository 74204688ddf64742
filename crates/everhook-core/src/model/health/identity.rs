//! Names that others gave: of a profile, of a provider's user, of a provider's record.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};

use crate::model::EXTERNAL_USER_BYTES_MAX;

/// The longest id of a profile, in bytes: it is part of several indexes.
pub const PROFILE_ID_BYTES_MAX: usize = 128;
/// The longest id of a provider's record that is kept as it is, in bytes. A longer one is replaced by its hash.
pub const RECORD_ID_BYTES_MAX: usize = 128;

/// What an id of a profile must be, as the rest of a sentence.
pub const PROFILE_ID_RULE: &str = "must be 1 to 128 bytes without control characters";
/// What a provider's name for a user must be, as the rest of a sentence.
pub const EXTERNAL_USER_ID_RULE: &str = "must be 1 to 256 bytes without control characters";

/// Whose data it is, by the name that the application gave: 1 to 128 bytes without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileId(Box<str>);

impl ProfileId {
    /// Checks the bounds.
    pub fn parse(text: &str) -> Option<Self> {
        is_plain(text, PROFILE_ID_BYTES_MAX).then(|| Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A user, by the provider's name for them: 1 to 256 bytes without control characters. Providers write it as a number or as text; both are the same here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExternalUserId(Box<str>);

impl ExternalUserId {
    /// Checks the bounds, which are those of the user that a received event names.
    pub fn parse(text: &str) -> Option<Self> {
        is_plain(text, EXTERNAL_USER_BYTES_MAX).then(|| Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A record, by the provider's id for it: a corrected record has the id of the first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(Box<str>);

impl RecordId {
    /// Takes any text that is not empty. One that is too long or not plain is replaced by its hash, so that it still names the record.
    pub fn of(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        if is_plain(text, RECORD_ID_BYTES_MAX) {
            return Some(Self(text.into()));
        }
        let hash: String = digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Self(format!("sha256:{hash}").into()))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_plain(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control)
}

macro_rules! displayed {
    ($($name:ident),+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

displayed!(ProfileId, ExternalUserId, RecordId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        for (text, is_good) in [("", false), ("p", true), ("8f14 é|x", true), ("a\nb", false), ("a\0", false)] {
            assert_eq!(ProfileId::parse(text).is_some(), is_good, "{text:?}");
            assert_eq!(ExternalUserId::parse(text).is_some(), is_good, "{text:?}");
        }
        assert!(ProfileId::parse(&"p".repeat(PROFILE_ID_BYTES_MAX)).is_some());
        assert!(ProfileId::parse(&"p".repeat(PROFILE_ID_BYTES_MAX + 1)).is_none());
        assert!(ExternalUserId::parse(&"u".repeat(EXTERNAL_USER_BYTES_MAX + 1)).is_none());
    }

    #[test]
    fn a_record_id_of_any_text_still_names_the_record() {
        assert_eq!(RecordId::of(""), None);
        assert_eq!(RecordId::of("EXAMPLE 567890").map(|id| id.to_string()), Some("EXAMPLE 567890".to_owned()));
        let long = RecordId::of(&"x".repeat(RECORD_ID_BYTES_MAX + 1)).expect("it is not empty");
        assert!(long.as_str().starts_with("sha256:") && long.as_str().len() == 71, "{long}");
        assert_ne!(RecordId::of("a\n"), RecordId::of("b\n"));
    }
}
