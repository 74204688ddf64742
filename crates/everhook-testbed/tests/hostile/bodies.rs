//! Bodies: many at once, never finished, too large, or shaped to become many times their size.

use std::{fmt::Write as _, io::ErrorKind, process::Command, time::Duration};

use everhook_testbed::skipped::skipped;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::{
    arena::{Arena, LeftToEnd},
    connections::connect_from,
};

const BATCH_BYTES: usize = 16 << 20;

/// Sends the head of a request and as much of its body as it is taken, until an answer comes or all was sent. Says what was answered within a moment.
async fn send_unfinished(mut stream: TcpStream, head: String, body_bytes: usize) -> (TcpStream, String) {
    let _ = stream.write_all(head.as_bytes()).await;
    let (piece, mut sent, mut answer) = (vec![b' '; 256 * 1024], 0, vec![0; 4096]);
    while sent < body_bytes {
        match stream.try_read(&mut answer) {
            Ok(length) => return (stream, String::from_utf8_lossy(&answer[..length]).into_owned()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return (stream, error.to_string()),
        }
        match stream.try_write(&piece[..piece.len().min(body_bytes - sent)]) {
            Ok(length) => sent += length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = timeout(Duration::from_millis(50), stream.writable()).await;
            }
            Err(error) => return (stream, error.to_string()),
        }
        // So that the runtime notices what has come.
        tokio::task::yield_now().await;
    }
    let read = timeout(Duration::from_millis(200), stream.read(&mut answer)).await;
    let length = read.ok().and_then(Result::ok).unwrap_or_default();
    (stream, String::from_utf8_lossy(&answer[..length]).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_unfinished_batches_are_refused_and_hold_little() {
    let mut arena = Arena::start([]).await;
    let watch = arena.watch().await;
    let key = arena.attacker.key.clone();
    let head = |framing: &str| {
        format!(
            "POST /v1/events/batch HTTP/1.1\r\nHost: everhook\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n{framing}\r\n\r\n"
        )
    };
    let announced = head(&format!("Content-Length: {BATCH_BYTES}"));
    // One chunk that is announced as a whole batch and never ends.
    let chunked = head("Transfer-Encoding: chunked") + &format!("{:x}\r\n", BATCH_BYTES);
    let (mut held, mut refused) = (Vec::new(), 0);
    for number in 0..100 {
        let stream = connect_from("127.0.0.2", &arena).await.expect("a connection");
        let head = if number % 2 == 0 { &announced } else { &chunked };
        let (stream, answer) = send_unfinished(stream, head.clone(), BATCH_BYTES - 1024).await;
        if answer.starts_with("HTTP/1.1 503") {
            assert!(answer.contains("retry-after: 1"), "{answer}");
            refused += 1;
        }
        held.push(stream);
    }
    watch.end("100 unfinished batches of 16 MiB").await;
    assert!(refused >= 90, "{refused} were refused");
    // A body that does not come has its time, which is that of the server's end as well.
    arena.stop("100 unfinished batches of 16 MiB", LeftToEnd::Hanging).await;
    drop(held);
}

/// Posts a body as the attacker and says the answer.
async fn post(arena: &Arena, path: &str, body: &str) -> String {
    let mut stream = connect_from("127.0.0.2", arena).await.expect("a connection");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: everhook\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        arena.attacker.key,
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("the head is taken");
    stream.write_all(body.as_bytes()).await.expect("the body is taken");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_shape_of_a_body_becomes_many_times_its_size() {
    let arena = Arena::start([]).await;
    let watch = arena.watch().await;
    let fill = |open: &str, item: &str, close: &str| {
        let count = (BATCH_BYTES - open.len() - close.len()) / item.len();
        let items = item.repeat(count);
        format!("{open}{}{close}", items.trim_end_matches(','))
    };
    let mut labels = String::from(r#"{"events":[{"type":"t","data":1,"labels":{"#);
    for number in 0..1_000_000 {
        let _ = write!(labels, r#""{number}":"","#);
    }
    labels.pop();
    labels.push_str("}}]}");
    let name = "\u{1}".repeat(2_600_000).replace('\u{1}', "\\u0001");
    let attacks = [
        ("/v1/events/batch", fill(r#"{"events":["#, "1,", "]}"), "422"),
        ("/v1/events/batch", labels, "202"),
        ("/v1/events/batch", format!(r#"{{"events":[{{"type":"t","data":1,"{name}":1}}]}}"#), "202"),
        ("/v1/applications/default/import", fill(r#"{"version":1,"endpoints":["#, "{},", "]}"), "4"),
        ("/v1/applications/default/import", fill(r#"{"version":1,"event_types":["#, "{},", "]}"), "4"),
    ];
    for (path, body, status) in attacks {
        let answer = post(&arena, path, &body).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {:.300}", answer);
        assert!(answer.len() < 1_000_000, "{path}: an answer of {} bytes", answer.len());
    }
    watch.end("16 MiB of tiny parts").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_post_large_bodies_take_no_memory() {
    let arena = Arena::start([]).await;
    let watch = arena.watch().await;
    let head =
        format!("POST /v1/events HTTP/1.1\r\nHost: everhook\r\nContent-Type: application/json\r\nContent-Length: {BATCH_BYTES}\r\n\r\n");
    let mut strangers = tokio::task::JoinSet::new();
    for _ in 0..450 {
        let stream = connect_from("127.0.0.2", &arena).await.expect("a connection");
        let head = head.clone();
        strangers.spawn(async move {
            let mut stream = stream;
            let _ = stream.write_all(head.as_bytes()).await;
            // Whatever comes back, they go on.
            let piece = vec![b' '; 64 * 1024];
            while stream.write_all(&piece).await.is_ok() {}
        });
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    watch.end("450 strangers who post 16 MiB each").await;
    strangers.abort_all();
}

/// Posts 2 MB with a client that sends all of a request before it reads: prints a status or an error a line.
const PYTHON: &str = r#"
import http.client, sys, urllib.request, urllib.error
host, key = sys.argv[1], sys.argv[2]
body = b'"' + b"x" * 2_000_000 + b'"'
cases = [("/v1/events", key, "application/json"), ("/v1/events", "", "application/json"), ("/nothing", key, "application/json"),
         ("/v1/events", key, "text/plain"), ("/healthz", key, "application/json")]
for path, bearer, kind in cases:
    for turn in range(20):
        headers = {"Authorization": "Bearer " + bearer, "Content-Type": kind}
        try:
            if turn % 2:
                request = urllib.request.Request("http://" + host + path, data=body, headers=headers, method="POST")
                try:
                    print(urllib.request.urlopen(request, timeout=10).status)
                except urllib.error.HTTPError as error:
                    print(error.code)
            else:
                connection = http.client.HTTPConnection(host, timeout=10)
                connection.request("POST", path, body, headers)
                print(connection.getresponse().status)
                connection.close()
        except Exception as error:
            print(repr(error))
"#;

const NODE: &str = r#"
const http = require('http');
const [host, key] = process.argv.slice(1);
const [hostname, port] = host.split(':');
const body = Buffer.from('"' + 'x'.repeat(2000000) + '"');
const cases = [['/v1/events', key, 'application/json'], ['/v1/events', '', 'application/json'], ['/nothing', key, 'application/json'],
  ['/v1/events', key, 'text/plain'], ['/healthz', key, 'application/json']];
(async () => {
  for (const [path, bearer, kind] of cases) for (let turn = 0; turn < 20; turn++) {
    await new Promise((done) => {
      const headers = {'Authorization': 'Bearer ' + bearer, 'Content-Type': kind, 'Content-Length': body.length};
      const request = http.request({hostname, port, path, method: 'POST', headers, agent: false}, (response) => {
        console.log(response.statusCode); response.resume(); response.on('end', done); response.on('error', done);
      });
      request.on('error', (error) => { console.log(error.code); done(); });
      request.end(body);
    });
  }
})();
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_clients_see_why_a_large_body_is_refused() {
    let arena = Arena::start([]).await;
    let host = arena.node.url().strip_prefix("http://").expect("an http URL").to_owned();
    let expected: Vec<&str> = ["413", "401", "404", "415", "405"].into_iter().flat_map(|status| [status; 20]).collect();
    for (program, flag, script) in [("python3", "-c", PYTHON), ("node", "-e", NODE)] {
        let mut command = Command::new(program);
        command.args([flag, script, &host, &arena.attacker.key]);
        let Ok(output) = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic") else {
            skipped(&format!("{program} is not installed: how its clients see a refused body was not tested"));
            continue;
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said.lines().collect::<Vec<_>>(), expected, "{program}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_waits_to_be_asked_for_is_not_asked_for_to_be_dropped() {
    let arena = Arena::start([]).await;
    let mut stream = connect_from("127.0.0.2", &arena).await.expect("a connection");
    let head = "POST /v1/events HTTP/1.1\r\nHost: everhook\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("the head is taken");
    let mut answer = Vec::new();
    timeout(Duration::from_secs(3), stream.read_to_end(&mut answer)).await.expect("it is closed at once").expect("an answer");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 401") && !answer.contains("100 Continue"), "{answer}");
}
