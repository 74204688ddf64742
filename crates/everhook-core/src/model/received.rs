//! What is kept of an event that a provider sent, beside the event itself.

use crate::ids::{EventId, SourceId};

/// How much of the provider's name for its user is kept, in bytes: it is part of an index.
pub const EXTERNAL_USER_BYTES_MAX: usize = 256;
/// How many headers are kept of a request, and how many bytes of them.
pub const KEPT_HEADERS_MAX: usize = 64;
/// How many bytes these may have together, names and values.
pub const KEPT_HEADERS_BYTES_MAX: usize = 16 * 1024;

/// How an event came in. Only events of sources have this; it goes when they are erased, but for the source and what it is a duplicate of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Which source it came through.
    pub source: SourceId,
    /// Whom it is about, by the provider's name for them.
    pub external_user: Option<String>,
    /// The event that said the same before. A duplicate is recorded and goes nowhere.
    pub duplicate_of: Option<EventId>,
    /// The headers of the request that are kept, as the provider sent them.
    pub headers: Vec<(String, String)>,
}

impl Received {
    /// The same within its bounds, whatever was sent: a name that is too long is cut, headers beyond the bound are left out, and a name loses the character
    /// that no column of text can hold.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        if let Some(user) = &mut self.external_user {
            user.retain(|character| character != '\0');
            user.truncate(user.floor_char_boundary(EXTERNAL_USER_BYTES_MAX));
        }
        self.external_user = self.external_user.filter(|user| !user.is_empty());
        let mut left = KEPT_HEADERS_BYTES_MAX;
        let fits = |(name, value): &(String, String)| {
            let bytes = name.len() + value.len();
            let fits = bytes <= left;
            left = left.saturating_sub(if fits { bytes } else { 0 });
            fits
        };
        self.headers = self.headers.into_iter().filter(fits).take(KEPT_HEADERS_MAX).collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn received(user: &str, headers: Vec<(String, String)>) -> Received {
        let source = SourceId::from_uuid(Uuid::from_u128(1));
        Received { source, external_user: Some(user.to_owned()), duplicate_of: None, headers }.bounded()
    }

    #[test]
    fn what_a_provider_says_is_kept_within_bounds() {
        let longest = "é".repeat(EXTERNAL_USER_BYTES_MAX / 2);
        for (given, kept) in [
            ("a\0b", Some("ab")),
            ("\0", None),
            ("", None),
            (longest.as_str(), Some(longest.as_str())),
            (&format!("{longest}é"), Some(&longest)),
        ] {
            assert_eq!(received(given, Vec::new()).external_user.as_deref(), kept);
        }
        let odd = format!("a{longest}");
        assert_eq!(received(&odd, Vec::new()).external_user.as_deref(), Some(&odd[..EXTERNAL_USER_BYTES_MAX - 1]));
    }

    #[test]
    fn headers_beyond_the_bound_are_left_out() {
        let header = |value: &str| ("x".to_owned(), value.to_owned());
        let large = "v".repeat(KEPT_HEADERS_BYTES_MAX - 2);
        let kept = received("u", vec![header("1"), header(&large), header("2"), header(&"v".repeat(KEPT_HEADERS_BYTES_MAX - 5))]).headers;
        assert_eq!(kept.iter().map(|(_, value)| value.len()).collect::<Vec<_>>(), [1, 1, KEPT_HEADERS_BYTES_MAX - 5]);
        let many = vec![header("1"); KEPT_HEADERS_MAX + 1];
        assert_eq!(received("u", many).headers.len(), KEPT_HEADERS_MAX);
    }
}
