//! The end of a parking: what deliveries waited for is there, or the time for that is over. They wait again, and go on at step 2.
//!
//! Called by whoever brings what is waited for, and by the lanes' periodic look.

use crate::{
    ids::OrganizationId,
    line::{Line, erasures::hand_over},
    model::WaitsFor,
    ports::{Release, StoreError, Unparked},
};

/// How many deliveries one write lets wait again.
const UNPARKED_AT_ONCE: u32 = 500;
/// How many such writes one look makes at most: the next look goes on.
const ROUNDS_A_LOOK: u32 = 20;

/// Something came: the deliveries of the organization that are parked for it wait again. Says how many did at once; those that are parked a moment later,
/// by an attempt that was begun before, follow by themselves.
///
/// # Errors
/// [`StoreError`] if the store cannot be written to. What was released stays so; releasing again is safe.
pub async fn release(line: &Line, organization: OrganizationId, waits_for: &WaitsFor) -> Result<u64, StoreError> {
    let (mut released, at) = (0, line.ports.clock.now());
    loop {
        let release = Release { organization, waits_for: waits_for.clone(), at, limit: UNPARKED_AT_ONCE };
        let Unparked { deliveries, may_be_more } = line.ports.parked.release(release).await?;
        released += deliveries.len() as u64;
        hand_over(line, deliveries).await;
        if !may_be_more {
            return Ok(released);
        }
    }
}

/// Completes releases, and ends parkings whose time is over.
pub(crate) async fn look_after(line: &Line) -> Result<(), StoreError> {
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
