//! The signed text: `over` of a recipe, as pieces that stream into a MAC.

use super::Scope;
use crate::inbound::{
    RecipeFault,
    document::Pointer,
    fields::shown,
    text::{header_name, parameter_name},
};

/// How many pieces a template may have, alternatives included: Adyen's has fifteen.
const PIECES_MAX: usize = 64;
/// How many alternatives: each costs a MAC for each secret.
const ALTERNATIVES_MAX: usize = 4;

/// One way to write the signed text for each alternative.
#[derive(Clone, Debug)]
pub(in crate::inbound) struct Template {
    pub(in crate::inbound) alternatives: Vec<Vec<Piece>>,
}

/// A part of the signed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::inbound) enum Piece {
    Text(String),
    Body,
    Timestamp,
    Id,
    Url,
    Method,
    Secret,
    /// The sorted names and values of a form.
    Form,
    AppId,
    /// The CRC-32 of the body, in decimal digits.
    Crc32,
    /// The SHA-256 of the body, in hexadecimal digits.
    Sha256Hex,
    Header(String),
    /// A value of the body; nothing where it is absent.
    Value(usize),
    FormField(String),
    /// `Name\nvalue\n`; nothing where it is absent.
    Line {
        name: String,
        slot: usize,
    },
}

impl Template {
    /// Reads `over`.
    pub(super) fn parse(text: &str, scope: &mut Scope<'_>) -> Result<Self, RecipeFault> {
        let fault = |reason: String| RecipeFault::new("over", reason);
        let (mut alternatives, mut pieces, mut rest, mut count) = (Vec::new(), Vec::new(), text, 0);
        while !rest.is_empty() {
            count += 1;
            if count > PIECES_MAX {
                return Err(fault(format!("has more than {PIECES_MAX} pieces")));
            }
            let Some(inside) = rest.strip_prefix('{') else {
                let end = rest.find('{').unwrap_or(rest.len());
                pieces.push(Piece::Text(rest[..end].to_owned()));
                rest = &rest[end..];
                continue;
            };
            let Some((name, behind)) = inside.split_once('}') else { return Err(fault("has a brace that is not closed".to_owned())) };
            rest = behind;
            if name == "or" {
                alternatives.push(std::mem::take(&mut pieces));
            } else {
                pieces.push(piece(name, scope)?);
            }
        }
        alternatives.push(pieces);
        if alternatives.len() > ALTERNATIVES_MAX {
            return Err(fault(format!("has more than {ALTERNATIVES_MAX} alternatives")));
        }
        if alternatives.iter().any(|pieces| pieces.iter().all(|piece| matches!(piece, Piece::Text(_) | Piece::Secret | Piece::AppId))) {
            return Err(fault("signs nothing of the request; write what is signed, such as {body}".to_owned()));
        }
        Ok(Self { alternatives })
    }

    /// Whether every alternative has such a piece.
    pub(super) fn always_has(&self, is_wanted: impl Fn(&Piece) -> bool) -> bool {
        self.alternatives.iter().all(|pieces| pieces.iter().any(&is_wanted))
    }

    /// Whether any alternative has such a piece.
    pub(in crate::inbound) fn has(&self, is_wanted: impl Fn(&Piece) -> bool) -> bool {
        self.alternatives.iter().flatten().any(is_wanted)
    }
}

fn piece(name: &str, scope: &mut Scope<'_>) -> Result<Piece, RecipeFault> {
    const RIGHT: &str = "there are {body} {ts} {id} {url} {method} {secret} {form} {app_id} {crc32} {sha256hex} {h:Name} {b:/pointer} {f:field} {n:Member} {or}";
    if (name == "form" || name.starts_with("f:")) && !scope.body_is_form() {
        return Err(RecipeFault::new("over", format!("has the piece `{{{}}}`, but `body` is not form", shown(name))));
    }
    let fault = || RecipeFault::new("over", format!("has the piece `{{{}}}`; {RIGHT}", shown(name)));
    Ok(match name {
        "body" => Piece::Body,
        "ts" => Piece::Timestamp,
        "id" => Piece::Id,
        "url" => Piece::Url,
        "method" => Piece::Method,
        "secret" => Piece::Secret,
        "form" => Piece::Form,
        "app_id" => Piece::AppId,
        "crc32" => Piece::Crc32,
        "sha256hex" => Piece::Sha256Hex,
        _ => match name.split_once(':').ok_or_else(fault)? {
            ("h", header) => Piece::Header(header_name(header).ok_or_else(fault)?),
            ("b", pointer) => Piece::Value(scope.signed(&Pointer::parse(pointer).ok_or_else(fault)?)),
            ("f", field) => Piece::FormField(parameter_name(field).ok_or_else(fault)?),
            ("n", member) => {
                let name = parameter_name(member).ok_or_else(fault)?;
                let slot = scope.signed(&Pointer(vec![name.clone()]));
                Piece::Line { name, slot }
            }
            _ => return Err(fault()),
        },
    })
}
