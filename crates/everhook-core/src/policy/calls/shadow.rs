//! How an app's answer in shadow mode differs from what the caller was answered with. Pure.

use serde_json::Value;

/// How many differing places are named: past it the answers have little in common.
pub const PLACES_MAX: usize = 20;

/// Where two JSON texts differ: the JSON pointers of the first places, in order. Empty if they mean the same. A text that cannot be read differs as a whole.
pub fn differences(one: &[u8], other: &[u8]) -> Vec<String> {
    let mut places = Vec::new();
    match (serde_json::from_slice::<Value>(one), serde_json::from_slice::<Value>(other)) {
        (Ok(one), Ok(other)) => compare("", &one, &other, &mut places),
        _ => places.push(String::new()),
    }
    places
}

fn compare(place: &str, one: &Value, other: &Value, places: &mut Vec<String>) {
    if places.len() >= PLACES_MAX || one == other {
        return;
    }
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let only_other = other.keys().filter(|name| !one.contains_key(*name));
            for name in one.keys().chain(only_other) {
                compare_member(&member(place, name), one.get(name), other.get(name), places);
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            for index in 0..one.len().max(other.len()) {
                compare_member(&format!("{place}/{index}"), one.get(index), other.get(index), places);
            }
        }
        _ => places.push(place.to_owned()),
    }
}

fn compare_member(place: &str, one: Option<&Value>, other: Option<&Value>, places: &mut Vec<String>) {
    match (one, other) {
        (Some(one), Some(other)) => compare(place, one, other, places),
        _ if places.len() < PLACES_MAX => places.push(place.to_owned()),
        _ => {}
    }
}

fn member(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_places_are_named_by_json_pointers() {
        #[rustfmt::skip]
        let table: [(&str, &str, &[&str]); 10] = [
            ("1", "1", &[]),
            (r#"{"a":1,"b":[1,2]}"#, r#"{ "b": [1, 2], "a": 1 }"#, &[]),
            ("1", "2", &[""]),
            (r#"{"a":1}"#, "1", &[""]),
            (r#"{"a":1}"#, r#"{"a":2}"#, &["/a"]),
            (r#"{"a":1}"#, r#"{"b":1}"#, &["/a", "/b"]),
            (r#"{"a":{"b/c":[1,{"d~":2}]}}"#, r#"{"a":{"b/c":[1,{"d~":3}]}}"#, &["/a/b~1c/1/d~0"]),
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
}
