//! An event on its way into the store: matched with endpoints, recorded with its deliveries, handed over to its lanes.
//!
//! Used by `publish`, which has just been given the event, and by `carry`, which had it wait. Neither decides here what a failure means.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    catalog::{ApplicationView, Destination},
    ids::{ApplicationId, DeliveryId},
    line::{Line, selection::Matches},
    model::{Due, Event, Placement},
    ports::{Committed, IncomingEvent, NewDelivery, NewEvent},
    time::Timestamp,
};

/// The applications of a batch, each in the version at which its first event was matched. Matched by two configurations, later events could be accepted
/// where earlier ones must be matched again, and would overtake them.
#[derive(Default)]
pub(crate) struct Views(FxHashMap<ApplicationId, Arc<ApplicationView>>);

impl Views {
    /// The application, if an event of it was matched before.
    pub(crate) fn get(&self, application: ApplicationId) -> Option<Arc<ApplicationView>> {
        self.0.get(&application).cloned()
    }

    /// An event of the application is matched for the first time.
    pub(crate) fn keep(&mut self, view: &Arc<ApplicationView>) {
        self.0.insert(view.application.id, view.clone());
    }
}

/// An event with its matches.
pub(crate) struct Draft {
    /// The event.
    pub(crate) incoming: IncomingEvent,
    config_version: i64,
    made_at: Timestamp,
    matches: Matches,
    deliveries: Vec<NewDelivery>,
}

impl Draft {
    /// An event for these destinations of its application.
    pub(crate) fn new(line: &Line, incoming: IncomingEvent, view: &ApplicationView, matches: Matches) -> Self {
        let now = line.ports.clock.now();
        let new_delivery = |destination: &Destination| NewDelivery {
            id: DeliveryId::from_uuid(line.ports.entropy.uuid(now)),
            lane_id: destination.lane_id(),
            retry_schedule: view.retry_schedule(destination),
            placement: Placement::of(destination.ordering()),
        };
        let deliveries = matches.iter().map(new_delivery).collect();
        Self { incoming, config_version: view.config_version, made_at: now, matches, deliveries }
    }

    /// What the store is asked to record.
    pub(crate) fn to_new_event(&self) -> NewEvent {
        NewEvent {
            organization: self.incoming.organization,
            event: self.incoming.event.clone(),
            key: self.incoming.key,
            config_version: self.config_version,
            made_at: self.made_at,
            deliveries: self.deliveries.clone(),
            parked: self.incoming.parked.clone(),
        }
    }

    /// How many deliveries it makes.
    pub(crate) fn delivery_count(&self) -> u32 {
        u32::try_from(self.deliveries.len()).unwrap_or(u32::MAX)
    }

    /// The durable deliveries go straight into their lanes, so that the first attempt waits for no poll. Those that are held come when they are freed.
    pub(crate) fn hand_over(self, sequence_number: i64, held: &[DeliveryId], committed: &mut Vec<Committed>) {
        let (priority, due_at) = (self.incoming.event.priority, self.made_at);
        let event = Arc::new(Event { sequence_number, ..self.incoming.event });
        let held: FxHashSet<DeliveryId> = held.iter().copied().collect();
        let pairs = self.deliveries.into_iter().zip(self.matches.iter()).filter(|(delivery, _)| !held.contains(&delivery.id));
        committed.extend(pairs.map(|(delivery, destination)| Committed {
            lane: destination.lane().clone(),
            priority,
            due: Due {
                delivery: delivery.id,
                event: event.id,
                loaded: Some(event.clone()),
                retry_schedule: delivery.retry_schedule,
                attempts: 0,
                parkings: 0,
                expired: None,
                due_at,
                replay_of: None,
                order: delivery.placement.order(event.ordered_by(), delivery.id),
            },
        }));
    }
}
