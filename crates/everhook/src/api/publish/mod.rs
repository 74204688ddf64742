//! Publishing: `POST /v1/events` and its batch. The hot path: one parse, one copy of the data, one write.

mod event;
#[cfg(feature = "amqp")]
pub mod queue;

pub(super) use event::present;

use std::{fmt, sync::Arc};

use axum::{
    extract::{Request, State},
    response::Response,
};
use everhook_core::{
    line::publish::{Acceptance, Publication, PublishError, publish},
    manage::Fault,
    ports::StoreError,
};
use http::StatusCode;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use self::event::{Context, NewEvent};
use super::{
    Api,
    access::MayPublish,
    body::{parse_large_object, parse_object, read_json},
    error::{ApiError, Problem, PublishProblems},
    run_to_completion,
    wire::{NoParams, json},
};
use crate::memory::Charge;

/// What a body may have beside its `data`: the other fields, and room to breathe.
pub(crate) const BESIDE_DATA_BYTES: usize = 64 * 1024;
/// How many events one batch may have.
const BATCH_EVENTS_MAX: usize = 1_000;
/// After so many bytes of a batch, others get their turn: some milliseconds' work.
const YIELD_EVERY_BYTES: usize = 512 * 1024;
/// Several events to publish.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"events": [{"type": "order.paid", "data": {"order": 4711}}, {"type": "order.shipped", "data": {"order": 4711}}]}))]
pub struct Batch<'a> {
    /// 1 to 1,000 events; each is accepted or refused on its own.
    #[serde(borrow, default)]
    #[schema(value_type = Vec<NewEvent>, required = true)]
    events: Option<BatchEvents<'a>>,
}

/// The events of a batch as they came. Those beyond the bound are only counted: a body full of tiny ones would take many times its size.
#[derive(Default)]
struct BatchEvents<'a> {
    events: Vec<&'a RawValue>,
    count: usize,
}

impl<'de: 'a, 'a> Deserialize<'de> for BatchEvents<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(BatchVisitor)
    }
}

struct BatchVisitor;

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = BatchEvents<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut sequence: S) -> Result<BatchEvents<'de>, S::Error> {
        let mut batch = BatchEvents::default();
        while batch.count < BATCH_EVENTS_MAX
            && let Some(event) = sequence.next_element()?
        {
            batch.events.push(event);
            batch.count += 1;
        }
        while sequence.next_element::<IgnoredAny>()?.is_some() {
            batch.count += 1;
        }
        Ok(batch)
    }
}

/// The result of publishing an event.
#[derive(Serialize, ToSchema)]
pub struct Receipt {
    /// The event's id; the id of the original for a duplicate.
    #[schema(format = "uuid")]
    id: String,
    /// The number of deliveries; null while it is `spooled`.
    #[schema(required = true)]
    deliveries: Option<u32>,
    /// Whether its idempotency key was used before.
    duplicate: bool,
    /// Its sequence number in the application; null while it is `spooled`.
    #[schema(required = true)]
    sequence_number: Option<i64>,
    /// Present and true if the database is unavailable: the event is on this node's disk and is forwarded when the database is back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    spooled: bool,
}

/// The result of one event of a batch.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum BatchItem {
    /// The event was published.
    Published(Receipt),
    /// The event was refused.
    Refused {
        /// The reason.
        error: Problem,
    },
}

/// The results of a batch, in the order of its events.
#[derive(Serialize, ToSchema)]
pub struct BatchReceipt {
    data: Vec<BatchItem>,
}

impl From<Acceptance> for Receipt {
    fn from(accepted: Acceptance) -> Self {
        let (id, duplicate) = (accepted.event().to_string(), accepted.is_duplicate());
        let (deliveries, sequence_number, spooled) = match accepted {
            Acceptance::Recorded(published) => (Some(published.deliveries), Some(published.sequence_number), false),
            Acceptance::Spooled(_) => (None, None, true),
        };
        Self { id, deliveries, duplicate, sequence_number, spooled }
    }
}

/// Publishes an event to all matching endpoints. The response is sent once the event is on disk.
#[utoipa::path(
    post, path = "/v1/events", tag = "events", request_body = NewEvent, security(("api_key" = ["publish"])),
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Same as the field `idempotency_key`, which takes precedence"),
        ("traceparent" = Option<String>, Header, description = "Your trace (W3C), continued by every request for this event"),
    ),
    responses(
        (status = 202, description = "Published, or `spooled` while the database is unavailable", body = Receipt),
        (status = 200, description = "Already published with the same idempotency key: the response of the original", body = Receipt),
        PublishProblems,
    ),
)]
pub async fn publish_event(
    State(api): State<Arc<Api>>,
    MayPublish(caller): MayPublish,
    _query: NoParams,
    request: Request,
) -> Result<Response, ApiError> {
    let charge = Charge::new(api.bodies.clone(), caller.organization);
    let context = Context::new(&api, caller, request.headers())?;
    let (body, charge) = read_json(request, context.event_bytes_max(), charge).await?;
    let publication = context.read(parse_object(&body)?).await?;
    drop(body);
    let published = run(&api, vec![publication], charge).await?.pop().expect("one publication has one answer")?;
    let status = if published.is_duplicate() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(json(status, &Receipt::from(published)))
}

/// Publishes up to 1,000 events in one request. Each is accepted or refused on its own; the results are in the order of the events.
#[utoipa::path(
    post, path = "/v1/events/batch", tag = "events", request_body = Batch, security(("api_key" = ["publish"])),
    params(("traceparent" = Option<String>, Header, description = "Your trace (W3C), continued by every request for these events")),
    responses((status = 202, description = "The result of each event", body = BatchReceipt), PublishProblems),
)]
pub async fn publish_batch(
    State(api): State<Arc<Api>>,
    MayPublish(caller): MayPublish,
    _query: NoParams,
    request: Request,
) -> Result<Response, ApiError> {
    let charge = Charge::new(api.bodies.clone(), caller.organization);
    let context = Context::new(&api, caller, request.headers())?;
    if context.key.is_some() {
        return Err(ApiError::bad_request(
            "the header Idempotency-Key cannot be used for a batch: give each event its own `idempotency_key`",
        ));
    }
    let (body, charge) = read_json(request, api.batch_bytes_max, charge).await?;
    let (publications, refused) = read_batch(&context, &body).await?;
    drop(body);
    let answers = run(&api, publications, charge).await?;
    Ok(json(StatusCode::ACCEPTED, &BatchReceipt { data: batch_items(refused, answers) }))
}

/// The events of a batch that can be published, and for each of all whether it was refused.
async fn read_batch(context: &Context<'_>, body: &[u8]) -> Result<(Vec<Publication>, Vec<Option<ApiError>>), ApiError> {
    let batch: Batch<'_> = parse_large_object(body)?;
    let BatchEvents { events, count } = batch.events.unwrap_or_default();
    if !(1..=BATCH_EVENTS_MAX).contains(&count) {
        let reason = format!("must have 1 to {BATCH_EVENTS_MAX} events, and has {count}");
        return Err(ApiError::invalid(vec![Fault::new("events", reason)]));
    }
    let mut refused = Vec::with_capacity(events.len());
    let mut publications = Vec::with_capacity(events.len());
    let mut bytes_read = 0;
    for event in events {
        match read_one(context, event.get()).await {
            Ok(publication) => {
                publications.push(publication);
                refused.push(None);
            }
            Err(error) => refused.push(Some(error)),
        }
        bytes_read += event.get().len();
        if bytes_read >= YIELD_EVERY_BYTES {
            bytes_read = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok((publications, refused))
}

/// One event of a batch may be as large as one alone.
async fn read_one(context: &Context<'_>, event: &str) -> Result<Publication, ApiError> {
    let max = context.event_bytes_max();
    if event.len() > max {
        return Err(ApiError::too_large(format!("an event may have at most {max} bytes, and has {}", event.len())));
    }
    context.read(parse_object(event.as_bytes())?).await
}

/// The result of each event, in their order.
fn batch_items(refused: Vec<Option<ApiError>>, answers: Vec<Result<Acceptance, PublishError>>) -> Vec<BatchItem> {
    let mut answers = answers.into_iter();
    let mut unavailable = None;
    let item = |refused: Option<ApiError>| {
        let answer = match refused {
            Some(error) => Err(error),
            None => answers.next().expect("every publication has an answer").map_err(|error| refusal(error, &mut unavailable)),
        };
        match answer {
            Ok(published) => BatchItem::Published(published.into()),
            Err(error) => BatchItem::Refused { error: error.into_problem() },
        }
    };
    refused.into_iter().map(item).collect()
}

/// Why one event of a batch was refused. A store that fails for many of them fails alike for each, which is logged once.
fn refusal(error: PublishError, unavailable: &mut Option<ApiError>) -> ApiError {
    match error {
        PublishError::Store(error @ StoreError::Unavailable(_)) => unavailable.get_or_insert_with(|| error.into()).clone(),
        other => other.into(),
    }
}

/// Publishes. Memory that is reserved meanwhile is released once the events are stored, also if the client has gone.
async fn run(
    api: &Api,
    publications: Vec<Publication>,
    held: impl Send + 'static,
) -> Result<Vec<Result<Acceptance, PublishError>>, ApiError> {
    if publications.is_empty() {
        return Ok(Vec::new());
    }
    let line = api.line.clone();
    let publishing = async move {
        let answers = publish(&line, publications).await;
        drop(held);
        answers
    };
    let answers = run_to_completion(publishing).await?;
    let is_of_store = |answer: &&Result<_, PublishError>| matches!(answer, Err(PublishError::Store(_)));
    note_outcome(api, answers.iter().find(is_of_store).and_then(|answer| answer.as_ref().err())).await;
    Ok(answers)
}

/// Remembers whether events can be stored, for `/readyz` and the log.
pub(super) async fn note_outcome(api: &Api, failure: Option<&PublishError>) {
    let failure = match failure {
        Some(PublishError::Store(error)) => Some(error),
        _ => None,
    };
    api.set_publishing(failure.is_none());
    api.note_full_disk(failure).await;
}
