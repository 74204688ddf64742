//! A server on the loopback address whose every byte a test decides, and which counts what reaches it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A listener whose connections are each handed to the test's script, with their number from 0.
pub struct Server {
    pub port: u16,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    pub async fn start<Script, Run>(script: Script) -> Self
    where
        Script: Fn(TcpStream, usize) -> Run + Send + 'static,
        Run: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counter = accepted.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = counter.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(script(stream, number));
            }
        });
        Self { port, accepted, task }
    }

    /// Reads one request on each connection, writes `answer`, and closes.
    pub async fn answering_once(answer: impl Into<Vec<u8>>) -> Self {
        let answer = Arc::new(answer.into());
        Self::start(move |mut stream, _| {
            let answer = answer.clone();
            async move {
                read_request(&mut stream).await;
                stream.write_all(&answer).await.ok();
            }
        })
        .await
    }

    /// Answers every request on each connection with `answer`.
    pub async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = Arc::new(answer.into());
        Self::start(move |mut stream, _| {
            let answer = answer.clone();
            async move {
                while read_request(&mut stream).await.is_some() {
                    stream.write_all(&answer).await.ok();
                }
            }
        })
        .await
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    /// How many connections were accepted so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads one request with its body as text; `None` once the connection is closed.
pub async fn read_request(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = stream.read(&mut chunk).await.ok()?;
        if read == 0 {
            return None;
        }
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return Some(text);
            }
        }
    }
}

/// Writes pieces for as long as the other side takes them, and says how many bytes those were.
pub async fn write_until_closed(stream: &mut TcpStream, mut piece: impl FnMut(usize) -> Vec<u8>) -> usize {
    let mut written = 0;
    for number in 0.. {
        match stream.write(&piece(number)).await {
            Ok(bytes) => written += bytes,
            Err(_) => break,
        }
    }
    written
}
