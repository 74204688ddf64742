//! The door for providers: `/in/{source}` takes a webhook, verifies it, and answers once it is on disk. Nothing is delivered before that, and nobody waits for it.
//!
//! No API key is asked for: the source's recipe says what proves a request. `request` reads what came, `admission` says who may send how much.

mod admission;
mod request;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State, rejection::PathRejection},
    response::{IntoResponse as _, Response},
    routing::any,
};
use everhook_core::{
    inbound::{Accepted, DedupeBy, Handshake, HandshakeEffect, Item, Reading, Refusal, Reply, dedupe_key},
    line::receive::{Push, PushedItem, receive},
    manage,
    sources::OpenSource,
    time::Timestamp,
};
use http::{HeaderName, HeaderValue, StatusCode};

use self::request::Inbound;
use super::{
    Api,
    error::{ApiError, ProblemKind},
    publish::note_outcome,
    to_the_end,
};

/// The names of the sources that have routes of their own, as their providers' documentation writes them.
const GARMIN: &str = "garmin";
const STRAVA: &str = "strava";

/// Where providers post. The OpenAPI document leaves them out: their requests are as each provider makes them. docs/receiving.md describes them.
pub(super) fn routes() -> Router<Arc<Api>> {
    Router::new()
        .route("/in/{source}", any(at_source))
        .route("/in/{source}/{event_type}", any(at_source_with_type))
        .route("/webhooks/garmin/{event_type}", any(at_garmin))
        .route("/webhooks/strava", any(at_strava))
}

type Segment<T> = Result<Path<T>, PathRejection>;

async fn at_source(State(api): State<Arc<Api>>, source: Segment<String>, request: Request) -> Response {
    let Ok(Path(source)) = source else { return no_such_source() };
    take_request(&api, &source, None, request).await
}

async fn at_source_with_type(State(api): State<Arc<Api>>, segments: Segment<(String, String)>, request: Request) -> Response {
    let Ok(Path((source, event_type))) = segments else { return no_such_source() };
    take_request(&api, &source, Some(&event_type), request).await
}

async fn at_garmin(State(api): State<Arc<Api>>, event_type: Segment<String>, request: Request) -> Response {
    let Ok(Path(event_type)) = event_type else { return no_such_source() };
    take_request(&api, GARMIN, Some(&event_type), request).await
}

async fn at_strava(State(api): State<Arc<Api>>, request: Request) -> Response {
    take_request(&api, STRAVA, None, request).await
}

fn no_such_source() -> Response {
    ApiError::not_found("source").into_response()
}

/// Why a request was not taken: a word for the source's page, and what the provider is told.
struct NotTaken {
    reason: String,
    error: ApiError,
}

impl NotTaken {
    fn new(reason: &str, error: ApiError) -> Self {
        Self { reason: reason.to_owned(), error }
    }
}

async fn take_request(api: &Arc<Api>, segment: &str, path_type: Option<&str>, request: Request) -> Response {
    let source = match api.line.sources.lookup(segment).await {
        Ok(Some(source)) => source,
        Ok(None) => return no_such_source(),
        Err(error) => return ApiError::from(error).into_response(),
    };
    let now = api.line.ports.clock.now();
    match read_and_store(api, &source, path_type, request, now).await {
        Ok(response) => response,
        Err(NotTaken { reason, error }) => {
            api.line.sources.activity.refused(source.source.id, now, &reason);
            error.into_response()
        }
    }
}

async fn read_and_store(
    api: &Arc<Api>,
    source: &Arc<OpenSource>,
    path_type: Option<&str>,
    request: Request,
    now: Timestamp,
) -> Result<Response, NotTaken> {
    admission::admit(api, &source.source, &request, now)?;
    let inbound = Inbound::read(api, source, path_type, request).await?;
    let reading = inbound.evaluate(source, now);
    match reading {
        Reading::Handshake(handshake) => answer_handshake(api, source, handshake, now).await,
        Reading::Accepted(accepted) => store(api, source, inbound, accepted, now).await,
        Reading::Refused(refusal) => Err(refused(&refusal)),
    }
}

/// Answers a proof of the URL. It is no event, and nothing of it is kept but what the source itself needs.
async fn answer_handshake(api: &Arc<Api>, source: &OpenSource, handshake: Handshake, now: Timestamp) -> Result<Response, NotTaken> {
    if let Some(HandshakeEffect::Capture(key)) = handshake.effect {
        let (line, id) = (api.line.clone(), source.source.id);
        let captured = to_the_end(async move { manage::sources::capture_key(&line, id, &key).await }).await;
        let not_kept = |error| NotTaken::new("key_not_kept", error);
        captured.map_err(not_kept)?.map_err(|refusal| not_kept(refusal.into()))?;
    }
    api.line.sources.activity.handshake_answered(source.source.id, now);
    Ok(response(handshake.reply))
}

/// Records what came, and answers as the provider expects.
async fn store(
    api: &Arc<Api>,
    source: &Arc<OpenSource>,
    inbound: Inbound,
    accepted: Accepted,
    now: Timestamp,
) -> Result<Response, NotTaken> {
    admission::admit_items(api, &source.source, &accepted.items, now)?;
    let reply = match &source.source.response {
        Some(own) => Reply {
            status: own.status,
            headers: own.content_type.iter().map(|value| ("content-type", value.clone())).collect(),
            body: own.body.clone().into_bytes(),
        },
        None => accepted.reply,
    };
    if !accepted.items.is_empty() {
        let items = with_keys(source, &inbound, accepted.items, now);
        record(api, source.clone(), inbound, items).await.map_err(|error| NotTaken::new("not_stored", error))?;
    }
    api.line.sources.activity.accepted(source.source.id, now);
    Ok(response(reply))
}

/// Gives each item what it is recognized by, if it comes again: what the source says, or the id that its provider gave it.
fn with_keys(source: &OpenSource, inbound: &Inbound, items: Vec<Item>, now: Timestamp) -> Vec<PushedItem> {
    let by = source.source.dedupe.as_ref().map_or(&DedupeBy::Id, |dedupe| &dedupe.by);
    inbound.with_request(&source.source, now, |request| {
        items.into_iter().map(|item| PushedItem { key: dedupe_key(by, request, &item), item }).collect()
    })
}

async fn record(api: &Arc<Api>, source: Arc<OpenSource>, inbound: Inbound, items: Vec<PushedItem>) -> Result<(), ApiError> {
    let line = api.line.clone();
    let recording = async move {
        let push = Push {
            kept_headers: inbound.headers_named(&source.source.keep_headers),
            forwarded_headers: inbound.forwarded_headers(&source.source.forward_headers),
            traceparent: inbound.traceparent(),
            source: &source.source,
            items,
        };
        let outcome = receive(&line, push).await;
        // The memory of the body counts until it is stored, also if nobody waits for that any more.
        drop(inbound);
        outcome
    };
    let outcome = to_the_end(recording).await?;
    note_outcome(api, outcome.as_ref().err()).await;
    outcome.map_err(ApiError::from)
}

fn refused(refusal: &Refusal) -> NotTaken {
    let detail = refusal.to_string();
    let error = match refusal.status() {
        401 => ApiError::new(ProblemKind::RequestNotVerified, detail),
        405 => ApiError::new(ProblemKind::MethodNotAllowed, detail),
        413 => ApiError::too_large(detail),
        503 => ApiError::unavailable(detail),
        _ => ApiError::bad_request(detail),
    };
    NotTaken::new(refusal.reason(), error)
}

fn response(reply: Reply) -> Response {
    let mut response = Response::new(Body::from(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
    for (name, value) in reply.headers {
        // What cannot be a header is what a stranger sent: it is left out.
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().append(HeaderName::from_static(name), value);
        }
    }
    response
}
