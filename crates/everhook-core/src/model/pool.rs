//! Worker pools: which nodes send for an organization.

use std::{fmt, sync::Arc};

/// The name of a worker pool: `^[a-z0-9_-]{1,32}$`. Nodes and organizations that nobody put elsewhere are in `default`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolName(Arc<str>);

impl PoolName {
    /// What a name must look like, for people.
    pub const RULE: &'static str = "1 to 32 of the characters a-z 0-9 _ -";

    const CHARS_MAX: usize = 32;

    /// Checks the spelling.
    pub fn parse(text: &str) -> Option<Self> {
        let is_name_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
        ((1..=Self::CHARS_MAX).contains(&text.len()) && text.bytes().all(is_name_byte)).then(|| Self(text.into()))
    }

    /// The text as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the pool of everybody who was put nowhere else.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for PoolName {
    fn default() -> Self {
        Self("default".into())
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// From where a lane's requests are sent, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolAssignment {
    /// The pool that its organization belongs to: hints about it go to that one's nodes.
    pub pool: PoolName,
    /// Whether this node's pool sends for it: its organization belongs to the pool, and no node of another pool may still have a request under way.
    pub is_here: bool,
    /// How often its organization went from one pool to another. What a node knows of a lane from before the last time does not count.
    pub moves: i64,
}

impl PoolAssignment {
    /// Where there is one pool.
    pub fn only() -> Self {
        Self { pool: PoolName::default(), is_here: true, moves: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pools_name_is_short_and_made_of_small_letters_digits_dashes_and_underscores() {
        let longest = "a".repeat(32);
        let too_long = "a".repeat(33);
        let table = [
            ("default", true),
            ("eu-west_1", true),
            ("7", true),
            (&*longest, true),
            (&*too_long, false),
            ("", false),
            ("Acme", false),
            ("a b", false),
            ("a.b", false),
            ("é", false),
        ];
        for (text, expected) in table {
            assert_eq!(PoolName::parse(text).is_some(), expected, "{text}");
        }
        assert!(PoolName::parse("default").is_some_and(|name| name.is_default()));
    }
}
