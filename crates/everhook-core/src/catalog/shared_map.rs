//! A hash map whose copies share their nodes. Copying the map copies one pointer; changing one entry of a copy copies the few nodes on the path to it,
//! however large the map is, and leaves every other copy as it was.
//!
//! Used by the catalog: a reader keeps the application as it was when it began, while a change of one endpoint makes the next version of it.

use std::{
    hash::{Hash, Hasher as _},
    sync::Arc,
};

use rustc_hash::FxHasher;

/// How many children a branch has. Small, because a change copies one branch of each level.
const FANOUT: usize = 16;

/// How many bits of a hash choose among them.
const BITS_A_LEVEL: u32 = 4;

/// Below this depth no bits of the hash are left: entries with one hash share a leaf.
const DEPTH_MAX: u32 = u64::BITS / BITS_A_LEVEL;

/// How many entries a leaf has before it becomes a branch. Larger leaves have fewer headers, and a change copies one of them.
const LEAF_MAX: usize = 32;

/// A map with cheap copies.
pub(super) struct SharedMap<K, V> {
    root: Node<K, V>,
    len: usize,
}

enum Node<K, V> {
    Empty,
    Leaf(Arc<Vec<(K, V)>>),
    Branch(Arc<[Node<K, V>; FANOUT]>),
}

impl<K, V> Clone for Node<K, V> {
    fn clone(&self) -> Self {
        match self {
            Self::Empty => Self::Empty,
            Self::Leaf(entries) => Self::Leaf(entries.clone()),
            Self::Branch(children) => Self::Branch(children.clone()),
        }
    }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), len: self.len }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { root: Node::Empty, len: 0 }
    }
}

impl<K, V> SharedMap<K, V> {
    /// How many entries it has.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All entries, in no particular order.
    pub(super) fn for_each<'a>(&'a self, mut visit: impl FnMut(&'a K, &'a V)) {
        let mut open = vec![&self.root];
        while let Some(node) = open.pop() {
            match node {
                Node::Empty => {}
                Node::Leaf(entries) => entries.iter().for_each(|(key, value)| visit(key, value)),
                Node::Branch(children) => open.extend(children.iter()),
            }
        }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> SharedMap<K, V> {
    /// The value of a key.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let (mut node, hash, mut depth) = (&self.root, hash_of(key), 0);
        loop {
            match node {
                Node::Empty => return None,
                Node::Leaf(entries) => return entries.iter().find(|(known, _)| known == key).map(|(_, value)| value),
                Node::Branch(children) => node = &children[child(hash, depth)],
            }
            depth += 1;
        }
    }

    /// Sets the value of a key, and returns the one that it had.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = hash_of(&key);
        let replaced = self.root.insert(hash, 0, key, value);
        self.len += usize::from(replaced.is_none());
        replaced
    }

    /// Removes a key, and returns the value that it had.
    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        // Looked up first, so that nothing is copied for a key that is not there.
        self.get(key)?;
        let removed = self.root.remove(hash_of(key), 0, key);
        self.len -= usize::from(removed.is_some());
        removed
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Node<K, V> {
    fn insert(&mut self, hash: u64, depth: u32, key: K, value: V) -> Option<V> {
        match self {
            Self::Empty => {
                *self = Self::Leaf(Arc::new(vec![(key, value)]));
                None
            }
            Self::Branch(children) => Arc::make_mut(children)[child(hash, depth)].insert(hash, depth + 1, key, value),
            Self::Leaf(entries) => {
                if let Some(place) = entries.iter().position(|(known, _)| *known == key) {
                    return Some(std::mem::replace(&mut Arc::make_mut(entries)[place].1, value));
                }
                if entries.len() < LEAF_MAX || depth >= DEPTH_MAX {
                    let entries = Arc::make_mut(entries);
                    // Room for one more and no others: there are many leaves, and each is changed rarely.
                    entries.reserve_exact(1);
                    entries.push((key, value));
                    return None;
                }
                let mut branch = Self::split(entries, depth);
                branch.insert(hash, depth, key, value);
                *self = branch;
                None
            }
        }
    }

    fn split(entries: &[(K, V)], depth: u32) -> Self {
        let mut children: [Self; FANOUT] = std::array::from_fn(|_| Self::Empty);
        for (key, value) in entries {
            let hash = hash_of(key);
            children[child(hash, depth)].insert(hash, depth + 1, key.clone(), value.clone());
        }
        Self::Branch(Arc::new(children))
    }

    fn remove(&mut self, hash: u64, depth: u32, key: &K) -> Option<V> {
        match self {
            Self::Empty => None,
            Self::Branch(children) => Arc::make_mut(children)[child(hash, depth)].remove(hash, depth + 1, key),
            Self::Leaf(entries) => {
                let place = entries.iter().position(|(known, _)| known == key)?;
                let (_, removed) = Arc::make_mut(entries).swap_remove(place);
                if entries.is_empty() {
                    *self = Self::Empty;
                }
                Some(removed)
            }
        }
    }
}

fn hash_of(key: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

fn child(hash: u64, depth: u32) -> usize {
    (hash >> (depth * BITS_A_LEVEL)) as usize % FANOUT
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Numbers that are spread well enough, the same in every run.
    fn numbers(seed: u64) -> impl Iterator<Item = u64> {
        let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        std::iter::successors(Some(seed), next).skip(1).map(|state| state >> 33)
    }

    fn entries<V: Clone + Ord>(map: &SharedMap<u64, V>) -> BTreeMap<u64, V> {
        let mut found = BTreeMap::new();
        map.for_each(|key, value| assert!(found.insert(*key, value.clone()).is_none(), "the key {key} is there twice"));
        found
    }

    #[test]
    fn it_holds_what_an_ordinary_map_holds_after_any_sequence_of_changes() {
        for seed in 0..20 {
            let (mut map, mut model, mut numbers) = (SharedMap::default(), BTreeMap::new(), numbers(seed));
            for step in 0..5_000_u64 {
                let (choice, key) = (numbers.next().unwrap(), numbers.next().unwrap() % 700);
                if choice.is_multiple_of(3) {
                    assert_eq!(map.remove(&key), model.remove(&key), "seed {seed}, step {step}");
                } else {
                    assert_eq!(map.insert(key, step), model.insert(key, step), "seed {seed}, step {step}");
                }
            }
            assert_eq!((entries(&map), map.len()), (model.clone(), model.len()), "seed {seed}");
            assert!((0..700).all(|key| map.get(&key) == model.get(&key)), "seed {seed}");
        }
    }

    #[test]
    fn a_change_of_a_copy_leaves_the_others_as_they_were() {
        let mut map = SharedMap::default();
        (0..10_000_u64).for_each(|key| assert_eq!(map.insert(key, 0), None));
        let before = map.clone();
        map.insert(5, 1);
        map.insert(20_000, 1);
        map.remove(&7);
        assert_eq!((before.len(), before.get(&5), before.get(&7), before.get(&20_000)), (10_000, Some(&0), Some(&0), None));
        assert_eq!((map.len(), map.get(&5), map.get(&7), map.get(&20_000)), (10_000, Some(&1), None, Some(&1)));
    }

    /// Keys that all have one hash, as a tenant could choose names that do.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Colliding(u32);

    impl Hash for Colliding {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            state.write_u8(1);
        }
    }

    #[test]
    fn keys_with_one_hash_are_told_apart() {
        let mut map = SharedMap::default();
        (0..100).for_each(|key| assert_eq!(map.insert(Colliding(key), key), None));
        assert!((0..100).all(|key| map.get(&Colliding(key)) == Some(&key)));
        assert_eq!((map.remove(&Colliding(50)), map.get(&Colliding(50)), map.len()), (Some(50), None, 99));
    }

    #[test]
    fn a_change_copies_a_few_nodes_however_large_the_map_is() {
        let copied = |size: u64| {
            let mut map = SharedMap::default();
            (0..size).for_each(|key| assert_eq!(map.insert(key, ()), None));
            let before = map.clone();
            map.insert(size, ());
            let known = nodes(&before.root);
            nodes(&map.root).difference(&known).count()
        };
        assert!([10, 1_000, 100_000].map(copied).into_iter().all(|nodes| nodes <= 8));
    }

    fn nodes<K, V>(root: &Node<K, V>) -> std::collections::BTreeSet<usize> {
        let (mut found, mut open) = (std::collections::BTreeSet::new(), vec![root]);
        while let Some(node) = open.pop() {
            match node {
                Node::Empty => {}
                Node::Leaf(entries) => drop(found.insert(Arc::as_ptr(entries) as *const u8 as usize)),
                Node::Branch(children) => {
                    found.insert(Arc::as_ptr(children) as *const u8 as usize);
                    open.extend(children.iter());
                }
            }
        }
        found
    }
}
