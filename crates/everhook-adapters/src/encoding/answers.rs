//! What calls were answered with as one column: for each source that has something its number and its count.

use everhook_core::model::{AnswerCount, AnswerCounts};

/// What one source takes of a row: its number, and its count.
const SOURCE_BYTES: usize = 1 + size_of::<u32>();

/// Packs counts.
pub(crate) fn pack(answers: &AnswerCounts) -> Vec<u8> {
    let mut packed = Vec::new();
    for (what, count) in answers.occurred() {
        packed.push(what as u8);
        packed.extend(count.to_le_bytes());
    }
    packed
}

/// Reads what [`pack`] wrote; `None` if it was damaged.
pub(crate) fn unpack(packed: &[u8]) -> Option<AnswerCounts> {
    let mut answers = AnswerCounts::default();
    let (sources, rest) = packed.as_chunks::<SOURCE_BYTES>();
    for [number, count @ ..] in sources {
        answers.add(*AnswerCount::ALL.get(usize::from(*number))?, u32::from_le_bytes(*count));
    }
    rest.is_empty().then_some(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_packed_and_unpacked() {
        let mut answers = AnswerCounts::default();
        assert_eq!(unpack(&pack(&answers)), Some(answers));
        for (times, what) in (1..).zip(AnswerCount::ALL) {
            assert_eq!(AnswerCount::ALL[what as usize], what);
            answers.add(what, times);
        }
        assert_eq!(unpack(&pack(&answers)), Some(answers));
        assert_eq!(unpack(&[1, 1, 0, 0]), None);
        assert_eq!(unpack(&[200, 1, 0, 0, 0]), None);
    }
}
