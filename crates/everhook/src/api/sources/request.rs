//! A source as clients write it.

use std::time::Duration;

use everhook_core::{
    manage::{
        Change, Fault,
        sources::{DedupeInput, NewSource, RateLimitInput, ResponseInput, SourceChange},
    },
    model::{RecipeTexts, Secret},
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::{
    creation::{Creates, New},
    error::ApiError,
    wire::{Field, Object, Texts},
};
use crate::{
    api::words::{DedupeByWord, HmacAlgorithm, HmacEncoding, ProcessorWord},
    config::units::parse_duration,
};

/// A source. An update needs only the changed fields; null resets a field to its default.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "shop", "kind": "hmac", "header": "X-Signature", "prefix": "sha256=", "secrets": ["It's a Secret to Everybody"]}))]
pub struct SourceIn {
    /// Unique in the organization: 1 to 64 of A-Z a-z 0-9 _ - and not a UUID. Required at creation.
    #[serde(default)]
    #[schema(value_type = String, required = false, example = "github")]
    name: Field<String>,
    /// One of `GET /v1/source-kinds`. Required at creation.
    #[serde(default)]
    #[schema(value_type = String, required = false, example = "github")]
    kind: Field<String>,
    /// The application that its events are published to, by id or uid; `default` if absent. Only at creation.
    #[serde(default)]
    application_id: Option<String>,
    /// For the kind `custom`: how requests are verified, split and answered, in the fields that `GET /v1/source-kinds` shows. Replaced as a whole.
    #[serde(default)]
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>, example = json!({"mac": "sha256 hex", "sig": "X-Signature", "over": "{body}"}))]
    recipe: Field<Texts>,
    /// For the kind `hmac`: the header that has the signature of the body.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "X-Signature")]
    header: Field<String>,
    /// For the kind `hmac`; `sha256` if absent.
    #[serde(default)]
    #[schema(value_type = Option<HmacAlgorithm>)]
    algorithm: Field<String>,
    /// For the kind `hmac`; `hex` if absent.
    #[serde(default)]
    #[schema(value_type = Option<HmacEncoding>)]
    encoding: Field<String>,
    /// For the kind `hmac`: the prefix of the signature, such as `sha256=`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    prefix: Field<String>,
    /// What the provider signs with, at most 10: any of them may have signed. Replaced as a whole: to rotate, send the new and the old one, then the new one alone.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>, max_items = 10)]
    secrets: Field<Vec<String>>,
    /// The token that the provider sends in its handshake.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    verify_token: Field<String>,
    /// The provider's id of the subscription, where the kind checks it.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    subscription_id: Field<String>,
    /// The provider's id of the webhook or app, where the kind signs or checks it.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    app_id: Field<String>,
    /// Who a JSON web token must be for, where the kind checks it.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    audience: Field<String>,
    /// The URL that the provider calls, for kinds that sign it; taken from the request if absent.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    public_url: Field<String>,
    /// How far the time in a request may be off, with a unit: `1s` to `7d`; the default of the kind if absent.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "5m")]
    tolerance: Field<String>,
    /// The only addresses that may send: at most 200 addresses or CIDR blocks; any if empty.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>, max_items = 200)]
    ip_allowlist: Field<Vec<String>>,
    /// How many requests are accepted in a minute; more are answered with 429. Replaced as a whole.
    #[serde(default)]
    #[schema(value_type = Option<SourceRateLimitIn>)]
    rate_limit: Field<Object<SourceRateLimitIn>>,
    /// When an event is a duplicate: it is kept and marked, and not delivered. Every event is delivered if absent. Replaced as a whole.
    #[serde(default)]
    #[schema(value_type = Option<DedupeIn>)]
    dedupe: Field<Object<DedupeIn>>,
    /// Whether its events go to the endpoints of the application; true if absent.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    forward: Field<bool>,
    /// The built-in code that handles its events: `health` for the kinds `garmin` and `strava`. None if absent.
    #[serde(default)]
    #[schema(value_type = Option<ProcessorWord>)]
    processor: Field<String>,
    /// The names of headers of the request that are sent to endpoints with the event: at most 32.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>, max_items = 32)]
    forward_headers: Field<Vec<String>>,
    /// The names of headers of the request that are kept with the event: at most 32.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>, max_items = 32)]
    keep_headers: Field<Vec<String>>,
    /// The answer to an accepted request; what the provider expects if absent. Replaced as a whole.
    #[serde(default)]
    #[schema(value_type = Option<SourceResponseIn>)]
    response: Field<Object<SourceResponseIn>>,
}

/// The same, where it creates one.
pub type NewSourceIn = New<SourceIn>;

impl Creates for SourceIn {
    const REQUIRED: &'static [&'static str] = &["name", "kind"];
}

/// How many requests a source accepts in a minute.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceRateLimitIn {
    /// From one address: 1 to 1,000,000; 1,000 if absent.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000)]
    per_ip_per_minute: Option<i64>,
    /// About one user of the provider: 1 to 1,000,000; no limit if absent.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000)]
    per_user_per_minute: Option<i64>,
}

/// When an event is a duplicate.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"by": "header", "header": "X-GitHub-Delivery", "window": "1d"}))]
pub struct DedupeIn {
    /// What two events have in common: the `id` that the kind finds, a `header`, a value of the body (`pointer`), or the whole `body`.
    #[serde(default)]
    #[schema(value_type = DedupeByWord, required = true)]
    by: Option<String>,
    /// With `header`: its name.
    #[serde(default)]
    header: Option<String>,
    /// With `pointer`: a JSON pointer such as `/data/id`.
    #[serde(default)]
    pointer: Option<String>,
    /// For how long, with a unit: `1s` up to the server's `idempotency_window`; `1d` if absent.
    #[serde(default)]
    #[schema(example = "1d")]
    window: Option<String>,
}

/// The answer to an accepted request.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceResponseIn {
    /// 200 to 299; 200 if absent.
    #[serde(default)]
    #[schema(value_type = Option<u16>, minimum = 200, maximum = 299)]
    status: Option<i64>,
    /// The content type of the body.
    #[serde(default)]
    content_type: Option<String>,
    /// At most 4,096 bytes; empty if absent.
    #[serde(default)]
    body: Option<String>,
}

impl SourceIn {
    /// A source of a document, at this place of it.
    pub fn into_imported(self, index: usize) -> Result<NewSource, ApiError> {
        if self.application_id.is_some() {
            let reason = "must be absent: an imported source belongs to the application in the path";
            return Err(ApiError::invalid(vec![Fault::new(format!("sources[{index}].application_id"), reason)]));
        }
        into_new(self)
    }
}

/// A new source.
pub fn into_new(mut asked: SourceIn) -> Result<NewSource, ApiError> {
    Ok(NewSource { application: asked.application_id.take(), settings: into_change(asked)? })
}

/// A change of a source. Its application stays.
pub fn into_change(asked: SourceIn) -> Result<SourceChange, ApiError> {
    if asked.application_id.is_some() {
        return Err(ApiError::invalid(vec![Fault::new("application_id", "can only be set at creation")]));
    }
    let recipe = match asked.recipe.0 {
        Change::Keep => Change::Keep,
        Change::Clear => Change::Clear,
        Change::Set(texts) => Change::Set(read_recipe(texts)?),
    };
    Ok(SourceChange {
        name: asked.name.0,
        kind: asked.kind.0,
        recipe,
        header: asked.header.0,
        algorithm: asked.algorithm.0,
        encoding: asked.encoding.0,
        prefix: asked.prefix.0,
        secrets: asked.secrets.map(|secrets| secrets.into_iter().map(Secret::new).collect()),
        verify_token: asked.verify_token.map(Secret::new),
        subscription_id: asked.subscription_id.0,
        app_id: asked.app_id.0,
        audience: asked.audience.0,
        public_url: asked.public_url.0,
        tolerance: asked.tolerance.map(read_duration),
        ip_allowlist: asked.ip_allowlist.0,
        rate_limit: asked.rate_limit.map(|Object(limit)| RateLimitInput {
            per_ip_per_minute: limit.per_ip_per_minute,
            per_user_per_minute: limit.per_user_per_minute,
        }),
        dedupe: asked.dedupe.map(|Object(dedupe)| dedupe.into()),
        forward: asked.forward.0,
        processor: asked.processor.0,
        forward_headers: asked.forward_headers.0,
        keep_headers: asked.keep_headers.0,
        response: asked.response.map(|Object(SourceResponseIn { status, content_type, body })| ResponseInput {
            status,
            content_type,
            body,
        }),
    })
}

/// A repeated name is a repeated field.
fn read_recipe(Texts(texts): Texts) -> Result<RecipeTexts, ApiError> {
    let mut recipe = RecipeTexts::new();
    for (name, text) in texts {
        if recipe.contains_key(&name) {
            return Err(ApiError::bad_request(format!("the field `{}` of `recipe` is given twice", name.escape_debug())));
        }
        recipe.insert(name, text);
    }
    Ok(recipe)
}

/// Reads a length of time. What is none is longer than any may be, so that it is refused together with what else is wrong.
fn read_duration(text: String) -> Duration {
    parse_duration(&text).unwrap_or(Duration::MAX)
}

impl From<DedupeIn> for DedupeInput {
    fn from(DedupeIn { by, header, pointer, window }: DedupeIn) -> Self {
        Self { by, header, pointer, window: window.map(read_duration) }
    }
}
