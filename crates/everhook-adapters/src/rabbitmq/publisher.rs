//! Publishes over one link, each message on a channel that is its own until the broker has spoken.
//!
//! A broker returns a message that leads nowhere and then confirms it, without saying that the two belong together; and it confirms many
//! messages of a channel at once. With one message on a channel there is nothing to mix up, and a broker that closes the channel over one
//! message costs no other.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lapin::{
    Channel, Confirmation,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use tokio::sync::Semaphore;

use super::{
    link::{CHANNELS_MAX, Link},
    message::Outgoing,
};

/// A link with channels for messages.
pub(super) struct Publisher {
    link: Link,
    /// Channels that wait for their next message. All of them ask the broker to confirm.
    idle: Mutex<Vec<Channel>>,
    /// As many as there may be channels.
    room: Semaphore,
}

impl Publisher {
    pub(super) fn new(link: Link) -> Self {
        Self { link, idle: Mutex::default(), room: Semaphore::new(usize::from(CHANNELS_MAX)) }
    }

    /// The link that it publishes over.
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Whether it can be used, as far as this side knows.
    pub(super) fn is_open(&self) -> bool {
        self.link.is_open()
    }

    /// Says farewell to the broker.
    pub(super) async fn close(&self) {
        self.link.close().await;
    }

    /// Publishes a message and waits for the broker's word about it.
    pub(super) async fn publish(&self, outgoing: &Outgoing, body: &Bytes) -> lapin::Result<Confirmation> {
        let _room = self.room.acquire().await.expect("it is never closed");
        let channel = self.channel().await?;
        let Outgoing { exchange, routing_key, properties } = outgoing;
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let publishing = channel.basic_publish(exchange.clone(), routing_key.clone(), options, body, properties.clone());
        let confirmation = self.link.unless_lost(async { publishing.await?.await }).await?;
        self.idle().push(channel);
        Ok(confirmation)
    }

    async fn channel(&self) -> lapin::Result<Channel> {
        while let Some(channel) = self.take_idle() {
            if channel.status().connected() {
                return Ok(channel);
            }
        }
        let channel = self.link.channel().await?;
        self.link.unless_lost(channel.confirm_select(ConfirmSelectOptions::default())).await?;
        Ok(channel)
    }

    fn take_idle(&self) -> Option<Channel> {
        self.idle().pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
