//! Reads answers: the head, what of it is kept, and where the body ends. Called by `exchange` with whatever has come so far.
//!
//! Pure, and strict where two readers could disagree about where an answer ends: the next one on the connection begins there.

use std::mem::MaybeUninit;

use bytes::{BufMut as _, Bytes, BytesMut};
use everhook_core::{
    model::{Cut, Response},
    policy::retry_after,
};
use httparse::{Header, ParserConfig, Status};

/// The most headers of an answer.
const HEADERS_MAX: usize = 100;
/// How many headers of an answer are kept, and how many bytes of names and values in all.
const HEADERS_KEPT_MAX: usize = 64;
const HEADER_BYTES_KEPT_MAX: usize = 8 * 1024;

/// Why bytes are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// They do not follow the protocol.
    NotHttp,
    /// They would be more than is read.
    TooLarge,
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    /// What is kept of it.
    pub(super) response: Response,
    /// How many bytes it took.
    pub(super) bytes: usize,
    /// Where the body ends.
    pub(super) framing: Framing,
    /// Whether the server lets the connection be used again.
    pub(super) keeps_alive: bool,
}

/// Where a body ends, and how far it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes.
    Length(u64),
    /// After its last chunk.
    Chunked(Chunk),
    /// With the connection.
    UntilClose,
}

/// What comes next of a body in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// A chunk's size.
    Size,
    /// So many bytes of a chunk.
    Data(u64),
    /// The line break behind a chunk.
    LineBreak,
    /// Fields behind the last chunk, up to an empty line.
    Trailer,
}

/// What a look at received bytes came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// How many of them are done with.
    pub(super) bytes: usize,
    /// Whether the body ended with them.
    pub(super) is_end: bool,
}

/// Reads the head of an answer; `None` if it has not come whole yet.
///
/// Interim answers (`100 Continue`, `103 Early Hints`) are heads like others: the caller reads on behind them.
pub(super) fn read_head(received: &[u8]) -> Result<Option<Head>, Fault> {
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; HEADERS_MAX];
    let mut answer = httparse::Response::new(&mut []);
    match ParserConfig::default().parse_response_with_uninit_headers(&mut answer, received, &mut headers) {
        Ok(Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => Err(Fault::TooLarge),
        Err(_) => Err(Fault::NotHttp),
        Ok(Status::Complete(bytes)) => {
            let (Some(status), Some(minor)) = (answer.code, answer.version) else { return Err(Fault::NotHttp) };
            let says = Says::read(answer.headers)?;
            Ok(Some(Head {
                bytes,
                framing: says.framing(status, minor)?,
                keeps_alive: says.keeps_alive(status, minor),
                response: keep(status, answer.headers),
            }))
        }
    }
}

/// What an answer's headers say about its end and the connection's.
#[derive(Default)]
struct Says {
    length: Option<u64>,
    /// Whether the last coding is `chunked`, if there is a coding.
    is_chunked: Option<bool>,
    close: bool,
    keep_alive: bool,
}

impl Says {
    fn read(headers: &[Header<'_>]) -> Result<Self, Fault> {
        let mut says = Self::default();
        for Header { name, value } in headers {
            // By length first: few headers are any of these.
            match name.len() {
                14 if name.eq_ignore_ascii_case("content-length") => {
                    for length in elements(value) {
                        let length = read_length(length)?;
                        // Two lengths are an attempt to have two readers disagree.
                        if says.length.replace(length).is_some_and(|other| other != length) {
                            return Err(Fault::NotHttp);
                        }
                    }
                }
                17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                    let last = elements(value).last().unwrap_or_default();
                    says.is_chunked = Some(last.eq_ignore_ascii_case(b"chunked"));
                }
                10 if name.eq_ignore_ascii_case("connection") => {
                    says.close |= elements(value).any(|element| element.eq_ignore_ascii_case(b"close"));
                    says.keep_alive |= elements(value).any(|element| element.eq_ignore_ascii_case(b"keep-alive"));
                }
                _ => {}
            }
        }
        Ok(says)
    }

    fn framing(&self, status: u16, minor: u8) -> Result<Framing, Fault> {
        match (self.is_chunked, self.length) {
            _ if matches!(status, 100..=199 | 204 | 304) => Ok(Framing::Length(0)),
            // HTTP/1.0 knows no codings: such an answer passed somebody who did not understand it.
            (Some(_), _) if minor == 0 => Err(Fault::NotHttp),
            (Some(true), _) => Ok(Framing::Chunked(Chunk::Size)),
            (Some(false), _) | (None, None) => Ok(Framing::UntilClose),
            (None, Some(length)) => Ok(Framing::Length(length)),
        }
    }

    /// One that says its length twice over, or changes the protocol, is not trusted with another request.
    fn keeps_alive(&self, status: u16, minor: u8) -> bool {
        let is_offered = !self.close && (minor == 1 || self.keep_alive);
        is_offered && status != 101 && !(self.is_chunked.is_some() && self.length.is_some())
    }
}

/// The elements of a list in a header.
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

fn read_length(text: &[u8]) -> Result<u64, Fault> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or(Fault::NotHttp)
}

/// What is kept of an answer's head.
///
/// The values are copied into one piece of memory, which they share.
fn keep(status: u16, headers: &[Header<'_>]) -> Response {
    let mut values = BytesMut::with_capacity(kept(headers).map(|header| header.value.len()).sum());
    let mut kept_headers = Vec::with_capacity(headers.len().min(HEADERS_KEPT_MAX));
    let mut asked = None;
    for header in kept(headers) {
        values.put_slice(header.value);
        let name = header.name.to_ascii_lowercase();
        if asked.is_none() && name == "retry-after" {
            asked = std::str::from_utf8(header.value).ok().and_then(retry_after::parse);
        }
        kept_headers.push((name, values.split().freeze()));
    }
    let cut = Cut { headers: kept_headers.len() < headers.len(), body: false };
    Response { status, headers: kept_headers, body_sample: Bytes::new(), cut, retry_after: asked }
}

/// The headers that fit: one that is too long for what is left is passed over.
fn kept<'a, 'h>(headers: &'a [Header<'h>]) -> impl Iterator<Item = &'a Header<'h>> {
    let mut left = HEADER_BYTES_KEPT_MAX;
    let fits = move |header: &&Header<'_>| match left.checked_sub(header.name.len() + header.value.len()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    headers.iter().filter(fits).take(HEADERS_KEPT_MAX)
}

impl Framing {
    /// Whether nothing follows the head.
    pub(super) fn is_empty(self) -> bool {
        self == Self::Length(0)
    }

    /// Reads as much of a body as has come, and hands its data on. What was not taken is to be shown again, with more behind it.
    pub(super) fn take(&mut self, received: &[u8], mut data: impl FnMut(&[u8])) -> Result<Taken, Fault> {
        match self {
            Self::UntilClose => {
                data(received);
                Ok(Taken { bytes: received.len(), is_end: false })
            }
            Self::Length(left) => {
                let part = first(received, *left);
                *left -= part.len() as u64;
                data(part);
                Ok(Taken { bytes: part.len(), is_end: *left == 0 })
            }
            Self::Chunked(chunk) => {
                let mut bytes = 0;
                while *chunk != Chunk::Trailer {
                    match chunk.take(&received[bytes..], &mut data)? {
                        Some(taken) => bytes += taken,
                        None => return Ok(Taken { bytes, is_end: false }),
                    }
                }
                take_trailer(received, bytes)
            }
        }
    }
}

impl Chunk {
    /// Takes one step; `None` if too little has come for it.
    fn take(&mut self, received: &[u8], data: &mut impl FnMut(&[u8])) -> Result<Option<usize>, Fault> {
        match self {
            // The library takes a line without a number for a last chunk.
            Self::Size if received.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) => Err(Fault::NotHttp),
            Self::Size => {
                let Status::Complete((bytes, size)) = httparse::parse_chunk_size(received).map_err(|_| Fault::NotHttp)? else {
                    return Ok(None);
                };
                *self = if size == 0 { Self::Trailer } else { Self::Data(size) };
                Ok(Some(bytes))
            }
            Self::Data(left) => {
                let part = first(received, *left);
                *left -= part.len() as u64;
                data(part);
                if *left == 0 {
                    *self = Self::LineBreak;
                }
                Ok((!part.is_empty()).then_some(part.len()))
            }
            Self::LineBreak => match received {
                [b'\r', b'\n', ..] => {
                    *self = Self::Size;
                    Ok(Some(2))
                }
                [] | [b'\r'] => Ok(None),
                _ => Err(Fault::NotHttp),
            },
            Self::Trailer => Ok(None),
        }
    }
}

/// Passes over fields behind the last chunk, line by line.
fn take_trailer(received: &[u8], from: usize) -> Result<Taken, Fault> {
    let mut bytes = from;
    while let Some(end) = received[bytes..].iter().position(|byte| *byte == b'\n') {
        let line = &received[bytes..bytes + end];
        bytes += end + 1;
        if line.is_empty() || line == b"\r" {
            return Ok(Taken { bytes, is_end: true });
        }
    }
    Ok(Taken { bytes, is_end: false })
}

/// The first of the bytes, as many as are left to come.
fn first(received: &[u8], left: u64) -> &[u8] {
    &received[..usize::try_from(left).map_or(received.len(), |left| left.min(received.len()))]
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
