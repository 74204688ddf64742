//! An array of texts, read no further than is kept.

use std::fmt;

use serde::{
    Deserializer as _,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::value::Text;

/// How many texts are read.
const TEXTS_MAX: usize = 256;

/// The texts of an array; elements that are none are left out. `None` if it is no array.
pub(super) fn read(raw: &str) -> Option<Vec<String>> {
    serde_json::Deserializer::from_str(raw).deserialize_seq(TextsVisitor).ok()
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        while texts.len() < TEXTS_MAX {
            let Some(raw) = elements.next_element::<&RawValue>()? else { return Ok(texts) };
            texts.extend(Text::read(raw.get()).map(Text::shortened));
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_are_read_and_not_too_many() {
        assert_eq!(read(r#"["A", 1, null, ["B"], "C"]"#), Some(vec!["A".to_owned(), "C".to_owned()]));
        assert_eq!(read(r#""A""#), None);
        let many = format!("[{}]", vec![r#""A""#; TEXTS_MAX * 2].join(","));
        assert_eq!(read(&many).map(|texts| texts.len()), Some(TEXTS_MAX));
    }
}
