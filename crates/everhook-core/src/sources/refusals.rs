//! The last requests that each source refused, for whoever looks for what is wrong: kept in the memory of this node, and gone with it. Nothing of a request
//! is kept that a stranger chose or that proves anything: no body, no header, no path.

use std::{
    collections::VecDeque,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use ipnet::IpNet;
use rustc_hash::FxHashMap;

use crate::{ids::SourceId, time::Timestamp};

/// How many are kept of a source, and of how many sources. Beyond it, the source goes at which nothing was refused for the longest time.
const REQUESTS_OF_SOURCE_MAX: usize = 10;
const SOURCES_MAX: usize = 1_000;

/// How much of an address is kept: enough to tell a provider's network from others, and no person's own.
const IPV4_BITS: u8 = 24;
const IPV6_BITS: u8 = 48;

/// What is kept of a request that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRequest {
    /// When it came.
    pub at: Timestamp,
    /// Why it was refused: a word such as `bad_signature`.
    pub reason: String,
    /// The network that it came from.
    pub network: IpNet,
    /// How long its body was, as its sender said; `None` if it did not.
    pub body_bytes: Option<u64>,
    /// How many headers it had.
    pub headers: u32,
    /// How long these were together, names and values.
    pub header_bytes: u64,
}

/// The network that an address is in, as it is kept.
pub fn network_of(address: IpAddr) -> IpNet {
    let bits = if address.is_ipv4() { IPV4_BITS } else { IPV6_BITS };
    IpNet::new(address, bits).expect("no address has fewer bits").trunc()
}

/// The last refused requests of sources.
#[derive(Default)]
pub struct Refusals(Mutex<FxHashMap<SourceId, VecDeque<RefusedRequest>>>);

impl Refusals {
    /// Notes a request that was refused.
    pub fn note(&self, source: SourceId, request: RefusedRequest) {
        let mut kept = self.lock();
        if kept.len() >= SOURCES_MAX && !kept.contains_key(&source) {
            let oldest = kept.iter().min_by_key(|(_, requests)| requests.back().map(|last| last.at)).map(|(id, _)| *id);
            oldest.iter().for_each(|id| drop(kept.remove(id)));
        }
        let requests = kept.entry(source).or_default();
        if requests.len() >= REQUESTS_OF_SOURCE_MAX {
            requests.pop_front();
        }
        requests.push_back(request);
    }

    /// The last ones of a source, newest first.
    pub fn of(&self, source: SourceId) -> Vec<RefusedRequest> {
        self.lock().get(&source).into_iter().flatten().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<SourceId, VecDeque<RefusedRequest>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn source(n: usize) -> SourceId {
        SourceId::from_uuid(Uuid::from_u128(n as u128))
    }

    fn refused(second: i64) -> RefusedRequest {
        let network = network_of("192.0.2.77".parse().unwrap());
        let at = Timestamp::from_secs(second);
        RefusedRequest { at, reason: "bad_signature".to_owned(), network, body_bytes: Some(2), headers: 1, header_bytes: 9 }
    }

    #[test]
    fn the_last_of_a_source_are_kept_and_past_the_bound_the_source_that_was_quiet_goes() {
        let refusals = Refusals::default();
        (0..25).for_each(|second| refusals.note(source(0), refused(second)));
        let seconds: Vec<i64> = refusals.of(source(0)).iter().map(|request| request.at.as_secs()).collect();
        assert_eq!(seconds, [24, 23, 22, 21, 20, 19, 18, 17, 16, 15]);
        (1..=SOURCES_MAX).for_each(|n| refusals.note(source(n), refused(100 + n as i64)));
        assert_eq!(refusals.lock().len(), SOURCES_MAX);
        assert!(refusals.of(source(0)).is_empty() && refusals.of(source(1)).len() == 1);
    }

    #[test]
    fn of_an_address_only_the_network_is_kept() {
        for (address, network) in [("192.0.2.77", "192.0.2.0/24"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48")] {
            assert_eq!(network_of(address.parse().unwrap()).to_string(), network);
        }
    }
}
