//! What is published at once: how it is gathered, read, and answered for.

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::{
    Consumer,
    message::Delivery,
    options::{BasicAckOptions, BasicRejectOptions},
    types::{AMQPValue, ShortString},
};

use super::{super::failure, Message, Verdict};

/// How many messages, and how many bytes of them, are published in one go.
const BATCH_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 16 << 20;

/// The first message, and what has come beside it by now. Nothing is waited for: under load, the write before this one is the time in which a
/// batch gathers.
pub(super) fn gather(first: Option<lapin::Result<Delivery>>, consumer: &mut Consumer) -> Result<Vec<Delivery>, String> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    let mut next = first;
    loop {
        match next {
            Some(Ok(delivery)) => {
                bytes += delivery.data.len();
                batch.push(delivery);
            }
            Some(Err(error)) if batch.is_empty() => return Err(failure::of(&error).error),
            None if batch.is_empty() => return Err("the broker canceled the consumer: the queue was deleted or moved".to_owned()),
            // What came before the end is not acknowledged, and comes again.
            Some(Err(_)) | None => return Err("the connection to the broker was lost".to_owned()),
        }
        if batch.len() >= BATCH_MAX || bytes >= BATCH_BYTES_MAX {
            return Ok(batch);
        }
        match consumer.next().now_or_never() {
            Some(ready) => next = ready,
            None => return Ok(batch),
        }
    }
}

/// Answers the broker, and returns what must be tried again.
pub(super) async fn answer(batch: Vec<Delivery>, verdicts: Vec<Verdict>) -> lapin::Result<Vec<Delivery>> {
    if verdicts.iter().all(|verdict| *verdict == Verdict::Durable) {
        if let Some(last) = batch.last() {
            // One answer for all: nothing that came before the last is open.
            last.acker.ack(BasicAckOptions { multiple: true }).await?;
        }
        return Ok(Vec::new());
    }
    let mut kept = Vec::new();
    for (delivery, verdict) in batch.into_iter().zip(verdicts) {
        match verdict {
            Verdict::Durable => drop(delivery.acker.ack(BasicAckOptions { multiple: false }).await?),
            Verdict::Refused(reason) => {
                let id = delivery.properties.message_id().as_ref().map(ShortString::as_str).unwrap_or_default();
                tracing::warn!(message.id = id, "rejected a message of the source queue: {reason}");
                delivery.acker.reject(BasicRejectOptions { requeue: false }).await?;
            }
            Verdict::Later(_) => kept.push(delivery),
        }
    }
    Ok(kept)
}

/// What is looked at of a message.
pub(super) fn read(delivery: &Delivery) -> Message {
    let traceparent = delivery.properties.headers().as_ref().and_then(|headers| match headers.inner().get("traceparent")? {
        AMQPValue::LongString(text) => String::from_utf8(text.as_bytes().to_vec()).ok(),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        _ => None,
    });
    let id = delivery.properties.message_id().as_ref().map(ToString::to_string);
    Message { body: Bytes::copy_from_slice(&delivery.data), id, traceparent }
}
