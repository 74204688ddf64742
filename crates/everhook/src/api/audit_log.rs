//! The audit log: who changed what, when, and from what to what.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    model::{Actor, AuditAction, AuditEntry},
    ports::{ActorFilter, AuditFilter, TimeRange},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{
    Api,
    access::MayRead,
    error::{ApiError, ReadProblems},
    page::{List, RequestedPage},
    wire::{Params, json, read, read_time},
};
use crate::api::words::{ActorKind, AuditActionWord, AuditResource};

/// A change and its author.
#[derive(Serialize, ToSchema)]
pub struct AuditEntryOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(format = DateTime)]
    at: String,
    actor: ActorOut,
    /// The action, such as `endpoint.update`.
    #[schema(value_type = AuditActionWord)]
    action: &'static str,
    /// The kind of resource, such as `endpoint`.
    #[schema(value_type = AuditResource)]
    resource: &'static str,
    #[schema(format = "uuid")]
    resource_id: String,
    /// The changed fields before the change; null for a creation. Secrets, keys and the values of headers are `***`.
    #[schema(value_type = Option<Object>, required = true)]
    before: Option<Box<RawValue>>,
    /// The changed fields after the change; null for a deletion.
    #[schema(value_type = Option<Object>, required = true)]
    after: Option<Box<RawValue>>,
    /// Whether fields were too long to be stored; they are replaced by their length.
    cut: bool,
}

/// Who made a change.
#[derive(Serialize, ToSchema)]
pub struct ActorOut {
    /// `api_key`, or `server` for Everhook itself.
    #[schema(value_type = ActorKind)]
    kind: &'static str,
    /// The key's id.
    #[schema(format = "uuid", required = true)]
    id: Option<String>,
    /// The key's name at that time.
    #[schema(required = true)]
    name: Option<String>,
}

impl From<Actor> for ActorOut {
    fn from(actor: Actor) -> Self {
        match actor {
            Actor::Key { id, name } => Self { kind: "api_key", id: Some(id.to_string()), name: Some(name) },
            Actor::Server => Self { kind: "server", id: None, name: None },
        }
    }
}

impl From<AuditEntry> for AuditEntryOut {
    fn from(entry: AuditEntry) -> Self {
        let raw = |text: Option<String>| text.and_then(|text| RawValue::from_string(text).ok());
        Self {
            id: entry.id.to_string(),
            at: entry.at.to_string(),
            actor: entry.actor.into(),
            action: entry.action.as_str(),
            resource: entry.action.noun(),
            resource_id: entry.resource.to_string(),
            before: raw(entry.note.before),
            after: raw(entry.note.after),
            cut: entry.note.is_cut,
        }
    }
}

/// Which changes to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// By actor: an API key's id, or `server`.
    actor: Option<String>,
    /// By action, such as `endpoint.update`.
    action: Option<String>,
    /// By the id of the resource.
    resource_id: Option<String>,
    /// Made at this time or later: RFC 3339 or a date.
    from: Option<String>,
    /// Made before this time: RFC 3339 or a date.
    to: Option<String>,
    /// The number of rows: 1 to 250, 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// The position of the page: a `next_cursor` or `prev_cursor`.
    cursor: Option<String>,
    /// The number of rows to skip: 0 to 10,000. Cannot be combined with `cursor`, which is faster.
    #[param(value_type = Option<u32>, maximum = 10_000)]
    offset: Option<String>,
}

/// A page of them.
pub type AuditEntryList = List<AuditEntryOut>;

/// Lists the changes made in the organization, newest first.
#[utoipa::path(
    get, path = "/v1/audit-log", tag = "audit log", operation_id = "list_audit_log", params(AuditQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of changes", body = AuditEntryList), ReadProblems),
)]
pub async fn list(State(api): State<Arc<Api>>, MayRead(caller): MayRead, Params(query): Params<AuditQuery>) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let page = RequestedPage::read(query.limit.as_deref(), query.cursor.as_deref(), query.offset.as_deref(), &mut faults);
    let actor = read(query.actor.as_deref(), "actor", &mut faults, read_actor);
    let action = read(query.action.as_deref(), "action", &mut faults, read_action);
    let resource = read(query.resource_id.as_deref(), "resource_id", &mut faults, |text| {
        Uuid::try_parse(text).map_err(|_| "must be a UUID".to_owned())
    });
    let from = read(query.from.as_deref(), "from", &mut faults, read_time);
    let to = read(query.to.as_deref(), "to", &mut faults, read_time);
    if !faults.is_empty() {
        return Err(ApiError::bad_query(faults));
    }
    let filter = AuditFilter { actor, action, resource, made: TimeRange { from, to } };
    let page = page.fetch(|page| api.line.ports.audit_log.audit_log(caller.organization, filter, page)).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(AuditEntryOut::from))))
}

fn read_actor(text: &str) -> Result<ActorFilter, String> {
    if text == "server" {
        return Ok(ActorFilter::Server);
    }
    text.parse().map(ActorFilter::Key).map_err(|_| "must be an API key's id, or `server`".to_owned())
}

fn read_action(text: &str) -> Result<AuditAction, String> {
    let known = || AuditAction::ALL.iter().map(|action| action.as_str()).collect::<Vec<_>>().join(", ");
    AuditAction::parse(text).ok_or_else(|| format!("must be one of {}", known()))
}
