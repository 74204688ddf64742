//! A request as it came in, borrowed: nothing of it is copied to be verified.

use std::borrow::Cow;

use bytes::Bytes;
use url::form_urlencoded;

use super::{Refusal, document::Values};

/// What a provider sent.
#[derive(Clone, Copy, Debug)]
pub struct InboundRequest<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The URL as the provider called it: the source's `public_url`, or scheme, host, path and query.
    pub url: &'a str,
    /// The query without its `?`.
    pub query: &'a str,
    /// What stands behind the source in the path: `/in/{source}/{event_type}`.
    pub path_type: Option<&'a str>,
    /// Names in lower case, in order; one that was sent twice is there twice.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body, whole.
    pub body: &'a Bytes,
    /// Whether a person has just armed the source to take a key from a handshake.
    pub awaiting_handshake: bool,
}

/// A header that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    /// It appears twice, with different values.
    Repeated,
    /// It is not text.
    NotText,
}

impl HeaderFault {
    /// The rest of a sentence.
    pub(super) fn describe(self, name: &str) -> String {
        match self {
            Self::Repeated => format!("the header `{name}` appears twice, with different values"),
            Self::NotText => format!("the header `{name}` is not text"),
        }
    }
}

impl<'a> InboundRequest<'a> {
    /// The value of a header. One that is repeated must say the same each time: readers differ in which of two they take.
    pub(super) fn header(&self, name: &str) -> Result<Option<&'a str>, HeaderFault> {
        let mut values = self.headers.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        let Some(value) = values.next() else { return Ok(None) };
        if values.any(|other| other != value) {
            return Err(HeaderFault::Repeated);
        }
        std::str::from_utf8(value).map(Some).map_err(|_| HeaderFault::NotText)
    }

    /// The value of a parameter of the query. One that is repeated with different values is none.
    pub(super) fn parameter(&self, name: &str) -> Option<Cow<'a, str>> {
        let mut values = form_urlencoded::parse(self.query.as_bytes()).filter(|(given, _)| given == name).map(|(_, value)| value);
        let value = values.next()?;
        values.all(|other| other == value).then_some(value)
    }

    /// Whether the body is a form, by its content type.
    pub(super) fn is_form(&self) -> bool {
        const FORM: &str = "application/x-www-form-urlencoded";
        let content_type = self.header("content-type").ok().flatten().unwrap_or("");
        let media_type = content_type.split(';').next().unwrap_or("").trim();
        media_type.eq_ignore_ascii_case(FORM)
    }
}

/// How many fields of a form are read: Twilio sends some dozens.
const FORM_FIELDS_MAX: usize = 1_000;

type Fields<'r> = Vec<(Cow<'r, str>, Cow<'r, str>)>;

/// A request with what was read of its body: the values at the recipe's pointers, and the fields of a form.
#[derive(Debug)]
pub(super) struct Facts<'r> {
    pub(super) request: &'r InboundRequest<'r>,
    /// Values of what is signed: the whole body, or one item.
    pub(super) values: Values<'r>,
    fields: Fields<'r>,
}

impl<'r> Facts<'r> {
    /// Of a body that is no form, or whose fields nobody asks for.
    pub(super) fn new(request: &'r InboundRequest<'r>, values: Values<'r>) -> Self {
        Self { request, values, fields: Vec::new() }
    }

    /// Of a form; without fields where the body is none, by its content type.
    pub(super) fn of_form(request: &'r InboundRequest<'r>) -> Result<Self, Refusal> {
        let body: &[u8] = if request.is_form() { request.body } else { &[] };
        let fields: Fields<'r> = form_urlencoded::parse(body).take(FORM_FIELDS_MAX + 1).collect();
        if fields.len() > FORM_FIELDS_MAX {
            return Err(Refusal::UnreadableBody { reason: format!("the form has more than {FORM_FIELDS_MAX} fields") });
        }
        Ok(Self { request, values: Values::default(), fields })
    }

    /// The names and values of the form.
    pub(super) fn form(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// The value of a field. One that is there twice with different values is refused.
    pub(super) fn field(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.form().filter(|(given, _)| *given == name).map(|(_, value)| value);
        let Some(value) = values.next() else { return Ok(None) };
        if values.any(|other| other != value) {
            return Err(Refusal::UnreadableBody { reason: format!("the field `{name}` appears twice, with different values") });
        }
        Ok(Some(value))
    }
}
