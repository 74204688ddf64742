//! That every statement finds what it needs by an index, however long the tables are.

use super::{super::migrate, *};

/// Every statement that runs once for each item or reads a stretch of a long table.
const STATEMENTS: &[(&str, &str)] = &[
    ("the list of an organization", LIST.older),
    ("operations with work", WITH_WORK),
    ("open operations", COUNT_OPEN),
    ("an item's insert", INSERT_ITEM),
    ("the next items", NEXT_ITEMS),
    ("an item's end", TAKE_ITEM),
    ("clearing", CLEAR),
    ("discarding", DISCARD),
    ("events to erase", include_str!("../queries/events_to_erase_after.sql")),
    ("an erasure's items", include_str!("../queries/next_erasure_items.sql")),
    ("an erasure's item's end", include_str!("../queries/take_erasure_item.sql")),
    ("clearing of an erasure", include_str!("../queries/clear_erasure_items.sql")),
    ("deliveries of an event", include_str!("../queries/deliveries_of_event.sql")),
    ("responses to erase", include_str!("../queries/erase_responses.sql")),
    ("dead letters", include_str!("../queries/dead_letters_after.sql")),
    ("events", include_str!("../queries/events_after.sql")),
    ("how an event stands", include_str!("../queries/newest_deliveries_of_event.sql")),
    ("an event to replay", include_str!("../queries/event_to_replay.sql")),
    ("a dead letter's status", include_str!("../queries/status_of_dead_letter.sql")),
    ("what is open", include_str!("../queries/open_of_event_and_lane.sql")),
    ("requeueing", include_str!("../queries/requeue_dead_letter.sql")),
    ("dead letters that are due", include_str!("../queries/due_dead_letters.sql")),
    ("who died automatically", include_str!("../queries/died_automatically.sql")),
    ("the end of a retry", include_str!("../queries/end_retry_of_dead_letter.sql")),
];

#[test]
fn no_statement_walks_a_whole_table() {
    let connection = Connection::open_in_memory().expect("memory");
    migrate::migrate(&connection, Timestamp::EPOCH).expect("the schema");
    for (name, sql) in STATEMENTS {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
        let unbound = vec![None::<i64>; statement.parameter_count()];
        let steps = statement.query_map(rusqlite::params_from_iter(unbound), |row| row.get::<_, String>("detail")).expect("a plan");
        for step in steps.map(|step| step.expect("a step")) {
            // The index of what is left to do is walked: it holds a few rows, however many operations there were.
            let walks = step.starts_with("SCAN") && !["operations_with_work", "found", "CONSTANT"].iter().any(|word| step.contains(word));
            assert!(!walks, "{name}: {step}");
        }
    }
}
