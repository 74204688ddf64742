//! Rows with sealed values, sealed again with the key in use: for both stores and the spool.

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use everhook_core::{
    ids::EventId,
    model::SealedSecret,
    ports::{RESEAL_BYTES, StoreError, Vault},
};
use uuid::Uuid;

use super::{
    extras::{headers_json, read_headers},
    payload::{Seals, is_sealed},
    source_json,
};

/// Seals the values of one row again, and remembers whether any of them was sealed otherwise.
pub(crate) struct Resealer<'v> {
    vault: &'v dyn Vault,
    owner: Uuid,
    is_changed: bool,
    unreadable: u64,
}

impl<'v> Resealer<'v> {
    /// For the values of one owner.
    pub(crate) fn new(seals: &'v Seals, owner: Uuid) -> Result<Self, StoreError> {
        Ok(Self { vault: &**seals.vault()?, owner, is_changed: false, unreadable: 0 })
    }

    /// One that does not open is left as it is.
    fn value(&mut self, sealed: Vec<u8>) -> Vec<u8> {
        let sealed = SealedSecret(sealed);
        match self.vault.reseal(&self.owner, &sealed) {
            Ok(None) => sealed.0,
            Ok(Some(again)) => {
                self.is_changed = true;
                again.0
            }
            Err(_) => {
                self.unreadable += 1;
                sealed.0
            }
        }
    }

    /// The values of a list of pairs, each as base64.
    fn pairs(&mut self, json: &str) -> String {
        let Some(mut pairs) = read_headers(json) else { return self.damaged(json) };
        for (_, value) in &mut pairs {
            *value = self.text(value);
        }
        headers_json(&pairs)
    }

    /// A list of values, each as base64.
    fn list(&mut self, json: &str) -> String {
        let Some(secrets) = source_json::read_secrets(json) else { return self.damaged(json) };
        let secrets: Vec<_> = secrets.into_iter().map(|SealedSecret(sealed)| SealedSecret(self.value(sealed))).collect();
        source_json::write_secrets(&secrets)
    }

    fn text(&mut self, base64: &str) -> String {
        match BASE64_STANDARD_NO_PAD.decode(base64) {
            Ok(sealed) => BASE64_STANDARD_NO_PAD.encode(self.value(sealed)),
            Err(_) => self.damaged(base64),
        }
    }

    fn damaged(&mut self, text: &str) -> String {
        self.unreadable += 1;
        text.to_owned()
    }
}

/// A row, and how it looks sealed with the key in use.
pub(crate) struct Row<T> {
    /// As it was read.
    pub(crate) old: T,
    /// `None`: the same.
    pub(crate) new: Option<T>,
    /// How many of its values do not open.
    pub(crate) unreadable: u64,
}

impl<T> Row<T> {
    fn new(old: T, new: T, resealer: &Resealer<'_>) -> Self {
        Self { old, new: resealer.is_changed.then_some(new), unreadable: resealer.unreadable }
    }
}

/// What is sealed of an endpoint, or of a revision of one.
pub(crate) struct EndpointValues {
    pub(crate) id: Uuid,
    /// The revision's number; 0 of an endpoint.
    pub(crate) number: i64,
    pub(crate) headers: String,
    pub(crate) secret: Vec<u8>,
    pub(crate) previous_secret: Option<Vec<u8>>,
}

impl EndpointValues {
    pub(crate) fn reseal(self, seals: &Seals) -> Result<Row<Self>, StoreError> {
        let mut resealer = Resealer::new(seals, self.id)?;
        let new = Self {
            headers: resealer.pairs(&self.headers),
            secret: resealer.value(self.secret.clone()),
            previous_secret: self.previous_secret.clone().map(|secret| resealer.value(secret)),
            ..self
        };
        Ok(Row::new(self, new, &resealer))
    }
}

/// What is sealed of a source.
pub(crate) struct SourceValues {
    pub(crate) id: Uuid,
    pub(crate) secrets: String,
    pub(crate) verify_token: Option<Vec<u8>>,
}

impl SourceValues {
    pub(crate) fn reseal(self, seals: &Seals) -> Result<Row<Self>, StoreError> {
        let mut resealer = Resealer::new(seals, self.id)?;
        let secrets = resealer.list(&self.secrets);
        let new = Self { secrets, verify_token: self.verify_token.clone().map(|token| resealer.value(token)), ..self };
        Ok(Row::new(self, new, &resealer))
    }
}

/// What is sealed of an event.
pub(crate) struct PayloadValues {
    pub(crate) event: EventId,
    /// Where its row is, in stores that number them.
    pub(crate) number: i64,
    pub(crate) body: Vec<u8>,
    /// The kept headers.
    pub(crate) headers: Option<Vec<u8>>,
}

impl PayloadValues {
    pub(crate) fn reseal(self, seals: &Seals) -> Result<Row<Self>, StoreError> {
        let mut resealer = Resealer::new(seals, *self.event.as_uuid())?;
        let body = resealer.value(self.body.clone());
        let new = Self { body, headers: self.headers.clone().map(|headers| resealer.value(headers)), ..self };
        Ok(Row::new(self, new, &resealer))
    }
}

/// The values of a row that has one or two, sealed for somebody who need not be the row: an application's secrets, the tokens of a health connection,
/// or what a metric was made of.
pub(crate) struct PairValues {
    /// The row's.
    pub(crate) id: Uuid,
    /// Whom the values open for.
    pub(crate) owner: Uuid,
    pub(crate) first: Option<Vec<u8>>,
    pub(crate) second: Option<Vec<u8>>,
}

impl PairValues {
    pub(crate) fn reseal(self, seals: &Seals) -> Result<Row<Self>, StoreError> {
        let mut resealer = Resealer::new(seals, self.owner)?;
        let mut again = |value: &Option<Vec<u8>>| value.clone().map(|value| resealer.value(value));
        let (first, second) = (again(&self.first), again(&self.second));
        let new = Self { first, second, ..self };
        Ok(Row::new(self, new, &resealer))
    }
}

/// Rows whose values may be large, as they are looked through before these are read.
pub(crate) struct SizedPlace {
    /// The event's, or the metric's.
    pub(crate) id: Uuid,
    /// Where an event's data is, in stores that number it.
    pub(crate) number: i64,
    pub(crate) encoding: i64,
    pub(crate) bytes: u64,
}

/// How many of these one step looks at, and which of them are to be read: about [`RESEAL_BYTES`], and at least one.
pub(crate) fn readable(places: &[SizedPlace]) -> (usize, Vec<&SizedPlace>) {
    let (mut bytes, mut read) = (0, Vec::new());
    for (looked_at, place) in places.iter().enumerate() {
        if !is_sealed(place.encoding) {
            continue;
        }
        bytes += place.bytes;
        if bytes > RESEAL_BYTES && !read.is_empty() {
            return (looked_at, read);
        }
        read.push(place);
    }
    (places.len(), read)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::vault::AesVault;

    const OWNER: Uuid = Uuid::from_u128(5);

    fn seals() -> Seals {
        let seals = Seals::default();
        seals.set(Arc::new(AesVault::from_key([2; 32]).with_old_key([1; 32])));
        seals
    }

    fn sealed_with(key: u8) -> Vec<u8> {
        AesVault::from_key([key; 32]).seal(&OWNER, b"secret").0
    }

    #[test]
    fn every_value_of_an_endpoint_is_sealed_again_once() {
        let text = |key| BASE64_STANDARD_NO_PAD.encode(sealed_with(key));
        let cases = [
            ("all are new", [2, 2, 2], false, 0),
            ("a header", [1, 2, 2], true, 0),
            ("the secret", [2, 1, 2], true, 0),
            ("the secret before it", [2, 2, 1], true, 0),
            ("one of another key", [3, 1, 2], true, 1),
        ];
        for (name, [header, secret, previous], is_changed, unreadable) in cases {
            let headers = headers_json(&[("X-Plain".to_owned(), text(header))]);
            let row =
                EndpointValues { id: OWNER, number: 0, headers, secret: sealed_with(secret), previous_secret: Some(sealed_with(previous)) };
            let row = row.reseal(&seals()).unwrap();
            assert_eq!((row.new.is_some(), row.unreadable), (is_changed, unreadable), "{name}");
            let again = row.new.unwrap_or(row.old).reseal(&seals()).unwrap();
            assert_eq!((again.new.is_some(), again.unreadable), (false, unreadable), "{name}: the second time");
        }
    }

    #[test]
    fn sources_and_events_are_sealed_again_and_damage_is_left_alone() {
        let secrets = source_json::write_secrets(&[SealedSecret(sealed_with(2)), SealedSecret(sealed_with(1))]);
        let row = SourceValues { id: OWNER, secrets, verify_token: None }.reseal(&seals()).unwrap();
        assert!(row.new.is_some_and(|new| new.reseal(&seals()).unwrap().new.is_none()));
        let row = SourceValues { id: OWNER, secrets: "[".to_owned(), verify_token: Some(vec![1]) }.reseal(&seals()).unwrap();
        assert_eq!((row.new.is_none(), row.unreadable, row.old.secrets.as_str()), (true, 2, "["));
        let event = EventId::from_uuid(OWNER);
        let row = PayloadValues { event, number: 1, body: sealed_with(2), headers: Some(sealed_with(1)) }.reseal(&seals()).unwrap();
        assert!(row.new.is_some_and(|new| new.headers != row.old.headers && new.body == row.old.body));
    }

    #[test]
    fn a_pair_is_sealed_again_for_its_owner_and_not_for_its_row() {
        let row = |first, second| PairValues { id: Uuid::from_u128(6), owner: OWNER, first, second };
        let cases = [
            ("both are new", Some(2), Some(2), false, 0),
            ("the first", Some(1), Some(2), true, 0),
            ("the second", Some(2), Some(1), true, 0),
            ("one alone", Some(1), None, true, 0),
            ("none", None, None, false, 0),
            ("one of another key", Some(3), Some(1), true, 1),
        ];
        for (name, first, second, is_changed, unreadable) in cases {
            let row = row(first.map(sealed_with), second.map(sealed_with)).reseal(&seals()).unwrap();
            assert_eq!((row.new.is_some(), row.unreadable), (is_changed, unreadable), "{name}");
            let again = row.new.unwrap_or(row.old).reseal(&seals()).unwrap();
            assert_eq!((again.new.is_some(), again.unreadable), (false, unreadable), "{name}: the second time");
        }
        let of_another = PairValues { owner: Uuid::from_u128(6), ..row(Some(sealed_with(1)), None) }.reseal(&seals()).unwrap();
        assert_eq!((of_another.new.is_none(), of_another.unreadable), (true, 1));
    }

    #[test]
    fn a_step_reads_about_a_mebibyte_and_at_least_one_event() {
        let place = |encoding, bytes| SizedPlace { id: OWNER, number: 0, encoding, bytes };
        let half = RESEAL_BYTES / 2;
        type Sizes = Vec<(i64, u64)>;
        let cases: [(&str, Sizes, usize, usize); 4] = [
            ("nothing is sealed", vec![(0, half), (1, 8 * half)], 2, 0),
            ("a large one alone", vec![(2, 8 * half), (2, 1)], 1, 1),
            ("two halves", vec![(2, half), (0, half), (3, half), (0, 1), (3, 1)], 4, 2),
            ("none", vec![], 0, 0),
        ];
        for (name, rows, looked_at, read) in cases {
            let places: Vec<_> = rows.into_iter().map(|(encoding, bytes)| place(encoding, bytes)).collect();
            let (looked, readable) = readable(&places);
            assert_eq!((looked, readable.len()), (looked_at, read), "{name}");
        }
    }
}
