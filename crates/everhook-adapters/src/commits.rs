//! How a batch of events is spread over commits, and what its publisher hears of each. The same in every store.

use std::error::Error as _;

use everhook_core::ports::{NewEvent, Recorded, StoreError};

/// The most rows of one commit: enough that the flush no longer counts, few enough that nobody waits long for it.
pub(crate) const ROWS_MAX: usize = 2_000;
/// So many bytes of data count as one row: 2,000 rows are then 16 MiB at most.
pub(crate) const BYTES_A_ROW: usize = 8 * 1024;

/// The most rows of a commit with what one request of a provider carries: it is all recorded or not at all, so that a provider that sends it again after
/// a failure meets none of it. A thousand items for four endpoints. Its bytes are bounded as those of other commits are.
const RECEIVED_ROWS_MAX: usize = 8_000;

/// As how many rows the data of an event counts, beside the row that holds it.
pub(crate) fn rows_of_data(new: &NewEvent) -> usize {
    new.event.data.len() / BYTES_A_ROW
}

/// Cuts a batch where a commit would become too large. An event that is too large by itself has a commit to itself.
pub(crate) fn split(events: Vec<NewEvent>, rows_of: impl Fn(&NewEvent) -> usize) -> Vec<Vec<NewEvent>> {
    let mut commits: Vec<Vec<NewEvent>> = vec![Vec::new()];
    let rows_max = rows_a_commit(events.iter().map(&rows_of).sum(), events.iter().all(|new| new.event.received.is_some()));
    let (mut rows, mut rows_with_data) = (0, 0);
    for event in events {
        let (more, more_data) = (rows_of(&event), rows_of_data(&event));
        if (rows + more > rows_max || rows_with_data + more_data > ROWS_MAX) && rows > 0 {
            commits.push(Vec::new());
            (rows, rows_with_data) = (0, 0);
        }
        rows += more;
        rows_with_data += more_data;
        commits.last_mut().expect("there is always a last commit").push(event);
    }
    commits
}

/// How many rows a commit of a batch may have that has so many in all. What a provider sent is one commit where that is possible; where it is not, nothing is
/// gained by commits that others wait longer for.
const fn rows_a_commit(rows: usize, is_received: bool) -> usize {
    if is_received && rows <= RECEIVED_ROWS_MAX { RECEIVED_ROWS_MAX } else { ROWS_MAX }
}

/// What became of the events of a batch so far, commit by commit and in order.
#[derive(Default)]
pub(crate) struct Answers(Vec<Result<Recorded, StoreError>>);

impl Answers {
    /// Adds what became of a commit with so many events. Says whether the next one is to be tried.
    pub(crate) fn add(&mut self, count: usize, outcome: Result<Vec<Recorded>, StoreError>) -> bool {
        match outcome {
            Ok(recorded) => {
                self.0.extend(recorded.into_iter().map(Ok));
                true
            }
            Err(error) => {
                // Of several events one is the culprit, and nobody knows which: alone each may be recorded.
                let is_damage = count == 1 && matches!(error, StoreError::Corrupt(_));
                let cause = error.source().filter(|_| is_damage).map_or_else(|| error.in_words(), ToString::to_string);
                let refusal = || match error.full_disk() {
                    Some(disk) => StoreError::disk_full(disk),
                    None if is_damage => StoreError::corrupt(cause.clone()),
                    None => StoreError::unavailable(cause.clone()),
                };
                self.0.extend((0..count).map(|_| Err(refusal())));
                false
            }
        }
    }

    /// All answers; so many events behind a commit that failed were not tried.
    pub(crate) fn finish(mut self, untried: usize) -> Vec<Result<Recorded, StoreError>> {
        let refusal = || Err(StoreError::unavailable("an event before it in the batch could not be recorded"));
        self.0.extend((0..untried).map(|_| refusal()));
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_provider_sent_is_one_commit_or_many_small_ones() {
        // A thousand items for one endpoint, a thousand for four, and the largest batch.
        for (rows, is_received, expected) in
            [(4_000, true, RECEIVED_ROWS_MAX), (8_000, true, RECEIVED_ROWS_MAX), (40_000, true, ROWS_MAX), (4_000, false, ROWS_MAX)]
        {
            assert_eq!(rows_a_commit(rows, is_received), expected, "{rows} rows");
        }
    }
}
