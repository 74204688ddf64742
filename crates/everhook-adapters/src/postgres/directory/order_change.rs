//! What a change of an endpoint means for the order of its deliveries.

use everhook_core::{
    ids::EndpointId,
    model::{Endpoint, OrderingMode},
    time::Timestamp,
};

use super::super::{
    fault::Outcome,
    rows::{Columns, Key},
    transaction::Tx,
};

const ORDER_OF_ENDPOINT: &str = include_str!("../queries/order_of_endpoint.sql");
const OPEN_IN_LANE: &str = include_str!("../queries/open_in_lane.sql");
const RAISE_BARRIER: &str = include_str!("../queries/raise_barrier.sql");

/// What a change of an endpoint means for its order.
pub(super) enum ModeChange {
    /// Nothing.
    None,
    /// It may not be made while an earlier one still settles.
    Refused,
    /// Deliveries are open: those of this position or a later one wait for them.
    Raises(i64),
}

/// Decides what a change of an endpoint means for its order. Writes nothing: the change itself may yet be refused.
///
/// Locks the counters of the endpoint's application before it looks: whoever makes deliveries holds them, so that none is made behind our back.
pub(super) async fn plan_change(tx: &Tx<'_>, endpoint: &Endpoint, read_at: Timestamp) -> Outcome<ModeChange> {
    let counters = tx.lock_counters(&[endpoint.application]).await?;
    let Some(row) = tx.query_opt(ORDER_OF_ENDPOINT, &[&endpoint.id.key()]).await? else { return Ok(ModeChange::None) };
    let mode = row.spelled("ordering", OrderingMode::parse)?;
    // A change of an older row is refused for that, whatever it asks for.
    if mode == endpoint.ordering.mode || row.instant("updated_at")? != read_at {
        return Ok(ModeChange::None);
    }
    if row.value::<Option<i64>>("order_barrier")?.is_some() {
        return Ok(ModeChange::Refused);
    }
    let lane: i64 = row.value("lane")?;
    if !tx.query_one(OPEN_IN_LANE, &[&lane]).await?.value::<bool>("is_open")? {
        return Ok(ModeChange::None);
    }
    Ok(ModeChange::Raises(counters.first().map_or(i64::MAX, |(_, counters)| counters.next_sequence)))
}

/// Holds everything of this position or a later one until what is open has ended.
pub(super) async fn raise_barrier(tx: &Tx<'_>, endpoint: EndpointId, position: i64) -> Outcome<()> {
    tx.execute(RAISE_BARRIER, &[&endpoint.key(), &position]).await?;
    Ok(())
}
