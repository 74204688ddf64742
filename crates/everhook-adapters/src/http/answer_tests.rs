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
        ("1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5", Ok((Framing::Length(5), false))),
        ("1.1 200 OK\r\ncontent-length: 5, 5", Ok((Framing::Length(5), false))),
        ("1.1 200 OK\r\ncontent-length: 5, 6", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ncontent-length: 5\r\nContent-Length: 6", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ncontent-length: +5", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ncontent-length: -0", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ncontent-length: 5 5", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ncontent-length: 0x5", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ncontent-length: 5,", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ncontent-length:", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ncontent-length: 99999999999999999999", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ncontent-length : 5", Err(Fault::NotHttp)),
        ("1.1 200 OK\r\nx: a\r\n content-length: 5", Err(Fault::NotHttp)),
        ("1.1 099 Low", Err(Fault::NotHttp)),
        ("1.1 200 OK\r\ntransfer-encoding: chunked", Ok((chunked, true))),
        ("1.1 200 OK\r\ntransfer-encoding: gzip, Chunked", Ok((chunked, true))),
        ("1.1 200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked", Ok((chunked, true))),
        ("1.1 200 OK\r\ntransfer-encoding: gzip", Ok((Framing::UntilClose, true))),
        ("1.1 200 OK\r\ntransfer-encoding: chunked, gzip", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ntransfer-encoding: chunked, chunked", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ntransfer-encoding: chunked\r\nTransfer-Encoding: chunked", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ntransfer-encoding: chunked\r\nTransfer-Encoding: identity", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ntransfer-encoding:", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ntransfer-encoding: gzip\r\ncontent-length: 5", Err(Fault::UnclearEnd)),
        ("1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5", Ok((chunked, false))),
        ("1.0 200 OK\r\ntransfer-encoding: chunked", Err(Fault::UnclearEnd)),
        ("1.1 200 OK", Ok((Framing::UntilClose, true))),
        ("1.1 204 No Content", Ok((Framing::Length(0), true))),
        ("1.1 204 No Content\r\ncontent-length: 0", Ok((Framing::Length(0), true))),
        ("1.1 204 No Content\r\ncontent-length: 30", Ok((Framing::Length(0), false))),
        ("1.1 204 No Content\r\ntransfer-encoding: chunked", Ok((Framing::Length(0), false))),
        ("1.1 304 Not Modified\r\ncontent-length: 5", Ok((Framing::Length(0), false))),
        ("1.1 103 Early Hints\r\nlink: </x>", Ok((Framing::Length(0), true))),
        ("1.1 103 Early Hints\r\ncontent-length: 30", Err(Fault::UnclearEnd)),
        ("1.1 100 Continue\r\ntransfer-encoding: chunked", Err(Fault::UnclearEnd)),
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
fn a_head_with_lines_that_readers_end_differently_costs_the_connection() {
    for (head, is_kept) in [
        ("HTTP/1.1 200 OK\r\nX: y\r\n\r\n", true),
        ("HTTP/1.1 200 OK\nX: y\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nX: y\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nX: y\r\n\n", false),
        ("HTTP/1.1 200 OK\n\n", false),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", false),
        ("\nHTTP/1.1 200 OK\r\n\r\n", false),
    ] {
        let read = read_head(head.as_bytes()).expect("a head").expect("whole");
        assert_eq!((read.response.status, read.keeps_alive), (200, is_kept), "{head:?}");
    }
    assert_eq!(read_head(b"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n").err(), Some(Fault::NotHttp));
    assert_eq!(read_head(b"\n\n\n").err(), Some(Fault::NotHttp), "line breaks alone are no beginning");
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

/// A body's data, and, if it has ended, how, and how many bytes were left behind it.
type ReadBody = Result<(Vec<u8>, Option<(End, usize)>), Fault>;

/// Reads a body that comes in pieces of this many bytes: its data, and, if it has ended, how, and what was left behind it.
fn read(mut framing: Framing, body: &[u8], piece: usize) -> ReadBody {
    let (mut data, mut held, mut seen) = (Vec::new(), Vec::new(), 0);
    for piece in body.chunks(piece) {
        held.extend_from_slice(piece);
        seen += piece.len();
        let taken = framing.take(&held, |part| data.extend_from_slice(part))?;
        held.drain(..taken.bytes);
        if taken.end != End::NotYet {
            return Ok((data, Some((taken.end, held.len() + body.len() - seen))));
        }
    }
    Ok((data, None))
}

#[test]
fn a_body_is_read_to_its_end_however_it_is_cut() {
    let chunked = Framing::Chunked(Chunk::Size);
    type Case<'a> = (Framing, &'a [u8], &'a [u8], Option<(End, usize)>);
    let cases: [Case<'_>; 11] = [
        (Framing::Length(5), b"hello", b"hello", Some((End::Exact, 0))),
        (Framing::Length(5), b"hello, world", b"hello", Some((End::Exact, 7))),
        (Framing::Length(5), b"hell", b"hell", None),
        (Framing::UntilClose, b"hello", b"hello", None),
        (chunked, b"0\r\n\r\n", b"", Some((End::Exact, 0))),
        (chunked, b"1\r\nh\r\n004;x=y\r\nello\r\n0\r\n\r\nnext", b"hello", Some((End::Exact, 4))),
        (chunked, b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", b"hello", Some((End::Odd, 12))),
        (chunked, b"5\r\nhello\r\n0\r\njunk", b"hello", Some((End::Odd, 4))),
        (chunked, b"5\r\nhello\r\n4 \r\nmore\r\n0\r\n\r\n", b"hello", Some((End::Odd, 15))),
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
    let bad = [
        "\r\n",
        "x\r\n",
        "-1\r\nh\r\n",
        "+1\r\nh\r\n",
        "0x1\r\nh\r\n",
        "2\r\nhello\r\n",
        "fffffffffffffffff\r\n",
        "1\nh\r\n0\r\n\r\n",
        "1;x\nh\r\n",
        "1;x\ry\r\nh",
        "1\r\nh\n0\r\n\r\n",
        "1_\r\nh",
    ];
    for bad in bad {
        assert_eq!(read(Framing::Chunked(Chunk::Size), bad.as_bytes(), 100), Err(Fault::NotHttp), "{bad:?}");
    }
    let endless = format!("1;{}", "x".repeat(300));
    assert_eq!(read(Framing::Chunked(Chunk::Size), endless.as_bytes(), 7), Ok((Vec::new(), Some((End::Odd, 302)))));
}
