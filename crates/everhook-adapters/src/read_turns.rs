//! Whose turn it is to read from a store: organizations take turns, however many reads each asks for, and none may have all connections.
//!
//! Used by both stores in front of the few connections that read. Who asks is [`ports::requester`]; what the server asks for itself is an owner
//! among others, which may have all connections.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use everhook_core::{ids::OrganizationId, ports};
use rustc_hash::FxHashMap;
use tokio::{sync::oneshot, time::timeout};

/// How many reads of an organization wait. Its requests that only read are fewer, but those that change something read as well.
const WAITING_OF_ORGANIZATION_MAX: usize = 1_024;
/// How many reads of the server wait.
const WAITING_OF_SERVER_MAX: usize = 1_024;
/// How many reads wait in total.
const WAITING_MAX: usize = 4_096;

/// Who may have how many reads under way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadLimits {
    /// All together.
    pub total: usize,
    /// One organization: fewer than all, so that the next one finds a connection.
    pub organization: usize,
    /// All organizations together.
    pub organizations: usize,
}

/// Who reads: an organization, or the server for itself.
type Owner = Option<OrganizationId>;

/// The turns of one store.
#[derive(Clone)]
pub(crate) struct ReadTurns {
    limits: ReadLimits,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    reading: usize,
    organizations_reading: usize,
    /// Of organizations that read now.
    reading_of: FxHashMap<OrganizationId, usize>,
    waiting: usize,
    /// Owners with reads that wait, the one whose turn it is first.
    order: VecDeque<Owner>,
    waiting_of: FxHashMap<Owner, VecDeque<oneshot::Sender<ReadTurn>>>,
}

/// There is no turn for this read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overloaded(pub &'static str);

/// A turn to read, until it is dropped.
pub(crate) struct ReadTurn {
    owner: Owner,
    turns: ReadTurns,
}

impl Drop for ReadTurn {
    fn drop(&mut self) {
        self.turns.end(self.owner);
    }
}

impl ReadTurns {
    pub(crate) fn new(limits: ReadLimits) -> Self {
        Self { limits, state: Arc::default() }
    }

    /// Waits for a turn of whoever asks.
    ///
    /// # Errors
    /// [`Overloaded`] if too many wait, or this one for too long.
    pub(crate) async fn take(&self, patience: Duration) -> Result<ReadTurn, Overloaded> {
        let owner = ports::requester();
        let waiting = {
            let mut state = self.state();
            if state.waiting == 0 && self.may_read(&state, owner) {
                state.begin(owner);
                return Ok(self.turn(owner));
            }
            state.wait(owner)?
        };
        // Those that wait may be others, whose owners have all that they may have.
        self.grant();
        match timeout(patience, waiting).await {
            Ok(Ok(turn)) => Ok(turn),
            // A sender is dropped only for a receiver that is gone, or with all turns.
            Ok(Err(_)) | Err(_) => Err(Overloaded("the store is overloaded: reads wait too long")),
        }
    }

    fn turn(&self, owner: Owner) -> ReadTurn {
        ReadTurn { owner, turns: self.clone() }
    }

    fn end(&self, owner: Owner) {
        self.state().end(owner);
        self.grant();
    }

    /// Gives the turns that are free to those that wait.
    fn grant(&self) {
        while let Some(next) = self.next_waiting() {
            if let Some((owner, waiting)) = next {
                // Whoever goes away at this moment gives it back, which grants it to the next.
                drop(waiting.send(self.turn(owner)));
            }
        }
    }

    /// The next read of the owner whose turn it is, begun; `None` inside if all of that one's have left, and outside if nobody may read.
    fn next_waiting(&self) -> Option<Option<(Owner, oneshot::Sender<ReadTurn>)>> {
        let mut state = self.state();
        let index = state.order.iter().position(|owner| self.may_read(&state, *owner))?;
        let owner = state.order.remove(index)?;
        Some(state.begin_waiting(owner).map(|waiting| (owner, waiting)))
    }

    fn may_read(&self, state: &State, owner: Owner) -> bool {
        let is_free = state.reading < self.limits.total;
        match owner {
            None => is_free,
            Some(organization) => {
                let own = state.reading_of.get(&organization).copied().unwrap_or_default();
                is_free && state.organizations_reading < self.limits.organizations && own < self.limits.organization
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin(&mut self, owner: Owner) {
        self.reading += 1;
        if let Some(organization) = owner {
            self.organizations_reading += 1;
            *self.reading_of.entry(organization).or_default() += 1;
        }
    }

    fn end(&mut self, owner: Owner) {
        self.reading -= 1;
        let Some(organization) = owner else { return };
        self.organizations_reading -= 1;
        if let Some(reading) = self.reading_of.get_mut(&organization) {
            *reading -= 1;
            if *reading == 0 {
                self.reading_of.remove(&organization);
            }
        }
    }

    fn wait(&mut self, owner: Owner) -> Result<oneshot::Receiver<ReadTurn>, Overloaded> {
        let most = if owner.is_some() { WAITING_OF_ORGANIZATION_MAX } else { WAITING_OF_SERVER_MAX };
        let of_owner = |state: &Self| state.waiting_of.get(&owner).map_or(0, VecDeque::len);
        if of_owner(self) >= most || self.waiting >= WAITING_MAX {
            self.forget_those_who_left();
        }
        if of_owner(self) >= most || self.waiting >= WAITING_MAX {
            return Err(Overloaded("the store is overloaded: too many reads wait"));
        }
        let (sender, receiver) = oneshot::channel();
        let waiting = self.waiting_of.entry(owner).or_default();
        if waiting.is_empty() {
            self.order.push_back(owner);
        }
        waiting.push_back(sender);
        self.waiting += 1;
        Ok(receiver)
    }

    /// Begins the next read of an owner who has just left the order, and puts the owner at its end if more of its reads wait.
    fn begin_waiting(&mut self, owner: Owner) -> Option<oneshot::Sender<ReadTurn>> {
        let waiting = self.waiting_of.get_mut(&owner)?;
        let before = waiting.len();
        let next = std::iter::from_fn(|| waiting.pop_front()).find(|waiting| !waiting.is_closed());
        self.waiting -= before - waiting.len();
        if waiting.is_empty() {
            self.waiting_of.remove(&owner);
        } else {
            self.order.push_back(owner);
        }
        if next.is_some() {
            self.begin(owner);
        }
        next
    }

    fn forget_those_who_left(&mut self) {
        for waiting in self.waiting_of.values_mut() {
            waiting.retain(|waiting| !waiting.is_closed());
        }
        self.waiting_of.retain(|_, waiting| !waiting.is_empty());
        let waiting_of = &self.waiting_of;
        self.order.retain(|owner| waiting_of.contains_key(owner));
        self.waiting = self.waiting_of.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests;
