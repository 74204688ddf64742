//! Events on their way into the table, column by column: one statement writes all of a group.

use everhook_core::{
    ids::DeliveryId,
    model::{Fingerprint, OrderingKey},
    ports::{KeyOrigin, NewEvent, Original, Recorded, StoreError},
};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{making::small, rows::Key};
use crate::encoding::{
    extras::{headers_json, labels_json},
    payload::{Body, Seals},
    spelling::priority_number,
};

/// An event whose data has the form in which it is kept.
pub(super) struct Ready {
    pub(super) new: NewEvent,
    body: Body,
    /// Of those whose key a publisher gave.
    pub(super) fingerprint: Option<Fingerprint>,
    labels: Option<String>,
    headers: Option<String>,
}

impl Ready {
    /// Compresses the data, and seals it where that is wanted, on the publisher's task.
    pub(super) fn new(new: NewEvent, seals: &Seals) -> Result<Self, StoreError> {
        let event = &new.event;
        let labels = (!event.labels.is_empty()).then(|| labels_json(&event.labels));
        let headers = (!event.headers.is_empty()).then(|| headers_json(&event.headers));
        let fingerprint = matches!(new.key, KeyOrigin::Given { .. }).then(|| event.fingerprint());
        Ok(Self { body: Body::of(event, seals)?, fingerprint, labels, headers, new })
    }

    /// What is said to it, given the event that has its key or its id.
    pub(super) fn answer(&self, original: &Original) -> Recorded {
        original.answer_to(self.new.event.id, self.fingerprint.unwrap_or_else(|| self.new.event.fingerprint()))
    }

    fn body(&self) -> (i16, &[u8]) {
        let (encoding, body) = self.body.columns(&self.new.event.data);
        (small(encoding), body)
    }
}

/// Events, column by column.
#[derive(Default)]
pub(super) struct EventColumns<'e> {
    ids: Vec<Uuid>,
    organizations: Vec<Uuid>,
    applications: Vec<Uuid>,
    types: Vec<&'e str>,
    timestamps: Vec<i64>,
    keys: Vec<Option<&'e str>>,
    sources: Vec<Option<&'e str>>,
    priorities: Vec<i16>,
    sequence_numbers: Vec<i64>,
    traceparents: Vec<Option<&'e str>>,
    deliveries: Vec<i32>,
    first_deliveries: Vec<Option<Uuid>>,
    last_deliveries: Vec<Option<Uuid>>,
    made: Vec<i64>,
    encodings: Vec<i16>,
    bodies: Vec<&'e [u8]>,
    labels: Vec<Option<&'e str>>,
    headers: Vec<Option<&'e str>>,
    ordering_keys: Vec<Option<&'e str>>,
    content_types: Vec<Option<&'e str>>,
    source_ids: Vec<Option<Uuid>>,
    external_users: Vec<Option<&'e str>>,
    duplicates_of: Vec<Option<Uuid>>,
    received_headers: Vec<Option<&'e [u8]>>,
}

impl<'e> EventColumns<'e> {
    /// Adds an event that was accepted.
    pub(super) fn push(&mut self, ready: &'e Ready, sequence_number: i64) {
        let (new, event) = (&ready.new, &ready.new.event);
        let ids = || new.deliveries.iter().map(|delivery| delivery.id);
        let is_key_made = event.idempotency_key == event.id.to_string();
        let (encoding, body) = ready.body();
        self.ids.push(event.id.key());
        self.organizations.push(new.organization.key());
        self.applications.push(event.application.key());
        self.types.push(event.event_type.as_str());
        self.timestamps.push(event.timestamp.as_micros());
        self.keys.push((!is_key_made).then_some(&event.idempotency_key));
        self.sources.push(event.source.as_deref());
        self.priorities.push(small(priority_number(event.priority)));
        self.sequence_numbers.push(sequence_number);
        self.traceparents.push(event.traceparent.as_deref());
        self.deliveries.push(i32::try_from(new.deliveries.len()).unwrap_or(i32::MAX));
        self.first_deliveries.push(ids().min().as_ref().map(DeliveryId::key));
        self.last_deliveries.push(ids().max().as_ref().map(DeliveryId::key));
        self.made.push(event.created_at.as_micros());
        self.encodings.push(encoding);
        self.bodies.push(body);
        self.labels.push(ready.labels.as_deref());
        self.headers.push(ready.headers.as_deref());
        self.ordering_keys.push(event.ordering_key.as_ref().map(OrderingKey::as_str));
        self.content_types.push(event.content_type.kept());
        let received = event.received.as_deref();
        self.source_ids.push(received.map(|received| received.source.key()));
        self.external_users.push(received.and_then(|received| received.external_user.as_deref()));
        self.duplicates_of.push(received.and_then(|received| received.duplicate_of.as_ref().map(Key::key)));
        self.received_headers.push(ready.body.headers());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The parameters of `insert_events.sql`.
    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 24] {
        [
            &self.ids,
            &self.organizations,
            &self.applications,
            &self.types,
            &self.timestamps,
            &self.keys,
            &self.sources,
            &self.priorities,
            &self.sequence_numbers,
            &self.traceparents,
            &self.deliveries,
            &self.first_deliveries,
            &self.last_deliveries,
            &self.made,
            &self.encodings,
            &self.bodies,
            &self.labels,
            &self.headers,
            &self.ordering_keys,
            &self.content_types,
            &self.source_ids,
            &self.external_users,
            &self.duplicates_of,
            &self.received_headers,
        ]
    }
}
