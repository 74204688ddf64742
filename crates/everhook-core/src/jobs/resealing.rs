//! Follows which key the store says is to seal, and seals with it what is sealed with another one: in passes over all sealed values, in small steps.
//!
//! Started by the supervisor. It works only where the operator has given several keys: a node with one key started because that is the store's, and no
//! rotation begins while such a node lives. Where nodes share a store, each follows the store and its spool, and one of them, which has the duty of
//! operations, does the passes. Everything that matters is in the store: after a crash, whoever is next goes on where the last step ended.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;

use crate::{
    line::Line,
    model::{Duty, Rotation, SealKeyId, Sealing},
    ports::{PassEnd, RotationBegun, StoreError},
    repeated_failure::RepeatedFailure,
    time::Timestamp,
};

/// How often a node that has several keys looks which one the store wants.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long after the last one began to seal with the new key a pass begins, and after the pass before it: what was sealed before that, or was read to be
/// written back, is in the store by then. A request takes no longer.
const SETTLES_WITHIN: Duration = Duration::from_secs(10);

/// How often the spool is looked through after the key has changed.
const SPOOL_LOOKS: u32 = 3;

/// How much longer than a step took the task rests after it, so that at most a third of the store's time goes into it.
const REST_FACTOR: u32 = 2;

/// Follows the key, for ever; returns at once where there is one key. Never panics.
pub(crate) async fn run(line: Arc<Line>) {
    if !line.ports.vault.keys().has_others {
        return;
    }
    let mut task = Task {
        line: line.clone(),
        noted: None,
        spool_looks: 0,
        awaited: RepeatedFailure::reported_at_once(),
        began: line.ports.clock.now(),
    };
    loop {
        match AssertUnwindSafe(task.look()).catch_unwind().await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => line.log_delay("rotating the sealing key", &error),
            Err(_) => tracing::error!("panic while rotating the sealing key; it is tried again"),
        }
        line.ports.clock.sleep_until(line.ports.clock.now() + LOOK_EVERY).await;
    }
}

struct Task {
    line: Arc<Line>,
    /// The key that other nodes were told this one seals with.
    noted: Option<SealKeyId>,
    /// How often the spool is still looked through.
    spool_looks: u32,
    /// When the log hears of nodes that are awaited.
    awaited: RepeatedFailure,
    began: Timestamp,
}

impl Task {
    async fn look(&mut self) -> Result<(), StoreError> {
        let Some(sealing) = self.line.ports.sealing.sealing().await? else { return Ok(()) };
        if !self.follow(&sealing).await? || !self.line.held_lease.does(Duty::Operations) {
            return Ok(());
        }
        let wanted = self.line.ports.vault.keys().wanted;
        if wanted != sealing.key {
            return self.begin(wanted).await;
        }
        match sealing.rotation {
            Some(rotation) if !rotation.is_cancelled => self.rotate(sealing.key, rotation).await,
            _ => Ok(()),
        }
    }

    /// Seals with the store's key from now on, here and in the spool, and lets the others know. Says whether this node has that key.
    async fn follow(&mut self, sealing: &Sealing) -> Result<bool, StoreError> {
        let vault = &self.line.ports.vault;
        if vault.keys().in_use != sealing.key && !vault.seal_with_key(sealing.key) {
            tracing::error!(key = %sealing.key, "the store uses the sealing key {}, which this node does not have: restart it with that key", sealing.key);
            return Ok(false);
        }
        self.reseal_spool(sealing.key).await?;
        // Each time while a rotation is under way: a node whose lease lapsed is a new one to the others.
        if self.noted != Some(sealing.key) || sealing.rotation.is_some() {
            self.line.ports.sealing.note_seals_with(sealing.key).await?;
            self.noted = Some(sealing.key);
        }
        Ok(true)
    }

    /// Looks through the spool a few times after the key has changed: an event that was sealed just before may be written just after a look.
    async fn reseal_spool(&mut self, key: SealKeyId) -> Result<(), StoreError> {
        if self.noted != Some(key) {
            self.spool_looks = SPOOL_LOOKS;
        }
        let Some(spool) = self.line.ports.spool.as_ref().filter(|_| self.spool_looks > 0) else { return Ok(()) };
        let mut after = i64::MIN;
        while let Some(next) = spool.reseal(after).await? {
            after = next;
            tokio::task::yield_now().await;
        }
        self.spool_looks -= 1;
        Ok(())
    }

    async fn begin(&mut self, wanted: SealKeyId) -> Result<(), StoreError> {
        let now = self.line.ports.clock.now();
        match self.line.ports.sealing.begin_rotation(wanted, now + SETTLES_WITHIN).await? {
            RotationBegun::Begun => {
                tracing::info!(key = %wanted, "the rotation to the sealing key {wanted} has begun; keep both keys until it has finished");
            }
            RotationBegun::Awaits(nodes) => {
                if self.awaited.failed(now.since(self.began)).is_some() {
                    let nodes = nodes.join(", ");
                    tracing::warn!(%nodes, "the rotation to the sealing key {wanted} begins when these nodes are restarted with it, too: {nodes}");
                }
            }
            RotationBegun::NotNow => {}
        }
        Ok(())
    }

    async fn rotate(&self, key: SealKeyId, rotation: Rotation) -> Result<(), StoreError> {
        let (sealing, clock) = (&self.line.ports.sealing, &self.line.ports.clock);
        if clock.now() < rotation.not_before || !sealing.sealing_otherwise(key).await?.is_empty() {
            return Ok(());
        }
        let (mut place, mut found) = (rotation.place, rotation.resealed_in_pass);
        while self.line.held_lease.does(Duty::Operations) {
            let begun_at = clock.now();
            // Stopped, or somebody else's: the next look tells.
            let Some(step) = sealing.reseal(place).await? else { return Ok(()) };
            found += step.resealed;
            match step.next {
                Some(next) => place = next,
                None => return self.end_pass(key, &rotation, found).await,
            }
            clock.sleep_until(clock.now() + clock.now().since(begun_at) * REST_FACTOR).await;
            // A clock that stands still in a test still lets the others have their turn.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn end_pass(&self, key: SealKeyId, rotation: &Rotation, found: u64) -> Result<(), StoreError> {
        let now = self.line.ports.clock.now();
        if found > 0 {
            return self.line.ports.sealing.end_pass(rotation.pass, PassEnd::Again(now + SETTLES_WITHIN)).await;
        }
        self.line.ports.sealing.end_pass(rotation.pass, PassEnd::Finished(now)).await?;
        let from = rotation.from;
        tracing::info!(%key, %from, "everything is encrypted with the sealing key {key}; the key {from} is no longer needed by this store");
        Ok(())
    }
}
