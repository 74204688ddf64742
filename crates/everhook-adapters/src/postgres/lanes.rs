//! The numbers by which deliveries name endpoints. A number never changes, so that what was read once is known for good.

use std::sync::{PoisonError, RwLock};

use everhook_core::ids::LaneId;
use rustc_hash::FxHashMap;
use uuid::Uuid;

use super::{
    PostgresStore,
    connect::Pools,
    fault::{Fault, Outcome},
    reader::Reader,
    rows::{Columns, Key},
};

const LANES_OF_ENDPOINTS: &str = include_str!("queries/lanes_of_endpoints.sql");

/// The most numbers that are remembered: some megabytes. Past it, all are forgotten and those in use are read again.
const REMEMBERED_MAX: usize = 100_000;

/// What is known of lanes.
#[derive(Default)]
pub(super) struct LaneNumbers(RwLock<FxHashMap<LaneId, i64>>);

impl PostgresStore {
    /// The numbers of endpoints, in the order of the endpoints.
    pub(super) async fn lane_numbers(&self, endpoints: &[LaneId]) -> Outcome<Vec<i64>> {
        self.lanes.of(&self.pools, endpoints).await
    }

    /// The number of one endpoint.
    pub(super) async fn lane_number(&self, lane_id: LaneId) -> Outcome<i64> {
        Ok(self.lane_numbers(&[lane_id]).await?[0])
    }
}

impl LaneNumbers {
    /// The numbers of endpoints, in the order of the endpoints.
    pub(super) async fn of(&self, pools: &Pools, endpoints: &[LaneId]) -> Outcome<Vec<i64>> {
        if let Some(known) = self.all(endpoints) {
            return Ok(known);
        }
        let keys: Vec<Uuid> = endpoints.iter().map(Key::key).collect();
        let rows = Reader::new(pools.line().await?).query(LANES_OF_ENDPOINTS, &[&keys]).await?;
        let read = rows.iter().map(|row| Ok((row.id("id")?, row.value("lane")?))).collect::<Outcome<FxHashMap<_, _>>>()?;
        let missing = |lane_id| Fault::Impossible(format!("a delivery was made for the lane {lane_id}, which is not there"));
        let numbers = endpoints.iter().map(|lane_id| read.get(lane_id).copied().ok_or_else(|| missing(lane_id))).collect();
        self.remember(read);
        numbers
    }

    fn all(&self, endpoints: &[LaneId]) -> Option<Vec<i64>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        endpoints.iter().map(|lane_id| known.get(lane_id).copied()).collect()
    }

    fn remember(&self, read: FxHashMap<LaneId, i64>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() + read.len() > REMEMBERED_MAX {
            known.clear();
        }
        known.extend(read);
    }
}
