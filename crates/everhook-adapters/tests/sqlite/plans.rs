//! That no statement of the line or of history takes longer because the file has grown: each goes by an index, and reads few rows.

use rusqlite::{Connection, StatementStatus, config::DbConfig, types::Value};

use crate::sqlite::given::Given;

/// How many endpoints `many_rows.sql` spreads the deliveries over.
const ENDPOINTS: usize = 20;
/// How many deliveries there are, unless the variable `ROWS` says otherwise. Filling the file takes a few seconds.
const ROWS: u32 = 1_000_000;
/// The rows of a page.
const PAGE_ROWS: i64 = 51;
/// What a statement may do: a page with its joins takes about fifty steps a row. To walk a hundredth of the file takes four times as many.
const STEPS_MAX: i32 = 10_000;

/// What sorts rows that were read. Harmless only where an event or a limit bounds them.
const SORTS: &str = "USE TEMP B-TREE FOR ORDER BY";
/// An index that holds few rows, however many operations there were.
const WALKS_OPEN_OPERATIONS: &str = "SCAN o USING INDEX operations_with_work";
/// An index that holds few rows, however many endpoints there are.
const WALKS_BARRIERS: &str = "SCAN lanes USING INDEX lanes_with_barrier";
/// The most rows that statements name themselves: walking these is no scan of a table.
const CONSTANT_ROWS_MAX: i32 = 5;
/// Minutes, hours and days.
const WALKS_SPANS: [&str; 3] = ["SCAN 3 CONSTANT ROWS", "SCAN 3-ROW VALUES CLAUSE", "SCAN s"];
/// The five stretches that a time is cut into.
const WALKS_STRETCHES: [&str; 3] = ["SCAN 5 CONSTANT ROWS", "SCAN 5-ROW VALUES CLAUSE", "SCAN s"];
/// An index that holds the endpoints that work again for the moment until that is reported.
const WALKS_RECOVERED: &str = "SCAN a USING INDEX recovered_endpoints";

/// What a recursion has found so far, and what is counted of each: as many rows as the statement may count.
const GOES_FROM_ONE_TO_THE_NEXT: [&str; 3] = ["SCAN c", "SCAN counted_rows", "USE TEMP B-TREE FOR ORDER BY"];

#[tokio::test]
async fn in_a_file_of_a_million_deliveries_every_statement_goes_by_an_index_and_reads_few_rows() {
    let given = Given::new().await;
    for _ in 1..ENDPOINTS {
        given.another_endpoint().await;
    }
    let rows = std::env::var("ROWS").map_or(ROWS, |rows| rows.parse().expect("`ROWS` is a number"));
    let connection = fill(&given, rows);
    let about = Middle::of(&given, rows);
    for statement in
        [about.claiming(), about.settling(), about.lists(), about.look_ups(), about.removing(), about.watching()].into_iter().flatten()
    {
        let (plan, cost) = (statement.plan(&connection), statement.run(&connection));
        let slow: Vec<_> = plan.iter().filter(|step| is_slow(step) && !statement.excused.contains(&step.as_str())).collect();
        assert!(slow.is_empty(), "{}: {slow:?} in {plan:#?}", statement.name);
        assert!(cost.steps <= STEPS_MAX, "{}: {cost:?} by {plan:#?}", statement.name);
        let walked = if statement.excused.is_empty() { 0 } else { CONSTANT_ROWS_MAX };
        assert!(cost.scanned <= walked && cost.built == 0, "{}: {cost:?} by {plan:#?}", statement.name);
        assert!(cost.rows > 0 || !statement.is_list, "{} found nothing to read", statement.name);
    }
}

/// Whether a step of a plan takes longer the more rows there are.
fn is_slow(step: &str) -> bool {
    let scans = step.starts_with("SCAN") && step != "SCAN CONSTANT ROW" && !step.starts_with("SCAN (subquery");
    scans || step.starts_with("USE TEMP B-TREE") || step.contains("AUTOMATIC")
}

/// Writes the rows straight into the tables of the store's file, and nothing that would tell the planner about them: no store runs `ANALYZE`.
fn fill(given: &Given, rows: u32) -> Connection {
    let connection = Connection::open(given.file()).unwrap();
    connection.pragma_update(None, "synchronous", "OFF").unwrap();
    connection.pragma_update(None, "cache_size", -200_000).unwrap();
    // As the store sets it: plans do not depend on what is bound.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
    let sql = include_str!("many_rows.sql").replace(":rows", &rows.to_string());
    connection.execute_batch(&format!("BEGIN; {sql} COMMIT;")).unwrap();
    connection
}

/// A statement of the store, with what it is asked for here.
struct Statement {
    name: &'static str,
    sql: &'static str,
    values: Vec<Value>,
    /// Whether it must find something, so that the cost of a page is seen.
    is_list: bool,
    /// The one step of its plan that would be slow elsewhere.
    excused: &'static [&'static str],
}

/// What running a statement took.
#[derive(Debug)]
struct Cost {
    rows: usize,
    steps: i32,
    /// Rows that were stepped over in a full scan of a table.
    scanned: i32,
    /// Rows that were put into an index made for this one run.
    built: i32,
}

impl Statement {
    fn excused(self, steps: &'static [&'static str]) -> Self {
        Self { excused: steps, ..self }
    }

    fn plan(&self, connection: &Connection) -> Vec<String> {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", self.sql)).unwrap();
        let steps = statement.query_map(rusqlite::params_from_iter(&self.values), |row| row.get("detail")).unwrap();
        steps.collect::<Result<_, _>>().unwrap()
    }

    /// Runs it to its end, and takes back what it changed.
    fn run(&self, connection: &Connection) -> Cost {
        let undone = connection.unchecked_transaction().unwrap();
        let mut statement = undone.prepare(self.sql).unwrap();
        let mut found = statement.query(rusqlite::params_from_iter(&self.values)).unwrap();
        let mut rows = 0;
        while found.next().unwrap().is_some() {
            rows += 1;
        }
        drop(found);
        let count = |of| statement.get_status(of);
        let (steps, scanned) = (count(StatementStatus::VmStep), count(StatementStatus::FullscanStep));
        Cost { rows, steps, scanned, built: count(StatementStatus::AutoIndex) }
    }
}

/// A statement's text, by the name of its file.
macro_rules! sql {
    ($($part:literal),+) => {
        include_str!(concat!("../../src/sqlite/queries/", $($part,)+ ".sql"))
    };
}

/// A statement, with its values.
macro_rules! statement {
    ($name:literal, $($value:expr),+) => {
        Statement { name: $name, sql: sql!($name), values: vec![$(Value::from($value)),+], is_list: false, excused: &[] }
    };
}

/// The two statements of a list, with the values that come after the bounds of the page.
macro_rules! list {
    ($name:literal, $pages:expr, $($value:expr),*) => {
        $pages.both_ways($name, both_orders(sql!($name, "_page")), vec![$(Value::from($value)),*])
    };
}

/// A list's statement as it is written, and as it reads oldest first.
fn both_orders(newest_first: &'static str) -> [&'static str; 2] {
    [newest_first, newest_first.replace("DESC", "ASC").leak()]
}

const NONE: Value = Value::Null;
const EVER: (i64, i64) = (i64::MIN, i64::MAX);

/// The pages of an organization's list before and after a row.
struct Pages<'a> {
    organization: &'a [u8],
    middle: &'a [u8],
}

impl Pages<'_> {
    fn both_ways(&self, name: &'static str, [older, newer]: [&'static str; 2], rest: Vec<Value>) -> [Statement; 2] {
        let (first, middle, last) = (vec![0; 16], self.middle.to_vec(), vec![0xff; 16]);
        [(older, first, middle.clone()), (newer, middle, last)].map(|(sql, after, before)| {
            let bounds = [self.organization.to_vec().into(), after.into(), before.into(), PAGE_ROWS.into()];
            Statement { name, sql, values: bounds.into_iter().chain(rest.clone()).collect(), is_list: true, excused: &[] }
        })
    }
}

/// What the statements ask for: rows from the middle of the tables.
struct Middle {
    organization: Vec<u8>,
    endpoint: Vec<u8>,
    event: Vec<u8>,
    /// The event's first, one between, and its last.
    deliveries: [Vec<u8>; 3],
    /// One that died.
    dead: Vec<u8>,
    audit_entry: Vec<u8>,
    operation: Vec<u8>,
    /// The one that has items.
    first_operation: Vec<u8>,
}

impl Middle {
    /// `many_rows.sql` numbers the ids, and repeats itself every thousand deliveries.
    fn of(given: &Given, rows: u32) -> Self {
        let numbered = |kind: u8, n: u32| [&[0x01, 0x8b, 0xcf, 0xe5, 0x68, 0, 0x70, 0, kind, 0, 0, 0][..], &n.to_be_bytes()].concat();
        let n = rows / 2 / 1_000 * 1_000;
        Self {
            organization: given.organization.as_uuid().as_bytes().to_vec(),
            endpoint: given.endpoint.as_uuid().as_bytes().to_vec(),
            event: numbered(0x90, n / 10),
            deliveries: [n, n + 5, n + 9].map(|n| numbered(0x80, n)),
            dead: numbered(0x80, n + ENDPOINTS as u32),
            audit_entry: numbered(0xa0, n / 10),
            operation: numbered(0xb0, n / 100),
            first_operation: numbered(0xb0, 0),
        }
    }

    /// Which lanes have work, what is due in them, and what is cancelled or freed there.
    fn claiming(&self) -> Vec<Statement> {
        let endpoint = || self.endpoint.clone();
        let key = || "key".to_owned();
        vec![
            statement!("next_lane", 0),
            statement!("next_queue_of_lane", 10, 0),
            statement!("due_deliveries", endpoint(), 1, PAGE_ROWS, 0),
            statement!("event_for_sending", self.event.clone()),
            statement!("next_held_lane", 0),
            statement!("next_held_key", 10, String::new()),
            statement!("first_of_key", 10, key()),
            statement!("open_of_key", 10, key()),
            statement!("open_in_lane", 10),
            statement!("lanes_with_barrier", PAGE_ROWS).excused(&[WALKS_BARRIERS]),
            statement!("waiting_backlog", endpoint(), PAGE_ROWS),
            statement!("waiting_from", endpoint(), 1, 0, vec![0; 16], PAGE_ROWS),
            statement!("waiting_for_endpoint", endpoint(), PAGE_ROWS, i64::MAX).excused(&[SORTS]),
            statement!("held_or_parked_for_endpoint", endpoint(), PAGE_ROWS, i64::MAX),
            statement!("parked_for", self.organization.clone(), key(), PAGE_ROWS),
            statement!("parked_until", i64::MAX, PAGE_ROWS),
            statement!("releases_to_resume", i64::MAX, PAGE_ROWS),
        ]
    }

    /// What a settlement and a replay look up and change.
    fn settling(&self) -> Vec<Statement> {
        let [delivery, ..] = &self.deliveries;
        let (event, endpoint, delivery, dead) =
            (|| self.event.clone(), || self.endpoint.clone(), || delivery.clone(), || self.dead.clone());
        vec![
            statement!("settle_delivery", delivery(), 1, 1, NONE, 1, NONE, NONE),
            statement!("cancel_delivery", delivery(), 1, "endpoint_disabled".to_owned()),
            statement!("free_delivery", delivery(), 1),
            statement!("order_of_delivery", delivery()),
            statement!("park_made", event(), delivery(), delivery(), "source".to_owned()),
            statement!("hold_parked", delivery()),
            statement!("lane_of_endpoint", endpoint()),
            statement!("scopes_of_lanes", 10),
            statement!("end_retry_of_dead_letter", dead(), "resolved".to_owned(), 1),
            statement!("died_automatically", dead()),
            statement!("event_to_replay", event(), self.organization.clone()),
            statement!("status_of_dead_letter", event(), endpoint()),
            statement!("open_of_event_and_lane", event(), 10, delivery()),
        ]
    }

    /// Every list of history, both ways from its middle, and every scan of an operation.
    fn lists(&self) -> Vec<Statement> {
        let (endpoint, event, (from, to)) = (|| self.endpoint.clone(), || self.event.clone(), EVER);
        let pages = |middle| Pages { organization: &self.organization, middle };
        let (events, deliveries) = (pages(&self.event), pages(&self.deliveries[0]));
        let of_event = pages(&self.deliveries[1]);
        let (entries, operations) = (pages(&self.audit_entry), pages(&self.operation));
        let lists = [
            list!("events", events, NONE, NONE, from, to),
            list!("received_of_source", events, NONE, from, to, endpoint()),
            list!("received_of_user", events, NONE, from, to, endpoint(), "user".to_owned()),
            list!("deliveries_of_endpoint", deliveries, NONE, endpoint(), NONE, NONE, NONE, 0, NONE, from, to, NONE, NONE, NONE),
            list!("deliveries_of_event", of_event, NONE, NONE, event(), NONE, NONE, 0, NONE, from, to, NONE, NONE, NONE)
                .map(|list| list.excused(&[SORTS])),
            list!("dead_letters_of_organization", deliveries, NONE, NONE, NONE, NONE, NONE, from, to, NONE),
            list!("dead_letters_of_endpoint", deliveries, NONE, endpoint(), NONE, NONE, NONE, from, to, NONE),
            list!("audit_log", entries, NONE, NONE, NONE, NONE, from, to),
            list!("audit_log_of_resource", entries, NONE, NONE, NONE, endpoint(), from, to),
            list!("operations", operations,),
        ];
        let organization = || self.organization.clone();
        let scans = [
            statement!("events_after", organization(), event(), vec![0xff; 16], PAGE_ROWS),
            statement!("dead_letters_after", organization(), self.deliveries[0].clone(), PAGE_ROWS),
            statement!("due_dead_letters", organization(), 1, i64::MAX, PAGE_ROWS),
            statement!("next_operation_items", self.first_operation.clone(), PAGE_ROWS),
        ];
        lists.into_iter().flatten().chain(scans).collect()
    }

    /// The endpoints that fail for long or work again, among many that fail.
    fn watching(&self) -> Vec<Statement> {
        vec![
            statement!("failing_endpoints", i64::MAX, i64::MAX, i64::MIN, vec![0; 16], PAGE_ROWS),
            statement!("recovered_endpoints", PAGE_ROWS).excused(&[WALKS_RECOVERED]),
            statement!("health_history_of_endpoint", self.endpoint.clone()),
            statement!("write_health_history", 10, "[]".to_owned()),
            statement!("disable_failing_endpoint", self.endpoint.clone(), 1, "failing".to_owned()),
            // More than there are minutes: what is read of older ones is bounded by the page.
            statement!("lane_minutes", 28_333_333 + 4_000, -1, PAGE_ROWS),
            statement!("source_minutes", 28_333_333, vec![0; 16], PAGE_ROWS),
            statement!("minutes_of_lane", self.endpoint.clone(), 28_333_333, 28_333_333 + PAGE_ROWS),
            statement!("open_circuits", vec![0; 16], PAGE_ROWS),
            statement!("dead_letter_counts", vec![0; 16], PAGE_ROWS, PAGE_ROWS).excused(&GOES_FROM_ONE_TO_THE_NEXT),
            statement!("source_depths", -1, PAGE_ROWS, PAGE_ROWS).excused(&GOES_FROM_ONE_TO_THE_NEXT),
            statement!("failing_apps", vec![0; 16], PAGE_ROWS),
            statement!("open_alerts", vec![0; 16], PAGE_ROWS),
            statement!("alert_at", self.organization.clone(), "dead_letters".to_owned(), self.endpoint.clone()),
            statement!("alert_by_id", self.endpoint.clone(), self.organization.clone()),
            statement!(
                "update_alert_status",
                self.endpoint.clone(),
                "ok".to_owned(),
                1,
                1.0,
                1,
                NONE,
                NONE,
                "{}".to_owned(),
                "[]".to_owned(),
                1
            ),
            statement!("delete_alert_status", self.endpoint.clone(), 1),
            statement!("forget_alerts_over", 1, PAGE_ROWS),
            statement!("delete_alerts_of_organization", self.organization.clone(), PAGE_ROWS),
            statement!("alert_rules_of_organization", self.organization.clone()),
            statement!("alert_rules_after", vec![0; 16], PAGE_ROWS),
        ]
    }

    /// One row of history, with what belongs to it.
    fn look_ups(&self) -> Vec<Statement> {
        let [first, _, last] = self.deliveries.clone();
        let (organization, event) = (|| self.organization.clone(), || self.event.clone());
        vec![
            statement!("event_by_id", organization(), event()),
            statement!("event_with_stretch", organization(), event()),
            statement!("newest_deliveries_of_event", event(), first.clone(), last),
            statement!("delivery_by_id", organization(), first),
            statement!("attempts_of_delivery", self.dead.clone()),
            statement!("dead_letter", organization(), self.dead.clone()),
            statement!("endpoints_with_deliveries", organization(), NONE),
            statement!("rollups_of_endpoint", self.endpoint.clone(), 1, 60, 1_440, 11_520, 11_580, 11_600).excused(&WALKS_STRETCHES),
            statement!("rollup_of_minute", 1, 1, 1),
            statement!("unfolded_rollups", 1, 100),
            statement!("mark_folded_rollups", 1, 100),
            statement!("breakdowns_of_organization", organization(), "event_type".to_owned(), 50),
        ]
    }

    /// What is looked up and removed because it is old.
    fn removing(&self) -> Vec<Statement> {
        let ([delivery, ..], event) = (&self.deliveries, || self.event.clone());
        let (first, last) = (|| vec![0; 16], || vec![0xff; 16]);
        vec![
            statement!("events_of_age", event(), last(), PAGE_ROWS),
            statement!("event_may_go", event(), i64::MAX).excused(&[WALKS_OPEN_OPERATIONS]),
            statement!("deliveries_of_event", event(), first(), PAGE_ROWS).excused(&[SORTS]),
            statement!("forget_attempts", self.dead.clone()),
            statement!("forget_delivery", delivery.clone()),
            statement!("forget_key_of_event", self.organization.clone(), "key".to_owned(), event()),
            statement!("forget_event", event()),
            statement!("forget_dead_letters", i64::MAX, PAGE_ROWS),
            statement!("endpoints_until", first(), PAGE_ROWS),
            statement!("organizations_until", first(), PAGE_ROWS),
            statement!("operations_until", self.operation.clone(), PAGE_ROWS, last()),
            statement!("forget_rollups", first(), last(), i64::MAX, PAGE_ROWS).excused(&WALKS_SPANS),
            statement!("forget_source_rollups", i64::MAX, PAGE_ROWS),
            statement!("forget_open_periods", first(), last(), i64::MAX, PAGE_ROWS),
            statement!("forget_revisions", first(), last(), i64::MAX, PAGE_ROWS),
            statement!("unused_deleted_endpoints", first(), last(), i64::MAX, PAGE_ROWS),
            statement!("forget_audit_entries", first(), last(), self.audit_entry.clone(), PAGE_ROWS),
            statement!("forget_health_metrics", first(), last(), self.audit_entry.clone(), PAGE_ROWS),
            statement!("forget_operations", self.operation.clone(), self.operation.clone(), i64::MAX),
        ]
    }
}

#[tokio::test]
async fn the_end_of_a_search_is_found_by_the_index_alone() {
    let given = Given::new().await;
    let connection = Connection::open(given.file()).unwrap();
    let searches = [
        (sql!("search_end_in_application"), "endpoints_by_application"),
        (sql!("search_end_in_organization"), "endpoints_by_organization"),
    ];
    for (sql, index) in searches {
        for sql in both_orders(sql) {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let plan = statement.query_map([const { None::<i64> }; 4], |row| row.get::<_, String>(3)).unwrap();
            let plan: Vec<_> = plan.map(Result::unwrap).collect();
            assert!(plan.len() == 1 && plan[0].contains(&format!("USING COVERING INDEX {index} (")), "{plan:#?}");
        }
    }
}

#[tokio::test]
async fn the_endpoints_of_an_application_are_found_without_those_of_others() {
    let given = Given::new().await;
    let connection = Connection::open(given.file()).unwrap();
    for sql in both_orders(sql!("endpoints_of_application_page")) {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let nothing = [const { None::<i64> }; 10];
        let plan = statement.query_map(rusqlite::params_from_iter(nothing), |row| row.get::<_, String>(3)).unwrap();
        let plan: Vec<_> = plan.map(Result::unwrap).collect();
        assert!(plan[0].contains("endpoints_by_application (application_id=? AND id>? AND id<?)"), "{plan:#?}");
    }
}
