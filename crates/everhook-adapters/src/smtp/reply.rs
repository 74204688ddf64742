//! What a mail server replied, bounded and in words.

use bytes::Bytes;
use everhook_core::model::{Cut, Response};
use lettre::transport::smtp::{Error as SmtpError, response::Response as Reply};

/// How much of a reply is kept, as of any answer.
const REPLY_BYTES_KEPT_MAX: usize = 1024;

/// How much of a reply is quoted in an error message, in characters.
const WORDS_CHARS_MAX: usize = 300;

/// The reply by which a mail was taken.
pub(super) fn taken(reply: &Reply) -> Response {
    let text: Vec<&str> = reply.message().collect();
    response(reply.code().into(), &text.join("\n"))
}

/// A reply as it is recorded.
pub(super) fn response(code: u16, text: &str) -> Response {
    let kept = text.floor_char_boundary(REPLY_BYTES_KEPT_MAX);
    let cut = Cut { headers: false, body: kept < text.len() };
    Response { status: code, headers: Vec::new(), body_sample: Bytes::copy_from_slice(&text.as_bytes()[..kept]), cut, retry_after: None }
}

/// What an error says, on one line: the code and the server's own words, or what happened to the connection.
pub(super) fn words(error: &SmtpError) -> String {
    use std::error::Error as _;
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    let said = match error.status() {
        Some(code) => format!("{code} {cause}"),
        None if cause.is_empty() => error.to_string(),
        None if error.is_response() && cause == "incomplete response" => "the connection was closed before it replied".to_owned(),
        None => cause,
    };
    said.chars().take(WORDS_CHARS_MAX).map(|char| if char.is_control() { ' ' } else { char }).collect::<String>().trim().to_owned()
}
