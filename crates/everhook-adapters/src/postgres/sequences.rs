//! Sequence numbers, given while the rows that count them are locked.

use everhook_core::ids::ApplicationId;
use uuid::Uuid;

use super::{rows::Key, transaction::Counters};

/// The counters of the applications of one transaction.
pub(super) struct Sequences {
    counters: Vec<(ApplicationId, Counters, bool)>,
}

impl Sequences {
    pub(super) fn new(locked: Vec<(ApplicationId, Counters)>) -> Self {
        Self { counters: locked.into_iter().map(|(application, counters)| (application, counters, false)).collect() }
    }

    /// The next number of an application, if its configuration still has this version.
    pub(super) fn next(&mut self, application: ApplicationId, config_version: i64) -> Option<i64> {
        let (_, counters, is_raised) = self.counters.iter_mut().find(|(of, ..)| *of == application)?;
        if counters.config_version != config_version {
            return None;
        }
        *is_raised = true;
        counters.next_sequence += 1;
        Some(counters.next_sequence - 1)
    }

    /// Whether an application's configuration has another version.
    pub(super) fn has_changed(&self, application: ApplicationId, config_version: i64) -> bool {
        let found = self.counters.iter().find(|(of, ..)| *of == application);
        found.is_none_or(|(_, counters, _)| counters.config_version != config_version)
    }

    /// The numbers that come next, of the applications that got any.
    pub(super) fn raised(&self) -> (Vec<Uuid>, Vec<i64>) {
        let raised = self.counters.iter().filter(|(_, _, is_raised)| *is_raised);
        raised.map(|(application, counters, _)| (application.key(), counters.next_sequence)).unzip()
    }
}
