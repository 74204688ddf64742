//! An application's configuration as one document: exported, and imported into the same or another application.

use std::sync::Arc;

use axum::{
    body::HttpBody as _,
    extract::{Request, State},
    response::Response,
};
use everhook_core::{
    ids::{ApplicationId, OrganizationId},
    manage::{
        Change, Fault,
        applications::ApplicationChange,
        endpoints as endpoint_cases,
        schedules::Known,
        sources as source_cases,
        transfer::{self, Configuration, Counts, ITEMS_MAX, Imported, Mode},
    },
    model::{Application, Cursor, Endpoint, EventTypeDefinition, PageRequest, Scope, Source},
    ports::EndpointFilter,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    access::{Caller, MayManage, MayRead},
    body::{parse_large_object, read_json},
    endpoints::{self, EndpointConfigOut, EndpointIn, EndpointOut, NewEndpointIn},
    error::{ApiError, ChangeProblems, ExportProblems, LimitProblems, ProblemKind, ReadProblems},
    event_types::{EventTypeConfigOut, EventTypeIn, NewEventTypeIn},
    run_to_completion,
    schedules::{ScheduleConfigOut, ScheduleIn, ScheduleOut},
    sources::{self, SourceConfigOut, SourceIn},
    wire::{Field, HIDDEN, Named, NoParams, Object, Params, bounded_list, json},
};
use crate::memory::Charge;

/// The version of the document that this server writes and reads.
const VERSION: u32 = 1;

/// The largest document, in bytes: a thousand endpoints with their metadata.
const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How many things of a document count as one change: they come in one request, and are written one after the other.
const ITEMS_A_CHANGE: usize = 10;

/// From this size on a document waits for its turn.
const LARGE_DOCUMENT_BYTES: usize = 256 * 1024;

/// How many event types, and how many endpoints, are read at once: each may have a hundred kilobytes.
const PAGE: u32 = 25;

/// The configuration of an application, with the event types and retry schedules of its organization.
#[derive(Serialize, ToSchema)]
pub struct ConfigurationOut {
    /// The version of the document: 1.
    version: u32,
    application: ApplicationConfigOut,
    endpoints: Vec<EndpointConfigOut>,
    /// The application's sources.
    sources: Vec<SourceConfigOut>,
    /// The organization's event types.
    event_types: Vec<EventTypeConfigOut>,
    /// The organization's retry schedules that endpoints of the application use.
    retry_schedules: Vec<ScheduleConfigOut>,
}

/// The application. Its name and uid are not included.
#[derive(Serialize, ToSchema)]
pub struct ApplicationConfigOut {
    strict_event_types: bool,
    #[schema(required = true)]
    owner_email: Option<String>,
    #[schema(required = true)]
    base_url: Option<String>,
    #[schema(required = true)]
    health_path: Option<String>,
}

impl From<Application> for ApplicationConfigOut {
    fn from(application: Application) -> Self {
        Self {
            strict_event_types: application.strict_event_types,
            owner_email: application.owner_email.map(|email| email.to_string()),
            base_url: application.base_url,
            health_path: application.health_path,
        }
    }
}

/// What to export.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExportQuery {
    /// `true`: include the secrets of endpoints and sources. Requires the scope `manage`.
    #[param(value_type = Option<bool>)]
    secrets: Option<String>,
}

/// A configuration to import.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"version": 1, "endpoints": [{"url": "https://shop.example/webhooks", "event_types": ["order.*"], "uid": "shop"}], "dry_run": true}))]
pub struct ConfigurationIn {
    /// The version of the document: 1. Required.
    #[schema(required = true, value_type = u32)]
    version: Option<i64>,
    /// The application.
    #[schema(value_type = Option<ApplicationConfigIn>)]
    application: Option<Object<ApplicationConfigIn>>,
    /// Matched by `uid`, or else by `name` and `url`. Missing endpoints are created; none are deleted.
    #[serde(default, deserialize_with = "bounded_list")]
    #[schema(value_type = Vec<NewEndpointIn>)]
    endpoints: Vec<Object<EndpointIn>>,
    /// Matched by `name`. Missing sources are created, for which most kinds need `secrets`; none are deleted.
    #[serde(default, deserialize_with = "bounded_list")]
    #[schema(value_type = Vec<SourceIn>)]
    sources: Vec<Object<SourceIn>>,
    /// Matched by `name`.
    #[serde(default, deserialize_with = "bounded_list")]
    #[schema(value_type = Vec<NewEventTypeIn>)]
    event_types: Vec<Object<EventTypeIn>>,
    /// Matched by `name`.
    #[serde(default, deserialize_with = "bounded_list")]
    #[schema(value_type = Vec<ScheduleIn>)]
    retry_schedules: Vec<Object<ScheduleIn>>,
    /// Only check and count; write nothing.
    #[serde(default)]
    dry_run: bool,
}

/// The application.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplicationConfigIn {
    strict_event_types: Option<bool>,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    owner_email: Field<String>,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    base_url: Field<String>,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    health_path: Field<String>,
}

impl From<ApplicationConfigIn> for ApplicationChange {
    fn from(asked: ApplicationConfigIn) -> Self {
        Self {
            strict_event_types: asked.strict_event_types.map_or(Change::Keep, Change::Set),
            owner_email: asked.owner_email.0,
            base_url: asked.base_url.0,
            health_path: asked.health_path.0,
            ..Self::default()
        }
    }
}

/// What an import did, or would do.
#[derive(Serialize, ToSchema)]
pub struct ImportedOut {
    dry_run: bool,
    application: CountsOut,
    endpoints: CountsOut,
    sources: CountsOut,
    event_types: CountsOut,
    retry_schedules: CountsOut,
}

/// Counts of one kind of item.
#[derive(Serialize, ToSchema)]
pub struct CountsOut {
    created: u32,
    updated: u32,
    unchanged: u32,
}

impl From<Counts> for CountsOut {
    fn from(counts: Counts) -> Self {
        Self { created: counts.created, updated: counts.updated, unchanged: counts.unchanged }
    }
}

/// Exports the configuration of an application as one document.
#[utoipa::path(
    get, path = "/v1/applications/{id}/export", tag = "applications", operation_id = "export_application",
    params(("id" = String, Path, description = "The application's id or uid"), ExportQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "The configuration", body = ConfigurationOut), ReadProblems, ExportProblems),
)]
pub async fn export(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Named(of): Named<ApplicationId>,
    Params(query): Params<ExportQuery>,
) -> Result<Response, ApiError> {
    let with_secrets = match query.secrets.as_deref() {
        None | Some("false") => false,
        Some("true") if caller.scopes.allow(Scope::Manage) => true,
        Some("true") => return Err(ApiError::new(ProblemKind::InsufficientScope, "`secrets` requires a key with the scope `manage`")),
        Some(_) => return Err(ApiError::bad_query(vec![Fault::new("secrets", "must be true or false")])),
    };
    let found = api.line.ports.applications.application(caller.organization, &of).await?;
    let application = found.ok_or_else(|| ApiError::not_found("application"))?;
    let _turn = api.transfers.turn(caller.organization).await.ok_or_else(busy)?;
    let response = json(StatusCode::OK, &configuration(&api, &caller, application, with_secrets).await?);
    match response.body().size_hint().exact() {
        Some(bytes) if bytes > DOCUMENT_BYTES_MAX as u64 => Err(too_large_to_export()),
        _ => Ok(response),
    }
}

/// 503: the imports and exports before this one take too long.
fn busy() -> ApiError {
    ApiError::unavailable("another import or export is in progress: try again")
}

/// 422: no import would take it.
fn too_large_to_export() -> ApiError {
    let words = format!(
        "the configuration is larger than {} MiB, the limit of an import: read it page by page from `/v1/endpoints` and `/v1/event-types`",
        DOCUMENT_BYTES_MAX >> 20
    );
    ApiError::new(ProblemKind::ConfigurationTooLarge, words)
}

/// What may still be exported.
struct Room {
    bytes: usize,
}

impl Room {
    /// Takes one more of a list that has `count` with it.
    fn take(&mut self, noun: &str, count: usize, bytes: usize) -> Result<(), ApiError> {
        if count > ITEMS_MAX {
            let words = format!("there are more than {ITEMS_MAX} {noun}, the limit of an import: read them page by page");
            return Err(ApiError::new(ProblemKind::ConfigurationTooLarge, words));
        }
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(too_large_to_export)?;
        Ok(())
    }
}

/// Imports a configuration into an application. Everything is checked first, and all errors are reported; then each item is written.
#[utoipa::path(
    post, path = "/v1/applications/{id}/import", tag = "applications", operation_id = "import_application", request_body = ConfigurationIn,
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Imported", body = ImportedOut), ChangeProblems, LimitProblems),
)]
pub async fn import(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
    request: Request,
) -> Result<Response, ApiError> {
    let found = api.line.ports.applications.application(caller.organization, &of).await?;
    found.ok_or_else(|| ApiError::not_found("application"))?;
    let charge = Charge::new(api.bodies.clone(), caller.organization);
    let (body, charge) = read_json(request, DOCUMENT_BYTES_MAX, charge).await?;
    // What is made of a document may take many times its size: large ones come one after the other.
    let turn = match body.len() {
        ..LARGE_DOCUMENT_BYTES => None,
        _ => Some(api.transfers.turn(caller.organization).await.ok_or_else(busy)?),
    };
    let asked: ConfigurationIn = parse_large_object(&body)?;
    drop(body);
    let mode = if asked.dry_run { Mode::DryRun } else { Mode::Write };
    let wanted = asked.into_configuration()?;
    // Each thing is a write of its own, and a check of its own in a dry run.
    let items = wanted.endpoints.len() + wanted.sources.len() + wanted.event_types.len() + wanted.schedules.len();
    api.changes.take(&caller, u32::try_from(items / ITEMS_A_CHANGE).unwrap_or(u32::MAX), api.line.ports.clock.now())?;
    let import = async move {
        let imported = transfer::import(&api.line, &api.targets, &caller.author(), &of, wanted, mode).await;
        drop((charge, turn));
        imported
    };
    let Imported { application, schedules, event_types, endpoints, sources } = run_to_completion(import).await??;
    let out = ImportedOut {
        dry_run: mode == Mode::DryRun,
        application: application.into(),
        endpoints: endpoints.into(),
        sources: sources.into(),
        event_types: event_types.into(),
        retry_schedules: schedules.into(),
    };
    Ok(json(StatusCode::OK, &out))
}

impl ConfigurationIn {
    fn into_configuration(self) -> Result<Configuration, ApiError> {
        if self.version != Some(i64::from(VERSION)) {
            return Err(ApiError::invalid(vec![Fault::new("version", format!("must be {VERSION}"))]));
        }
        let mut endpoints = Vec::with_capacity(self.endpoints.len());
        for (index, Object(endpoint)) in self.endpoints.into_iter().enumerate() {
            let mut faults = Vec::new();
            for field in endpoint.named_places() {
                let reason = "must be absent: an imported endpoint belongs to the application in the path";
                faults.push(Fault::new(format!("endpoints[{index}].{field}"), reason));
            }
            let new = endpoint.into_new()?;
            if matches!(&new.settings.headers, Change::Set(headers) if headers.iter().any(|(_, value)| value == HIDDEN)) {
                let reason = format!(
                    "has the value `{HIDDEN}`, a placeholder for a value that was not exported: export with a key with the scope `manage`"
                );
                faults.push(Fault::new(format!("endpoints[{index}].headers"), reason));
            }
            if !faults.is_empty() {
                return Err(ApiError::invalid(faults));
            }
            endpoints.push(new);
        }
        let sources = self.sources.into_iter().enumerate().map(|(index, Object(source))| source.into_imported(index));
        let event_types = self.event_types.into_iter().map(|Object(definition)| definition.try_into());
        Ok(Configuration {
            application: self.application.map(|Object(application)| application.into()).unwrap_or_default(),
            schedules: self.retry_schedules.into_iter().map(|Object(schedule)| schedule.into()).collect(),
            event_types: event_types.collect::<Result<_, ApiError>>()?,
            endpoints,
            sources: sources.collect::<Result<_, ApiError>>()?,
        })
    }
}

async fn configuration(api: &Api, caller: &Caller, application: Application, with_secrets: bool) -> Result<ConfigurationOut, ApiError> {
    let mut room = Room { bytes: DOCUMENT_BYTES_MAX };
    let rows = endpoints_of(api, caller.organization, application.id, &mut room).await?;
    let sources = sources_of(api, caller.organization, application.id, with_secrets, &mut room).await?;
    let event_types = event_types(api, caller.organization, &mut room).await?;
    let mut own = api.line.ports.retry_schedules.retry_schedules(caller.organization).await?;
    own.retain(|schedule| rows.iter().any(|endpoint| endpoint.follows == Some(schedule.id)));
    own.sort_by(|a, b| a.policy.name.0.cmp(&b.policy.name.0));
    let mut endpoints = Vec::with_capacity(rows.len());
    for endpoint in rows {
        let id = everhook_core::ids::Ref::Id(endpoint.id);
        let mut out = EndpointOut::settings(api, endpoint, caller.scopes).await?;
        if with_secrets {
            let revealed = endpoint_cases::reveal(&api.line, caller.organization, &id).await?;
            out.secret = Some(revealed.current.text().expose().clone());
        }
        endpoints.push(EndpointConfigOut::from(out));
    }
    Ok(ConfigurationOut {
        version: VERSION,
        application: application.into(),
        endpoints,
        sources,
        event_types: event_types.into_iter().map(EventTypeConfigOut::from).collect(),
        retry_schedules: own.into_iter().map(|own| ScheduleOut::from(Known::Own(own)).into()).collect(),
    })
}

/// All of an application's endpoints, in the order of their making, which an import keeps.
async fn endpoints_of(
    api: &Api,
    organization: OrganizationId,
    application: ApplicationId,
    room: &mut Room,
) -> Result<Vec<Endpoint>, ApiError> {
    let filter = EndpointFilter { application: Some(application), ..EndpointFilter::default() };
    let (mut all, mut cursor) = (Vec::new(), Cursor::Newest);
    loop {
        let page = api.line.ports.endpoints.endpoints(organization, filter.clone(), PageRequest { limit: PAGE, cursor }).await?;
        for endpoint in page.rows {
            room.take("endpoints", all.len() + 1, endpoints::size(&endpoint))?;
            all.push(endpoint);
        }
        match page.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    all.sort_by_key(|endpoint: &Endpoint| endpoint.id);
    Ok(all)
}

/// All of an application's sources, by name.
async fn sources_of(
    api: &Api,
    organization: OrganizationId,
    application: ApplicationId,
    with_secrets: bool,
    room: &mut Room,
) -> Result<Vec<SourceConfigOut>, ApiError> {
    let (mut all, mut cursor): (Vec<Source>, _) = (Vec::new(), Cursor::Newest);
    loop {
        let page = api.line.ports.sources.sources(organization, Some(application), PageRequest { limit: PAGE, cursor }).await?;
        for source in page.rows {
            room.take("sources", all.len() + 1, sources::size(&source))?;
            all.push(source);
        }
        match page.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = Vec::with_capacity(all.len());
    for source in all {
        let revealed = if with_secrets { Some(source_cases::revealed(&api.line, &source)?) } else { None };
        out.push(SourceConfigOut::new(api, source, revealed));
    }
    Ok(out)
}

/// All of them, by name.
async fn event_types(api: &Api, organization: OrganizationId, room: &mut Room) -> Result<Vec<EventTypeDefinition>, ApiError> {
    let size = |definition: &EventTypeDefinition| -> usize {
        [&definition.description, &definition.schema, &definition.example].into_iter().flatten().map(String::len).sum()
    };
    let (mut all, mut cursor) = (Vec::new(), Cursor::Newest);
    loop {
        let page = api.line.ports.event_types.event_types(organization, None, PageRequest { limit: PAGE, cursor }).await?;
        for definition in page.rows {
            room.take("event types", all.len() + 1, size(&definition))?;
            all.push(definition);
        }
        match page.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    all.sort_by(|a: &EventTypeDefinition, b| a.name.as_str().cmp(b.name.as_str()));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_import_takes_is_not_exported() {
        let mut room = Room { bytes: DOCUMENT_BYTES_MAX };
        assert!(room.take("endpoints", ITEMS_MAX, DOCUMENT_BYTES_MAX).is_ok());
        let refused = |room: &mut Room, count, bytes| room.take("endpoints", count, bytes).unwrap_err().into_problem();
        let status = |problem| serde_json::to_value(problem).unwrap()["status"].clone();
        assert_eq!(status(refused(&mut room, ITEMS_MAX + 1, 0)), 422);
        assert_eq!(status(refused(&mut room, 1, 1)), 422);
    }
}
