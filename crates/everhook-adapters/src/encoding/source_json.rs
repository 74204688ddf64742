//! The parts of a source that are JSON in a column: its secrets, and what it says beside its kind.

use everhook_core::model::{Dedupe, DedupeBy, RecipeTexts, SealedSecret, Source, SourceRateLimit, SourceResponse};

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use serde::{Deserialize, Serialize};

use super::{duration, micros};

/// What is at its default is absent. Lengths of time are microseconds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsJson {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subscription_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    app_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audience: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    public_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tolerance: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ip_allowlist: Vec<String>,
    per_ip_per_minute: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    per_user_per_minute: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dedupe: Option<DedupeJson>,
    forward: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    forward_headers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    keep_headers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response: Option<ResponseJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DedupeJson {
    by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    window: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResponseJson {
    status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    body: String,
}

/// Writes what a source says beside its kind.
pub(crate) fn write_settings(source: &Source) -> String {
    let json = SettingsJson {
        subscription_id: source.subscription_id.clone(),
        app_id: source.app_id.clone(),
        audience: source.audience.clone(),
        public_url: source.public_url.clone(),
        tolerance: source.tolerance.map(micros),
        ip_allowlist: source.ip_allowlist.iter().map(ToString::to_string).collect(),
        per_ip_per_minute: source.rate_limit.per_ip_per_minute,
        per_user_per_minute: source.rate_limit.per_user_per_minute,
        dedupe: source.dedupe.as_ref().map(write_dedupe),
        forward: source.forward,
        forward_headers: source.forward_headers.clone(),
        keep_headers: source.keep_headers.clone(),
        response: source.response.clone().map(|SourceResponse { status, content_type, body }| ResponseJson { status, content_type, body }),
    };
    serde_json::to_string(&json).expect("a struct of numbers and strings is JSON")
}

/// Reads what [`write_settings`] wrote into a source that was read otherwise; `None` if it is not that.
pub(crate) fn read_settings(text: &str, into: Source) -> Option<Source> {
    let json: SettingsJson = serde_json::from_str(text).ok()?;
    Some(Source {
        subscription_id: json.subscription_id,
        app_id: json.app_id,
        audience: json.audience,
        public_url: json.public_url,
        tolerance: json.tolerance.map(duration),
        ip_allowlist: json.ip_allowlist.iter().map(|network| network.parse().ok()).collect::<Option<_>>()?,
        rate_limit: SourceRateLimit { per_ip_per_minute: json.per_ip_per_minute, per_user_per_minute: json.per_user_per_minute },
        dedupe: match json.dedupe {
            Some(dedupe) => Some(read_dedupe(dedupe)?),
            None => None,
        },
        forward: json.forward,
        forward_headers: json.forward_headers,
        keep_headers: json.keep_headers,
        response: json.response.map(|ResponseJson { status, content_type, body }| SourceResponse { status, content_type, body }),
        ..into
    })
}

fn write_dedupe(dedupe: &Dedupe) -> DedupeJson {
    let at = match &dedupe.by {
        DedupeBy::Header(name) => Some(name.clone()),
        DedupeBy::Pointer(pointer) => Some(pointer.clone()),
        DedupeBy::Id | DedupeBy::Body => None,
    };
    DedupeJson { by: dedupe.by.as_str().to_owned(), at, window: micros(dedupe.window) }
}

fn read_dedupe(json: DedupeJson) -> Option<Dedupe> {
    let by = match (json.by.as_str(), json.at) {
        ("id", None) => DedupeBy::Id,
        ("header", Some(name)) => DedupeBy::Header(name),
        ("pointer", Some(pointer)) => DedupeBy::Pointer(pointer),
        ("body", None) => DedupeBy::Body,
        _ => return None,
    };
    Some(Dedupe { by, window: duration(json.window) })
}

/// Writes the fields of a recipe: a JSON object of texts.
pub(crate) fn write_recipe(recipe: &RecipeTexts) -> String {
    serde_json::to_string(recipe).expect("an object of strings is JSON")
}

/// Reads what [`write_recipe`] wrote.
pub(crate) fn read_recipe(text: &str) -> Option<RecipeTexts> {
    serde_json::from_str(text).ok()
}

/// Writes sealed secrets: a JSON array of base64.
pub(crate) fn write_secrets(secrets: &[SealedSecret]) -> String {
    let secrets: Vec<String> = secrets.iter().map(|SealedSecret(bytes)| BASE64_STANDARD_NO_PAD.encode(bytes)).collect();
    serde_json::to_string(&secrets).expect("a list of strings is JSON")
}

/// Reads what [`write_secrets`] wrote.
pub(crate) fn read_secrets(text: &str) -> Option<Vec<SealedSecret>> {
    let secrets: Vec<String> = serde_json::from_str(text).ok()?;
    secrets.iter().map(|secret| BASE64_STANDARD_NO_PAD.decode(secret).ok().map(SealedSecret)).collect()
}
