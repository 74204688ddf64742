//! Events from a queue: each message is acknowledged only after whoever publishes it has said that it is durable.
//!
//! Started by the wiring, one for each process. A message is never acknowledged on hope: if the process dies, or the connection does, the broker
//! delivers it again, and its id finds the event that it became. Several messages are published at once, as many as have come.

mod batch;
mod settings;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use lapin::{
    Consumer,
    message::Delivery,
    options::{BasicConsumeOptions, BasicQosOptions},
    types::{FieldTable, ShortString},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::batch::{answer, gather, read};
pub use self::settings::{SourceError, SourceSettings};
use super::{
    address, failure,
    link::Link,
    reconnect::{FAILURES_TOLD, FailedReconnects, OPEN_TIMEOUT, RECONNECT_MAX, doubled},
};
use crate::http::{Connector, HttpSetupError};

/// How many messages may be on their way to us without an acknowledgment: enough for full batches, few enough to be held in memory.
const PREFETCH: u16 = 512;

/// How long to wait before publishing again what could not be: doubled after each failure.
const REPUBLISH_MIN: Duration = Duration::from_millis(200);
const REPUBLISH_MAX: Duration = Duration::from_secs(30);

/// A message as it came.
#[derive(Clone, Debug)]
pub struct Message {
    /// The body.
    pub body: Bytes,
    /// The property `message_id`.
    pub id: Option<String>,
    /// The header `traceparent`, if it is a text.
    pub traceparent: Option<String>,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is on disk, now or since an earlier delivery of it.
    Durable,
    /// It can never be taken, for this reason: the queue's dead-letter exchange gets it, if there is one.
    Refused(String),
    /// It could not be taken now, for this reason: it is kept and tried again.
    Later(String),
}

/// Takes messages and makes events of them.
#[async_trait]
pub trait Intake: Send + Sync {
    /// Publishes messages, in order: one verdict for each. `Durable` is said only after the write was committed.
    async fn take(&self, messages: Vec<Message>) -> Vec<Verdict>;

    /// Tells people that the broker could not be reached or the queue not consumed, several times in a row.
    async fn unreachable(&self, failures: u32, error: &str);

    /// Tells people that it works again, after [`Intake::unreachable`].
    async fn recovered(&self);
}

/// A queue that is being consumed.
pub struct AmqpSource {
    stopping: CancellationToken,
    failed_reconnects: FailedReconnects,
    consuming: JoinHandle<()>,
}

impl AmqpSource {
    /// Begins to consume, and connects again whenever the connection is lost.
    ///
    /// The operator chose the broker: its address is not vetted, as that of the store is not.
    ///
    /// # Errors
    /// [`HttpSetupError`] if TLS or the resolver cannot be set up.
    pub fn start(settings: SourceSettings, intake: Arc<dyn Intake>) -> Result<Self, HttpSetupError> {
        let stopping = CancellationToken::new();
        let (connector, failed_reconnects) = (address::connector()?, FailedReconnects::default());
        let consumption =
            Consumption { settings, intake, connector, failed_reconnects: failed_reconnects.clone(), stopping: stopping.clone() };
        Ok(Self { stopping, failed_reconnects, consuming: tokio::spawn(consumption.run()) })
    }

    /// How many attempts to connect failed in a row, from now on.
    pub fn failed_reconnects(&self) -> FailedReconnects {
        self.failed_reconnects.clone()
    }

    /// Takes no more messages, finishes those that are being published, and says farewell. What is not acknowledged goes back to its queue.
    pub async fn stop(self, grace: Duration) {
        self.stopping.cancel();
        let abort = self.consuming.abort_handle();
        if tokio::time::timeout(grace, self.consuming).await.is_err() {
            tracing::warn!("cannot publish the last messages of the source queue before shutdown; they return to the queue");
            abort.abort();
        }
    }
}

struct Consumption {
    settings: SourceSettings,
    intake: Arc<dyn Intake>,
    connector: Connector,
    failed_reconnects: FailedReconnects,
    stopping: CancellationToken,
}

/// Why consuming ended.
enum Ended {
    Stopped,
    Lost(String),
}

impl Consumption {
    async fn run(self) {
        let mut failures = 0;
        loop {
            let opened = tokio::select! {
                () = self.stopping.cancelled() => return,
                opened = tokio::time::timeout(OPEN_TIMEOUT, self.open()) => opened,
            };
            let error = match opened.unwrap_or_else(|_| Err("the broker did not answer in time".to_owned())) {
                Ok((link, consumer)) => {
                    self.failed_reconnects.connected();
                    self.note_success(std::mem::take(&mut failures)).await;
                    match self.consume(&link, consumer).await {
                        Ended::Stopped => return link.close().await,
                        Ended::Lost(error) => error,
                    }
                }
                Err(error) => {
                    self.failed_reconnects.failed();
                    error
                }
            };
            failures += 1;
            self.note_failure(failures, &error).await;
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = tokio::time::sleep(doubled(self.settings.reconnect_after, failures - 1, RECONNECT_MAX)) => {}
            }
        }
    }

    async fn open(&self) -> Result<(Link, Consumer), String> {
        let in_words = |error: lapin::Error| failure::of(&error).error;
        let link = self.settings.broker.open(&self.connector).await?;
        let channel = link.channel().await.map_err(in_words)?;
        link.unless_lost(channel.basic_qos(PREFETCH, BasicQosOptions::default())).await.map_err(in_words)?;
        let (queue, options) = (self.settings.queue.clone(), BasicConsumeOptions::default());
        let consuming = channel.basic_consume(queue, ShortString::default(), options, FieldTable::default());
        let consumer = link.unless_lost(consuming).await.map_err(in_words)?;
        Ok((link, consumer))
    }

    /// Takes messages until the connection is lost. A batch that was begun is finished.
    async fn consume(&self, link: &Link, mut consumer: Consumer) -> Ended {
        loop {
            let first = tokio::select! {
                biased;
                () = self.stopping.cancelled() => return Ended::Stopped,
                first = consumer.next() => first,
                () = link.lost() => return Ended::Lost("the connection to the broker was lost".to_owned()),
            };
            let batch = match gather(first, &mut consumer) {
                Ok(batch) => batch,
                Err(error) => return Ended::Lost(error),
            };
            match self.publish(link, batch).await {
                Ok(Published::All) => {}
                Ok(Published::Stopped) => return Ended::Stopped,
                Err(error) => return Ended::Lost(failure::of(&error).error),
            }
        }
    }

    /// Publishes a batch and answers the broker for each message. What cannot be published now is held and tried again: nothing more is taken
    /// meanwhile than was on its way, and a queue is the right place for the rest to wait.
    async fn publish(&self, link: &Link, mut batch: Vec<Delivery>) -> lapin::Result<Published> {
        for tried in 0.. {
            let verdicts = self.intake.take(batch.iter().map(read).collect()).await;
            let reason = verdicts.iter().find_map(|verdict| if let Verdict::Later(reason) = verdict { Some(reason.clone()) } else { None });
            batch = link.unless_lost(answer(batch, verdicts)).await?;
            let Some(reason) = reason else { break };
            let pause = doubled(REPUBLISH_MIN, tried, REPUBLISH_MAX);
            tracing::warn!(
                messages = batch.len(),
                pause_ms = pause.as_millis(),
                "cannot publish messages of the source queue now; they are tried again: {reason}"
            );
            tokio::select! {
                () = self.stopping.cancelled() => return Ok(Published::Stopped),
                // The broker delivers them again.
                () = link.lost() => return Err(std::io::Error::from(std::io::ErrorKind::ConnectionAborted).into()),
                () = tokio::time::sleep(pause) => {}
            }
        }
        Ok(Published::All)
    }

    async fn note_success(&self, failures_before: u32) {
        tracing::info!(queue = self.settings.queue.as_str(), "consuming events from the source queue");
        if failures_before >= FAILURES_TOLD {
            self.intake.recovered().await;
        }
    }

    async fn note_failure(&self, failures: u32, error: &str) {
        let queue = self.settings.queue.as_str();
        if failures == FAILURES_TOLD {
            tracing::error!(queue, failures, "cannot consume events from the source queue: {error}");
            self.intake.unreachable(failures, error).await;
        } else {
            tracing::warn!(queue, failures, "cannot consume events from the source queue; reconnecting: {error}");
        }
    }
}

/// How publishing a batch ended.
enum Published {
    All,
    Stopped,
}
