//! The breaker of a capability in a person's hand: reset, forced open, forced closed.

use serde_json::json;

use super::opened;
use crate::{
    ids::{ApplicationId, Ref},
    line::Line,
    manage::{
        Noun, Refusal, audit,
        endpoints::{
            BreakerOrder,
            breaker::{Order, ROUNDS_MAX, audit_facts, check, keep},
        },
    },
    model::{AuditAction, Author},
    policy::{
        audit::changed,
        breaker::{Breaker, BreakerFacts},
    },
    ports::BreakerChange,
};

/// Resets or forces the breaker of a capability, on all nodes, and returns its new state.
///
/// # Errors
/// [`Refusal::Invalid`] lists what is wrong, [`Refusal::NotFound`] if there is no such application or capability.
pub async fn command_breaker(
    line: &Line,
    by: &Author,
    of: &Ref<ApplicationId>,
    capability: &str,
    order: BreakerOrder,
) -> Result<BreakerFacts, Refusal> {
    let app = opened(line, by.organization, of).await?;
    let capability = app.capabilities.get(capability).ok_or(Refusal::NotFound(Noun::Capability))?;
    let (order, lane_id) = (check(&order)?, capability.lane_id);
    let gate = line.calls.gate(capability).await;
    let mut row = line.ports.breakers.breaker(lane_id).await?;
    for _ in 0..ROUNDS_MAX {
        let now = line.ports.clock.now();
        let config = capability.spec.breaker;
        let mut breaker = row.as_ref().map_or_else(|| Breaker::new(config, now), |row| Breaker::restore(row.kept, config, now));
        let before = audit_facts(breaker.keep()).plain("capability", json!(capability.name.as_str()));
        let transition = order.apply(&mut breaker, now);
        let kept = breaker.keep();
        let after = audit_facts(kept).plain("capability", json!(capability.name.as_str()));
        let entry = audit::entry(line, by, action(order), capability.application.as_uuid(), changed(&before, &after));
        let revision = row.map_or(0, |row| row.revision) + 1;
        let change = BreakerChange {
            application: capability.application,
            lane_id,
            revision,
            kept,
            transition: Some(transition),
            alerts: line.calls.alerts_of(capability, transition),
            entry: Some(entry),
        };
        match keep(line, change).await? {
            Some(newer) => row = Some(newer),
            None => {
                line.calls.records.alerts_recorded.notify_one();
                if let Some(row) = line.ports.breakers.breaker(lane_id).await? {
                    gate.apply_kept_breaker(&row, now);
                }
                return Ok(breaker.facts(now));
            }
        }
    }
    Err(Refusal::concurrent_change("breaker"))
}

const fn action(order: Order) -> AuditAction {
    match order {
        Order::Reset => AuditAction::ApplicationResetBreaker,
        Order::ForceOpen(_) => AuditAction::ApplicationForceOpen,
        Order::ForceClose(_) => AuditAction::ApplicationForceClose,
    }
}
