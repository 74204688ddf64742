//! What matching a pattern costs, found out when its schema is defined.
//!
//! Matching takes time in proportion to the text, but the factor depends on the pattern: as long as all states of its deterministic automaton fit
//! into the matcher's cache, a byte takes a nanosecond or two. Otherwise (`[ab]*a[ab]{200}` has 2^200 states) the matcher follows all states of the
//! nondeterministic automaton at each byte, which takes up to thousands of times as long. So the automata are explored here, within bounds.

use regex_automata::{
    Anchored,
    hybrid::{LazyStateID, dfa},
    nfa::thompson::{self, NFA, WhichCaptures},
    util::start,
};
use rustc_hash::FxHashSet;

/// How large one compiled pattern may become, in bytes.
pub(super) const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// How large the cache of a pattern's matcher may become, in bytes. Each thread that matches may have two of them.
pub(super) const PATTERN_CACHE_BYTES: usize = 64 * 1024;

/// How many threads are reckoned with that match at the same time, for what a schema takes in memory.
const THREADS: usize = 3;

/// How much exploring all patterns of a schema may take, in transitions weighted by the size of the automaton: some 50 ms.
const EXPLORATION_MAX: usize = 50_000;

/// What calling the matcher takes beside matching, in units.
const CALL_UNITS: u64 = 4;

/// How many bytes a deterministic automaton matches in a unit.
const BYTES_A_UNIT: u64 = 8;

/// How many states of a nondeterministic automaton are followed in a unit.
const STATES_A_UNIT: u64 = 8;

/// What matching a pattern costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct PatternCost {
    /// Its states, if they must be followed at each byte.
    states: Option<u64>,
    /// What it takes in memory, in bytes.
    pub(super) memory_bytes: u64,
}

impl PatternCost {
    /// What matching a text of this length costs at most, in units.
    pub(super) const fn units(self, text_bytes: usize) -> u64 {
        let bytes = text_bytes as u64;
        match self.states {
            None => CALL_UNITS + bytes / BYTES_A_UNIT,
            Some(states) => CALL_UNITS + bytes.saturating_mul(states) / STATES_A_UNIT,
        }
    }
}

/// How much exploring all patterns of the schemas of one manifest may take: some 200 ms. Patterns beyond it count with all their states.
const EXPLORATION_OF_MANIFEST_MAX: usize = 4 * EXPLORATION_MAX;

/// Explores the patterns of the schemas that are compiled together.
pub(super) struct Explorer {
    left: usize,
}

impl Explorer {
    /// For one schema.
    pub(super) const fn new() -> Self {
        Self { left: EXPLORATION_MAX }
    }

    /// For all schemas of a manifest.
    pub(super) const fn of_manifest() -> Self {
        Self { left: EXPLORATION_OF_MANIFEST_MAX }
    }

    /// Finds out what matching a pattern costs.
    ///
    /// # Errors
    /// What is wrong with it, in words for its author.
    pub(super) fn measure(&mut self, pattern: &str) -> Result<PatternCost, String> {
        let shown: String = pattern.chars().take(60).collect();
        let unreadable = || {
            format!(
                "has the pattern `{shown}`, which cannot be read: it must be a regular expression without back-references and look-around"
            )
        };
        let translated = jsonschema_regex::to_rust_regex(pattern).map_err(|()| unreadable())?;
        let too_large = |error: Box<thompson::BuildError>| match error.size_limit() {
            Some(_) => format!(
                "has the pattern `{shown}`, which is too large compiled: at most {PATTERN_BYTES_MAX} bytes, so use smaller repetitions"
            ),
            None => unreadable(),
        };
        let forward = compile(&translated, Direction::Forward).map_err(too_large)?;
        let backward = compile(&translated, Direction::Backward).map_err(too_large)?;
        let (nfa_bytes, states) = (forward.memory_usage() + backward.memory_usage(), forward.states().len().max(backward.states().len()));
        let caches = self.explore(forward, Direction::Forward).zip(self.explore(backward, Direction::Backward));
        let cache_bytes = caches.map_or(2 * PATTERN_CACHE_BYTES, |(forward, backward)| forward + backward);
        let states = if caches.is_some() { None } else { Some(states as u64) };
        Ok(PatternCost { states, memory_bytes: (2 * nfa_bytes + THREADS * cache_bytes) as u64 })
    }

    /// Visits every state of the deterministic automaton, as the matcher would make it: what its cache takes then, in bytes. `None` if it does not fit,
    /// or if that is not found out within bounds.
    fn explore(&mut self, nfa: NFA, direction: Direction) -> Option<usize> {
        // Beside such a boundary the matcher gives the deterministic automaton up at the first letter that is not ASCII.
        if nfa.look_set_any().contains_word_unicode() {
            return None;
        }
        let step = 1 + nfa.states().len() / 64;
        let dfa = dfa::Builder::new().configure(dfa::Config::new().cache_capacity(PATTERN_CACHE_BYTES)).build_from_nfa(nfa).ok()?;
        let mut cache = dfa.create_cache();
        let anchored = if direction == Direction::Forward { Anchored::No } else { Anchored::Yes };
        let first = dfa.start_state(&mut cache, &start::Config::new().anchored(anchored)).ok()?;
        let bytes: Vec<u8> = dfa.byte_classes().representatives(..).filter_map(|unit| unit.as_u8()).collect();
        let (mut seen, mut open) = (FxHashSet::<LazyStateID>::default(), vec![first]);
        while let Some(state) = open.pop() {
            self.left = self.left.checked_sub(step)?;
            for byte in &bytes {
                self.left = self.left.checked_sub(1)?;
                let next = dfa.next_state(&mut cache, state, *byte).ok()?;
                if cache.clear_count() > 0 {
                    return None;
                }
                // Whether there is a match is all that is asked, so that the first one ends the search.
                let is_end = next.is_dead() || next.is_quit() || (next.is_match() && direction == Direction::Forward);
                if !is_end && seen.insert(next) {
                    open.push(next);
                }
            }
        }
        Some(cache.memory_usage())
    }
}

/// Which way a text is read: patterns that are bound to the end of the text are matched from there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

fn compile(pattern: &str, direction: Direction) -> Result<NFA, Box<thompson::BuildError>> {
    let config = thompson::Config::new()
        .nfa_size_limit(Some(PATTERN_BYTES_MAX))
        .which_captures(WhichCaptures::None)
        .reverse(direction == Direction::Backward);
    thompson::Compiler::new().configure(config).build(pattern).map_err(Box::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_patterns_cost_by_the_length_of_the_text_alone() {
        let ordinary = [
            "^[a-z]+$",
            r"^\d{4}-\d{2}-\d{2}$",
            r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$",
            "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
            r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
            "^(EUR|USD|CHF)$",
            r"^https?:\/\/",
            "^.{1,20}$",
            r"^\w+([.-]\w+)*$",
        ];
        for pattern in ordinary {
            let cost = Explorer::new().measure(pattern).unwrap();
            assert_eq!(cost.states, None, "{pattern}");
            assert!(cost.memory_bytes < 500_000, "{pattern}: {cost:?}");
        }
    }

    #[test]
    fn patterns_with_too_many_states_cost_their_states_at_each_byte() {
        // The second has few states read from the front and too many from the end, where the matcher begins.
        for pattern in ["[ab]*a[ab]{200}c", "[ab]{40}a[ab]*$", "^.{1,200}$"] {
            let cost = Explorer::new().measure(pattern).unwrap();
            assert!(cost.states.is_some_and(|states| states > 40), "{pattern}: {cost:?}");
        }
    }

    #[test]
    fn what_cannot_be_compiled_or_becomes_too_large_is_refused() {
        for (pattern, words) in
            [(r"(a+)\1", "back-references"), ("a(?=b)", "look-around"), ("((a{100}){100}){10}", "too large"), ("(", "cannot be read")]
        {
            let reason = Explorer::new().measure(pattern).unwrap_err();
            assert!(reason.contains(words), "{pattern}: {reason}");
        }
    }
}
