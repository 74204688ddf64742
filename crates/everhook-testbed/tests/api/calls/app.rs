//! An app for one test: a real server on a real socket that answers as it is told.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// How an app answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// With this status and body.
    Body(u16, String),
    /// The same, after a while.
    After(Duration, Box<Answer>),
    /// Never.
    Hangs,
    /// With a byte each 20 ms, for ever.
    Drips,
    /// By closing the connection.
    Resets,
    /// With more than anybody wants to read.
    Floods,
}

impl Answer {
    /// A good answer with this data.
    pub fn data(data: &Value) -> Self {
        Self::Body(200, format!(r#"{{"success":true,"data":{data},"processingTime":1}}"#))
    }
}

/// A request as an app sees it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub head: String,
    pub body: Vec<u8>,
}

impl Seen {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
        Some(line.split_once(':')?.1.trim())
    }
}

type Script = Box<dyn Fn(u32, &Seen) -> Answer + Send + Sync>;

/// The app.
pub struct App {
    pub address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    script: Mutex<Script>,
    seen: Mutex<Vec<Seen>>,
    at_once: AtomicU32,
    most_at_once: AtomicU32,
}

impl App {
    /// Starts an app. The script is asked with the number of the request, from 1, and the request.
    pub async fn start(script: impl Fn(u32, &Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            script: Mutex::new(Box::new(script)),
            seen: Mutex::default(),
            at_once: AtomicU32::new(0),
            most_at_once: AtomicU32::new(0),
        });
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Self { address, state, task }
    }

    /// Always answers the same.
    pub async fn answering(answer: Answer) -> Self {
        Self::start(move |_, _| answer.clone()).await
    }

    /// Answers so from now on.
    pub fn answer(&self, answer: Answer) {
        *self.state.script.lock().unwrap() = Box::new(move |_, _| answer.clone());
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.state.seen.lock().unwrap().len()
    }

    pub fn at_once(&self) -> u32 {
        self.state.at_once.load(Ordering::SeqCst)
    }

    pub fn most_at_once(&self) -> u32 {
        self.state.most_at_once.load(Ordering::SeqCst)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    while let Some(request) = read(&mut stream).await {
        let number = {
            let mut seen = state.seen.lock().unwrap();
            seen.push(request.clone());
            u32::try_from(seen.len()).unwrap()
        };
        let answer = (state.script.lock().unwrap())(number, &request);
        let at_once = state.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        state.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        let has_more = write(&mut stream, answer).await;
        state.at_once.fetch_sub(1, Ordering::SeqCst);
        if !has_more {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let seen = Seen { head, body: Vec::new() };
    let length: usize = seen.header("content-length").map_or(0, |text| text.parse().unwrap());
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(Seen { body: bytes[end..end + length].to_vec(), ..seen })
}

async fn write(stream: &mut TcpStream, answer: Answer) -> bool {
    match answer {
        Answer::Body(status, body) => {
            let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).await.is_ok()
        }
        Answer::After(delay, answer) => {
            // A caller that goes away ends it, as in a server that notices.
            let mut byte = [0];
            tokio::select! {
                () = tokio::time::sleep(delay) => Box::pin(write(stream, *answer)).await,
                _ = stream.peek(&mut byte) => false,
            }
        }
        Answer::Hangs => {
            let mut byte = [0];
            let _ = stream.read(&mut byte).await;
            false
        }
        Answer::Drips => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await;
            while stream.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            false
        }
        Answer::Resets => false,
        Answer::Floods => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n").await;
            while stream.write_all(&[b' '; 65_536]).await.is_ok() {}
            false
        }
    }
}
