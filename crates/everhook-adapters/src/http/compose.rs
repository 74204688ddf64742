//! Writes a request as it goes over the wire. Called by `exchange`, once a request.
//!
//! What is written was checked when it was registered or published. It is checked again here, because a line break in the wrong place is somebody
//! else's request.

use std::{borrow::Cow, io::Write as _};

use bytes::Bytes;
use everhook_core::ports::{OutgoingHeader, OutgoingMethod, OutgoingRequest};

use super::{connection::Message, failure::Failure};

/// Room for what every head has beside its headers: the first line without its path, and `content-length`.
const FIXED_BYTES: usize = 64;

/// Writes the request, headers in the order given. `host` comes first and `content-length`, if it has a body, last.
pub(super) fn compose(request: &OutgoingRequest) -> Result<Message<'_>, Failure> {
    let (path, host) = (request.target.path_and_query(), request.target.authority());
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::unsendable("the path of the URL"));
    }
    if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::no_host());
    }
    let method = match request.method {
        OutgoingMethod::Post | OutgoingMethod::Call => "POST ",
        OutgoingMethod::Get | OutgoingMethod::Fetch => "GET ",
    };
    let bytes: usize = request.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let mut head = Vec::with_capacity(FIXED_BYTES + path.len() + host.len() + bytes);
    for part in [method, path, " HTTP/1.1\r\nhost: ", host, "\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    for (name, value) in &request.headers {
        if !can_be_written(name, value) {
            return Err(Failure::unsendable(&format!("the header `{name}`")));
        }
        // Single bytes are pushed, because that costs no call.
        head.extend_from_slice(name.as_bytes());
        head.push(b':');
        head.push(b' ');
        head.extend_from_slice(value);
        head.push(b'\r');
        head.push(b'\n');
    }
    match request.method {
        OutgoingMethod::Post | OutgoingMethod::Call => {
            write!(head, "content-length: {}\r\n\r\n", request.body.len()).expect("memory takes every byte")
        }
        OutgoingMethod::Get | OutgoingMethod::Fetch => head.extend_from_slice(b"\r\n"),
    }
    Ok(Message { head, body: &request.body })
}

/// Names of ours are static, as the port promises, and need no second look.
fn can_be_written(name: &OutgoingHeader, value: &Bytes) -> bool {
    let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    let is_name = match name {
        Cow::Borrowed(_) => true,
        Cow::Owned(theirs) => !theirs.is_empty() && theirs.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':'),
    };
    // Every byte is looked at, without a way out in between: that way many are looked at at once.
    is_name && !value.iter().fold(false, |found, byte| found | is_control(byte))
}
