//! Organizations that go from one worker pool to another: how the owner lets go of their lanes, and how it takes up those that come.
//!
//! It goes as with shards: who has a lane lets what is under way land and writes it down, and only then says that nothing is left; who gets it learns
//! how its breaker stands before it sends anything. Where there is one pool, nothing here ever happens.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::{
    ids::{LaneId, OrganizationId},
    lanes::{
        background_task::{Arrival, BackgroundTask},
        owner::Owner,
    },
    model::LanePolicy,
    ports::{BreakerRow, Departure},
    time::Timestamp,
};

/// Which organizations come and go.
#[derive(Default)]
pub(super) struct Moving {
    /// Those that go.
    leaving: BTreeMap<OrganizationId, Leaving>,
    /// Those that came, with the move after which their breakers were read. One entry for each organization that ever moved.
    read_breakers: FxHashMap<OrganizationId, i64>,
    /// Those whose breakers are to be read.
    unread_breakers: BTreeMap<OrganizationId, i64>,
    reads_breakers: bool,
}

/// An organization that goes.
struct Leaving {
    moves: i64,
    /// Its lanes that may not be clear yet.
    lanes: Vec<LaneId>,
    /// Whether it is being noted that nothing is left.
    is_noted: bool,
}

impl Owner<'_> {
    /// These organizations went to another pool: nothing more starts in their lanes. Told once a second until it is noted that nothing is left of them.
    pub(super) fn leave_organizations(&mut self, departures: Vec<Departure>) {
        for Departure { organization, moves } in departures {
            if self.moving.leaving.get(&organization).is_some_and(|leaving| leaving.is_noted) {
                continue;
            }
            // A hint that was on its way may have made some again since the last time.
            let lanes = self.board.leave_organization(organization);
            self.moving.leaving.insert(organization, Leaving { moves, lanes, is_noted: false });
        }
    }

    /// Another pool sends for this lane: nothing more starts in it. What is under way in it lands, and leads here again.
    pub(super) fn leave_lane(&mut self, lane_id: LaneId, now: Timestamp) {
        self.board.close(lane_id);
        self.board.drop_clear(lane_id, now);
    }

    /// Has it noted that nothing of an organization is left, once nothing of it is in flight, unwritten or being cancelled.
    pub(super) fn depart_where_clear(&mut self, now: Timestamp) {
        if self.moving.leaving.is_empty() || self.keeping_breakers {
            return;
        }
        let mut departures = Vec::new();
        for (organization, leaving) in self.moving.leaving.iter_mut().filter(|(_, leaving)| !leaving.is_noted) {
            // Those of others may change without an end, and are not waited for.
            let unfinished = self.board.breakers.unwritten().chain(self.sweeping.keys().copied());
            if self.board.may_be_of(*organization, unfinished) {
                continue;
            }
            while let Some(lane_id) = leaving.lanes.last()
                && self.board.drop_clear(*lane_id, now)
            {
                leaving.lanes.pop();
            }
            leaving.is_noted = leaving.lanes.is_empty();
            if leaving.is_noted {
                departures.push(Departure { organization: *organization, moves: leaving.moves });
            }
        }
        departures.into_iter().for_each(|departure| self.send(BackgroundTask::Depart(departure)));
    }

    /// It is noted, or could not be: then the next renewal names it again.
    pub(super) fn departed(&mut self, departure: Departure) {
        self.moving.leaving.remove(&departure.organization);
    }

    /// Whether it is known how the breakers of this lane's organization stand, which another pool may have had until now. If it is not, they are read,
    /// and a survey then finds what waits.
    pub(super) fn has_moved_breakers(&mut self, lane: &LanePolicy) -> bool {
        let (organization, moves) = (lane.organization, lane.pool.moves);
        let has_moved_breakers = moves == 0 || self.moving.read_breakers.get(&organization) == Some(&moves);
        if !has_moved_breakers {
            self.moving.unread_breakers.insert(organization, moves);
        }
        has_moved_breakers
    }

    /// Reads how breakers stand, for all organizations that came: one read at a time.
    pub(super) fn read_moved_breakers(&mut self) {
        if !self.moving.unread_breakers.is_empty() && !self.moving.reads_breakers {
            self.moving.reads_breakers = true;
            let arrivals = std::mem::take(&mut self.moving.unread_breakers).into_iter();
            let arrivals = arrivals.map(|(organization, moves)| Arrival { organization, moves }).collect();
            self.send(BackgroundTask::LoadMovedBreakers(arrivals));
        }
    }

    /// How breakers stand is known. What this owner itself decided since, of lanes that it had all the time, has a higher revision and stays.
    pub(super) fn moved_breakers_read(&mut self, arrivals: Vec<Arrival>, rows: Option<Vec<BreakerRow>>, now: Timestamp) {
        self.moving.reads_breakers = false;
        // If they could not be read, whoever asks next has them read again.
        let Some(rows) = rows else { return };
        let active = self.shards.active;
        rows.into_iter().filter(|row| active.has_lane(row.lane_id)).for_each(|row| _ = self.board.breakers.learn(row));
        self.moving.read_breakers.extend(arrivals.into_iter().map(|arrival| (arrival.organization, arrival.moves)));
        self.board.gain();
        self.survey_soon(now);
    }
}
