//! What a scenario must not leave over: work that should have been done by now. [`World`] looks when it is dropped.
//!
//! Either store is looked at, through a connection of its own. What is merely to come is no leftover, and neither is what waits behind something that stands
//! still on purpose: a pause, an open breaker, a predecessor.

use std::time::Duration;

use everhook_adapters::sqlite::DATABASE_FILE;
use everhook_core::{ports::Clock as _, time::Timestamp};
use rusqlite::{Connection, OpenFlags, named_params};

use super::World;

/// How long work may be overdue: longer than it takes to find what a lost hint left lying, which is five seconds.
const OVERDUE_FOR: Duration = Duration::from_secs(10);

/// What is overdue in the store, a sentence each.
const OVERDUE: &str = "
    SELECT 'delivery ' || lower(hex(deliveries.id)) || ' has waited in a lane that flows since ' || due_at || ', now is ' || :now
    FROM deliveries
    JOIN lanes USING (lane)
    LEFT JOIN endpoints ON endpoints.id = lanes.id
    LEFT JOIN circuit_breakers ON circuit_breakers.endpoint_id = lanes.id
    WHERE deliveries.stage = 0 AND due_at < :overdue AND paused_at IS NULL
      AND (circuit_breakers.stage IS NULL OR circuit_breakers.stage IN ('closed', 'forced_closed'))
    UNION ALL
    SELECT 'delivery ' || lower(hex(held.id)) || ' is held behind nothing'
    FROM deliveries AS held
    WHERE held.stage = 4 AND NOT EXISTS (
        SELECT 1 FROM deliveries AS before
        WHERE before.lane = held.lane AND before.order_key = held.order_key
          AND before.order_position < held.order_position AND before.stage IN (0, 5))
    UNION ALL
    SELECT 'delivery ' || lower(hex(id)) || ' is parked past its time' FROM deliveries WHERE stage = 5 AND expires_at < :overdue
    UNION ALL
    SELECT 'released deliveries that wait for ' || waits_for || ' were not looked at again' FROM releases WHERE look_at < :overdue
    UNION ALL
    SELECT 'the deliveries of event ' || lower(hex(event_id)) || ' are not all made' FROM unfinished_fanouts WHERE made_at < :overdue
    UNION ALL
    SELECT 'event ' || lower(hex(event_id)) || ' is not erased to the end' FROM unfinished_erasures WHERE at < :overdue
    UNION ALL
    SELECT 'alert ' || event_type || ' is still in the outbox' FROM pending_alerts
    UNION ALL
    SELECT 'approval ' || lower(hex(id)) || ' is decided, and what follows from it is not published' FROM approvals WHERE unpublished IS NOT NULL
    UNION ALL
    SELECT 'approval ' || lower(hex(id)) || ' waits although its time is over' FROM approvals WHERE status = 'pending' AND expires_at < :overdue
    UNION ALL
    SELECT kind || ' ' || lower(hex(id)) || ' is deleted, and its endpoints are not' FROM deletions
    UNION ALL
    SELECT 'operation ' || lower(hex(id)) || ' (' || kind || ') is ' || status || ' and ' || phase
    FROM operations
    WHERE phase <> 'over' AND coalesce(start_at, created_at) < :overdue";

impl World {
    /// Says that this scenario ends with work undone, and that this is meant.
    pub fn leaves_work_over(&mut self) {
        self.may_leave_work = true;
    }

    pub(crate) fn may_leave_work(&self) -> bool {
        self.may_leave_work
    }

    /// What should have been done by now and was not, a sentence each.
    pub fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(running) = &self.running {
            let status = running.engine.status();
            // A PostgreSQL answers in its own time, and not in the scenario's: what is on its way there is no work that was left over.
            let is_inline = self.shared.is_none();
            if status.in_flight > 0 && is_inline {
                found.push(format!("{} requests are under way", status.in_flight));
            }
            if status.unwritten > 0 && is_inline {
                found.push(format!("{} outcomes are not written", status.unwritten));
            }
            let spooled = running.line.ports.spool.as_ref().map_or(0, |spool| spool.status().events);
            if spooled > 0 {
                found.push(format!("{spooled} events are in the spool"));
            }
        }
        if let Some(registry) = &self.registry {
            found.extend(registry.leases_of_dead_boots(OVERDUE_FOR));
        }
        match &self.shared {
            Some(shared) => found.extend(shared.leftovers(self.clock.now(), self.overdue_before())),
            None => found.extend(self.overdue_in_store()),
        }
        found
    }

    /// What should have been done before this instant is overdue.
    fn overdue_before(&self) -> Timestamp {
        self.clock.now() - OVERDUE_FOR
    }

    fn overdue_in_store(&self) -> Vec<String> {
        let file = self.folder.path().join(DATABASE_FILE);
        let store = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("the store can be read");
        let (now, overdue) = (self.clock.now(), self.overdue_before().as_micros());
        let mut statement = store.prepare(OVERDUE).expect("the statement fits the tables");
        let rows = statement.query_map(named_params! { ":now": now.as_micros(), ":overdue": overdue }, |row| row.get(0));
        rows.expect("the store answers").map(|row| row.expect("a sentence")).collect()
    }
}

impl Drop for World {
    /// # Panics
    /// If the scenario leaves work over, unless it fails already or [means to](World::leaves_work_over).
    fn drop(&mut self) {
        if self.may_leave_work || std::thread::panicking() {
            return;
        }
        let found = self.leftovers();
        assert!(
            found.is_empty(),
            "the scenario leaves work over (let time pass until it is done, or call `leaves_work_over`):\n- {}",
            found.join("\n- ")
        );
    }
}
