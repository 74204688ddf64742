//! The door for providers: `/in/{source}` takes a webhook, verifies it, and answers once it is on disk. Nothing is delivered before that, and nobody waits for it.
//!
//! No API key is asked for: the source's recipe says what proves a request. `request` reads what came, `admission` says who may send how much.

mod admission;
mod request;

use std::{net::IpAddr, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State, rejection::PathRejection},
    response::{IntoResponse as _, Response},
    routing::any,
};
use everhook_core::{
    inbound::{Accepted, Handshake, HandshakeEffect, Item, KeyRequest, Reading, Refusal, Reply, dedupe_key},
    line::receive::{Push, PushedItem, receive},
    manage::sources::{Captured, capture_key},
    metrics::{SourceCounts, SourceEvents},
    model::EventType,
    sources::{NotFetched, OpenSource, RefusedRequest, network_of},
    time::Timestamp,
};
use http::{HeaderName, HeaderValue, StatusCode};

use self::request::Inbound;
use super::{
    Api,
    error::{ApiError, ProblemKind},
    publish::note_outcome,
    run_to_completion,
};
use crate::server::RequestContext;

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
    ApiError::new(ProblemKind::NotFound, "no source has this id or name").into_response()
}

/// Why a request was refused: a word for the source's statistics, and the response to the provider.
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
    let outline = Outline::of(&request);
    match read_and_store(api, &source, path_type, request, now).await {
        Ok(response) => response,
        Err(NotTaken { reason, error }) => {
            if let Some(outline) = outline {
                api.line.sources.refusals.note(source.source.id, outline.refused(now, &reason));
            }
            api.line.sources.activity.refused(source.source.id, now, &reason);
            api.line.sources.tallies.rejected(source.source.id, &reason, now);
            counts(api, &source).reject(&reason);
            error.into_response()
        }
    }
}

/// What is kept of a request if it is refused.
struct Outline {
    address: IpAddr,
    body_bytes: Option<u64>,
    headers: usize,
    header_bytes: usize,
}

impl Outline {
    fn of(request: &Request) -> Option<Self> {
        let headers = request.headers();
        let length = headers.get(http::header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        Some(Self {
            address: request.extensions().get::<RequestContext>()?.client_address(headers),
            body_bytes: length.and_then(|length| length.parse().ok()),
            headers: headers.len(),
            header_bytes: headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum(),
        })
    }

    fn refused(self, at: Timestamp, reason: &str) -> RefusedRequest {
        RefusedRequest {
            at,
            reason: reason.to_owned(),
            network: network_of(self.address),
            body_bytes: self.body_bytes,
            headers: u32::try_from(self.headers).unwrap_or(u32::MAX),
            header_bytes: self.header_bytes as u64,
        }
    }
}

/// The metrics of a source.
fn counts(api: &Api, source: &OpenSource) -> Arc<SourceCounts> {
    let sources = &api.line.metrics.sources;
    let counts = sources.get(&source.source.id, SourceCounts::default);
    // Those of all that found no room are of no kind.
    if !Arc::ptr_eq(&counts, sources.other()) {
        counts.note_kind(&source.source.kind);
    }
    counts
}

async fn read_and_store(
    api: &Arc<Api>,
    source: &Arc<OpenSource>,
    path_type: Option<&str>,
    request: Request,
    now: Timestamp,
) -> Result<Response, NotTaken> {
    let from = admission::admit(api, &source.source, &request, now)?;
    let inbound = Inbound::read(api, source, path_type, request).await?;
    let reading = match inbound.evaluate(source, now, None) {
        Reading::NeedsKey(wanted) => Box::pin(evaluate_with_key(api, source, &inbound, wanted, now)).await?,
        reading => reading,
    };
    match reading {
        Reading::Handshake(handshake) => answer_handshake(api, source, handshake, now).await,
        Reading::Accepted(accepted) => store(api, source, inbound, (accepted, from), now).await,
        Reading::Refused(refusal) => Err(refused(&refusal)),
        Reading::NeedsKey(_) => Err(key_not_fetched(NotFetched("the key that was fetched is not the one that is needed".to_owned()))),
    }
}

/// Evaluates a request whose key is published on its provider's server. A key that does not verify it may be out of date, and is fetched once more.
async fn evaluate_with_key(
    api: &Api,
    source: &OpenSource,
    inbound: &Inbound,
    wanted: KeyRequest,
    now: Timestamp,
) -> Result<Reading, NotTaken> {
    let (keys, organization) = (&api.line.sources.provider_keys, source.source.organization);
    let known = keys.get(organization, &wanted).await.map_err(key_not_fetched)?;
    let reading = inbound.evaluate(source, now, Some(&known.key));
    if !matches!(reading, Reading::Refused(_)) {
        return Ok(reading);
    }
    let newer = keys.get_again(&known, organization, &wanted).await.map_err(key_not_fetched)?;
    Ok(newer.map_or(reading, |newer| inbound.evaluate(source, now, Some(&newer.key))))
}

fn key_not_fetched(NotFetched(why): NotFetched) -> NotTaken {
    NotTaken::new("key_not_fetched", ApiError::unavailable(format!("cannot fetch the key that verifies this request: {why}")))
}

/// Answers a proof of the URL. It is no event, and nothing of it is kept but what the source itself needs.
async fn answer_handshake(api: &Arc<Api>, source: &Arc<OpenSource>, handshake: Handshake, now: Timestamp) -> Result<Response, NotTaken> {
    match handshake.effect {
        Some(HandshakeEffect::Capture(key)) => {
            let (line, of) = (api.line.clone(), source.clone());
            let captured = run_to_completion(async move { capture_key(&line, &of.source, &key).await }).await;
            let not_kept = |error| NotTaken::new("key_not_kept", error);
            if let Captured::NotAwaited = captured.map_err(not_kept)?.map_err(|refusal| not_kept(refusal.into()))? {
                let words = "the source does not await a handshake any more";
                return Err(NotTaken::new("bad_handshake", ApiError::new(ProblemKind::RequestNotVerified, words)));
            }
        }
        Some(HandshakeEffect::Visit(url)) => {
            let visited = Box::pin(api.line.sources.provider_keys.visit(source.source.organization, &url)).await;
            visited.map_err(|NotFetched(why)| {
                NotTaken::new("not_confirmed", ApiError::unavailable(format!("cannot confirm the subscription: {why}")))
            })?;
        }
        None => {}
    }
    api.line.sources.activity.handshake_answered(source.source.id, now);
    api.line.sources.tallies.handshake_answered(source.source.id, now);
    counts(api, source).handshakes.add(1);
    Ok(response(handshake.reply))
}

/// Records the request, and answers as the provider expects.
async fn store(
    api: &Arc<Api>,
    source: &Arc<OpenSource>,
    mut inbound: Inbound,
    (accepted, from): (Accepted, IpAddr),
    now: Timestamp,
) -> Result<Response, NotTaken> {
    admission::admit_items(api, source, from, &accepted.items, now)?;
    inbound.count_items(&source.source, accepted.items.len())?;
    let reply = match &source.source.response {
        Some(own) => Reply {
            status: own.status,
            headers: own.content_type.iter().map(|value| ("content-type", value.clone())).collect(),
            body: own.body.clone().into_bytes(),
        },
        None => accepted.reply,
    };
    let event_types: Vec<EventType> = accepted.items.iter().map(|item| item.event_type.clone()).collect();
    if !accepted.items.is_empty() {
        let items = with_keys(source, &inbound, accepted.items, now);
        record(api, source.clone(), inbound, items).await.map_err(|error| NotTaken::new("not_stored", error))?;
    }
    api.line.sources.activity.accepted(source.source.id, now);
    api.line.sources.tallies.accepted(source.source.id, event_types.iter().map(EventType::as_str), now);
    let counts = counts(api, source);
    counts.accepted.add(1);
    counts.count(SourceEvents::Received, event_types.len() as u64);
    Ok(response(reply))
}

/// Gives each item what it is recognized by, if it comes again.
fn with_keys(source: &OpenSource, inbound: &Inbound, items: Vec<Item>, now: Timestamp) -> Vec<PushedItem> {
    let Some(dedupe) = &source.source.dedupe else { return items.into_iter().map(|item| PushedItem { item, key: None }).collect() };
    inbound.with_request(&source.source, now, |request| {
        let keyed = |(index, item)| PushedItem { key: dedupe_key(&dedupe.by, request, &item, index), item };
        items.into_iter().enumerate().map(keyed).collect()
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
    let outcome = run_to_completion(recording).await?;
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
