//! A histogram of lengths of time as one column: for each bucket that has something its number and its count.

use everhook_core::model::Lengths;

/// What one bucket takes of a row: its number, and its count.
const BUCKET_BYTES: usize = 1 + size_of::<u32>();

/// Packs a histogram.
pub(crate) fn pack<const BUCKETS: usize>(durations: &Lengths<BUCKETS>) -> Vec<u8> {
    let mut packed = Vec::new();
    for (bucket, count) in durations.counts() {
        packed.push(u8::try_from(bucket).expect("there are about a hundred buckets"));
        packed.extend(count.to_le_bytes());
    }
    packed
}

/// Reads what [`pack`] wrote; `None` if it was damaged.
pub(crate) fn unpack<const BUCKETS: usize>(packed: &[u8]) -> Option<Lengths<BUCKETS>> {
    let mut durations = Lengths::default();
    let (buckets, rest) = packed.as_chunks::<BUCKET_BYTES>();
    let is_whole = buckets.iter().all(|[bucket, count @ ..]| durations.add_many(usize::from(*bucket), u32::from_le_bytes(*count)));
    (is_whole && rest.is_empty()).then_some(durations)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use everhook_core::model::Histogram;

    use super::*;

    #[test]
    fn lengths_of_time_are_packed_and_unpacked() {
        let mut durations = Histogram::default();
        assert_eq!(unpack(&pack(&durations)), Some(durations.clone()));
        for millis in [0, 1, 1, 20, 5_000, 1_000_000] {
            durations.add(Duration::from_millis(millis));
        }
        assert_eq!(unpack(&pack(&durations)), Some(durations));
        assert_eq!(unpack::<{ Histogram::BUCKETS }>(&[1, 1, 0, 0]), None);
        assert_eq!(unpack::<{ Histogram::BUCKETS }>(&[200, 1, 0, 0, 0]), None);
    }
}
