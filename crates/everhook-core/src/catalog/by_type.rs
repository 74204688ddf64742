//! The enabled endpoints of an application by the event types they want: an event finds those that want it without asking the others, and a change of
//! one endpoint changes the entries of that one.

use std::{hash::Hasher as _, sync::Arc};

use rustc_hash::FxHasher;

use super::{EndpointDestination, shared_map::SharedMap};
use crate::{
    ids::EndpointId,
    model::{EventType, EventTypePattern},
    policy::matching,
};

/// What endpoints that want every type are found by. No event type is called like this.
const ANY: &str = "*";

/// An index over the event type patterns of endpoints. Texts are kept as hashes: a tenant may have 200 patterns at each of many endpoints.
#[derive(Clone, Default)]
pub(super) struct EndpointsByType {
    /// By the hashes of exact types and of families' prefixes.
    named: SharedMap<u64, SharedMap<EndpointId, ()>>,
}

impl EndpointsByType {
    /// Enters an endpoint as it stands now instead of as it was.
    pub(super) fn replace(&mut self, before: Option<&EndpointDestination>, after: Option<&EndpointDestination>) {
        let (old, new) = (before.map_or(&[][..], EndpointDestination::patterns), after.map_or(&[][..], EndpointDestination::patterns));
        if old == new {
            return;
        }
        if let Some(before) = before {
            old.iter().for_each(|pattern| self.remove(hash_of(pattern), before.endpoint.id));
        }
        if let Some(after) = after {
            new.iter().for_each(|pattern| self.insert(hash_of(pattern), after.endpoint.id));
        }
    }

    fn insert(&mut self, name: u64, endpoint: EndpointId) {
        // Taken out and put back, so that it is changed in place where no other copy has it.
        let mut endpoints = self.named.insert(name, SharedMap::default()).unwrap_or_default();
        endpoints.insert(endpoint, ());
        self.named.insert(name, endpoints);
    }

    fn remove(&mut self, name: u64, endpoint: EndpointId) {
        let Some(mut endpoints) = self.named.remove(&name) else { return };
        endpoints.remove(&endpoint);
        if endpoints.len() > 0 {
            self.named.insert(name, endpoints);
        }
    }

    /// Those that want events of this type, in the order of their creation.
    pub(super) fn wanting(
        &self,
        event_type: &EventType,
        destinations: &SharedMap<EndpointId, Arc<EndpointDestination>>,
    ) -> Vec<Arc<EndpointDestination>> {
        let text = event_type.as_str();
        let families = text.match_indices('.').map(|(dot, _)| &text[..=dot]);
        let mut found = Vec::new();
        for name in families.chain([text, ANY]) {
            if let Some(endpoints) = self.named.get(&hash(name)) {
                endpoints.for_each(|id, ()| found.push(*id));
            }
        }
        found.sort_unstable();
        found.dedup();
        let candidates = found.iter().filter_map(|id| destinations.get(id));
        // Two texts may have one hash.
        candidates.filter(|destination| matching::wants(&destination.endpoint.event_types, event_type)).cloned().collect()
    }
}

fn hash_of(pattern: &EventTypePattern) -> u64 {
    match pattern {
        EventTypePattern::Any => hash(ANY),
        EventTypePattern::Family(prefix) => hash(prefix),
        EventTypePattern::Exact(event_type) => hash(event_type.as_str()),
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}
