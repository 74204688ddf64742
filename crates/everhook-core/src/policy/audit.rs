//! What an audit entry says: the fields that a change made different, nothing secret, and never more than a bounded size. Pure.
//!
//! Two states of a thing are compared by what they are, and written by what may be shown: a secret that was replaced is seen to differ, and is
//! `***` on both sides.

use serde_json::{Map, Value};

use crate::model::AuditNote;

/// Stands for what nobody may read in the log.
pub const MASK: &str = "***";

/// The longest that one side of an entry may be, as JSON: 16 KiB for both.
const SIDE_BYTES_MAX: usize = 8 * 1024;

/// What is true of a thing, field by field.
#[derive(Clone, Debug, Default)]
pub struct Facts(Vec<Fact>);

#[derive(Clone, Debug)]
struct Fact {
    field: &'static str,
    value: Value,
    /// What is written instead of the value.
    mask: Option<Value>,
}

impl Facts {
    /// Adds a field that everybody who reads the log may see.
    #[must_use]
    pub fn plain(mut self, field: &'static str, value: impl Into<Value>) -> Self {
        self.0.push(Fact { field, value: value.into(), mask: None });
        self
    }

    /// Adds a field that is compared, but written as `mask`.
    #[must_use]
    pub fn masked(mut self, field: &'static str, value: impl Into<Value>, mask: impl Into<Value>) -> Self {
        self.0.push(Fact { field, value: value.into(), mask: Some(mask.into()) });
        self
    }

    fn value(&self, field: &str) -> Option<&Value> {
        self.0.iter().find(|fact| fact.field == field).map(|fact| &fact.value)
    }

    /// The fields that are not the same in `other`, as they may be shown.
    fn unlike(&self, other: &Self) -> Map<String, Value> {
        let differs = |fact: &&Fact| other.value(fact.field) != Some(&fact.value);
        self.0.iter().filter(differs).map(Fact::shown).collect()
    }
}

impl Fact {
    fn shown(&self) -> (String, Value) {
        (self.field.to_owned(), self.mask.clone().unwrap_or_else(|| self.value.clone()))
    }
}

/// Something is there that was not.
pub fn made(after: &Facts) -> AuditNote {
    let (after, is_cut) = write(after.0.iter().map(Fact::shown).collect());
    AuditNote { before: None, after: Some(after), is_cut }
}

/// Something is gone.
pub fn removed(before: &Facts) -> AuditNote {
    let (before, is_cut) = write(before.0.iter().map(Fact::shown).collect());
    AuditNote { before: Some(before), after: None, is_cut }
}

/// Something is different.
pub fn changed(before: &Facts, after: &Facts) -> AuditNote {
    let ((was, was_cut), (is, is_cut)) = (write(before.unlike(after)), write(after.unlike(before)));
    AuditNote { before: Some(was), after: Some(is), is_cut: was_cut || is_cut }
}

/// Writes one side. While it is too long, its longest field is left out, and says so.
fn write(mut fields: Map<String, Value>) -> (String, bool) {
    let mut text = Value::Object(fields.clone()).to_string();
    let mut is_cut = false;
    // Each round shortens one field for good, so that there are at most as many rounds as fields.
    for _ in 0..fields.len() {
        if text.len() <= SIDE_BYTES_MAX {
            break;
        }
        let longest = fields.iter_mut().map(|(_, value)| (value.to_string().len(), value)).max_by_key(|(bytes, _)| *bytes);
        let Some((bytes, value)) = longest else { break };
        *value = Value::String(format!("omitted: {bytes} bytes"));
        is_cut = true;
        text = Value::Object(fields.clone()).to_string();
    }
    (text, is_cut)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn endpoint(url: &str, secret: &str, key: &str) -> Facts {
        let facts = Facts::default().plain("url", url).plain("name", Value::Null);
        facts.masked("secret", secret, MASK).masked("headers", json!({ "x-key": key }), json!({ "x-key": MASK }))
    }

    #[test]
    fn an_entry_has_the_fields_that_changed_and_nothing_secret() {
        #[rustfmt::skip]
        let table = [
            (endpoint("a", "s", "k"), r"{}",                          r"{}"),
            (endpoint("b", "s", "k"), r#"{"url":"a"}"#,               r#"{"url":"b"}"#),
            (endpoint("a", "t", "k"), r#"{"secret":"***"}"#,          r#"{"secret":"***"}"#),
            (endpoint("a", "s", "l"), r#"{"headers":{"x-key":"***"}}"#, r#"{"headers":{"x-key":"***"}}"#),
        ];
        for (now, before, after) in table {
            let note = changed(&endpoint("a", "s", "k"), &now);
            assert_eq!((note.before.as_deref(), note.after.as_deref(), note.is_cut), (Some(before), Some(after), false));
        }
    }

    #[test]
    fn what_is_made_or_gone_is_told_whole_on_one_side() {
        let whole = Some(r#"{"headers":{"x-key":"***"},"name":null,"secret":"***","url":"a"}"#.to_owned());
        let facts = endpoint("a", "s", "k");
        assert_eq!(made(&facts), AuditNote { before: None, after: whole.clone(), is_cut: false });
        assert_eq!(removed(&facts), AuditNote { before: whole, after: None, is_cut: false });
    }

    #[test]
    fn an_entry_is_bounded_and_says_what_was_left_out() {
        let long = |n: usize| "x".repeat(n);
        let facts = Facts::default().plain("metadata", long(9_000)).plain("description", long(7_000)).plain("name", "shop");
        let note = made(&facts);
        assert!(note.is_cut);
        let after: Value = serde_json::from_str(&note.after.unwrap()).unwrap();
        assert_eq!(after["metadata"], "omitted: 9002 bytes");
        assert_eq!((after["description"].as_str().unwrap().len(), &after["name"]), (7_000, &json!("shop")));
    }

    #[test]
    fn a_field_that_only_one_side_has_is_told() {
        let (less, more) = (Facts::default(), Facts::default().plain("drain", 5));
        assert_eq!(changed(&less, &more).after.as_deref(), Some(r#"{"drain":5}"#));
    }
}
