//! Which broker, as the operator wrote it: read at the start, for the source and for hints. Its URL has a password and is never shown.

use std::{sync::Arc, time::Duration};

use everhook_core::{
    model::{Secret, Target},
    policy::{
        address::AddressRules,
        broker::{self, BrokerFault},
    },
};
use percent_encoding::percent_decode_str;
use url::Url;

use super::{
    failure,
    link::{Link, Login},
};
use crate::http::{Connector, HttpSettings, HttpSetupError, Progress, SystemResolver};

/// A broker of the operator's. It has a password, and cannot be shown.
#[derive(Clone)]
pub struct BrokerAddress {
    pub(super) login: Login,
    pub(super) vhost: String,
    pub(super) target: Target,
}

/// Why a URL does not name a broker, in words for the operator. It never repeats the URL, which has a password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It does not parse, or is under another scheme.
    #[error("must be a URL as in amqp://user:password@host:5672/vhost")]
    Url,
    /// The URL says something that is not understood.
    #[error(transparent)]
    Place(#[from] BrokerFault),
    /// The URL has parameters.
    #[error("must not have parameters")]
    Parameters,
}

impl BrokerAddress {
    /// Reads a broker's URL, credentials included.
    ///
    /// # Errors
    /// [`AddressError`] says what would be right.
    pub fn read(url: &Secret<String>) -> Result<Self, AddressError> {
        let parsed: Url = url.expose().parse().map_err(|_| AddressError::Url)?;
        let decode = |text: &str| percent_decode_str(text).decode_utf8().map(|text| text.into_owned()).map_err(|_| AddressError::Url);
        let login = match (parsed.username(), parsed.password()) {
            ("", None) => Login::guest(),
            (user, password) => Login { user: decode(user)?, password: decode(password.unwrap_or_default())? },
        };
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(AddressError::Parameters);
        }
        let target = Target { written: String::new(), url: parsed };
        if !target.is_amqp() || target.host().is_none() {
            return Err(AddressError::Url);
        }
        Ok(Self { login, vhost: broker::vhost(&target.url)?, target })
    }

    /// Connects. What fails is said in words, without anything secret.
    pub(super) async fn open(&self, connector: &Connector) -> Result<Link, String> {
        let stream = connector.reach(&self.target, None, &mut Progress::default()).await.map_err(|failure| failure.error)?;
        Link::open(stream, &self.login, &self.vhost).await.map_err(|error| failure::of(&error).error)
    }
}

/// Connects once to the broker of a URL and says farewell, for a person who wants to know.
///
/// # Errors
/// In words, without anything secret.
pub async fn check(url: &Secret<String>, within: Duration) -> Result<(), String> {
    let address = BrokerAddress::read(url).map_err(|error| error.to_string())?;
    let connector = connector().map_err(|error| error.to_string())?;
    match tokio::time::timeout(within, address.open(&connector)).await {
        Ok(Ok(link)) => {
            link.close().await;
            Ok(())
        }
        Ok(Err(words)) => Err(words),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

/// What connects to brokers of the operator's choice: their addresses are not vetted, as that of the store is not.
pub(super) fn connector() -> Result<Connector, HttpSetupError> {
    let resolver = Arc::new(SystemResolver::new().map_err(HttpSetupError::Resolver)?);
    let http = HttpSettings { protocol: None, ..HttpSettings::new(AddressRules::allowing_private()) };
    Connector::new(http, resolver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_broker_has_a_host_and_perhaps_credentials_and_a_vhost() {
        let read = |url: &str| BrokerAddress::read(&Secret::new(url.to_owned()));
        let address = read("amqps://shop:p%40ss@broker.example:5673/a%2fb").unwrap();
        assert_eq!((&*address.login.user, &*address.login.password, &*address.vhost), ("shop", "p@ss", "a/b"));
        assert_eq!((address.target.port(), address.target.is_secure()), (Some(5673), true));
        let plain = read("amqp://localhost").unwrap();
        assert_eq!((&*plain.login.user, &*plain.vhost, plain.target.port()), ("guest", "/", Some(5672)));
        for bad in ["", "localhost:5672", "http://localhost", "amqp:///x", "amqp://localhost/a/b", "amqp://localhost/?heartbeat=1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
