//! A look aside before events are recorded: Redis may say that an idempotency key was perhaps seen before. Only the store says whether it was, by one read,
//! which spares the transaction that would find out the same.
//!
//! Redis may only say *maybe*. A key that it does not know goes the normal way, and so does one that it knows wrongly.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use aws_lc_rs::digest::{Context, SHA256};
use everhook_core::{
    ids::EventId,
    model::Event,
    ports::{Erased, Erasure, EventAlias, EventStore, KeyOrigin, NewEvent, Recorded, StoreError},
};

use super::{
    Redis,
    link::Link,
    notes::{Note, Notes},
};

/// How long a publisher waits for Redis, once: whoever is late is not asked again before it is known how it is.
const LOOK_TIMEOUT: Duration = Duration::from_millis(10);

/// A store of events that looks aside first.
pub struct LookAside {
    store: Arc<dyn EventStore>,
    link: Arc<Link>,
    notes: Notes,
}

impl Redis {
    /// The same store, with a look aside for keys that were seen before.
    pub fn look_aside(&self, store: Arc<dyn EventStore>) -> LookAside {
        LookAside { store, link: self.link.clone(), notes: self.notes.clone() }
    }
}

#[async_trait]
impl EventStore for LookAside {
    async fn record(&self, events: Vec<NewEvent>) -> Vec<Result<Recorded, StoreError>> {
        let keys: Vec<Option<(String, Duration)>> = events.iter().map(|new| self.key_of(new)).collect();
        let mut originals = self.originals_of(&keys, &events).await;
        originals.resize(events.len(), None);
        let rest: Vec<NewEvent> =
            events.into_iter().zip(&originals).filter(|(_, original)| original.is_none()).map(|(event, _)| event).collect();
        let mut recorded = if rest.is_empty() { Vec::new() } else { self.store.record(rest).await }.into_iter();
        let missing = || Err(StoreError::corrupt("the store did not answer every event"));
        let mut answers = Vec::with_capacity(originals.len());
        for (original, key) in originals.into_iter().zip(keys) {
            let answer = original.map_or_else(|| recorded.next().unwrap_or_else(missing), Ok);
            if let (Ok(Recorded::Accepted { .. } | Recorded::Duplicate { .. } | Recorded::KeyReused(_)), Some((key, for_at_most))) =
                (&answer, key)
            {
                self.notes.note(Note::Seen { key, for_at_most });
            }
            answers.push(answer);
        }
        answers
    }

    async fn originals(&self, events: &[NewEvent]) -> Result<Vec<Option<Recorded>>, StoreError> {
        self.store.originals(events).await
    }

    async fn event(&self, id: EventId) -> Result<Option<Event>, StoreError> {
        self.store.event(id).await
    }

    async fn is_erased(&self, id: EventId) -> Result<bool, StoreError> {
        self.store.is_erased(id).await
    }

    async fn alias(&self, aliases: Vec<EventAlias>) -> Result<(), StoreError> {
        self.store.alias(aliases).await
    }

    async fn erase(&self, erasure: Erasure) -> Result<Erased, StoreError> {
        self.store.erase(erasure).await
    }
}

impl LookAside {
    /// Under what a key that a publisher gave is noted, and for how long that is of use. Not the key itself: what publishers write there is theirs.
    fn key_of(&self, new: &NewEvent) -> Option<(String, Duration)> {
        let KeyOrigin::Given { valid_since } = new.key else { return None };
        let mut context = Context::new(&SHA256);
        context.update(new.event.application.as_uuid().as_bytes());
        context.update(new.event.idempotency_key.as_bytes());
        let digest: String = context.finish().as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Some((format!("{}seen:{digest}", self.link.prefix), new.event.created_at.since(valid_since)))
    }

    /// The originals of those events whose keys were seen before, as the store has them. Nothing, if nobody says that any was.
    async fn originals_of(&self, keys: &[Option<(String, Duration)>], events: &[NewEvent]) -> Vec<Option<Recorded>> {
        let given: Vec<&str> = keys.iter().flatten().map(|(key, _)| key.as_str()).collect();
        if given.is_empty() {
            return Vec::new();
        }
        let look = async |mut connection| redis::cmd("MGET").arg(&given).query_async::<Vec<Option<String>>>(&mut connection).await;
        let Ok(seen) = self.link.ask_briefly(LOOK_TIMEOUT, look).await else { return Vec::new() };
        if seen.iter().all(Option::is_none) {
            return Vec::new();
        }
        // One read for all of them costs no more than for those that were seen. If it fails, recording says why.
        self.store.originals(events).await.unwrap_or_default()
    }
}
