//! What became of the pieces of a backfill, as a column holds it: a letter each.

use everhook_core::model::health::ChunkOutcome;

/// The letters, and how many pieces they make done, failed and skipped.
pub(crate) fn write(outcomes: &[ChunkOutcome]) -> (String, [i64; 3]) {
    let [mut done, mut failed, mut skipped] = [0; 3];
    for outcome in outcomes {
        match outcome {
            ChunkOutcome::Accepted => done += 1,
            ChunkOutcome::DoneBefore => skipped += 1,
            ChunkOutcome::NoHistoryPermission | ChunkOutcome::RefusedByProvider | ChunkOutcome::NotConnected | ChunkOutcome::Unanswered => {
                failed += 1
            }
        }
    }
    (outcomes.iter().map(|outcome| outcome.letter()).collect(), [done, failed, skipped])
}

/// Reads what [`write`] wrote; `None` if it is not that.
pub(crate) fn read(letters: &str) -> Option<Vec<ChunkOutcome>> {
    letters.chars().map(ChunkOutcome::of_letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_counted_and_read_back() {
        let (letters, counts) = write(&ChunkOutcome::ALL);
        assert_eq!((read(&letters).as_deref(), counts), (Some(&ChunkOutcome::ALL[..]), [1, 4, 1]));
        assert_eq!((read(""), read("ax")), (Some(Vec::new()), None));
    }
}
