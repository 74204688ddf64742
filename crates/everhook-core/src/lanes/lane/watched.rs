//! What of a lane is counted for whoever watches the server.

use crate::{lanes::lane::Lane, model::Due};

impl Lane {
    /// Shows how the breaker stands.
    pub(in crate::lanes) fn note_breaker(&self) {
        self.counts.set_breaker(&self.gate.breaker().keep());
    }

    /// Whether a delivery was due while the breaker was open: what the breaker is in now, it began by opening or by closing after that.
    pub(in crate::lanes) fn was_held_up_by_breaker(&self, due: &Due) -> bool {
        self.has_opened && due.due_at < self.gate.breaker().keep().since
    }
}
