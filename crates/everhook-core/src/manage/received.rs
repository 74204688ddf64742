//! Events that came through a source, each with the state of its deliveries, and with what was sent where that is asked for. Called by the API; it reads and
//! changes nothing.
//!
//! The state of an event follows from its deliveries and is kept nowhere. A search for one status therefore reads events newest first and examines each; it
//! ends when the page is full or when it has examined as many as one request may, and says where the next page continues.

use rustc_hash::FxHashMap;

use crate::{
    ids::OrganizationId,
    line::Line,
    model::{
        AfterExpiry, Cursor, Delivery, Event, Expiry, PageRequest, Parking, Source, Stage,
        health::{ExternalUserId, ProfileId, Provider},
    },
    ports::{DeliveryFilter, HealthUser, ReceivedFilter, ReceivedSummary, StoreError},
    time::Timestamp,
};

/// How many events one request examines: each costs a read of its deliveries.
const EVENTS_MAX: u32 = 1_000;
/// How many deliveries of an event are examined, the newest. Few sources feed more endpoints than that.
const DELIVERIES_MAX: u32 = 250;
/// How many bytes of bodies a page has before it ends early. The first event has its own, however large: a body is bounded where it is received.
const PAYLOAD_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The state of an event of a source, in words of those who receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedStatus {
    /// It waits for its first attempt, or is held while its source is paused.
    Pending,
    /// It waits after an attempt that failed, or for something outside.
    Failed,
    /// All its deliveries have ended, and none is dead; or there is none.
    Completed,
    /// A delivery of it is dead.
    DeadLetter,
}

impl ReceivedStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Failed, Self::Completed, Self::DeadLetter];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Failed => "failed",
            Self::Completed => "completed",
            Self::DeadLetter => "dead_letter",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// The state of the deliveries of an event together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedProgress {
    /// In one word.
    pub status: ReceivedStatus,
    /// The most attempts that any of them had.
    pub attempts: u32,
    /// The most attempts that any of them may have, by its retry schedule. 0 if there are none.
    pub max_attempts: u32,
    /// What went wrong last, at one that is dead or has not ended.
    pub last_error: Option<String>,
    /// When the last of them ended, if all have.
    pub processed_at: Option<Timestamp>,
    /// When the next attempt is due, after one that failed.
    pub next_retry_at: Option<Timestamp>,
}

/// An event of a source and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedEvent {
    /// The event.
    pub received: ReceivedSummary,
    /// Its state.
    pub progress: ReceivedProgress,
    /// Which profile the user is that it is about, where the source has a processor that asks: the first that was connected, if there are several.
    pub profile: Option<ProfileId>,
    /// The event itself, if it was asked for and was not erased.
    pub event: Option<Event>,
}

/// Which events of a source to list.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedQuery<'a> {
    /// By what they are.
    pub filter: &'a ReceivedFilter,
    /// By how they stand.
    pub status: Option<ReceivedStatus>,
    /// Whether they are listed with what was sent. Pages then end early.
    pub with_payloads: bool,
    /// The provider whose users are looked up among the connections: [`provider_of`] the source.
    pub provider: Option<Provider>,
}

/// The provider whose users are connected with profiles; `None` if nothing is made of the source's events.
pub fn provider_of(source: &Source) -> Option<Provider> {
    source.processor.and_then(|_| Provider::parse(&source.kind))
}

/// What a list found.
#[derive(Clone, Debug, Default)]
pub struct FoundReceived {
    /// The events, newest first.
    pub rows: Vec<ReceivedEvent>,
    /// Where the list continues; `None` if it has examined everything.
    pub next: Option<Cursor>,
}

/// Lists events of a source from a place on, newest first; those in that state, if a status is given.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn list(
    line: &Line,
    organization: OrganizationId,
    query: ReceivedQuery<'_>,
    page: PageRequest,
) -> Result<FoundReceived, StoreError> {
    let (mut found, mut cursor, mut looked_at, mut bytes) = (FoundReceived::default(), page.cursor, 0, 0);
    let mut profiles = Profiles { organization, provider: query.provider, known: FxHashMap::default() };
    loop {
        let filter = query.filter.clone();
        let step = line.ports.history.received_events(organization, filter, PageRequest { limit: page.limit, cursor }).await?;
        let (is_last, rows) = (step.next.is_none(), step.rows.len());
        for (index, received) in step.rows.into_iter().enumerate() {
            cursor = Cursor::OlderThan(*received.event.id.as_uuid());
            looked_at += 1;
            let progress = progress(line, organization, &received).await?;
            if query.status.is_none_or(|wanted| wanted == progress.status) {
                let profile = profiles.profile(line, received.external_user.as_deref()).await?;
                let event = if query.with_payloads { read_event(line, organization, &received).await? } else { None };
                bytes += event.as_ref().map_or(0, |event| event.data.len());
                found.rows.push(ReceivedEvent { received, progress, profile, event });
            }
            let is_full = found.rows.len() == page.limit as usize || bytes >= PAYLOAD_BYTES_MAX;
            let is_end = is_last && index + 1 == rows;
            if !is_end && (is_full || looked_at >= EVENTS_MAX) {
                found.next = Some(cursor);
                return Ok(found);
            }
        }
        if is_last {
            return Ok(found);
        }
    }
}

async fn read_event(line: &Line, organization: OrganizationId, received: &ReceivedSummary) -> Result<Option<Event>, StoreError> {
    let found = line.ports.history.event(organization, received.event.id).await?;
    Ok(found.and_then(|(_, event)| event))
}

/// Which profiles the users are whom the events of a page are about: each user is looked up once.
struct Profiles {
    organization: OrganizationId,
    provider: Option<Provider>,
    known: FxHashMap<String, Option<ProfileId>>,
}

impl Profiles {
    async fn profile(&mut self, line: &Line, user: Option<&str>) -> Result<Option<ProfileId>, StoreError> {
        let (Some(provider), Some(user)) = (self.provider, user) else { return Ok(None) };
        if let Some(known) = self.known.get(user) {
            return Ok(known.clone());
        }
        let Some(external_user) = ExternalUserId::parse(user) else { return Ok(None) };
        let of = HealthUser { organization: self.organization, provider, external_user };
        let connections = line.ports.health_connections.connections_of(of).await?;
        let first = connections.into_iter().min_by_key(|connection| connection.id).map(|connection| connection.profile);
        self.known.insert(user.to_owned(), first.clone());
        Ok(first)
    }
}

async fn progress(line: &Line, organization: OrganizationId, received: &ReceivedSummary) -> Result<ReceivedProgress, StoreError> {
    let filter = DeliveryFilter { event: Some(received.event.id), ..DeliveryFilter::default() };
    let page = PageRequest { limit: DELIVERIES_MAX, cursor: Cursor::Newest };
    let deliveries = line.ports.history.deliveries(organization, filter, page).await?.rows;
    let mut max_attempts = 0;
    for delivery in &deliveries {
        max_attempts = max_attempts.max(line.catalog.schedule(organization, delivery.retry_schedule).await?.max_attempts);
    }
    Ok(of_deliveries(received.event.created_at, &deliveries, max_attempts))
}

/// The state of an event that was accepted then and has these deliveries, newest first. Of a lane that got it several times, the last time counts.
fn of_deliveries(accepted_at: Timestamp, deliveries: &[Delivery], max_attempts: u32) -> ReceivedProgress {
    let is_last_of_lane =
        |(index, delivery): &(usize, &Delivery)| deliveries[..*index].iter().all(|newer| newer.lane_id != delivery.lane_id);
    let last: Vec<&Delivery> = deliveries.iter().enumerate().filter(is_last_of_lane).map(|(_, delivery)| delivery).collect();
    let error = |delivery: &&Delivery| if is_dead(delivery) || has_failed(delivery) { delivery.last_error.clone() } else { None };
    ReceivedProgress {
        status: status(&last),
        attempts: last.iter().map(|delivery| delivery.attempts).max().unwrap_or(0),
        max_attempts,
        last_error: last.iter().find_map(error),
        processed_at: last.iter().map(|delivery| ended_at(&delivery.stage)).try_fold(accepted_at, |latest, at| Some(latest.max(at?))),
        next_retry_at: last.iter().filter_map(|delivery| next_retry_at(delivery)).min(),
    }
}

fn status(last: &[&Delivery]) -> ReceivedStatus {
    if last.iter().any(|delivery| is_dead(delivery)) {
        return ReceivedStatus::DeadLetter;
    }
    if last.iter().any(|delivery| has_failed(delivery)) {
        return ReceivedStatus::Failed;
    }
    if last.iter().all(|delivery| delivery.stage.has_ended()) { ReceivedStatus::Completed } else { ReceivedStatus::Pending }
}

const fn is_dead(delivery: &Delivery) -> bool {
    matches!(delivery.stage, Stage::Dead { .. })
}

/// Whether it was attempted and has not ended: it failed, or something outside must come first.
const fn has_failed(delivery: &Delivery) -> bool {
    !delivery.stage.has_ended() && delivery.attempts > 0
}

fn next_retry_at(delivery: &Delivery) -> Option<Timestamp> {
    match delivery.stage {
        Stage::Waiting { due_at } if delivery.attempts > 0 => Some(due_at),
        Stage::Parked(Parking { expiry: Some(Expiry { at, then: AfterExpiry::TriesAgain }), .. }) => Some(at),
        _ => None,
    }
}

const fn ended_at(stage: &Stage) -> Option<Timestamp> {
    match stage {
        Stage::Delivered { at } | Stage::Dead { at, .. } | Stage::Cancelled { at, .. } => Some(*at),
        Stage::Waiting { .. } | Stage::Held | Stage::Parked(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        ids::{ApplicationId, DeliveryId, EventId, LaneId, ScheduleVersion},
        model::{CancelCause, DeathCause, EventType, LaneKind, Priority, WaitsFor},
    };

    const NOW: Timestamp = Timestamp::from_secs(1_000_000);
    const LATER: Timestamp = Timestamp::from_secs(1_000_060);

    fn delivery(lane: u128, stage: Stage, attempts: u32) -> Delivery {
        Delivery {
            id: DeliveryId::from_uuid(Uuid::nil()),
            organization: OrganizationId::from_uuid(Uuid::nil()),
            application: ApplicationId::from_uuid(Uuid::nil()),
            event: EventId::from_uuid(Uuid::nil()),
            event_type: EventType::parse("activity.created").unwrap(),
            lane_id: LaneId::from_uuid(Uuid::from_u128(lane)),
            kind: LaneKind::Endpoint,
            priority: Priority::Normal,
            retry_schedule: ScheduleVersion(1),
            stage,
            attempts,
            failure_category: None,
            last_error: (attempts > 0).then(|| "the endpoint answered 503".to_owned()),
            replay_of: None,
            operation: None,
            created_at: NOW,
        }
    }

    #[test]
    fn a_status_follows_from_the_last_delivery_of_each_lane() {
        let delivered = |lane| delivery(lane, Stage::Delivered { at: LATER }, 1);
        let dead = |lane| delivery(lane, Stage::Dead { at: NOW, cause: DeathCause::Gone }, 3);
        let waiting = |lane, attempts| delivery(lane, Stage::Waiting { due_at: LATER }, attempts);
        let cancelled = |lane| delivery(lane, Stage::Cancelled { at: NOW, cause: CancelCause::ByPerson }, 0);
        let parking = || Parking { waits_for: WaitsFor::parse("connection").unwrap(), expiry: None };
        let parked = |lane, attempts| delivery(lane, Stage::Parked(parking()), attempts);
        let expiry = Some(Expiry { at: LATER, then: AfterExpiry::TriesAgain });
        let limited = |lane| delivery(lane, Stage::Parked(Parking { expiry, ..parking() }), 1);
        // deliveries, newest first → status, attempts, processed_at, next_retry_at, whether there is an error
        let table = [
            (vec![], ReceivedStatus::Completed, 0, Some(NOW), None, false),
            (vec![delivered(1), cancelled(2)], ReceivedStatus::Completed, 1, Some(LATER), None, false),
            (vec![delivered(1), waiting(2, 0)], ReceivedStatus::Pending, 1, None, None, false),
            (vec![parked(1, 0)], ReceivedStatus::Pending, 0, None, None, false),
            (vec![delivery(1, Stage::Held, 0), waiting(2, 2)], ReceivedStatus::Failed, 2, None, Some(LATER), true),
            (vec![parked(1, 1)], ReceivedStatus::Failed, 1, None, None, true),
            (vec![limited(1)], ReceivedStatus::Failed, 1, None, Some(LATER), true),
            (vec![waiting(1, 1), dead(2)], ReceivedStatus::DeadLetter, 3, None, Some(LATER), true),
            (vec![dead(1), delivered(2)], ReceivedStatus::DeadLetter, 3, Some(LATER), None, true),
            (vec![delivered(1), dead(1)], ReceivedStatus::Completed, 1, Some(LATER), None, false),
            (vec![waiting(1, 0), dead(1)], ReceivedStatus::Pending, 0, None, None, false),
        ];
        for (deliveries, status, attempts, processed_at, next_retry_at, has_error) in table {
            let progress = of_deliveries(NOW, &deliveries, 5);
            let seen = (progress.status, progress.attempts, progress.processed_at, progress.next_retry_at, progress.last_error.is_some());
            assert_eq!(seen, (status, attempts, processed_at, next_retry_at, has_error), "{deliveries:?}");
            assert_eq!(progress.max_attempts, 5);
        }
    }

    #[test]
    fn every_status_is_read_by_its_name() {
        for status in ReceivedStatus::ALL {
            assert_eq!(ReceivedStatus::parse(status.as_str()), Some(status));
        }
        assert_eq!(ReceivedStatus::parse("processing"), None);
    }
}
