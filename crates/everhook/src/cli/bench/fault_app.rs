//! An app for `bench --calls` that fails as it is told: on plain sockets, because a web server closes no connection halfway through.
//!
//! It runs beside the callers. While it fails it has next to nothing to do, so that it takes no processor from what is measured.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{AbortHandle, JoinHandle},
};

/// What a good answer takes.
pub const QUICK: Duration = Duration::from_millis(20);
/// After how long a late answer comes: later than any caller of the bench waits.
pub const LATE: Duration = Duration::from_millis(700);
/// The largest request that is read.
const REQUEST_BYTES_MAX: usize = 64 << 10;

const GOOD: &str = r#"{"success":true,"data":{"ok":true}}"#;

/// What the app does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// It answers.
    Good,
    /// It does not, until it is told otherwise: then it answers what waits.
    Hangs,
    /// A byte now and then.
    Drips,
    /// It resets the connection.
    Resets,
    /// It answers 500.
    Fails,
    /// It answers what is not JSON.
    Garbage,
    /// It answers after [`LATE`].
    Late,
    /// It answers without an end.
    TooMuch,
    /// Nothing listens there.
    Closed,
}

impl Behavior {
    /// All faults.
    pub const FAULTS: [Self; 8] =
        [Self::Hangs, Self::Drips, Self::Resets, Self::Fails, Self::Garbage, Self::Late, Self::TooMuch, Self::Closed];

    /// Its name, of the capability that it is tried with as well.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Hangs => "hang",
            Self::Drips => "drip",
            Self::Resets => "reset",
            Self::Fails => "500",
            Self::Garbage => "garbage",
            Self::Late => "late",
            Self::TooMuch => "too-much",
            Self::Closed => "closed-port",
        }
    }

    /// Why the app's answer is not used.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Good => "",
            Self::Hangs | Self::Drips | Self::Late => "timeout",
            Self::Resets | Self::Closed => "network",
            Self::Fails => "status",
            Self::Garbage | Self::TooMuch => "bad_answer",
        }
    }
}

/// The app.
pub struct FaultApp {
    pub address: SocketAddr,
    behavior: watch::Sender<Behavior>,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    listening: Option<JoinHandle<()>>,
}

impl FaultApp {
    /// Starts it, well.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, behavior) = (listener.local_addr()?, watch::channel(Behavior::Good).0);
        let mut app = Self { address, behavior, connections: Arc::default(), listening: None };
        app.listen(listener);
        Ok(app)
    }

    /// Changes what it does from now on.
    pub async fn set(&mut self, behavior: Behavior) -> anyhow::Result<()> {
        self.behavior.send_replace(behavior);
        if behavior == Behavior::Closed {
            self.close().await;
        } else if self.listening.is_none() {
            self.listen(TcpListener::bind(self.address).await?);
        }
        Ok(())
    }

    fn listen(&mut self, listener: TcpListener) {
        let (behavior, connections) = (self.behavior.clone(), self.connections.clone());
        self.listening = Some(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = tokio::spawn(serve(stream, behavior.subscribe()));
                let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
                connections.retain(|connection| !connection.is_finished());
                connections.push(connection.abort_handle());
            }
        }));
    }

    /// Lets go of the port, and of every connection.
    async fn close(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.abort();
            let _ = listening.await;
        }
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.drain(..).for_each(|connection| connection.abort());
    }
}

impl Drop for FaultApp {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

async fn serve(mut stream: TcpStream, mut behavior: watch::Receiver<Behavior>) {
    let _ = stream.set_nodelay(true);
    loop {
        // Closing a connection of which something was not read is a reset.
        let arrived = stream.peek(&mut [0]).await;
        if !matches!(arrived, Ok(1)) || *behavior.borrow() == Behavior::Resets || !matches!(read_request(&mut stream).await, Ok(true)) {
            return;
        }
        let now = *behavior.borrow_and_update();
        if !matches!(answer(&mut stream, now, &mut behavior).await, Ok(true)) {
            return;
        }
    }
}

/// Reads one request; `false` if the connection was closed instead.
async fn read_request(stream: &mut TcpStream) -> std::io::Result<bool> {
    let mut bytes = Vec::with_capacity(1_024);
    loop {
        if stream.read_buf(&mut bytes).await? == 0 || bytes.len() > REQUEST_BYTES_MAX {
            return Ok(false);
        }
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        if bytes.len() >= end + 4 + length.unwrap_or(0) {
            return Ok(true);
        }
    }
}

/// Answers a request. Says whether the connection can be used again.
async fn answer(stream: &mut TcpStream, now: Behavior, behavior: &mut watch::Receiver<Behavior>) -> std::io::Result<bool> {
    match now {
        Behavior::Good | Behavior::Closed => {
            tokio::time::sleep(QUICK).await;
            respond(stream, "200 OK", GOOD).await
        }
        Behavior::Hangs => {
            let mut byte = [0];
            tokio::select! {
                _ = behavior.changed() => respond(stream, "200 OK", GOOD).await,
                // The caller gave up.
                _ = stream.peek(&mut byte) => Ok(false),
            }
        }
        Behavior::Drips => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n").await?;
            loop {
                stream.write_all(b" ").await?;
                tokio::time::sleep(QUICK).await;
            }
        }
        Behavior::Resets => Ok(false),
        Behavior::Fails => respond(stream, "500 Internal Server Error", "no").await,
        Behavior::Garbage => respond(stream, "200 OK", "<html>not what was asked</html>").await,
        Behavior::Late => {
            tokio::time::sleep(LATE).await;
            respond(stream, "200 OK", GOOD).await
        }
        Behavior::TooMuch => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000000\r\n\r\n").await?;
            loop {
                stream.write_all(&[b' '; 16_384]).await?;
            }
        }
    }
}

async fn respond(stream: &mut TcpStream, status: &str, body: &str) -> std::io::Result<bool> {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::cli::client::{Connection, Server};

    #[tokio::test]
    async fn it_fails_as_it_is_told_and_works_again() {
        let mut app = FaultApp::start().await.unwrap();
        let server = Server::new(&format!("http://{}", app.address).parse().unwrap(), None).unwrap();
        let ask = async |wait: Duration| {
            let mut connection = Connection::new(server.clone());
            let asked = connection.send(Method::POST, "/", &b"1"[..]);
            tokio::time::timeout(wait, asked).await.map(|answer| answer.map(|answer| (answer.status.as_u16(), answer.body)))
        };
        let long = Duration::from_secs(30);
        let good = (200, bytes::Bytes::from_static(GOOD.as_bytes()));
        for fault in Behavior::FAULTS {
            app.set(fault).await.unwrap();
            match fault {
                Behavior::Hangs | Behavior::Drips => assert!(ask(Duration::from_millis(100)).await.is_err(), "{fault:?}"),
                Behavior::Resets | Behavior::TooMuch | Behavior::Closed => assert!(ask(long).await.unwrap().is_err(), "{fault:?}"),
                Behavior::Fails => assert_eq!(ask(long).await.unwrap().unwrap().0, 500),
                Behavior::Garbage => assert_eq!(ask(long).await.unwrap().unwrap().0, 200),
                Behavior::Late => assert_eq!(ask(long).await.unwrap().unwrap(), good),
                Behavior::Good => unreachable!("it is no fault"),
            }
            app.set(Behavior::Good).await.unwrap();
            assert_eq!(ask(long).await.unwrap().unwrap(), good, "after {fault:?}");
        }
        // What hangs is answered when the app is back.
        app.set(Behavior::Hangs).await.unwrap();
        let (answer, ()) = tokio::join!(ask(long), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            app.set(Behavior::Good).await.unwrap();
        });
        assert_eq!(answer.unwrap().unwrap(), good);
    }
}
