//! What the URL of a message broker says beyond its host: virtual host, exchange and routing key.
//!
//! Asked when an endpoint is registered or changed, and by the adapter that publishes there. Pure: it knows no broker.

use percent_encoding::percent_decode_str;
use url::Url;

/// The longest name of a virtual host, an exchange or a routing key, in bytes: what the protocol can carry.
const NAME_BYTES_MAX: usize = 255;

/// Where messages go: `amqps://host:port/vhost?exchange=…&routing_key=…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerPlace {
    /// The virtual host; `/` if the URL names none.
    pub vhost: String,
    /// The exchange; the empty default one, which leads to the queue that the routing key names, if the URL names none.
    pub exchange: String,
    /// The routing key; each event's type if absent.
    pub routing_key: Option<String>,
}

/// What is wrong with a broker's URL, in words for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokerFault {
    /// More than one part in the path.
    #[error("must have at most a virtual host in its path; write a slash inside its name as `%2f`")]
    Path,
    /// A parameter that means nothing.
    #[error("may have the parameters `exchange` and `routing_key`, once each, and no others")]
    Parameter,
    /// A part after `#`.
    #[error("must not have a part after `#`")]
    Fragment,
    /// Neither an exchange nor a routing key.
    #[error("must name an exchange or, as the routing key, a queue: `?exchange=events` or `?routing_key=queue`")]
    Nowhere,
    /// A name that the protocol cannot carry.
    #[error("must have names of at most {NAME_BYTES_MAX} bytes of UTF-8, without control characters")]
    Name,
}

/// Reads the virtual host of a broker's URL. A lone slash is the default one, as a missing path is.
///
/// # Errors
/// [`BrokerFault`] if the path holds more than one name.
pub fn vhost(url: &Url) -> Result<String, BrokerFault> {
    let path = url.path().strip_prefix('/').unwrap_or(url.path());
    if path.contains('/') {
        return Err(BrokerFault::Path);
    }
    let name = percent_decode_str(path).decode_utf8().map_err(|_| BrokerFault::Name)?;
    if name.is_empty() { Ok("/".to_owned()) } else { checked(&name) }
}

/// Reads where messages go.
///
/// # Errors
/// [`BrokerFault`] says what would be right.
pub fn place(url: &Url) -> Result<BrokerPlace, BrokerFault> {
    if url.fragment().is_some() {
        return Err(BrokerFault::Fragment);
    }
    let (mut exchange, mut routing_key) = (None, None);
    for (name, value) in url.query_pairs() {
        let slot = match &*name {
            "exchange" => &mut exchange,
            "routing_key" => &mut routing_key,
            _ => return Err(BrokerFault::Parameter),
        };
        if slot.replace(checked(&value)?).is_some() {
            return Err(BrokerFault::Parameter);
        }
    }
    let exchange = exchange.unwrap_or_default();
    if exchange.is_empty() && routing_key.as_ref().is_none_or(String::is_empty) {
        return Err(BrokerFault::Nowhere);
    }
    Ok(BrokerPlace { vhost: vhost(url)?, exchange, routing_key })
}

fn checked(name: &str) -> Result<String, BrokerFault> {
    let fits = name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
    if fits { Ok(name.to_owned()) } else { Err(BrokerFault::Name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<BrokerPlace, BrokerFault> {
        place(&url.parse().unwrap())
    }

    #[test]
    fn a_url_says_where_messages_go() {
        let cases = [
            ("amqp://host?routing_key=orders", "/", "", Some("orders")),
            ("amqps://host/?exchange=events", "/", "events", None),
            ("amqp://host:5673/shop?exchange=events&routing_key=", "shop", "events", Some("")),
            ("amqp://host/%2f?exchange=a%20b&routing_key=x.y", "/", "a b", Some("x.y")),
            ("amqp://host/a%2Fb?routing_key=%C3%A4", "a/b", "", Some("ä")),
        ];
        for (url, vhost, exchange, routing_key) in cases {
            let place = BrokerPlace { vhost: vhost.to_owned(), exchange: exchange.to_owned(), routing_key: routing_key.map(str::to_owned) };
            assert_eq!(read(url), Ok(place), "{url}");
        }
    }

    #[test]
    fn a_url_that_leads_nowhere_or_says_more_than_is_understood_is_refused() {
        let long = format!("amqp://host?routing_key={}", "k".repeat(256));
        let cases = [
            ("amqp://host", BrokerFault::Nowhere),
            ("amqp://host/shop?exchange=", BrokerFault::Nowhere),
            ("amqp://host/?exchange=&routing_key=", BrokerFault::Nowhere),
            ("amqp://host/a/b?exchange=x", BrokerFault::Path),
            ("amqp://host?exchange=x&heartbeat=1", BrokerFault::Parameter),
            ("amqp://host?exchange=x&exchange=y", BrokerFault::Parameter),
            ("amqp://host?exchange=x#y", BrokerFault::Fragment),
            ("amqp://host/%ff?exchange=x", BrokerFault::Name),
            ("amqp://host?exchange=%00", BrokerFault::Name),
            (&long, BrokerFault::Name),
        ];
        for (url, fault) in cases {
            assert_eq!(read(url), Err(fault), "{url}");
        }
    }
}
