//! The OpenAPI document and the page that shows it.

use std::sync::Arc;

use axum::{Router, response::Response, routing::get};
use bytes::Bytes;
use http::{HeaderValue, header};
use utoipa::{
    OpenApi,
    openapi::{
        ObjectBuilder, OpenApi as Document, RefOr, Required, Type,
        path::{ParameterBuilder, ParameterIn},
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::{
    Api,
    error::Problem,
    words::{DeadLetterStatusFilter, DeliveryStatusFilter, StatsWindow},
};

const DOCUMENT_PATH: &str = "/openapi.json";

#[derive(OpenApi)]
#[openapi(
    info(title = "Everhook", description = "A webhook server. Publish an event once; it is delivered to every subscribed endpoint, with retries, signatures and a dead-letter queue."),
    components(schemas(Problem, DeliveryStatusFilter, DeadLetterStatusFilter, StatsWindow)),
    tags(
        (name = "events", description = "Publishing and reading events"),
        (name = "endpoints", description = "URLs that receive events"),
        (name = "deliveries", description = "Deliveries of events to endpoints, with their attempts"),
        (name = "dead letters", description = "Failed deliveries: list, retry, discard"),
        (name = "operations", description = "Bulk actions with progress"),
        (name = "retry schedules", description = "When failed deliveries are retried"),
        (name = "alerts", description = "Alert rules, the state of their alerts, and dry runs on past data"),
        (name = "event types", description = "Definitions of event types: schemas, examples, archiving"),
        (name = "channels", description = "Where notifications are sent, and the notifications that were sent"),
        (name = "applications", description = "Integrations inside an organization"),
        (name = "calls", description = "Manifests of applications, and calls to them"),
        (name = "stats", description = "Statistics of attempts and calls"),
        (name = "api keys", description = "Keys for the API and their scopes"),
        (name = "organizations", description = "The tenants of this server"),
        (name = "server", description = "Health checks"),
    ),
)]
struct Base;

/// What the document contains in addition to the routes.
pub fn base() -> Document {
    let mut document = Base::openapi();
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An API key: `eh_…`. Admin keys name the organization they act in by the header `X-Organization`."))
        .build();
    document.components.get_or_insert_default().add_security_scheme("api_key", SecurityScheme::Http(scheme));
    document
}

/// `PATCH` is `PUT` wherever both are there. The document names the operation twice, and each name must be its own.
pub fn name_patches(document: &mut Document) {
    for item in document.paths.paths.values_mut() {
        if let (Some(put), Some(patch)) = (&item.put, &mut item.patch)
            && put.operation_id == patch.operation_id
            && let Some(id) = &mut patch.operation_id
        {
            *id = id.replacen("change_", "patch_", 1);
        }
    }
}

/// The document as JSON, and the page.
pub fn routes(document: Document) -> Router<Arc<Api>> {
    let json = Bytes::from(serde_json::to_vec(&complete(document)).expect("a document is plain values"));
    let serve = move || {
        let mut response = Response::new(axum::body::Body::from(json.clone()));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        std::future::ready(response)
    };
    let page = SwaggerUi::new("/docs").config(Config::from(DOCUMENT_PATH));
    Router::new().route(DOCUMENT_PATH, get(serve)).merge(Router::from(page))
}

/// Adds what holds for every operation that needs a key: the header by which an admin names an organization.
pub fn complete(mut document: Document) -> Document {
    let name = |text: &str| ObjectBuilder::new().schema_type(Type::String).examples([text]).build();
    let header = ParameterBuilder::new()
        .name("X-Organization")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "The organization to act in, by id or uid: any for an `admin` key (`default` if absent), the key's own for others.",
        ))
        .schema(Some(name("default")))
        .build();
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten().filter(|operation| operation.security.is_some()) {
            operation.parameters.get_or_insert_default().push(RefOr::T(header.clone()));
        }
    }
    document
}
