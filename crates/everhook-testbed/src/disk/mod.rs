//! A disk that loses power: files in memory, of which a power cut keeps what was synced and any part of the rest.
//!
//! A simulated process that dies leaves the files as they were at that instant; a power cut leaves one of the states that a real disk could be in.
//! SQLite reaches the disk through `vfs`; nothing else does. Files outside the folders of such disks are the real system's.

mod files;
mod locks;
#[cfg(test)]
mod tests;
mod vfs;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use files::Survival;
pub use vfs::{Mounted, mount};

use self::{
    files::{Files, Op},
    locks::{FileLocks, SharedMemory},
};
use crate::dice::Dice;

/// The disk refuses, because the power is off: nobody is there to hear of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PowerIsOff;

/// Why the disk does not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotWritten {
    PowerIsOff,
    Full,
}

/// Whether the disk does what `fsync` promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncing {
    /// What was synced survives.
    Honest,
    /// Nothing is ever synced: for a test of the tests, which must notice.
    Ignored,
}

/// One disk. It survives the processes that use it.
pub struct Disk(Mutex<State>);

struct State {
    files: Files,
    locks: BTreeMap<String, FileLocks>,
    shared_memory: BTreeMap<String, SharedMemory>,
    syncing: Syncing,
    power: Power,
    is_full: bool,
    open_files: usize,
}

/// Whether the disk works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    /// It goes off after so many further changes: in the middle of whatever is being written then.
    OnFor(u64),
    Off,
}

impl Disk {
    /// An empty disk, switched on.
    pub fn new(syncing: Syncing) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            files: Files::default(),
            locks: BTreeMap::new(),
            shared_memory: BTreeMap::new(),
            syncing,
            power: Power::On,
            is_full: false,
            open_files: 0,
        })))
    }

    /// Switches off: from now on nothing is read or written, whatever the dying process still tries.
    pub fn power_off(&self) {
        self.state().power = Power::Off;
    }

    /// Switches off after `changes` further writes, truncations, syncs and deletions.
    pub fn power_off_after(&self, changes: u64) {
        let mut state = self.state();
        if state.power != Power::Off {
            state.power = Power::OnFor(changes);
        }
    }

    /// Whether it is off.
    pub fn is_off(&self) -> bool {
        self.state().power == Power::Off
    }

    /// Fills it up: nothing can be written until it is [freed](Self::free).
    pub fn fill(&self) {
        self.state().is_full = true;
    }

    /// Makes space.
    pub fn free(&self) {
        self.state().is_full = false;
    }

    /// Whether it is full.
    pub fn is_full(&self) -> bool {
        self.state().is_full
    }

    /// Switches on again, with what survived. Every process that had a file open must be gone.
    pub fn power_on(&self, survival: Survival, dice: &Dice) {
        let mut state = self.state();
        assert_eq!(state.open_files, 0, "a process that died still has files open");
        state.files.survive(survival, dice);
        state.locks.clear();
        state.shared_memory.clear();
        state.power = Power::On;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the files, unless the power is off or goes off just before.
    fn change<T>(&self, change: impl FnOnce(&mut Files) -> T) -> Result<T, PowerIsOff> {
        let mut state = self.state();
        state.power = match state.power {
            Power::On => Power::On,
            Power::OnFor(0) | Power::Off => Power::Off,
            Power::OnFor(changes) => Power::OnFor(changes - 1),
        };
        if state.power == Power::Off { Err(PowerIsOff) } else { Ok(change(&mut state.files)) }
    }

    fn look<T>(&self, look: impl FnOnce(&Files) -> T) -> Result<T, PowerIsOff> {
        let state = self.state();
        if state.power == Power::Off { Err(PowerIsOff) } else { Ok(look(&state.files)) }
    }

    fn open(&self, name: &str) -> Result<(), PowerIsOff> {
        let mut state = self.state();
        if state.power == Power::Off {
            return Err(PowerIsOff);
        }
        state.files.make(name);
        state.open_files += 1;
        Ok(())
    }

    fn closed(&self) {
        self.state().open_files -= 1;
    }

    fn write(&self, name: &str, offset: usize, bytes: &[u8]) -> Result<(), NotWritten> {
        if self.is_full() && !self.is_off() {
            return Err(NotWritten::Full);
        }
        let write = Op::Write { offset, bytes: bytes.to_vec() };
        self.change(|files| files.apply(name, write)).map_err(|PowerIsOff| NotWritten::PowerIsOff)
    }

    fn truncate(&self, name: &str, size: usize) -> Result<(), PowerIsOff> {
        self.change(|files| files.apply(name, Op::Truncate { size }))
    }

    fn sync(&self, name: &str) -> Result<(), PowerIsOff> {
        let is_honest = self.is_honest();
        self.change(|files| {
            if is_honest {
                files.sync(name)
            }
        })
    }

    fn sync_folder(&self) -> Result<(), PowerIsOff> {
        let is_honest = self.is_honest();
        self.change(|files| {
            if is_honest {
                files.sync_folder()
            }
        })
    }

    fn delete(&self, name: &str, durably: bool) -> Result<bool, PowerIsOff> {
        let durably = durably && self.is_honest();
        self.change(|files| files.delete(name, durably))
    }

    fn is_honest(&self) -> bool {
        self.state().syncing == Syncing::Honest
    }
}
