//! The kinds of sources: which providers are understood, and what each of them needs.

use std::collections::BTreeMap;

use axum::{extract::Path, response::Response};
use everhook_core::{
    inbound::{self, Kind, RecipeFields},
    model::{KIND_CUSTOM, KIND_HMAC, Page},
};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::{
    access::MayRead,
    error::{ApiError, ReadProblems},
    page::List,
    wire::{NoParams, json},
};

/// A kind of source.
#[derive(Serialize, ToSchema)]
pub struct SourceKindOut {
    /// What a source has as its `kind`.
    name: String,
    /// The provider's name.
    title: String,
    /// What the owner of a source should know.
    note: String,
    /// The fields that a source of this kind uses.
    needs: Vec<SourceKindNeedOut>,
    /// Where the signature or the token is; null if requests are unsigned, or if it is a setting of the source.
    #[schema(required = true)]
    signature: Option<String>,
    /// Where the signed time is and how far it may be off; null if none is signed.
    #[schema(required = true)]
    timestamp: Option<String>,
    /// How the provider proves that the URL expects its requests; null if it does not.
    #[schema(required = true)]
    handshake: Option<String>,
    /// The recipe, in the fields that the kind `custom` takes.
    recipe: BTreeMap<&'static str, &'static str>,
}

/// A field that a kind of source uses.
#[derive(Serialize, ToSchema)]
pub struct SourceKindNeedOut {
    /// The name of the field.
    field: &'static str,
    /// Whether a source cannot be created without it.
    required: bool,
}

/// All of them, on one page.
pub type SourceKindList = List<SourceKindOut>;

/// Lists the kinds of sources: every supported provider, and the settings that each requires.
#[utoipa::path(
    get, path = "/v1/source-kinds", tag = "sources", operation_id = "list_source_kinds", security(("api_key" = ["read"])),
    responses((status = 200, description = "All kinds", body = SourceKindList), ReadProblems),
)]
pub async fn list(_caller: MayRead, _query: NoParams) -> Response {
    let kinds = inbound::kinds().iter().map(SourceKindOut::from);
    let page = Page { rows: kinds.collect(), next: None, prev: None };
    json(StatusCode::OK, &List::from(page))
}

/// Returns a kind of source.
#[utoipa::path(
    get, path = "/v1/source-kinds/{id}", tag = "sources", operation_id = "get_source_kind",
    params(("id" = String, Path, description = "The kind's name")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The kind", body = SourceKindOut), ReadProblems),
)]
pub async fn get(_caller: MayRead, _query: NoParams, Path(name): Path<String>) -> Result<Response, ApiError> {
    let found = inbound::kind(&name).ok_or_else(|| ApiError::not_found("kind of source"))?;
    Ok(json(StatusCode::OK, &SourceKindOut::from(found)))
}

impl From<&Kind> for SourceKindOut {
    fn from(kind: &Kind) -> Self {
        let RecipeFields { sig, token, ts, handshake, .. } = kind.recipe;
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Self {
            name: kind.name.to_owned(),
            title: kind.title.to_owned(),
            note: kind.note.to_owned(),
            needs: needs(kind),
            signature: text(sig).or_else(|| text(token)),
            timestamp: text(ts),
            handshake: text(handshake),
            recipe: kind.recipe.pairs().into_iter().collect(),
        }
    }
}

/// What a source of this kind uses. Where its owner writes the recipe, that comes first.
fn needs(kind: &Kind) -> Vec<SourceKindNeedOut> {
    let own: &[(&'static str, bool)] = match kind.name {
        KIND_CUSTOM => &[("recipe", true), ("secrets", false)],
        KIND_HMAC => &[("header", true), ("algorithm", false), ("encoding", false), ("prefix", false)],
        _ => &[],
    };
    let own = own.iter().map(|(field, required)| SourceKindNeedOut { field, required: *required });
    own.chain(kind.needs().iter().map(|need| SourceKindNeedOut { field: need.field, required: need.required })).collect()
}
