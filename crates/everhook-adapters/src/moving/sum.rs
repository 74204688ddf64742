//! How many rows there are and what they hold, as two numbers that do not depend on their order.

use aws_lc_rs::digest::{SHA256, digest};

use super::value::Value;

/// The length of a sum as bytes.
const SUM_BYTES: usize = 32;

/// Rows that were counted and hashed. The hashes are added up, so that a table may be read in whatever order is quickest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) rows: i64,
    hash: [u64; SUM_BYTES / 8],
}

impl Sum {
    /// The sum that was kept of so many rows; `None` if that is not one.
    pub(super) fn read(rows: i64, bytes: &[u8]) -> Option<Self> {
        let mut hash = [0; SUM_BYTES / 8];
        let (words, rest) = bytes.as_chunks::<8>();
        if words.len() != hash.len() || !rest.is_empty() {
            return None;
        }
        for (sum, word) in hash.iter_mut().zip(words) {
            *sum = u64::from_le_bytes(*word);
        }
        Some(Self { rows, hash })
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: &[Value]) {
        let mut spelled = Vec::with_capacity(row.iter().map(Value::bytes).sum());
        row.iter().for_each(|value| value.spell(&mut spelled));
        let hash = digest(&SHA256, &spelled);
        let (words, _) = hash.as_ref().as_chunks::<8>();
        for (sum, word) in self.hash.iter_mut().zip(words) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
        self.rows += 1;
    }

    /// The sum of the hashes, to be kept.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.hash.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The sum of the hashes, to be shown.
    pub(super) fn hex(&self) -> String {
        self.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(rows: &[[Value; 2]]) -> Sum {
        let mut sum = Sum::default();
        rows.iter().for_each(|row| sum.add(row));
        sum
    }

    #[test]
    fn a_sum_depends_on_every_value_and_its_place_and_not_on_the_order_of_rows() {
        let (one, two) = ([Value::Int(1), Value::Null], [Value::Int(2), Value::Text("a".to_owned())]);
        let both = sum(&[one.clone(), two.clone()]);
        assert_eq!(both, sum(&[two.clone(), one.clone()]));
        let others = [
            vec![one.clone()],
            vec![one.clone(), one.clone()],
            vec![one.clone(), [Value::Int(2), Value::Text("b".to_owned())]],
            vec![one.clone(), [Value::Int(2), Value::Bytes(b"a".to_vec())]],
            vec![[Value::Null, Value::Int(1)], two.clone()],
        ];
        for other in others {
            assert_ne!(both, sum(&other), "{other:?}");
        }
        assert_eq!(Sum::read(both.rows, &both.bytes()), Some(both));
        assert_eq!(Sum::read(both.rows, &both.bytes()[1..]), None);
    }
}
