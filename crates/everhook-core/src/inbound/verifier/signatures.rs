//! The signatures and the timestamp that a request carries.

use std::borrow::Cow;

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};

use crate::{
    inbound::{
        Refusal,
        recipe::{Encoding, Format, Place, SIGNATURES_MAX, SignaturePlace, TimestampPlace, TimestampRule, Unit},
        request::Facts,
        text::{decode_hex, number},
    },
    time::Timestamp,
};

/// The texts that stand at a place: several where it names several headers.
pub(super) fn texts<'r>(place: &Place, facts: &'r Facts<'r>) -> Result<Vec<Cow<'r, str>>, Refusal> {
    let header = |name: &str| {
        facts
            .request
            .header(name)
            .map_err(|fault| Refusal::UnreadableSignature { reason: fault.describe(name) })
            .map(|value| value.map(Cow::Borrowed))
    };
    Ok(match place {
        Place::Headers(names) => names.iter().filter_map(|name| header(name).transpose()).collect::<Result<_, _>>()?,
        Place::Family { prefix, last } => {
            (1..=*last).filter_map(|number| header(&format!("{prefix}{number}")).transpose()).collect::<Result<_, _>>()?
        }
        Place::Query(name) => facts.request.parameter(name).into_iter().collect(),
        Place::Form(name) => facts.field(name)?.map(Cow::Borrowed).into_iter().collect(),
        Place::Body { slot, .. } => facts.values.text(*slot).into_iter().collect(),
    })
}

/// The first text at a place.
pub(super) fn text<'r>(place: &Place, facts: &'r Facts<'r>) -> Result<Option<Cow<'r, str>>, Refusal> {
    Ok(texts(place, facts)?.into_iter().next())
}

/// Every signature of a request as text. `None`: the request has none.
pub(super) fn signatures<'r>(sig: &'r SignaturePlace, facts: &'r Facts<'r>) -> Result<Option<Vec<Cow<'r, str>>>, Refusal> {
    let values = texts(&sig.place, facts)?;
    if values.is_empty() {
        return Ok(None);
    }
    let mut found = Vec::new();
    for value in values {
        match value {
            Cow::Borrowed(text) => found.extend(split(&sig.format, text).map(Cow::Borrowed)),
            Cow::Owned(text) => found.extend(split(&sig.format, &text).map(|part| Cow::Owned(part.to_owned()))),
        }
        // A family is bounded by its own number.
        if found.len() > SIGNATURES_MAX && !matches!(sig.place, Place::Family { .. }) {
            return Err(Refusal::UnreadableSignature { reason: format!("there are more than {SIGNATURES_MAX} signatures") });
        }
    }
    if found.is_empty() {
        return Err(Refusal::UnreadableSignature { reason: format!("the {} holds no signature that could be read", sig.place.describe()) });
    }
    Ok(Some(found))
}

/// The signatures in one value. Looks at one more than is allowed, so that a longer list is noticed and not read.
fn split<'t>(format: &'t Format, value: &'t str) -> impl Iterator<Item = &'t str> + use<'t> {
    let (separator, value) = match format {
        Format::Whole { .. } => (None, value),
        Format::Pairs { separator, .. } | Format::List { separator, .. } => (Some(*separator), value),
    };
    let parts = value.split(move |c| Some(c) == separator);
    parts.filter_map(move |part| one(format, part)).take(SIGNATURES_MAX + 1)
}

fn one<'t>(format: &'t Format, part: &'t str) -> Option<&'t str> {
    match format {
        Format::Whole { prefix } => part.strip_prefix(prefix.as_str()),
        Format::Pairs { key, .. } => part.trim().split_once('=').filter(|(name, _)| name == key).map(|(_, value)| value),
        Format::List { after: Some(after), .. } => part.split_once(*after).map(|(_, value)| value),
        Format::List { prefix, .. } => part.trim().strip_prefix(prefix.as_str()),
    }
    .filter(|signature| !signature.is_empty())
}

/// The bytes of a signature. One encoding has one spelling, but for the case of hexadecimal digits.
pub(super) fn decode(encoding: Encoding, text: &str) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Hex => decode_hex(text),
        Encoding::Base64 => BASE64_STANDARD.decode(text).ok(),
        Encoding::Base64Url => BASE64_URL_SAFE_NO_PAD.decode(text).ok(),
    }
}

/// The timestamp as it was written, for the signed text, and as an instant.
pub(super) fn timestamp<'r>(
    rule: &TimestampRule,
    sig: &SignaturePlace,
    facts: &'r Facts<'r>,
) -> Result<(Cow<'r, str>, Timestamp), Refusal> {
    let (text, place) = match &rule.place {
        TimestampPlace::Place(place) => (time_text(place, facts)?, place.describe()),
        TimestampPlace::Pair(key) => (pair(key, sig, facts)?, format!("`{key}=` in the {}", sig.place.describe())),
    };
    let text = text.ok_or_else(|| Refusal::UnreadableTimestamp { reason: format!("there is no {place}") })?;
    match instant(rule.unit, &text) {
        Some(at) => Ok((text, at)),
        None => Err(Refusal::UnreadableTimestamp { reason: format!("the {place} is no timestamp; expected {}", rule.unit.describe()) }),
    }
}

/// A repeated header is the timestamp's fault here, not the signature's.
fn time_text<'r>(place: &Place, facts: &'r Facts<'r>) -> Result<Option<Cow<'r, str>>, Refusal> {
    text(place, facts).map_err(|refusal| match refusal {
        Refusal::UnreadableSignature { reason } => Refusal::UnreadableTimestamp { reason },
        other => other,
    })
}

/// The value of a pair beside the signatures. Two that differ are refused.
fn pair<'r>(key: &str, sig: &SignaturePlace, facts: &'r Facts<'r>) -> Result<Option<Cow<'r, str>>, Refusal> {
    let Format::Pairs { separator, .. } = &sig.format else { return Ok(None) };
    let Some(value) = text(&sig.place, facts)? else { return Ok(None) };
    let mut values =
        value.split(*separator).filter_map(|part| part.trim().split_once('=')).filter(|(name, _)| *name == key).map(|(_, value)| value);
    let Some(first) = values.next() else { return Ok(None) };
    if values.any(|other| other != first) {
        return Err(Refusal::UnreadableTimestamp { reason: format!("`{key}=` appears twice, with different values") });
    }
    Ok(Some(Cow::Owned(first.to_owned())))
}

fn instant(unit: Unit, text: &str) -> Option<Timestamp> {
    match unit {
        Unit::Seconds => Some(Timestamp::from_secs(i64::try_from(number(text)?).ok()?)),
        Unit::Milliseconds => Some(Timestamp::from_micros(i64::try_from(number(text)?).ok()?.saturating_mul(1_000))),
        Unit::Rfc3339 => Timestamp::parse_rfc3339(text),
        Unit::HttpDate => {
            let parsed = jiff::fmt::rfc2822::parse(text).ok()?;
            Some(Timestamp::from_micros(parsed.timestamp().as_microsecond()))
        }
    }
}

impl Unit {
    const fn describe(self) -> &'static str {
        match self {
            Self::Seconds => "seconds since 1970, digits only",
            Self::Milliseconds => "milliseconds since 1970, digits only",
            Self::Rfc3339 => "RFC 3339, such as 2026-01-31T12:00:00Z",
            Self::HttpDate => "an HTTP date, such as Tue, 15 Nov 1994 08:12:31 GMT",
        }
    }
}
