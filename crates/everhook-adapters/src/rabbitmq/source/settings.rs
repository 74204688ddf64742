//! Which queue of which broker, as the operator wrote it. Read at the start; its URL has a password and is never shown.

use std::time::Duration;

use everhook_core::{
    model::{Secret, Target},
    policy::broker::{self, BrokerFault},
};
use lapin::types::ShortString;
use percent_encoding::percent_decode_str;
use url::Url;

use super::{super::link::Login, RECONNECT_MIN};

/// Where events come from.
pub struct SourceSettings {
    pub(super) login: Login,
    pub(super) vhost: String,
    pub(super) target: Target,
    pub(super) queue: ShortString,
    /// How long to wait before connecting again after the first failure; doubled after each more.
    pub reconnect_after: Duration,
}

/// Why a URL or a queue cannot be consumed from, in words for the operator.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It does not parse, or is under another scheme.
    #[error("must be a URL as in amqp://user:password@host:5672/vhost")]
    Url,
    /// The URL says something that is not understood.
    #[error(transparent)]
    Place(#[from] BrokerFault),
    /// The URL has parameters.
    #[error("must not have parameters")]
    Parameters,
    /// The queue has a name that the protocol cannot carry.
    #[error("must be a name of 1 to 255 bytes")]
    Queue,
}

impl SourceSettings {
    /// Reads the broker's URL, credentials included, and the name of the queue.
    ///
    /// # Errors
    /// [`SourceError`] says what would be right.
    pub fn new(url: &Secret<String>, queue: &str) -> Result<Self, SourceError> {
        let (target, login) = Self::check_url(url)?;
        let (vhost, queue) = (broker::vhost(&target.url)?, Self::check_queue(queue)?);
        Ok(Self { vhost, login, target, queue, reconnect_after: RECONNECT_MIN })
    }

    /// Whether a URL can be consumed from.
    ///
    /// # Errors
    /// [`SourceError`] says what would be right. It never repeats the URL, which has a password.
    pub fn check(url: &Secret<String>) -> Result<(), SourceError> {
        let (target, _) = Self::check_url(url)?;
        broker::vhost(&target.url)?;
        Ok(())
    }

    fn check_url(url: &Secret<String>) -> Result<(Target, Login), SourceError> {
        let parsed: Url = url.expose().parse().map_err(|_| SourceError::Url)?;
        let decode = |text: &str| percent_decode_str(text).decode_utf8().map(|text| text.into_owned()).map_err(|_| SourceError::Url);
        let login = match (parsed.username(), parsed.password()) {
            ("", None) => Login::guest(),
            (user, password) => Login { user: decode(user)?, password: decode(password.unwrap_or_default())? },
        };
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(SourceError::Parameters);
        }
        let target = Target { written: String::new(), url: parsed };
        if target.is_amqp() && target.host().is_some() { Ok((target, login)) } else { Err(SourceError::Url) }
    }

    fn check_queue(queue: &str) -> Result<ShortString, SourceError> {
        ShortString::try_new(queue).ok().filter(|name| !name.as_str().is_empty()).ok_or(SourceError::Queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_source_has_a_host_and_perhaps_credentials_and_a_vhost() {
        let read = |url: &str| SourceSettings::new(&Secret::new(url.to_owned()), "events");
        let settings = read("amqps://shop:p%40ss@broker.example:5673/a%2fb").ok().unwrap();
        assert_eq!((&*settings.login.user, &*settings.login.password, &*settings.vhost), ("shop", "p@ss", "a/b"));
        assert_eq!((settings.target.port(), settings.target.is_secure()), (Some(5673), true));
        let plain = read("amqp://localhost").ok().unwrap();
        assert_eq!((&*plain.login.user, &*plain.vhost, plain.target.port()), ("guest", "/", Some(5672)));
        for bad in ["", "localhost:5672", "http://localhost", "amqp:///x", "amqp://localhost/a/b", "amqp://localhost/?heartbeat=1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let queue = |name: &str| SourceSettings::new(&Secret::new("amqp://localhost".to_owned()), name).err();
        assert_eq!((queue(""), queue(&"q".repeat(256))), (Some(SourceError::Queue), Some(SourceError::Queue)));
    }
}
