//! Memory that requests take, in bytes: bounded in all and for each organization, so that what one of them holds leaves room for the others.
//!
//! Counted as it is taken and given back when the [`Charge`] is dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everhook_core::ids::OrganizationId;
use rustc_hash::FxHashMap;

/// An organization that holds no more than this may use what is kept for small requests: a few events of the largest size.
const SMALL_BYTES: usize = 1 << 20;

/// How much may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// By all together.
    pub total: usize,
    /// By one organization.
    pub organization: usize,
    /// The part of the total that only those may use who hold little: two organizations that do their worst stop nobody who sends ordinary events.
    pub kept_for_small: usize,
}

/// What is held, by whom.
pub struct MemoryBudget {
    limits: MemoryLimits,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    total: usize,
    organizations: FxHashMap<OrganizationId, usize>,
}

/// There is no room for it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The organization itself holds too much.
    Organization,
    /// All together do.
    Total,
}

impl MemoryBudget {
    /// Nothing is held yet.
    pub fn new(limits: MemoryLimits) -> Arc<Self> {
        Arc::new(Self { limits, held: Mutex::default() })
    }

    /// What may be held.
    pub fn limits(&self) -> MemoryLimits {
        self.limits
    }

    /// Whether so much more would fit now.
    fn check(&self, held: &Held, organization: OrganizationId, more: usize) -> Result<(), NoRoom> {
        let own = held.organizations.get(&organization).copied().unwrap_or_default() + more;
        let total_max = self.limits.total - if own > SMALL_BYTES { self.limits.kept_for_small } else { 0 };
        match own {
            own if own > self.limits.organization => Err(NoRoom::Organization),
            _ if held.total + more > total_max => Err(NoRoom::Total),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn add(&mut self, organization: OrganizationId, more: usize) {
        self.total += more;
        *self.organizations.entry(organization).or_default() += more;
    }

    fn remove(&mut self, organization: OrganizationId, less: usize) {
        self.total -= less;
        if let Some(own) = self.organizations.get_mut(&organization) {
            *own -= less;
            if *own == 0 {
                self.organizations.remove(&organization);
            }
        }
    }
}

/// What one request holds.
pub struct Charge {
    budget: Arc<MemoryBudget>,
    organization: OrganizationId,
    weight: usize,
    bytes: usize,
}

impl Charge {
    /// Holds nothing yet.
    pub fn new(budget: Arc<MemoryBudget>, organization: OrganizationId) -> Self {
        Self { budget, organization, weight: 1, bytes: 0 }
    }

    /// The same one, of which every byte counts as so many: what is made of it takes more.
    pub fn weighing(mut self, weight: usize) -> Self {
        self.weight = weight;
        self
    }

    /// Whether so much would fit now. Nothing is taken.
    ///
    /// # Errors
    /// [`NoRoom`] says who holds too much.
    pub fn would_fit(&self, more: usize) -> Result<(), NoRoom> {
        self.budget.check(&self.budget.lock(), self.organization, more * self.weight)
    }

    /// Whether so much would fit now, or the organization holds so little that it may ask for more whatever others hold. Nothing is taken.
    ///
    /// # Errors
    /// [`NoRoom`] says who holds too much.
    pub fn would_fit_or_holds_little(&self, more: usize) -> Result<(), NoRoom> {
        let held = self.budget.lock();
        if held.organizations.get(&self.organization).is_none_or(|own| *own <= SMALL_BYTES) {
            return Ok(());
        }
        self.budget.check(&held, self.organization, more * self.weight)
    }

    /// Takes so much more.
    ///
    /// # Errors
    /// [`NoRoom`] says who holds too much; what was held before still is.
    pub fn grow(&mut self, more: usize) -> Result<(), NoRoom> {
        let more = more * self.weight;
        let mut held = self.budget.lock();
        self.budget.check(&held, self.organization, more)?;
        held.add(self.organization, more);
        self.bytes += more;
        Ok(())
    }

    /// Takes so many of its bytes, or all if it has fewer, into a charge of their own: what they are of is held on its own from now on.
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: self.budget.clone(), organization: self.organization, weight: self.weight, bytes }
    }

    /// As [`Charge::grow`], but whoever holds nothing gets as much as it asks for.
    ///
    /// # Errors
    /// As [`Charge::grow`].
    pub fn grow_or_first(&mut self, more: usize) -> Result<(), NoRoom> {
        let mut held = self.budget.lock();
        if held.organizations.contains_key(&self.organization) {
            self.budget.check(&held, self.organization, more)?;
        }
        held.add(self.organization, more);
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.lock().remove(self.organization, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const LIMITS: MemoryLimits = MemoryLimits { total: 64 * MIB, organization: 32 * MIB, kept_for_small: 16 * MIB };

    fn organization(number: u128) -> OrganizationId {
        OrganizationId::from_uuid(uuid::Uuid::from_u128(number))
    }

    #[test]
    fn an_organization_has_its_share_and_leaves_room_for_the_small() {
        let budget = MemoryBudget::new(LIMITS);
        let charge = |number| Charge::new(budget.clone(), organization(number));
        let (mut one, mut two, mut three) = (charge(1), charge(2), charge(3));
        assert_eq!(one.grow(32 * MIB), Ok(()));
        assert_eq!(one.grow(1), Err(NoRoom::Organization));
        assert_eq!(charge(1).grow(1), Err(NoRoom::Organization), "its other requests count too");
        assert_eq!(two.grow(16 * MIB), Ok(()));
        assert_eq!(two.grow(1), Err(NoRoom::Total), "the rest is for those that hold little");
        assert_eq!(three.grow(MIB), Ok(()));
        assert_eq!(three.would_fit(1), Err(NoRoom::Total));
        drop(one);
        assert_eq!((two.grow(1), three.grow(1)), (Ok(()), Ok(())));
        drop((two, three));
        assert!(budget.lock().organizations.is_empty() && budget.lock().total == 0);
    }

    #[test]
    fn a_part_is_held_on_its_own() {
        let budget = MemoryBudget::new(LIMITS);
        let mut whole = Charge::new(budget.clone(), organization(1));
        assert_eq!(whole.grow(10), Ok(()));
        let (part, rest) = (whole.split(4), whole.split(100));
        drop(whole);
        assert_eq!(budget.lock().total, 10);
        drop(rest);
        assert_eq!(budget.lock().total, 4);
        drop(part);
        assert!(budget.lock().organizations.is_empty());
    }

    #[test]
    fn whoever_holds_little_may_ask_whatever_others_hold() {
        let budget = MemoryBudget::new(LIMITS);
        let charge = |number| Charge::new(budget.clone(), organization(number));
        let (mut one, mut two, mut three) = (charge(1), charge(2), charge(3));
        assert_eq!((one.grow_or_first(24 * MIB), two.grow_or_first(24 * MIB)), (Ok(()), Ok(())));
        assert_eq!(charge(1).would_fit_or_holds_little(4 * MIB), Err(NoRoom::Total));
        assert_eq!(charge(3).would_fit_or_holds_little(4 * MIB), Ok(()), "it holds nothing");
        assert_eq!(three.grow_or_first(MIB), Ok(()));
        assert_eq!(charge(3).would_fit_or_holds_little(4 * MIB), Ok(()), "it holds little");
        drop(two);
        assert_eq!(one.grow(8 * MIB), Ok(()));
        assert_eq!(charge(1).would_fit_or_holds_little(4 * MIB), Err(NoRoom::Organization), "its share is bounded");
    }

    #[test]
    fn what_is_larger_than_a_share_is_granted_alone() {
        let budget = MemoryBudget::new(LIMITS);
        let charge = |number| Charge::new(budget.clone(), organization(number));
        let mut large = charge(1);
        assert_eq!(large.grow_or_first(100 * MIB), Ok(()));
        assert_eq!(charge(1).grow_or_first(1), Err(NoRoom::Organization));
    }
}
