//! A backfill: data of the past that a provider is asked to push again, in pieces.

use std::time::Duration;

use crate::{ids::HealthConnectionId, time::Timestamp};

/// The longest span that may be asked for at once: the product's bound. How far back the provider goes, it says itself.
pub const BACKFILL_SPAN_MAX: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// The shortest piece. With [`BACKFILL_SPAN_MAX`] and the number of types it bounds how many pieces a backfill has.
pub const BACKFILL_CHUNK_MIN: Duration = Duration::from_secs(24 * 60 * 60);
/// So many pieces a backfill has at most: every type, day by day.
pub const BACKFILL_CHUNKS_MAX: usize = 16 * 90;

/// Garmin's types that can be asked for again, as its paths spell them. Data without a metric arrives as events.
const TYPES: [&str; 16] = [
    "activities",
    "activityDetails",
    "bloodPressures",
    "bodyComps",
    "dailies",
    "epochs",
    "healthSnapshot",
    "hrv",
    "mct",
    "moveiq",
    "pulseOx",
    "respiration",
    "skinTemp",
    "sleeps",
    "stressDetails",
    "userMetrics",
];

/// A type of data that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackfillType(&'static str);

impl BackfillType {
    /// All of them, in the order of their names.
    pub const ALL: [Self; TYPES.len()] = {
        let mut all = [Self(""); TYPES.len()];
        let mut at = 0;
        while at < TYPES.len() {
            all[at] = Self(TYPES[at]);
            at += 1;
        }
        all
    };

    /// The type of exactly this name, as stores keep it. `health::backfill` reads other spellings.
    pub fn parse(name: &str) -> Option<Self> {
        TYPES.iter().find(|known| **known == name).copied().map(Self)
    }

    /// As Garmin's path spells it.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// What a backfill asks for: each type, piece by piece, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backfill {
    /// Through whose connection.
    pub connection: HealthConnectionId,
    /// The types, each once.
    pub types: Vec<BackfillType>,
    /// From this instant on: a whole second.
    pub from: Timestamp,
    /// Before this instant: a whole second, at most [`BACKFILL_SPAN_MAX`] later.
    pub to: Timestamp,
    /// The longest piece, as it was set when the backfill began: which piece is which does not change while one is under way.
    pub chunk: Duration,
}

/// One piece of a backfill: whole seconds, the end is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackfillChunk {
    /// What is asked for.
    pub data: BackfillType,
    /// When it begins.
    pub start: Timestamp,
    /// When it ends.
    pub end: Timestamp,
}

impl Backfill {
    /// All pieces, in the order in which they are asked for: nothing is left out, and nothing is in two of them.
    pub fn chunks(&self) -> Vec<BackfillChunk> {
        let (step, to) = (self.chunk.max(BACKFILL_CHUNK_MIN), self.to.min(self.from + BACKFILL_SPAN_MAX));
        let mut chunks = Vec::new();
        for data in &self.types {
            let mut start = self.from;
            while start < to {
                let end = (start + step).min(to);
                chunks.push(BackfillChunk { data: *data, start, end });
                start = end;
            }
        }
        chunks
    }
}

/// What became of one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkOutcome {
    /// The provider pushes the data.
    Accepted,
    /// The provider was asked for it before: it pushes nothing more.
    DoneBefore,
    /// The user does not allow data of the past. No other piece is answered otherwise.
    NoHistoryPermission,
    /// It is older than the provider gives, or the token does not hold.
    RefusedByProvider,
    /// The connection is gone, has ended, or has no token.
    NotConnected,
    /// The provider did not answer, however often it was asked.
    Unanswered,
}

impl ChunkOutcome {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Accepted, Self::DoneBefore, Self::NoHistoryPermission, Self::RefusedByProvider, Self::NotConnected, Self::Unanswered];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::DoneBefore => "done_before",
            Self::NoHistoryPermission => "no_history_permission",
            Self::RefusedByProvider => "refused_by_provider",
            Self::NotConnected => "not_connected",
            Self::Unanswered => "unanswered",
        }
    }

    /// Its letter in stores. Never changed once it was stored.
    pub const fn letter(self) -> char {
        match self {
            Self::Accepted => 'a',
            Self::DoneBefore => 'd',
            Self::NoHistoryPermission => 'h',
            Self::RefusedByProvider => 'r',
            Self::NotConnected => 'n',
            Self::Unanswered => 'u',
        }
    }

    /// Reads its letter.
    pub fn of_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.letter() == letter)
    }

    /// Whether the provider said it: it is there.
    pub const fn is_an_answer(self) -> bool {
        !matches!(self, Self::NotConnected | Self::Unanswered)
    }

    /// Whether every later piece would end the same way: the provider is not asked again.
    pub const fn holds_for_the_rest(self) -> bool {
        matches!(self, Self::NoHistoryPermission | Self::NotConnected)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_span_is_cut_into_pieces_without_gap_or_overlap() {
        for (from, to, chunk_days, expected) in [
            (0, 90, 30, vec![(0, 30), (30, 60), (60, 90)]),
            (0, 31, 30, vec![(0, 30), (30, 31)]),
            (0, 30, 30, vec![(0, 30)]),
            (0, 90, 90, vec![(0, 90)]),
            (5, 5, 30, vec![]),
            (6, 5, 30, vec![]),
            // Never more than the bound, whatever is asked for.
            (0, 10_000, 45, vec![(0, 45), (45, 90)]),
        ] {
            let types: Vec<BackfillType> = BackfillType::ALL[..2].to_vec();
            let expected: Vec<BackfillChunk> = types
                .iter()
                .flat_map(|data| expected.iter().map(|(start, end)| BackfillChunk { data: *data, start: day(*start), end: day(*end) }))
                .collect();
            assert_eq!(backfill(types, (from, to), chunk_days).chunks(), expected, "{from} to {to} by {chunk_days}");
        }
        // A piece of no length would be asked for without end.
        assert_eq!(backfill(BackfillType::ALL.to_vec(), (0, 90), 0).chunks().len(), BACKFILL_CHUNKS_MAX);
    }

    fn backfill(types: Vec<BackfillType>, (from, to): (i64, i64), chunk_days: u32) -> Backfill {
        let connection = HealthConnectionId::from_uuid(Uuid::nil());
        Backfill { connection, types, from: day(from), to: day(to), chunk: Duration::from_secs(86_400) * chunk_days }
    }

    fn day(number: i64) -> Timestamp {
        Timestamp::from_secs(1_700_000_000 + number * 86_400)
    }

    #[test]
    fn outcomes_and_types_are_read_as_they_are_written() {
        for outcome in ChunkOutcome::ALL {
            assert_eq!(ChunkOutcome::of_letter(outcome.letter()), Some(outcome));
        }
        assert_eq!(ChunkOutcome::of_letter('x'), None);
        for data in BackfillType::ALL {
            assert_eq!(BackfillType::parse(data.as_str()), Some(data));
        }
        assert_eq!((BackfillType::parse("pulseox"), BackfillType::parse("")), (None, None));
    }
}
