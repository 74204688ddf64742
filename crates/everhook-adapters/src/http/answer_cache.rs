//! What name servers answered, kept for a while. Called by `resolver`.
//!
//! Only the addresses are kept, at most 16 a name: a resolver's own cache keeps whole answers, of which a hostile zone can make 64 KiB each.

use std::{
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustc_hash::FxHashMap;

use super::resolver::ResolveError;

/// How many names are remembered: each is at most a kilobyte, so some megabytes.
const NAMES_MAX: usize = 4_096;

/// What a name resolves to, or why it does not.
pub(super) type Answer = Result<Vec<IpAddr>, ResolveError>;

/// Answers by name.
#[derive(Default)]
pub(super) struct AnswerCache {
    names: Mutex<FxHashMap<Box<str>, Kept>>,
}

struct Kept {
    answer: Answer,
    until: Instant,
}

impl AnswerCache {
    /// What is known of a name.
    pub(super) fn get(&self, name: &str, now: Instant) -> Option<Answer> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(name).filter(|kept| now < kept.until).map(|kept| kept.answer.clone())
    }

    /// Remembers an answer for so long.
    pub(super) fn put(&self, name: &str, answer: &Answer, lifetime: Duration, now: Instant) {
        if lifetime.is_zero() {
            return;
        }
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= NAMES_MAX {
            names.retain(|_, kept| now < kept.until);
        }
        // Any of them: it costs a look-up, and a hostile zone cannot choose which.
        if names.len() >= NAMES_MAX
            && let Some(forgotten) = names.keys().next().cloned()
        {
            names.remove(&forgotten);
        }
        names.insert(name.into(), Kept { answer: answer.clone(), until: now + lifetime });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_answer_is_known_for_its_lifetime() {
        let (cache, now) = (AnswerCache::default(), Instant::now());
        let address: Answer = Ok(vec!["192.0.2.1".parse().unwrap()]);
        cache.put("a.example", &address, SECOND, now);
        cache.put("b.example", &Err(ResolveError::NoSuchHost), SECOND, now);
        cache.put("c.example", &address, Duration::ZERO, now);
        assert_eq!(cache.get("a.example", now), Some(address));
        assert_eq!(cache.get("b.example", now), Some(Err(ResolveError::NoSuchHost)));
        assert_eq!(cache.get("c.example", now), None);
        assert_eq!(cache.get("a.example", now + SECOND), None);
    }

    #[test]
    fn no_more_names_are_known_than_the_bound() {
        let (cache, now) = (AnswerCache::default(), Instant::now());
        for number in 0..3 * NAMES_MAX {
            cache.put(&format!("{number}.example"), &Err(ResolveError::NoSuchHost), SECOND, now);
        }
        assert_eq!(cache.names.lock().unwrap().len(), NAMES_MAX);
        cache.put("late.example", &Ok(Vec::new()), SECOND, now + SECOND);
        assert_eq!(cache.names.lock().unwrap().len(), 1, "what is over goes first");
    }
}
