//! What is written to Redis without anybody waiting for it: one task writes what has gathered. What does not fit, or cannot be written, is dropped: nothing in
//! Redis is a promise.

use std::{sync::Arc, time::Duration};

use redis::Pipeline;
use tokio::sync::mpsc;

use super::link::Link;

/// The most that waits to be written. About a second of a busy node.
const WAITING_MAX: usize = 20_000;
/// The most that is written at once.
const BATCH_MAX: usize = 512;

/// Something to be written.
pub(super) enum Note {
    /// A field of a hash, which is forgotten altogether when nothing was noted in it for a while.
    Field { key: String, field: String, value: String, for_at_most: Duration },
    /// A field is forgotten.
    Forget { key: String, field: String },
    /// Something was seen, and is worth knowing for a while.
    Seen { key: String, for_at_most: Duration },
}

/// Takes notes to be written.
#[derive(Clone)]
pub(super) struct Notes(mpsc::Sender<Note>);

impl Notes {
    /// A place for notes, and whoever writes them until the place is gone.
    pub(super) fn new(link: Arc<Link>) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        (Self(sender), write(link, waiting))
    }

    /// Has this written, if there is room.
    pub(super) fn note(&self, note: Note) {
        let _ = self.0.try_send(note);
    }
}

async fn write(link: Arc<Link>, mut waiting: mpsc::Receiver<Note>) {
    let mut notes = Vec::with_capacity(BATCH_MAX);
    while waiting.recv_many(&mut notes, BATCH_MAX).await > 0 {
        let mut pipeline = redis::pipe();
        notes.drain(..).for_each(|note| add(&mut pipeline, note));
        // Whoever loses the connection says so.
        let _ = link.ask(async |mut connection| pipeline.query_async::<()>(&mut connection).await).await;
    }
}

fn add(pipeline: &mut Pipeline, note: Note) {
    match note {
        Note::Field { key, field, value, for_at_most } => {
            pipeline.hset(&key, field, value).ignore().pexpire(key, millis(for_at_most)).ignore();
        }
        Note::Forget { key, field } => _ = pipeline.hdel(key, field).ignore(),
        Note::Seen { key, for_at_most } => _ = pipeline.pset_ex(key, 1, millis(for_at_most).unsigned_abs().max(1)).ignore(),
    }
}

fn millis(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}
