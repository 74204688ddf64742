//! How many rows there are of something that is bounded in number: counted in the store now and then, and what this node adds in between is added here.
//!
//! For bounds of disk space, where a count for each row would cost more than the row, and a few more do no harm.

use std::{
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{pruned::Pruned, time::Timestamp};

/// How long a count is believed, and how long one that says that there is no room.
const COUNTED_EVERY: Duration = Duration::from_secs(60);
const COUNTED_EVERY_WHEN_FULL: Duration = Duration::from_secs(10);

/// What is known of the rows of many owners.
pub struct Counted<K> {
    most: u32,
    known: Mutex<Pruned<K, Known>>,
}

/// As many as were counted, and what came since.
#[derive(Clone, Copy)]
struct Known {
    counted_at: Timestamp,
    count: u32,
    /// What was added since somebody began to count: the count may not include it.
    since_counting: u32,
}

impl<K: Copy + Eq + Hash> Counted<K> {
    /// For owners who may have so many rows.
    pub fn up_to(most: u32) -> Self {
        Self { most, known: Mutex::default() }
    }

    /// Whether the rows should be counted now, if so many are to come. Whoever asks next meanwhile is told that they need not be.
    pub fn is_to_be_counted(&self, owner: K, more: u32, now: Timestamp) -> bool {
        let mut known = self.lock();
        let Some(of_owner) = known.get_mut(&owner) else {
            entry(&mut known, owner, now);
            return true;
        };
        let believed_for = if of_owner.count.saturating_add(more) <= self.most { COUNTED_EVERY } else { COUNTED_EVERY_WHEN_FULL };
        let is_due = now.since(of_owner.counted_at) >= believed_for;
        if is_due {
            (of_owner.counted_at, of_owner.since_counting) = (now, 0);
        }
        is_due
    }

    /// Takes over what was counted. What came meanwhile is added to it, because the count may have begun before it was there.
    pub fn note_count(&self, owner: K, count: u32, now: Timestamp) {
        let mut known = self.lock();
        let of_owner = entry(&mut known, owner, now);
        (of_owner.counted_at, of_owner.count) = (now, count.saturating_add(of_owner.since_counting));
    }

    /// Whether there is room for so many more.
    pub fn has_room(&self, owner: K, more: u32) -> bool {
        self.lock().get_mut(&owner).is_none_or(|known| known.count.saturating_add(more) <= self.most)
    }

    /// Adds what comes, if there is room for it.
    pub fn take(&self, owner: K, more: u32, now: Timestamp) -> bool {
        let mut known = self.lock();
        let of_owner = entry(&mut known, owner, now);
        let has_room = of_owner.count.saturating_add(more) <= self.most;
        if has_room {
            of_owner.count += more;
            of_owner.since_counting = of_owner.since_counting.saturating_add(more);
        }
        has_room
    }

    fn lock(&self) -> MutexGuard<'_, Pruned<K, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry<K: Eq + Hash>(known: &mut Pruned<K, Known>, owner: K, now: Timestamp) -> &mut Known {
    let is_needed = |known: &Known| now.since(known.counted_at) < COUNTED_EVERY;
    known.entry(owner, is_needed, || Known { counted_at: now, count: 0, since_counting: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_since_the_count_is_added_and_a_full_owner_is_counted_again_sooner() {
        let (counted, at) = (Counted::up_to(100), Timestamp::from_secs);
        assert!(counted.has_room(1, 100) && counted.is_to_be_counted(1, 1, at(0)), "nothing is known yet");
        counted.note_count(1, 97, at(0));
        assert!(!counted.is_to_be_counted(1, 2, at(59)));
        assert!(counted.take(1, 2, at(59)) && !counted.take(1, 2, at(59)) && counted.take(1, 1, at(59)));
        assert!(!counted.has_room(1, 1) && counted.has_room(2, 1));
        // It is full: it is counted again, by one of those who ask.
        assert!(counted.is_to_be_counted(1, 1, at(59)) && !counted.is_to_be_counted(1, 1, at(60)));
        counted.note_count(1, 5, at(60));
        assert!(!counted.is_to_be_counted(1, 1, at(70)) && counted.take(1, 95, at(70)));
        assert!(counted.is_to_be_counted(1, 0, at(120)));
    }

    #[test]
    fn what_comes_while_somebody_counts_is_added_to_the_count() {
        let (counted, at) = (Counted::up_to(100), Timestamp::from_secs);
        assert!(counted.is_to_be_counted(1, 10, at(0)) && counted.take(1, 10, at(0)) && counted.take(1, 20, at(1)));
        counted.note_count(1, 50, at(2));
        assert!(counted.has_room(1, 20) && !counted.has_room(1, 21));
        // What came before the next count began is in it.
        assert!(counted.is_to_be_counted(1, 0, at(62)));
        counted.note_count(1, 60, at(63));
        assert!(counted.has_room(1, 40) && !counted.has_room(1, 41));
    }
}
