//! What is known of sources: those that were opened, those that are not there, and how much of it is kept. Pure: times come in as uptime.

use std::{sync::Arc, time::Duration};

use rustc_hash::FxHashMap;
use uuid::Uuid;

use super::OpenSource;
use crate::{
    ids::SourceId,
    model::{Source, SourceName},
};

/// What all opened sources may take in memory, in bytes: those of some thirty thousand ordinary ones.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// How many that are not there are remembered. Past it all are forgotten: guesses cost a read each, a few at a time.
pub(super) const ABSENT_MAX: usize = 10_000;

/// How long it is remembered that one is not there: whoever makes it waits for no longer.
pub(super) const ABSENT_FOR: Duration = Duration::from_secs(1);

/// After this time a source is read again without being told of a change, in case that was lost.
pub(super) const CURRENT_FOR: Duration = Duration::from_secs(60);

/// How a URL names a source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Id(SourceId),
    Name(SourceName),
}

impl Key {
    /// Reads a path segment. `None` means that no source can have this name.
    pub(super) fn parse(segment: &str) -> Option<Self> {
        match Uuid::try_parse(segment) {
            Ok(id) => Some(Self::Id(SourceId::from_uuid(id))),
            Err(_) => SourceName::parse(segment).map(Self::Name),
        }
    }
}

/// What is known of one.
pub(super) enum Found {
    /// As it stands, as far as anybody here was told.
    Current(Arc<OpenSource>),
    /// As it stood.
    Stale(Arc<OpenSource>),
    /// It is not there.
    Absent,
    /// Nothing.
    Unknown,
}

struct Entry {
    source: Arc<OpenSource>,
    current_until: Duration,
    used_at: Duration,
}

/// What is known.
#[derive(Default)]
pub(super) struct Known {
    sources: FxHashMap<SourceId, Entry>,
    /// Those that are reached by their names.
    names: FxHashMap<SourceName, SourceId>,
    /// Those that are not there, and until when that holds.
    absent: FxHashMap<Key, Duration>,
    bytes: usize,
    /// Counts changes, so that what was read before one is not current after it.
    changes: u64,
}

impl Known {
    /// What is known of a source.
    pub(super) fn find(&mut self, key: &Key, now: Duration) -> Found {
        if self.absent.get(key).is_some_and(|until| *until > now) {
            return Found::Absent;
        }
        let id = match key {
            Key::Id(id) => Some(id),
            Key::Name(name) => self.names.get(name),
        };
        let Some(entry) = id.and_then(|id| self.sources.get_mut(id)) else { return Found::Unknown };
        entry.used_at = now;
        let source = entry.source.clone();
        if entry.current_until > now { Found::Current(source) } else { Found::Stale(source) }
    }

    /// How many changes there were so far.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Keeps a source that was read when there had been so many changes. After a further one, whosever it was, it is read again at its next use.
    pub(super) fn keep(&mut self, source: &Arc<OpenSource>, is_named: bool, changes: u64, now: Duration) {
        let id = source.source.id;
        self.remove(id);
        self.absent.remove(&Key::Id(id));
        if is_named {
            self.absent.remove(&Key::Name(source.source.name.clone()));
            self.names.insert(source.source.name.clone(), id);
        }
        let current_until = if self.changes == changes { now + CURRENT_FOR } else { Duration::ZERO };
        self.bytes += source.bytes();
        self.sources.insert(id, Entry { source: source.clone(), current_until, used_at: now });
        self.make_room();
    }

    /// The source as it was after this one, if that is known.
    pub(super) fn newer(&self, than: &Source) -> Option<Arc<OpenSource>> {
        let known = &self.sources.get(&than.id)?.source;
        (known.source.updated_at > than.updated_at).then(|| known.clone())
    }

    /// Notes that the store has no such source.
    pub(super) fn note_absence(&mut self, key: &Key, now: Duration) {
        match key {
            Key::Id(id) => self.remove(*id),
            Key::Name(name) => drop(self.names.remove(name)),
        }
        if self.absent.len() >= ABSENT_MAX {
            self.absent.clear();
        }
        self.absent.insert(key.clone(), now + ABSENT_FOR);
    }

    /// Notes that sources changed: these, and perhaps some that were not there. They are read again at their next use.
    pub(super) fn forget(&mut self, is_meant: impl Fn(&Source) -> bool) {
        self.changes += 1;
        self.absent.clear();
        for entry in self.sources.values_mut().filter(|entry| is_meant(&entry.source.source)) {
            entry.current_until = Duration::ZERO;
        }
    }

    fn remove(&mut self, id: SourceId) {
        let Some(gone) = self.sources.remove(&id) else { return };
        self.bytes -= gone.source.bytes();
        let name = &gone.source.source.name;
        if self.names.get(name) == Some(&id) {
            self.names.remove(name);
        }
    }

    /// Drops those that were not used for the longest time, a tenth of the room at once, so that it is rarely done.
    fn make_room(&mut self) {
        if self.bytes <= BYTES_MAX {
            return;
        }
        let mut by_use: Vec<(Duration, SourceId)> = self.sources.iter().map(|(id, entry)| (entry.used_at, *id)).collect();
        by_use.sort_unstable();
        for (_, id) in by_use {
            if self.bytes <= BYTES_MAX - BYTES_MAX / 10 {
                break;
            }
            self.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::opening::tests::opened, *};

    const NOW: Duration = Duration::from_secs(1_000);

    fn id(source: &OpenSource) -> Key {
        Key::Id(source.source.id)
    }

    fn is_current(found: &Found) -> bool {
        matches!(found, Found::Current(_))
    }

    #[test]
    fn a_source_is_current_until_it_changes_or_its_time_is_over_and_is_known_beyond() {
        let mut known = Known::default();
        let (source, other) = (Arc::new(opened(1, "a", 0)), Arc::new(opened(2, "b", 0)));
        for source in [&source, &other] {
            known.keep(source, false, known.changes(), NOW);
        }
        assert!(is_current(&known.find(&id(&source), NOW)));
        assert!(matches!(known.find(&Key::Name(source.source.name.clone()), NOW), Found::Unknown), "it is not reached by its name");
        assert!(matches!(known.find(&id(&source), NOW + CURRENT_FOR), Found::Stale(_)));
        known.forget(|found| found.id == source.source.id);
        assert!(matches!(known.find(&id(&source), NOW), Found::Stale(_)));
        assert!(is_current(&known.find(&id(&other), NOW)));
    }

    #[test]
    fn what_was_read_before_a_change_is_not_current_after_it() {
        let mut known = Known::default();
        let source = Arc::new(opened(1, "a", 0));
        let changes = known.changes();
        known.forget(|_| false);
        known.keep(&source, false, changes, NOW);
        assert!(matches!(known.find(&id(&source), NOW), Found::Stale(_)));
    }

    #[test]
    fn a_name_leads_to_the_source_that_has_it_now() {
        let mut known = Known::default();
        let name = |name: &str| Key::Name(SourceName::parse(name).unwrap());
        known.keep(&Arc::new(opened(1, "a", 0)), true, 0, NOW);
        assert!(is_current(&known.find(&name("a"), NOW)));
        known.keep(&Arc::new(opened(1, "renamed", 0)), true, 0, NOW);
        assert!(matches!(known.find(&name("a"), NOW), Found::Unknown));
        assert!(is_current(&known.find(&name("renamed"), NOW)));
        known.note_absence(&name("renamed"), NOW);
        assert!(matches!(known.find(&name("renamed"), NOW), Found::Absent));
    }

    #[test]
    fn what_is_not_there_is_remembered_for_a_second_and_within_a_bound() {
        let mut known = Known::default();
        let key = |n: usize| Key::Name(SourceName::parse(&format!("guess-{n}")).unwrap());
        known.note_absence(&key(0), NOW);
        assert!(matches!(known.find(&key(0), NOW), Found::Absent));
        assert!(matches!(known.find(&key(0), NOW + ABSENT_FOR), Found::Unknown));
        for n in 0..3 * ABSENT_MAX {
            known.note_absence(&key(n), NOW);
            assert!(known.absent.len() <= ABSENT_MAX);
        }
        known.forget(|_| false);
        assert!(known.absent.is_empty(), "somebody may have made one of them");
    }

    #[test]
    fn past_the_bound_those_go_that_were_not_used_for_the_longest_time() {
        let mut known = Known::default();
        let large = 1 << 20;
        let first = Arc::new(opened(0, "s0", large));
        known.keep(&first, false, 0, NOW);
        for n in 1..200 {
            let at = NOW + Duration::from_millis(n);
            known.keep(&Arc::new(opened(u128::from(n), &format!("s{n}"), large)), false, 0, at);
            assert!(known.bytes <= BYTES_MAX);
            assert!(is_current(&known.find(&id(&first), at)), "it is used all the time");
        }
        assert!(matches!(known.find(&Key::Id(SourceId::from_uuid(Uuid::from_u128(1))), NOW), Found::Unknown));
        assert_eq!(known.bytes, known.sources.values().map(|entry| entry.source.bytes()).sum::<usize>());
    }
}
