//! Then: what arrived, and how things stand.

use std::{collections::HashMap, time::Duration};

use everhook_core::{
    ids::EventId,
    model::{DeadLetter, Delivery, PageRequest, Stage},
    policy::{
        operational::OperationalType,
        schema::Schema,
        work::{SCHEMA_UNITS_MAX, WorkBudget},
    },
    ports::{DeadLetterFilter, DeliveryFilter, EventFilter},
};

use super::{BEGINNING, Receiver, World};
use crate::network::{Answer, Arrival};

/// More rows than any scenario makes.
const ALL_ROWS: PageRequest = PageRequest { limit: 100_000, cursor: everhook_core::model::Cursor::Newest };

impl World {
    /// Whether a text is anywhere in the store: in its files, or in the rows of the shared one.
    pub async fn store_holds(&self, text: &str) -> bool {
        match &self.shared {
            Some(shared) => shared.holds(text).await,
            None => self.files_hold(text),
        }
    }

    /// Whether a text is anywhere in the files of the store or of the spool.
    pub fn files_hold(&self, text: &str) -> bool {
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("the folder is there") {
                let path = entry.expect("the folder is read").path();
                if path.is_dir() {
                    folders.push(path);
                } else if std::fs::read(&path).is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes())) {
                    return true;
                }
            }
        }
        false
    }

    /// When requests arrived at an endpoint, since the beginning.
    pub fn arrivals_at(&self, receiver: &Receiver) -> Vec<Duration> {
        self.arrivals_of(receiver).iter().map(|arrival| arrival.at.since(BEGINNING)).collect()
    }

    /// The requests that arrived at an endpoint.
    pub fn arrivals_of(&self, receiver: &Receiver) -> Vec<Arrival> {
        self.network.arrivals().into_iter().filter(|arrival| arrival.url == receiver.url).collect()
    }

    /// Every delivery, oldest first.
    pub async fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries_where(DeliveryFilter::default()).await
    }

    /// The deliveries of one event, oldest first.
    pub async fn deliveries_of(&self, event: EventId) -> Vec<Delivery> {
        self.deliveries_where(DeliveryFilter { event: Some(event), ..DeliveryFilter::default() }).await
    }

    async fn deliveries_where(&self, filter: DeliveryFilter) -> Vec<Delivery> {
        let page = self.line().ports.history.deliveries(self.organization, filter, ALL_ROWS).await;
        let mut rows = page.expect("the store answers").rows;
        rows.reverse();
        rows
    }

    /// How an event's deliveries stand, in words, oldest first.
    pub async fn stages(&self, event: EventId) -> Vec<String> {
        self.deliveries_of(event).await.iter().map(in_words).collect()
    }

    /// Every dead letter, oldest first.
    pub async fn dead_letters(&self) -> Vec<DeadLetter> {
        let page = self.line().ports.history.dead_letters(self.organization, DeadLetterFilter::default(), ALL_ROWS).await;
        let mut rows = page.expect("the store answers").rows;
        rows.reverse();
        rows
    }

    /// The types of the operational events that were told, oldest first.
    pub async fn operational_types(&self) -> Vec<String> {
        let filter = EventFilter { application: Some(self.operational), ..EventFilter::default() };
        let page = self.line().ports.history.events(self.organization, filter, ALL_ROWS).await;
        page.expect("the store answers").rows.iter().rev().map(|event| event.event_type.to_string()).collect()
    }

    /// Every operational event that was published fits the schema of its type. [`World::end`] calls this.
    pub(super) async fn assert_operational_events_fit_their_schemas(&self) {
        let filter = EventFilter { application: Some(self.operational), ..EventFilter::default() };
        let history = self.bare_ports().history;
        // A scenario may leave the store behind as one that cannot be read.
        let Ok(page) = history.events(self.organization, filter, ALL_ROWS).await else { return };
        let mut schemas = HashMap::new();
        for summary in page.rows {
            let name = summary.event_type.to_string();
            let known = OperationalType::of(&name).unwrap_or_else(|| panic!("`{name}` has no schema: add it to `policy::operational`"));
            let schema = schemas.entry(name).or_insert_with(|| Schema::compile(&known.schema().to_string()).expect("our schemas compile"));
            let Ok(Some((_, Some(event)))) = history.event(self.organization, summary.id).await else { continue };
            let data = serde_json::from_slice(&event.data).expect("our events are JSON");
            let checked = schema.check(&data, &mut WorkBudget::new(SCHEMA_UNITS_MAX));
            assert!(checked.is_ok(), "{}: {checked:?} in {data}", known.name);
        }
    }

    /// The promise: everything accepted has ended, what counts as delivered was answered with a 2xx, and no attempt was recorded twice or past
    /// its schedule. Scenarios that are over call this.
    pub async fn assert_promises(&self, accepted: &[EventId]) {
        let arrivals = self.network.arrivals();
        for event in accepted {
            let deliveries = self.deliveries_of(*event).await;
            assert!(!deliveries.is_empty(), "event {event} was accepted and has no delivery");
            for delivery in deliveries {
                let id = delivery.id.to_string();
                let successes = arrivals.iter().filter(|arrival| arrival.delivery == id && was_answered_well(arrival)).count();
                match delivery.stage {
                    Stage::Waiting { due_at } => panic!("delivery {id} still waits for {due_at}"),
                    Stage::Held => panic!("delivery {id} is still held"),
                    Stage::Parked(_) => panic!("delivery {id} is still parked"),
                    Stage::Delivered { .. } => assert!(successes > 0, "delivery {id} counts as delivered and never was"),
                    Stage::Dead { .. } | Stage::Cancelled { .. } => {}
                }
                let (_, attempts) = self.delivery(delivery.id).await;
                let numbers: Vec<u32> = attempts.iter().map(|attempt| attempt.number).collect();
                let expected: Vec<u32> = (1..=delivery.attempts).collect();
                assert_eq!(numbers, expected, "attempts of delivery {id}");
            }
        }
        assert_eq!((self.status().in_flight, self.status().unwritten), (0, 0), "something is left over");
    }

    /// One delivery with its attempts.
    pub async fn delivery(&self, id: everhook_core::ids::DeliveryId) -> (Delivery, Vec<everhook_core::model::Attempt>) {
        let found = self.line().ports.history.delivery(self.organization, id).await;
        found.expect("the store answers").expect("the delivery exists")
    }
}

fn was_answered_well(arrival: &Arrival) -> bool {
    match arrival.answer {
        Answer::Status(200..=299) => true,
        Answer::Slow(200..=299, after) => after < arrival.request.timeout,
        _ => false,
    }
}

fn in_words(delivery: &Delivery) -> String {
    match delivery.stage {
        Stage::Waiting { .. } => "waiting".to_owned(),
        Stage::Held => "held".to_owned(),
        Stage::Parked(_) => "parked".to_owned(),
        Stage::Delivered { .. } => "delivered".to_owned(),
        Stage::Dead { cause, .. } => format!("dead: {}", cause.as_str()),
        Stage::Cancelled { cause, .. } => format!("cancelled: {}", cause.as_str()),
    }
}
