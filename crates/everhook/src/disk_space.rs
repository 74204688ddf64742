//! Whether the disk that this node writes to has room: asked by `/readyz`, and told by publishes that the store refused for want of it.
//!
//! A small write says little about a full disk: it may fit into space that a file already has. So a file of the size that the largest event may need is
//! written beside the data and emptied again, at most twice a second, however often somebody asks.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{sync::Mutex, task::JoinHandle};

/// How long an answer holds: whoever asks once in a while hears the truth within a second.
const CHECKED_EVERY: Duration = Duration::from_millis(500);
/// How long a disk may take to answer. One that hangs takes no events either.
const PROBE_TIMEOUT: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(2) };
/// What an event needs beside its data: pages of the log, of indexes and of rows.
const BESIDE_EVENT_BYTES: usize = 256 << 10;
/// The file that is written and emptied.
const PROBE_FILE: &str = "probe";
/// How much is written at once.
static CHUNK: [u8; 64 << 10] = [0; 64 << 10];

/// The room on one disk.
#[derive(Clone)]
pub struct DiskSpace(Arc<State>);

struct State {
    /// Of whose disk.
    folder: PathBuf,
    needed_bytes: usize,
    /// Held while the disk is asked.
    probing: Mutex<Probing>,
    /// Whether there was no room the last time. The log has said so.
    is_full: AtomicBool,
}

#[derive(Default)]
struct Probing {
    /// When the disk last answered.
    checked_at: Option<Instant>,
    /// The probe that it has not answered yet: each occupies a thread, and a disk that hangs may not get a second one.
    under_way: Option<JoinHandle<io::Result<()>>>,
}

impl DiskSpace {
    /// The disk that a folder is on, which must have room for an event with so many bytes of data.
    pub fn of(folder: PathBuf, event_bytes_max: usize) -> Self {
        let needed_bytes = event_bytes_max + BESIDE_EVENT_BYTES;
        Self(Arc::new(State { folder, needed_bytes, probing: Mutex::default(), is_full: AtomicBool::new(false) }))
    }

    /// Whether there was no room when it was last asked.
    pub fn is_full(&self) -> bool {
        self.0.is_full.load(Ordering::Relaxed)
    }

    /// Whether there is room, as of this half second.
    pub async fn has_room(&self) -> bool {
        let mut probing = self.0.probing.lock().await;
        if probing.checked_at.is_none_or(|at| at.elapsed() >= CHECKED_EVERY) {
            let state = &self.0;
            let probe = probing.under_way.get_or_insert_with(|| {
                let state = state.clone();
                tokio::task::spawn_blocking(move || state.probe())
            });
            match tokio::time::timeout(PROBE_TIMEOUT, probe).await {
                Ok(Ok(Ok(()))) => self.0.set_full(false),
                Ok(Ok(Err(error))) if is_full(&error) => self.0.set_full(true),
                // Whatever else is wrong with the folder, the store says it.
                Ok(Ok(Err(error))) => tracing::debug!(%error, "cannot measure the free space on the data disk"),
                Ok(Err(_)) => {}
                Err(_) => return false,
            }
            *probing = Probing { checked_at: Some(Instant::now()), under_way: None };
        }
        !self.is_full()
    }

    /// A write was refused because there was no room.
    pub fn was_full(&self) {
        self.0.set_full(true);
    }
}

impl State {
    /// Says so when it begins and when it is over: a person must act.
    fn set_full(&self, is_full: bool) {
        if self.is_full.swap(is_full, Ordering::Relaxed) == is_full {
            return;
        }
        let folder = self.folder.display();
        if is_full {
            tracing::error!(folder = %folder, "no space left on the data disk; events are refused until space is freed in {folder}");
        } else {
            tracing::info!(folder = %folder, "the data disk has free space again; events are accepted");
        }
    }

    fn probe(&self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(self.folder.join(PROBE_FILE))?;
        let filled = fill(&mut file, self.needed_bytes);
        // Also after a failure: what there is of room is the store's.
        file.set_len(0).and(filled)
    }
}

fn fill(file: &mut File, mut bytes: usize) -> io::Result<()> {
    while bytes > 0 {
        let some = bytes.min(CHUNK.len());
        file.write_all(&CHUNK[..some])?;
        bytes -= some;
    }
    Ok(())
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_disk_is_not_asked_again_at_once_and_the_probe_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let disk = DiskSpace::of(folder.path().to_owned(), 1 << 20);
        assert!(disk.has_room().await);
        let probe = folder.path().join(PROBE_FILE);
        assert_eq!(std::fs::metadata(&probe).unwrap().len(), 0);
        std::fs::remove_file(&probe).unwrap();
        // The answer holds for a moment, also that of a publish that was refused.
        disk.was_full();
        assert!(!disk.has_room().await && disk.is_full());
        assert!(!probe.exists(), "it was not asked again");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_disk_that_hangs_is_asked_by_one_probe_however_often_somebody_asks() {
        let folder = tempfile::tempdir().unwrap();
        // Opening a pipe to write waits for somebody who reads.
        let pipe = folder.path().join(PROBE_FILE);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let disk = DiskSpace::of(folder.path().to_owned(), 1);
        assert!(!disk.has_room().await);
        let first = disk.0.probing.lock().await.under_way.as_ref().map(JoinHandle::id);
        assert!(!disk.has_room().await);
        assert_eq!(disk.0.probing.lock().await.under_way.as_ref().map(JoinHandle::id), first);
        // It gets on, and is asked afresh.
        drop(File::open(&pipe).unwrap());
        std::fs::remove_file(&pipe).unwrap();
        disk.has_room().await;
        assert!(disk.0.probing.lock().await.under_way.is_none());
    }
}
