//! The end of a parking: what deliveries waited for is there, or the time for that is over. They wait again, and continue at step 2.
//!
//! Called by the code that provides what is waited for, and by the lanes' periodic query.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    ids::OrganizationId,
    line::{Line, erasures::hand_over},
    model::WaitsFor,
    ports::{Release, StoreError, Unparked},
    time::Timestamp,
};

/// How many deliveries one write lets wait again.
const UNPARKED_AT_ONCE: u32 = 500;
/// How many such writes one look makes at most: the next look continues.
const ROUNDS_A_LOOK: u32 = 20;
/// How long the store is not asked at the most, although nothing is due as far as this node knows: where nobody else parks or releases anything,
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// and where other nodes do.
const LOOK_INTERVAL_SHARED: Duration = Duration::from_secs(5);

/// Something came: the deliveries of the organization that are parked for it wait again. Says how many did at once; those that are parked a moment later,
/// by an attempt that was begun before, follow by themselves.
///
/// # Errors
/// [`StoreError`] if the store cannot be written to. What was released stays so; releasing again is safe.
pub async fn release(line: &Line, organization: OrganizationId, waits_for: &WaitsFor) -> Result<u64, StoreError> {
    let (mut released, at) = (0, line.ports.clock.now());
    line.parking_looks.note_change();
    loop {
        let release = Release { organization, waits_for: waits_for.clone(), at, limit: UNPARKED_AT_ONCE };
        let Unparked { deliveries, may_be_more } = line.ports.parked.release(release).await?;
        released += deliveries.len() as u64;
        hand_over(line, deliveries).await;
        if !may_be_more {
            line.parking_looks.note_change();
            return Ok(released);
        }
    }
}

/// Completes releases, and ends parkings whose time is over. Asks the store only if something may be due, as far as this node knows.
pub(crate) async fn look_after(line: &Line) -> Result<(), StoreError> {
    let now = line.ports.clock.now();
    let Some(look) = line.parking_looks.begin(now) else { return Ok(()) };
    let next = line.ports.parked.next_look().await?;
    if next.is_none_or(|at| at > now) {
        let latest = now + if line.held_lease.is_shared() { LOOK_INTERVAL_SHARED } else { LOOK_INTERVAL };
        line.parking_looks.end(look, next.map_or(latest, |at| at.min(latest)));
        return Ok(());
    }
    for _ in 0..ROUNDS_A_LOOK {
        let Unparked { deliveries, may_be_more } = line.ports.parked.resume_releases(line.ports.clock.now(), UNPARKED_AT_ONCE).await?;
        hand_over(line, deliveries).await;
        if !may_be_more {
            break;
        }
    }
    for _ in 0..ROUNDS_A_LOOK {
        let Unparked { deliveries, may_be_more } = line.ports.parked.expire(line.ports.clock.now(), UNPARKED_AT_ONCE).await?;
        hand_over(line, deliveries).await;
        if !may_be_more {
            break;
        }
    }
    Ok(())
}

/// When the periodic look asks the store for parked deliveries again: a store where nothing is parked is not asked every second.
#[derive(Default)]
pub struct ParkingLooks(Mutex<NextLook>);

#[derive(Default)]
struct NextLook {
    /// Not before this instant; at once if there is none.
    at: Option<Timestamp>,
    /// Counts what this node parked and released, so that an answer from before is not kept after it.
    changes: u64,
}

/// A look that has begun, by the changes that it knows of.
struct Look(u64);

impl ParkingLooks {
    /// This node parked or released something: the next look asks.
    pub(crate) fn note_change(&self) {
        let mut next = self.next();
        next.changes += 1;
        next.at = None;
    }

    /// Begins a look, if it is time for one.
    fn begin(&self, now: Timestamp) -> Option<Look> {
        let next = self.next();
        next.at.is_none_or(|at| at <= now).then_some(Look(next.changes))
    }

    /// Nothing is due before this instant, unless something changed since the look began.
    fn end(&self, look: Look, at: Timestamp) {
        let mut next = self.next();
        if next.changes == look.0 {
            next.at = Some(at);
        }
    }

    fn next(&self) -> MutexGuard<'_, NextLook> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_due_at_its_time_and_at_once_after_a_change() {
        let (looks, at) = (ParkingLooks::default(), Timestamp::from_secs);
        let first = looks.begin(at(1)).expect("nothing is known yet");
        looks.end(first, at(60));
        assert!(looks.begin(at(59)).is_none() && looks.begin(at(60)).is_some());
        looks.note_change();
        let second = looks.begin(at(2)).expect("something changed");
        // What changes while the store is asked is asked for once more.
        looks.note_change();
        looks.end(second, at(60));
        assert!(looks.begin(at(3)).is_some());
    }
}
