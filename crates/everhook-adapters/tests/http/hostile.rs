//! Answers that are broken, endless or meant to harm: each is bounded in time and memory, and named.

use std::time::Duration;

use everhook_core::{model::FailureCategory, ports::Transport};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
};

use super::{
    AMPLE, SHORT, answered, failed, post, request,
    server::{Server, read_request, write_until_closed},
    transport,
};

const UNCLEAR_END: &str = "the headers of the response contradict each other about its length (`Content-Length`, `Transfer-Encoding`)";
const TOO_LARGE: &str = "the head of the response is larger than 32 KiB or has more than 100 headers";

#[tokio::test]
async fn endless_heads_are_cut_off() {
    type Piece = fn(usize) -> Vec<u8>;
    let endless: [(&str, Piece); 3] = [
        ("headers that never end", |n| format!("X-{n}: v\r\n").into_bytes()),
        ("one header that never ends", |n| if n == 0 { b"X-Long: ".to_vec() } else { vec![b'v'; 1_000] }),
        ("a name that never ends", |_| vec![b'n'; 1_000]),
    ];
    for (what, piece) in endless {
        let server = Server::start(move |mut stream, _| async move {
            read_request(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
            write_until_closed(&mut stream, piece).await;
        })
        .await;
        let (category, error, _) = failed(post(&transport(), &server.url()).await);
        assert_eq!((category, error.as_str()), (FailureCategory::Network, TOO_LARGE), "{what}");
    }
}

#[tokio::test]
async fn more_than_a_hundred_headers_are_refused() {
    let headers: String = (0..101).map(|n| format!("X-{n}: v\r\n")).collect();
    let server = Server::answering(format!("HTTP/1.1 200 OK\r\n{headers}\r\n")).await;
    let (category, error, _) = failed(post(&transport(), &server.url()).await);
    assert_eq!((category, error.as_str()), (FailureCategory::Network, TOO_LARGE));
}

#[tokio::test]
async fn what_drips_past_the_deadline_is_a_timeout() {
    let cases: [(&[u8], &str, Option<u16>); 4] = [
        (b"", "no response arrived within 150 ms", None),
        (b"HTTP/1.1 200 OK\r\nX-Drip: ", "no response arrived within 150 ms", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", "the response was not complete within 150 ms", Some(200)),
        (b"HTTP/1.1 500 No\r\n\r\n", "the response was not complete within 150 ms", Some(500)),
    ];
    for (head, words, status) in cases {
        let server = Server::start(move |mut stream, _| async move {
            read_request(&mut stream).await;
            stream.write_all(head).await.unwrap();
            let drips = !head.is_empty();
            while drips && stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            stream.read_to_end(&mut Vec::new()).await.ok();
        })
        .await;
        let report = transport().send(request(&server.url(), SHORT)).await;
        assert!((SHORT..AMPLE).contains(&report.duration), "{:?}", report.duration);
        let (category, error, response) = failed(report);
        assert_eq!((category, error.as_str()), (FailureCategory::Timeout, words));
        assert_eq!(response.as_ref().map(|response| response.status), status);
        assert!(response.is_none_or(|response| response.body_sample.starts_with(b"x")), "what came before the deadline is kept");
    }
}

#[tokio::test]
async fn a_huge_body_is_read_no_further_than_its_bound_and_the_answer_counts() {
    for head in ["HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
        let (written, mut total) = mpsc::unbounded_channel();
        let server = Server::start(move |mut stream, _| {
            let written = written.clone();
            async move {
                read_request(&mut stream).await;
                stream.write_all(head.as_bytes()).await.unwrap();
                written.send(write_until_closed(&mut stream, |_| vec![b'z'; 16 * 1024]).await).unwrap();
            }
        })
        .await;
        let response = answered(post(&transport(), &server.url()).await);
        assert_eq!((response.status, &response.body_sample[..]), (200, &[b'z'; 1024][..]));
        // What the kernel buffers on both sides comes on top of the 64 KiB.
        let bytes = total.recv().await.unwrap();
        assert!(bytes < 32 * 1024 * 1024, "{bytes} bytes were taken");
    }
}

#[tokio::test]
async fn a_compressed_bomb_stays_compressed() {
    let bomb = [0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 3, 0xed, 0xc1, 1, 1];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", bomb.len());
    let server = Server::answering([head.as_bytes(), &bomb].concat()).await;
    assert_eq!(answered(post(&transport(), &server.url()).await).body_sample, &bomb[..]);
}

#[tokio::test]
async fn bytes_that_are_no_text_are_kept_as_they_are() {
    let server = Server::answering(b"HTTP/1.1 200 \xff\xfe\r\nX-Raw: \xc3\x28\xff\r\nContent-Length: 3\r\n\r\n\xff\x00\xfe".to_vec()).await;
    let response = answered(post(&transport(), &server.url()).await);
    assert_eq!(&response.headers[0].1[..], b"\xc3\x28\xff");
    assert_eq!(&response.body_sample[..], b"\xff\x00\xfe");
}

#[tokio::test]
async fn what_is_not_http_is_a_network_failure() {
    let closed = "the connection was closed before the response was complete";
    let cases: [(&[u8], &str); 18] = [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the response is not HTTP/1.1"),
        (b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09", "the response is not HTTP/1.1"),
        (b"HTTP/9.9 200 OK\r\n\r\n", "the response is not HTTP/1.1"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "the response is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nNo colon here\r\n\r\n", "the response is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nX-Nul: a\x00b\r\n\r\n", "the response is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", "the response is not HTTP/1.1"),
        (b"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "the response is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", UNCLEAR_END),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", UNCLEAR_END),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", UNCLEAR_END),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", UNCLEAR_END),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nok", UNCLEAR_END),
        (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", UNCLEAR_END),
        (b"HTTP/1.1 100 Continue\r\nContent-Length: 40\r\n\r\nHTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", UNCLEAR_END),
        (b"", closed),
        (b"HTTP/1.1 20", closed),
        (b"HTTP/1.1 200 OK\r\nContent-Le", closed),
    ];
    for (answer, words) in cases {
        let server = Server::answering_once(answer).await;
        let (category, error, response) = failed(post(&transport(), &server.url()).await);
        assert_eq!((category, error.as_str()), (FailureCategory::Network, words), "{:?}", String::from_utf8_lossy(answer));
        assert_eq!(response, None);
    }
}

#[tokio::test]
async fn a_body_that_ends_early_is_a_network_failure_that_keeps_what_came() {
    let cases = ["Content-Length: 100\r\n\r\nshort", "Transfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n"];
    for rest in cases {
        let server = Server::answering_once(format!("HTTP/1.1 200 OK\r\n{rest}")).await;
        let (category, _, response) = failed(post(&transport(), &server.url()).await);
        assert_eq!(category, FailureCategory::Network);
        assert_eq!(response.map(|response| (response.status, response.body_sample)), Some((200, "short".into())));
    }
    let server = Server::answering_once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nXYZ\r\n").await;
    assert_eq!(failed(post(&transport(), &server.url()).await).0, FailureCategory::Network, "a chunk without a size");
}

#[tokio::test]
async fn a_reset_is_a_network_failure() {
    let server = Server::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        stream.set_zero_linger().unwrap();
    })
    .await;
    let (category, error, _) = failed(post(&transport(), &server.url()).await);
    assert_eq!((category, error.as_str()), (FailureCategory::Network, "the connection was reset before the response was complete"));
}

#[tokio::test]
async fn a_server_that_only_closes_its_half_is_answered_or_failed_by_what_it_said() {
    for (said, status) in [("HTTP/1.1 200 OK\r\n\r\nbye", Some(200)), ("", None)] {
        let server = Server::start(move |mut stream, _| async move {
            read_request(&mut stream).await;
            stream.write_all(said.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            stream.read_to_end(&mut Vec::new()).await.ok();
        })
        .await;
        let report = post(&transport(), &server.url()).await;
        match status {
            Some(status) => assert_eq!(answered(report).status, status),
            None => assert_eq!(failed(report).0, FailureCategory::Network),
        }
    }
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_was_read_counts() {
    let server = Server::start(|mut stream, _| async move {
        let mut first = [0; 16];
        stream.read_exact(&mut first).await.unwrap();
        stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        tokio::time::sleep(AMPLE).await;
    })
    .await;
    let transport = transport();
    for _ in 0..2 {
        let mut request = request(&server.url(), AMPLE);
        request.body = vec![b'x'; 16 * 1024 * 1024].into();
        assert_eq!(answered(transport.send(request).await).status, 413);
    }
    assert_eq!(server.accepted(), 2, "a connection with half a request on it is not used again");
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_costs_little() {
    let server = Server::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        stream.set_nodelay(true).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nX-Long: ").await.unwrap();
        for _ in 0..20_000 {
            if stream.write_all(b"v").await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
        stream.write_all(b"\r\nContent-Length: 0\r\n\r\n").await.ok();
        stream.read_to_end(&mut Vec::new()).await.ok();
    })
    .await;
    let response = answered(post(&transport(), &server.url()).await);
    assert_eq!((response.status, response.cut.headers), (200, true));
}
