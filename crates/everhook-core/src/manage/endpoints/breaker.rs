//! An endpoint's breaker in a person's hand: reset, forced open, forced closed.
//!
//! The owner of the lane decides about the breaker too. Both write over the revision that they know, and the store shows who was faster.

use std::time::Duration;

use super::find;
use crate::{
    ids::{EndpointId, Ref},
    line::{Line, alert},
    manage::{Fault, Refusal, audit},
    model::{AuditAction, Author, ClockReset, Endpoint, KeptBreaker, KeptStage},
    policy::{
        audit::{Facts, changed},
        breaker::{Breaker, BreakerFacts, Transition},
    },
    ports::{BreakerChange, BreakerKept, BreakerRow},
    time::Timestamp,
};

/// How often a change is made again because the owner of the lane was faster. Each round needs another transition in the same moment.
pub(in crate::manage) const ROUNDS_MAX: u32 = 10;

/// The longest that a breaker is forced for a time. Longer is for good, until it is reset.
const FORCED_SECONDS_MAX: i64 = 30 * 86_400;

/// What is asked of a breaker, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BreakerOrder {
    /// `reset`, `force_open` or `force_close`.
    pub action: String,
    /// For how long it is forced; until it is reset if absent.
    pub duration_seconds: Option<i64>,
}

/// The same, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::manage) enum Order {
    Reset,
    ForceOpen(Option<Duration>),
    ForceClose(Option<Duration>),
}

/// Resets or forces an endpoint's breaker, and returns its new state.
///
/// # Errors
/// [`Refusal::Invalid`] lists what is wrong, [`Refusal::NotFound`] if the organization has no such endpoint.
pub async fn command_breaker(line: &Line, by: &Author, of: &Ref<EndpointId>, order: BreakerOrder) -> Result<BreakerFacts, Refusal> {
    let endpoint = find(line, by.organization, of).await?;
    let order = check(&order)?;
    command(line, by, &endpoint, order).await
}

/// Closes the breaker of an endpoint that is enabled again, and lets its failures in a row begin anew.
pub(super) async fn reset(line: &Line, by: &Author, endpoint: &Endpoint, why: ClockReset) -> Result<(), Refusal> {
    line.ports.statistics.forget_failures(endpoint.id.into(), why).await?;
    command(line, by, endpoint, Order::Reset).await.map(|_| ())
}

/// The breaker as the store keeps it; a closed one if it never was anything else.
pub(super) fn restored(endpoint: &Endpoint, row: Option<&BreakerRow>, now: Timestamp) -> Breaker {
    let restore = |row: &BreakerRow| Breaker::restore(row.kept, endpoint.breaker, now);
    row.map_or_else(|| Breaker::new(endpoint.breaker, endpoint.created_at), restore)
}

async fn command(line: &Line, by: &Author, endpoint: &Endpoint, order: Order) -> Result<BreakerFacts, Refusal> {
    let mut row = line.ports.breakers.breaker(endpoint.id.into()).await?;
    for _ in 0..ROUNDS_MAX {
        let now = line.ports.clock.now();
        let mut breaker = restored(endpoint, row.as_ref(), now);
        let before = audit_facts(breaker.keep());
        let transition = order.apply(&mut breaker, now);
        let kept = breaker.keep();
        let entry = audit::entry(line, by, order.action(), endpoint.id.as_uuid(), changed(&before, &audit_facts(kept)));
        let alerts = alert::of_breaker(line, endpoint.application, endpoint.id.into(), transition).await?;
        let change = BreakerChange {
            application: endpoint.application,
            lane_id: endpoint.id.into(),
            revision: row.map_or(0, |row| row.revision) + 1,
            kept,
            transition: Some(transition),
            alerts,
            entry: Some(entry),
        };
        match keep(line, change).await? {
            Some(newer) => row = Some(newer),
            None => {
                line.wake_up.changed(endpoint.application, endpoint.id.into());
                return Ok(breaker.facts(now));
            }
        }
    }
    Err(Refusal::concurrent_change("breaker"))
}

/// Keeps the change. If another change was faster, returns the current state.
pub(in crate::manage) async fn keep(line: &Line, change: BreakerChange) -> Result<Option<BreakerRow>, Refusal> {
    let kept = line.ports.breakers.keep(vec![change]).await?;
    Ok(kept.into_iter().find_map(|kept| match kept {
        BreakerKept::Kept => None,
        BreakerKept::Outdated(row) => Some(row),
    }))
}

/// The state of a breaker, as the audit log shows it.
pub(in crate::manage) fn audit_facts(kept: KeptBreaker) -> Facts {
    let (state, until) = match kept.stage {
        KeptStage::Closed => ("closed", None),
        KeptStage::ForcedClosed { until } => ("forced_closed", until),
        KeptStage::Open { until } => ("open", Some(until)),
        KeptStage::ForcedOpen { until } => ("forced_open", until),
        KeptStage::HalfOpen => ("half_open", None),
    };
    Facts::default().plain("state", state).plain("until", until.map(|until| until.to_string()))
}

impl Order {
    const fn action(self) -> AuditAction {
        match self {
            Self::Reset => AuditAction::EndpointResetBreaker,
            Self::ForceOpen(_) => AuditAction::EndpointForceOpen,
            Self::ForceClose(_) => AuditAction::EndpointForceClose,
        }
    }

    pub(in crate::manage) fn apply(self, breaker: &mut Breaker, now: Timestamp) -> Transition {
        let until = |length: Option<Duration>| length.map(|length| now + length);
        match self {
            Self::Reset => breaker.reset(now),
            Self::ForceOpen(length) => breaker.force_open(until(length), now),
            Self::ForceClose(length) => breaker.force_close(until(length), now),
        }
    }
}

pub(in crate::manage) fn check(order: &BreakerOrder) -> Result<Order, Refusal> {
    let mut faults = Vec::new();
    let length = match order.duration_seconds {
        None => None,
        Some(seconds @ 1..=FORCED_SECONDS_MAX) => Some(Duration::from_secs(seconds.unsigned_abs())),
        Some(_) => {
            faults.push(Fault::new("duration_seconds", format!("must be 1 to {FORCED_SECONDS_MAX} (30 days)")));
            None
        }
    };
    let checked = match order.action.as_str() {
        "reset" => {
            if order.duration_seconds.is_some() {
                faults.push(Fault::new("duration_seconds", "cannot be used with `reset`"));
            }
            Some(Order::Reset)
        }
        "force_open" => Some(Order::ForceOpen(length)),
        "force_close" => Some(Order::ForceClose(length)),
        _ => {
            faults.push(Fault::new("action", "must be `reset`, `force_open` or `force_close`"));
            None
        }
    };
    checked.filter(|_| faults.is_empty()).ok_or(Refusal::Invalid(faults))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_has_its_rule() {
        let minute = Some(Duration::from_secs(60));
        type Case<'a> = (&'a str, Option<i64>, Result<Order, &'a [&'a str]>);
        #[rustfmt::skip]
        let table: [Case<'_>; 8] = [
            ("reset",       None,            Ok(Order::Reset)),
            ("force_open",  None,            Ok(Order::ForceOpen(None))),
            ("force_open",  Some(60),        Ok(Order::ForceOpen(minute))),
            ("force_close", Some(60),        Ok(Order::ForceClose(minute))),
            ("reset",       Some(60),        Err(&["duration_seconds"])),
            ("force_open",  Some(0),         Err(&["duration_seconds"])),
            ("force_open",  Some(2_592_001), Err(&["duration_seconds"])),
            ("open",        Some(-1),        Err(&["duration_seconds", "action"])),
        ];
        for (action, duration_seconds, expected) in table {
            let checked = check(&BreakerOrder { action: action.to_owned(), duration_seconds });
            let checked = checked.map_err(|refusal| match refusal {
                Refusal::Invalid(faults) => faults.into_iter().map(|fault| fault.field).collect::<Vec<_>>(),
                other => panic!("{other}"),
            });
            assert_eq!(checked, expected.map_err(|fields| fields.iter().map(ToString::to_string).collect()), "{action}");
        }
    }
}
