//! An answer's headers as one column. For each: one byte that says which name, the length of its value (two bytes, little endian), the value. A
//! name that is not among [`USUAL_NAMES`] is spelled out after the byte 0, behind its own length.
//!
//! Values are bytes of a stranger's choosing, so that no separator is safe and JSON would have to escape most of them. Every attempt carries
//! the same few names, which is why these take a byte each.

use bytes::Bytes;

/// The names that most answers have. A name's number is its place, counted from one: add at the end, and never take one away.
const USUAL_NAMES: [&str; 16] = [
    "content-type",
    "content-length",
    "date",
    "server",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "cache-control",
    "etag",
    "vary",
    "via",
    "set-cookie",
    "retry-after",
    "strict-transport-security",
    "x-content-type-options",
    "x-request-id",
];

/// Stands before a name that is spelled out.
const SPELLED_OUT: u8 = 0;

/// Packs headers. A part longer than two bytes can count is cut; answers are bounded to 8 KiB of headers before they come here.
pub(crate) fn pack(headers: &[(String, Bytes)]) -> Vec<u8> {
    let bytes = headers.iter().map(|(name, value)| 5 + name.len() + value.len()).sum();
    let mut packed = Vec::with_capacity(bytes);
    for (name, value) in headers {
        match (1_u8..).zip(USUAL_NAMES).find(|(_, usual)| usual == name) {
            Some((number, _)) => packed.push(number),
            None => {
                packed.push(SPELLED_OUT);
                push_counted(&mut packed, name.as_bytes());
            }
        }
        push_counted(&mut packed, value);
    }
    packed
}

/// Reads what [`pack`] wrote; `None` if it was damaged.
pub(crate) fn unpack(mut packed: &[u8]) -> Option<Vec<(String, Bytes)>> {
    let mut headers = Vec::new();
    while let Some((number, rest)) = packed.split_first() {
        let (name, rest) = read_name(*number, rest)?;
        let (value, rest) = split_counted(rest)?;
        headers.push((name, Bytes::copy_from_slice(value)));
        packed = rest;
    }
    Some(headers)
}

fn read_name(number: u8, rest: &[u8]) -> Option<(String, &[u8])> {
    if number == SPELLED_OUT {
        let (name, rest) = split_counted(rest)?;
        return Some((String::from_utf8(name.to_vec()).ok()?, rest));
    }
    let usual = USUAL_NAMES.get(usize::from(number) - 1)?;
    Some(((*usual).to_owned(), rest))
}

fn push_counted(packed: &mut Vec<u8>, part: &[u8]) {
    let count = u16::try_from(part.len()).unwrap_or(u16::MAX);
    packed.extend_from_slice(&count.to_le_bytes());
    packed.extend_from_slice(&part[..usize::from(count)]);
}

fn split_counted(packed: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, rest) = packed.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were() {
        let cases: [&[(&str, &[u8])]; 5] = [
            &[],
            &[("content-type", b"application/json")],
            &[("empty", b""), ("not-utf8", b"\xff\xfe"), ("separators", b"a: b\0c")],
            &[("set-cookie", b"a=1"), ("set-cookie", b"b=2")],
            &[("x-request-id", b"last of the usual"), ("x-other", b"spelled out"), ("content-type", b"first of the usual")],
        ];
        for headers in cases {
            let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), Bytes::copy_from_slice(value))).collect();
            assert_eq!(unpack(&pack(&headers)), Some(headers));
        }
    }

    #[test]
    fn damaged_headers_are_not_read() {
        let packed = pack(&[("content-type".to_owned(), Bytes::from_static(b"text/plain"))]);
        assert_eq!(unpack(&packed[..packed.len() - 1]), None, "cut");
        assert_eq!(unpack(&[200, 0, 0]), None, "a name that nobody knows");
    }

    #[test]
    fn a_usual_name_takes_one_byte() {
        let packed = pack(&[("content-type".to_owned(), Bytes::from_static(b"text/plain"))]);
        assert_eq!(packed.len(), 1 + 2 + "text/plain".len());
    }
}
