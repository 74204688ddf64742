//! A mail server for tests: real SMTP on the loopback address. What it replies is scripted, and what it takes is kept.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// How long a line or a mail may be: the server is for tests, and a test that sends more is wrong.
const READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// A point in a mail's transfer at which the server does something else than take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailStep {
    /// A connection was opened.
    Greeting,
    /// `MAIL FROM` came.
    Sender,
    /// `RCPT TO` came.
    Recipient,
    /// `DATA` came.
    Data,
    /// The whole mail came.
    Body,
}

/// What the server does at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailAction {
    /// Goes on as if nothing were scripted. At [`MailStep::Body`], it takes the mail.
    Accept,
    /// Replies with this line.
    Reply(&'static str),
    /// Says nothing more, and keeps the connection open.
    Hang,
    /// Closes the connection.
    Close,
    /// Keeps the mail and closes the connection without a reply, at [`MailStep::Body`].
    KeepAndClose,
}

/// A mail that the server took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenMail {
    /// Who sent it, as `MAIL FROM` said.
    pub from: String,
    /// Whom it is for, as `RCPT TO` said.
    pub to: Vec<String>,
    /// The mail as it came, header included, without the dots that SMTP adds.
    pub data: String,
    /// The connection was encrypted.
    pub was_secure: bool,
    /// Who had logged in, as the decoded parts of `AUTH PLAIN`.
    pub login: Option<String>,
}

impl TakenMail {
    /// The value of a header, unfolded; `None` if there is none by that name, or several.
    pub fn header(&self, name: &str) -> Option<String> {
        let head = self.data.split("\r\n\r\n").next().unwrap_or_default().replace("\r\n ", " ").replace("\r\n\t", " ");
        let prefix = format!("{}: ", name.to_lowercase());
        let mut found = head.split("\r\n").filter(|line| line.to_lowercase().starts_with(&prefix));
        let value = found.next().map(|line| line[prefix.len()..].to_owned());
        value.filter(|_| found.next().is_none())
    }
}

/// How connections to the server are encrypted.
#[derive(Clone, Default)]
pub enum MailTls {
    /// They are not.
    #[default]
    None,
    /// From the first byte.
    Implicit(TlsAcceptor),
    /// By STARTTLS.
    StartTls(TlsAcceptor),
}

/// A running mail server. It ends when it is dropped.
pub struct MailServer {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    script: VecDeque<(MailStep, MailAction)>,
    taken: Vec<TakenMail>,
    connections: usize,
    open: usize,
    open_max: usize,
}

impl MailServer {
    /// Starts a server that takes every mail.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(MailTls::None, None).await
    }

    /// Starts a server whose connections are encrypted, and that wants this login (`user\0password`) where one is given.
    pub async fn start_with(tls: MailTls, login: Option<&'static str>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            // Connections end with the server.
            let mut serving = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let dialogue = Dialogue { state: Arc::clone(&shared), tls: tls.clone(), login };
                serving.spawn(dialogue.serve(stream));
            }
        });
        Ok(Self { port, state, task })
    }

    /// What comes of the next mails, in order: each entry is used up when a mail, or a connection, reaches its step.
    pub fn script(&self, script: impl IntoIterator<Item = (MailStep, MailAction)>) {
        self.state().script.extend(script);
    }

    /// What it took, in order.
    pub fn taken(&self) -> Vec<TakenMail> {
        self.state().taken.clone()
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    /// How many connections were open at once, at most.
    pub fn open_max(&self) -> usize {
        self.state().open_max
    }

    /// What of the script has not happened yet.
    pub fn script_left(&self) -> usize {
        self.state().script.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// What is said on one connection.
struct Dialogue {
    state: Arc<Mutex<State>>,
    tls: MailTls,
    login: Option<&'static str>,
}

/// A mail that is being transferred.
#[derive(Default)]
struct Transfer {
    from: String,
    to: Vec<String>,
}

/// Where a connection stands.
struct Connection {
    io: BufReader<Box<dyn Io>>,
    is_secure: bool,
    login: Option<String>,
}

impl Dialogue {
    async fn serve(self, stream: tokio::net::TcpStream) {
        {
            let mut state = lock(&self.state);
            state.connections += 1;
            state.open += 1;
            state.open_max = state.open_max.max(state.open);
        }
        let _ended = self.converse(stream).await;
        lock(&self.state).open -= 1;
    }

    async fn converse(&self, stream: tokio::net::TcpStream) -> io::Result<()> {
        let (io, is_secure): (Box<dyn Io>, bool) = match &self.tls {
            MailTls::Implicit(acceptor) => (Box::new(acceptor.accept(stream).await?), true),
            _ => (Box::new(stream), false),
        };
        let mut connection = Connection { io: BufReader::new(io), is_secure, login: None };
        self.act(MailStep::Greeting, &mut connection, "220 mail.test ready").await?;
        let mut transfer = Transfer::default();
        loop {
            let line = connection.line().await?;
            let verb = line.split([' ', ':']).next().unwrap_or_default().to_uppercase();
            match verb.as_str() {
                "EHLO" => connection.say(&self.capabilities(connection.is_secure)).await?,
                "STARTTLS" => connection = self.secure(connection).await?,
                "AUTH" => self.log_in(&mut connection, &line).await?,
                "MAIL" => {
                    transfer = Transfer { from: between(&line), to: vec![] };
                    self.act(MailStep::Sender, &mut connection, "250 sender ok").await?;
                }
                "RCPT" => {
                    transfer.to.push(between(&line));
                    self.act(MailStep::Recipient, &mut connection, "250 recipient ok").await?;
                }
                "DATA" => {
                    if self.act(MailStep::Data, &mut connection, "354 go on").await? {
                        let mail = connection.body(std::mem::take(&mut transfer)).await?;
                        self.take(mail, &mut connection).await?;
                    }
                }
                "QUIT" => return connection.say("221 bye").await,
                "NOOP" | "RSET" => connection.say("250 ok").await?,
                _ => connection.say("500 what?").await?,
            }
        }
    }

    fn scripted(&self, step: MailStep) -> Option<MailAction> {
        let mut state = lock(&self.state);
        let (at, _) = state.script.front()?;
        if *at != step {
            return None;
        }
        state.script.pop_front().map(|(_, action)| action)
    }

    /// Does what is scripted for a step, or says `otherwise`. Returns whether the transfer goes on.
    async fn act(&self, step: MailStep, connection: &mut Connection, otherwise: &str) -> io::Result<bool> {
        match self.scripted(step) {
            None | Some(MailAction::Accept) => connection.say(otherwise).await.map(|()| true),
            Some(MailAction::Reply(line)) => connection.say(line).await.map(|()| false),
            Some(MailAction::Hang) => std::future::pending().await,
            Some(MailAction::Close | MailAction::KeepAndClose) => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    async fn take(&self, mail: TakenMail, connection: &mut Connection) -> io::Result<()> {
        match self.scripted(MailStep::Body) {
            None | Some(MailAction::Accept) => {
                lock(&self.state).taken.push(mail);
                connection.say("250 2.0.0 queued").await
            }
            Some(MailAction::KeepAndClose) => {
                lock(&self.state).taken.push(mail);
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Some(MailAction::Reply(line)) => connection.say(line).await,
            Some(MailAction::Hang) => std::future::pending().await,
            Some(MailAction::Close) => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    fn capabilities(&self, is_secure: bool) -> String {
        let mut lines = vec!["mail.test"];
        if matches!(self.tls, MailTls::StartTls(_)) && !is_secure {
            lines.push("STARTTLS");
        }
        if self.login.is_some() {
            lines.push("AUTH PLAIN");
        }
        let last = lines.len() - 1;
        let line = |(at, text): (usize, &&str)| format!("250{}{text}", if at == last { ' ' } else { '-' });
        lines.iter().enumerate().map(line).collect::<Vec<_>>().join("\r\n")
    }

    async fn secure(&self, mut connection: Connection) -> io::Result<Connection> {
        let MailTls::StartTls(acceptor) = &self.tls else {
            connection.say("502 not here").await?;
            return Ok(connection);
        };
        connection.say("220 go on").await?;
        let secured = acceptor.accept(connection.io.into_inner()).await?;
        Ok(Connection { io: BufReader::new(Box::new(secured)), is_secure: true, login: None })
    }

    async fn log_in(&self, connection: &mut Connection, line: &str) -> io::Result<()> {
        use base64::Engine as _;
        let encoded = line.split(' ').nth(2).unwrap_or_default();
        let decoded = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default();
        let said = String::from_utf8_lossy(&decoded).trim_start_matches('\0').to_owned();
        if self.login != Some(said.as_str()) {
            return connection.say("535 5.7.8 authentication failed").await;
        }
        connection.login = Some(said);
        connection.say("235 welcome").await
    }
}

impl Connection {
    async fn say(&mut self, line: &str) -> io::Result<()> {
        self.io.write_all(format!("{line}\r\n").as_bytes()).await?;
        self.io.flush().await
    }

    /// The next line as it came, without its end.
    async fn raw_line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        let read = (&mut self.io).take(READ_BYTES_MAX).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line)
    }

    async fn line(&mut self) -> io::Result<String> {
        let line = self.raw_line().await?;
        Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Reads a mail up to its end. Only a dot between two complete line ends is the end, as the standard says.
    async fn body(&mut self, transfer: Transfer) -> io::Result<TakenMail> {
        let (mut data, mut is_line_start) = (Vec::new(), true);
        loop {
            let line = self.raw_line().await?;
            if is_line_start && line == b".\r\n" {
                break;
            }
            let unstuffed = if is_line_start && line.starts_with(b"..") { &line[1..] } else { &line[..] };
            data.extend_from_slice(unstuffed);
            is_line_start = line.ends_with(b"\r\n");
        }
        let data = String::from_utf8_lossy(&data).into_owned();
        Ok(TakenMail { from: transfer.from, to: transfer.to, data, was_secure: self.is_secure, login: self.login.clone() })
    }
}

/// What is between the brackets of `MAIL FROM:<…>`.
fn between(line: &str) -> String {
    line.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or(String::new(), |(address, _)| address.to_owned())
}
