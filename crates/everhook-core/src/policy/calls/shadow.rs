//! How an app's answer in shadow mode differs from what the caller was answered with. Pure.

use std::fmt::Write as _;

use serde_json::Value;

/// How many differing places are named: past it the answers have little in common.
pub const PLACES_MAX: usize = 20;
/// How long the name of a place may be: a longer one is cut, because names of members are as long as an app likes.
const PLACE_BYTES_MAX: usize = 256;
/// How long they may be together.
const PLACES_BYTES_MAX: usize = 2 << 10;

/// Where two JSON texts differ: the JSON pointers of the first places, in order, those that are long cut and ending in `…`. Empty if they mean the same.
/// A text that cannot be read differs as a whole.
pub fn differences(one: &[u8], other: &[u8]) -> Vec<String> {
    let read = |text| serde_json::from_slice::<Value>(text);
    let (Ok(one), Ok(other)) = (read(one), read(other)) else { return vec![String::new()] };
    let mut found = Found { path: Vec::new(), places: Vec::new(), bytes: 0 };
    found.compare(&one, &other);
    found.places
}

/// A step down into a value.
#[derive(Clone, Copy)]
enum Part<'v> {
    Member(&'v str),
    Item(usize),
}

/// What was found so far. Each value is looked at once, and a place is written only where something differs.
struct Found<'v> {
    /// Where this is.
    path: Vec<Part<'v>>,
    places: Vec<String>,
    bytes: usize,
}

impl<'v> Found<'v> {
    fn is_full(&self) -> bool {
        self.places.len() >= PLACES_MAX || self.bytes >= PLACES_BYTES_MAX
    }

    fn compare(&mut self, one: &'v Value, other: &'v Value) {
        match (one, other) {
            (Value::Object(one), Value::Object(other)) => {
                let only_other = other.keys().filter(|name| !one.contains_key(*name));
                for name in one.keys().chain(only_other) {
                    self.compare_part(Part::Member(name), one.get(name), other.get(name));
                }
            }
            (Value::Array(one), Value::Array(other)) => {
                for index in 0..one.len().max(other.len()) {
                    self.compare_part(Part::Item(index), one.get(index), other.get(index));
                }
            }
            (one, other) if one != other => self.add(None),
            _ => {}
        }
    }

    fn compare_part(&mut self, part: Part<'v>, one: Option<&'v Value>, other: Option<&'v Value>) {
        if self.is_full() {
            return;
        }
        let (Some(one), Some(other)) = (one, other) else { return self.add(Some(part)) };
        self.path.push(part);
        self.compare(one, other);
        self.path.pop();
    }

    /// Adds this place, or one below it.
    fn add(&mut self, below: Option<Part<'v>>) {
        let mut place = String::new();
        for part in self.path.iter().copied().chain(below) {
            match part {
                Part::Member(name) => {
                    // What is cut off need not be written first.
                    let begin = cut(name, PLACE_BYTES_MAX + 1);
                    place.push('/');
                    place.push_str(&begin.replace('~', "~0").replace('/', "~1"));
                }
                Part::Item(index) => write!(place, "/{index}").expect("memory takes every text"),
            }
            if place.len() > PLACE_BYTES_MAX {
                place.truncate(cut(&place, PLACE_BYTES_MAX).len());
                place.push('…');
                break;
            }
        }
        self.bytes += place.len();
        self.places.push(place);
    }
}

/// The beginning of a text, of at most so many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    #[test]
    fn differing_places_are_named_by_json_pointers() {
        #[rustfmt::skip]
        let table: [(&str, &str, &[&str]); 11] = [
            ("1", "1", &[]),
            (r#"{"a":1,"b":[1,2]}"#, r#"{ "b": [1, 2], "a": 1 }"#, &[]),
            ("1", "2", &[""]),
            (r#"{"a":1}"#, "1", &[""]),
            (r#"{"a":1}"#, r#"{"a":2}"#, &["/a"]),
            (r#"{"a":1}"#, r#"{"b":1}"#, &["/a", "/b"]),
            (r#"{"a":{"b/c":[1,{"d~":2}]}}"#, r#"{"a":{"b/c":[1,{"d~":3}]}}"#, &["/a/b~1c/1/d~0"]),
            (r#"{"a":[{"b":1},2],"c":3}"#, r#"{"a":[{},2],"c":4}"#, &["/a/0/b", "/c"]),
            ("[1,2]", "[1]", &["/1"]),
            ("nonsense", "1", &[""]),
            ("null", "null", &[]),
        ];
        for (one, other, expected) in table {
            assert_eq!(differences(one.as_bytes(), other.as_bytes()), expected, "{one} {other}");
        }
        let many = |n: u32| serde_json::to_vec(&(0..100).map(|i| i + n).collect::<Vec<_>>()).unwrap();
        assert_eq!(differences(&many(0), &many(1)).len(), PLACES_MAX);
    }

    #[test]
    fn places_are_cut_however_long_an_app_names_its_members() {
        let long = "ä/~".repeat(20_000);
        let members = |n: u32| (0..20).map(|i| (format!("{i:02}"), json!(i + n))).collect::<serde_json::Map<_, _>>();
        let text = |n| json!({ &long: members(n) }).to_string();
        let places = differences(text(0).as_bytes(), text(1).as_bytes());
        assert!(!places.is_empty() && places.iter().all(|place| place.starts_with("/ä~1~0ä") && place.ends_with('…')), "{places:?}");
        assert!(places.iter().all(|place| place.len() <= PLACE_BYTES_MAX + '…'.len_utf8()));
        assert!(places.iter().map(String::len).sum::<usize>() <= PLACES_BYTES_MAX + PLACE_BYTES_MAX + '…'.len_utf8());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what is tested is how long it takes")]
    fn equal_members_below_a_long_name_cost_no_text_and_each_level_is_compared_once() {
        // 120 levels around many equal members, below a name of 100 KiB: writing a place for each, or comparing each level as a whole, takes seconds.
        let flat = (0..10_000).map(|i| (i.to_string(), json!(i))).collect::<serde_json::Map<_, _>>();
        let text = |last: u32| {
            let deep = (0..120).fold(json!({ "flat": flat, "last": last }), |inner, _| json!([inner]));
            json!({ "n".repeat(100 << 10): deep }).to_string()
        };
        let (one, other) = (text(1), text(2));
        let begun = Instant::now();
        assert_eq!(differences(one.as_bytes(), other.as_bytes()).len(), 1);
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    }
}
