//! Two organizations beside the others: one that does its worst, with endpoints that hang, turn from quick to hanging, or drip; and a quiet one, whose
//! endpoints are well and idle, and get an event now and then. Neither is changed by its owner: nothing of its own holds the quiet one back.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::{
    ids::{ApplicationId, OrganizationId},
    line::publish::Publication,
    manage::{
        Change,
        endpoints::{self, BreakerInput, EndpointChange, NewEndpoint},
        organizations::{self, OrganizationChange},
    },
    model::{ApplicationKind, Author, ContentType, EventType, EventTypePattern, OrderingMode, Priority},
    policy::presets,
};

use super::{
    Simulation,
    load::Attempted,
    log::{Answered, EndpointNo, Happening, TenantNo},
    oracle::{EndpointFacts, Violation},
    population::target_rules,
    receivers::Character,
    settings::{EndpointStatus, Settings},
};

/// How many requests the endpoints of the hostile organization ask for at once, and for how long they may hang: the most that endpoints may.
const HOSTILE_CONCURRENCY: u32 = 1_000;
const HOSTILE_TIMEOUT: Duration = Duration::from_secs(60);

/// How many events come at once to the hostile organization: more than half of the slots of a simulated node.
const BURST: std::ops::Range<u64> = 40..60;

/// How many endpoints it has in the end: a new one, of unknown pace, with each burst.
const HOSTILE_ENDPOINTS_MAX: usize = 8;

/// The event types of the hostile organization's endpoints. Most events are for the first, which hangs.
const HOSTILE_TYPES: [&str; 3] = ["hostile.hangs", "hostile.turns", "hostile.drips"];

/// One for each endpoint of the quiet organization.
const QUIET_TYPES: [&str; 3] = ["quiet.one", "quiet.two", "quiet.three"];

/// The two organizations.
pub(super) struct Neighbors {
    hostile: Neighbor,
    quiet: Neighbor,
    hostile_endpoints: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Neighbor {
    tenant: usize,
    pub(super) organization: OrganizationId,
    pub(super) application: ApplicationId,
}

/// How an endpoint of a neighbor is made.
pub(super) struct Make<'a> {
    pub(super) event_type: &'a str,
    pub(super) character: Character,
    pub(super) max_concurrency: u32,
    pub(super) timeout: Duration,
    pub(super) breaker: BreakerInput,
    pub(super) ordering: OrderingMode,
}

impl Simulation {
    pub(super) async fn settle_neighbors(&mut self) {
        let hostile = self.settle_neighbor("Hostile").await;
        let quiet = self.settle_neighbor("Quiet").await;
        self.neighbors = Some(Neighbors { hostile, quiet, hostile_endpoints: 0 });
        for (event_type, character) in HOSTILE_TYPES.into_iter().zip([Character::Hanging, Character::Turning, Character::Dripping]) {
            self.settle_hostile(hostile, event_type, character).await;
        }
        for (place, event_type) in QUIET_TYPES.into_iter().enumerate() {
            // Without a breaker, a lane is forgotten as soon as it is idle.
            let breaker = BreakerInput { enabled: Some(place == 0), ..Default::default() };
            let (max_concurrency, timeout) = (5, Duration::from_secs(15));
            let make = Make { event_type, character: Character::Healthy, max_concurrency, timeout, breaker, ordering: OrderingMode::None };
            self.settle_endpoint_of(quiet, make).await;
        }
    }

    pub(super) async fn settle_neighbor(&mut self, name: &str) -> Neighbor {
        let asked = OrganizationChange { name: Change::Set(name.to_owned()), ..Default::default() };
        let by = Author::server(self.world.organization);
        let organization = organizations::create(self.world.line(), &by, asked).await.expect("the organization is made").id;
        let tenant = self.tenants.len();
        self.tenants.push(organization);
        self.limits.push(Default::default());
        let operational = self.built_in(organization, ApplicationKind::Operational).await;
        self.operational.insert(operational);
        Neighbor { tenant, organization, application: self.built_in(organization, ApplicationKind::Default).await }
    }

    async fn settle_hostile(&mut self, of: Neighbor, event_type: &str, character: Character) {
        let breaker = BreakerInput { enabled: Some(false), ..Default::default() };
        let make = Make {
            event_type,
            character,
            max_concurrency: HOSTILE_CONCURRENCY,
            timeout: HOSTILE_TIMEOUT,
            breaker,
            ordering: OrderingMode::None,
        };
        self.settle_endpoint_of(of, make).await;
        self.neighbors.iter_mut().for_each(|neighbors| neighbors.hostile_endpoints += 1);
    }

    pub(super) async fn settle_endpoint_of(&mut self, of: Neighbor, make: Make<'_>) {
        let number = EndpointNo(self.endpoints.len());
        let url = format!("https://neighbor-{}.example/hook", number.0);
        let asked = EndpointChange {
            url: Change::Set(url.clone()),
            event_types: Change::Set(vec![make.event_type.to_owned()]),
            retry_schedule: Change::Set("relay".to_owned()),
            timeout: Change::Set(make.timeout),
            max_concurrency: Change::Set(make.max_concurrency.into()),
            ordering: Change::Set(make.ordering.as_str().to_owned()),
            circuit_breaker: Change::Set(make.breaker),
            ..Default::default()
        };
        let new = NewEndpoint { application: Some(of.application.to_string()), settings: asked, ..Default::default() };
        let by = Author::server(of.organization);
        // If the store fails, there is one less.
        let Ok((made, _)) = endpoints::create(self.world.line(), &target_rules(), &by, new).await else { return };
        self.receivers.add(url, number, make.character);
        self.endpoints.push(EndpointFacts {
            id: made.id,
            organization: of.organization,
            tenant: TenantNo(of.tenant),
            application: of.application,
            patterns: vec![EventTypePattern::parse(make.event_type).expect("a well-formed pattern")],
            schedule: presets::preset("relay").expect("a preset"),
            breaker: made.breaker,
        });
        let settings = Settings {
            status: EndpointStatus::Open,
            max_concurrency: make.max_concurrency,
            ordering: make.ordering,
            rate_limit: None,
            paused: false,
        };
        self.settings.push(settings);
        self.perhaps_forced.push(false);
        self.log.note(Happening::EndpointMade(number, settings));
    }

    /// The hostile organization gets more at once than half of the slots would do, and now and then another endpoint that hangs.
    pub(super) async fn let_the_hostile_burst(&mut self) -> Result<(), Violation> {
        let Some(Neighbors { hostile, hostile_endpoints, .. }) = self.neighbors else { return Ok(()) };
        if hostile_endpoints < HOSTILE_ENDPOINTS_MAX && self.is_calm() {
            self.settle_hostile(hostile, HOSTILE_TYPES[0], Character::Hanging).await;
        }
        let count = BURST.start + self.dice.below(BURST.end - BURST.start);
        let event_type = HOSTILE_TYPES[self.dice.below(HOSTILE_TYPES.len() as u64) as usize];
        let batch = (0..count).map(|_| Attempted::to_neighbor(hostile.organization, hostile.application, event_type)).collect();
        self.publish(batch).await;
        if self.disk.is_off() { self.come_back().await } else { Ok(()) }
    }

    /// The quiet organization gets one event. Unless something is wrong with the machine now, it must be sent at once.
    pub(super) async fn nudge_the_quiet(&mut self) -> Result<(), Violation> {
        let Some(Neighbors { quiet, .. }) = self.neighbors else { return Ok(()) };
        let is_calm = self.is_calm();
        let event_type = QUIET_TYPES[self.dice.below(QUIET_TYPES.len() as u64) as usize];
        let answers = self.publish(vec![Attempted::to_neighbor(quiet.organization, quiet.application, event_type)]).await;
        if self.disk.is_off() {
            return self.come_back().await;
        }
        if let ([Answered::Accepted(event, 1)], true) = (answers.as_slice(), is_calm && self.is_calm()) {
            self.log.note(Happening::DueAtOnce(*event));
        }
        Ok(())
    }

    /// Whether nothing is wrong with the store, and nothing is planned to go wrong.
    fn is_calm(&self) -> bool {
        self.world.faults.has_struck() && self.planned_death.is_none() && !self.disk.is_full() && !self.disk.is_off()
    }
}

impl Attempted {
    fn to_neighbor(organization: OrganizationId, application: ApplicationId, event_type: &str) -> Self {
        let publication = Publication {
            organization,
            application,
            event_type: EventType::parse(event_type).expect("a well-formed type"),
            data: Bytes::from_static(b"{}"),
            content_type: ContentType::JSON,
            idempotency_key: None,
            idempotency_window: None,
            source: None,
            priority: Priority::Normal,
            timestamp: None,
            ordering_key: None,
            traceparent: None,
            only: None,
            received: None,
            sealed: false,
            parked: None,
            labels: everhook_core::policy::labels::Labels::new(),
            headers: Vec::new(),
        };
        // No application of the run that publishers choose from.
        Self { application: usize::MAX, publication }
    }
}
