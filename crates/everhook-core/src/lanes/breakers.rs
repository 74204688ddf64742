//! What the store keeps of breakers, and what it does not keep yet. Pure.
//!
//! The owner of a lane decides about its breaker, and a person may overrule it through the store. Each writes only over the revision that it knows: if
//! somebody else was faster, the store's is taken.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    ids::{ApplicationId, LaneId},
    model::{KeptBreaker, KeptWindow, ShardSet},
    policy::breaker::Transition,
    ports::{BreakerChange, BreakerRow, LaneWindow, WINDOW_GOOD_FOR},
    time::Timestamp,
};

/// How many changes one write holds.
const CHANGES_MAX: usize = 500;

/// The breakers that were ever other than closed.
#[derive(Default)]
pub(super) struct Breakers {
    rows: FxHashMap<LaneId, Row>,
    /// What is to be written, oldest first.
    unwritten: VecDeque<BreakerChange>,
    /// Whether somebody keeps what closed breakers have counted.
    pub(super) keeps_windows: bool,
    /// What former owners of lanes have counted, until the lane is made.
    windows: FxHashMap<LaneId, KeptWindow>,
    /// Who has counted something that was not handed over.
    counted: FxHashSet<LaneId>,
    /// The same of lanes that are gone.
    left: Vec<LaneWindow>,
}

struct Row {
    revision: i64,
    kept: KeptBreaker,
    /// Whether somebody else decided it, and the lane does not know yet.
    is_news: bool,
}

impl Breakers {
    /// How an endpoint's breaker stands, for a lane that is made from it. Then it is no news: a lane that took it in twice would forget what it
    /// counted in between, and the probes that it has under way.
    pub(super) fn kept(&mut self, lane_id: LaneId) -> Option<&KeptBreaker> {
        let row = self.rows.get_mut(&lane_id)?;
        row.is_news = false;
        Some(&row.kept)
    }

    /// What former owners of lanes have counted.
    pub(super) fn learn_windows(&mut self, windows: Vec<LaneWindow>, now: Timestamp) {
        let young = windows.into_iter().filter(|kept| now.since(kept.window.at) < WINDOW_GOOD_FOR);
        self.windows.extend(young.map(|kept| (kept.lane_id, kept.window)));
    }

    /// What the former owner of a lane has counted, once.
    pub(super) fn take_window(&mut self, lane_id: LaneId) -> Option<KeptWindow> {
        self.windows.remove(&lane_id)
    }

    /// A lane's breaker has counted a call.
    pub(super) fn count(&mut self, lane_id: LaneId) {
        if self.keeps_windows {
            self.counted.insert(lane_id);
        }
    }

    /// Whether something was counted that was not handed over.
    pub(super) fn has_counted(&self) -> bool {
        !self.counted.is_empty() || !self.left.is_empty()
    }

    /// Who has counted something that was not handed over, and what of it is of lanes that are gone.
    pub(super) fn take_counted(&mut self) -> (FxHashSet<LaneId>, Vec<LaneWindow>) {
        (std::mem::take(&mut self.counted), std::mem::take(&mut self.left))
    }

    /// A lane is left: what it has counted is handed over all the same.
    pub(super) fn leave(&mut self, lane_id: LaneId, window: Option<KeptWindow>) {
        if self.counted.remove(&lane_id) {
            self.left.extend(window.map(|window| LaneWindow { lane_id, window }));
        }
    }

    /// The store shows this. Says whether it is news. Another decision under the revision of one that is not written yet was faster than ours.
    pub(super) fn learn(&mut self, row: BreakerRow) -> bool {
        let is_news = self
            .rows
            .get(&row.lane_id)
            .is_none_or(|known| known.revision < row.revision || (known.revision == row.revision && known.kept != row.kept));
        if is_news {
            self.unwritten.retain(|change| change.lane_id != row.lane_id);
            self.rows.insert(row.lane_id, Row { revision: row.revision, kept: row.kept, is_news });
        }
        is_news
    }

    /// What somebody else decided about an endpoint's breaker, once.
    pub(super) fn take_news(&mut self, lane_id: LaneId) -> Option<KeptBreaker> {
        let row = self.rows.get_mut(&lane_id)?;
        std::mem::take(&mut row.is_news).then_some(row.kept)
    }

    /// The lane's breaker changed: this is to be written.
    pub(super) fn changed(&mut self, application: ApplicationId, lane_id: LaneId, kept: KeptBreaker, transition: Transition) {
        let known = self.rows.get(&lane_id).map_or(0, |row| row.revision);
        self.rows.insert(lane_id, Row { revision: known + 1, kept, is_news: false });
        let transition = Some(transition);
        self.unwritten.push_back(BreakerChange {
            application,
            lane_id,
            revision: known + 1,
            kept,
            transition,
            alerts: Vec::new(),
            entry: None,
        });
    }

    /// Takes what is to be written.
    pub(super) fn take_unwritten(&mut self) -> Vec<BreakerChange> {
        let count = self.unwritten.len().min(CHANGES_MAX);
        self.unwritten.drain(..count).collect()
    }

    /// Whether anything is to be written.
    pub(super) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Whose breakers are to be written.
    pub(super) fn unwritten(&self) -> impl Iterator<Item = LaneId> {
        self.unwritten.iter().map(|change| change.lane_id)
    }

    /// Whether anything is to be written about lanes of these shards.
    pub(super) fn has_unwritten_of(&self, shards: ShardSet) -> bool {
        self.unwritten().any(|lane_id| shards.has_lane(lane_id))
    }

    /// Forgets breakers whose lanes are another node's.
    pub(super) fn forget(&mut self, shards: ShardSet) {
        self.rows.retain(|lane_id, _| !shards.has_lane(*lane_id));
        self.windows.retain(|lane_id, _| !shards.has_lane(*lane_id));
    }

    /// A write failed: it is to be done again, before what came after it.
    pub(super) fn put_back(&mut self, changes: Vec<BreakerChange>) {
        changes.into_iter().rev().for_each(|change| self.unwritten.push_front(change));
    }

    /// Somebody else's decision stands: what follows from ours is not written.
    pub(super) fn overruled(&mut self, row: BreakerRow) {
        let is_known = |known: &Row| (known.revision, known.kept) == (row.revision, row.kept);
        if !self.rows.get(&row.lane_id).is_some_and(is_known) {
            self.unwritten.retain(|change| change.lane_id != row.lane_id);
            self.rows.insert(row.lane_id, Row { revision: row.revision, kept: row.kept, is_news: true });
        }
    }
}
