//! A recipe with the secrets of one source: reads requests.
//!
//! The order is fixed: size, handshakes that need no signature, method, signature, timestamp, checks, handshakes that are signed, items. Nothing of an event
//! is looked at before its signature was right, except the values that the signature itself needs.

mod handshakes;
mod items;
mod jwt;
mod keys;
mod proof;
mod signatures;
mod signed_text;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use self::keys::Keys;
use super::{
    Accepted, Credentials, FetchedKey, InboundRequest, KeyRequest, Reading, Recipe, RecipeFault, Refusal,
    document::Values,
    recipe::{BodyKind, Kept, Mechanism, Piece},
    request::Facts,
    text::checked_tolerance,
};
use crate::time::Timestamp;

/// How many bytes a text beside the secrets may have: a URL, a token, an ARN.
const TEXT_BYTES_MAX: usize = 1_024;

/// Reads the requests of one source.
#[derive(Debug)]
pub struct Verifier {
    recipe: Arc<Recipe>,
    keys: Keys,
    credentials: Credentials,
    tolerance: Option<Duration>,
}

/// Why reading a request ends early.
enum Stop {
    Refused(Refusal),
    NeedsKey(KeyRequest),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Verifier {
    /// Prepares the keys of a source. `tolerance` replaces the recipe's.
    ///
    /// # Errors
    /// Everything that is missing or wrong, at once.
    pub fn new(recipe: Arc<Recipe>, credentials: &Credentials, tolerance: Option<Duration>) -> Result<Self, Vec<RecipeFault>> {
        let mut faults = Vec::new();
        let keys = keys::prepare(&recipe, credentials, &mut faults);
        check_texts(&recipe, credentials, &mut faults);
        if let Some(length) = tolerance {
            if recipe.tolerance().is_none() {
                faults.push(RecipeFault::new("tolerance", "cannot be set: the signed text holds no time, or its age is not judged"));
            } else if checked_tolerance(length).is_none() {
                faults.push(RecipeFault::new("tolerance", "must be from 1 second to 7 days"));
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let tolerance = tolerance.or_else(|| recipe.tolerance());
        Ok(Self { recipe, keys, credentials: credentials.clone(), tolerance })
    }

    /// What a request is.
    pub fn read(&self, request: &InboundRequest<'_>, now: Timestamp) -> Reading {
        self.reading(request, now, None)
    }

    /// What a request is, with the key that [`Reading::NeedsKey`] asked for.
    pub fn read_with_key(&self, request: &InboundRequest<'_>, now: Timestamp, key: &FetchedKey) -> Reading {
        self.reading(request, now, Some(key))
    }

    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Whether everything that it accepts was proven to be the provider's. Where nothing has to be proven, anybody may send anything.
    pub fn proves_sender(&self) -> bool {
        self.recipe.always_proves() && (!self.recipe.uses_secrets() || !self.credentials.secrets.is_empty())
    }

    fn reading(&self, request: &InboundRequest<'_>, now: Timestamp, key: Option<&FetchedKey>) -> Reading {
        match self.decide(request, now, key) {
            Ok(reading) => reading,
            Err(Stop::Refused(refusal)) => Reading::Refused(refusal),
            Err(Stop::NeedsKey(request)) => Reading::NeedsKey(request),
        }
    }

    fn decide(&self, request: &InboundRequest<'_>, now: Timestamp, key: Option<&FetchedKey>) -> Result<Reading, Stop> {
        if request.body.len() > self.recipe.max_body {
            return Err(Refusal::BodyTooLarge { max: self.recipe.max_body }.into());
        }
        if let Some(handshake) = handshakes::unsigned(self, request)? {
            return Ok(Reading::Handshake(handshake));
        }
        if request.method != "POST" {
            return Err(Refusal::Method.into());
        }
        let payload = if self.recipe.signed_per_item { None } else { self.verify_whole(request, now, key)? };
        let body = payload.as_ref().unwrap_or(request.body);
        let facts = self.facts(request, body)?;
        items::check_whole(self, &facts)?;
        if let Some(handshake) = handshakes::signed(self, request, body)? {
            return Ok(Reading::Handshake(handshake));
        }
        let items = items::read(self, &facts, body, now)?;
        Ok(Reading::Accepted(Accepted { items, reply: self.recipe.ok.clone() }))
    }

    /// Verifies a request that is signed as a whole. The payload of a body that is a token is returned.
    fn verify_whole(&self, request: &InboundRequest<'_>, now: Timestamp, key: Option<&FetchedKey>) -> Result<Option<Bytes>, Stop> {
        if let Mechanism::Jwt(rule) = &self.recipe.mechanism {
            return jwt::verify(self, rule, request, now, key);
        }
        let facts = match self.recipe.body {
            BodyKind::Form => Facts::of_form(request)?,
            _ if self.recipe.reads_signed => self.facts(request, request.body)?,
            _ => Facts::new(request, Values::default()),
        };
        proof::verify(self, &facts, now, key).map(|()| None)
    }

    /// The values of a body that the recipe points to. A body of any kind has none where it is not JSON.
    fn facts<'r>(&self, request: &'r InboundRequest<'r>, body: &'r Bytes) -> Result<Facts<'r>, Refusal> {
        let plan = &self.recipe.root_plan;
        match self.recipe.body {
            BodyKind::Form => Facts::of_form(request),
            BodyKind::Json | BodyKind::Jwt => {
                let values = utf8(body)
                    .and_then(|text| Values::read(text, plan))
                    .map_err(|reason| Refusal::UnreadableBody { reason: format!("the body is refused: {reason}") })?;
                Ok(Facts::new(request, values))
            }
            BodyKind::Any if plan.len() == 0 => Ok(Facts::new(request, Values::default())),
            BodyKind::Any => {
                let values = utf8(body).and_then(|text| Values::read(text, plan)).unwrap_or_default();
                Ok(Facts::new(request, values))
            }
        }
    }
}

fn utf8(body: &Bytes) -> Result<&str, String> {
    std::str::from_utf8(body).map_err(|error| format!("it is not UTF-8 from byte {} on", error.valid_up_to()))
}

/// Texts beside the secrets: bounded, and there where the recipe cannot do without.
fn check_texts(recipe: &Recipe, credentials: &Credentials, faults: &mut Vec<RecipeFault>) {
    let texts = [
        ("verify_token", &credentials.verify_token),
        ("subscription_id", &credentials.subscription_id),
        ("app_id", &credentials.app_id),
        ("audience", &credentials.audience),
        ("public_url", &credentials.public_url),
    ];
    for (field, text) in texts {
        match text {
            Some(text) if text.trim_matches(['\0', ' ', '\t', '\r', '\n']).is_empty() => {
                faults.push(RecipeFault::new(field, "is empty or blank; leave it out, or give a value"));
            }
            Some(text) if text.len() > TEXT_BYTES_MAX => {
                faults.push(RecipeFault::new(field, format!("has {} bytes; at most {TEXT_BYTES_MAX} are possible", text.len())));
            }
            _ => {}
        }
    }
    let kept = [(Kept::SubscriptionId, &credentials.subscription_id), (Kept::AppId, &credentials.app_id)];
    for (kept, text) in kept {
        if recipe.need_of(kept) == Some(true) && text.is_none() {
            faults.push(RecipeFault::new(kept.field(), "is missing; give the id that the provider shows for this hook or app"));
        }
    }
    let checks_audience = matches!(&recipe.mechanism, Mechanism::Jwt(rule) if rule.checks_audience);
    if checks_audience && credentials.audience.is_none() && credentials.public_url.is_none() {
        faults.push(RecipeFault::new("audience", "is missing; give the audience that the provider's tokens are for"));
    }
    let signs_url = recipe.template().is_some_and(|over| over.has(|piece| *piece == Piece::Url));
    let url_is_right = |url: &String| url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if signs_url && !credentials.public_url.as_ref().is_none_or(url_is_right) {
        faults.push(RecipeFault::new("public_url", "is no URL that begins with https:// or http://"));
    }
}
