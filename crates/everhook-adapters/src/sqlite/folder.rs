//! A folder with a database in it: made if it is not there, and held by one process at a time.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::OpenError;
use crate::vault;

/// The name of the file that is locked. It stays empty.
const LOCK_FILE: &str = "lock";

/// A data folder that this process holds until the value is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    database: PathBuf,
    /// Whether the database was not there before.
    is_new: bool,
    _lock: File,
}

impl Folder {
    /// Makes the folder if need be, readable by its owner alone, and takes it for this process. `database` is the name of the file in it.
    pub(crate) fn take(path: &Path, database: &str) -> Result<Self, OpenError> {
        let unusable = |source| OpenError::Folder { path: path.to_owned(), source };
        make_private(path).map_err(unusable)?;
        let lock = make_private_file(&path.join(LOCK_FILE)).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {
                let database = path.join(database);
                refuse_lost(&database)?;
                let is_new = !database.exists();
                make_private_file(&database).map_err(unusable)?;
                Ok(Self { path: path.to_owned(), database, is_new, _lock: lock })
            }
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }

    /// Takes a folder that is there, and changes nothing of it.
    pub(super) fn take_as_it_is(path: &Path, database: &str) -> Result<Self, OpenError> {
        let unusable = |source| OpenError::Folder { path: path.to_owned(), source };
        // Absolute, and free of links: it is named to SQLite as a URL.
        let folder =
            path.canonicalize().ok().filter(|folder| folder.join(database).metadata().is_ok_and(|file| file.is_file() && file.len() > 0));
        let Some(folder) = folder else { return Err(OpenError::NoStore { path: path.to_owned() }) };
        let lock = match File::open(folder.join(LOCK_FILE)) {
            Ok(lock) => lock,
            // A copy without it: it is needed to keep a server away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_private_file(&folder.join(LOCK_FILE)).map_err(unusable)?,
            Err(error) => return Err(unusable(error)),
        };
        match lock.try_lock() {
            Ok(()) => Ok(Self { database: folder.join(database), path: folder, is_new: false, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }

    /// Where the folder is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the database is.
    pub(crate) fn database(&self) -> &Path {
        &self.database
    }
}

/// A first start that failed leaves no empty file behind: the next start would take it for a database that was emptied.
impl Drop for Folder {
    fn drop(&mut self) {
        let is_empty = |path: &Path| path.metadata().is_ok_and(|file| file.len() == 0);
        if self.is_new && is_empty(&self.database) && !has_log(&self.database) {
            let _ = std::fs::remove_file(&self.database);
        }
    }
}

/// Makes the folder and those above it. One that is there keeps its mode: its owner chose it.
fn make_private(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder"),
        _ => error,
    })
}

/// Fails if the database is missing or empty while its log, or the key of its secrets, is there: a new one would hide that it was lost.
fn refuse_lost(database: &Path) -> Result<(), OpenError> {
    let bytes = database.metadata().ok().map(|file| file.len());
    // The key may be brought before the first start; an empty file comes with it only if somebody emptied it.
    let is_store = database.file_name().is_some_and(|name| name == super::DATABASE_FILE);
    let has_key = is_store && database.with_file_name(vault::KEY_FILE).exists();
    let beside = match bytes {
        None | Some(0) if has_log(database) => log_of(database).display().to_string(),
        Some(0) if has_key => database.with_file_name(vault::KEY_FILE).display().to_string(),
        _ => return Ok(()),
    };
    Err(OpenError::Lost { path: database.to_owned(), how: if bytes.is_none() { "missing" } else { "empty" }, beside })
}

fn log_of(database: &Path) -> PathBuf {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

fn has_log(database: &Path) -> bool {
    log_of(database).metadata().is_ok_and(|log| log.len() > 0)
}

/// Makes a file for its owner alone, also in a folder that others may read, or opens the one that is there. SQLite gives the log of a database the same
/// mode.
fn make_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_start_that_fails_leaves_no_empty_database_beside_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let (path, name) = (folder.path(), super::super::DATABASE_FILE);
        std::fs::write(path.join(vault::KEY_FILE), "a key").unwrap();
        for _ in 0..2 {
            let taken = Folder::take(path, name).expect("it is a first start");
            assert!(path.join(name).exists());
            drop(taken);
            assert!(!path.join(name).exists());
        }
        // What was written stays, and so does an empty file that this start did not make.
        let taken = Folder::take(path, name).unwrap();
        std::fs::write(path.join(name), "rows").unwrap();
        drop(taken);
        assert!(path.join(name).exists());
        std::fs::write(path.join(name), "").unwrap();
        assert!(matches!(Folder::take(path, name), Err(OpenError::Lost { .. })));
        assert!(path.join(name).exists());
    }
}
