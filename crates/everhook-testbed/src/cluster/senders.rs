//! Who sends where, as it happens: no two nodes may have requests under way in one lane.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use everhook_core::{
    model::Report,
    ports::{Clock, OutgoingRequest, Transport},
    time::Timestamp,
};

/// A request that a node made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentBy {
    /// Which node.
    pub node: usize,
    /// Where to.
    pub url: String,
    /// When.
    pub at: Timestamp,
}

/// Watches the requests of all nodes.
#[derive(Default)]
pub struct Senders(Mutex<State>);

#[derive(Default)]
struct State {
    /// How many requests each node has under way, by URL.
    under_way: BTreeMap<(String, usize), usize>,
    sent: Vec<SentBy>,
    /// The most requests that were under way at one time, in all and by URL.
    most_at_once: usize,
    most_to: BTreeMap<String, usize>,
    overlaps: Vec<String>,
}

impl Senders {
    /// Everything that was sent, in order.
    pub fn sent(&self) -> Vec<SentBy> {
        self.state().sent.clone()
    }

    /// Every time when a node sent where another had a request under way.
    pub fn overlaps(&self) -> Vec<String> {
        self.state().overlaps.clone()
    }

    /// The most requests that all nodes together had under way at one time.
    pub fn most_at_once(&self) -> usize {
        self.state().most_at_once
    }

    /// The most requests to a URL that were under way at one time.
    pub fn most_to(&self, url: &str) -> usize {
        self.state().most_to.get(url).copied().unwrap_or(0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>, node: usize, url: &str, at: Timestamp) -> UnderWay {
        let mut state = self.state();
        let other = state.under_way.iter().find(|((to, by), count)| to == url && *by != node && **count > 0).map(|((_, by), _)| *by);
        if let Some(other) = other {
            state.overlaps.push(format!("node {node} sent to {url} at {at} while a request of node {other} was under way"));
        }
        *state.under_way.entry((url.to_owned(), node)).or_default() += 1;
        state.most_at_once = state.most_at_once.max(state.under_way.values().sum());
        let to_url: usize = state.under_way.iter().filter(|((to, _), _)| to == url).map(|(_, count)| count).sum();
        let most_to = state.most_to.entry(url.to_owned()).or_default();
        *most_to = to_url.max(*most_to);
        state.sent.push(SentBy { node, url: url.to_owned(), at });
        UnderWay { senders: self.clone(), key: (url.to_owned(), node) }
    }
}

/// A request under way. Also one that is aborted ends.
struct UnderWay {
    senders: Arc<Senders>,
    key: (String, usize),
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(count) = self.senders.state().under_way.get_mut(&self.key) {
            *count -= 1;
        }
    }
}

/// One node's way out.
pub struct Watched {
    /// Which node's.
    pub node: usize,
    /// Where its requests really go.
    pub transport: Arc<dyn Transport>,
    /// Who watches.
    pub senders: Arc<Senders>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

#[async_trait]
impl Transport for Watched {
    async fn send(&self, request: OutgoingRequest) -> Report {
        let _under_way = self.senders.begin(self.node, &request.target.written, self.clock.now());
        self.transport.send(request).await
    }
}
