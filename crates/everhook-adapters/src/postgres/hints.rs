//! Hints between nodes through the server itself (`LISTEN`, `NOTIFY`): the port `RemoteHints`.
//!
//! A notification inside a transaction would make all commits wait for each other. Hints are sent in statements of their own, after the commit,
//! and what gathers while one is on its way goes out together. Whatever is lost, the owner of a lane looks for itself once a second.
//!
//! Every role of a database may notify and listen. The channel has a random name, which only the nodes' role can read; and whoever knows it all the same
//! costs a node no more than reading what it sends: so many notifications in a second are understood, and the rest is dropped.

use std::{
    future::poll_fn,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, LaneId},
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

const CHANNEL: &str = include_str!("queries/hint_channel.sql");
const NOTIFY: &str = include_str!("queries/notify_waiting.sql");

/// The most hints that wait to be sent or heard. What does not fit is dropped.
const HINTS_MAX: usize = 4_096;
/// What a message begins with: another spelling gets another number.
const SPELLING: &str = "3:";
/// How many letters a queue takes: two ids, an instant and a digit.
const QUEUE_BYTES: usize = 32 + 32 + 16 + 1;
/// The most queues of one notification: a server takes 8,000 bytes.
const QUEUES_A_MESSAGE: usize = 95;
/// How many notifications are understood in a second: several times what twenty busy nodes send. Understanding one takes a few microseconds.
const NOTIFICATIONS_A_SECOND: u32 = 2_000;
/// How often the log says that there were more.
const FLOOD_TOLD_EVERY: Duration = Duration::from_secs(60);
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
            let message = spell_all(some);
            let Ok(connection) = pools.line().await else { break };
            if Reader::new(connection).execute(NOTIFY, &[&message]).await.is_err() {
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
    let mut allowance = Allowance::default();
    let reading = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message?
                && allowance.take(Instant::now())
            {
                let queues = read(notification.payload());
                if heard.capacity() < queues.len() {
                    // Whoever takes them may be ready to.
                    tokio::task::yield_now().await;
                }
                for queue in queues {
                    // Full: the owner looks for itself.
                    let _ = heard.try_send(queue);
                }
            }
        }
        Ok(())
    };
    let asking = async {
        let channel: String = client.query_one(CHANNEL, &[]).await?.try_get("hint_channel")?;
        // The table allows no name that would have to be escaped.
        client.batch_execute(&format!("LISTEN \"{channel}\"")).await?;
        std::future::pending::<Result<(), tokio_postgres::Error>>().await
    };
    tokio::select! {
        ended = reading => ended,
        failed = asking => failed,
    }
}

/// How many notifications are still understood in the second that is under way.
#[derive(Default)]
struct Allowance {
    second: Option<Instant>,
    taken: u32,
    told_at: Option<Instant>,
}

impl Allowance {
    fn take(&mut self, now: Instant) -> bool {
        if self.second.is_none_or(|began_at| now.duration_since(began_at) >= Duration::from_secs(1)) {
            (self.second, self.taken) = (Some(now), 0);
        }
        self.taken = self.taken.saturating_add(1);
        if self.taken <= NOTIFICATIONS_A_SECOND {
            return true;
        }
        if self.told_at.is_none_or(|told_at| now.duration_since(told_at) >= FLOOD_TOLD_EVERY) {
            self.told_at = Some(now);
            tracing::warn!(
                "received more than {NOTIFICATIONS_A_SECOND} notifications from other nodes in one second; the rest are ignored, and periodic queries find the work"
            );
        }
        false
    }
}

/// The message that names some queues.
fn spell_all(queues: &[WaitingQueue]) -> String {
    let mut message = String::with_capacity(SPELLING.len() + queues.len() * QUEUE_BYTES);
    message.push_str(SPELLING);
    queues.iter().for_each(|queue| message.push_str(&spell(queue)));
    message
}

/// An endpoint, its application, an instant and a priority, as [`QUEUE_BYTES`] letters.
fn spell(queue: &WaitingQueue) -> String {
    let (lane_id, application) = (queue.lane_id.as_uuid().simple(), queue.application.as_uuid().simple());
    format!("{lane_id}{application}{:016x}{}", queue.due_from.as_micros(), priority_number(queue.priority))
}

/// Reads what [`spell_all`] wrote; what it did not write is left out.
fn read(message: &str) -> Vec<WaitingQueue> {
    let read_one = |letters: &[u8]| {
        let text = std::str::from_utf8(letters).ok()?;
        Some(WaitingQueue {
            lane_id: LaneId::from_uuid(Uuid::try_parse(&text[..32]).ok()?),
            application: ApplicationId::from_uuid(Uuid::try_parse(&text[32..64]).ok()?),
            due_from: Timestamp::from_micros(i64::from_str_radix(&text[64..80], 16).ok().filter(|micros| *micros >= 0)?),
            priority: read_priority(text[80..].parse().ok()?)?,
        })
    };
    let Some(message) = message.strip_prefix(SPELLING).filter(|message| message.len() <= QUEUES_A_MESSAGE * QUEUE_BYTES) else {
        return Vec::new();
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
            lane_id: LaneId::from_uuid(Uuid::from_u128(number)),
            application: ApplicationId::from_uuid(Uuid::from_u128(number << 64)),
            priority,
            due_from: Timestamp::from_micros(1_763_300_000_000_000),
        };
        let queues = vec![queue(1, Priority::High), queue(u128::MAX >> 3, Priority::Low)];
        let message = spell_all(&queues);
        assert_eq!(read(&message), queues);
        let unspelled = &message[SPELLING.len()..];
        let negative =
            spell_all(&[WaitingQueue { due_from: Timestamp::from_micros(1), ..queues[0] }]).replace("0000000000000001", "-000000000000001");
        let shifted = format!("{SPELLING}{}", &unspelled[1..]);
        let noise = [&"é".repeat(QUEUE_BYTES), &"z".repeat(QUEUE_BYTES)].map(|letters| format!("{SPELLING}{letters}"));
        for noise in ["", "x", SPELLING, unspelled, &shifted, &negative, &noise[0], &noise[1]] {
            assert!(read(noise).is_empty(), "{noise}");
        }
        let many = vec![queues[0]; QUEUES_A_MESSAGE];
        assert_eq!(read(&spell_all(&many)).len(), QUEUES_A_MESSAGE);
        assert!(spell_all(&many).len() < 8_000);
    }

    #[test]
    fn a_flood_is_ignored_until_the_second_is_over() {
        let (mut allowance, now) = (Allowance::default(), Instant::now());
        let understood = (0..10 * NOTIFICATIONS_A_SECOND).filter(|_| allowance.take(now)).count();
        assert_eq!(understood, NOTIFICATIONS_A_SECOND as usize);
        assert!(allowance.take(now + Duration::from_secs(1)));
    }
}
