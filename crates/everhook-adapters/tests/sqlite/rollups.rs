//! That a time is read from as few rows as it has days, hours at its edges and minutes at theirs, however much happened in it.

use everhook_core::{
    ids::LaneId,
    model::{FailingRule, Tally, minute_of},
};
use rusqlite::{Connection, StatementStatus, params};

use crate::sqlite::given::{Given, NOW, after, success};

const MINUTES_A_DAY: i64 = 1_440;

/// Writes a row for each minute, hour and day of a lane, of so many days before a minute.
fn fill(connection: &Connection, lane: i64, days: i64, until: i64) {
    let sql = "WITH RECURSIVE minutes (minute) AS (SELECT ?2 UNION ALL SELECT minute + 1 FROM minutes WHERE minute + 1 < ?3)
        INSERT INTO rollups
        SELECT ?1, s.column1, minute, 1, 1000 * s.column1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, x'', NULL, NULL, x'', x''
        FROM minutes CROSS JOIN (VALUES (1), (60), (1440)) s WHERE minute % s.column1 = 0";
    connection.execute(sql, params![lane, until - days * MINUTES_A_DAY, until]).unwrap();
}

#[tokio::test]
async fn seven_days_are_read_from_a_few_rows_and_ninety_from_few_more() {
    let given = Given::new().await;
    let mut tally = Tally::new(given.endpoint.into(), minute_of(NOW));
    tally.add(&success(1), NOW);
    given.store.add(vec![tally], FailingRule::default()).await.unwrap();
    let now = NOW.as_secs() / 60;
    let connection = Connection::open(given.file()).unwrap();
    let lane: i64 =
        connection.query_row("SELECT lane FROM lanes WHERE id = ?1", [given.endpoint.as_uuid().as_bytes()], |row| row.get(0)).unwrap();
    connection.execute("DELETE FROM rollups WHERE lane = ?1", [lane]).unwrap();
    let midnight = now - now.rem_euclid(MINUTES_A_DAY);
    fill(&connection, lane, 100, midnight);
    let sql = include_str!("../../src/sqlite/queries/rollups_of_endpoint.sql");
    // In the worst case a time begins and ends in the middle of an hour.
    for (days, rows_max) in [(7, 6 + 46 + 118 + 1), (90, 89 + 46 + 118 + 1)] {
        let (first, end) = (midnight - days * MINUTES_A_DAY - 679, midnight - 679);
        let (first_hour, end_of_hours) = (first + 59 - (first + 59) % 60, end - end % 60);
        let (first_day, end_of_days) = (midnight - days * MINUTES_A_DAY, midnight - MINUTES_A_DAY);
        let mut statement = connection.prepare(sql).unwrap();
        let id = given.endpoint.as_uuid().as_bytes();
        let mut found = statement.query(params![id, first, first_hour, first_day, end_of_days, end_of_hours, end]).unwrap();
        let (mut rows, mut successes) = (0, 0);
        while let Some(row) = found.next().unwrap() {
            rows += 1;
            successes += row.get::<_, i64>("successes").unwrap();
        }
        drop(found);
        assert!(rows <= rows_max, "{days} days are read from {rows} rows");
        assert_eq!(successes, 1_000 * days * MINUTES_A_DAY, "{days} days");
        assert_eq!(statement.get_status(StatementStatus::FullscanStep), 0);
        let from = after(0) - std::time::Duration::from_secs(60 * u64::try_from(now - first).unwrap());
        let to = after(0) - std::time::Duration::from_secs(60 * u64::try_from(now - end).unwrap());
        let read = given.store.attempt_statistics(LaneId::from(given.endpoint), minute_of(from), minute_of(to)).await.unwrap();
        assert_eq!(read.successes, u64::try_from(1_000 * days * MINUTES_A_DAY).unwrap());
    }
}
