//! What distinguishes two events that were published under one idempotency key.

use aws_lc_rs::digest::{Context, SHA256};

use crate::model::EventType;

/// How many bytes of the hash are kept: nobody finds two events with the same 128 bits that would be worth it to them.
pub const FINGERPRINT_BYTES: usize = 16;

/// A hash of an event's type and of the bytes of its data. Kept beside a key that a publisher gave, for as long as the data is kept: who has it
/// can try out what the data was, so that erasing the data removes it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// The fingerprint of an event of this type with this data.
    pub fn of(event_type: &EventType, data: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(event_type.as_str().as_bytes());
        // No type has this byte in its name, so that no other split of the same bytes reads alike.
        context.update(b"\n");
        context.update(data);
        let digest = context.finish();
        let (kept, _) = digest.as_ref().split_first_chunk().expect("SHA-256 has 32 bytes");
        Self(*kept)
    }

    /// One that was kept.
    pub const fn from_bytes(bytes: [u8; FINGERPRINT_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes to keep.
    pub const fn as_bytes(&self) -> &[u8; FINGERPRINT_BYTES] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_types_and_bytes_apart_and_knows_the_same_again() {
        let of = |name: &str, data: &str| Fingerprint::of(&EventType::parse(name).unwrap(), data.as_bytes());
        assert_eq!(of("order.paid", "{}"), of("order.paid", "{}"));
        for other in [of("order.paid", "{ }"), of("order.pai", "d{}"), of("order.paid2", "{}"), of("order.paid", "")] {
            assert_ne!(of("order.paid", "{}"), other);
        }
    }
}
