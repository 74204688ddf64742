//! The locks that connections of one process hold on a file, and the memory that they share beside it.

use std::ptr::NonNull;

/// How many locks the shared memory of a database has.
const SHARED_LOCKS: usize = 8;

/// How far one connection has locked a file, in SQLite's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    Unlocked,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

/// The lock is another connection's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Busy;

/// Who holds what of a file: many may read, one of them may prepare to write, and alone it may write.
#[derive(Default)]
pub(super) struct FileLocks {
    sharing: u32,
    is_reserved: bool,
    is_pending: bool,
}

impl FileLocks {
    /// Raises a connection's lock from `held` to `wanted`; returns what it holds then, which on the way to exclusive may be less.
    pub(super) fn raise(&mut self, held: Level, wanted: Level) -> (Level, Result<(), Busy>) {
        if held >= wanted {
            return (held, Ok(()));
        }
        if held == Level::Unlocked {
            if self.is_pending {
                return (held, Err(Busy));
            }
            self.sharing += 1;
            return (Level::Shared, Ok(()));
        }
        if held == Level::Shared {
            if self.is_reserved {
                return (held, Err(Busy));
            }
            self.is_reserved = true;
            if wanted == Level::Reserved {
                return (Level::Reserved, Ok(()));
            }
        }
        self.is_pending = true;
        if self.sharing > 1 { (Level::Pending, Err(Busy)) } else { (Level::Exclusive, Ok(())) }
    }

    /// Lowers a connection's lock to shared or nothing.
    pub(super) fn lower(&mut self, held: Level, to: Level) {
        if held >= Level::Reserved && to < Level::Reserved {
            self.is_reserved = false;
            self.is_pending = false;
        }
        if held >= Level::Shared && to == Level::Unlocked {
            self.sharing -= 1;
        }
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.is_reserved
    }
}

/// Memory that the connections of one database share, with its locks.
#[derive(Default)]
pub(super) struct SharedMemory {
    regions: Vec<Region>,
    /// How many connections use it.
    users: u32,
    locks: [i32; SHARED_LOCKS],
}

/// A piece of shared memory. Words, so that it is aligned for whatever SQLite keeps in it.
struct Region(Box<[u64]>);

impl SharedMemory {
    /// One more connection uses it.
    pub(super) fn enter(&mut self) {
        self.users += 1;
    }

    /// One connection fewer; says whether it was the last.
    pub(super) fn leave(&mut self) -> bool {
        self.users -= 1;
        self.users == 0
    }

    /// The piece of this number, made with those before it if `extend` says so. It stays where it is until the memory is dropped.
    pub(super) fn region(&mut self, index: usize, bytes: usize, extend: bool) -> Option<NonNull<u8>> {
        while extend && self.regions.len() <= index {
            self.regions.push(Region(vec![0; bytes.div_ceil(size_of::<u64>())].into_boxed_slice()));
        }
        self.regions.get_mut(index).and_then(|region| NonNull::new(region.0.as_mut_ptr().cast()))
    }

    /// Takes some of the locks for reading: any number of connections may.
    pub(super) fn share(&mut self, range: std::ops::Range<usize>) -> Result<(), Busy> {
        let locks = &mut self.locks[range];
        if locks.iter().any(|lock| *lock < 0) {
            return Err(Busy);
        }
        locks.iter_mut().for_each(|lock| *lock += 1);
        Ok(())
    }

    /// Takes some of the locks alone.
    pub(super) fn exclude(&mut self, range: std::ops::Range<usize>) -> Result<(), Busy> {
        let locks = &mut self.locks[range];
        if locks.iter().any(|lock| *lock != 0) {
            return Err(Busy);
        }
        locks.fill(-1);
        Ok(())
    }

    /// Gives locks back that were shared.
    pub(super) fn unshare(&mut self, range: std::ops::Range<usize>) {
        self.locks[range].iter_mut().for_each(|lock| *lock = (*lock - 1).max(0));
    }

    /// Gives locks back that were held alone.
    pub(super) fn readmit(&mut self, range: std::ops::Range<usize>) {
        self.locks[range].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_may_write_when_all_others_are_gone() {
        let mut locks = FileLocks::default();
        assert_eq!(locks.raise(Level::Unlocked, Level::Shared), (Level::Shared, Ok(())));
        assert_eq!(locks.raise(Level::Unlocked, Level::Shared), (Level::Shared, Ok(())));
        assert_eq!(locks.raise(Level::Shared, Level::Reserved), (Level::Reserved, Ok(())));
        assert_eq!(locks.raise(Level::Shared, Level::Reserved), (Level::Shared, Err(Busy)));
        assert_eq!(locks.raise(Level::Reserved, Level::Exclusive), (Level::Pending, Err(Busy)));
        assert_eq!(locks.raise(Level::Unlocked, Level::Shared), (Level::Unlocked, Err(Busy)), "nobody new while one waits to write");
        locks.lower(Level::Shared, Level::Unlocked);
        assert_eq!(locks.raise(Level::Pending, Level::Exclusive), (Level::Exclusive, Ok(())));
        locks.lower(Level::Exclusive, Level::Unlocked);
        assert_eq!(locks.raise(Level::Unlocked, Level::Shared), (Level::Shared, Ok(())));
    }

    #[test]
    fn shared_memory_is_read_by_many_or_written_by_one() {
        let mut memory = SharedMemory::default();
        assert_eq!(memory.share(0..1), Ok(()));
        assert_eq!(memory.share(0..2), Ok(()));
        assert_eq!(memory.exclude(1..3), Err(Busy));
        memory.unshare(0..2);
        assert_eq!(memory.exclude(1..3), Ok(()));
        assert_eq!(memory.share(2..3), Err(Busy));
        memory.readmit(1..3);
        assert_eq!(memory.share(2..3), Ok(()));
    }
}
