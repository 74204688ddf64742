//! Where a walk over the waiting deliveries of a lane stands, packed into the sixteen bytes that an operation keeps of its selection: the queue, the instant
//! at which the last delivery is due, and the first half of its id. The walk continues at that half, not behind it, so that nothing is passed over.

use uuid::Uuid;

/// The last queue of a lane.
const LAST_PRIORITY: i64 = 2;

/// A place in a lane, as what rows are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitingPlace {
    pub(crate) priority: i64,
    pub(crate) due_at: i64,
    /// Not before this id among those that are due at the same instant.
    pub(crate) id: Uuid,
}

impl WaitingPlace {
    /// Where a place that was kept is, or the beginning of what is due after an instant.
    pub(crate) fn read(kept: Uuid, due_after: i64) -> Self {
        let bytes = kept.into_bytes();
        let mut due_at = [0; 8];
        due_at[1..].copy_from_slice(&bytes[1..8]);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&bytes[8..]);
        let place = Self { priority: i64::from(bytes[0]), due_at: i64::from_be_bytes(due_at), id: Uuid::from_bytes(id) };
        let start = Self { priority: place.priority, due_at: due_after.saturating_add(1), id: Uuid::nil() };
        if place.due_at > due_after { place } else { start }
    }

    /// The place at which the next look begins after one that found `last` in this queue, or nothing more; `None` after the last queue.
    pub(crate) fn after(self, last: Option<(i64, Uuid)>) -> Option<Uuid> {
        let (priority, due_at, id) = match last {
            Some((due_at, id)) => (self.priority, due_at, id),
            None if self.priority >= LAST_PRIORITY => return None,
            None => (self.priority + 1, 0, Uuid::nil()),
        };
        let mut bytes = [0; 16];
        bytes[0] = u8::try_from(priority).unwrap_or(u8::MAX);
        bytes[1..8].copy_from_slice(&due_at.to_be_bytes()[1..]);
        bytes[8..].copy_from_slice(&id.into_bytes()[..8]);
        Some(Uuid::from_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_each_queue_and_continues_at_the_last_row() {
        let now = 1_700_000_000_000_000;
        let first = WaitingPlace::read(Uuid::nil(), now);
        assert_eq!(first, WaitingPlace { priority: 0, due_at: now + 1, id: Uuid::nil() });
        let last = Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0001);
        let next = WaitingPlace::read(first.after(Some((now + 5, last))).unwrap(), now);
        assert_eq!((next.priority, next.due_at), (0, now + 5));
        assert!(next.id <= last && next.id > Uuid::nil());
        let second = WaitingPlace::read(next.after(None).unwrap(), now);
        assert_eq!(second, WaitingPlace { priority: 1, due_at: now + 1, id: Uuid::nil() });
        let third = WaitingPlace::read(second.after(None).unwrap(), now);
        assert_eq!((third.priority, third.after(None)), (2, None));
    }
}
