//! Health data: connections of profiles with providers' users, data of the past, what was measured, and erasing a profile.

mod backfill;
mod connections;
mod metrics;
mod profiles;

use std::sync::Arc;

use utoipa_axum::{router::OpenApiRouter, routes};

use super::Api;

/// The routes.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default()
        .routes(routes!(connections::create, connections::list))
        .routes(routes!(connections::get, connections::delete))
        .routes(routes!(backfill::begin))
        .routes(routes!(backfill::get))
        .routes(routes!(metrics::list))
        .routes(routes!(profiles::erase))
        .routes(routes!(profiles::erase_user))
}
