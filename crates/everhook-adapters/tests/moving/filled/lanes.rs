//! Deliveries of destinations that are no endpoints: of a processor, a capability, the callers of an application's jobs, and a channel. Each has some that
//! wait, are parked, were delivered and are dead, and statistics; the capability has an open breaker.

use everhook_core::{
    ids::{ApplicationId, DeliveryId, EndpointId, LaneId},
    model::{
        AfterExpiry, ApplicationKind, Attempt, AttemptStatus, AuditAction, BreakerConfig, CapabilityName, Cursor, DeathCause, Expiry,
        FailingRule, OrderingKey, OrderingMode, PageRequest, Parking, Placement, ProcessorKind, Source, Stage, Tally, WaitsFor,
        callback_lane, minute_of,
    },
    policy::breaker::Breaker,
    ports::{BreakerChange, BreakerKept, Created},
};

use super::{Filled, answered};
use crate::sqlite::conformance::{
    channels::service_channel,
    given::{NOW, after, failure, id, settlement, success},
    sources::source,
};

impl Filled {
    /// Fills the lanes of all kinds but endpoints.
    pub(super) async fn fill_other_lanes(&mut self) {
        let processor = self.make_processor().await;
        let shop = self.applications[1];
        let capability = CapabilityName::parse("winnerSelection").unwrap().lane(shop);
        let channel = self.make_channel().await;
        for (application, lane_id) in
            [(self.given.application, processor), (shop, capability), (shop, callback_lane(shop)), (channel.0, channel.1)]
        {
            self.fill_lane(application, lane_id).await;
            self.lanes.push(lane_id);
        }
        self.open_breaker(shop, capability).await;
        self.hold_behind_parked(processor).await;
    }

    async fn make_processor(&self) -> LaneId {
        let plain = source(self.given.organization, self.given.application, "watch");
        let source = Source { kind: "garmin".to_owned(), processor: Some(ProcessorKind::Health), ..plain };
        let made = self.given.store.create_source(source.clone(), 10, self.entry(AuditAction::SourceCreate)).await.unwrap();
        assert_eq!(made, Created::Created);
        source.id.into()
    }

    /// A channel, in the application of operational events.
    async fn make_channel(&self) -> (ApplicationId, LaneId) {
        let organization = self.given.organization;
        let channel = service_channel("ops");
        let made = self.given.store.create_channel(organization, channel.clone(), 10, self.entry(AuditAction::ChannelCreate)).await;
        assert_eq!(made.unwrap(), Created::Created);
        let page = PageRequest { limit: 100, cursor: Cursor::Newest };
        let applications = self.given.store.applications(organization, page).await.unwrap().rows;
        let operational = applications.iter().find(|application| application.kind == ApplicationKind::Operational).unwrap();
        (operational.id, channel.id.into())
    }

    async fn published_to(&self, application: ApplicationId, lane_id: LaneId) -> DeliveryId {
        let new = self.given.event_of(application, &[lane_id.endpoint()]).await;
        let delivery = new.deliveries[0].id;
        self.given.record(new).await;
        delivery
    }

    async fn fill_lane(&self, application: ApplicationId, lane_id: LaneId) {
        let to: EndpointId = lane_id.endpoint();
        let parked = |expiry| Stage::Parked(Parking { waits_for: WaitsFor::parse("user \u{fc} of a lane").unwrap(), expiry });
        let found_nothing = || Attempt { status: AttemptStatus::Parked, error: Some("waits for user \u{fc}".to_owned()), ..success(1) };
        for (attempt, stage) in [
            (answered(failure(1)), Stage::Waiting { due_at: after(600) }),
            (found_nothing(), parked(None)),
            (found_nothing(), parked(Some(Expiry { at: after(800), then: AfterExpiry::Fails }))),
            (answered(success(1)), Stage::Delivered { at: after(6) }),
            (answered(failure(1)), Stage::Dead { at: after(7), cause: DeathCause::GivenUp }),
        ] {
            let delivery = self.published_to(application, lane_id).await;
            self.settle(settlement(delivery, to, attempt, stage)).await;
        }
        // One that nobody has attempted.
        self.published_to(application, lane_id).await;
        let mut tally = Tally::new(lane_id, minute_of(NOW));
        tally.add(&failure(1), NOW);
        self.given.store.add(vec![tally], FailingRule::default()).await.unwrap();
    }

    async fn open_breaker(&self, application: ApplicationId, lane_id: LaneId) {
        let mut breaker = Breaker::new(BreakerConfig::consecutive(), NOW);
        let transition = Some(breaker.force_open(None, after(12)));
        let kept = breaker.keep();
        let change = BreakerChange { application, lane_id, revision: 1, kept, transition, alerts: Vec::new(), entry: None };
        assert_eq!(self.given.store.keep(vec![change]).await.unwrap(), [BreakerKept::Kept]);
    }

    /// An event that is parked from its beginning, and one about the same user that is held behind it.
    async fn hold_behind_parked(&self, lane_id: LaneId) {
        for number in 0..2 {
            let mut new = self.given.event(&[lane_id.endpoint()]).await;
            new.event.ordering_key = OrderingKey::parse("user 7");
            new.deliveries[0].id = DeliveryId::from_uuid(id());
            new.deliveries[0].placement = Placement { mode: OrderingMode::PerKey, behind_barrier: false };
            new.parked = if number == 0 { WaitsFor::parse("connection:garmin:7") } else { None };
            self.given.record(new).await;
        }
    }
}
