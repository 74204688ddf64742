//! Brings dead letters back without a person, for organizations that want that: slowly, and less and less often.

use std::time::Duration;

use crate::{
    ids::OrganizationId,
    jobs::operations::{Duty, Next},
    line::recall::{self, ItemOf, new_item, open_in_view},
    model::{self, AutoReplay, DeadLetter, RateLimit},
    policy::{auto_replay, bucket::Bucket},
    ports::{DueDeadLetters, Replay, ReplayBy, StoreError},
    time::Timestamp,
};

/// How often is looked whether dead letters are due, while an organization wants that.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// How many are brought back in one write.
const BATCH: u32 = 100;

impl Duty {
    /// Looks for dead letters that are due, if it is time.
    pub(super) async fn bring_back(&mut self) -> Next {
        if !self.line.held_lease.does(model::Duty::AutomaticReplay) {
            // Should it become this node's duty, it looks at once.
            self.look_at = Timestamp::EPOCH;
            return Next::WhenRung;
        }
        let now = self.line.ports.clock.now();
        match self.look_at {
            Timestamp::FAR_FUTURE => return Next::WhenRung,
            at if at > now => return Next::At(at),
            _ => {}
        }
        let next = match self.look().await {
            Ok(next) => next,
            Err(error) => self.delayed(&error),
        };
        self.look_at = match next {
            Next::Now => now,
            Next::At(at) => at,
            Next::WhenRung => Timestamp::FAR_FUTURE,
        };
        next
    }

    async fn look(&mut self) -> Result<Next, StoreError> {
        let wanting = self.line.ports.auto_replays.auto_replays().await?;
        self.auto_buckets.retain(|id, _| wanting.iter().any(|(organization, _)| organization == id));
        let mut next = Next::WhenRung;
        for (organization, settings) in wanting {
            next = next.min(self.bring_back_for(organization, &settings).await?);
        }
        Ok(next)
    }

    async fn bring_back_for(&mut self, organization: OrganizationId, settings: &AutoReplay) -> Result<Next, StoreError> {
        let now = self.line.ports.clock.now();
        let limit = RateLimit::per_second(settings.requests_per_second, None);
        let bucket = self.auto_buckets.entry(organization).or_insert_with(|| Bucket::new(limit, now));
        if bucket.limit() != limit {
            bucket.change(limit, now);
        }
        let flows_from = bucket.flows_from(now);
        if flows_from > now {
            return Ok(Next::At(flows_from));
        }
        let mut due = self.due(organization, settings, now).await?;
        let Some(bucket) = self.auto_buckets.get_mut(&organization) else { return Ok(Next::Now) };
        let tokens = due.iter().take_while(|_| bucket.try_take(now).is_ok()).count();
        let goes_on_at = if tokens < due.len() { bucket.flows_from(now) } else { now + LOOK_INTERVAL };
        due.truncate(tokens);
        if !due.is_empty() {
            self.replay_dead_letters(organization, due).await?;
        }
        Ok(Next::At(goes_on_at))
    }

    /// The dead letters that are due, those that died least often first.
    async fn due(&self, organization: OrganizationId, settings: &AutoReplay, now: Timestamp) -> Result<Vec<DeadLetter>, StoreError> {
        let mut due = Vec::new();
        for failures in 1..=settings.max_tries {
            let room = BATCH.saturating_sub(u32::try_from(due.len()).unwrap_or(BATCH));
            let Some(died_until) = auto_replay::died_until(settings, failures, now).filter(|_| room > 0) else { break };
            let wanted = DueDeadLetters { organization, failures, died_until, limit: room };
            due.extend(self.line.ports.auto_replays.due_dead_letters(wanted).await?);
        }
        Ok(due)
    }

    async fn replay_dead_letters(&self, organization: OrganizationId, letters: Vec<DeadLetter>) -> Result<(), StoreError> {
        let line = &self.line;
        let (mut items, mut lanes) = (Vec::new(), Vec::new());
        for letter in letters {
            // It was enabled when it was read. If it no longer is, it is not read again; if this node has not heard yet that it is, the next look
            // finds it.
            let Some(view) = line.catalog.application(letter.application).await? else { continue };
            let Some(destination) = open_in_view(&view, letter.lane_id) else { continue };
            let of = ItemOf { position: None, event: letter.event, of: Some(letter.id), only_dead: true, priority: None };
            items.push(new_item(line, &view, &destination, of));
            lanes.push(destination.lane().clone());
        }
        let replay = Replay { organization, by: ReplayBy::Automatic, items, at: line.ports.clock.now() };
        recall::make(line, replay, lanes).await
    }
}
