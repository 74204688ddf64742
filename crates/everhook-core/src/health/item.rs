//! One item that a provider sent, read member by member. The mappings call this; it notes what they asked for and did not get.
//!
//! Only the outermost members are found, each as the text that it was sent as: time and memory grow with the item and no faster, whatever it nests.

use std::{fmt, ops::RangeInclusive};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    Missing, Unmappable, Why,
    samples::Samples,
    value::{self, Text},
};
use crate::{
    model::health::{RAW_BYTES_MAX, RecordId},
    time::Timestamp,
};

/// How many members of an item are read: Garmin's largest summary has some sixty.
pub(super) const MEMBERS_MAX: usize = 1_000;

/// An item, and what was found missing in it.
pub(super) struct Item<'t> {
    text: &'t str,
    members: Vec<(String, &'t RawValue)>,
    missing: Vec<Missing>,
}

/// Names of one value: the provider's of today first, by which it is called missing.
pub(super) type Names = &'static [&'static str];

impl<'t> Item<'t> {
    /// Finds the members of a JSON object.
    ///
    /// # Errors
    /// [`Unmappable`] if it is none, or has too many.
    pub(super) fn read(bytes: &'t [u8]) -> Result<Self, Unmappable> {
        let text = std::str::from_utf8(bytes).map_err(|_| Unmappable::NotAnObject)?;
        let Members { members, is_cut } = serde_json::from_str(text).map_err(|_| Unmappable::NotAnObject)?;
        if is_cut {
            return Err(Unmappable::TooManyMembers { max: MEMBERS_MAX });
        }
        Ok(Self { text, members, missing: Vec::new() })
    }

    /// A number within bounds. Providers write some as text.
    pub(super) fn number(&mut self, names: Names, bounds: RangeInclusive<f64>) -> Option<f64> {
        self.want(names, |raw| value::number(raw).filter(|number| bounds.contains(number)))
    }

    /// The same where most items have none: its absence is not worth a word.
    pub(super) fn rare_number(&self, names: Names, bounds: RangeInclusive<f64>) -> Option<f64> {
        self.rare(names, |raw| value::number(raw).filter(|number| bounds.contains(number)))
    }

    /// An instant.
    pub(super) fn instant(&mut self, names: Names) -> Option<Timestamp> {
        self.want(names, value::instant)
    }

    /// An instant that most items do not have.
    pub(super) fn rare_instant(&self, names: Names) -> Option<Timestamp> {
        self.rare(names, value::instant)
    }

    /// A day, as midnight in UTC.
    pub(super) fn day(&mut self, names: Names) -> Option<Timestamp> {
        self.want(names, value::day)
    }

    /// A short text, such as the name of a sport.
    pub(super) fn text(&mut self, names: Names) -> Option<String> {
        self.want(names, |raw| Text::read(raw).map(Text::shortened))
    }

    /// A text with all its characters, if it is not too long.
    pub(super) fn whole_text(&mut self, names: Names, bytes_max: usize) -> Option<String> {
        self.want(names, |raw| Text::read(raw).map(|text| text.0).filter(|text| !text.is_empty() && text.len() <= bytes_max))
    }

    /// An id, which is text or a number of up to 64 bits.
    pub(super) fn id(&mut self, names: Names) -> Option<RecordId> {
        self.want(names, |raw| value::id(raw).and_then(|id| RecordId::of(&id)))
    }

    /// Samples over time, of which those within the bounds were measured.
    pub(super) fn samples(&self, names: Names, measured: RangeInclusive<f64>) -> Option<Samples<'t>> {
        self.rare(names, |raw| Samples::read(raw, &measured))
    }

    /// The object that a member is.
    pub(super) fn object(&self, names: Names) -> Option<Item<'t>> {
        self.rare(names, |raw| Item::read(raw.as_bytes()).ok())
    }

    /// A value as it was sent, whatever it is.
    pub(super) fn raw(&self, names: Names) -> Option<&'t str> {
        self.rare(names, Some)
    }

    /// The same for one name that is not known beforehand.
    pub(super) fn raw_of(&self, name: &str) -> Option<&'t str> {
        self.find(name)
    }

    /// Notes what is wrong with a value.
    pub(super) fn lacks(&mut self, field: &'static str, why: Why) {
        self.missing.push(Missing { field, why });
    }

    /// The whole item, to be kept beside its metrics; `None`, and a note, if it is too large for that.
    pub(super) fn kept_whole(&mut self) -> Option<Bytes> {
        self.kept("raw_payload_json", self.text)
    }

    /// A part of it likewise.
    pub(super) fn kept(&mut self, field: &'static str, text: &str) -> Option<Bytes> {
        if text.len() > RAW_BYTES_MAX {
            self.lacks(field, Why::TooLarge);
            return None;
        }
        Some(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// What was found missing.
    pub(super) fn into_missing(self) -> Vec<Missing> {
        self.missing
    }

    /// The value of the first name that has a readable one. What all have in common is a note otherwise.
    fn want<T>(&mut self, names: Names, read: impl Fn(&'t str) -> Option<T>) -> Option<T> {
        let found = self.rare(names, read);
        if found.is_none() {
            let is_there = names.iter().any(|name| self.find(name).is_some());
            self.lacks(names[0], if is_there { Why::Unreadable } else { Why::Absent });
        }
        found
    }

    fn rare<T>(&self, names: Names, read: impl Fn(&'t str) -> Option<T>) -> Option<T> {
        names.iter().filter_map(|name| self.find(name)).find_map(read)
    }

    /// The value of a member. Of several with one name the last counts, as everywhere; `null` is as good as none.
    fn find(&self, name: &str) -> Option<&'t str> {
        let (_, raw) = self.members.iter().rfind(|(member, _)| member == name)?;
        Some(raw.get()).filter(|raw| *raw != "null")
    }
}

struct Members<'t> {
    members: Vec<(String, &'t RawValue)>,
    is_cut: bool,
}

impl<'de: 't, 't> Deserialize<'de> for Members<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor).map(|members: Members<'de>| members)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while members.len() < MEMBERS_MAX {
            match map.next_entry()? {
                Some(member) => members.push(member),
                None => return Ok(Members { members, is_cut: false }),
            }
        }
        let mut is_cut = false;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            is_cut = true;
        }
        Ok(Members { members, is_cut })
    }
}
