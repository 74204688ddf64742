//! What answers mean, one line a case.

use super::*;

/// Where an answer with this head ends and whether its connection can be used again.
fn says(head: &str) -> Result<(Framing, bool), Fault> {
    let head = read_head(format!("HTTP/{head}\r\n\r\n").as_bytes())?.expect("it is whole");
    Ok((head.framing, head.keeps_alive))
}

#[test]
fn a_head_says_where_its_answer_ends_and_whether_the_connection_lives_on() {
    let chunked = Framing::Chunked(Chunk::Size);
    let cases = [
        ("1.1 200 OK\r\nContent-Length: 5", Ok((Framing::Length(5), true))),
        ("1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5", Ok((Framing::Length(5), true))),
        ("1.1 200 OK\r\ncontent-length: 5, 5", Ok((Framing::Length(5), true))),
        ("1.1 200 OK\r\ncontent-length: 5, 6", Err(Fault::NotHttp)),
        ("1.1 200 OK\r\ncontent-length: +5", Err(Fault::NotHttp)),
        ("1.1 200 OK\r\ncontent-length:", Err(Fault::NotHttp)),
        ("1.1 200 OK\r\ncontent-length: 99999999999999999999", Err(Fault::NotHttp)),
        ("1.1 200 OK\r\ntransfer-encoding: chunked", Ok((chunked, true))),
        ("1.1 200 OK\r\ntransfer-encoding: gzip, Chunked", Ok((chunked, true))),
        ("1.1 200 OK\r\ntransfer-encoding: chunked, gzip", Ok((Framing::UntilClose, true))),
        ("1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5", Ok((chunked, false))),
        ("1.0 200 OK\r\ntransfer-encoding: chunked", Err(Fault::NotHttp)),
        ("1.1 200 OK", Ok((Framing::UntilClose, true))),
        ("1.1 204 No Content", Ok((Framing::Length(0), true))),
        ("1.1 304 Not Modified\r\ncontent-length: 5", Ok((Framing::Length(0), true))),
        ("1.1 101 Switching\r\nupgrade: x", Ok((Framing::Length(0), false))),
        ("1.1 204 No Content\r\nconnection: x, Close", Ok((Framing::Length(0), false))),
        ("1.0 204 No Content", Ok((Framing::Length(0), false))),
        ("1.0 204 No Content\r\nconnection: Keep-Alive", Ok((Framing::Length(0), true))),
    ];
    for (head, expected) in cases {
        assert_eq!(says(head), expected, "{head:?}");
    }
}

#[test]
fn a_head_is_read_once_it_is_whole_and_no_further() {
    let answer = b"HTTP/1.1 200 OK\r\nX-A: b\r\n\r\nbody";
    for length in 0..answer.len() - 4 {
        assert!(read_head(&answer[..length]).expect("a beginning").is_none(), "{length} bytes");
    }
    let head = read_head(answer).expect("a head").expect("whole");
    assert_eq!((&answer[head.bytes..], head.response.status), (&b"body"[..], 200));
    assert_eq!(head.response.headers, [("x-a".to_owned(), Bytes::from_static(b"b"))]);
}

/// Reads a body that comes in pieces of this many bytes: its data, and what was left behind it.
fn read(mut framing: Framing, body: &[u8], piece: usize) -> Result<(Vec<u8>, Option<usize>), Fault> {
    let (mut data, mut held, mut seen) = (Vec::new(), Vec::new(), 0);
    for piece in body.chunks(piece) {
        held.extend_from_slice(piece);
        seen += piece.len();
        let taken = framing.take(&held, |part| data.extend_from_slice(part))?;
        held.drain(..taken.bytes);
        if taken.is_end {
            return Ok((data, Some(held.len() + body.len() - seen)));
        }
    }
    Ok((data, None))
}

#[test]
fn a_body_is_read_to_its_end_however_it_is_cut() {
    let chunked = Framing::Chunked(Chunk::Size);
    type Case<'a> = (Framing, &'a [u8], &'a [u8], Option<usize>);
    let cases: [Case<'_>; 9] = [
        (Framing::Length(5), b"hello", b"hello", Some(0)),
        (Framing::Length(5), b"hello, world", b"hello", Some(7)),
        (Framing::Length(5), b"hell", b"hell", None),
        (Framing::UntilClose, b"hello", b"hello", None),
        (chunked, b"0\r\n\r\n", b"", Some(0)),
        (chunked, b"1\r\nh\r\n004;x=y\r\nello\r\n0\r\n\r\nnext", b"hello", Some(4)),
        (chunked, b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n", b"hello", Some(0)),
        (chunked, b"5\r\nhello\r\n", b"hello", None),
        (chunked, b"A\r\nhello", b"hello", None),
    ];
    for (framing, body, data, left) in cases {
        for piece in [1, 2, 3, 7, 100] {
            let expected = Ok((data.to_vec(), left));
            assert_eq!(read(framing, body, piece), expected, "{} in pieces of {piece}", String::from_utf8_lossy(body));
        }
    }
}

#[test]
fn a_chunk_must_be_as_it_says() {
    for bad in ["\r\n", "x\r\n", "-1\r\nh\r\n", "2\r\nhello\r\n", "fffffffffffffffff\r\n"] {
        assert_eq!(read(Framing::Chunked(Chunk::Size), bad.as_bytes(), 100), Err(Fault::NotHttp), "{bad:?}");
    }
}
