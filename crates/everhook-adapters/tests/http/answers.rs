//! What goes out, and what is kept of an ordinary answer.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use everhook_adapters::http::{HttpTransport, Resolve, ResolveError};
use everhook_core::{
    model::{Cut, FailureCategory, RetryAfter},
    ports::{OutgoingMethod, OutgoingRequest, Transport},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
    sync::mpsc,
};

use super::{
    AMPLE, Names, SHORT, answered, failed, loopback_settings, organization, post, request,
    server::{Server, read_request},
    transport,
};

#[tokio::test]
async fn a_request_is_a_plain_post_with_the_headers_given_and_nothing_else() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let server = Server::start(move |mut stream, _| {
        let seen = seen.clone();
        async move {
            seen.send(read_request(&mut stream).await).unwrap();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
    })
    .await;
    let url = format!("http://127.0.0.1:{}/a%20b/c?d=e&f#not-sent", server.port);
    assert_eq!(answered(post(&transport(), &url).await).status, 204);
    let expected = format!(
        "POST /a%20b/c?d=e&f HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\nwebhook-id: 0190-abc\r\n\
         x-custom: grüße\r\ncontent-length: 21\r\n\r\n{{\"type\":\"order.paid\"}}",
        server.port
    );
    assert_eq!(requests.recv().await.unwrap().unwrap(), expected);
}

#[tokio::test]
async fn a_get_has_no_body_and_its_answer_is_kept_as_far_as_it_is_read() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let server = Server::start(move |mut stream, _| {
        let seen = seen.clone();
        async move {
            seen.send(read_request(&mut stream).await).unwrap();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 8000\r\n\r\n{}", "k".repeat(8_000));
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let get = OutgoingRequest { method: OutgoingMethod::Get, headers: Vec::new(), body: Bytes::new(), ..request(&server.url(), AMPLE) };
    let response = answered(transport().send(get).await);
    assert_eq!((response.body_sample.len(), response.cut.body), (8_000, false));
    let sent = requests.recv().await.unwrap().unwrap();
    assert!(sent.starts_with("GET /") && !sent.contains("content-length"), "{sent}");
}

#[tokio::test]
async fn an_answer_is_kept_with_its_status_headers_and_body() {
    let server = Server::answering("HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nX-Two: b\r\nContent-Length: 5\r\n\r\nlater").await;
    let report = post(&transport(), &server.url()).await;
    assert!(report.phases.connect.is_some() && report.phases.first_byte.is_some());
    assert_eq!((report.phases.dns, report.phases.tls), (None, None), "an address over plain http needs neither");
    let response = answered(report);
    assert_eq!(response.status, 503);
    let headers: Vec<_> = response.headers.iter().map(|(name, value)| (name.as_str(), &value[..])).collect();
    assert_eq!(headers, [("retry-after", &b"120"[..]), ("x-two", b"b"), ("content-length", b"5")]);
    assert_eq!((&response.body_sample[..], response.cut), (&b"later"[..], Cut::default()));
    assert_eq!(response.retry_after, Some(RetryAfter::Delay(Duration::from_secs(120))));
}

#[tokio::test]
async fn every_way_to_end_a_body_is_understood() {
    let cases = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nok",
        "HTTP/1.0 200 OK\r\n\r\nok",
        "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ];
    for answer in cases {
        let server = Server::answering_once(answer).await;
        let response = answered(post(&transport(), &server.url()).await);
        assert_eq!((response.status, &response.body_sample[..]), (200, &b"ok"[..]), "{answer:?}");
    }
}

#[tokio::test]
async fn no_more_of_the_headers_is_kept_than_64_and_8_kib() {
    let many: String = (0..90).map(|n| format!("X-{n}: v\r\n")).collect();
    let long: String = (0..20).map(|n| format!("X-{n}: {}\r\n", "v".repeat(1_000))).collect();
    let giant = format!("X-Giant: {}\r\nX-Small: v\r\n", "v".repeat(9_000));
    for (headers, kept) in [(many, 64), (long, 8), (giant, 2)] {
        let server = Server::answering_once(format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 0\r\n\r\n")).await;
        let response = answered(post(&transport(), &server.url()).await);
        let bytes: usize = response.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes <= 8 * 1024, "{bytes} bytes are kept");
        assert_eq!(response.cut, Cut { headers: true, body: false });
        assert!((kept..=kept + 1).contains(&response.headers.len()), "{} headers are kept", response.headers.len());
    }
}

#[tokio::test]
async fn an_answer_says_whether_more_of_its_body_came_than_is_kept() {
    for (bytes, is_cut) in [(0, false), (1_024, false), (1_025, true)] {
        let server = Server::answering_once(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{}", "v".repeat(bytes))).await;
        let response = answered(post(&transport(), &server.url()).await);
        assert_eq!(response.cut, Cut { headers: false, body: is_cut }, "{bytes} bytes");
    }
}

#[tokio::test]
async fn a_refused_connection_is_a_network_failure() {
    // A port that was just free, with nobody listening.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (category, error, response) = failed(post(&transport(), &format!("http://127.0.0.1:{port}/")).await);
    assert_eq!((category, error), (FailureCategory::Network, format!("127.0.0.1:{port} refused the connection")));
    assert_eq!(response, None);
}

#[tokio::test]
async fn a_connection_that_nobody_accepts_times_out_by_itself() {
    // A listener with a full queue: the kernel answers no further connect.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
        queue.push(stream.unwrap());
    }
    let mut settings = loopback_settings();
    settings.connect_timeout = SHORT;
    let transport = HttpTransport::with_resolver(settings, Arc::new(Names::default())).unwrap();
    let report = post(&transport, &format!("http://{address}/")).await;
    assert!(report.duration < AMPLE);
    let (category, error, _) = failed(report);
    assert_eq!(category, FailureCategory::Timeout);
    assert!(error.starts_with(&format!("{address} did not accept the connection within 1")), "{error}");
}

#[tokio::test]
async fn a_name_without_an_address_is_a_dns_failure() {
    let (category, error, _) = failed(post(&transport(), "http://nowhere.example/").await);
    assert_eq!((category, error.as_str()), (FailureCategory::Dns, "nowhere.example: the host name does not exist"));
    let names = Names::default().with("empty.example", &[&[]]);
    let transport = HttpTransport::with_resolver(loopback_settings(), Arc::new(names)).unwrap();
    let (category, error, _) = failed(post(&transport, "http://empty.example/").await);
    assert_eq!((category, error.as_str()), (FailureCategory::Dns, "empty.example: the host name has no address"));
}

#[tokio::test]
async fn a_name_server_that_does_not_answer_is_a_dns_failure_within_the_deadline() {
    struct Silence;
    #[async_trait::async_trait]
    impl Resolve for Silence {
        async fn resolve(&self, _: &str) -> Result<Vec<IpAddr>, ResolveError> {
            std::future::pending().await
        }
    }
    let transport = HttpTransport::with_resolver(loopback_settings(), Arc::new(Silence)).unwrap();
    let (category, error, _) = failed(transport.send(request("http://silent.example/", SHORT)).await);
    assert_eq!((category, error.as_str()), (FailureCategory::Dns, "the host name was not resolved within 150 ms"));
}

#[tokio::test]
async fn names_that_are_never_answered_hold_up_their_own_organization_alone() {
    struct SilentFor(&'static str, AtomicUsize);
    #[async_trait::async_trait]
    impl Resolve for SilentFor {
        async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
            if !host.ends_with(self.0) {
                return Ok(vec!["127.0.0.1".parse().unwrap()]);
            }
            self.1.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
    }
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let resolver = Arc::new(SilentFor("silent.example", AtomicUsize::new(0)));
    let transport = Arc::new(HttpTransport::with_resolver(loopback_settings(), resolver.clone()).unwrap());
    let hanging: Vec<_> = (0..300)
        .map(|n| {
            let transport = transport.clone();
            tokio::spawn(async move { transport.send(request(&format!("http://{n}.silent.example/"), AMPLE)).await })
        })
        .collect();
    while resolver.1.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let url = format!("http://fine.example:{}/", server.port);
    let other = OutgoingRequest { organization: organization(2), ..request(&url, AMPLE) };
    assert_eq!(answered(transport.send(other).await).status, 200);
    assert_eq!(resolver.1.load(Ordering::SeqCst), 32, "no more of its names are asked about at once");
    hanging.into_iter().for_each(|task| task.abort());
}

#[tokio::test]
async fn a_request_that_cannot_be_written_is_reported_not_sent() {
    let server = Server::answering("HTTP/1.1 200 OK\r\n\r\n").await;
    let mut request = request(&server.url(), AMPLE);
    request.headers.push(("x-bad".into(), Bytes::from_static(b"a\r\nX-Injected: b")));
    let (_, error, _) = failed(transport().send(request).await);
    assert_eq!(error, "not sent: the header `x-bad` cannot be written as HTTP");
    assert_eq!(server.accepted(), 0);
}
