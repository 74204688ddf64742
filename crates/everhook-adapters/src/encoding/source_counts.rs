//! What happened at a source in a minute, as columns: numbers by name are JSON objects.

use std::collections::BTreeMap;

use everhook_core::model::{EventCounts, SourceStatistics};

/// The name of events whose types are not told apart: no type is called so.
const OTHERS: &str = "";

/// Counts by a name that is not known beforehand.
type Counts = BTreeMap<String, u64>;

/// Four counts of each type: received, completed, failed, dead.
type EventJson = BTreeMap<String, [u64; 4]>;

/// Spells how many requests were rejected, by why.
pub(crate) fn rejected(statistics: &SourceStatistics) -> String {
    serde_json::to_string(&statistics.rejected).expect("numbers are JSON")
}

/// Reads what [`rejected`] wrote; `None` if it was damaged.
pub(crate) fn read_rejected(text: &str) -> Option<Counts> {
    serde_json::from_str(text).ok()
}

/// Spells what became of events, by their type.
pub(crate) fn events(statistics: &SourceStatistics) -> String {
    let spelled = |counts: &EventCounts| [counts.received, counts.completed, counts.failed, counts.dead];
    let mut all: EventJson = statistics.events.iter().map(|(name, counts)| (name.clone(), spelled(counts))).collect();
    if statistics.other_events != EventCounts::default() {
        all.insert(OTHERS.to_owned(), spelled(&statistics.other_events));
    }
    serde_json::to_string(&all).expect("numbers are JSON")
}

/// Reads what [`events`] wrote: those that are told apart, and the others. `None` if it was damaged.
pub(crate) fn read_events(text: &str) -> Option<(BTreeMap<String, EventCounts>, EventCounts)> {
    let mut all: EventJson = serde_json::from_str(text).ok()?;
    let read = |[received, completed, failed, dead]: [u64; 4]| EventCounts { received, completed, failed, dead };
    let others = all.remove(OTHERS).map(read).unwrap_or_default();
    Some((all.into_iter().map(|(name, counts)| (name, read(counts))).collect(), others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_they_were_written() {
        let mut statistics = SourceStatistics::default();
        assert_eq!((events(&statistics).as_str(), rejected(&statistics).as_str()), ("{}", "{}"));
        for n in 0..60 {
            *statistics.events_mut(&format!("type-{n}")) = EventCounts { received: n, completed: 2, failed: 3, dead: 4 };
        }
        statistics.reject("bad_signature", 7);
        let read = read_events(&events(&statistics)).unwrap();
        assert_eq!(read, (statistics.events.clone(), statistics.other_events));
        assert_eq!(read_rejected(&rejected(&statistics)), Some(statistics.rejected));
        assert_eq!((read_events("[]"), read_events(r#"{"a":[1]}"#), read_rejected("{")), (None, None, None));
    }
}
