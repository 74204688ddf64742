//! New deliveries as the columns of one statement, whoever makes them: publishing or replaying.

use everhook_core::{
    ids::{DeliveryId, EventId, OperationId, OrganizationId, ScheduleVersion},
    model::{Priority, Stage, WaitsFor},
    time::Timestamp,
};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::rows::Key;
use crate::encoding::spelling::{priority_number, stage_columns};

pub(super) const INSERT_DELIVERIES: &str = include_str!("queries/insert_deliveries.sql");

/// A delivery about to be made.
pub(super) struct Making<'m> {
    pub(super) lane: i64,
    pub(super) id: DeliveryId,
    pub(super) event: EventId,
    pub(super) priority: Priority,
    pub(super) retry_schedule: ScheduleVersion,
    pub(super) stage: Stage,
    pub(super) at: Timestamp,
    pub(super) replay_of: Option<DeliveryId>,
    pub(super) operation: Option<OperationId>,
    /// Its key and its position, if it has an order.
    pub(super) order: Option<(&'m str, i64)>,
}

/// Deliveries, column by column.
#[derive(Default)]
pub(super) struct DeliveryColumns<'m> {
    lanes: Vec<i64>,
    ids: Vec<Uuid>,
    events: Vec<Uuid>,
    priorities: Vec<i16>,
    stages: Vec<i16>,
    schedules: Vec<i64>,
    due: Vec<Option<i64>>,
    made: Vec<i64>,
    replays: Vec<Option<Uuid>>,
    operations: Vec<Option<Uuid>>,
    keys: Vec<Option<&'m str>>,
    positions: Vec<Option<i64>>,
}

impl<'m> DeliveryColumns<'m> {
    pub(super) fn push(&mut self, making: &Making<'m>) {
        let stage = stage_columns(&making.stage);
        self.lanes.push(making.lane);
        self.ids.push(making.id.key());
        self.events.push(making.event.key());
        self.priorities.push(small(priority_number(making.priority)));
        self.stages.push(small(stage.stage));
        self.schedules.push(making.retry_schedule.0);
        self.due.push(stage.due_at);
        self.made.push(making.at.as_micros());
        self.replays.push(making.replay_of.as_ref().map(Key::key));
        self.operations.push(making.operation.as_ref().map(Key::key));
        self.keys.push(making.order.map(|(key, _)| key));
        self.positions.push(making.order.map(|(_, position)| position));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The parameters of [`INSERT_DELIVERIES`].
    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 12] {
        [
            &self.lanes,
            &self.ids,
            &self.events,
            &self.priorities,
            &self.stages,
            &self.schedules,
            &self.due,
            &self.made,
            &self.replays,
            &self.operations,
            &self.keys,
            &self.positions,
        ]
    }
}

/// New deliveries that are to be parked, column by column.
#[derive(Default)]
pub(super) struct ParkingColumns<'m> {
    lanes: Vec<i64>,
    ids: Vec<Uuid>,
    organizations: Vec<Uuid>,
    waits: Vec<&'m str>,
}

impl<'m> ParkingColumns<'m> {
    /// Adds a delivery that waits for this.
    pub(super) fn push(&mut self, lane: i64, id: DeliveryId, (organization, waits_for): (OrganizationId, &'m WaitsFor)) {
        self.lanes.push(lane);
        self.ids.push(id.key());
        self.organizations.push(organization.key());
        self.waits.push(waits_for.as_str());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The parameters of `park_made.sql`.
    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.lanes, &self.ids, &self.organizations, &self.waits]
    }
}

/// A number that an enum is spelled with: all are below ten.
pub(super) fn small(number: i64) -> i16 {
    i16::try_from(number).expect("the numbers of enums are small")
}
