//! Hints between nodes through the server itself (`LISTEN`, `NOTIFY`): the port `RemoteHints`.
//!
//! A notification inside a transaction would make all commits wait for each other. Hints are sent in statements of their own, after the commit,
//! and what gathers while one is on its way goes out together. Whatever is lost, the owner of a lane looks for itself once a second.

use std::{future::poll_fn, time::Duration};

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, EndpointId},
    model::PoolName,
    ports::{RemoteHints, WaitingQueue},
    time::Timestamp,
};
use tokio::{
    sync::{Mutex, mpsc},
    task::JoinSet,
    time::sleep,
};
use tokio_postgres::AsyncMessage;
use uuid::Uuid;

use super::{connect::Pools, reader::Reader};
use crate::encoding::spelling::{priority_number, read_priority};

/// Another spelling gets another number.
const CHANNEL: &str = "everhook_waiting_2";
const LISTEN: &str = "LISTEN everhook_waiting_2";
const NOTIFY: &str = include_str!("queries/notify_waiting.sql");

/// The most hints that wait to be sent or heard. What does not fit is dropped.
const HINTS_MAX: usize = 4_096;
/// How many letters a queue takes: two ids, an instant and a digit.
const QUEUE_BYTES: usize = 32 + 32 + 16 + 1;
/// The most queues of one notification: a server takes 8,000 bytes.
const QUEUES_A_MESSAGE: usize = 95;
/// How long hints gather after some were sent. Each notification wakes every node, and a lane that is busy gathers what it hears for longer than this.
const GATHER_FOR: Duration = Duration::from_millis(10);
/// How long to wait before a lost connection is made again.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// Hints through the server.
pub struct PostgresHints {
    outgoing: mpsc::Sender<WaitingQueue>,
    incoming: Mutex<mpsc::Receiver<WaitingQueue>>,
    // Dropping it ends the tasks.
    _tasks: JoinSet<()>,
}

impl PostgresHints {
    pub(super) fn start(pools: Pools) -> Self {
        let (outgoing, to_send) = mpsc::channel(HINTS_MAX);
        let (heard, incoming) = mpsc::channel(HINTS_MAX);
        let mut tasks = JoinSet::new();
        tasks.spawn(send(pools.clone(), to_send));
        tasks.spawn(listen(pools, heard));
        Self { outgoing, incoming: Mutex::new(incoming), _tasks: tasks }
    }
}

#[async_trait]
impl RemoteHints for PostgresHints {
    fn waiting(&self, _pool: &PoolName, queues: Vec<WaitingQueue>) {
        for queue in queues {
            // Full: the owner looks for itself.
            let _ = self.outgoing.try_send(queue);
        }
    }

    async fn next(&self) -> Vec<WaitingQueue> {
        let mut queues = Vec::new();
        if self.incoming.lock().await.recv_many(&mut queues, HINTS_MAX).await == 0 {
            std::future::pending::<()>().await;
        }
        queues
    }
}

/// Sends the first hint at once, and what follows closely together.
async fn send(pools: Pools, mut to_send: mpsc::Receiver<WaitingQueue>) {
    let mut queues = Vec::new();
    while to_send.recv_many(&mut queues, HINTS_MAX).await > 0 {
        WaitingQueue::merge(&mut queues);
        for some in queues.chunks(QUEUES_A_MESSAGE) {
            let message: String = some.iter().map(spell).collect();
            let Ok(connection) = pools.line().await else { break };
            if Reader::new(connection).execute(NOTIFY, &[&CHANNEL, &message]).await.is_err() {
                break;
            }
        }
        queues.clear();
        sleep(GATHER_FOR).await;
    }
}

async fn listen(pools: Pools, heard: mpsc::Sender<WaitingQueue>) {
    while !heard.is_closed() {
        let _ = listen_once(&pools, &heard).await;
        sleep(RECONNECT_DELAY).await;
    }
}

/// Listens until the connection is lost.
async fn listen_once(pools: &Pools, heard: &mpsc::Sender<WaitingQueue>) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = pools.connect_alone().await?;
    let (messages, mut arrived) = mpsc::channel(HINTS_MAX);
    let reading = async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message?
                && messages.try_send(notification).is_err()
            {
                tracing::debug!("more hints than this node can hear");
            }
        }
        Ok(())
    };
    let hearing = async {
        client.batch_execute(LISTEN).await?;
        while let Some(notification) = arrived.recv().await {
            for queue in read(notification.payload()) {
                let _ = heard.try_send(queue);
            }
        }
        Ok::<_, tokio_postgres::Error>(())
    };
    tokio::select! {
        ended = reading => ended,
        failed = hearing => failed,
    }
}

/// An endpoint, its application, an instant and a priority, as [`QUEUE_BYTES`] letters.
fn spell(queue: &WaitingQueue) -> String {
    let (endpoint, application) = (queue.endpoint.as_uuid().simple(), queue.application.as_uuid().simple());
    format!("{endpoint}{application}{:016x}{}", queue.due_from.as_micros(), priority_number(queue.priority))
}

/// Reads what [`spell`] wrote; what it did not write is left out.
fn read(message: &str) -> Vec<WaitingQueue> {
    let read_one = |letters: &[u8]| {
        let text = std::str::from_utf8(letters).ok()?;
        Some(WaitingQueue {
            endpoint: EndpointId::from_uuid(Uuid::try_parse(&text[..32]).ok()?),
            application: ApplicationId::from_uuid(Uuid::try_parse(&text[32..64]).ok()?),
            due_from: Timestamp::from_micros(i64::from_str_radix(&text[64..80], 16).ok()?),
            priority: read_priority(text[80..].parse().ok()?)?,
        })
    };
    let (spelled, rest) = message.as_bytes().as_chunks::<QUEUE_BYTES>();
    // What was cut or shifted would be read as queues that nobody has.
    if !rest.is_empty() || !message.is_ascii() {
        return Vec::new();
    }
    spelled.iter().filter_map(|letters| read_one(letters)).collect()
}

#[cfg(test)]
mod tests {
    use everhook_core::model::Priority;

    use super::*;

    #[test]
    fn a_hint_is_read_as_it_was_spelled_and_noise_is_nothing() {
        let queue = |number: u128, priority| WaitingQueue {
            endpoint: EndpointId::from_uuid(Uuid::from_u128(number)),
            application: ApplicationId::from_uuid(Uuid::from_u128(number << 64)),
            priority,
            due_from: Timestamp::from_micros(1_763_300_000_000_000),
        };
        let queues = vec![queue(1, Priority::High), queue(u128::MAX >> 3, Priority::Low)];
        let message: String = queues.iter().map(spell).collect();
        assert_eq!(read(&message), queues);
        for noise in ["", "x", &"é".repeat(QUEUE_BYTES), &"z".repeat(QUEUE_BYTES), &message[1..]] {
            assert!(read(noise).is_empty(), "{noise}");
        }
    }
}
