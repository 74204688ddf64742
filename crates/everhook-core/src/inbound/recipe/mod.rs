//! A recipe, compiled: the texts of [`RecipeFields`] as pieces that a request is read by.
//!
//! Compiled once, when a source is created or loaded. Every fault is named, all of them at once.

mod answer;
mod handshake;
mod mechanism;
mod picks;
mod place;
mod template;

use std::time::Duration;

pub(super) use handshake::{Echo, EchoFrom, HandshakeRule, HmacStyle, PingStyle, PostEchoStyle};
pub(super) use mechanism::{
    Encoding, JwtAlgorithm, JwtRule, KeyAlgorithm, KeyRule, KeySource, MacAlgorithm, Mechanism, TokenPlace, UrlRule,
};
pub(super) use picks::{Check, CheckRule, Each, Kept, Picks, Term};
pub(super) use place::{Format, Place, SIGNATURES_MAX, SignaturePlace, TimestampPlace, TimestampRule, Unit};
pub(super) use template::{Piece, Template};

pub use handshake::HANDSHAKES;

use self::mechanism::keep;
use super::{
    Need, RecipeFault, RecipeFields, Reply,
    document::{POINTERS_MAX, Plan, Pointer},
    fields::shown,
    text,
};
use crate::model::EventType;

/// How many bytes a field may have: the longest of the table has 250.
const FIELD_BYTES_MAX: usize = 1_024;

/// How many bytes a body may have where the recipe does not say. Few providers send more than 100 KB.
const BODY_BYTES_DEFAULT: usize = 1 << 20;
/// How many bytes a body may have, whatever the recipe says: it is held in memory until it is stored.
const BODY_BYTES_MAX: usize = 16 << 20;

/// How requests are verified, split and answered; made once from texts.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub(super) mechanism: Mechanism,
    /// Whether the body must be read before the signature can be verified.
    pub(super) reads_signed: bool,
    pub(super) key_format: KeyFormat,
    pub(super) require: Require,
    pub(super) timestamp: Option<TimestampRule>,
    pub(super) url: UrlRule,
    pub(super) checks: Vec<Check>,
    pub(super) body: BodyKind,
    pub(super) each: Option<Each>,
    /// Whether each item carries its own signature.
    pub(super) signed_per_item: bool,
    pub(super) event_type: Picks,
    /// The type of an item where nothing says it.
    pub(super) default_type: EventType,
    pub(super) id: Picks,
    pub(super) user: Picks,
    pub(super) handshakes: Vec<HandshakeRule>,
    pub(super) ok: Reply,
    pub(super) max_body: usize,
    pub(super) root_plan: Plan,
    pub(super) item_plan: Plan,
}

/// Whether a signature must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Require {
    Always,
    /// Where a secret is set.
    IfSecret,
    /// Where a secret is set and the request has one.
    IfPresent,
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    Json,
    Form,
    Any,
    Jwt,
}

/// How a secret is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyFormat {
    Raw,
    Base64,
    /// Base64 behind `whsec_` or `v1,whsec_`.
    Whsec,
    Hex,
    /// The key is the SHA-1 of the text.
    Sha1,
    /// The key is the text and `&`.
    RawAmpersand,
    /// The text; it may come from a handshake.
    Captured,
    /// A public key: PEM, or base64 of its DER.
    Spki,
}

/// Puts pointers into the plan that they belong to.
pub(super) struct Scope<'a> {
    root: &'a mut Plan,
    item: &'a mut Plan,
    has_each: bool,
    signed_per_item: bool,
    /// Whether a value of the body is signed, or says how.
    reads_signed: bool,
    body: BodyKind,
}

impl Scope<'_> {
    /// A value that is signed, or says how.
    fn signed(&mut self, pointer: &Pointer) -> usize {
        self.reads_signed = true;
        if self.signed_per_item { self.item.add(pointer) } else { self.root.add(pointer) }
    }

    fn root(&mut self, pointer: &Pointer) -> usize {
        self.root.add(pointer)
    }

    fn item(&mut self, pointer: &Pointer) -> Term {
        if self.has_each { Term::Item(self.item.add(pointer)) } else { Term::Root(self.root.add(pointer)) }
    }

    fn body_is_form(&self) -> bool {
        self.body == BodyKind::Form
    }
}

impl Recipe {
    /// Reads the fields.
    ///
    /// # Errors
    /// Everything that is wrong with them, at once.
    pub fn compile(fields: &RecipeFields<'_>) -> Result<Self, Vec<RecipeFault>> {
        let mut faults = too_long(fields);
        if !faults.is_empty() {
            return Err(faults);
        }
        let recipe = Self::parse(fields, &mut faults);
        recipe.check_timestamp(&mut faults);
        recipe.check_body(fields, &mut faults);
        if faults.is_empty() { Ok(recipe) } else { Err(faults) }
    }

    fn parse(fields: &RecipeFields<'_>, faults: &mut Vec<RecipeFault>) -> Self {
        let (mut root_plan, mut item_plan) = (Plan::default(), Plan::default());
        let body = keep(body_kind(fields.body), faults).unwrap_or(BodyKind::Any);
        let each = match fields.each {
            "" => None,
            text => keep(Each::parse(text, &mut |pointer| root_plan.add(pointer)), faults),
        };
        let signed_per_item = each.is_some() && (fields.sig.starts_with("body:") || fields.token.starts_with("body:"));
        let mut scope =
            Scope { root: &mut root_plan, item: &mut item_plan, has_each: each.is_some(), signed_per_item, reads_signed: false, body };
        let mechanism = Mechanism::parse(fields, &mut scope, faults);
        let timestamp = match fields.ts {
            "" => None,
            text => keep(TimestampRule::parse(text, &mut scope), faults),
        };
        let timestamp = timestamp.map(|rule| match keep(window(fields.tolerance), faults).flatten() {
            Some(window) => TimestampRule { window: Some(window), ..rule },
            None => rule,
        });
        let reads_signed = scope.reads_signed;
        Self {
            mechanism,
            reads_signed,
            key_format: keep(key_format(fields), faults).unwrap_or(KeyFormat::Raw),
            require: keep(require(fields.require), faults).unwrap_or(Require::Always),
            timestamp,
            url: keep(UrlRule::parse(fields.url), faults).unwrap_or_default(),
            checks: keep(picks::checks(fields.check, &mut scope), faults).unwrap_or_default(),
            body,
            each,
            signed_per_item,
            event_type: keep(Picks::parse("type", fields.event_type, &mut scope), faults).unwrap_or_default(),
            default_type: EventType::parse("received").expect("it is spelled as a type"),
            id: keep(Picks::parse("id", fields.id, &mut scope), faults).unwrap_or_default(),
            user: keep(Picks::parse("user", fields.user, &mut scope), faults).unwrap_or_default(),
            handshakes: handshake::parse(fields.handshake, faults),
            ok: keep(answer::parse(fields.ok), faults).unwrap_or(Reply { status: 200, headers: Vec::new(), body: Vec::new() }),
            max_body: keep(max_body(fields.max_body), faults).unwrap_or(BODY_BYTES_DEFAULT),
            root_plan,
            item_plan,
        }
    }

    /// A timestamp that is not signed proves nothing, so that its age must not be judged.
    fn check_timestamp(&self, faults: &mut Vec<RecipeFault>) {
        let over = match &self.mechanism {
            Mechanism::Mac(rule) => Some((&rule.over, &rule.signature)),
            Mechanism::Key(rule) => Some((&rule.over, &rule.signature)),
            _ => None,
        };
        let Some((over, signature)) = over else { return };
        let uses_time = over.has(|piece| *piece == Piece::Timestamp);
        match &self.timestamp {
            None if uses_time => faults.push(RecipeFault::new("ts", "is missing: `over` holds {ts}")),
            Some(rule) => {
                let is_in_body = matches!(rule.place, TimestampPlace::Place(Place::Body { .. }));
                let is_signed = over.always_has(|piece| *piece == Piece::Timestamp || is_in_body && *piece == Piece::Body);
                if rule.window.is_some() && !is_signed {
                    faults.push(RecipeFault::new(
                        "ts",
                        "has a tolerance, but `over` does not hold {ts}: a time that is not signed proves nothing",
                    ));
                }
                if matches!(rule.place, TimestampPlace::Pair(_)) && !matches!(signature.format, Format::Pairs { .. }) {
                    faults.push(RecipeFault::new("ts", "names a pair, but `sig` has none; write kv= in `sig`, or another place"));
                }
            }
            None => {}
        }
        if over.has(|piece| *piece == Piece::Id) && !self.id.is_of_headers() {
            faults.push(RecipeFault::new("id", "must be in headers alone (H:Name), because `over` holds {id}"));
        }
    }

    fn check_body(&self, fields: &RecipeFields<'_>, faults: &mut Vec<RecipeFault>) {
        let pointers = self.root_plan.len() + self.item_plan.len();
        if pointers > POINTERS_MAX {
            faults.push(RecipeFault::new("recipe", format!("has {pointers} pointers; at most {POINTERS_MAX} are possible")));
        }
        if pointers > 0 && matches!(self.body, BodyKind::Form) {
            faults.push(RecipeFault::new(
                "body",
                "is form, which has no JSON pointers in sig, ts, over or each; name fields with form:name and {f:name}",
            ));
        }
        if self.body == BodyKind::Jwt && fields.jwt.is_empty() {
            faults.push(RecipeFault::new("body", "is jwt, so that `jwt` must say how it is signed"));
        }
        if !fields.tolerance.is_empty() && self.timestamp.is_none() {
            faults.push(RecipeFault::new("tolerance", "means nothing without `ts`; leave it out"));
        }
        let uses_key = self.each.as_ref().is_some_and(|each| each.by_key);
        let names_key = [&self.event_type, &self.id, &self.user]
            .iter()
            .flat_map(|picks| picks.0.iter().flatten())
            .any(|term| matches!(term, Term::Key));
        if names_key && !uses_key {
            faults.push(RecipeFault::new("each", "must hold {key} where a pick is `key`"));
        }
    }

    /// The same, with another type for items of which nothing says it.
    #[must_use]
    pub fn with_default_type(self, default_type: EventType) -> Self {
        Self { default_type, ..self }
    }

    /// What a source needs beside it.
    pub fn needs(&self) -> Vec<Need> {
        let mut needs = Vec::new();
        let mut need = |field, required| needs.push(Need { field, required });
        if self.uses_secrets() {
            need("secrets", self.requires_secret());
        }
        if self.handshakes.iter().any(HandshakeRule::uses_verify_token) {
            need("verify_token", false);
        }
        for kept in [Kept::SubscriptionId, Kept::AppId] {
            if let Some(required) = self.need_of(kept) {
                need(kept.field(), required);
            }
        }
        if matches!(&self.mechanism, Mechanism::Jwt(rule) if rule.checks_audience) {
            need("audience", true);
        }
        if self.template().is_some_and(|over| over.has(|piece| *piece == Piece::Url)) {
            need("public_url", false);
        }
        needs
    }

    /// The largest body that is read.
    pub fn max_body(&self) -> usize {
        self.max_body
    }

    /// How old a timestamp may be where the source does not say. `None`: the signed text holds no time, and none may be set.
    pub fn tolerance(&self) -> Option<Duration> {
        self.timestamp.as_ref().and_then(|rule| rule.window)
    }

    /// Whether a handshake gives the source its secret.
    pub fn captures_secret(&self) -> bool {
        self.handshakes.iter().any(|rule| matches!(rule, HandshakeRule::HeaderEcho | HandshakeRule::Capture { .. }))
    }

    pub(super) fn template(&self) -> Option<&Template> {
        match &self.mechanism {
            Mechanism::Mac(rule) => Some(&rule.over),
            Mechanism::Key(rule) => Some(&rule.over),
            _ => None,
        }
    }

    /// Whether the secrets of the source are the keys.
    pub(super) fn uses_secrets(&self) -> bool {
        match &self.mechanism {
            Mechanism::None => false,
            Mechanism::Mac(_) | Mechanism::Token(_) => true,
            Mechanism::Key(KeyRule { from, .. }) | Mechanism::Jwt(JwtRule { from, .. }) => matches!(from, KeySource::Configured),
        }
    }

    /// Whether a request without a proof is refused.
    pub(super) fn always_proves(&self) -> bool {
        self.require != Require::IfPresent && !matches!(self.mechanism, Mechanism::None)
    }

    /// The headers in which the secret itself comes, or a token that is as good: whoever reads them can send what is taken for the provider's.
    pub fn credential_headers(&self) -> Vec<String> {
        let place = match &self.mechanism {
            Mechanism::Token(TokenPlace::Basic) => return vec!["authorization".to_owned()],
            Mechanism::Token(TokenPlace::Place { place, .. }) => Some(place),
            Mechanism::Jwt(JwtRule { place, .. }) => place.as_ref().map(|signature| &signature.place),
            _ => None,
        };
        match place {
            Some(Place::Headers(names)) => names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            Some(Place::Family { prefix, last }) => (1..=*last).map(|number| format!("{prefix}{number}").to_ascii_lowercase()).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn requires_secret(&self) -> bool {
        self.uses_secrets() && self.require == Require::Always && self.key_format != KeyFormat::Captured
    }

    /// Whether something of the recipe compares with what is kept, and whether it cannot do without.
    pub(super) fn need_of(&self, kept: Kept) -> Option<bool> {
        let checks = self.checks.iter().filter_map(|check| match check.rule {
            CheckRule::Ours { kept: compared, required } if compared == kept => Some(required),
            _ => None,
        });
        let signed = kept == Kept::AppId && self.template().is_some_and(|over| over.has(|piece| *piece == Piece::AppId));
        let claimed = kept == Kept::AppId && matches!(&self.mechanism, Mechanism::Jwt(rule) if rule.checks_email);
        let greeted = kept == Kept::AppId && self.handshakes.iter().any(HandshakeRule::uses_app_id);
        checks
            .chain([(signed, true), (claimed, true), (greeted, false)].into_iter().filter_map(|(is, required)| is.then_some(required)))
            .max()
    }
}

impl Kept {
    /// The field of the credentials.
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::SubscriptionId => "subscription_id",
            Self::AppId => "app_id",
        }
    }
}

fn too_long(fields: &RecipeFields<'_>) -> Vec<RecipeFault> {
    let long = fields.pairs().into_iter().filter(|(_, text)| text.len() > FIELD_BYTES_MAX);
    long.map(|(name, text)| RecipeFault::new(name, format!("has {} bytes; at most {FIELD_BYTES_MAX} are possible", text.len()))).collect()
}

fn body_kind(text: &str) -> Result<BodyKind, RecipeFault> {
    Ok(match text {
        "" | "json" => BodyKind::Json,
        "form" => BodyKind::Form,
        "any" => BodyKind::Any,
        "jwt" => BodyKind::Jwt,
        other => return Err(RecipeFault::new("body", format!("is `{}`; there are json, form, any and jwt", shown(other)))),
    })
}

fn key_format(fields: &RecipeFields<'_>) -> Result<KeyFormat, RecipeFault> {
    let public = !fields.key_sig.is_empty() || fields.jwt.starts_with("RS") || fields.jwt.starts_with("ES");
    let format = match fields.key_format {
        "" if public => KeyFormat::Spki,
        "" | "raw" => KeyFormat::Raw,
        "base64" => KeyFormat::Base64,
        "whsec" => KeyFormat::Whsec,
        "hex" => KeyFormat::Hex,
        "sha1" => KeyFormat::Sha1,
        "raw+&" => KeyFormat::RawAmpersand,
        "captured" => KeyFormat::Captured,
        "spki" => KeyFormat::Spki,
        other => {
            let reason = format!("is `{}`; there are raw, base64, whsec, hex, sha1, raw+&, captured and spki", shown(other));
            return Err(RecipeFault::new("key_format", reason));
        }
    };
    if public && !matches!(format, KeyFormat::Spki | KeyFormat::Hex | KeyFormat::Base64) {
        return Err(RecipeFault::new("key_format", "of a public key is spki, hex or base64"));
    }
    if !public && format == KeyFormat::Spki {
        return Err(RecipeFault::new("key_format", "is spki, which is for public keys"));
    }
    Ok(format)
}

fn require(text: &str) -> Result<Require, RecipeFault> {
    Ok(match text {
        "" | "always" => Require::Always,
        "if_secret" => Require::IfSecret,
        "if_present" => Require::IfPresent,
        other => return Err(RecipeFault::new("require", format!("is `{}`; there are always, if_secret and if_present", shown(other)))),
    })
}

fn window(text: &str) -> Result<Option<Duration>, RecipeFault> {
    match text {
        "" => Ok(None),
        _ => text::tolerance(text)
            .map(Some)
            .ok_or_else(|| RecipeFault::new("tolerance", format!("is `{}`; write a length from 1s to 168h, such as 5m", shown(text)))),
    }
}

fn max_body(text: &str) -> Result<usize, RecipeFault> {
    match text {
        "" => Ok(BODY_BYTES_DEFAULT),
        _ => text::size(text).filter(|size| (1..=BODY_BYTES_MAX).contains(size)).ok_or_else(|| {
            RecipeFault::new("max_body", format!("is `{}`; write a size up to {}M, such as 3M", shown(text), BODY_BYTES_MAX >> 20))
        }),
    }
}
