//! What an accepted request carries: its items, each with its own bytes, type, id and user.

use std::borrow::Cow;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;

use super::{Stop, Verifier, proof};
use crate::{
    ids::is_name_byte,
    inbound::{
        Item, Refusal,
        document::{self, Plan, Values},
        fields::shown,
        recipe::{BodyKind, Check, CheckRule, Each, Kept, Picks, Term},
        request::Facts,
        text::hex,
    },
    model::EventType,
    time::Timestamp,
};

/// How many items a batch may have: they are stored in one transaction. Meta sends up to 1,000.
pub(super) const ITEMS_MAX: usize = 10_000;
/// How many arrays an envelope may have: Garmin has some twenty types.
const KEYS_MAX: usize = 100;
/// How long an id or a user may be; a longer one, or one that is no plain text, is replaced by its hash.
const ID_BYTES_MAX: usize = 256;
/// How long a content type may be that is kept.
const CONTENT_TYPE_BYTES_MAX: usize = 200;
/// How long the name of a type may be; the rest is cut off.
const TYPE_CHARS_MAX: usize = 128;

/// The items of a verified request. Where each has its own signature, all must be right.
pub(super) fn read(verifier: &Verifier, facts: &Facts<'_>, body: &Bytes, now: Timestamp) -> Result<Vec<Item>, Stop> {
    let recipe = &verifier.recipe;
    let Some(each) = &recipe.each else {
        let context = Context { facts, values: None, key: None };
        return Ok(vec![item(verifier, &context, body.clone())]);
    };
    let found = split(each, facts)?;
    let mut items = Vec::with_capacity(found.len());
    for (key, raw) in found {
        let values = Values::read(raw, &recipe.item_plan).map_err(|reason| unreadable_item(each, &reason))?;
        let item_facts = Facts::new(facts.request, values);
        if recipe.signed_per_item {
            proof::verify(verifier, &item_facts, now, None)?;
        }
        let context = Context { facts, values: Some(&item_facts.values), key: key.as_deref() };
        check(verifier, &context)?;
        items.push(item(verifier, &context, slice(body, raw)));
    }
    if recipe.signed_per_item && items.is_empty() {
        return Err(Refusal::UnreadableBody { reason: "the batch is empty, so that nothing in it is signed".to_owned() }.into());
    }
    Ok(items)
}

fn unreadable_item(each: &Each, reason: &str) -> Refusal {
    Refusal::UnreadableBody { reason: format!("in an item of `{}/`: {reason}", each.pointer) }
}

/// The bytes of an item as they were sent. The text was borrowed from the body.
fn slice(body: &Bytes, raw: &str) -> Bytes {
    body.slice_ref(raw.as_bytes())
}

/// An item's text, and the member that its array stands in.
type Found<'t> = (Option<String>, &'t str);

/// Finds the items of a batch. An envelope by member that has no array is one item itself.
fn split<'t>(each: &Each, facts: &Facts<'t>) -> Result<Vec<Found<'t>>, Refusal> {
    let unreadable = |what: &str| Refusal::UnreadableBody {
        reason: format!("`{}` {what}", if each.pointer.is_empty() { "the body" } else { &each.pointer }),
    };
    let raw = facts.values.raw(each.holder).ok_or_else(|| unreadable("is missing"))?;
    let mut found: Vec<Found<'t>> = Vec::new();
    if !each.by_key {
        if !raw.starts_with('[') {
            return Err(unreadable("is no array"));
        }
        found.extend(elements(raw, 0)?.into_iter().map(|raw| (None, raw)));
    } else {
        if !raw.starts_with('{') {
            return Err(unreadable("is no object of arrays"));
        }
        let members = document::members(raw, KEYS_MAX).ok_or_else(|| unreadable(&format!("has more than {KEYS_MAX} members")))?;
        if members.is_empty() {
            return Err(unreadable("is empty"));
        }
        if members.iter().all(|(_, raw)| !raw.starts_with('[')) {
            return Ok(vec![(None, raw)]);
        }
        for (key, raw) in members.into_iter().filter(|(_, raw)| raw.starts_with('[')) {
            found.extend(elements(raw, found.len())?.into_iter().map(|raw| (Some(key.clone()), raw)));
        }
    }
    if each.inner.0.is_empty() {
        return Ok(found);
    }
    let mut plan = Plan::default();
    let slot = plan.add(&each.inner);
    let inner = |(key, raw): Found<'t>| {
        let values = Values::read(raw, &plan).map_err(|reason| unreadable_item(each, &reason))?;
        Ok((key, values.raw(slot).ok_or_else(|| unreadable(&format!("has an item without `{}`", each.inner)))?))
    };
    found.into_iter().map(inner).collect()
}

fn elements(raw: &str, already: usize) -> Result<Vec<&str>, Refusal> {
    document::elements(raw, ITEMS_MAX - already).ok_or(Refusal::TooManyItems { max: ITEMS_MAX })
}

/// Where the picks of an item look.
struct Context<'a, 'r> {
    facts: &'a Facts<'r>,
    /// The item's own values; `None` where the item is the whole body.
    values: Option<&'a Values<'r>>,
    key: Option<&'a str>,
}

/// Whether a body that is one item is what the recipe and the source say. Items of a batch are checked one by one.
pub(super) fn check_whole(verifier: &Verifier, facts: &Facts<'_>) -> Result<(), Refusal> {
    if verifier.recipe.each.is_some() { Ok(()) } else { check(verifier, &Context { facts, values: None, key: None }) }
}

fn check(verifier: &Verifier, context: &Context<'_, '_>) -> Result<(), Refusal> {
    verifier.recipe.checks.iter().try_for_each(|check| verify_check(verifier, check, context))
}

fn item(verifier: &Verifier, context: &Context<'_, '_>, body: Bytes) -> Item {
    let recipe = &verifier.recipe;
    let request = context.facts.request;
    let content_type = match recipe.body {
        BodyKind::Json | BodyKind::Jwt => None,
        BodyKind::Form | BodyKind::Any => content_type(context.facts),
    };
    let named = pick(&recipe.event_type, context).or_else(|| request.path_type.filter(|_| !verifier.path_is_token()).map(Cow::Borrowed));
    Item {
        event_type: named.and_then(|name| event_type(&name)).unwrap_or_else(|| recipe.default_type.clone()),
        id: pick(&recipe.id, context).map(bounded),
        external_user: pick(&recipe.user, context).map(bounded),
        body,
        content_type,
    }
}

fn content_type(facts: &Facts<'_>) -> Option<String> {
    let value = facts.request.header("content-type").ok().flatten()?;
    let is_plain = value.len() <= CONTENT_TYPE_BYTES_MAX && value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    is_plain.then(|| value.to_owned()).filter(|value| !value.is_empty())
}

/// The first pick all of whose terms are there.
fn pick<'p>(picks: &'p Picks, context: &'p Context<'_, '_>) -> Option<Cow<'p, str>> {
    picks.0.iter().find_map(|terms| match terms.as_slice() {
        [one] => term(one, context),
        many => {
            let texts: Vec<Cow<'_, str>> = many.iter().map(|one| term(one, context)).collect::<Option<_>>()?;
            Some(Cow::Owned(texts.concat()))
        }
    })
}

fn term<'p>(term: &'p Term, context: &'p Context<'_, '_>) -> Option<Cow<'p, str>> {
    match term {
        Term::Header(name) => context.facts.request.header(name).ok().flatten().map(Cow::Borrowed),
        Term::Root(slot) => context.facts.values.text(*slot),
        Term::Item(slot) => context.values.and_then(|values| values.text(*slot)),
        Term::FormField(name) => context.facts.field(name).ok().flatten().map(Cow::Borrowed),
        Term::Key => context.key.map(Cow::Borrowed),
        Term::Path => context.facts.request.path_type.map(Cow::Borrowed),
        Term::Text(text) => Some(Cow::Borrowed(text.as_str())),
    }
    .filter(|text| !text.is_empty())
}

/// The id that is signed: from headers alone, and refused where one is there twice with different values.
pub(super) fn header_pick<'r>(picks: &'r Picks, facts: &'r Facts<'r>) -> Result<Option<Cow<'r, str>>, Refusal> {
    for name in picks.0.iter().flatten().filter_map(|term| if let Term::Header(name) = term { Some(name) } else { None }) {
        facts.request.header(name).map_err(|fault| Refusal::UnreadableSignature { reason: fault.describe(name) })?;
    }
    let context = Context { facts, values: None, key: None };
    let found = pick(picks, &context).map(|text| Cow::Owned(text.into_owned()));
    Ok(found)
}

fn verify_check(verifier: &Verifier, check: &Check, context: &Context<'_, '_>) -> Result<(), Refusal> {
    let value = term(&check.value, context);
    match &check.rule {
        CheckRule::OneOf(values) if value.as_ref().is_some_and(|value| values.iter().any(|one| one == value)) => Ok(()),
        CheckRule::OneOf(values) => Err(Refusal::UnknownValue {
            word: format!("unknown_{}", check.pointer.last()),
            reason: format!(
                "`{}` is {}; there are {}",
                check.pointer,
                value.map_or("missing".to_owned(), |value| format!("`{}`", shown(&value))),
                values.join(", ")
            ),
        }),
        CheckRule::Ours { kept, .. } => {
            let ours = match kept {
                Kept::SubscriptionId => &verifier.credentials.subscription_id,
                Kept::AppId => &verifier.credentials.app_id,
            };
            let is_ours = ours.as_ref().is_none_or(|ours| value.as_deref() == Some(ours));
            if is_ours { Ok(()) } else { Err(Refusal::NotOurs { pointer: check.pointer.to_string() }) }
        }
    }
}

/// A type's name of any text: what a name may not have becomes a dot, and the rest is cut off.
fn event_type(text: &str) -> Option<EventType> {
    let is_name = |c: char| u8::try_from(c).is_ok_and(is_name_byte);
    let name: String = text.chars().take(TYPE_CHARS_MAX).map(|c| if is_name(c) { c } else { '.' }).collect();
    EventType::parse(&name)
}

/// An id as it can be stored and compared.
fn bounded(text: Cow<'_, str>) -> String {
    let is_plain = text.len() <= ID_BYTES_MAX && !text.chars().any(char::is_control);
    if is_plain { text.into_owned() } else { format!("sha256:{}", hex(digest(&SHA256, text.as_bytes()).as_ref())) }
}

impl Verifier {
    /// Whether what stands behind the source in the path is its secret, and no type.
    fn path_is_token(&self) -> bool {
        matches!(self.recipe.mechanism, crate::inbound::recipe::Mechanism::Token(crate::inbound::recipe::TokenPlace::Path))
    }
}
