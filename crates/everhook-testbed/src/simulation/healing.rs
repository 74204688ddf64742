//! The end of a run: everything is well, and whatever still waits must end within its schedule's time.

use std::{collections::BTreeMap, time::Duration};

use everhook_core::{
    ids::{DeliveryId, EndpointId},
    model::{Delivery, Stage},
    policy::{retry, timeout},
    ports::Clock,
    time::Timestamp,
};

use super::{
    ALWAYS, AT_THE_END, Simulation, Tally,
    log::{EndpointNo, Happening, TenantNo},
    look::Reading,
    oracle::Violation,
    receivers::RETRY_AFTER_MAX,
    settings::{Change, EndpointStatus, Limits, Order},
};

/// How often a publisher that was not answered tries again when everything is well.
const TRIES_MAX: u32 = 3;

/// How far the longest jitter of the presets stretches a delay.
const JITTER_MAX: f64 = 1.3;

/// What a delivery may need beside its delay: its turn in the lane, a survey, a look at the store.
const TURN_WITHIN: Duration = Duration::from_secs(120);

/// How long a processor may take when everything is well: the longest delay of its schedule.
const PROCESSED_WITHIN: Duration = Duration::from_secs(3 * 3600);

/// How often it is looked whether all has ended.
const LOOK_INTERVAL: Duration = Duration::from_secs(600);

impl Simulation {
    pub(super) async fn heal_and_wait(&mut self) -> Result<(), Violation> {
        self.heal().await?;
        let due_ends = self.due_ends().await?;
        let now = self.world.clock.now();
        let last = due_ends.values().max().copied().unwrap_or(now).max(now + PROCESSED_WITHIN) + TURN_WITHIN;
        while self.world.clock.now() < last {
            let span = last.since(self.world.clock.now()).min(LOOK_INTERVAL);
            self.pass(span).await?;
            self.let_the_app_finish().await;
            if self.all_have_ended().await? {
                break;
            }
        }
        // What happened last is written, and alerts are told.
        self.pass(TURN_WITHIN).await?;
        let stored = self.look(Reading::Whole).await?;
        stored.deliveries.iter().for_each(|delivery| self.tally.count(&delivery.stage));
        self.tally.ordered += stored.places.len();
        self.tally.openings += stored.open_periods.len();
        self.judge(ALWAYS, &stored, &due_ends)?;
        self.judge(AT_THE_END, &stored, &due_ends)
    }

    /// Nothing goes wrong any more, and every publisher is answered.
    async fn heal(&mut self) -> Result<(), Violation> {
        if self.planned_death.is_some() {
            self.come_back().await?;
        }
        self.free_the_disk();
        self.world.faults.forget();
        self.receivers.heal();
        self.mail_server.heal();
        self.log.note(Happening::Healed);
        self.let_everything_flow().await?;
        self.let_the_provider_finish().await?;
        self.let_the_shop_finish().await?;
        for _ in 0..TRIES_MAX {
            let batch = std::mem::take(&mut self.unanswered);
            if batch.is_empty() {
                return Ok(());
            }
            self.publish(batch).await;
        }
        Err(Violation { rule: "when everything is well, publishers are answered", because: format!("{} were not", self.unanswered.len()) })
    }

    /// Whatever somebody holds back goes on. Breakers that opened by themselves are left alone: they must close by themselves.
    async fn let_everything_flow(&mut self) -> Result<(), Violation> {
        for number in (0..self.endpoints.len()).map(EndpointNo) {
            let settings = self.settings[number.0];
            if settings.status == EndpointStatus::Deleted {
                continue;
            }
            self.make_change(number, Change::Resume(None)).await?;
            if settings.rate_limit.is_some() {
                self.make_change(number, Change::Rate(None)).await?;
            }
            if self.perhaps_forced[number.0] {
                self.make_change(number, Change::Breaker(Order::Reset)).await?;
            }
        }
        for tenant in (0..self.tenants.len()).map(TenantNo) {
            let lifted = self.limit(tenant, Limits::default()).await;
            lifted.map_err(|refusal| Violation { rule: "limits can be changed", because: format!("{tenant}: {refusal}") })?;
        }
        Ok(())
    }

    /// When each delivery that waits now must have ended.
    async fn due_ends(&self) -> Result<BTreeMap<DeliveryId, Timestamp>, Violation> {
        let now = self.world.clock.now();
        let stored = self.look(Reading::Quick).await?;
        let waiting = stored.deliveries.iter().filter(|delivery| matches!(delivery.stage, Stage::Waiting { .. } | Stage::Held));
        let mut longest: BTreeMap<EndpointId, Duration> = BTreeMap::new();
        for delivery in waiting.clone() {
            let wait = longest.entry(delivery.lane_id.endpoint()).or_default();
            *wait = self.longest_wait(delivery).max(*wait);
        }
        // In an ordered lane all wait for the slowest.
        Ok(waiting.map(|delivery| (delivery.id, now + longest[&delivery.lane_id.endpoint()])).collect())
    }

    /// A request may be under way that fails yet; the one after its delay succeeds. The breaker may sleep first.
    fn longest_wait(&self, delivery: &Delivery) -> Duration {
        let facts = self.endpoints.iter().find(|facts| facts.id == delivery.lane_id.endpoint()).expect("an endpoint of the run");
        let delay = |attempt| retry::nominal_delay(&facts.schedule, attempt).mul_f64(JITTER_MAX);
        let delay = delay(delivery.attempts).max(delay(delivery.attempts + 1)).max(RETRY_AFTER_MAX);
        delay + facts.breaker.sleep_max + timeout::DEFAULT_TIMEOUT * 3 + TURN_WITHIN
    }

    async fn all_have_ended(&self) -> Result<bool, Violation> {
        let stored = self.look(Reading::Quick).await?;
        let others = stored.processed.iter().chain(&stored.asked).chain(&stored.told);
        Ok(stored.deliveries.iter().chain(others).all(|delivery| delivery.stage.has_ended()))
    }
}

impl Tally {
    fn count(&mut self, stage: &Stage) {
        match stage {
            Stage::Waiting { .. } | Stage::Held | Stage::Parked(_) => {}
            Stage::Delivered { .. } => self.delivered += 1,
            Stage::Dead { .. } => self.dead += 1,
            Stage::Cancelled { .. } => self.cancelled += 1,
        }
    }
}
