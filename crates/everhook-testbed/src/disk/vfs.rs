//! How SQLite reaches a [`Disk`]: a virtual file system over C function pointers, the only `unsafe` code of the workspace (decision 0013).
//!
//! It becomes the process's default, so that the store needs no door for it: files in a mounted folder are the disk's, and all others go to the
//! file system that was the default before. Nothing is decided here; each function turns pointers into values and calls the disk.
#![allow(unsafe_code)]

use std::{
    collections::BTreeMap,
    ffi::{CStr, c_char, c_int, c_void},
    path::{Path, PathBuf},
    ptr::{self, NonNull},
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError},
};

use rusqlite::ffi;

use super::{
    Disk, NotWritten,
    locks::{Busy, Level},
};

/// What SQLite takes for the unit of damage; it is also what the system's own file system says.
const SECTOR_BYTES: c_int = 4_096;

static INSTALLED: Once = Once::new();
static MOUNTS: Mutex<BTreeMap<PathBuf, Arc<Disk>>> = Mutex::new(BTreeMap::new());

/// A folder whose files are a disk's until this is dropped.
pub struct Mounted {
    folder: PathBuf,
}

/// From now on the files that SQLite opens in `folder` are on `disk`.
pub fn mount(folder: &Path, disk: &Arc<Disk>) -> Mounted {
    INSTALLED.call_once(install);
    let folder = folder.canonicalize().expect("the folder exists");
    mounts().insert(folder.clone(), disk.clone());
    Mounted { folder }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        mounts().remove(&self.folder);
    }
}

fn mounts() -> MutexGuard<'static, BTreeMap<PathBuf, Arc<Disk>>> {
    MOUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts our file system in front of the default one. It stays until the process ends, so its memory is leaked on purpose.
fn install() {
    // SAFETY: SQLite is initialized first, a null name asks for the default, and the copy keeps every function that is not replaced. Those that
    // take the file system itself are replaced or do not look at it.
    unsafe {
        assert_eq!(ffi::sqlite3_initialize(), ffi::SQLITE_OK, "SQLite starts");
        let base = ffi::sqlite3_vfs_find(ptr::null());
        assert!(!base.is_null(), "SQLite has a file system");
        let mut ours = *base;
        ours.szOsFile = ours.szOsFile.max(size_of::<Handle>() as c_int);
        ours.pNext = ptr::null_mut();
        ours.zName = c"disks".as_ptr();
        ours.pAppData = base.cast();
        ours.xOpen = Some(open);
        ours.xDelete = Some(delete);
        ours.xAccess = Some(access);
        let registered = ffi::sqlite3_vfs_register(Box::into_raw(Box::new(ours)), 1);
        assert_eq!(registered, ffi::SQLITE_OK, "the file system is registered");
    }
}

/// SQLite's view of an open file: it only looks at the first field.
#[repr(C)]
struct Handle {
    file: ffi::sqlite3_file,
    open: *mut Open,
}

/// An open file of a disk.
struct Open {
    disk: Arc<Disk>,
    name: String,
    level: Level,
    uses_shared_memory: bool,
    /// The first sync of a log or journal also syncs its folder, as on the real file system.
    syncs_folder: bool,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// The disk that a path is on, and its name there; `None` for a file of the real system, or a temporary one without a name.
unsafe fn place(path: *const c_char) -> Option<(Arc<Disk>, String)> {
    if path.is_null() {
        return None;
    }
    // SAFETY: SQLite's paths are terminated strings that outlive the call.
    let path = Path::new(unsafe { CStr::from_ptr(path) }.to_str().ok()?);
    let disk = mounts().get(path.parent()?)?.clone();
    Some((disk, path.file_name()?.to_str()?.to_owned()))
}

/// The file system that was the default before ours.
unsafe fn base_of(vfs: *mut ffi::sqlite3_vfs) -> *mut ffi::sqlite3_vfs {
    // SAFETY: `install` put it there, and file systems are never taken away.
    unsafe { (*vfs).pAppData.cast() }
}

unsafe fn open_of<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Open {
    // SAFETY: only files that `open` filled in have our methods, and SQLite uses a file from one thread at a time.
    unsafe { &mut *(*file.cast::<Handle>()).open }
}

fn code<E>(outcome: Result<(), E>, error: c_int) -> c_int {
    if outcome.is_ok() { ffi::SQLITE_OK } else { error }
}

fn busy(outcome: Result<(), Busy>) -> c_int {
    code(outcome, ffi::SQLITE_BUSY)
}

fn size(number: ffi::sqlite3_int64) -> usize {
    usize::try_from(number).expect("SQLite's offsets and lengths are not negative")
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    path: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: `file` has room for the larger of our handle and the base's; a file of the base gets the base's methods and is never seen again.
    unsafe {
        let Some((disk, name)) = place(path) else {
            let base = base_of(vfs);
            return (*base).xOpen.expect("every file system opens")(base, path, file, flags, flags_out);
        };
        (*file).pMethods = ptr::null();
        let is_there = disk.look(|files| files.exists(&name)) == Ok(true);
        if (!is_there && flags & ffi::SQLITE_OPEN_CREATE == 0) || disk.open(&name).is_err() {
            return ffi::SQLITE_CANTOPEN;
        }
        let syncs_folder = flags & (ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL) != 0;
        let open = Open { disk, name, level: Level::Unlocked, uses_shared_memory: false, syncs_folder };
        let open = Box::into_raw(Box::new(open));
        file.cast::<Handle>().write(Handle { file: ffi::sqlite3_file { pMethods: &METHODS }, open });
        if !flags_out.is_null() {
            *flags_out = flags;
        }
        ffi::SQLITE_OK
    }
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, path: *const c_char, sync_folder: c_int) -> c_int {
    // SAFETY: see `open`.
    unsafe {
        let Some((disk, name)) = place(path) else {
            let base = base_of(vfs);
            return (*base).xDelete.expect("every file system deletes")(base, path, sync_folder);
        };
        match disk.delete(&name, sync_folder != 0) {
            Ok(true) => ffi::SQLITE_OK,
            Ok(false) => ffi::SQLITE_IOERR_DELETE_NOENT,
            Err(_) => ffi::SQLITE_IOERR_DELETE,
        }
    }
}

unsafe extern "C" fn access(vfs: *mut ffi::sqlite3_vfs, path: *const c_char, flags: c_int, answer: *mut c_int) -> c_int {
    // SAFETY: see `open`; `answer` is SQLite's.
    unsafe {
        let Some((disk, name)) = place(path) else {
            let base = base_of(vfs);
            return (*base).xAccess.expect("every file system looks")(base, path, flags, answer);
        };
        // An empty file counts as none, as it does on the real file system.
        let Ok(found) = disk.look(|files| files.size(&name) > 0) else { return ffi::SQLITE_IOERR_ACCESS };
        *answer = c_int::from(found);
        ffi::SQLITE_OK
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once, and does not use it after.
    unsafe {
        unlock(file, ffi::SQLITE_LOCK_NONE);
        let open = Box::from_raw((*file.cast::<Handle>()).open);
        (*file).pMethods = ptr::null();
        open.disk.closed();
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, into: *mut c_void, length: c_int, offset: ffi::sqlite3_int64) -> c_int {
    // SAFETY: `into` has room for `length` bytes.
    let (open, into) = unsafe { (open_of(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), size(length.into()))) };
    match open.disk.look(|files| files.read(&open.name, size(offset), into)) {
        Err(_) => ffi::SQLITE_IOERR_READ,
        Ok(length) if length < into.len() => {
            into[length..].fill(0);
            ffi::SQLITE_IOERR_SHORT_READ
        }
        Ok(_) => ffi::SQLITE_OK,
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, length: c_int, offset: ffi::sqlite3_int64) -> c_int {
    // SAFETY: `from` has `length` bytes.
    let (open, from) = unsafe { (open_of(file), std::slice::from_raw_parts(from.cast::<u8>(), size(length.into()))) };
    match open.disk.write(&open.name, size(offset), from) {
        Ok(()) => ffi::SQLITE_OK,
        Err(NotWritten::Full) => ffi::SQLITE_FULL,
        Err(NotWritten::PowerIsOff) => ffi::SQLITE_IOERR_WRITE,
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: ffi::sqlite3_int64) -> c_int {
    // SAFETY: see `open_of`.
    let open = unsafe { open_of(file) };
    code(open.disk.truncate(&open.name, size(length)), ffi::SQLITE_IOERR_TRUNCATE)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: see `open_of`.
    let open = unsafe { open_of(file) };
    if open.disk.sync(&open.name).is_err() {
        return ffi::SQLITE_IOERR_FSYNC;
    }
    if std::mem::take(&mut open.syncs_folder) && open.disk.sync_folder().is_err() {
        return ffi::SQLITE_IOERR_DIR_FSYNC;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, answer: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: see `open_of`; `answer` is SQLite's.
    unsafe {
        let open = open_of(file);
        let Ok(length) = open.disk.look(|files| files.size(&open.name)) else { return ffi::SQLITE_IOERR_FSTAT };
        *answer = i64::try_from(length).expect("files in memory are small");
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, wanted: c_int) -> c_int {
    // SAFETY: see `open_of`.
    let open = unsafe { open_of(file) };
    let mut state = open.disk.state();
    let locks = state.locks.entry(open.name.clone()).or_default();
    let (held, outcome) = locks.raise(open.level, level(wanted));
    open.level = held;
    busy(outcome)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, to: c_int) -> c_int {
    // SAFETY: see `open_of`.
    let open = unsafe { open_of(file) };
    let mut state = open.disk.state();
    state.locks.entry(open.name.clone()).or_default().lower(open.level, level(to));
    open.level = open.level.min(level(to));
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, answer: *mut c_int) -> c_int {
    // SAFETY: see `open_of`; `answer` is SQLite's.
    unsafe {
        let open = open_of(file);
        *answer = c_int::from(open.disk.state().locks.entry(open.name.clone()).or_default().is_reserved());
    }
    ffi::SQLITE_OK
}

fn level(number: c_int) -> Level {
    match number {
        ffi::SQLITE_LOCK_NONE => Level::Unlocked,
        ffi::SQLITE_LOCK_SHARED => Level::Shared,
        ffi::SQLITE_LOCK_RESERVED => Level::Reserved,
        ffi::SQLITE_LOCK_PENDING => Level::Pending,
        _ => Level::Exclusive,
    }
}

unsafe extern "C" fn file_control(_file: *mut ffi::sqlite3_file, _operation: c_int, _argument: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    SECTOR_BYTES
}

/// What the system's own file system promises: a write damages nothing outside its bytes.
unsafe extern "C" fn device_characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(file: *mut ffi::sqlite3_file, index: c_int, bytes: c_int, extend: c_int, answer: *mut *mut c_void) -> c_int {
    // SAFETY: see `open_of`; `answer` is SQLite's, and the memory stays until the last connection has unmapped it.
    unsafe {
        let open = open_of(file);
        let mut state = open.disk.state();
        let memory = state.shared_memory.entry(open.name.clone()).or_default();
        if !open.uses_shared_memory {
            open.uses_shared_memory = true;
            memory.enter();
        }
        let region = memory.region(size(index.into()), size(bytes.into()), extend != 0);
        *answer = region.map_or(ptr::null_mut(), NonNull::as_ptr).cast();
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn shm_lock(file: *mut ffi::sqlite3_file, first: c_int, count: c_int, flags: c_int) -> c_int {
    const UNLOCK_SHARED: c_int = ffi::SQLITE_SHM_UNLOCK | ffi::SQLITE_SHM_SHARED;
    const UNLOCK_EXCLUSIVE: c_int = ffi::SQLITE_SHM_UNLOCK | ffi::SQLITE_SHM_EXCLUSIVE;
    const LOCK_SHARED: c_int = ffi::SQLITE_SHM_LOCK | ffi::SQLITE_SHM_SHARED;
    // SAFETY: see `open_of`.
    let open = unsafe { open_of(file) };
    let mut state = open.disk.state();
    let memory = state.shared_memory.entry(open.name.clone()).or_default();
    let range = size(first.into())..size((first + count).into());
    match flags {
        UNLOCK_SHARED => memory.unshare(range),
        UNLOCK_EXCLUSIVE => memory.readmit(range),
        LOCK_SHARED => return busy(memory.share(range)),
        _ => return busy(memory.exclude(range)),
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn shm_barrier(_file: *mut ffi::sqlite3_file) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: see `open_of`.
    let open = unsafe { open_of(file) };
    let mut state = open.disk.state();
    if std::mem::take(&mut open.uses_shared_memory)
        && let Some(memory) = state.shared_memory.get_mut(&open.name)
        && memory.leave()
    {
        state.shared_memory.remove(&open.name);
    }
    ffi::SQLITE_OK
}
