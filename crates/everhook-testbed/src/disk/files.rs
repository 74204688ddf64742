//! What is in the files, what of it is durable, and which states a power cut may leave. Pure but for the dice.

use std::collections::BTreeMap;

use crate::dice::Dice;

/// The unit that a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// What an interruption leaves of the changes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// All of them: the process died, the system did not.
    Everything,
    /// None.
    Synced,
    /// Those up to some instant, the last of them perhaps torn.
    Beginning,
    /// Each by its own luck: kept, dropped, or torn into sectors. Later ones may survive earlier ones.
    Scattered,
}

/// A change of one file.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { size: usize },
}

/// The files of one disk, by name.
#[derive(Default)]
pub(super) struct Files {
    files: BTreeMap<String, File>,
    /// Deleted, but the directory was not synced: a cut may bring them back as they were when last synced.
    ghosts: BTreeMap<String, Vec<u8>>,
    changes: u64,
}

#[derive(Default)]
struct File {
    /// As processes see it.
    content: Vec<u8>,
    /// As it was when last synced.
    synced: Vec<u8>,
    /// Whether its name is durable: a cut may lose a file that was never synced whole.
    is_listed: bool,
    /// What changed since, with the number of the change.
    unsynced: Vec<(u64, Op)>,
}

impl Files {
    pub(super) fn exists(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    pub(super) fn make(&mut self, name: &str) {
        self.files.entry(name.to_owned()).or_default();
    }

    pub(super) fn size(&self, name: &str) -> usize {
        self.files.get(name).map_or(0, |file| file.content.len())
    }

    /// Reads what is there, and says how many bytes that is.
    pub(super) fn read(&self, name: &str, offset: usize, into: &mut [u8]) -> usize {
        let content = self.files.get(name).map_or(&[][..], |file| &file.content);
        let from = content.get(offset..).unwrap_or_default();
        let length = from.len().min(into.len());
        into[..length].copy_from_slice(&from[..length]);
        length
    }

    pub(super) fn apply(&mut self, name: &str, op: Op) {
        self.changes += 1;
        let file = self.files.entry(name.to_owned()).or_default();
        op.apply(&mut file.content);
        file.unsynced.push((self.changes, op));
    }

    /// Makes a file durable, and its name: what ext4, XFS and Btrfs do when a new file is synced.
    pub(super) fn sync(&mut self, name: &str) {
        let Some(file) = self.files.get_mut(name) else { return };
        file.unsynced.drain(..).for_each(|(_, op)| op.apply(&mut file.synced));
        file.is_listed = true;
    }

    /// Makes durable which files there are.
    pub(super) fn sync_folder(&mut self) {
        self.files.values_mut().for_each(|file| file.is_listed = true);
        self.ghosts.clear();
    }

    /// Deletes a file; says whether there was one.
    pub(super) fn delete(&mut self, name: &str, durably: bool) -> bool {
        let Some(file) = self.files.remove(name) else { return false };
        if file.is_listed {
            self.ghosts.insert(name.to_owned(), file.synced);
        }
        if durably {
            self.sync_folder();
        }
        true
    }

    /// Leaves what an interruption leaves. After a cut, what is there is durable.
    pub(super) fn survive(&mut self, survival: Survival, dice: &Dice) {
        if survival == Survival::Everything {
            return;
        }
        let until = self.last_survivor(survival, dice);
        let ghosts = std::mem::take(&mut self.ghosts);
        for (name, file) in std::mem::take(&mut self.files) {
            let is_listed = file.is_listed || (survival != Survival::Synced && dice.below(2) == 0);
            let content = file.survive(survival, until, dice);
            if is_listed {
                self.files.insert(name, File::durable(content));
            }
        }
        for (name, content) in ghosts {
            if !self.files.contains_key(&name) && dice.below(2) == 0 {
                self.files.insert(name, File::durable(content));
            }
        }
    }

    /// The last change of all files that survives a cut which keeps a beginning.
    fn last_survivor(&self, survival: Survival, dice: &Dice) -> u64 {
        let unsynced = || self.files.values().flat_map(|file| file.unsynced.iter().map(|(number, _)| *number));
        match (survival, unsynced().min(), unsynced().max()) {
            (Survival::Beginning, Some(first), Some(last)) => first - 1 + dice.below(last - first + 2),
            _ => 0,
        }
    }
}

impl File {
    fn durable(content: Vec<u8>) -> Self {
        Self { synced: content.clone(), content, is_listed: true, unsynced: Vec::new() }
    }

    fn survive(self, survival: Survival, until: u64, dice: &Dice) -> Vec<u8> {
        let mut content = self.synced;
        for (number, op) in self.unsynced {
            match survival {
                Survival::Everything => op.apply(&mut content),
                Survival::Synced => {}
                Survival::Beginning if number < until => op.apply(&mut content),
                Survival::Beginning if number == until => op.tear(&mut content, dice),
                Survival::Beginning => {}
                Survival::Scattered => match dice.below(3) {
                    0 => op.apply(&mut content),
                    1 => op.tear(&mut content, dice),
                    _ => {}
                },
            }
        }
        content
    }
}

impl Op {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => put(content, *offset, bytes),
            Self::Truncate { size } => content.truncate(*size),
        }
    }

    /// Applies some of its sectors. Bytes outside the write are never touched, as SQLite assumes of every disk.
    fn tear(&self, content: &mut Vec<u8>, dice: &Dice) {
        match self {
            Self::Truncate { .. } => self.apply(content),
            Self::Write { offset, bytes } => {
                let mut at = 0;
                while at < bytes.len() {
                    let to_boundary = SECTOR_BYTES - (offset + at) % SECTOR_BYTES;
                    let end = (at + to_boundary).min(bytes.len());
                    if dice.below(2) == 0 {
                        put(content, offset + at, &bytes[at..end]);
                    }
                    at = end;
                }
            }
        }
    }
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUTS: [Survival; 3] = [Survival::Synced, Survival::Beginning, Survival::Scattered];

    fn write(files: &mut Files, offset: usize, byte: u8, length: usize) {
        files.apply("db", Op::Write { offset, bytes: vec![byte; length] });
    }

    fn content(files: &Files) -> Vec<u8> {
        let mut content = vec![0; files.size("db")];
        files.read("db", 0, &mut content);
        content
    }

    #[test]
    fn what_was_synced_survives_every_cut() {
        for cut in CUTS {
            for seed in 0..50 {
                let mut files = Files::default();
                write(&mut files, 0, 1, 2_000);
                files.sync("db");
                write(&mut files, 2_000, 2, 2_000);
                files.survive(cut, &Dice::new(seed));
                assert_eq!(content(&files)[..2_000], [1; 2_000], "{cut:?}, seed {seed}");
            }
        }
    }

    #[test]
    fn what_was_not_synced_may_be_kept_lost_or_torn() {
        let outcomes = |cut| {
            let mut sizes: Vec<usize> = Vec::new();
            for seed in 0..200 {
                let mut files = Files::default();
                write(&mut files, 0, 1, 100);
                files.sync("db");
                write(&mut files, 1_024, 2, 1_024);
                files.survive(cut, &Dice::new(seed));
                sizes.push(content(&files).iter().filter(|byte| **byte == 2).count());
            }
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        };
        assert_eq!(outcomes(Survival::Synced), [0]);
        assert_eq!(outcomes(Survival::Scattered), [0, 512, 1_024]);
        assert_eq!(outcomes(Survival::Beginning), [0, 512, 1_024]);
    }

    #[test]
    fn a_deletion_that_was_not_synced_may_be_undone() {
        let back = |durably| {
            let survived = |seed| {
                let mut files = Files::default();
                write(&mut files, 0, 1, 100);
                files.sync("db");
                assert!(files.delete("db", durably));
                files.survive(Survival::Scattered, &Dice::new(seed));
                files.exists("db")
            };
            (0..100).filter(|seed| survived(*seed)).count()
        };
        assert_eq!(back(true), 0);
        assert!((1..100).contains(&back(false)));
    }

    #[test]
    fn syncing_the_folder_makes_earlier_deletions_durable() {
        for seed in 0..50 {
            let mut files = Files::default();
            write(&mut files, 0, 1, 100);
            files.sync("db");
            files.delete("db", false);
            files.sync_folder();
            files.survive(Survival::Scattered, &Dice::new(seed));
            assert!(!files.exists("db"), "seed {seed}");
        }
    }

    #[test]
    fn a_dead_process_leaves_everything_and_what_it_left_is_still_not_synced() {
        let mut files = Files::default();
        write(&mut files, 0, 1, 100);
        files.survive(Survival::Everything, &Dice::new(1));
        assert_eq!(content(&files), [1; 100]);
        files.survive(Survival::Synced, &Dice::new(1));
        assert!(!files.exists("db"));
    }
}
