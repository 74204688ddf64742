//! The signed text of a request, as parts that are streamed and never joined.

use std::borrow::Cow;

use aws_lc_rs::digest::{SHA256, digest};

use crate::inbound::{
    Refusal,
    recipe::{Piece, UrlRule},
    request::Facts,
    text::hex,
};

/// A part of the signed text.
#[derive(Debug)]
pub(super) enum Part<'r> {
    Bytes(Cow<'r, [u8]>),
    Secret,
}

/// What the pieces of a template stand for in one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signed<'r> {
    pub(super) facts: &'r Facts<'r>,
    pub(super) timestamp: Option<&'r str>,
    pub(super) id: Option<&'r str>,
    pub(super) app_id: &'r str,
    pub(super) url_rule: &'r UrlRule,
}

impl<'r> Signed<'r> {
    /// The parts of one alternative of the template.
    pub(super) fn parts(&self, pieces: &'r [Piece], url: &'r str) -> Result<Vec<Part<'r>>, Refusal> {
        let mut parts = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match piece {
                Piece::Form => self.push_form(&mut parts)?,
                Piece::Line { name, slot } => {
                    if let Some(value) = self.facts.values.text(*slot) {
                        parts.extend([borrowed(name), borrowed("\n"), text(value), borrowed("\n")]);
                    }
                }
                piece => parts.push(self.part(piece, url)?),
            }
        }
        Ok(parts)
    }

    fn part(&self, piece: &'r Piece, url: &'r str) -> Result<Part<'r>, Refusal> {
        let request = self.facts.request;
        let missing = |part: String| Refusal::MissingPart { part };
        Ok(match piece {
            Piece::Text(literal) => borrowed(literal),
            Piece::Body => Part::Bytes(Cow::Borrowed(request.body.as_ref())),
            Piece::Timestamp => borrowed(self.timestamp.ok_or_else(|| missing("a timestamp".to_owned()))?),
            Piece::Id => borrowed(self.id.ok_or_else(|| missing("an id".to_owned()))?),
            Piece::Url => borrowed(url),
            Piece::Method => borrowed(request.method),
            Piece::Secret => Part::Secret,
            Piece::AppId => borrowed(self.app_id),
            Piece::Crc32 => Part::Bytes(Cow::Owned(crc32(request.body).to_string().into_bytes())),
            Piece::Sha256Hex => Part::Bytes(Cow::Owned(hex(digest(&SHA256, request.body).as_ref()).into_bytes())),
            Piece::Header(name) => match request.header(name) {
                Ok(Some(value)) => borrowed(value),
                Ok(None) => return Err(missing(format!("the header `{name}`"))),
                Err(fault) => return Err(Refusal::UnreadableSignature { reason: fault.describe(name) }),
            },
            Piece::Value(slot) => self.facts.values.text(*slot).map_or(borrowed(""), text),
            Piece::FormField(name) => borrowed(self.facts.field(name)?.ok_or_else(|| missing(format!("the field `{name}`")))?),
            Piece::Form | Piece::Line { .. } => borrowed(""),
        })
    }

    /// Names and values, sorted and without repetitions. A body that is no form is signed through its hash in the URL, or not at all.
    fn push_form(&self, parts: &mut Vec<Part<'r>>) -> Result<(), Refusal> {
        let request = self.facts.request;
        if !request.is_form() {
            let Some(name) = &self.url_rule.body_hash else {
                return Err(Refusal::UnreadableBody { reason: "the body is no form, by its content type".to_owned() });
            };
            let hash = request.parameter(name).ok_or_else(|| Refusal::MissingPart { part: format!("the parameter `{name}`") })?;
            return if hash.eq_ignore_ascii_case(&hex(digest(&SHA256, request.body).as_ref())) {
                Ok(())
            } else {
                Err(Refusal::BadSignature)
            };
        }
        let mut fields: Vec<(&'r str, &'r str)> = self.facts.form().collect();
        fields.sort_unstable();
        fields.dedup();
        parts.extend(fields.into_iter().flat_map(|(name, value)| [borrowed(name), borrowed(value)]));
        Ok(())
    }
}

fn borrowed(text: &str) -> Part<'_> {
    Part::Bytes(Cow::Borrowed(text.as_bytes()))
}

fn text(value: Cow<'_, str>) -> Part<'_> {
    Part::Bytes(match value {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    })
}

/// The ways in which the URL may have been written when it was signed.
pub(super) fn urls<'r>(rule: &UrlRule, url: &'r str) -> Vec<Cow<'r, str>> {
    let mut urls = vec![if rule.decodes { Cow::Owned(decoded(url)) } else { Cow::Borrowed(url) }];
    if rule.either_port {
        urls.extend(other_port(url).map(Cow::Owned));
    }
    urls
}

/// The URL without its port, or with the default one.
fn other_port(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let default = match scheme {
        "https" => "443",
        "http" => "80",
        _ => return None,
    };
    Some(match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("{scheme}://{host}{path}"),
        _ => format!("{scheme}://{authority}:{default}{path}"),
    })
}

/// Decodes the percent-codes that HubSpot lists, and no others.
fn decoded(url: &str) -> String {
    const CODES: [(&str, char); 12] = [
        ("%3A", ':'),
        ("%2F", '/'),
        ("%3F", '?'),
        ("%40", '@'),
        ("%21", '!'),
        ("%24", '$'),
        ("%27", '\''),
        ("%28", '('),
        ("%29", ')'),
        ("%2A", '*'),
        ("%2C", ','),
        ("%3B", ';'),
    ];
    let (mut out, mut rest) = (String::with_capacity(url.len()), url);
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let code = CODES.iter().find(|(code, _)| rest[at..].get(..3).is_some_and(|found| found.eq_ignore_ascii_case(code)));
        match code {
            Some((code, c)) => {
                out.push(*c);
                rest = &rest[at + code.len()..];
            }
            None => {
                out.push('%');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// CRC-32 as zlib computes it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| CRC_TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};
