//! The fields of one JSON object of a manifest, taken one by one, and what is wrong with them.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use serde_json::Value;

/// How many faults are listed: past it nobody reads on.
const FAULTS_MAX: usize = 50;
/// The longest part of a document that a fault repeats.
const REPEATED_CHARS_MAX: usize = 100;

/// What one field of a manifest should have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFault {
    /// Where: `capabilities.winnerSelection.timeout`.
    pub field: String,
    /// What would be right, as the rest of a sentence that begins with the field.
    pub reason: String,
}

/// Faults as they are found.
#[derive(Default)]
pub(super) struct Faults(Vec<ManifestFault>);

impl Faults {
    pub(super) fn add(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(ManifestFault { field: field.into(), reason: reason.into() });
        }
    }

    pub(super) fn none_or<T>(mut self, read: Option<T>) -> Result<T, Vec<ManifestFault>> {
        match read {
            Some(read) if self.0.is_empty() => Ok(read),
            _ => {
                if self.0.is_empty() {
                    self.add("capabilities", "is required");
                }
                Err(self.0)
            }
        }
    }
}

/// An object's fields that were not taken yet, under their names `like_this`.
pub(super) struct Fields<'a> {
    path: String,
    left: BTreeMap<String, &'a Value>,
}

impl<'a> Fields<'a> {
    /// Reads an object; `null` fields are as good as absent.
    pub(super) fn read(path: &str, value: &'a Value, faults: &mut Faults) -> Option<Self> {
        let Some(object) = value.as_object() else {
            faults.add(if path.is_empty() { "manifest" } else { path }, "must be a JSON object");
            return None;
        };
        let mut fields = Self { path: path.to_owned(), left: BTreeMap::new() };
        for (name, value) in object {
            let plain = snake_case(name);
            let path = fields.path_of(&plain);
            if fields.left.insert(plain, value).is_some() {
                faults.add(path, "appears twice, in two spellings");
            }
        }
        fields.left.retain(|_, value| !value.is_null());
        Some(fields)
    }

    /// Where a field of this object is.
    pub(super) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Whether something was found wrong with a field already.
    pub(super) fn has_fault(&self, name: &str, faults: &Faults) -> bool {
        let path = self.path_of(name);
        faults.0.iter().any(|fault| fault.field == path)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<&'a Value> {
        self.left.remove(name)
    }

    pub(super) fn object(&mut self, name: &str, faults: &mut Faults) -> Option<Self> {
        let path = self.path_of(name);
        Fields::read(&path, self.take(name)?, faults)
    }

    pub(super) fn text(&mut self, name: &str, faults: &mut Faults) -> Option<String> {
        let value = self.take(name)?;
        if value.as_str().is_none() {
            faults.add(self.path_of(name), "must be a text");
        }
        value.as_str().map(str::to_owned)
    }

    pub(super) fn flag(&mut self, name: &str, faults: &mut Faults) -> Option<bool> {
        let value = self.take(name)?;
        if value.as_bool().is_none() {
            faults.add(self.path_of(name), "must be true or false");
        }
        value.as_bool()
    }

    pub(super) fn number(&mut self, name: &str, range: RangeInclusive<u32>, faults: &mut Faults) -> Option<u32> {
        let value = self.take(name)?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| range.contains(number));
        if number.is_none() {
            faults.add(self.path_of(name), format!("must be {} to {}", range.start(), range.end()));
        }
        number
    }

    pub(super) fn share(&mut self, name: &str, faults: &mut Faults) -> Option<f64> {
        let value = self.take(name)?;
        if value.as_f64().is_none() {
            faults.add(self.path_of(name), "must be a number");
        }
        value.as_f64()
    }

    /// A length of time: a number of milliseconds, or a text with a unit.
    pub(super) fn duration(&mut self, name: &str, faults: &mut Faults) -> Option<Duration> {
        let value = self.take(name)?;
        let read = match value {
            Value::Number(number) => number.as_u64().map(Duration::from_millis),
            Value::String(text) => parse_duration(text),
            _ => None,
        };
        if read.is_none() {
            faults.add(self.path_of(name), "must be a number of milliseconds, or a text with a unit: ms, s, m, h or d (`5m`)");
        }
        read
    }

    pub(super) fn in_range(&self, name: &str, value: Duration, (from, to): (Duration, Duration), faults: &mut Faults) {
        if !(from..=to).contains(&value) && !self.has_fault(name, faults) {
            faults.add(self.path_of(name), format!("must be {} to {} milliseconds", from.as_millis(), to.as_millis()));
        }
    }

    /// Whatever was not taken is not known.
    pub(super) fn end(self, faults: &mut Faults) {
        for name in self.left.keys() {
            let shown: String = name.chars().take(REPEATED_CHARS_MAX).collect();
            faults.add(self.path_of(&shown), "is not known");
        }
    }
}

/// `maxAttempts` as `max_attempts`. What has a sign in it already stays as it is.
fn snake_case(name: &str) -> String {
    let mut plain = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !plain.is_empty() && !plain.ends_with('_') {
            plain.push('_');
        }
        plain.push(c.to_ascii_lowercase());
    }
    plain
}

fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let millis = match text[digits..].trim_start() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}
