//! What Garmin answers when it is asked: the data of a ping, and a user's permissions.

use std::fmt;

use serde::{
    Deserializer as _,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    Effect, GarminType, Mapped, Unmappable,
    garmin::{self, notices},
    item::Item,
    value,
};
use crate::model::health::{ExternalUserId, Permissions};

/// How many summaries of an answer are read: a day has fewer than a hundred of any type.
const SUMMARIES_MAX: usize = 1_000;
/// How many notes are kept about them.
const MISSING_MAX: usize = 100;

/// What the data of a ping means: the metrics of all summaries of this user. One that is malformed leaves the others as they are.
///
/// # Errors
/// [`Unmappable`] if the answer is no list of summaries, or nothing can be made of any that there is.
pub fn map_fetched(data: GarminType, answer: &[u8], user: &ExternalUserId) -> Result<Mapped, Unmappable> {
    let text = std::str::from_utf8(answer).map_err(|_| Unmappable::NotAnArray)?;
    let summaries = summaries(data, text).ok_or(Unmappable::NotAnArray)?;
    let (mut drafts, mut missing, mut fault) = (Vec::new(), Vec::new(), None);
    for summary in summaries {
        match of_user(summary.get(), user).and_then(|item| garmin::summary(item, data)) {
            Ok(Mapped { effect: Effect::Metrics(found), missing: lacks }) => {
                drafts.extend(found);
                missing.extend(lacks);
            }
            Ok(_) => {}
            Err(unmappable) => fault = Some(unmappable),
        }
        missing.truncate(MISSING_MAX);
    }
    match fault {
        Some(unmappable) if drafts.is_empty() => Err(unmappable),
        _ => Ok(Mapped { effect: Effect::Metrics(drafts), missing }),
    }
}

/// Reads the permissions that Garmin says a user gave: a list, alone or within an object.
pub fn read_permissions(answer: &[u8]) -> Option<Permissions> {
    let text = std::str::from_utf8(answer).ok()?.trim();
    if text.starts_with('[') {
        return notices::permissions(text);
    }
    Item::read(text.as_bytes()).ok()?.raw(&["permissions"]).and_then(notices::permissions)
}

/// An array, or one within an envelope as it is pushed.
fn summaries(data: GarminType, text: &str) -> Option<Vec<&RawValue>> {
    let text = text.trim();
    if text.starts_with('[') {
        return serde_json::Deserializer::from_str(text).deserialize_seq(SummariesVisitor).ok();
    }
    let within = Item::read(text.as_bytes()).ok()?.raw_of(data.as_str())?;
    serde_json::Deserializer::from_str(within).deserialize_seq(SummariesVisitor).ok()
}

/// A summary, unless it says that it is somebody else's.
fn of_user<'t>(text: &'t str, user: &ExternalUserId) -> Result<Item<'t>, Unmappable> {
    let item = Item::read(text.as_bytes())?;
    let is_theirs = item.raw(&["userId"]).and_then(value::id).is_none_or(|named| named == user.as_str());
    if is_theirs { Ok(item) } else { Err(Unmappable::SomebodyElses) }
}

struct SummariesVisitor;

impl<'de> Visitor<'de> for SummariesVisitor {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while found.len() < SUMMARIES_MAX {
            match elements.next_element()? {
                Some(summary) => found.push(summary),
                None => return Ok(found),
            }
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(answer: &str) -> Result<Vec<Option<f64>>, Unmappable> {
        let user = ExternalUserId::parse("u").expect("it is good");
        let mapped = map_fetched(GarminType::Dailies, answer.as_bytes(), &user)?;
        let Effect::Metrics(drafts) = mapped.effect else { panic!("it has metrics") };
        Ok(drafts.iter().map(|draft| draft.value).collect())
    }

    #[test]
    fn all_summaries_of_an_answer_that_are_the_users_are_mapped() {
        let day = |user: &str, steps: u32| format!(r#"{{"userId":"{user}","calendarDate":"2016-01-11","steps":{steps}}}"#);
        let (first, second, other) = (day("u", 1), day("u", 2), day("somebody", 3));
        assert_eq!(steps(&format!("[{first},{second}]")), Ok(vec![Some(1.0), Some(2.0)]));
        assert_eq!(steps(&format!(r#"{{"dailies":[{first}]}}"#)), Ok(vec![Some(1.0)]));
        assert_eq!(steps("[]"), Ok(vec![]));
        // What is malformed or somebody else's leaves the rest.
        assert_eq!(steps(&format!("[7,{other},{second},{{}}]")), Ok(vec![Some(2.0)]));
        assert_eq!(steps(&format!("[{other}]")), Err(Unmappable::SomebodyElses));
        // A ping within the answer of a ping is not followed.
        assert!(steps(r#"[{"userId":"u","callbackURL":"https://apis.garmin.com/"}]"#).is_err());
        for answer in ["", "{}", "7", "[", "<html>", r#"{"sleeps":[]}"#] {
            assert_eq!(steps(answer), Err(Unmappable::NotAnArray), "{answer}");
        }
        let many = format!("[{}]", vec![day("u", 1); SUMMARIES_MAX + 5].join(","));
        assert_eq!(steps(&many).map(|found| found.len()), Ok(SUMMARIES_MAX));
    }

    #[test]
    fn permissions_are_read_alone_or_within_an_object() {
        for answer in [r#"["B","A"]"#, r#" {"permissions":["A","B"]} "#] {
            let found = read_permissions(answer.as_bytes()).expect(answer);
            assert_eq!(found.iter().collect::<Vec<_>>(), ["A", "B"]);
        }
        for answer in ["", "{}", r#"{"permissions":7}"#, "<html>"] {
            assert_eq!(read_permissions(answer.as_bytes()), None, "{answer}");
        }
    }
}
