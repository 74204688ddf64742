//! Owners who change their endpoints and limits while events flow.

use std::time::Duration;

use everhook_core::{
    ids::{EndpointId, OrganizationId, Ref},
    manage::{
        self, Refusal,
        endpoints::{self, BreakerOrder, EndpointChange, Rotation},
        organizations::{self, LimitsChange, OrganizationChange},
    },
    model::{Author, Endpoint, EndpointState},
};

use super::{
    Simulation, flow,
    log::{EndpointNo, Happening, TenantNo},
    oracle::Violation,
    population::{rate_change, target_rules},
    settings::{Change, EndpointStatus, Limits, Order, Rate, Settings},
};

impl Simulation {
    /// Changes some endpoint. If nobody can say what came of it, the owner looks.
    pub(super) async fn change_an_endpoint(&mut self) -> Result<(), Violation> {
        let number = EndpointNo(self.dice.below(self.changeable.endpoints) as usize);
        let change = self.some_change(number);
        if self.settings[number.0].status == EndpointStatus::Deleted { Ok(()) } else { self.make_change(number, change).await }
    }

    /// Makes this change, as far as the store lets it be made.
    pub(super) async fn make_change(&mut self, number: EndpointNo, change: Change) -> Result<(), Violation> {
        self.log.note(Happening::Changing(number, change));
        self.perhaps_forced[number.0] |= matches!(change, Change::Breaker(_));
        match self.change(number, change).await {
            Ok(()) => {
                self.log.note(Happening::Changed(number, change));
                self.settings[number.0] = self.settings[number.0].with(change);
                self.perhaps_forced[number.0] &= change != Change::Breaker(Order::Reset);
            }
            // An earlier rotation has not ended, an earlier change of the order settles, or the store failed.
            Err(Refusal::Conflict(..) | Refusal::Store(_)) => {
                if self.disk.is_off() {
                    self.come_back().await?;
                }
                self.look_at(number).await;
            }
            Err(refusal) => {
                return Err(Violation { rule: "an owner's change is made", because: format!("{change:?} of {number}: {refusal}") });
            }
        }
        Ok(())
    }

    fn some_change(&self, number: EndpointNo) -> Change {
        let settings = self.settings[number.0];
        let may_be_closed = settings.status == EndpointStatus::Disabled || self.receivers.has_said_gone(number);
        match self.dice.below(40) {
            0..8 if may_be_closed => Change::Enable,
            0..4 => Change::Disable,
            4..9 => Change::Limit(1 + self.dice.below(8) as u32),
            9..13 => Change::RotateSecret,
            13..20 if settings.paused => Change::Resume((self.dice.below(2) == 0).then(|| 1 + self.dice.below(5) as u32)),
            13..17 => Change::Pause,
            17..25 => Change::Order(flow::some_ordering(&self.dice)),
            25..34 => Change::Breaker(flow::some_order(&self.dice)),
            34..39 => Change::Rate(flow::some_rate(&self.dice)),
            _ => Change::Delete,
        }
    }

    async fn change(&self, number: EndpointNo, change: Change) -> Result<(), Refusal> {
        let (line, organization, of) = (self.world.line(), self.endpoints[number.0].organization, self.reference(number));
        let by = Author::server(organization);
        let asked = match change {
            Change::Delete => return endpoints::delete(line, &by, &of).await,
            Change::RotateSecret => {
                let rotation = Rotation { grace: Duration::from_secs(600), secret: None };
                return endpoints::rotate_secret(line, &by, &of, rotation).await.map(drop);
            }
            Change::Pause => return endpoints::pause(line, &by, &of).await.map(drop),
            Change::Resume(rate) => return endpoints::resume(line, &by, &of, rate.map(i64::from)).await.map(drop),
            Change::Breaker(order) => return endpoints::command_breaker(line, &by, &of, written(order)).await.map(drop),
            Change::Disable => EndpointChange { enabled: manage::Change::Set(false), ..Default::default() },
            Change::Enable => EndpointChange { enabled: manage::Change::Set(true), ..Default::default() },
            Change::Limit(limit) => EndpointChange { max_concurrency: manage::Change::Set(limit.into()), ..Default::default() },
            Change::Order(mode) => EndpointChange { ordering: manage::Change::Set(mode.as_str().to_owned()), ..Default::default() },
            Change::Rate(rate) => EndpointChange { rate_limit: rate_change(rate), ..Default::default() },
        };
        let found = endpoints::find(line, organization, &of).await?;
        endpoints::change(line, &target_rules(), &by, found, asked).await.map(drop)
    }

    /// Asks the store how an endpoint stands.
    async fn look_at(&mut self, number: EndpointNo) {
        let endpoints = &self.world.line().ports.endpoints;
        let found = endpoints.endpoint(self.endpoints[number.0].organization, &self.reference(number)).await;
        let found = settings_of(&found.expect("the store answers").expect("endpoints are never forgotten"));
        self.settings[number.0] = found;
        self.log.note(Happening::Found(number, found));
    }

    fn reference(&self, number: EndpointNo) -> Ref<EndpointId> {
        Ref::Id(self.endpoints[number.0].id)
    }

    /// Changes what some organization may use.
    pub(super) async fn change_limits(&mut self) -> Result<(), Violation> {
        let tenant = TenantNo(self.dice.below(self.changeable.tenants) as usize);
        let limits = flow::some_limits(&self.dice);
        match self.limit(tenant, limits).await {
            Ok(()) => Ok(()),
            Err(Refusal::Store(_)) => {
                if self.disk.is_off() {
                    self.come_back().await?;
                }
                self.look_at_limits(tenant).await;
                Ok(())
            }
            Err(refusal) => Err(Violation { rule: "limits can be changed", because: format!("{limits:?} of {tenant}: {refusal}") }),
        }
    }

    /// Sets what an organization may use.
    pub(super) async fn limit(&mut self, tenant: TenantNo, limits: Limits) -> Result<(), Refusal> {
        self.log.note(Happening::Limiting(tenant, limits));
        let set = |limit: Option<u32>| limit.map_or(manage::Change::Clear, |limit| manage::Change::Set(i64::from(limit)));
        let asked = LimitsChange {
            deliveries_per_minute: set(limits.rate.map(|rate| rate.requests)),
            concurrency: set(limits.concurrency),
            ..Default::default()
        };
        let asked = OrganizationChange { limits: manage::Change::Set(asked), ..Default::default() };
        organizations::change(self.world.line(), &Author::server(self.tenants[tenant.0]), &self.organization(tenant), asked).await?;
        self.limits[tenant.0] = limits;
        self.log.note(Happening::Limited(tenant, limits));
        Ok(())
    }

    async fn look_at_limits(&mut self, tenant: TenantNo) {
        let found = self.world.line().ports.organizations.organization(&self.organization(tenant)).await;
        let limits = found.expect("the store answers").expect("organizations are never forgotten").limits;
        let rate = limits.deliveries_per_minute.map(|requests| Rate { requests, burst: (requests / 100).max(1) });
        let limits = Limits { rate, concurrency: limits.concurrency };
        self.limits[tenant.0] = limits;
        self.log.note(Happening::Limited(tenant, limits));
    }

    fn organization(&self, tenant: TenantNo) -> Ref<OrganizationId> {
        Ref::Id(self.tenants[tenant.0])
    }
}

fn settings_of(endpoint: &Endpoint) -> Settings {
    Settings {
        status: match endpoint.state {
            EndpointState::Enabled => EndpointStatus::Open,
            EndpointState::Disabled { .. } => EndpointStatus::Disabled,
            EndpointState::Deleted { .. } => EndpointStatus::Deleted,
        },
        max_concurrency: endpoint.max_concurrency,
        ordering: endpoint.ordering.mode,
        rate_limit: endpoint.rate_limit.map(|limit| Rate { requests: limit.requests.get(), burst: limit.burst.get() }),
        paused: endpoint.paused_at.is_some(),
    }
}

fn written(order: Order) -> BreakerOrder {
    let (action, seconds) = match order {
        Order::Reset => ("reset", None),
        Order::ForceOpen(seconds) => ("force_open", seconds),
        Order::ForceClose(seconds) => ("force_close", seconds),
    };
    let duration_seconds = seconds.map(|seconds| i64::try_from(seconds).expect("a short time"));
    BreakerOrder { action: action.to_owned(), duration_seconds }
}
