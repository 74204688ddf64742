//! What a key that is limited to one application reaches, route by route. Asked by the extractors of `access` before any handler runs.
//!
//! What a path names must be of the key's application; to the key, everything else of the organization is not there. What concerns the whole
//! organization is refused, and so is every route that this file does not know. Lists, and bodies that name an application, are narrowed where they are
//! read, by `Api::filter_application`, `Api::find_endpoint` and [`Caller::application_in_body`].

use std::sync::Arc;

use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams};
use everhook_core::{
    ids::{ApplicationId, OrganizationId, Ref},
    manage::{Fault, no_such_application},
};
use http::{Method, request::Parts};

use super::{
    Api,
    access::Caller,
    error::{ApiError, ProblemKind},
};

/// What a route is about, for a key of one application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// What the key's application has of something: a list, or a body that may name the application.
    Narrowed,
    /// What all applications of the organization share, and the key may read.
    Shared,
    /// The application that the path names.
    Application,
    /// The endpoint that the path names.
    Endpoint,
    /// The source that the path names.
    Source,
    /// The event that the path names.
    Event,
    /// The delivery that the path names.
    Delivery,
    /// The dead letter that the path names.
    DeadLetter,
    /// The operation that the path names.
    Operation,
    /// The approval that the path names.
    Approval,
    /// The whole organization.
    Organization,
}

/// What a route is about. Other names of a route are read as the one that the document has.
fn reach(method: &Method, route: &str) -> Reach {
    let is_read = method.is_safe();
    let is_change = [Method::PUT, Method::PATCH].contains(method);
    let mut segments = route.trim_start_matches("/api/v1/admin").trim_start_matches("/v1").trim_matches('/').split('/');
    let (resource, rest) = (segments.next().unwrap_or_default(), segments.collect::<Vec<_>>());
    match (resource, &rest[..]) {
        ("events", [] | ["batch" | "erase"]) | ("deliveries" | "operations" | "stats", []) => Reach::Narrowed,
        ("approvals", []) => Reach::Narrowed,
        ("approvals", ["{id}"]) => Reach::Approval,
        ("endpoints" | "webhooks" | "subscriptions", []) => Reach::Narrowed,
        ("dlq" | "dead-letters", [] | ["retry-batch" | "discard-batch"]) => Reach::Narrowed,
        ("applications", []) if is_read => Reach::Narrowed,
        ("sources", []) => Reach::Narrowed,
        ("sources", ["{id}", ..]) => Reach::Source,
        ("source-kinds", [] | ["{id}"]) => Reach::Shared,
        ("events" | "messages" | "jobs", ["{id}", ..]) => Reach::Event,
        ("deliveries", ["{id}", ..]) => Reach::Delivery,
        ("endpoints" | "webhooks" | "subscriptions", ["{id}", ..]) => Reach::Endpoint,
        ("dlq" | "dead-letters", ["batch-operations", "{id}"]) | ("operations", ["{id}"]) => Reach::Operation,
        ("dlq" | "dead-letters", ["{id}", ..]) => Reach::DeadLetter,
        ("applications", ["{id}"]) if is_read || is_change => Reach::Application,
        ("applications", ["{id}", "recover" | "replay" | "erase"]) => Reach::Application,
        ("applications", ["{id}", "manifest" | "secret" | "capabilities" | "call" | "call-batch" | "draws" | "jobs" | "health", ..]) => {
            Reach::Application
        }
        ("event-types" | "retry-schedules", [] | ["{id}"]) | ("organizations", ["{id}", "retry-schedules"]) if is_read => Reach::Shared,
        _ => Reach::Organization,
    }
}

/// Admits a key of one application to what is its application's.
///
/// # Errors
/// 404 if the path names what is another application's, or nothing; 403 if the route concerns the whole organization.
pub async fn check(api: &Arc<Api>, caller: &Caller, parts: &mut Parts) -> Result<(), ApiError> {
    let Some(own) = caller.application else { return Ok(()) };
    let route = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let reach = reach(&parts.method, &route);
    if let Reach::Narrowed | Reach::Shared = reach {
        return Ok(());
    }
    if reach == Reach::Organization {
        let words = "this key is limited to one application, and the request concerns the whole organization";
        return Err(ApiError::new(ProblemKind::KeyLimitedToApplication, words));
    }
    let segments = RawPathParams::from_request_parts(parts, api).await;
    let named = segments.ok().and_then(|segments| segments.iter().find(|(name, _)| *name == "id").map(|(_, value)| value.to_owned()));
    let found = match named {
        Some(name) => application_of(api, caller.organization, reach, &name).await?,
        None => None,
    };
    if found == Some(own) { Ok(()) } else { Err(ApiError::not_found(reach.noun())) }
}

/// The application of what a path names; `None` if the organization has nothing of that name, or it is no one application's.
async fn application_of(api: &Api, organization: OrganizationId, reach: Reach, name: &str) -> Result<Option<ApplicationId>, ApiError> {
    let ports = &api.line.ports;
    Ok(match reach {
        Reach::Application => match Ref::parse(name) {
            Some(of) => ports.applications.application(organization, &of).await?.map(|application| application.id),
            None => None,
        },
        Reach::Endpoint => match Ref::parse(name) {
            Some(of) => ports.endpoints.endpoint(organization, &of).await?.map(|endpoint| endpoint.application),
            None => None,
        },
        Reach::Source => match Ref::parse(name) {
            Some(of) => ports.sources.source(organization, &of).await?.map(|source| source.application),
            None => None,
        },
        Reach::Event => match name.parse() {
            Ok(id) => ports.history.event(organization, id).await?.map(|(summary, _)| summary.application),
            Err(_) => None,
        },
        Reach::Delivery => match name.parse() {
            Ok(id) => ports.history.delivery(organization, id).await?.map(|(delivery, _)| delivery.application),
            Err(_) => None,
        },
        Reach::DeadLetter => match name.parse() {
            Ok(id) => ports.history.dead_letter(organization, id).await?.map(|letter| letter.application),
            Err(_) => None,
        },
        Reach::Operation => match name.parse() {
            Ok(id) => ports.operations.operation(organization, id).await?.and_then(|operation| operation.application),
            Err(_) => None,
        },
        Reach::Approval => match name.parse() {
            Ok(id) => ports.approvals.approval(organization, id).await?.map(|approval| approval.application),
            Err(_) => None,
        },
        Reach::Narrowed | Reach::Shared | Reach::Organization => None,
    })
}

impl Reach {
    /// What is not found, in words.
    fn noun(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Endpoint => "endpoint",
            Self::Source => "source",
            Self::Event => "event",
            Self::Delivery => "delivery",
            Self::DeadLetter => "dead letter",
            Self::Operation => "operation",
            Self::Approval => "approval",
            Self::Narrowed | Self::Shared | Self::Organization => "resource",
        }
    }
}

impl Caller {
    /// The application that a body means: the one that it names, or the key's own. `None` if it names none and the key is limited to none. One that the
    /// key does not reach is a fault of the field.
    pub async fn application_in_body(
        &self,
        api: &Api,
        named: Option<&str>,
        faults: &mut Vec<Fault>,
    ) -> Result<Option<ApplicationId>, ApiError> {
        let Some(name) = named else { return Ok(self.application) };
        let found = match Ref::parse(name) {
            Some(of) => api.line.ports.applications.application(self.organization, &of).await?.map(|application| application.id),
            None => None,
        };
        let reached = found.filter(|id| self.reaches(*id));
        if reached.is_none() {
            faults.push(no_such_application());
        }
        Ok(reached)
    }

    /// Whether the key reaches an application of its organization.
    pub fn reaches(&self, application: ApplicationId) -> bool {
        self.application.is_none_or(|own| own == application)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_nobody_thought_of_concerns_the_whole_organization() {
        for route in ["", "/", "/v1/new", "/v1/applications/{id}/new", "/v1/organizations/{id}/applications"] {
            for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert_eq!(reach(&method, route), Reach::Organization, "{method} {route}");
            }
        }
    }

    #[test]
    fn other_names_of_a_route_are_about_the_same() {
        let table = [
            ("/v1/webhooks/{id}", Reach::Endpoint),
            ("/v1/subscriptions", Reach::Narrowed),
            ("/v1/messages/{id}/retry", Reach::Event),
            ("/v1/dead-letters/batch-operations/{id}", Reach::Operation),
            ("/api/v1/admin/dlq/{id}/retry", Reach::DeadLetter),
        ];
        for (route, expected) in table {
            assert_eq!(reach(&Method::POST, route), expected, "{route}");
        }
    }
}
