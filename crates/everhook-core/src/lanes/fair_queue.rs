//! A queue in which owners take turns, however many entries each has in it. Pure.

use std::{collections::VecDeque, hash::Hash};

use rustc_hash::FxHashMap;

/// Entries of owners who take turns; those of one owner come in their order.
pub(super) struct FairQueue<O, T> {
    order: VecDeque<O>,
    by_owner: FxHashMap<O, VecDeque<T>>,
    len: usize,
}

impl<O, T> Default for FairQueue<O, T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), by_owner: FxHashMap::default(), len: 0 }
    }
}

impl<O: Copy + Eq + Hash, T> FairQueue<O, T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, owner: O, entry: T) {
        let entries = self.by_owner.entry(owner).or_default();
        if entries.is_empty() {
            self.order.push_back(owner);
        }
        entries.push_back(entry);
        self.len += 1;
    }

    /// The next entry of the owner whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let owner = self.order.pop_front()?;
        let entries = self.by_owner.get_mut(&owner)?;
        let entry = entries.pop_front()?;
        if entries.is_empty() {
            self.by_owner.remove(&owner);
        } else {
            self.order.push_back(owner);
        }
        self.len -= 1;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_take_turns_and_nothing_is_lost() {
        let mut queue = FairQueue::default();
        (0..5).for_each(|n| queue.push("many", n));
        queue.push("few", 10);
        assert_eq!((queue.pop(), queue.pop(), queue.len()), (Some(0), Some(10), 4));
        queue.push("few", 11);
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [1, 11, 2, 3, 4]);
        assert!(queue.by_owner.is_empty() && queue.order.is_empty() && queue.len() == 0);
    }
}
