//! The data folder: made if it is not there, and held by one process at a time.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::OpenError;

/// The name of the file that is locked. It stays empty.
const LOCK_FILE: &str = "lock";
/// The name of the database's file.
const DATABASE_FILE: &str = "everhook.db";

/// A data folder that this process holds until the value is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder if need be, readable by its owner alone, and takes it for this process.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        let unusable = |source| OpenError::Folder { path: path.to_owned(), source };
        make_private(path).map_err(unusable)?;
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(path.join(LOCK_FILE)).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {
                let folder = Self { path: path.to_owned(), _lock: lock };
                make_private_file(&folder.database()).map_err(unusable)?;
                Ok(folder)
            }
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }

    /// Where the database is.
    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE_FILE)
    }
}

/// Makes the folder and those above it. One that is there keeps its mode: its owner chose it.
fn make_private(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes the database's file, for its owner alone, also in a folder that others may read. SQLite gives its log the same mode.
fn make_private_file(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
