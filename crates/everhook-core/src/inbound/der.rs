//! As much of DER as is needed to take the public key and the dates out of a certificate, and to write an RSA key.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::time::Timestamp;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// What is needed of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    /// Its public key with the algorithm, as DER.
    pub(super) public_key: Vec<u8>,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

impl Certificate {
    /// Reads the first certificate of a PEM text, which must begin with it: anything else may be an answer that quotes one.
    pub(super) fn parse_pem(pem: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(pem).ok()?;
        let rest = text.trim_start().strip_prefix("-----BEGIN CERTIFICATE-----")?;
        let (body, _) = rest.split_once("-----END CERTIFICATE-----")?;
        let body: String = body.split_ascii_whitespace().collect();
        Self::parse(&BASE64_STANDARD.decode(body).ok()?)
    }

    /// `Certificate ::= SEQUENCE { SEQUENCE { [0] version, serial, algorithm, issuer, validity, subject, key, … }, … }`
    fn parse(der: &[u8]) -> Option<Self> {
        let mut outer = Reader(der).inside(SEQUENCE)?;
        let mut fields = outer.inside(SEQUENCE)?;
        fields.skip_if(VERSION);
        fields.next_of(INTEGER)?;
        fields.next_of(SEQUENCE)?;
        fields.next_of(SEQUENCE)?;
        let mut validity = fields.inside(SEQUENCE)?;
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        fields.next_of(SEQUENCE)?;
        let public_key = fields.next_of(SEQUENCE)?.whole.to_vec();
        Some(Self { public_key, not_before, not_after })
    }
}

/// An RSA public key: `SEQUENCE { INTEGER modulus, INTEGER exponent }`.
pub(super) fn rsa_public_key(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    element(SEQUENCE, &[integer(modulus), integer(exponent)].concat())
}

/// A positive integer has no needless zeros, and one where its first bit is set.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let digits = &bytes[zeros.min(bytes.len().saturating_sub(1))..];
    let sign: &[u8] = if digits.first().is_none_or(|byte| byte & 0x80 != 0) { &[0] } else { &[] };
    element(INTEGER, &[sign, digits].concat())
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let digits = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    match (content.len(), u8::try_from(digits.len())) {
        (short @ 0..0x80, _) => [&[tag, u8::try_from(short).unwrap_or(0)], content].concat(),
        (_, Ok(count)) => [&[tag, 0x80 | count], digits, content].concat(),
        (_, Err(_)) => Vec::new(),
    }
}

/// What is left to read.
struct Reader<'d>(&'d [u8]);

/// One element: all of it, and what is inside.
struct Element<'d> {
    tag: u8,
    whole: &'d [u8],
    content: &'d [u8],
}

impl<'d> Reader<'d> {
    fn next(&mut self) -> Option<Element<'d>> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Four bytes of length are more than a certificate has.
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
            }
            _ => return None,
        };
        let (content, behind) = rest.split_at_checked(length)?;
        let whole = &self.0[..self.0.len() - behind.len()];
        self.0 = behind;
        Some(Element { tag, whole, content })
    }

    fn next_of(&mut self, tag: u8) -> Option<Element<'d>> {
        self.next().filter(|element| element.tag == tag)
    }

    /// A reader of what is inside the next element.
    fn inside(&mut self, tag: u8) -> Option<Reader<'d>> {
        self.next_of(tag).map(|element| Reader(element.content))
    }

    fn skip_if(&mut self, tag: u8) {
        if self.0.first() == Some(&tag) {
            self.next();
        }
    }

    /// `260131120000Z` or `20260131120000Z`.
    fn time(&mut self) -> Option<Timestamp> {
        let element = self.next()?;
        let text = std::str::from_utf8(element.content).ok().filter(|text| text.is_ascii())?;
        let (year, rest) = match element.tag {
            UTC_TIME => {
                let (year, rest) = text.split_at_checked(2)?;
                let century = if year < "50" { "20" } else { "19" };
                (format!("{century}{year}"), rest)
            }
            GENERALIZED_TIME => text.split_at_checked(4).map(|(year, rest)| (year.to_owned(), rest))?,
            _ => return None,
        };
        let rest = rest.strip_suffix('Z').filter(|rest| rest.len() == 10)?;
        let part = |at: usize| &rest[at..at + 2];
        Timestamp::parse_rfc3339(&format!("{year}-{}-{}T{}:{}:{}Z", part(0), part(2), part(4), part(6), part(8)))
    }
}
