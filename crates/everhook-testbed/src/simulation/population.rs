//! Who is there: organizations with applications, and endpoints with a receiver each.

use std::time::Duration;

use everhook_core::{
    ids::{ApplicationId, OrganizationId, Ref},
    manage::{
        Change,
        applications::{self, ApplicationChange},
        endpoints::{self, EndpointChange, NewEndpoint, RateInput},
        organizations::{self, OrganizationChange},
    },
    model::{ApplicationKind, Author, EventTypePattern},
    policy::{address::AddressRules, presets, target::TargetRules},
};

use super::{
    Simulation, flow,
    log::{EndpointNo, Happening, TenantNo},
    oracle::EndpointFacts,
    receivers::Character,
    settings::{EndpointStatus, Rate, Settings},
};

/// Schedules that end soon enough for a run of some hours; the first ones are more likely.
const SCHEDULES: [&str; 8] = ["relay", "relay", "backoff", "backoff", "job", "job", "ingest", "standard"];

/// What endpoints want.
const PATTERNS: [&str; 4] = ["*", "*", "order.*", "user.created"];

pub(super) fn target_rules() -> TargetRules {
    TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() }
}

impl Simulation {
    /// Makes one to three organizations. Nothing goes wrong yet.
    pub(super) async fn populate(&mut self) {
        let first = self.world.organization;
        self.settle_tenant(first).await;
        for number in 0..self.dice.below(3) {
            let asked = OrganizationChange { name: Change::Set(format!("Tenant {number}")), ..Default::default() };
            let made = organizations::create(self.world.line(), &Author::server(first), asked).await.expect("the organization is made");
            self.settle_tenant(made.id).await;
        }
    }

    async fn settle_tenant(&mut self, organization: OrganizationId) {
        let tenant = self.tenants.len();
        self.tenants.push(organization);
        self.limits.push(Default::default());
        let limits = flow::some_limits(&self.dice);
        self.limit(TenantNo(tenant), limits).await.expect("the limits are set");
        let administrators = self.appoint_administrators(organization).await;
        let default = self.built_in(organization, ApplicationKind::Default).await;
        let mut homes = vec![default];
        if self.dice.below(2) == 0 {
            let asked = ApplicationChange { name: Change::Set("second".to_owned()), ..Default::default() };
            let (rules, by) = (target_rules(), Author::server(organization));
            let made = applications::create(self.world.line(), &rules, &by, asked).await;
            homes.push(made.expect("the application is made").id);
        }
        for application in homes {
            self.applications.push((tenant, application));
            for _ in 0..1 + self.dice.below(4) {
                let character = Character::any(&self.dice);
                self.settle_endpoint(tenant, application, character).await;
            }
        }
        let operational = self.built_in(organization, ApplicationKind::Operational).await;
        self.operational.insert(operational);
        self.administrators.insert(operational, administrators);
        self.settle_endpoint(tenant, operational, Character::Healthy).await;
    }

    /// Gives an organization people who are told by e-mail, and says how many.
    async fn appoint_administrators(&self, organization: OrganizationId) -> usize {
        let count = 1 + self.dice.below(2) as usize;
        let addresses = (0..count).map(|number| format!("admin-{number}@{organization}.example")).collect();
        let asked = OrganizationChange { admin_emails: Change::Set(addresses), ..Default::default() };
        let by = Author::server(self.world.organization);
        organizations::change(self.world.line(), &by, &Ref::Id(organization), asked).await.expect("the administrators are appointed");
        count
    }

    pub(super) async fn built_in(&self, organization: OrganizationId, kind: ApplicationKind) -> ApplicationId {
        let found = self.world.line().ports.applications.built_in_application(organization, kind).await;
        found.expect("the store answers").expect("every organization has it").id
    }

    async fn settle_endpoint(&mut self, tenant: usize, application: ApplicationId, character: Character) {
        let number = EndpointNo(self.endpoints.len());
        let organization = self.tenants[tenant];
        let url = format!("https://receiver-{}.example/hook", number.0);
        let preset = SCHEDULES[self.dice.below(SCHEDULES.len() as u64) as usize];
        let pattern = PATTERNS[self.dice.below(PATTERNS.len() as u64) as usize];
        let settings = Settings {
            status: EndpointStatus::Open,
            max_concurrency: 1 + self.dice.below(6) as u32,
            ordering: flow::some_ordering(&self.dice),
            rate_limit: flow::some_rate(&self.dice),
            paused: false,
        };
        let asked = EndpointChange {
            url: Change::Set(url.clone()),
            event_types: Change::Set(vec![pattern.to_owned()]),
            retry_schedule: Change::Set(preset.to_owned()),
            timeout: Change::Set(Duration::from_millis(1_000 + self.dice.below(20_000))),
            max_concurrency: Change::Set(settings.max_concurrency.into()),
            ordering: Change::Set(settings.ordering.as_str().to_owned()),
            rate_limit: rate_change(settings.rate_limit),
            circuit_breaker: Change::Set(flow::some_breaker(&self.dice)),
            ..Default::default()
        };
        let new = NewEndpoint { application: Some(application.to_string()), settings: asked, ..Default::default() };
        let (made, _) =
            endpoints::create(self.world.line(), &target_rules(), &Author::server(organization), new).await.expect("the endpoint is made");
        self.receivers.add(url, number, character);
        self.endpoints.push(EndpointFacts {
            id: made.id,
            organization,
            tenant: TenantNo(tenant),
            application,
            patterns: vec![EventTypePattern::parse(pattern).expect("a well-formed pattern")],
            schedule: presets::preset(preset).expect("a preset"),
            breaker: made.breaker,
        });
        self.settings.push(settings);
        self.perhaps_forced.push(false);
        self.log.note(Happening::EndpointMade(number, settings));
    }
}

/// What is asked of an endpoint's rate limit.
pub(super) fn rate_change(rate: Option<Rate>) -> Change<RateInput> {
    rate.map_or(Change::Clear, |rate| {
        Change::Set(RateInput { requests_per_minute: Some(rate.requests.into()), burst: Some(rate.burst.into()) })
    })
}
