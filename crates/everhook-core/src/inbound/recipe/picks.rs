//! What an item is called and whom it is about (`type`, `id`, `user`), where items are (`each`), and what else must be true of them (`check`).

use super::Scope;
use crate::inbound::{
    RecipeFault,
    document::Pointer,
    fields::shown,
    text::{header_name, parameter_name},
};

/// How many picks one field may have, and how many terms one pick.
const PICKS_MAX: usize = 8;
/// How many checks a recipe may have.
const CHECKS_MAX: usize = 8;
/// How many values a check may list.
const VALUES_MAX: usize = 32;

/// Picks in their order: the first that is present counts.
#[derive(Clone, Debug, Default)]
pub(in crate::inbound) struct Picks(pub(in crate::inbound) Vec<Vec<Term>>);

/// A part of a pick.
#[derive(Clone, Debug)]
pub(in crate::inbound) enum Term {
    Header(String),
    /// A value of the whole body.
    Root(usize),
    /// A value of the item.
    Item(usize),
    /// A field of a form.
    FormField(String),
    /// The member of the envelope that the item stands in.
    Key,
    /// What stands behind the source in the path.
    Path,
    Text(String),
}

impl Picks {
    /// Reads a list of picks.
    pub(super) fn parse(field: &'static str, text: &str, scope: &mut Scope<'_>) -> Result<Self, RecipeFault> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let picks: Vec<Vec<Term>> = text
            .split('|')
            .map(|pick| pick.split('+').map(|term| Term::parse(field, term.trim(), scope)).collect())
            .collect::<Result<_, _>>()?;
        if picks.len() > PICKS_MAX || picks.iter().any(|terms| terms.len() > PICKS_MAX) {
            return Err(RecipeFault::new(field, format!("has more than {PICKS_MAX} alternatives or parts")));
        }
        Ok(Self(picks))
    }

    /// Whether all of it stands in headers: only then can it be signed as `{id}`.
    pub(super) fn is_of_headers(&self) -> bool {
        !self.0.is_empty() && self.0.iter().flatten().all(|term| matches!(term, Term::Header(_) | Term::Text(_)))
    }
}

impl Term {
    fn parse(field: &'static str, text: &str, scope: &mut Scope<'_>) -> Result<Self, RecipeFault> {
        const RIGHT: &str = "write H:Header, /pointer, root:/pointer, key, path or 'text'";
        let fault = || RecipeFault::new(field, format!("holds `{}`; {RIGHT}", shown(text)));
        if let Some(name) = text.strip_prefix("H:") {
            return header_name(name).map(Self::Header).ok_or_else(fault);
        }
        if let Some(pointer) = text.strip_prefix("root:") {
            return Pointer::parse(pointer).map(|pointer| Self::Root(scope.root(&pointer))).ok_or_else(fault);
        }
        if let Some(literal) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
            return Ok(Self::Text(literal.to_owned()));
        }
        match text {
            "key" => Ok(Self::Key),
            "path" => Ok(Self::Path),
            _ if !text.starts_with('/') => Err(fault()),
            _ if scope.body_is_form() => parameter_name(&text[1..]).map(Self::FormField).ok_or_else(fault),
            _ => Pointer::parse(text).map(|pointer| scope.item(&pointer)).ok_or_else(fault),
        }
    }
}

/// Where the items of a batch are.
#[derive(Clone, Debug)]
pub(in crate::inbound) struct Each {
    /// The value that holds them.
    pub(in crate::inbound) holder: usize,
    /// Its pointer, for messages.
    pub(in crate::inbound) pointer: String,
    /// Whether the holder has several arrays, by member.
    pub(in crate::inbound) by_key: bool,
    /// Where the item itself is within an element.
    pub(in crate::inbound) inner: Pointer,
}

impl Each {
    /// Reads `each`: literal parts, then `{key}` or not, then `*`, then literal parts.
    pub(super) fn parse(text: &str, root: &mut impl FnMut(&Pointer) -> usize) -> Result<Self, RecipeFault> {
        let fault = || RecipeFault::new("each", format!("is `{}`; write /events/*, /*, /{{key}}/* or /items/*/inner", shown(text)));
        let Pointer(parts) = Pointer::parse(text).ok_or_else(fault)?;
        let star = parts.iter().position(|part| part == "*").ok_or_else(fault)?;
        let (before, inner) = (&parts[..star], parts[star + 1..].to_vec());
        let (before, by_key) = match before.split_last() {
            Some((last, before)) if last == "{key}" => (before, true),
            _ => (before, false),
        };
        if before.iter().chain(&inner).any(|part| part == "*" || part == "{key}") {
            return Err(fault());
        }
        let holder = Pointer(before.to_vec());
        Ok(Self { holder: root(&holder), pointer: holder.to_string(), by_key, inner: Pointer(inner) })
    }
}

/// What must be true of an item beside its signature.
#[derive(Clone, Debug)]
pub(in crate::inbound) struct Check {
    pub(in crate::inbound) value: Term,
    pub(in crate::inbound) pointer: Pointer,
    pub(in crate::inbound) rule: CheckRule,
}

/// How a value is checked.
#[derive(Clone, Debug)]
pub(in crate::inbound) enum CheckRule {
    /// It is one of these.
    OneOf(Vec<String>),
    /// It is what the source keeps.
    Ours { kept: Kept, required: bool },
}

/// What a source keeps that a check compares with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inbound) enum Kept {
    SubscriptionId,
    AppId,
}

/// Reads `check`.
pub(super) fn checks(text: &str, scope: &mut Scope<'_>) -> Result<Vec<Check>, RecipeFault> {
    let checks: Vec<Check> =
        text.split(';').map(str::trim).filter(|text| !text.is_empty()).map(|text| check(text, scope)).collect::<Result<_, _>>()?;
    if checks.len() > CHECKS_MAX {
        return Err(RecipeFault::new("check", format!("has more than {CHECKS_MAX} checks")));
    }
    Ok(checks)
}

fn check(text: &str, scope: &mut Scope<'_>) -> Result<Check, RecipeFault> {
    const RIGHT: &str = "write /pointer in a,b, /pointer = subscription_id or /pointer == app_id";
    let fault = || RecipeFault::new("check", format!("holds `{}`; {RIGHT}", shown(text)));
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [pointer, sign, value] = words[..] else { return Err(fault()) };
    let rule = match (sign, value) {
        ("in", values) if values.split(',').count() <= VALUES_MAX => CheckRule::OneOf(values.split(',').map(str::to_owned).collect()),
        ("=" | "==", "subscription_id") => CheckRule::Ours { kept: Kept::SubscriptionId, required: sign == "==" },
        ("=" | "==", "app_id") => CheckRule::Ours { kept: Kept::AppId, required: sign == "==" },
        _ => return Err(fault()),
    };
    let parsed = Pointer::parse(pointer).filter(|pointer| !pointer.0.is_empty()).ok_or_else(fault)?;
    Ok(Check { value: Term::parse("check", pointer, scope)?, pointer: parsed, rule })
}
