//! `GET /metrics` on the API's address, for admins: it shows measurements of all organizations. Not in the API's document, because no client of the API calls it.
//!
//! `metrics_listen` serves the same at an address of its own, to everybody who reaches that.

use std::sync::Arc;

use axum::{
    Extension, Router,
    response::{IntoResponse as _, Response},
    routing::get,
};
use http::header;

use super::{Api, access::MayAdminister, no_such_method, no_such_route};
use crate::metrics::{CONTENT_TYPE, Exposition};

/// Where metrics are.
const PATH: &str = "/metrics";

/// The route for admins, beside those of the API.
pub fn for_admins(api: Arc<Api>, exposition: Arc<Exposition>) -> Router {
    let router = Router::new().route(PATH, get(show_to_admin)).method_not_allowed_fallback(no_such_method);
    router.layer(Extension(exposition)).with_state(api)
}

/// The route at the address of metrics, which needs no key.
pub fn for_everybody(exposition: Arc<Exposition>) -> Router {
    let router = Router::new().route(PATH, get(show)).fallback(no_such_route).method_not_allowed_fallback(no_such_method);
    router.layer(Extension(exposition))
}

async fn show_to_admin(MayAdminister(_): MayAdminister, exposition: Extension<Arc<Exposition>>) -> Response {
    show(exposition).await
}

async fn show(Extension(exposition): Extension<Arc<Exposition>>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], exposition.render()).into_response()
}
