//! What an event's data is: JSON, as publishers send it, or whatever a provider sent.

use std::fmt;

use serde_json::value::RawValue;

/// The longest content type that is kept, in bytes.
pub const CONTENT_TYPE_BYTES_MAX: usize = 255;

/// What is said of a body that came without a content type, or with one that cannot be kept.
const UNKNOWN: &str = "application/octet-stream";

/// The content type of an event's data. That of publishers' data is JSON and takes no room; another is text of 1 to 255 visible ASCII characters and spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentType(Option<Box<str>>);

impl ContentType {
    /// `application/json`, of data that is known to be a JSON value.
    pub const JSON: Self = Self(None);

    /// Checks the spelling. Says nothing about the data: see [`Self::of_body`].
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches(' ');
        let is_good = (1..=CONTENT_TYPE_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        is_good.then(|| Self(Some(text.into())))
    }

    /// The content type of a body that somebody sent, by the header that came with it. A body that is a JSON value and has no other type than that is
    /// [`Self::JSON`]; a header that cannot be kept counts as none.
    pub fn of_body(header: Option<&str>, body: &[u8]) -> Self {
        match header.and_then(Self::parse) {
            Some(given) if !given.as_str().eq_ignore_ascii_case("application/json") => given,
            Some(_) | None if is_json(body) => Self::JSON,
            Some(given) => given,
            None => Self(Some(UNKNOWN.into())),
        }
    }

    /// As it is sent.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or("application/json")
    }

    /// What is kept of it: nothing of [`Self::JSON`].
    pub fn kept(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Whether `data` of this type is a JSON value. Data of publishers is not examined; that of others is parsed where its type says JSON.
    pub fn is_json(&self, data: &[u8]) -> bool {
        match &self.0 {
            None => true,
            Some(text) => says_json(text) && is_json(data),
        }
    }

    /// Whether `data` of this type may be a JSON value, without reading it.
    pub fn may_be_json(&self) -> bool {
        self.0.as_deref().is_none_or(says_json)
    }
}

impl fmt::Display for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `application/json`, `text/json`, or any type that ends in `+json`; parameters aside.
fn says_json(text: &str) -> bool {
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(essence.as_str(), "application/json" | "text/json") || essence.ends_with("+json")
}

/// Whether data is one JSON value. Nothing of it is kept, so that a number that no double can hold is no fault.
fn is_json(data: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(data).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_type_is_short_visible_ascii() {
        let longest = "a".repeat(CONTENT_TYPE_BYTES_MAX);
        for good in ["text/xml", " text/plain; charset=utf-8 ", &longest] {
            assert_eq!(ContentType::parse(good).as_ref().map(ContentType::as_str), Some(good.trim()));
        }
        for bad in ["", "  ", "text/plain\r\nx: y", "text/\tplain", "text/pläin", &format!("{longest}a")] {
            assert_eq!(ContentType::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_type_of_a_body_is_json_only_if_it_is_json() {
        // header, body → what is sent, whether it is JSON
        let table: [(Option<&str>, &[u8], &str, bool); 10] = [
            (Some("application/json"), b"{}", "application/json", true),
            (Some("Application/JSON"), b" [1] ", "application/json", true),
            (Some("application/json"), b"{", "application/json", false),
            (Some("application/json; charset=utf-8"), b"{}", "application/json; charset=utf-8", true),
            (Some("application/cloudevents+json"), b"{}", "application/cloudevents+json", true),
            (Some("application/cloudevents+json"), b"", "application/cloudevents+json", false),
            (Some("text/xml"), b"{}", "text/xml", false),
            (None, b"{}", "application/json", true),
            (None, b"a=b", "application/octet-stream", false),
            (Some("text/plain\n"), b"a=b", "application/octet-stream", false),
        ];
        for (header, body, sent, json) in table {
            let content_type = ContentType::of_body(header, body);
            assert_eq!((content_type.as_str(), content_type.is_json(body)), (sent, json), "{header:?}");
        }
        assert_eq!(ContentType::of_body(Some("application/json"), b"{}"), ContentType::JSON);
        assert_eq!(ContentType::of_body(None, b"{}").kept(), None);
    }
}
