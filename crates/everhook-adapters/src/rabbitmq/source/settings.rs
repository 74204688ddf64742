//! Which queue of which broker, as the operator wrote it.

use std::time::Duration;

use everhook_core::model::Secret;
use lapin::types::ShortString;

use super::super::{
    address::{AddressError, BrokerAddress},
    reconnect::RECONNECT_MIN,
};

/// Where events come from.
pub struct SourceSettings {
    pub(super) broker: BrokerAddress,
    pub(super) queue: ShortString,
    /// How long to wait before connecting again after the first failure; doubled after each more.
    pub reconnect_after: Duration,
}

/// Why a URL or a queue cannot be consumed from, in words for the operator.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The URL does not name a broker.
    #[error(transparent)]
    Broker(#[from] AddressError),
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
        Ok(Self { broker: BrokerAddress::read(url)?, queue: Self::check_queue(queue)?, reconnect_after: RECONNECT_MIN })
    }

    fn check_queue(queue: &str) -> Result<ShortString, SourceError> {
        ShortString::try_new(queue).ok().filter(|name| !name.as_str().is_empty()).ok_or(SourceError::Queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_broker_and_a_name_of_1_to_255_bytes() {
        let read = |url: &str, queue: &str| SourceSettings::new(&Secret::new(url.to_owned()), queue).err();
        assert_eq!(read("amqp://localhost", "events"), None);
        assert_eq!(read("http://localhost", "events"), Some(SourceError::Broker(AddressError::Url)));
        for queue in ["", &"q".repeat(256)] {
            assert_eq!(read("amqp://localhost", queue), Some(SourceError::Queue));
        }
    }
}
