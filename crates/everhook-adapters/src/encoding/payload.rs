//! An event's data as it is kept: as published, or compressed where that pays.

use bytes::Bytes;

/// Smaller data is kept as it is: reading a page costs the same whatever it holds.
const COMPRESS_FROM_BYTES: usize = 2 * 1024;
/// The fastest level. Higher ones save a few percent of the space and cost several times the time.
const LEVEL: i32 = 1;
/// The most bytes that data can have after decompression: a bound against a damaged file, far above every limit on publishing.
const DATA_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How data is kept: as published.
pub(crate) const PLAIN: i64 = 0;
/// How data is kept: compressed.
pub(crate) const ZSTD: i64 = 1;

/// An event's data in the form in which it is kept. Made on the publisher's task: a writer's time is everybody's.
pub(crate) struct Body {
    compressed: Option<Vec<u8>>,
}

impl Body {
    /// Compresses data where that pays.
    pub(crate) fn of(data: &[u8]) -> Self {
        Self { compressed: compress(data) }
    }

    /// How the data that it was made of is kept, and the bytes of that.
    pub(crate) fn columns<'a>(&'a self, data: &'a [u8]) -> (i64, &'a [u8]) {
        match &self.compressed {
            Some(compressed) => (ZSTD, compressed),
            None => (PLAIN, data),
        }
    }
}

/// The compressed form of data, if it is large and that saves a quarter or more.
pub(crate) fn compress(data: &[u8]) -> Option<Vec<u8>> {
    if data.len() < COMPRESS_FROM_BYTES {
        return None;
    }
    let compressed = zstd::bulk::compress(data, LEVEL).ok()?;
    (compressed.len() <= data.len() / 4 * 3).then_some(compressed)
}

/// Reads data that is kept so; `None` if it was damaged.
pub(crate) fn read(encoding: i64, body: Vec<u8>) -> Option<Bytes> {
    match encoding {
        PLAIN => Some(body.into()),
        ZSTD => decompress(&body),
        _ => None,
    }
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
    use super::*;

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
}
