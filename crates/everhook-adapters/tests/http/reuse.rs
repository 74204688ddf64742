//! When a connection is used again, and what happens if the other side has closed it.

use std::{sync::Arc, time::Duration};

use everhook_adapters::http::{HttpSettings, HttpTransport};
use everhook_core::{
    model::FailureCategory,
    ports::{OutgoingRequest, Transport},
};
use tokio::{
    io::AsyncWriteExt as _,
    sync::{Barrier, mpsc},
};

use super::{
    AMPLE, Names, answered, failed, loopback_settings, organization, post, request,
    server::{Server, read_request},
    transport,
};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_connection_is_used_again_without_a_new_look_up() {
    let server = Server::answering(OK).await;
    // The second look-up would find nothing that may be connected to.
    let names = Names::default().with("hooks.example", &[&["127.0.0.1"], &["10.0.0.1"]]);
    let transport = HttpTransport::with_resolver(loopback_settings(), Arc::new(names)).unwrap();
    let url = format!("http://hooks.example:{}/", server.port);
    let first = post(&transport, &url).await;
    assert!(first.phases.dns.is_some() && first.phases.connect.is_some());
    for _ in 0..50 {
        let report = post(&transport, &url).await;
        assert_eq!((report.phases.dns, report.phases.connect), (None, None));
        assert_eq!(answered(report).status, 200);
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_turn_share_one_connection_on_several_threads_too() {
    let server = Server::answering(OK).await;
    let transport = transport();
    for _ in 0..500 {
        answered(post(&transport, &server.url()).await);
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn origins_do_not_share_connections() {
    let (one, other) = (Server::answering(OK).await, Server::answering(OK).await);
    let transport = transport();
    for server in [&one, &other, &one, &other] {
        answered(post(&transport, &server.url()).await);
    }
    assert_eq!((one.accepted(), other.accepted()), (1, 1));
}

#[tokio::test]
async fn organizations_do_not_share_connections() {
    let server = Server::answering(OK).await;
    let transport = transport();
    for number in [1, 2, 1, 2, 3] {
        let request = OutgoingRequest { organization: organization(number), ..request(&server.url(), AMPLE) };
        answered(transport.send(request).await);
    }
    assert_eq!(server.accepted(), 3);
}

#[tokio::test]
async fn an_answer_that_another_reader_might_end_elsewhere_counts_and_costs_its_connection() {
    let cases = [
        // A body where none can be: it would be read as the next answer.
        (204, "HTTP/1.1 204 No Content\r\nContent-Length: 38\r\n\r\n"),
        (204, "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (304, "HTTP/1.1 304 Not Modified\r\nContent-Length: 38\r\n\r\n"),
        // Bare line feeds, and a line break before the answer.
        (200, "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"),
        (200, "HTTP/1.1 200 OK\r\nX-Two: lines\nContent-Length: 2\r\n\r\nok"),
        (200, "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        // Lengths said twice over.
        (200, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"),
        (200, "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok"),
        (200, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        // Chunks with more than a size, and fields behind the last.
        (200, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0 \r\n\r\n"),
        (200, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n"),
        (200, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\njunk\n\n"),
        // Bytes behind the answer.
        (200, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"),
        (200, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\r\n"),
    ];
    for (status, answer) in cases {
        let server = Server::answering(answer).await;
        let transport = transport();
        for _ in 0..3 {
            assert_eq!(answered(post(&transport, &server.url()).await).status, status, "{answer:?}");
        }
        assert_eq!(server.accepted(), 3, "{answer:?}");
    }
    let endless = "x".repeat(1_000);
    let extended = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;{endless}\r\nok\r\n0\r\n\r\n");
    let server = Server::answering(extended).await;
    let transport = transport();
    for _ in 0..3 {
        assert_eq!(answered(post(&transport, &server.url()).await).status, 200);
    }
    assert_eq!(server.accepted(), 3, "an extension that is too long");
}

#[tokio::test]
async fn an_empty_length_or_a_short_extension_keeps_the_connection() {
    for answer in [
        "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\n\r\n",
    ] {
        let server = Server::answering(answer).await;
        let transport = transport();
        for _ in 0..3 {
            answered(post(&transport, &server.url()).await);
        }
        assert_eq!(server.accepted(), 1, "{answer:?}");
    }
}

#[tokio::test]
async fn a_body_behind_a_204_is_never_the_next_answer() {
    // The body comes a moment after the head, when the connection would be kept already.
    let server = Server::start(|mut stream, number| async move {
        while read_request(&mut stream).await.is_some() {
            if number > 0 {
                stream.write_all(OK.as_bytes()).await.ok();
                continue;
            }
            stream.write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 38\r\n\r\n").await.ok();
            tokio::task::yield_now().await;
            stream.write_all(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n").await.ok();
        }
    })
    .await;
    let transport = transport();
    assert_eq!(answered(post(&transport, &server.url()).await).status, 204);
    for _ in 0..3 {
        assert_eq!(answered(post(&transport, &server.url()).await).status, 200);
    }
}

#[tokio::test]
async fn a_connection_on_which_somebody_spoke_unasked_is_not_used_again() {
    let (spoken, mut has_spoken) = mpsc::unbounded_channel();
    let server = Server::start(move |mut stream, _| {
        let spoken = spoken.clone();
        async move {
            while read_request(&mut stream).await.is_some() {
                stream.write_all(OK.as_bytes()).await.ok();
                tokio::time::sleep(Duration::from_millis(20)).await;
                stream.write_all(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n").await.ok();
                spoken.send(()).unwrap();
            }
        }
    })
    .await;
    let transport = transport();
    for _ in 0..3 {
        assert_eq!(answered(post(&transport, &server.url()).await).status, 200);
        has_spoken.recv().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.accepted(), 3);
}

#[tokio::test]
async fn a_body_up_to_64_kib_keeps_the_connection_and_a_larger_one_closes_it() {
    for (length, connections) in [(64 * 1024, 1), (64 * 1024 + 1, 3)] {
        let server = Server::answering(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}", "b".repeat(length))).await;
        let transport = transport();
        for _ in 0..3 {
            let response = answered(post(&transport, &server.url()).await);
            assert_eq!((response.status, response.body_sample.len()), (200, 1024));
        }
        assert_eq!(server.accepted(), connections, "with {length} bytes");
    }
}

#[tokio::test]
async fn a_connection_that_the_server_ends_is_not_used_again() {
    for answer in ["HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"] {
        let server = Server::answering(answer).await;
        let transport = transport();
        for _ in 0..3 {
            assert_eq!(answered(post(&transport, &server.url()).await).status, 200);
        }
        assert_eq!(server.accepted(), 3, "{answer:?}");
    }
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closed_meanwhile_costs_nothing() {
    let server = Server::answering_once(OK).await;
    let transport = transport();
    for _ in 0..20 {
        assert_eq!(answered(post(&transport, &server.url()).await).status, 200);
    }
    assert_eq!(server.accepted(), 20);
}

#[tokio::test]
async fn a_request_lost_on_a_kept_connection_is_repeated_on_a_fresh_one() {
    // The first connection answers once, and closes on the second request, as a server does whose idle time is just over.
    let server = Server::start(|mut stream, number| async move {
        for turn in 0.. {
            if read_request(&mut stream).await.is_none() || (number == 0 && turn == 1) {
                return;
            }
            stream.write_all(OK.as_bytes()).await.unwrap();
        }
    })
    .await;
    let transport = transport();
    for _ in 0..3 {
        assert_eq!(answered(post(&transport, &server.url()).await).status, 200);
    }
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_request_lost_on_a_fresh_connection_is_not_repeated() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let server = Server::start(move |mut stream, number| {
        let seen = seen.clone();
        async move {
            for turn in 0.. {
                let Some(request) = read_request(&mut stream).await else { return };
                seen.send(request).unwrap();
                if number > 0 || turn > 0 {
                    return;
                }
                stream.write_all(OK.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let transport = transport();
    answered(post(&transport, &server.url()).await);
    assert_eq!(failed(post(&transport, &server.url()).await).0, FailureCategory::Network);
    drop(server);
    let mut count = 0;
    while requests.try_recv().is_ok() {
        count += 1;
    }
    assert_eq!(count, 3, "one was answered; the other was lost on the kept connection and once more on a fresh one");
}

#[tokio::test]
async fn a_broken_answer_on_a_kept_connection_is_not_repeated() {
    let server = Server::start(|mut stream, _| async move {
        for turn in 0.. {
            if read_request(&mut stream).await.is_none() {
                return;
            }
            let answer = if turn == 0 { OK } else { "garbage\r\n\r\n" };
            stream.write_all(answer.as_bytes()).await.ok();
        }
    })
    .await;
    let transport = transport();
    answered(post(&transport, &server.url()).await);
    assert_eq!(failed(post(&transport, &server.url()).await).1, "the response is not HTTP/1.1");
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_timed_out_request_takes_its_connection_with_it() {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let server = Server::start(move |mut stream, _| {
        let ended = ended.clone();
        async move {
            read_request(&mut stream).await;
            // Nothing is answered; the next read ends when the other side closes.
            assert_eq!(read_request(&mut stream).await, None);
            ended.send(()).unwrap();
        }
    })
    .await;
    let transport = transport();
    let report = transport.send(request(&server.url(), Duration::from_millis(50))).await;
    assert_eq!(failed(report).0, FailureCategory::Timeout);
    tokio::time::timeout(AMPLE, ends.recv()).await.expect("the connection is closed at once");
}

/// Sends `count` requests that are all under way at the same moment.
async fn post_together(transport: &HttpTransport, url: &str, count: usize) {
    let requests = (0..count).map(|_| post(transport, url));
    for report in futures_util::future::join_all(requests).await {
        assert_eq!(answered(report).status, 200);
    }
}

#[tokio::test]
async fn no_more_connections_are_kept_than_the_limits_say() {
    type Limit = fn(&mut HttpSettings);
    let per_origin = |settings: &mut HttpSettings| settings.idle_per_origin_max = 1;
    let total = |settings: &mut HttpSettings| settings.idle_total_max = 1;
    let per_organization = |settings: &mut HttpSettings| settings.idle_per_organization_max = 1;
    let none = |settings: &mut HttpSettings| settings.idle_total_max = 0;
    let cases: [(Limit, usize); 5] = [(|_| {}, 3), (per_origin, 5), (per_organization, 5), (total, 5), (none, 6)];
    for (limit, connections) in cases {
        let together = Arc::new(Barrier::new(3));
        let server = Server::start(move |mut stream, _| {
            let together = together.clone();
            async move {
                while read_request(&mut stream).await.is_some() {
                    together.wait().await;
                    stream.write_all(OK.as_bytes()).await.ok();
                }
            }
        })
        .await;
        let mut settings = loopback_settings();
        limit(&mut settings);
        let transport = HttpTransport::with_resolver(settings, Arc::new(Names::default())).unwrap();
        post_together(&transport, &server.url(), 3).await;
        post_together(&transport, &server.url(), 3).await;
        assert_eq!(server.accepted(), connections);
    }
}

#[tokio::test]
async fn when_the_pool_is_full_the_longest_unused_connection_makes_room() {
    let (old, new) = (Server::answering(OK).await, Server::answering(OK).await);
    let mut settings = loopback_settings();
    settings.idle_total_max = 1;
    let transport = HttpTransport::with_resolver(settings, Arc::new(Names::default())).unwrap();
    for server in [&old, &new, &new, &new, &old] {
        answered(post(&transport, &server.url()).await);
    }
    assert_eq!((old.accepted(), new.accepted()), (2, 1));
}
