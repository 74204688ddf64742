//! What the store holds of a queue beside what its lane has in memory, and when that is read. Pure.

use crate::time::Timestamp;

/// What the store holds of a queue beside what is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::lanes) enum Backlog {
    /// Nothing.
    #[default]
    Empty,
    /// Something that is to be read.
    Unread(UnreadRange),
    /// It is being read, from `due_from` on. What came to be meanwhile may be missing from what is read.
    Reading { due_from: Timestamp, missed: Option<UnreadRange> },
}

/// Deliveries in the store that are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lanes) struct UnreadRange {
    /// None of them is due before. A read begins here: what is due earlier is known, and would be read in vain.
    pub(in crate::lanes) due_from: Timestamp,
    /// When they are read: not before the first is due, and later if more are expected.
    pub(in crate::lanes) look_at: Timestamp,
}

impl Backlog {
    /// The store holds one more, due at this instant. If a read is to come that finds it, that one may wait for what it waits for.
    pub(in crate::lanes) fn extend(&mut self, due_at: Timestamp) {
        let is_covered = match *self {
            Self::Unread(rest) | Self::Reading { missed: Some(rest), .. } => rest.due_from <= due_at,
            Self::Empty | Self::Reading { missed: None, .. } => false,
        };
        if !is_covered {
            self.add(UnreadRange::due(due_at));
        }
    }

    /// The first of the queue is due at this instant, known or not: a read that is to come, and is due, begins there. Where hints were lost, it finds what
    /// they said.
    pub(in crate::lanes) fn begin_at(&mut self, head_due_at: Timestamp, now: Timestamp) {
        if let Self::Unread(rest) = self
            && rest.due_from <= now
        {
            rest.due_from = rest.due_from.min(head_due_at);
        }
    }

    /// The store holds more.
    pub(in crate::lanes) fn add(&mut self, more: UnreadRange) {
        *self = match *self {
            Self::Empty => Self::Unread(more),
            Self::Unread(rest) => Self::Unread(rest.and(more)),
            Self::Reading { due_from, missed } => Self::Reading { due_from, missed: Some(missed.map_or(more, |rest| rest.and(more))) },
        };
    }

    /// From when on it is being read, if it is.
    pub(in crate::lanes) fn read_from(self) -> Option<Timestamp> {
        match self {
            Self::Reading { due_from, .. } => Some(due_from),
            Self::Empty | Self::Unread(_) => None,
        }
    }
}

impl UnreadRange {
    /// Something that is read when it is due.
    pub(in crate::lanes) fn due(due_at: Timestamp) -> Self {
        Self { due_from: due_at, look_at: due_at }
    }

    fn and(self, more: Self) -> Self {
        Self { due_from: self.due_from.min(more.due_from), look_at: self.look_at.min(more.look_at) }
    }
}
