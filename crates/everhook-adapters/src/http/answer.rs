//! Reads answers: the head, what of it is kept, and where the body ends. Called by `exchange` with whatever has come so far.
//!
//! Pure, and strict where two readers could disagree about where an answer ends: the next one on the connection begins there. What only another
//! reader might read differently (bare line feeds, trailers, a length said twice) costs the connection; what contradicts itself is no answer
//! (decision 0038).

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
/// How many bytes of line breaks may stand before an answer: one, as old servers leave behind a body.
const LEADING_BREAK_BYTES_MAX: usize = 2;
/// The longest line that says a chunk's size. Extensions share it; servers send none.
const CHUNK_LINE_BYTES_MAX: usize = 256;
/// As many hexadecimal digits as a `u64` has.
const CHUNK_SIZE_DIGITS_MAX: usize = 16;

/// Why bytes are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// They do not follow the protocol.
    NotHttp,
    /// Their headers contradict each other about where the answer ends.
    UnclearEnd,
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
    /// Whether the connection can be used again: the server allows it, and no reader could take the head for another one.
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
    /// The empty line behind the last chunk.
    LastLineBreak,
}

/// What a look at received bytes came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// How many of them are done with.
    pub(super) bytes: usize,
    /// Whether the body ended with them.
    pub(super) end: End,
}

/// Whether a body has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// More of it is to come.
    NotYet,
    /// The next answer begins behind it.
    Exact,
    /// What follows is passed over with the connection: trailers, or a chunk's size with more beside it than a size.
    Odd,
}

/// Reads the head of an answer; `None` if it has not come whole yet.
///
/// Interim answers (`100 Continue`, `103 Early Hints`) are heads like others: the caller reads on behind them.
pub(super) fn read_head(received: &[u8]) -> Result<Option<Head>, Fault> {
    let leading_break_bytes = received.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    if leading_break_bytes > LEADING_BREAK_BYTES_MAX {
        return Err(Fault::NotHttp);
    }
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; HEADERS_MAX];
    let mut answer = httparse::Response::new(&mut []);
    match ParserConfig::default().parse_response_with_uninit_headers(&mut answer, received, &mut headers) {
        Ok(Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => Err(Fault::TooLarge),
        Err(_) => Err(Fault::NotHttp),
        Ok(Status::Complete(bytes)) => {
            let (Some(status @ 100..), Some(minor)) = (answer.code, answer.version) else { return Err(Fault::NotHttp) };
            let says = HeaderFacts::read(answer.headers)?;
            Ok(Some(Head {
                bytes,
                framing: says.framing(status, minor)?,
                keeps_alive: says.keeps_alive(status, minor) && leading_break_bytes == 0 && !has_bare_line_feed(&received[..bytes]),
                response: keep(status, answer.headers),
            }))
        }
    }
}

/// Whether a line of a head ends without a carriage return: some readers take that for a line's end, and some do not.
fn has_bare_line_feed(head: &[u8]) -> bool {
    // Every byte is looked at, without a way out in between: that way many are looked at at once. No head begins with a line feed here.
    head.iter().zip(&head[1..]).fold(false, |found, (before, byte)| found | (*byte == b'\n' && *before != b'\r'))
}

/// What an answer's headers say about its end and the connection's.
#[derive(Default)]
struct HeaderFacts {
    length: Option<u64>,
    /// Whether the length is said more than once, each time the same.
    repeats_length: bool,
    /// Whether the last coding is `chunked`, if there is a coding.
    is_chunked: Option<bool>,
    close: bool,
    keep_alive: bool,
}

impl HeaderFacts {
    fn read(headers: &[Header<'_>]) -> Result<Self, Fault> {
        let mut says = Self::default();
        for Header { name, value } in headers {
            // By length first: few headers are any of these.
            match name.len() {
                14 if name.eq_ignore_ascii_case("content-length") => {
                    for length in elements(value) {
                        let length = read_length(length)?;
                        says.repeats_length = says.length.is_some();
                        // Two lengths are an attempt to have two readers disagree.
                        if says.length.replace(length).is_some_and(|other| other != length) {
                            return Err(Fault::UnclearEnd);
                        }
                    }
                }
                17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                    for coding in elements(value) {
                        // `chunked` comes last and once, or its end is not the body's.
                        if says.is_chunked == Some(true) || coding.is_empty() {
                            return Err(Fault::UnclearEnd);
                        }
                        says.is_chunked = Some(coding.eq_ignore_ascii_case(b"chunked"));
                    }
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
            // The answer proper comes behind it: a body in between would be read as that.
            _ if matches!(status, 100..=199) && self.announces_body() => Err(Fault::UnclearEnd),
            _ if has_no_body(status) => Ok(Framing::Length(0)),
            // HTTP/1.0 knows no codings: such an answer passed somebody who did not understand it.
            (Some(_), _) if minor == 0 => Err(Fault::UnclearEnd),
            // A length, and a coding that does not say its own end.
            (Some(false), Some(_)) => Err(Fault::UnclearEnd),
            (Some(true), _) => Ok(Framing::Chunked(Chunk::Size)),
            (Some(false), _) | (None, None) => Ok(Framing::UntilClose),
            (None, Some(length)) => Ok(Framing::Length(length)),
        }
    }

    /// One that says its length twice over, announces a body that its status cannot have, or changes the protocol, is not trusted with another
    /// request: its body may follow, and would be read as the next answer.
    fn keeps_alive(&self, status: u16, minor: u8) -> bool {
        let is_offered = !self.close && (minor == 1 || self.keep_alive);
        let says_end_twice = self.repeats_length || (self.is_chunked.is_some() && self.length.is_some());
        let has_impossible_body = has_no_body(status) && self.announces_body();
        is_offered && status != 101 && !says_end_twice && !has_impossible_body
    }

    /// A length of zero announces nothing.
    fn announces_body(&self) -> bool {
        self.is_chunked.is_some() || self.length.is_some_and(|length| length > 0)
    }
}

/// Whether answers with this status end with their head.
const fn has_no_body(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

/// The elements of a list in a header.
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

fn read_length(text: &[u8]) -> Result<u64, Fault> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or(Fault::UnclearEnd)
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
                Ok(Taken { bytes: received.len(), end: End::NotYet })
            }
            Self::Length(left) => {
                let part = first(received, *left);
                *left -= part.len() as u64;
                data(part);
                Ok(Taken { bytes: part.len(), end: if *left == 0 { End::Exact } else { End::NotYet } })
            }
            Self::Chunked(chunk) => {
                let mut bytes = 0;
                loop {
                    let taken = chunk.take(&received[bytes..], &mut data)?;
                    bytes += taken.bytes;
                    if taken.bytes == 0 || taken.end != End::NotYet {
                        return Ok(Taken { bytes, end: taken.end });
                    }
                }
            }
        }
    }
}

impl Chunk {
    /// Takes one step; no bytes if too little has come for it.
    fn take(&mut self, received: &[u8], data: &mut impl FnMut(&[u8])) -> Result<Taken, Fault> {
        let more = |bytes| Ok(Taken { bytes, end: End::NotYet });
        match self {
            Self::Size => match read_chunk_line(received)? {
                ChunkLine::Size { bytes, size } => {
                    *self = if size == 0 { Self::LastLineBreak } else { Self::Data(size) };
                    more(bytes)
                }
                ChunkLine::Partial => more(0),
                ChunkLine::Odd => Ok(Taken { bytes: 0, end: End::Odd }),
            },
            Self::Data(left) => {
                let part = first(received, *left);
                *left -= part.len() as u64;
                data(part);
                if *left == 0 {
                    *self = Self::LineBreak;
                }
                more(part.len())
            }
            Self::LineBreak => match received {
                [b'\r', b'\n', ..] => {
                    *self = Self::Size;
                    more(2)
                }
                [] | [b'\r'] => more(0),
                _ => Err(Fault::NotHttp),
            },
            // All data has come. Fields in place of the line break tell nothing that is kept.
            Self::LastLineBreak => match received {
                [b'\r', b'\n', ..] => Ok(Taken { bytes: 2, end: End::Exact }),
                [] | [b'\r'] => more(0),
                _ => Ok(Taken { bytes: 0, end: End::Odd }),
            },
        }
    }
}

/// What a line before a chunk says.
enum ChunkLine {
    /// It has not come whole yet.
    Partial,
    /// The chunk's size, and how many bytes the line took.
    Size { bytes: usize, size: u64 },
    /// A size with blanks behind it, or a line that is too long.
    Odd,
}

fn read_chunk_line(received: &[u8]) -> Result<ChunkLine, Fault> {
    let digits = received.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if digits > CHUNK_SIZE_DIGITS_MAX || (digits == 0 && !received.is_empty()) {
        return Err(Fault::NotHttp);
    }
    let (size, rest) = received.split_at(digits);
    let Some(end) = rest.iter().take(CHUNK_LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
        return Ok(if rest.len() < CHUNK_LINE_BYTES_MAX { ChunkLine::Partial } else { ChunkLine::Odd });
    };
    match &rest[..end] {
        [b'\r'] => {}
        [b';', extension @ .., b'\r'] if !extension.contains(&b'\r') => {}
        [b' ' | b'\t', .., b'\r'] => return Ok(ChunkLine::Odd),
        _ => return Err(Fault::NotHttp),
    }
    let size = std::str::from_utf8(size).ok().and_then(|size| u64::from_str_radix(size, 16).ok()).ok_or(Fault::NotHttp)?;
    Ok(ChunkLine::Size { bytes: digits + end + 1, size })
}

/// The first of the bytes, as many as are left to come.
fn first(received: &[u8], left: u64) -> &[u8] {
    &received[..usize::try_from(left).map_or(received.len(), |left| left.min(received.len()))]
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
