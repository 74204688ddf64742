//! The second door of the line: what a provider sent, and what was verified, becomes events. From there on they are like any others.
//!
//! Called by the routes that providers post to. It returns only when everything is on disk, and must run to its end once it has begun, as `publish`.
//!
//! An item that came before is recorded once more, so that it can be seen, says which event it repeats, and is delivered to nobody.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};

use uuid::Uuid;

use crate::{
    ids::{EndpointId, EventId},
    inbound::Item,
    line::{
        Line,
        admission::take_request,
        publish::{Acceptance, Publication, PublishError, publish_received},
        source_backlogs::take_room,
    },
    model::{ContentType, ORDERING_KEY_BYTES_MAX, OrderingKey, Priority, Received, Source},
    ports::KeyReused,
};

/// The label by which endpoints ask for the events of one source.
pub const SOURCE_LABEL: &str = "source";

/// The longest key by which an item is recognized as it is; a longer one is hashed. Publishers' keys have the same bound.
const KEY_BYTES_MAX: usize = 256;

/// The endpoint of events that are kept and delivered to nobody: no endpoint has this id.
const NOBODY: EndpointId = EndpointId::from_uuid(Uuid::nil());

/// A provider's request that was verified.
pub struct Push<'a> {
    /// Where it came in.
    pub source: &'a Source,
    /// What it carries.
    pub items: Vec<PushedItem>,
    /// The headers that are kept with it.
    pub kept_headers: Vec<(String, String)>,
    /// The headers that endpoints get with it.
    pub forwarded_headers: Vec<(String, String)>,
    /// The provider's trace.
    pub traceparent: Option<String>,
}

/// One thing that happened.
#[derive(Clone)]
pub struct PushedItem {
    /// What the provider said.
    pub item: Item,
    /// What it is recognized by if it comes again.
    pub key: Option<String>,
}

/// Records what a provider sent.
///
/// # Errors
/// The first of what kept an item from being recorded. Others of the same request may have been: sent again, they are recognized by their keys.
pub async fn receive(line: &Line, push: Push<'_>) -> Result<(), PublishError> {
    take_room(line, push.source, push.items.len())?;
    // A request counts as one event, however many items it has: taken in part, it would be sent again as a whole.
    take_request(line, push.source.organization, push.source.application).await?;
    let first = push.items.iter().map(|pushed| publication(&push, pushed, None)).collect();
    let mut repeated = Vec::new();
    for (pushed, answer) in push.items.iter().zip(publish_received(line, first).await) {
        if let Some(original) = original(answer)? {
            repeated.push(publication(&push, pushed, Some(original)));
        }
    }
    if repeated.is_empty() {
        return Ok(());
    }
    publish_received(line, repeated).await.into_iter().try_for_each(|answer| answer.map(drop))
}

/// The event that an item repeats; `None` if it is new. A provider's id says that two are the same, whatever else has changed.
fn original(answer: Result<Acceptance, PublishError>) -> Result<Option<EventId>, PublishError> {
    match answer {
        Ok(accepted) if accepted.is_duplicate() => Ok(Some(accepted.event())),
        Ok(_) => Ok(None),
        Err(PublishError::KeyReused(KeyReused { original, .. })) => Ok(Some(original)),
        Err(error) => Err(error),
    }
}

fn publication(push: &Push<'_>, pushed: &PushedItem, duplicate_of: Option<EventId>) -> Publication {
    let (source, item) = (push.source, &pushed.item);
    let received =
        Received { source: source.id, external_user: item.external_user.clone(), duplicate_of, headers: push.kept_headers.clone() };
    Publication {
        organization: source.organization,
        application: source.application,
        event_type: item.event_type.clone(),
        data: item.body.clone(),
        content_type: ContentType::of_body(item.content_type.as_deref(), &item.body),
        // A repetition has no key of its own: it is recorded however often it comes.
        idempotency_key: pushed.key.as_deref().filter(|_| duplicate_of.is_none()).map(|key| bounded(source, key, KEY_BYTES_MAX)),
        idempotency_window: source.dedupe.as_ref().map(|dedupe| dedupe.window),
        source: Some(source.name.to_string()),
        priority: Priority::default(),
        ordering_key: item.external_user.as_deref().and_then(|user| OrderingKey::parse(&bounded(source, user, ORDERING_KEY_BYTES_MAX))),
        timestamp: None,
        traceparent: push.traceparent.clone(),
        labels: BTreeMap::from([(SOURCE_LABEL.to_owned(), source.name.to_string())]),
        headers: push.forwarded_headers.clone(),
        only: (!source.forward).then_some(NOBODY),
        received: Some(Box::new(received)),
        sealed: true,
        parked: source.hold(),
    }
}

/// A text of the provider's as part of a key of ours: its meaning is known within its source alone. Long and unprintable ones are hashed.
fn bounded(source: &Source, text: &str, bytes_max: usize) -> String {
    let key = format!("{}:{text}", source.id);
    if key.len() <= bytes_max && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        return key;
    }
    let hash = digest(&SHA256, text.as_bytes());
    let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}:sha256:{hex}", source.id)
}
