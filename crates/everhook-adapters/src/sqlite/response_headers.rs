//! An answer's headers as one column: for each the length of its name and of its value (two bytes each, little endian), then both.
//!
//! Values are bytes of a stranger's choosing, so that no separator is safe and JSON would have to escape most of them.

use bytes::Bytes;

/// Packs headers. A part longer than two bytes can count is cut; answers are bounded to 8 KiB of headers before they come here.
pub(super) fn pack(headers: &[(String, Bytes)]) -> Vec<u8> {
    let bytes = headers.iter().map(|(name, value)| 4 + name.len() + value.len()).sum();
    let mut packed = Vec::with_capacity(bytes);
    for (name, value) in headers {
        let (name, name_bytes) = counted(name.as_bytes());
        let (value, value_bytes) = counted(value);
        packed.extend_from_slice(&name_bytes.to_le_bytes());
        packed.extend_from_slice(&value_bytes.to_le_bytes());
        packed.extend_from_slice(name);
        packed.extend_from_slice(value);
    }
    packed
}

/// Reads what [`pack`] wrote; `None` if it was damaged.
pub(super) fn unpack(mut packed: &[u8]) -> Option<Vec<(String, Bytes)>> {
    let mut headers = Vec::new();
    while !packed.is_empty() {
        let (name_bytes, rest) = packed.split_first_chunk::<2>()?;
        let (value_bytes, rest) = rest.split_first_chunk::<2>()?;
        let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*name_bytes)))?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*value_bytes)))?;
        headers.push((String::from_utf8(name.to_vec()).ok()?, Bytes::copy_from_slice(value)));
        packed = rest;
    }
    Some(headers)
}

fn counted(part: &[u8]) -> (&[u8], u16) {
    let count = u16::try_from(part.len()).unwrap_or(u16::MAX);
    (&part[..usize::from(count)], count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were() {
        let cases: [&[(&str, &[u8])]; 4] = [
            &[],
            &[("content-type", b"application/json")],
            &[("empty", b""), ("not-utf8", b"\xff\xfe"), ("separators", b"a: b\0c")],
            &[("set-cookie", b"a=1"), ("set-cookie", b"b=2")],
        ];
        for headers in cases {
            let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), Bytes::copy_from_slice(value))).collect();
            assert_eq!(unpack(&pack(&headers)), Some(headers));
        }
    }

    #[test]
    fn damaged_headers_are_not_read() {
        let packed = pack(&[("content-type".to_owned(), Bytes::from_static(b"text/plain"))]);
        assert_eq!(unpack(&packed[..packed.len() - 1]), None);
    }
}
