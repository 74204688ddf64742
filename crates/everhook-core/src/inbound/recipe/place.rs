//! Where a value stands in a request: `sig`, `ts`, `token` and `key_from` of a recipe.

use std::time::Duration;

use super::Scope;
use crate::inbound::{
    RecipeFault,
    document::Pointer,
    fields::shown,
    text::{self, header_name, parameter_name, words},
};

/// How many signatures of a list are looked at: a rotation has two. A longer list is refused.
pub(in crate::inbound) const SIGNATURES_MAX: usize = 10;
/// How many headers a family may have: `H-1..100`.
const FAMILY_MAX: u64 = 100;
/// How many headers one place may name.
const HEADERS_MAX: usize = 5;

/// Where a value stands.
#[derive(Clone, Debug)]
pub(in crate::inbound) enum Place {
    /// The first of these headers that is there; for signatures, all of them.
    Headers(Vec<String>),
    /// `name-1` to `name-n`, all of them.
    Family { prefix: String, last: u64 },
    /// A parameter of the query.
    Query(String),
    /// A field of a form.
    Form(String),
    /// A value of the body, in its slot, and its pointer for messages.
    Body { slot: usize, pointer: String },
}

impl Place {
    /// Reads a place.
    pub(super) fn parse(field: &'static str, text: &str, scope: &mut Scope<'_>) -> Result<Self, RecipeFault> {
        let fault = |reason: String| RecipeFault::new(field, reason);
        if let Some(pointer) = text.strip_prefix("body:") {
            let parsed = Pointer::parse(pointer)
                .ok_or_else(|| fault(format!("holds `{}`, which is no JSON pointer; write body:/path/to/value", shown(pointer))))?;
            return Ok(Self::Body { slot: scope.signed(&parsed), pointer: pointer.to_owned() });
        }
        let named =
            |kind: &str, name: &str| parameter_name(name).ok_or_else(|| fault(format!("holds `{}`; write {kind}:name", shown(name))));
        if let Some(name) = text.strip_prefix("form:") {
            if !scope.body_is_form() {
                return Err(fault("names a field of a form, but `body` is not form".to_owned()));
            }
            return named("form", name).map(Self::Form);
        }
        if let Some(name) = text.strip_prefix("query:") {
            return named("query", name).map(Self::Query);
        }
        if let Some((prefix, last)) = text.split_once("1..") {
            let last = text::number(last).filter(|last| (1..=FAMILY_MAX).contains(last));
            let (Some(prefix), Some(last)) = (header_name(prefix), last) else {
                return Err(fault(format!("holds `{}`; a family of headers is written X-Signature-1..{FAMILY_MAX}", shown(text))));
            };
            return Ok(Self::Family { prefix, last });
        }
        let names: Option<Vec<String>> = text.split('|').map(header_name).collect();
        names
            .filter(|names| names.len() <= HEADERS_MAX)
            .map(Self::Headers)
            .ok_or_else(|| fault(format!("holds `{}`; write the name of a header, query:name, form:name or body:/pointer", shown(text))))
    }

    /// What a message calls it.
    pub(in crate::inbound) fn describe(&self) -> String {
        match self {
            Self::Headers(names) => format!("header `{}`", names.join("` or `")),
            Self::Family { prefix, .. } => format!("header `{prefix}1`"),
            Self::Query(name) => format!("parameter `{name}` in the URL"),
            Self::Form(name) => format!("field `{name}` in the form"),
            Self::Body { pointer, .. } => format!("`{pointer}` in the body"),
        }
    }
}

/// The place of signatures, and how they are written there.
#[derive(Clone, Debug)]
pub(in crate::inbound) struct SignaturePlace {
    pub(in crate::inbound) place: Place,
    pub(in crate::inbound) format: Format,
}

/// How signatures are written.
#[derive(Clone, Debug)]
pub(in crate::inbound) enum Format {
    /// One, behind a prefix.
    Whole { prefix: String },
    /// The values of this key in `t=1,v1=…,v1=…`.
    Pairs { separator: char, key: String },
    /// Items that begin with a prefix, or whose signature follows a character; others are passed over.
    List { separator: char, prefix: String, after: Option<char> },
}

impl SignaturePlace {
    /// Reads `sig`.
    pub(super) fn parse(text: &str, scope: &mut Scope<'_>) -> Result<Self, RecipeFault> {
        const FIELD: &str = "sig";
        const RIGHT: &str = "write a place, then nothing, prefix=…, kv=, key, list=' ' prefix, or list=& after=|";
        let fault = |what: &str| RecipeFault::new(FIELD, format!("{what}; {RIGHT}"));
        let words = words(text).ok_or_else(|| fault("has a quote that is not closed"))?;
        let Some((place, format)) = words.split_first() else { return Err(fault("is empty")) };
        let words: Vec<&str> = format.iter().map(String::as_str).collect();
        let place = Place::parse(FIELD, place, scope)?;
        let format = match words[..] {
            [] => Format::Whole { prefix: String::new() },
            [prefix] if prefix.starts_with("prefix=") => Format::Whole { prefix: prefix["prefix=".len()..].to_owned() },
            [kind, key] if kind.starts_with("kv=") => {
                let separator = one_char(&kind["kv=".len()..]).ok_or_else(|| fault("has no separator behind kv="))?;
                Format::Pairs { separator, key: key.to_owned() }
            }
            [kind, ref rest @ ..] if kind.starts_with("list=") && rest.len() <= 1 => {
                let separator = one_char(&kind["list=".len()..]).ok_or_else(|| fault("has no separator behind list="))?;
                list(separator, rest.first().copied().unwrap_or("")).ok_or_else(|| fault("has no character behind after="))?
            }
            _ => return Err(fault(&format!("ends in `{}`", shown(&words.join(" "))))),
        };
        Ok(Self { place, format })
    }
}

fn list(separator: char, rest: &str) -> Option<Format> {
    match rest.strip_prefix("after=") {
        Some(after) => Some(Format::List { separator, prefix: String::new(), after: Some(one_char(after)?) }),
        None => Some(Format::List { separator, prefix: rest.to_owned(), after: None }),
    }
}

fn one_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// Where the time of signing stands, how it is written, and how old it may be.
#[derive(Clone, Debug)]
pub(in crate::inbound) struct TimestampRule {
    pub(in crate::inbound) place: TimestampPlace,
    pub(in crate::inbound) unit: Unit,
    pub(in crate::inbound) window: Option<Duration>,
}

/// The place of a timestamp.
#[derive(Clone, Debug)]
pub(in crate::inbound) enum TimestampPlace {
    /// The value of this key among the signature's pairs.
    Pair(String),
    /// On its own.
    Place(Place),
}

/// How a timestamp is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inbound) enum Unit {
    Seconds,
    Milliseconds,
    Rfc3339,
    HttpDate,
}

impl TimestampRule {
    /// Reads `ts`.
    pub(super) fn parse(text: &str, scope: &mut Scope<'_>) -> Result<Self, RecipeFault> {
        const FIELD: &str = "ts";
        const RIGHT: &str = "write a place (or kv:key), then s, ms, rfc3339 or http-date, then how old it may be (5m) or nothing";
        let fault = |what: String| RecipeFault::new(FIELD, format!("{what}; {RIGHT}"));
        let words = words(text).ok_or_else(|| fault("has a quote that is not closed".to_owned()))?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (place, unit, window) = match words[..] {
            [place, unit] => (place, unit, None),
            [place, unit, window] => {
                let parsed = text::tolerance(window)
                    .ok_or_else(|| fault(format!("ends in `{}`, which is no length from 1s to 168h", shown(window))))?;
                (place, unit, Some(parsed))
            }
            _ => return Err(fault(format!("has {} words", words.len()))),
        };
        let unit = match unit {
            "s" => Unit::Seconds,
            "ms" => Unit::Milliseconds,
            "rfc3339" => Unit::Rfc3339,
            "http-date" => Unit::HttpDate,
            other => return Err(fault(format!("has the unit `{}`", shown(other)))),
        };
        let place = match place.strip_prefix("kv:") {
            Some(key) => TimestampPlace::Pair(key.to_owned()),
            None => TimestampPlace::Place(Place::parse(FIELD, place, scope)?),
        };
        Ok(Self { place, unit, window })
    }
}
