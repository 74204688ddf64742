//! Where expired data is kept outside the store: files of compressed JSON lines in a folder, one after the other.
//!
//! `lines` spells records, `reading` reads files back. A batch is one frame of zstd, which is on disk before the next begins: a crash leaves at most an
//! incomplete frame at the end of a file, and the next process begins a file of its own. Nothing here is ever changed or removed.

mod lines;
mod reading;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use everhook_core::{
    ports::{Archive, ArchiveError, ArchiveRecord, ArchiveStatus, Vault},
    time::Timestamp,
};
use uuid::Uuid;

pub use self::reading::{ReadError, ReadFile, read};

/// What the names of its files end with.
pub const FILE_SUFFIX: &str = ".jsonl.zst";
/// A file that is larger is followed by another: what one can still copy, and look through.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Text compresses well at the library's default; the work is done once, beside the deliveries.
const LEVEL: i32 = 3;

/// An archive in a folder, which several nodes may share: each writes files of its own.
pub struct FolderArchive(Arc<State>);

struct State {
    folder: PathBuf,
    vault: Arc<dyn Vault>,
    /// Held while something is written.
    file: Mutex<Option<OpenFile>>,
    status: Mutex<Status>,
}

#[derive(Default)]
struct Status {
    written_at: Option<Timestamp>,
    failing: Option<(Timestamp, String)>,
}

/// The file that is added to.
struct OpenFile {
    file: File,
    path: PathBuf,
    /// The day that its name says.
    day: String,
    /// How much of it is on disk.
    bytes: u64,
}

impl FolderArchive {
    /// An archive in this folder, which is made when something is first added: an archive that is away keeps nobody from starting.
    pub fn new(folder: PathBuf, vault: Arc<dyn Vault>) -> Self {
        Self(Arc::new(State { folder, vault, file: Mutex::default(), status: Mutex::default() }))
    }
}

#[async_trait]
impl Archive for FolderArchive {
    async fn append(&self, at: Timestamp, records: Vec<ArchiveRecord>) -> Result<(), ArchiveError> {
        let state = self.0.clone();
        let written = tokio::task::spawn_blocking(move || state.append(at, &records)).await;
        let written = written.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        self.0.note(at, written.as_ref().err());
        written.map_err(|error| ArchiveError { place: self.0.place(), source: error.into() })
    }

    fn status(&self) -> ArchiveStatus {
        let status = self.0.status.lock().unwrap_or_else(PoisonError::into_inner);
        ArchiveStatus { place: self.0.place(), written_at: status.written_at, failing: status.failing.clone() }
    }
}

impl State {
    fn place(&self) -> String {
        self.folder.display().to_string()
    }

    fn note(&self, at: Timestamp, error: Option<&io::Error>) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            None => *status = Status { written_at: Some(at), failing: None },
            Some(error) => {
                let since = status.failing.take().map_or(at, |(since, _)| since);
                status.failing = Some((since, error.to_string()));
            }
        }
    }

    fn append(&self, at: Timestamp, records: &[ArchiveRecord]) -> io::Result<()> {
        let frame = self.frame(at, records)?;
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let day = day_of(at);
        let mut file = match open.take().filter(|file| file.day == day && file.bytes < FILE_BYTES_MAX) {
            Some(file) => file,
            None => OpenFile::create(&self.folder, at, day)?,
        };
        // One that failed is not written to again: nobody knows how much of it is on disk.
        file.append(&frame)?;
        *open = Some(file);
        Ok(())
    }

    /// All of it compressed: a frame that says nothing about others.
    fn frame(&self, at: Timestamp, records: &[ArchiveRecord]) -> io::Result<Vec<u8>> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), LEVEL)?;
        encoder.include_checksum(true)?;
        for record in records {
            serde_json::to_writer(&mut encoder, &lines::line_of(at, record, &*self.vault))?;
            encoder.write_all(b"\n")?;
        }
        encoder.finish()
    }
}

impl OpenFile {
    /// A new file, which is in its folder also after a power cut.
    fn create(folder: &Path, at: Timestamp, day: String) -> io::Result<Self> {
        create_folder(folder)?;
        let path = folder.join(name_of(at));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path)?;
        #[cfg(unix)]
        File::open(folder)?.sync_all()?;
        Ok(Self { file, path, day, bytes: 0 })
    }

    /// After a failure, what was not flushed is cut off again, as far as that is possible; a file with nothing in it is removed.
    fn append(&mut self, frame: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(frame).and_then(|()| self.file.sync_data());
        if written.is_err() {
            let _ = self.file.set_len(self.bytes);
            if self.bytes == 0 {
                let _ = fs::remove_file(&self.path);
            }
        } else {
            self.bytes += frame.len() as u64;
        }
        written
    }
}

/// Makes the folder if need be, for its owner alone: dead letters of published events are plain unless the store encrypts them.
fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// A name that sorts by time, and that no other process gives.
fn name_of(at: Timestamp) -> String {
    let text: String = at.floor_to_second().to_string().chars().filter(|character| *character != ':').collect();
    let unique = Uuid::new_v4().simple().to_string();
    format!("{text}-{}{FILE_SUFFIX}", &unique[..8])
}

/// The day that an instant is of: `2026-01-31`.
fn day_of(at: Timestamp) -> String {
    at.to_string().chars().take("2026-01-31".len()).collect()
}
