//! The OpenAPI document and the page that shows it.

use std::sync::Arc;

use axum::{Router, response::Response, routing::get};
use bytes::Bytes;
use http::{HeaderValue, header};
use utoipa::{
    OpenApi,
    openapi::{
        OpenApi as Document,
        path::Operation,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::{Api, error::Problem};

const DOCUMENT_PATH: &str = "/openapi.json";

#[derive(OpenApi)]
#[openapi(
    info(title = "Everhook", description = "Webhooks that arrive. Publish an event once; every subscribed endpoint gets it, or a person can see why not."),
    components(schemas(Problem)),
    tags(
        (name = "events", description = "Publish events, and look back at them"),
        (name = "endpoints", description = "Where events go. Also under `/v1/webhooks` and `/v1/subscriptions`"),
        (name = "deliveries", description = "One event for one endpoint, with its attempts"),
        (name = "dead letters", description = "What gave up: look, retry, discard. Also under `/v1/dead-letters`"),
        (name = "operations", description = "Bulk actions, with their progress"),
        (name = "retry schedules", description = "When failed deliveries are tried again"),
        (name = "event types", description = "What data of a type must be, and which types are out of use"),
        (name = "applications", description = "Integrations inside an organization"),
        (name = "api keys", description = "Who may do what"),
        (name = "organizations", description = "The tenants of this server"),
        (name = "server", description = "Whether the server is alive and ready"),
    ),
)]
struct Base;

/// What the document says beside the routes.
pub fn base() -> Document {
    let mut document = Base::openapi();
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An API key: `eh_…`. Admin keys name the organization they act in by the header `X-Organization`."))
        .build();
    document.components.get_or_insert_default().add_security_scheme("api_key", SecurityScheme::Http(scheme));
    document
}

/// The document as JSON, and the page.
pub fn routes(document: Document) -> Router<Arc<Api>> {
    let json = Bytes::from(serde_json::to_vec(&document).expect("a document is plain values"));
    let serve = move || {
        let mut response = Response::new(axum::body::Body::from(json.clone()));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        std::future::ready(response)
    };
    let page = SwaggerUi::new("/docs").config(Config::from(DOCUMENT_PATH));
    Router::new().route(DOCUMENT_PATH, get(serve)).merge(Router::from(page))
}

/// Names the operations of a second mount differently: an operation's id must be unique in the document.
pub fn under_another_name(mut router: OpenApiRouter<Arc<Api>>, name: &str) -> OpenApiRouter<Arc<Api>> {
    for item in router.get_openapi_mut().paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
        operations.into_iter().flatten().for_each(|operation| rename(operation, name));
    }
    router
}

/// The same for a mount that keeps its names: every id gets this ending.
pub fn with_other_ids(mut router: OpenApiRouter<Arc<Api>>, ending: &str) -> OpenApiRouter<Arc<Api>> {
    for item in router.get_openapi_mut().paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
        let ids = operations.into_iter().flatten().filter_map(|operation| operation.operation_id.as_mut());
        ids.for_each(|id| id.push_str(ending));
    }
    router
}

fn rename(operation: &mut Operation, name: &str) {
    if let Some(id) = &mut operation.operation_id {
        *id = id.replace("endpoint", name);
    }
    operation.tags = Some(vec![format!("{name}s (another name for endpoints)")]);
}
