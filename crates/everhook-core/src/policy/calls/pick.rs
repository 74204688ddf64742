//! A fair choice from a list in a call's payload (`random_pick`). Pure.
//!
//! A pointer is followed in one pass over the text, however deep it leads: what tenants write into manifests and payloads must not multiply.

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::draw;
use crate::model::PickCount;

/// How many may be picked.
pub const PICKS_MAX: u32 = 10_000;
/// How many are picked at once, on the thread that serves requests: some 100 µs.
pub const INLINE_PICKS_MAX: u32 = 400;

/// What was picked, and what is needed to pick it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picked {
    /// The items as they came, with commas between them.
    pub items: String,
    /// The SHA-256 of the list's text.
    pub list_hash: [u8; 32],
    /// How many items the list has.
    pub list_length: u32,
    /// The places of the picked items.
    pub picks: Vec<u32>,
}

/// Why nothing was picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotPicked {
    /// More would have to be picked than is allowed now.
    TooMany,
    /// The payload is not as the manifest expects it, in words.
    Unfit(String),
}

/// Picks from the list at a pointer, at most `picks_max` items.
///
/// # Errors
/// [`NotPicked`].
pub fn pick(payload: &[u8], from: &str, count: &PickCount, seed: &[u8; 32], picks_max: u32) -> Result<Picked, NotPicked> {
    let unfit = |reason: String| NotPicked::Unfit(reason);
    let list = raw_at(payload, from).ok_or_else(|| unfit(format!("the payload has no list at `{from}`")))?;
    let items: Vec<&RawValue> = serde_json::from_str(list.get()).map_err(|_| unfit(format!("`{from}` in the payload is not a list")))?;
    let wanted = match count {
        PickCount::Number(number) => *number,
        PickCount::Pointer(pointer) => {
            counted(payload, pointer).ok_or_else(|| unfit(format!("`{pointer}` in the payload is neither a number nor a list")))?
        }
    };
    let list_length = u32::try_from(items.len()).map_err(|_| unfit("the list is too long".to_owned()))?;
    if wanted.min(list_length) > picks_max {
        return Err(NotPicked::TooMany);
    }
    let picks = draw::draw(seed, list_length, wanted);
    let picked: Vec<&str> = picks.iter().map(|place| items[*place as usize].get()).collect();
    Ok(Picked { items: picked.join(","), list_hash: draw::list_hash(list.get().as_bytes()), list_length, picks })
}

/// The JSON text at a pointer, in one pass over the whole. Of a member that is there twice, the last one counts.
fn raw_at<'a>(json: &'a [u8], pointer: &str) -> Option<&'a RawValue> {
    let tokens: Vec<Cow<'_, str>> = pointer.split('/').skip(1).map(unescaped).collect();
    let mut reader = serde_json::Deserializer::from_slice(json);
    let found = Walk(&tokens).deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    found
}

fn unescaped(token: &str) -> Cow<'_, str> {
    if token.contains('~') { Cow::Owned(token.replace("~1", "/").replace("~0", "~")) } else { Cow::Borrowed(token) }
}

/// A number at a pointer, or how many a list there has.
fn counted(json: &[u8], pointer: &str) -> Option<u32> {
    let text = raw_at(json, pointer)?.get();
    match text.as_bytes().first()? {
        b'[' => u32::try_from(serde_json::from_str::<Vec<IgnoredAny>>(text).ok()?.len()).ok(),
        _ => text.parse().ok(),
    }
}

/// Follows what is left of a pointer, and passes over everything else.
struct Walk<'p>(&'p [Cow<'p, str>]);

impl<'t> DeserializeSeed<'t> for Walk<'_> {
    type Value = Option<&'t RawValue>;

    fn deserialize<D: Deserializer<'t>>(self, reader: D) -> Result<Self::Value, D::Error> {
        if self.0.is_empty() { <&'t RawValue>::deserialize(reader).map(Some) } else { reader.deserialize_any(self) }
    }
}

impl<'t> Visitor<'t> for Walk<'_> {
    type Value = Option<&'t RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_next) = map.next_key_seed(Is(&self.0[0]))? {
            if is_next {
                found = map.next_value_seed(Walk(&self.0[1..]))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let wanted: Option<usize> = self.0[0].parse().ok();
        let mut found = None;
        for index in 0_usize.. {
            let more = if Some(index) == wanted {
                let item = seq.next_element_seed(Walk(&self.0[1..]))?;
                found = item.flatten();
                item.is_some()
            } else {
                seq.next_element::<IgnoredAny>()?.is_some()
            };
            if !more {
                break;
            }
        }
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Whether a member has this name, without keeping the name.
struct Is<'p>(&'p str);

impl<'t> DeserializeSeed<'t> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'t>>(self, reader: D) -> Result<bool, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const SEED: [u8; 32] = [7; 32];

    #[test]
    fn a_pointer_finds_the_text_as_it_came() {
        let json = br#"{"x0": 1, "a": {"b/c": [1, {"d~": 1.0e5}]}, "n": 3, "list": [1,2], "twice": 1, "twice": [2], "big": 1e400}"#;
        let table = [
            ("/a/b~1c/1/d~0", Some("1.0e5")),
            ("/n", Some("3")),
            ("/list", Some("[1,2]")),
            ("/twice", Some("[2]")),
            ("/x", None),
            ("/n/x", None),
            ("/list/9", None),
            ("/list/x", None),
        ];
        for (pointer, expected) in table {
            assert_eq!(raw_at(json, pointer).map(RawValue::get), expected, "{pointer}");
        }
        assert_eq!(["/n", "/list", "/a", "/big"].map(|pointer| counted(json, pointer)), [Some(3), Some(2), None, None]);
        assert!(raw_at(b"[1]", "").is_some());
        assert!(raw_at(b"[1] x", "/0").is_none());
    }

    #[test]
    fn items_are_picked_as_they_came_and_no_more_than_allowed() {
        let pick = |count: PickCount, picks_max| pick(br#"{"from": [1.0, "b" , {"c":1}], "n": 2}"#, "/from", &count, &SEED, picks_max);
        let picked = pick(PickCount::Pointer("/n".to_owned()), 2).unwrap();
        assert_eq!((picked.list_length, picked.picks.len(), picked.items.split(',').count()), (3, 2, 2));
        let all = pick(PickCount::Number(9), 3).unwrap();
        assert!(["1.0", "\"b\"", "{\"c\":1}"].iter().all(|item| all.items.contains(item)), "{}", all.items);
        assert_eq!(pick(PickCount::Number(9), 2), Err(NotPicked::TooMany));
        assert!(matches!(pick(PickCount::Pointer("/from/1".to_owned()), 9), Err(NotPicked::Unfit(_))));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what is tested is how long it takes")]
    fn a_deep_pointer_into_a_large_payload_takes_one_pass() {
        // At 120 levels, parsing what is left at each would read 30 MB.
        let payload = format!("{}{}{}", "[".repeat(121), vec!["1"; 120_000].join(","), "]".repeat(121));
        let pointer = "/0".repeat(120);
        let begun = Instant::now();
        let picked = pick(payload.as_bytes(), &pointer, &PickCount::Pointer(pointer.clone() + "/0"), &SEED, PICKS_MAX).unwrap();
        assert_eq!((picked.list_length, picked.picks.len()), (120_000, 1));
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    }
}
