//! How many events of each application wait. In memory, because every publish asks while any do; read from the file once, when it is opened.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use everhook_core::ids::ApplicationId;
use rusqlite::Connection;

use crate::sqlite::rows::Columns;

const BY_APPLICATION: &str = include_str!("queries/spooled_events_by_application.sql");

/// The counts. One may be below zero for a moment: an event can be forwarded before the task that put it there is told that it is on disk.
pub(super) struct Waiting {
    /// Of all applications together: what is asked first, and as a rule is zero.
    events: AtomicI64,
    /// Those that are not zero.
    by_application: Mutex<BTreeMap<ApplicationId, i64>>,
}

impl Waiting {
    /// Counts what the file holds.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare(BY_APPLICATION)?;
        let counts = statement.query_map([], |row| Ok((row.id("application_id")?, row.get("events")?)))?;
        let by_application: BTreeMap<ApplicationId, i64> = counts.collect::<rusqlite::Result<_>>()?;
        Ok(Self { events: by_application.values().sum::<i64>().into(), by_application: by_application.into() })
    }

    /// Counts events that were taken, each by its application.
    pub(super) fn add(&self, events: impl IntoIterator<Item = ApplicationId>) {
        self.count(events, 1);
    }

    /// Counts events that are gone no longer.
    pub(super) fn remove(&self, events: impl IntoIterator<Item = ApplicationId>) {
        self.count(events, -1);
    }

    fn count(&self, events: impl IntoIterator<Item = ApplicationId>, by: i64) {
        let mut by_application = self.lock();
        for application in events {
            let count = by_application.entry(application).or_default();
            *count += by;
            if *count == 0 {
                by_application.remove(&application);
            }
            self.events.fetch_add(by, Ordering::AcqRel);
        }
    }

    /// How many wait.
    pub(super) fn events(&self) -> u64 {
        u64::try_from(self.events.load(Ordering::Acquire)).unwrap_or(0)
    }

    /// The applications of which any wait.
    pub(super) fn applications(&self) -> Vec<ApplicationId> {
        self.lock().iter().filter(|(_, count)| **count > 0).map(|(application, _)| *application).collect()
    }

    /// Whether any wait of an application that is meant.
    pub(super) fn any(&self, is_meant: &dyn Fn(ApplicationId) -> bool) -> bool {
        self.lock().iter().any(|(application, count)| *count > 0 && is_meant(*application))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ApplicationId, i64>> {
        self.by_application.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
