//! Owners who change their endpoints while events flow.

use std::time::Duration;

use everhook_core::{
    ids::{EndpointId, Ref},
    manage::{
        self, Refusal,
        endpoints::{self, EndpointChange, Rotation},
    },
    model::EndpointState,
};

use super::{
    Simulation,
    log::{Change, EndpointNo, Happening, Standing},
    oracle::Violation,
    population::target_rules,
};

impl Simulation {
    /// Changes some endpoint. If the machine dies in it, the owner looks afterwards what came of it.
    pub(super) async fn change_an_endpoint(&mut self) -> Result<(), Violation> {
        let number = EndpointNo(self.dice.below(self.endpoints.len() as u64) as usize);
        let change = self.some_change(number);
        if self.standings[number.0] == Standing::Deleted {
            return Ok(());
        }
        self.log.note(Happening::Changing(number, change));
        match self.change(number, change).await {
            Ok(()) => {
                self.log.note(Happening::Changed(number, change));
                self.remember_change(number, change);
                Ok(())
            }
            // Two secrets sign already.
            Err(Refusal::Conflict(_)) => Ok(()),
            Err(_) if self.disk.is_off() => {
                self.come_back().await?;
                self.look_at(number).await;
                Ok(())
            }
            Err(_) if self.disk.is_full() => {
                self.look_at(number).await;
                Ok(())
            }
            Err(refusal) => Err(Violation { rule: "an owner's change is made", because: format!("{change:?} of {number}: {refusal}") }),
        }
    }

    fn some_change(&self, number: EndpointNo) -> Change {
        let may_be_closed = self.standings[number.0] == Standing::Disabled || self.receivers.has_said_gone(number);
        match self.dice.below(20) {
            0..8 if may_be_closed => Change::Enable,
            0..8 => Change::Disable,
            8..14 => Change::Limit(1 + self.dice.below(8) as u32),
            14..19 => Change::RotateSecret,
            _ => Change::Delete,
        }
    }

    async fn change(&self, number: EndpointNo, change: Change) -> Result<(), Refusal> {
        let (line, organization, of) = (self.world.line(), self.endpoints[number.0].organization, self.reference(number));
        let enabled = |enabled| EndpointChange { enabled: manage::Change::Set(enabled), ..Default::default() };
        let asked = match change {
            Change::Delete => return endpoints::delete(line, organization, &of).await,
            Change::RotateSecret => {
                let rotation = Rotation { grace: Duration::from_secs(600), secret: None };
                return endpoints::rotate_secret(line, organization, &of, rotation).await.map(drop);
            }
            Change::Disable => enabled(false),
            Change::Enable => enabled(true),
            Change::Limit(limit) => EndpointChange { max_concurrency: manage::Change::Set(limit.into()), ..Default::default() },
        };
        let found = endpoints::find(line, organization, &of).await?;
        endpoints::change(line, &target_rules(), found, asked).await.map(drop)
    }

    fn remember_change(&mut self, number: EndpointNo, change: Change) {
        let standing = &mut self.standings[number.0];
        match change {
            Change::Disable => *standing = Standing::Disabled,
            Change::Enable => *standing = Standing::Open,
            Change::Delete => *standing = Standing::Deleted,
            Change::Limit(_) | Change::RotateSecret => {}
        }
    }

    /// Asks the store how an endpoint stands.
    async fn look_at(&mut self, number: EndpointNo) {
        let directory = &self.world.line().ports.directory;
        let found = directory.endpoint(self.endpoints[number.0].organization, &self.reference(number)).await;
        let found = found.expect("the store answers").expect("endpoints are never forgotten");
        let standing = match found.state {
            EndpointState::Enabled => Standing::Open,
            EndpointState::Disabled { .. } => Standing::Disabled,
            EndpointState::Deleted { .. } => Standing::Deleted,
        };
        self.standings[number.0] = standing;
        self.log.note(Happening::Found(number, standing, found.max_concurrency));
    }

    fn reference(&self, number: EndpointNo) -> Ref<EndpointId> {
        Ref::Id(self.endpoints[number.0].id)
    }
}
