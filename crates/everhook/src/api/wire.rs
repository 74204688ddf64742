//! The spelling that all resources share: absent and null fields, times, paths and queries.

use std::{fmt, marker::PhantomData, str::FromStr, sync::Arc};

use axum::{
    extract::{FromRequestParts, Path},
    response::{IntoResponse, Response},
};
use everhook_core::{
    ids::Ref,
    manage::{Change, Fault},
    model::{Scope, Scopes},
    policy::labels::Labels,
    time::Timestamp,
};
use http::{HeaderValue, StatusCode, header, request::Parts};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

use super::{
    Api,
    error::{ApiError, ProblemKind},
    query,
};

/// Answers with a status and a JSON body.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).expect("answers are plain values");
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

/// Reads a query parameter; what is wrong with it is added to the faults.
pub fn read<T>(text: Option<&str>, field: &str, faults: &mut Vec<Fault>, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
    match parse(text?) {
        Ok(value) => Some(value),
        Err(reason) => {
            faults.push(Fault::new(field, reason));
            None
        }
    }
}

/// Reads a time: RFC 3339, or a date, which means its first instant in UTC.
pub fn read_time(text: &str) -> Result<Timestamp, String> {
    let midnight = || Timestamp::parse_rfc3339(&format!("{text}T00:00:00Z"));
    Timestamp::parse_rfc3339(text)
        .or_else(midnight)
        .ok_or_else(|| "must be RFC 3339 (`2026-01-31T12:00:00Z`) or a date (`2026-01-31`)".to_owned())
}

/// The name of a row in a path: its id or its uid. What cannot be a name is not found.
pub struct Named<Id>(pub Ref<Id>);

impl<Id: FromStr> FromRequestParts<Arc<Api>> for Named<Id> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let segment = Path::<String>::from_request_parts(parts, api).await;
        segment.ok().and_then(|segment| Ref::parse(&segment)).map(Self).ok_or_else(|| ApiError::not_found("resource"))
    }
}

/// The id of a row in a path, for rows that have no uid.
pub struct Identified<Id>(pub Id);

impl<Id: FromStr> FromRequestParts<Arc<Api>> for Identified<Id> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let segment = Path::<String>::from_request_parts(parts, api).await;
        segment.ok().and_then(|segment| segment.parse().ok()).map(Self).ok_or_else(|| ApiError::not_found("resource"))
    }
}

/// Query parameters, all known and each at most once.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Api>> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, ApiError> {
        query::read(parts.uri.query().unwrap_or_default()).map(Self).map_err(ApiError::bad_query)
    }
}

/// Query parameters of which those that begin with `label.` name labels; the others are all known, and each comes at most once.
pub struct WithLabels<T>(pub T, pub Labels);

impl<T: DeserializeOwned> FromRequestParts<Arc<Api>> for WithLabels<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        let mut found = Labels::new();
        let mut others = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match name.strip_prefix(LABEL_PREFIX) {
                None => drop(others.append_pair(&name, &value)),
                Some(label) if found.insert(label.to_owned(), value.into_owned()).is_none() => {}
                Some(_) => return Err(ApiError::bad_query(vec![Fault::new(name, "is given more than once")])),
            }
        }
        Ok(Self(query::read_beside(&others.finish(), LABEL_PARAMETER).map_err(ApiError::bad_query)?, found))
    }
}

/// What a query parameter begins with that names a label.
const LABEL_PREFIX: &str = "label.";

/// How such parameters are called where the others are listed.
const LABEL_PARAMETER: &str = "label.<name>";

/// No query parameters at all: what would be ignored is refused.
pub struct NoParams;

impl FromRequestParts<Arc<Api>> for NoParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, ApiError> {
        match parts.uri.query() {
            None | Some("") => Ok(Self),
            Some(_) => Err(ApiError::new(ProblemKind::InvalidQuery, "this route has no query parameters")),
        }
    }
}

/// A field of a change: absent keeps, null clears, a value sets.
pub struct Field<T>(pub Change<T>);

impl<T> Default for Field<T> {
    fn default() -> Self {
        Self(Change::Keep)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::deserialize(deserializer)?;
        Ok(Self(value.map_or(Change::Clear, Change::Set)))
    }
}

impl<T> Field<T> {
    /// The same field of another type.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Change<U> {
        match self.0 {
            Change::Keep => Change::Keep,
            Change::Clear => Change::Clear,
            Change::Set(value) => Change::Set(f(value)),
        }
    }
}

/// A nested object. Arrays are refused, which derived readers would take for the fields in order.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<T, M::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// How many items the longest list may have that a request can bring.
const LIST_ITEMS_MAX: usize = 1_000;

/// How many texts an object may have before it is not even read further: more than any limit allows. Tiny ones take ten times their size in memory.
const TEXTS_MAX: usize = 256;

/// An object of texts, in the order in which they were written.
pub struct Texts(pub Vec<(String, String)>);

impl Texts {
    /// As labels. A repeated name is a repeated field.
    pub fn into_labels(self) -> Result<Labels, ApiError> {
        let mut labels = Labels::new();
        for (key, value) in self.0 {
            if labels.contains_key(&key) {
                return Err(ApiError::bad_request(format!("the label `{}` is given twice", key.escape_debug())));
            }
            labels.insert(key, value);
        }
        Ok(labels)
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TextsVisitor)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Texts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and texts")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Texts, M::Error> {
        let mut texts = Vec::new();
        while let Some(entry) = map.next_entry()? {
            if texts.len() >= TEXTS_MAX {
                return Err(serde::de::Error::custom(format_args!("an object of texts may have at most {TEXTS_MAX} entries")));
            }
            texts.push(entry);
        }
        Ok(Texts(texts))
    }
}

/// Reads a list of which no more is kept than one more than any list may have, which is where it is refused: tiny ones take many times their size.
pub fn bounded_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(ListVisitor(PhantomData))
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut sequence: S) -> Result<Vec<T>, S::Error> {
        let mut list = Vec::new();
        while list.len() <= LIST_ITEMS_MAX
            && let Some(item) = sequence.next_element()?
        {
            list.push(item);
        }
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Ok(list)
    }
}

/// Replaces a value that the caller may not see.
pub const HIDDEN: &str = "***";

/// Headers for a caller with these scopes: their values may be credentials, and are for keys that may manage.
pub fn shown_headers(headers: Vec<(String, String)>, scopes: Scopes) -> Vec<(String, String)> {
    if scopes.allow(Scope::Manage) {
        return headers;
    }
    headers.into_iter().map(|(name, _)| (name, HIDDEN.to_owned())).collect()
}

/// Writes pairs of texts as an object.
pub fn as_object<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rfc_3339_or_a_date() {
        assert_eq!(read_time("2026-01-31"), read_time("2026-01-31T00:00:00Z"));
        assert!(read_time("2026-01-31T01:00:00+01:00").is_ok());
        for bad in ["", "2026", "yesterday", "2026-02-30"] {
            assert!(read_time(bad).is_err(), "{bad}");
        }
    }
}
