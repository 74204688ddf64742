//! Compiled schemas, kept for the next event of their type, within a bound in bytes.
//!
//! Past it, the organization that keeps most gives way to the new one: nobody can push everybody else's schemas out.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicU64, Ordering},
};

use rustc_hash::FxHashMap;

use crate::{
    ids::{EventTypeId, OrganizationId},
    model::EventTypeMark,
    policy::schema::Schema,
    time::Timestamp,
};

/// What all compiled schemas may take in memory, in bytes: thousands of ordinary ones, or four at their worst.
const SCHEMAS_BYTES_MAX: u64 = 64 << 20;

/// What a schema takes at least, in bytes, so that their number is bounded, too.
const SCHEMA_BYTES_MIN: u64 = 4 * 1024;

/// Compiled schemas by event type.
#[derive(Default)]
pub struct Schemas {
    kept: RwLock<FxHashMap<EventTypeId, Kept>>,
    /// Counts uses, to know which one was not used for longest.
    uses: AtomicU64,
}

struct Kept {
    organization: OrganizationId,
    /// The instant of the definition that it was compiled from.
    defined_at: Timestamp,
    schema: Arc<Schema>,
    used_at: AtomicU64,
}

impl Kept {
    fn bytes(&self) -> u64 {
        self.schema.memory_bytes().max(SCHEMA_BYTES_MIN)
    }
}

impl Schemas {
    /// The schema of a type, if it is kept and not of an older definition.
    pub fn get(&self, mark: &EventTypeMark) -> Option<Arc<Schema>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let found = kept.get(&mark.id).filter(|found| found.defined_at >= mark.updated_at)?;
        found.used_at.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(found.schema.clone())
    }

    /// Keeps a schema that was compiled from the definition of that instant.
    pub fn keep(&self, organization: OrganizationId, id: EventTypeId, defined_at: Timestamp, schema: Arc<Schema>) {
        let used_at = AtomicU64::new(self.uses.fetch_add(1, Ordering::Relaxed));
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        kept.insert(id, Kept { organization, defined_at, schema, used_at });
        make_room(&mut kept, SCHEMAS_BYTES_MAX);
    }
}

/// Drops what was not used for longest by the organization that keeps most, until all fit.
fn make_room(kept: &mut FxHashMap<EventTypeId, Kept>, bytes_max: u64) {
    if kept.values().map(Kept::bytes).sum::<u64>() <= bytes_max {
        return;
    }
    let mut bytes: FxHashMap<OrganizationId, u64> = FxHashMap::default();
    for one in kept.values() {
        *bytes.entry(one.organization).or_default() += one.bytes();
    }
    while bytes.values().sum::<u64>() > bytes_max {
        let Some((&largest, _)) = bytes.iter().max_by_key(|(id, bytes)| (**bytes, **id)) else { return };
        let of_largest = kept.iter().filter(|(_, one)| one.organization == largest);
        let Some((&oldest, _)) = of_largest.min_by_key(|(_, one)| one.used_at.load(Ordering::Relaxed)) else { return };
        let dropped = kept.remove(&oldest).map_or(0, |one| one.bytes());
        bytes.entry(largest).and_modify(|bytes| *bytes -= dropped);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_organization_that_keeps_most_gives_way_and_its_oldest_goes_first() {
        let (schemas, greedy, modest) = (Schemas::default(), organization(1), organization(2));
        let large = Arc::new(Schema::compile(&format!(r#"{{"enum": [{}1]}}"#, "1,".repeat(20_000))).ok().unwrap());
        let small = Arc::new(Schema::compile("{}").ok().unwrap());
        let at = Timestamp::from_micros(1);
        schemas.keep(modest, event_type(1), at, small.clone());
        for n in 2..100 {
            schemas.keep(greedy, event_type(n), at, large.clone());
        }
        let kept = schemas.kept.read().unwrap();
        assert!(kept.contains_key(&event_type(1)) && kept.contains_key(&event_type(99)) && !kept.contains_key(&event_type(2)));
        assert!(kept.values().map(Kept::bytes).sum::<u64>() <= SCHEMAS_BYTES_MAX);
    }

    fn organization(n: u128) -> OrganizationId {
        OrganizationId::from_uuid(Uuid::from_u128(n))
    }

    fn event_type(n: u128) -> EventTypeId {
        EventTypeId::from_uuid(Uuid::from_u128(n))
    }
}
