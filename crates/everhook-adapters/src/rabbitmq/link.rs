//! One connection to a broker. The destination and the source open them; a link that ended is replaced, never repaired.

use std::{fmt, io, pin::pin, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lapin::{
    Channel, Connection, ConnectionProperties,
    uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo},
};

use super::socket::{self, CloseOnDrop, Once};
use crate::http::Stream;

/// How often both sides show that they are there, in seconds: a broker that vanished is noticed after two of these.
const HEARTBEAT_SECONDS: u16 = 30;

/// The largest frame that is taken: the broker's own default. Larger messages come in several.
const FRAME_BYTES_MAX: u32 = 128 * 1024;

/// How many channels a link may have: as many messages can wait for the broker's word.
pub(super) const CHANNELS_MAX: u16 = 128;

/// How long saying farewell may take before the socket is just closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an answer that was read before the end of the connection may take to reach whoever waits for it.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// AMQP's "success", said at the end of a connection.
const REPLY_SUCCESS: u16 = 200;

/// Who we are to a broker.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
}

impl Login {
    /// What brokers take on their own machine if nobody set anything up.
    pub(super) fn guest() -> Self {
        Self { user: "guest".to_owned(), password: "guest".to_owned() }
    }

    /// Reads `Basic …`, as it stands in an `Authorization` header.
    pub(super) fn from_basic(value: &[u8]) -> Option<Self> {
        let (scheme, token) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        let decoded = STANDARD.decode(token.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
        let text = String::from_utf8(decoded).ok()?;
        let (user, password) = text.split_once(':')?;
        Some(Self { user: user.to_owned(), password: password.to_owned() })
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:***", self.user)
    }
}

/// An open connection. Dropping it closes the socket at once.
pub(super) struct Link {
    connection: Connection,
    close_on_drop: CloseOnDrop,
}

impl Link {
    /// Speaks AMQP on a fresh connection. If the caller gives up, the socket is closed.
    pub(super) async fn open(stream: Stream, login: &Login, vhost: &str) -> lapin::Result<Self> {
        let (socket, close_on_drop) = Once::new(stream);
        let properties = ConnectionProperties::default().with_connection_name("everhook".into());
        let connect = async move |_, _| socket.take();
        let connecting = Connection::connector(uri(login, vhost), socket::runtime(), connect, properties);
        let connection = unless_lost(&close_on_drop, connecting).await?;
        Ok(Self { connection, close_on_drop })
    }

    /// Opens a channel on it.
    pub(super) async fn channel(&self) -> lapin::Result<Channel> {
        self.unless_lost(self.connection.create_channel()).await
    }

    /// Waits for an answer of the broker, or for the end of the connection: lapin's own answer does not always come then.
    pub(super) async fn unless_lost<T>(&self, answer: impl Future<Output = lapin::Result<T>>) -> lapin::Result<T> {
        unless_lost(&self.close_on_drop, answer).await
    }

    /// Returns once the connection has ended.
    pub(super) async fn lost(&self) {
        self.close_on_drop.lost().await;
    }

    /// Whether it can be used, as far as this side knows.
    pub(super) fn is_open(&self) -> bool {
        self.connection.status().connected()
    }

    /// Says farewell, so that the broker does not log a lost client.
    pub(super) async fn close(&self) {
        // A broker that does not answer, or is gone, loses its socket all the same.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.connection.close(REPLY_SUCCESS, "done".into())).await;
    }
}

async fn unless_lost<T>(close_on_drop: &CloseOnDrop, answer: impl Future<Output = lapin::Result<T>>) -> lapin::Result<T> {
    let mut answer = pin!(answer);
    tokio::select! {
        biased;
        answered = answer.as_mut() => return answered,
        () = close_on_drop.lost() => {}
    }
    // The broker's reason may have been read just before the end.
    let lost = || Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
    tokio::time::timeout(LAST_WORDS, answer).await.unwrap_or_else(|_| lost())
}

/// What lapin reads from a URI. Host and port are only shown: the socket is open already.
fn uri(login: &Login, vhost: &str) -> AMQPUri {
    AMQPUri {
        scheme: AMQPScheme::AMQP,
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo { username: login.user.clone(), password: login.password.clone() },
            host: String::new(),
            port: 0,
        },
        vhost: vhost.to_owned(),
        query: AMQPQueryString {
            frame_max: Some(FRAME_BYTES_MAX),
            channel_max: Some(CHANNELS_MAX + 1), // lapin counts the connection's own
            heartbeat: Some(HEARTBEAT_SECONDS),
            connection_timeout: None,
            auth_mechanism: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_from_a_basic_authorization_and_never_shown() {
        let login = Login::from_basic(b"Basic c2hvcDpzZTpjcmV0").unwrap();
        assert_eq!((&*login.user, &*login.password), ("shop", "se:cret"));
        assert_eq!(format!("{login:?}"), "shop:***");
        for bad in [&b"Bearer c2hvcDpzZTpjcmV0"[..], b"Basic", b"Basic !", b"Basic c2hvcA==", b"\xff"] {
            assert_eq!(Login::from_basic(bad), None);
        }
    }
}
