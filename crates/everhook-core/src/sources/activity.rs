//! What happens at sources, gathered in memory and written once a second: a request waits for none of it, and a crash loses a second of it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustc_hash::FxHashMap;

use crate::{
    ids::SourceId,
    model::SourceActivity,
    ports::{SourceStore, StoreError},
    time::Timestamp,
};

/// How often it is written.
pub const ACTIVITY_WRITTEN_EVERY: Duration = Duration::from_secs(1);

/// Of how many sources something is kept until it is written. What happens at more of them within a second is not noted.
const SOURCES_MAX: usize = 10_000;

/// How many sources are written in one go, so that no event waits long for its own write.
const WRITTEN_AT_ONCE: usize = 500;

/// Gathers what happens at sources.
#[derive(Default)]
pub struct Activity(Mutex<FxHashMap<SourceId, SourceActivity>>);

impl Activity {
    /// Notes that a request was accepted.
    pub fn accepted(&self, id: SourceId, at: Timestamp) {
        self.note(id, SourceActivity { accepted_at: Some(at), ..SourceActivity::default() });
    }

    /// Notes that a request was refused, and why: a word such as `bad_signature`.
    pub fn refused(&self, id: SourceId, at: Timestamp, why: &str) {
        self.note(id, SourceActivity { refused: Some((at, why.to_owned())), ..SourceActivity::default() });
    }

    /// Notes that a handshake was answered.
    pub fn handshake_answered(&self, id: SourceId, at: Timestamp) {
        self.note(id, SourceActivity { handshake_at: Some(at), ..SourceActivity::default() });
    }

    /// What is not written yet of what happened at a source.
    pub fn unwritten(&self, id: SourceId) -> SourceActivity {
        self.news().get(&id).cloned().unwrap_or_default()
    }

    /// Writes what is not written yet.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be written to: it is written the next time.
    pub async fn write(&self, store: &dyn SourceStore) -> Result<(), StoreError> {
        let mut news: Vec<_> = std::mem::take(&mut *self.news()).into_iter().collect();
        while !news.is_empty() {
            let some = news.split_off(news.len().saturating_sub(WRITTEN_AT_ONCE));
            if let Err(error) = store.note_source_activity(some.clone()).await {
                some.into_iter().chain(news).for_each(|(id, activity)| self.note(id, activity));
                return Err(error);
            }
        }
        Ok(())
    }

    fn note(&self, id: SourceId, activity: SourceActivity) {
        let mut news = self.news();
        if news.len() < SOURCES_MAX || news.contains_key(&id) {
            news.entry(id).or_default().merge(activity);
        }
    }

    fn news(&self) -> MutexGuard<'_, FxHashMap<SourceId, SourceActivity>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_happens_at_more_sources_than_are_kept_is_not_noted() {
        let activity = Activity::default();
        let id = |n: usize| SourceId::from_uuid(Uuid::from_u128(n as u128));
        for n in 0..=SOURCES_MAX {
            activity.accepted(id(n), Timestamp::from_secs(1));
        }
        assert_eq!(activity.news().len(), SOURCES_MAX);
        activity.refused(id(0), Timestamp::from_secs(2), "bad_signature");
        let known = activity.unwritten(id(0));
        assert_eq!(
            (known.accepted_at, known.refused),
            (Some(Timestamp::from_secs(1)), Some((Timestamp::from_secs(2), "bad_signature".to_owned())))
        );
    }
}
