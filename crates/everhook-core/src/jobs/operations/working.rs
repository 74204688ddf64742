//! Works off what an operation selected: a batch at a time, at its own pace.

use crate::{
    jobs::operations::{Duty, Next},
    line::{
        erasures,
        recall::{self, ItemOf, new_item},
    },
    model::{Operation, OperationKind, OperationStatus, RateLimit},
    policy::bucket::Bucket,
    ports::{ErasureBatch, FailedItem, Forwarded, ForwardedDelivery, OperationItem, Replay, ReplayBy, StoreError},
    time::Timestamp,
};

/// How many items one write does. Few, because publishers share the writer: the next commit with their events in it comes a few milliseconds later.
const WORK_BATCH: u32 = 25;

/// How many times as long as a step took the operation rests after it: whatever the machine can do, live events have the writer to themselves for
/// most of the time, and what it makes is delivered before the next is made.
const REST_FACTOR: u32 = 8;

impl Duty {
    /// Does the next batch of an operation whose selection is complete.
    pub(super) async fn work(&mut self, operation: &Operation) -> Result<Next, StoreError> {
        let now = self.line.ports.clock.now();
        if let Some(start_at) = operation.start_at.filter(|at| *at > now) {
            return Ok(Next::At(start_at));
        }
        if operation.status == OperationStatus::Pending && !self.line.ports.operations.start(operation.id, now).await? {
            return Ok(Next::Now);
        }
        if operation.remaining() == 0 {
            return self.end(operation, OperationStatus::Finished).await;
        }
        let batch = match self.take_tokens(operation, now) {
            Ok(batch) => batch,
            Err(flows_from) => return Ok(Next::At(flows_from)),
        };
        let operations = &self.line.ports.operations;
        match operation.kind {
            OperationKind::Backfill => return Ok(Next::WhenRung),
            OperationKind::DiscardBatch => _ = operations.discard_next(operation.id, batch).await?,
            OperationKind::Erase | OperationKind::DeleteData => self.erase(operation, batch).await?,
            OperationKind::AttemptNow => self.bring_forward(operation, batch).await?,
            OperationKind::RetryBatch | OperationKind::Recover | OperationKind::Replay => {
                let items = operations.items(operation.id, batch).await?;
                self.replay(operation, &items).await?;
            }
        }
        Ok(self.after_pause(now))
    }

    /// When to go on after a step. In simulated time a step takes none, and there is no rest.
    fn after_pause(&self, began_at: Timestamp) -> Next {
        let now = self.line.ports.clock.now();
        let took = now.since(began_at);
        if took.is_zero() { Next::Now } else { Next::At(now + took * REST_FACTOR) }
    }

    /// How many items may be done now.
    fn take_tokens(&mut self, operation: &Operation, now: Timestamp) -> Result<u32, Timestamp> {
        let most = u32::try_from(operation.remaining()).unwrap_or(WORK_BATCH).min(WORK_BATCH);
        let Some(rate) = operation.rate else { return Ok(most) };
        let bucket = self.buckets.entry(operation.id).or_insert_with(|| Bucket::new(RateLimit::per_second(rate, None), now));
        let mut taken = 0;
        while taken < most && bucket.try_take(now).is_ok() {
            taken += 1;
        }
        if taken == 0 { Err(bucket.flows_from(now)) } else { Ok(taken) }
    }

    /// Erases the next events. A write whose answer was lost may have erased them, so that they leave memory all the same: those that were not erased
    /// wait a minute longer.
    async fn erase(&self, operation: &Operation, limit: u32) -> Result<(), StoreError> {
        let line = &self.line;
        let events = line.ports.bulk_erasure.next_for_erasure(operation.id, limit).await?;
        let batch = ErasureBatch { operation: operation.id, events: events.clone(), at: line.ports.clock.now() };
        match line.ports.bulk_erasure.erase_listed(batch).await {
            Ok(None) => Ok(()),
            Ok(Some(freed)) => {
                erasures::withdraw(line, events, freed).await;
                Ok(())
            }
            Err(error) => {
                erasures::withdraw(line, events, Vec::new()).await;
                Err(error)
            }
        }
    }

    /// Makes the next attempts of the next deliveries due. What cannot be looked up now is found by the lanes' periodic look.
    async fn bring_forward(&self, operation: &Operation, limit: u32) -> Result<(), StoreError> {
        let (line, at) = (&self.line, self.line.ports.clock.now());
        let due_now = line.ports.delivery_control.bring_listed_forward(operation.id, limit, at).await?.unwrap_or_default();
        let mut forwarded = Vec::with_capacity(due_now.len());
        for ForwardedDelivery { delivery, lane_id, application, priority } in due_now {
            if let Ok(Some(destination)) = recall::open_destination(line, application, lane_id).await {
                forwarded.push(Forwarded { lane: destination.lane().clone(), priority, delivery, due_at: at });
            }
        }
        if !forwarded.is_empty() {
            line.wake_up.forwarded(forwarded);
        }
        Ok(())
    }

    /// Makes the deliveries of some items. What could not be written, because the configuration changed, is done by the next step.
    async fn replay(&self, operation: &Operation, items: &[OperationItem]) -> Result<(), StoreError> {
        let line = &self.line;
        let (mut failed, mut replays, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
        for item in items {
            let view = line.catalog.application(item.application).await?;
            let found = view.as_ref().and_then(|view| Some((view, view.enabled(item.lane_id)?)));
            let Some((view, destination)) = found else {
                // Another node may have enabled it a moment ago: the store takes this only if nothing has changed since it was read.
                let judged_by = view.as_ref().map(|view| (item.application, view.config_version));
                failed.push(FailedItem { position: item.position, lane_id: item.lane_id, judged_by });
                continue;
            };
            let of = ItemOf {
                position: Some(item.position),
                event: item.event,
                of: item.of,
                only_dead: operation.kind == OperationKind::RetryBatch,
                priority: Some(operation.priority),
            };
            replays.push(new_item(line, view, &destination, of));
            lanes.push(destination.lane().clone());
        }
        let by = ReplayBy::Operation { id: operation.id, failed };
        let replay = Replay { organization: operation.organization, by, items: replays, at: line.ports.clock.now() };
        recall::make(line, replay, lanes).await
    }
}
