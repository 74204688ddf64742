//! Deliveries by the attempt that ended them as one column: for each end that there was its number and its count.

use everhook_core::model::{DeliveryCounts, DeliveryEnd};

/// What one end takes of a row: its number, and its count.
const END_BYTES: usize = 1 + size_of::<u32>();

/// Packs counts.
pub(crate) fn pack(deliveries: &DeliveryCounts) -> Vec<u8> {
    let mut packed = Vec::new();
    for (end, count) in deliveries.occurred() {
        packed.push(end as u8);
        packed.extend(count.to_le_bytes());
    }
    packed
}

/// Reads what [`pack`] wrote; `None` if it was damaged.
pub(crate) fn unpack(packed: &[u8]) -> Option<DeliveryCounts> {
    let mut deliveries = DeliveryCounts::default();
    let (ends, rest) = packed.as_chunks::<END_BYTES>();
    for [number, count @ ..] in ends {
        deliveries.add(*DeliveryEnd::ALL.get(usize::from(*number))?, u32::from_le_bytes(*count));
    }
    rest.is_empty().then_some(deliveries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_packed_and_unpacked() {
        let mut deliveries = DeliveryCounts::default();
        assert_eq!(unpack(&pack(&deliveries)), Some(deliveries));
        for (times, end) in (1..).zip(DeliveryEnd::ALL) {
            assert_eq!(DeliveryEnd::ALL[end as usize], end);
            deliveries.add(end, times);
        }
        assert_eq!(unpack(&pack(&deliveries)), Some(deliveries));
        assert_eq!(unpack(&[1, 1, 0, 0]), None);
        assert_eq!(unpack(&[4, 1, 0, 0, 0]), None);
    }
}
