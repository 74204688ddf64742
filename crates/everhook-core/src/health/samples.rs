//! Samples over time: a map from seconds since the start (as text) to values, or an array. Read once, value by value; none is kept.

use std::{fmt, ops::RangeInclusive};

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::value;

/// What samples amount to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Samples<'t> {
    /// As they were sent.
    pub(super) text: &'t str,
    /// What was measured; `None` if nothing was: providers write −1 and −2 for that.
    pub(super) measured: Option<Measured>,
}

/// The samples that were measured: at least one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) count: u32,
    pub(super) mean: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// The one with the greatest time, wherever it stands.
    pub(super) last: f64,
}

impl<'t> Samples<'t> {
    /// Reads the samples. Those outside of the bounds were not measured, and neither was what is no number.
    pub(super) fn read(text: &'t str, bounds: &RangeInclusive<f64>) -> Option<Self> {
        if !text.starts_with(['{', '[']) {
            return None;
        }
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let sum = Sum { bounds, found: None }.deserialize(&mut deserializer).ok()?;
        Some(Self { text, measured: sum.map(Found::measured) })
    }
}

struct Sum<'b> {
    bounds: &'b RangeInclusive<f64>,
    found: Option<Found>,
}

#[derive(Clone, Copy)]
struct Found {
    count: u32,
    total: f64,
    min: f64,
    max: f64,
    last: (f64, f64),
}

impl Found {
    fn measured(self) -> Measured {
        Measured { count: self.count, mean: self.total / f64::from(self.count), min: self.min, max: self.max, last: self.last.1 }
    }
}

impl Sum<'_> {
    fn add(&mut self, at: Option<f64>, value: Option<f64>) {
        let (Some(at), Some(value)) = (at, value.filter(|value| self.bounds.contains(value))) else { return };
        let found = self.found.get_or_insert(Found { count: 0, total: 0.0, min: value, max: value, last: (at, value) });
        found.count = found.count.saturating_add(1);
        found.total += value;
        found.min = found.min.min(value);
        found.max = found.max.max(value);
        if at >= found.last.0 {
            found.last = (at, value);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Sum<'_> {
    type Value = Option<Found>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Sum<'_> {
    type Value = Option<Found>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("samples")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        while let Some((offset, raw)) = map.next_entry::<String, &RawValue>()? {
            self.add(value::number(&offset), value::number(raw.get()));
        }
        Ok(self.found)
    }

    /// Elements are values in the order of time, or arrays that begin with their time.
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut position = 0.0;
        while let Some(raw) = elements.next_element::<&RawValue>()? {
            match Pair::read(raw.get()) {
                Some(pair) => self.add(pair.at, pair.value),
                None => self.add(Some(position), value::number(raw.get())),
            }
            position += 1.0;
        }
        Ok(self.found)
    }
}

/// A time and the first number behind it: `[1452419581000, 43]`, `[1452419581000, "MEASURED", 43, 2.0]`.
struct Pair {
    at: Option<f64>,
    value: Option<f64>,
}

/// How many parts of such an array are looked at.
const PARTS_MAX: usize = 4;

impl Pair {
    fn read(raw: &str) -> Option<Self> {
        if !raw.starts_with('[') {
            return None;
        }
        serde_json::Deserializer::from_str(raw).deserialize_seq(PairVisitor).ok()
    }
}

struct PairVisitor;

impl<'de> Visitor<'de> for PairVisitor {
    type Value = Pair;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sample")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut pair = Pair { at: None, value: None };
        for number in 0..PARTS_MAX {
            let Some(raw) = parts.next_element::<&RawValue>()? else { return Ok(pair) };
            let found = value::number(raw.get());
            if number == 0 {
                pair.at = found;
            } else {
                pair.value = pair.value.or(found);
            }
        }
        while parts.next_element::<IgnoredAny>()?.is_some() {}
        Ok(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The count, mean, least, greatest and last of them.
    type Summary = (u32, f64, f64, f64, f64);

    fn read(text: &str) -> Option<Option<Summary>> {
        let measured = Samples::read(text, &(1.0..=100.0))?.measured;
        Some(measured.map(|found| (found.count, found.mean, found.min, found.max, found.last)))
    }

    #[test]
    fn samples_are_counted_in_every_shape() {
        for (text, expected) in [
            (r#"{"0":18,"180":51,"360":28,"540":29}"#, Some(Some((4, 31.5, 18.0, 51.0, 29.0)))),
            // The last is the one with the greatest time as a number, not as text and not by its place.
            (r#"{"900":10,"1000":20,"60":30}"#, Some(Some((3, 20.0, 10.0, 30.0, 20.0)))),
            (r#"{"0":-1,"180":-2,"360":"40","540":null,"x":9,"720":{"a":[]}}"#, Some(Some((1, 40.0, 40.0, 40.0, 40.0)))),
            ("[[1452419581000,20],[1452419582000,40],[1452419580000,60]]", Some(Some((3, 40.0, 20.0, 60.0, 40.0)))),
            (r#"[[1,"MEASURED",55,2.0,9],[2,"MEASURED",57,2.0]]"#, Some(Some((2, 56.0, 55.0, 57.0, 57.0)))),
            ("[20, 30, -1, []]", Some(Some((2, 25.0, 20.0, 30.0, 30.0)))),
            (r#"{"0":-1,"180":-2}"#, Some(None)),
            ("{}", Some(None)),
            ("[]", Some(None)),
            ("5", None),
            (r#""{}""#, None),
            ("{", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
