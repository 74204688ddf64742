//! Reads query strings: every parameter known, each at most once, and every fault named in words about the request.

use std::{borrow::Cow, fmt};

use everhook_core::manage::Fault;
use serde::{
    Deserializer,
    de::{DeserializeOwned, Error, IntoDeserializer, Visitor, value::MapDeserializer},
    forward_to_deserialize_any,
};
use url::form_urlencoded;

/// How many faults are named: a query of a megabyte may have a hundred thousand parameters, and a person reads a few.
const FAULTS_MAX: usize = 20;

/// Reads the parameters of a query string into `T`, whose fields are optional texts.
///
/// # Errors
/// What is wrong with each parameter.
pub fn read<T: DeserializeOwned>(query: &str) -> Result<T, Vec<Fault>> {
    read_named(query, &[])
}

/// The same, where the route also takes parameters of its own making, which are read elsewhere: `also` is how they are called.
///
/// # Errors
/// What is wrong with each parameter.
pub fn read_beside<T: DeserializeOwned>(query: &str, also: &str) -> Result<T, Vec<Fault>> {
    read_named(query, &[also])
}

fn read_named<T: DeserializeOwned>(query: &str, also: &[&str]) -> Result<T, Vec<Fault>> {
    let pairs = || form_urlencoded::parse(query.as_bytes());
    let parameters = MapDeserializer::new(pairs().map(|(name, value)| (name, Value(value))));
    T::deserialize(parameters).map_err(|wrong| wrong.into_faults(pairs().map(|(name, _)| name), also))
}

/// What serde found first.
#[derive(Debug)]
enum Wrong {
    /// A parameter that is not known; those that are.
    Unknown(&'static [&'static str]),
    /// A parameter, by the name of the field, that is given twice or under two names.
    Repeated(&'static str),
    /// Anything else, which fields that are optional texts cannot bring about.
    Other(String),
}

impl Wrong {
    /// All unknown parameters, where one is; otherwise what was found.
    fn into_faults<'a>(self, names: impl Iterator<Item = Cow<'a, str>>, also: &[&str]) -> Vec<Fault> {
        match self {
            Self::Unknown(known) => {
                let reason = format!("is not a parameter of this route, which takes {}", [known, also].concat().join(", "));
                let mut unknown: Vec<String> = Vec::new();
                for name in names.filter(|name| !known.contains(&&**name)) {
                    if unknown.len() < FAULTS_MAX && unknown.iter().all(|other| *other != name) {
                        unknown.push(name.into_owned());
                    }
                }
                unknown.into_iter().map(|name| Fault::new(name, reason.clone())).collect()
            }
            Self::Repeated(name) => vec![Fault::new(name, "is given more than once")],
            Self::Other(reason) => vec![Fault::new("query", reason)],
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Wrong {}

impl Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Other(message.to_string())
    }

    fn unknown_field(_: &str, known: &'static [&'static str]) -> Self {
        Self::Unknown(known)
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::Repeated(field)
    }
}

/// The value of a parameter. It is there, so that an optional text has it.
struct Value<'a>(Cow<'a, str>);

impl<'de> IntoDeserializer<'de, Wrong> for Value<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_string(self.0.into_owned())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple tuple_struct map
        struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq, Eq)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        limit: Option<String>,
        #[serde(alias = "active")]
        enabled: Option<String>,
    }

    fn faults(query: &str) -> Vec<(String, String)> {
        read::<Asked>(query).unwrap_err().into_iter().map(|fault| (fault.field, fault.reason)).collect()
    }

    #[test]
    fn parameters_are_decoded() {
        let asked = |limit: &str| Ok(Asked { limit: Some(limit.to_owned()), enabled: None });
        assert_eq!(read("limit=5"), asked("5"));
        assert_eq!(read("limit=a%20b+c%C3%A9"), asked("a b cé"));
        assert_eq!(read("limit"), asked(""));
        assert_eq!(read::<Asked>("").unwrap(), Asked { limit: None, enabled: None });
        assert_eq!(read::<Asked>("active=true").unwrap().enabled.as_deref(), Some("true"));
    }

    #[test]
    fn every_unknown_parameter_is_named_once_with_those_that_are_known() {
        let reason = "is not a parameter of this route, which takes limit, active, enabled".to_owned();
        assert_eq!(faults("statu=1&limit=2&color=3&statu=4"), [("statu".to_owned(), reason.clone()), ("color".to_owned(), reason)]);
        let many: String = (0..100_000).map(|n| format!("p{n}=&")).collect();
        assert_eq!(faults(&many).len(), FAULTS_MAX);
    }

    #[test]
    fn a_parameter_that_is_given_twice_is_named() {
        for query in ["enabled=true&enabled=true", "enabled=true&active=false"] {
            assert_eq!(faults(query), [("enabled".to_owned(), "is given more than once".to_owned())], "{query}");
        }
    }
}
