//! An event's data as it is kept: as published, or compressed where that pays; and encrypted where its publisher or the operator wants that.
//!
//! Whoever reads data needs the [`Seals`] of its store, so that no reader can forget that it may be sealed.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use everhook_core::{
    ids::EventId,
    model::{Event, Received, SealedSecret},
    ports::{StoreError, Vault},
};

use super::extras::{headers_json, read_headers};

/// Smaller data is kept as it is: reading a page costs the same whatever it holds.
const COMPRESS_FROM_BYTES: usize = 2 * 1024;
/// The fastest level. Higher ones save a few percent of the space and cost several times the time.
const LEVEL: i32 = 1;
/// The most bytes that data can have after decompression: a bound against a damaged file, far above every limit on publishing.
const DATA_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How data is kept: as published.
const PLAIN: i64 = 0;
/// How data is kept: compressed.
const ZSTD: i64 = 1;
/// What is added where it was sealed after that.
const SEALED: i64 = 2;

/// What seals and opens the data of one store. It is there before the first event is: a store is opened, then the key is found that belongs to it.
#[derive(Clone, Default)]
pub(crate) struct Seals(Arc<OnceLock<Arc<dyn Vault>>>);

impl Seals {
    /// The vault to use from now on. The first one stays.
    pub(crate) fn set(&self, vault: Arc<dyn Vault>) {
        let _ = self.0.set(vault);
    }

    fn seal(&self, owner: EventId, plain: &[u8]) -> Result<Vec<u8>, StoreError> {
        Ok(self.vault()?.seal(owner.as_uuid(), plain).0)
    }

    /// The vault, if there is one yet.
    pub(crate) fn vault(&self) -> Result<&Arc<dyn Vault>, StoreError> {
        self.0.get().ok_or_else(|| StoreError::unavailable("there is no key yet to seal with"))
    }

    fn open(&self, owner: EventId, sealed: Vec<u8>) -> Option<Vec<u8>> {
        self.0.get()?.open(owner.as_uuid(), &SealedSecret(sealed)).ok()
    }
}

/// An event's data and kept headers in the form in which they are kept. Made on the publisher's task: a writer's time is everybody's.
pub(crate) struct Body {
    /// `None`: as published.
    changed: Option<(i64, Vec<u8>)>,
    /// The kept headers of a received event.
    headers: Option<Vec<u8>>,
}

impl Body {
    /// Compresses data where that pays, and seals it where that is wanted.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if it is to be sealed and there is no key: it is never kept otherwise.
    pub(crate) fn of(event: &Event, seals: &Seals) -> Result<Self, StoreError> {
        let compressed = compress(&event.data);
        let headers = event.received.as_ref().map(|received| headers_json(&received.headers).into_bytes());
        if !event.sealed {
            return Ok(Self { changed: compressed.map(|bytes| (ZSTD, bytes)), headers });
        }
        let encoding = SEALED + if compressed.is_some() { ZSTD } else { PLAIN };
        let sealed = seals.seal(event.id, compressed.as_deref().unwrap_or(&event.data))?;
        let headers = headers.map(|plain| seals.seal(event.id, &plain)).transpose()?;
        Ok(Self { changed: Some((encoding, sealed)), headers })
    }

    /// How the data that it was made of is kept, and the bytes of that.
    pub(crate) fn columns<'a>(&'a self, data: &'a [u8]) -> (i64, &'a [u8]) {
        match &self.changed {
            Some((encoding, bytes)) => (*encoding, bytes),
            None => (PLAIN, data),
        }
    }

    /// The kept headers of a received event.
    pub(crate) fn headers(&self) -> Option<&[u8]> {
        self.headers.as_deref()
    }
}

/// Bytes that are always sealed where they are kept, compressed before where that pays: once, for however many owners they are sealed.
pub(crate) struct Packed<'a> {
    plain: &'a [u8],
    compressed: Option<Vec<u8>>,
}

impl<'a> Packed<'a> {
    /// Compresses bytes.
    pub(crate) fn of(plain: &'a [u8]) -> Self {
        Self { plain, compressed: compress(plain) }
    }

    /// The bytes.
    pub(crate) const fn plain(&self) -> &'a [u8] {
        self.plain
    }

    /// The form in which they are kept for an owner, and how that is.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if there is no key.
    pub(crate) fn seal(&self, owner: EventId, seals: &Seals) -> Result<(i64, Vec<u8>), StoreError> {
        let encoding = SEALED + if self.compressed.is_some() { ZSTD } else { PLAIN };
        Ok((encoding, seals.seal(owner, self.compressed.as_deref().unwrap_or(self.plain))?))
    }
}

/// Whether data that is kept so, and the headers beside it, are sealed.
pub(crate) const fn is_sealed(encoding: i64) -> bool {
    encoding >= SEALED
}

/// Reads data that is kept so; `None` if it was damaged, or sealed with another key or for another event.
pub(crate) fn read(encoding: i64, body: Vec<u8>, owner: EventId, seals: &Seals) -> Option<Bytes> {
    let (encoding, body) = if is_sealed(encoding) { (encoding - SEALED, seals.open(owner, body)?) } else { (encoding, body) };
    match encoding {
        PLAIN => Some(body.into()),
        ZSTD => decompress(&body),
        _ => None,
    }
}

/// How an event was received, as columns hold it.
pub(crate) struct ReceivedColumns {
    /// The event.
    pub(crate) event: EventId,
    /// Everything but the headers.
    pub(crate) received: Received,
    /// The kept headers.
    pub(crate) headers: Vec<u8>,
}

/// Reads how an event was received whose data is kept so; `None` as for [`read`].
pub(crate) fn read_received(encoding: i64, columns: ReceivedColumns, seals: &Seals) -> Option<Box<Received>> {
    let ReceivedColumns { event, received, headers } = columns;
    let headers = if is_sealed(encoding) { Cow::Owned(seals.open(event, headers)?) } else { Cow::Borrowed(&headers[..]) };
    let headers = read_headers(std::str::from_utf8(&headers).ok()?)?;
    Some(Box::new(Received { headers, ..received }))
}

/// The compressed form of data, if it is large and that saves a quarter or more.
fn compress(data: &[u8]) -> Option<Vec<u8>> {
    if data.len() < COMPRESS_FROM_BYTES {
        return None;
    }
    let compressed = zstd::bulk::compress(data, LEVEL).ok()?;
    (compressed.len() <= data.len() / 4 * 3).then_some(compressed)
}

fn decompress(body: &[u8]) -> Option<Bytes> {
    let size = zstd::zstd_safe::get_frame_content_size(body).ok().flatten().and_then(|size| usize::try_from(size).ok())?;
    if size > DATA_BYTES_MAX {
        return None;
    }
    zstd::bulk::decompress(body, size).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use everhook_core::{
        ids::{ApplicationId, SourceId},
        model::{ContentType, EventType, Priority},
        time::Timestamp,
    };
    use uuid::Uuid;

    use super::*;
    use crate::vault::AesVault;

    #[test]
    fn data_is_compressed_only_where_that_pays() {
        let noise: Vec<u8> =
            (0..128_u32).flat_map(|n| aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &n.to_le_bytes()).as_ref().to_vec()).collect();
        let cases: [(&str, Vec<u8>, bool); 3] =
            [("small", vec![b'a'; 2047], false), ("large and regular", vec![b'a'; 2048], true), ("large and noisy", noise, false)];
        for (name, data, pays) in cases {
            let compressed = compress(&data);
            assert_eq!(compressed.is_some(), pays, "{name}");
            if let Some(compressed) = compressed {
                assert_eq!(decompress(&compressed).as_deref(), Some(&data[..]), "{name}");
            }
        }
    }

    fn event(data: &[u8], sealed: bool) -> Event {
        let headers = vec![("x-request-id".to_owned(), "marker-17".to_owned())];
        Event {
            id: EventId::from_uuid(Uuid::from_u128(17)),
            application: ApplicationId::from_uuid(Uuid::nil()),
            event_type: EventType::parse("order.paid").unwrap(),
            data: Bytes::copy_from_slice(data),
            content_type: ContentType::JSON,
            sealed,
            timestamp: Timestamp::EPOCH,
            idempotency_key: String::new(),
            source: None,
            priority: Priority::Normal,
            sequence_number: 0,
            ordering_key: None,
            traceparent: None,
            labels: Default::default(),
            headers: Vec::new(),
            received: Some(Box::new(Received {
                source: SourceId::from_uuid(Uuid::from_u128(3)),
                external_user: None,
                duplicate_of: None,
                headers,
            })),
            created_at: Timestamp::EPOCH,
        }
    }

    fn seals(key: u8) -> Seals {
        let seals = Seals::default();
        seals.set(Arc::new(AesVault::from_key([key; 32])));
        seals
    }

    fn holds(bytes: &[u8], text: &str) -> bool {
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    #[test]
    fn sealed_data_and_headers_are_read_with_the_same_key_for_the_same_event_alone() {
        let large = format!("\"{}\"", "marker-17 ".repeat(1_000));
        for (data, encodings) in [("\"marker-17\"", [PLAIN, SEALED]), (&large, [ZSTD, SEALED + ZSTD])] {
            for (sealed, expected) in [(false, encodings[0]), (true, encodings[1])] {
                let (event, seals) = (event(data.as_bytes(), sealed), seals(1));
                let body = Body::of(&event, &seals).unwrap();
                let (encoding, kept) = body.columns(&event.data);
                assert_eq!((encoding, is_sealed(encoding)), (expected, sealed));
                let headers = body.headers().unwrap().to_vec();
                if sealed {
                    assert!(!holds(kept, "marker") && !holds(&headers, "marker"));
                    let other = EventId::from_uuid(Uuid::from_u128(18));
                    assert_eq!(read(encoding, kept.to_vec(), other, &seals), None);
                    assert_eq!(read(encoding, kept.to_vec(), event.id, &self::seals(2)), None);
                    assert_eq!(read(encoding, kept.to_vec(), event.id, &Seals::default()), None);
                }
                assert_eq!(read(encoding, kept.to_vec(), event.id, &seals).as_ref(), Some(&event.data));
                let received = Received { headers: Vec::new(), ..(**event.received.as_ref().unwrap()).clone() };
                let columns = ReceivedColumns { event: event.id, received, headers };
                assert_eq!(read_received(encoding, columns, &seals), event.received);
            }
        }
    }

    #[test]
    fn what_is_to_be_sealed_is_not_kept_without_a_key() {
        assert!(Body::of(&event(b"{}", true), &Seals::default()).is_err());
        assert!(Body::of(&event(b"{}", false), &Seals::default()).is_ok());
    }
}
