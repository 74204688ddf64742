//! Finding events by what no index knows: a family of types, labels, text in the data, or an idempotency key that is no longer remembered; and deliveries by
//! the status of their last response. Called by the API.
//!
//! Such a search reads events newest first and compares each. It ends when the page is full, or when it has done as much work as one request may; then it
//! says how far it looked, and the next page continues there. Events of more than a few KiB are compared beside the threads that serve requests.

use std::{sync::Arc, time::Duration};

use crate::{
    ids::{ApplicationId, EventId, OrganizationId},
    limits::evaluations::{Busy, EVALUATION_TIMEOUT},
    line::Line,
    model::{Cursor, Delivery, Event, EventTypePattern, PageRequest},
    policy::{labels, labels::Labels, matching, work::INLINE_BYTES_MAX},
    ports::{DeliveryFilter, EventFilter, EventSummary, StoreError, TimeRange},
    time::Timestamp,
};

/// How many events or deliveries one request examines, and how many events it reads whole. A row of a list takes a few microseconds, a whole event up to a millisecond.
const EVENTS_MAX: usize = 20_000;
const WHOLE_EVENTS_MAX: usize = 2_000;
/// How many bytes of data one request looks into: a tenth of a second of comparing.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long one request searches.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(2);
/// How many rows are read at once.
const STEP: u32 = 250;

/// Which events are searched for. What is absent does not narrow.
#[derive(Clone, Debug, Default)]
pub struct EventSearch {
    /// Of this application.
    pub application: Option<ApplicationId>,
    /// Of this type, or of a family of types.
    pub event_type: Option<EventTypePattern>,
    /// Accepted in this span.
    pub accepted: TimeRange,
    /// With this idempotency key.
    pub idempotency_key: Option<String>,
    /// With all of these labels.
    pub labels: Labels,
    /// With this text in their data, as it was published.
    pub text: Option<String>,
}

impl EventSearch {
    /// Whether the store can list these events by itself.
    pub fn is_plain(&self) -> bool {
        let is_one_type = !matches!(self.event_type, Some(EventTypePattern::Family(_)));
        is_one_type && self.idempotency_key.is_none() && !self.needs_whole_events()
    }

    /// What the store narrows the search to.
    pub fn filter(&self) -> EventFilter {
        let event_type = match &self.event_type {
            Some(EventTypePattern::Exact(event_type)) => Some(event_type.clone()),
            Some(EventTypePattern::Any | EventTypePattern::Family(_)) | None => None,
        };
        EventFilter { application: self.application, event_type, accepted: self.accepted }
    }

    fn needs_whole_events(&self) -> bool {
        !self.labels.is_empty() || self.text.is_some()
    }

    fn takes_summary(&self, event: &EventSummary) -> bool {
        let is_in_span =
            self.accepted.from.is_none_or(|from| event.created_at >= from) && self.accepted.to.is_none_or(|to| event.created_at < to);
        is_in_span
            && self.application.is_none_or(|application| application == event.application)
            && self.event_type.as_ref().is_none_or(|wanted| matching::wants(std::slice::from_ref(wanted), &event.event_type))
            && self.idempotency_key.as_ref().is_none_or(|key| *key == event.idempotency_key)
    }

    fn takes_event(&self, event: &Event) -> bool {
        labels::has_all(&event.labels, &self.labels)
            && self.text.as_ref().is_none_or(|text| String::from_utf8_lossy(&event.data).contains(text.as_str()))
    }
}

/// Why a search ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The store cannot be read.
    #[error("the store cannot be searched")]
    Store(#[from] StoreError),
    /// Others are compared first, for too long.
    #[error("too much is being searched")]
    Busy(#[from] Busy),
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct FoundEvents {
    /// The events, newest first.
    pub rows: Vec<EventSummary>,
    /// Where the search continues; `None` if it has examined everything.
    pub next: Option<Cursor>,
    /// When the oldest event was accepted that it examined; `None` if it examined none.
    pub searched_until: Option<Timestamp>,
}

/// Searches for events, newest first, from a place on.
///
/// # Errors
/// [`SearchError`] says whether the store or the searches before this one are why.
pub async fn find_events(
    line: &Line,
    organization: OrganizationId,
    search: EventSearch,
    page: PageRequest,
) -> Result<FoundEvents, SearchError> {
    let search = &Arc::new(search);
    if let Some(found) = find_by_key(line, organization, search).await? {
        return Ok(FoundEvents { searched_until: Some(found.created_at), rows: vec![found], next: None });
    }
    let mut work = Work::new(line);
    let (mut found, mut cursor) = (FoundEvents::default(), page.cursor);
    loop {
        let step = line.ports.history.events(organization, search.filter(), PageRequest { limit: STEP, cursor }).await?;
        let is_last = step.next.is_none();
        let rows = step.rows.len();
        for (index, event) in step.rows.into_iter().enumerate() {
            (cursor, found.searched_until) = (Cursor::OlderThan(*event.id.as_uuid()), Some(event.created_at));
            if takes(line, organization, search, &event, &mut work).await? {
                found.rows.push(event);
            }
            let is_end = is_last && index + 1 == rows;
            if !is_end && (found.rows.len() == page.limit as usize || work.is_done(line)) {
                found.next = Some(cursor);
                return Ok(found);
            }
        }
        if is_last {
            return Ok(found);
        }
    }
}

/// What a search for deliveries found.
#[derive(Clone, Debug, Default)]
pub struct FoundDeliveries {
    /// The deliveries, newest first.
    pub rows: Vec<Delivery>,
    /// Where the search continues; `None` if it has examined everything.
    pub next: Option<Cursor>,
    /// When the oldest delivery was made that it examined; `None` if it examined none.
    pub searched_until: Option<Timestamp>,
}

/// Searches for deliveries by the status of their last response, newest first, from a place on. Those that fit but for the status are examined a few at a
/// time, so that one request does no more than its share of work, however rare the status is.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn find_deliveries(
    line: &Line,
    organization: OrganizationId,
    filter: &DeliveryFilter,
    page: PageRequest,
) -> Result<FoundDeliveries, StoreError> {
    let history = &line.ports.history;
    let whatever_status = DeliveryFilter { http_status: None, ..filter.clone() };
    let mut work = Work::new(line);
    let (mut found, mut cursor) = (FoundDeliveries::default(), page.cursor);
    loop {
        let step = history.deliveries(organization, whatever_status.clone(), PageRequest { limit: STEP, cursor }).await?;
        let Some(last) = step.rows.last() else { return Ok(found) };
        // Ids begin with the millisecond in which they were made: a second is more than the order of ids and that of times differ by.
        let from = (last.created_at - Duration::from_secs(1)).max(filter.made.from.unwrap_or(Timestamp::EPOCH));
        let within = DeliveryFilter { made: TimeRange { from: Some(from), ..filter.made }, ..filter.clone() };
        let wanted = page.limit - u32::try_from(found.rows.len()).unwrap_or(page.limit);
        let fitting = history.deliveries(organization, within, PageRequest { limit: wanted, cursor }).await?.rows;
        found.rows.extend(fitting.into_iter().filter(|delivery| delivery.id >= last.id));
        if let Some(newest_left) = found.rows.last().filter(|_| found.rows.len() >= page.limit as usize) {
            found.searched_until = Some(newest_left.created_at);
            found.next = Some(Cursor::OlderThan(*newest_left.id.as_uuid()));
            return Ok(found);
        }
        (cursor, found.searched_until) = (Cursor::OlderThan(*last.id.as_uuid()), Some(last.created_at));
        work.events += step.rows.len();
        if step.next.is_none() {
            return Ok(found);
        }
        if work.is_done(line) {
            found.next = Some(cursor);
            return Ok(found);
        }
    }
}

/// A key that is remembered leads straight to its event, and so does one that was made from the event's id.
async fn find_by_key(line: &Line, organization: OrganizationId, search: &Arc<EventSearch>) -> Result<Option<EventSummary>, SearchError> {
    let Some(key) = &search.idempotency_key else { return Ok(None) };
    let given = line.ports.history.event_of_key(organization, search.application, key.clone()).await?;
    let Some(id) = given.or_else(|| key.parse::<EventId>().ok()) else { return Ok(None) };
    let Some((summary, event)) = line.ports.history.event(organization, id).await? else { return Ok(None) };
    let is_taken = match event {
        _ if !search.takes_summary(&summary) => false,
        _ if !search.needs_whole_events() => true,
        Some(event) => takes_event(line, organization, search, event).await?,
        None => false,
    };
    Ok(is_taken.then_some(summary))
}

async fn takes(
    line: &Line,
    organization: OrganizationId,
    search: &Arc<EventSearch>,
    event: &EventSummary,
    work: &mut Work,
) -> Result<bool, SearchError> {
    work.events += 1;
    if !search.takes_summary(event) || !search.needs_whole_events() {
        return Ok(search.takes_summary(event));
    }
    work.whole_events += 1;
    let found = line.ports.history.event(organization, event.id).await?;
    // What was erased has neither labels nor data.
    let Some(event) = found.and_then(|(_, event)| event) else { return Ok(false) };
    work.bytes += event.data.len();
    takes_event(line, organization, search, event).await
}

/// Compares a whole event: at once if it is small, else beside the threads that serve requests, one of an organization at a time.
async fn takes_event(line: &Line, organization: OrganizationId, search: &Arc<EventSearch>, event: Event) -> Result<bool, SearchError> {
    if search.text.is_none() || event.data.len() <= INLINE_BYTES_MAX {
        return Ok(search.takes_event(&event));
    }
    let search = Arc::clone(search);
    Ok(line.evaluations.run_search(organization, EVALUATION_TIMEOUT, move || search.takes_event(&event)).await?)
}

/// What a search has done so far.
struct Work {
    began_at: Duration,
    events: usize,
    whole_events: usize,
    bytes: usize,
}

impl Work {
    fn new(line: &Line) -> Self {
        Self { began_at: line.ports.clock.uptime(), events: 0, whole_events: 0, bytes: 0 }
    }

    fn is_done(&self, line: &Line) -> bool {
        self.events >= EVENTS_MAX
            || self.whole_events >= WHOLE_EVENTS_MAX
            || self.bytes >= BYTES_MAX
            || line.ports.clock.uptime().saturating_sub(self.began_at) >= SEARCH_TIMEOUT
    }
}
