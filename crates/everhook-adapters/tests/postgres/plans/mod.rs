//! That no statement of the line or of history takes longer because the database has grown: each goes by an index, and reads few pages.
//!
//! Sessions of the store make a plan once and keep it, so that one that was made while the tables were empty is looked at on full ones too.

mod flat;
mod session;
mod statements;

use std::{collections::BTreeSet, env, fs, path::Path};

use self::{
    session::{Session, Step, parameters},
    statements::{Middle, statement},
};
use crate::postgres::given::{Given, NOW};

/// How many endpoints `many_rows.sql` spreads the deliveries over.
const LANES: usize = 20;
/// How many deliveries there are, unless the variable `ROWS` says otherwise. Filling takes ten seconds; a million takes a minute.
const ROWS: u64 = 200_000;
/// The rows of a page.
const PAGE_ROWS: usize = 51;
/// What a statement may read or write, in pages of 8 KiB. A row of a page takes up to thirty: its own look-up and that of what belongs to it take
/// three or four each, and so does every index that it is written to.
const PAGES_MAX: u64 = 30 * PAGE_ROWS as u64;
/// What any step of a plan may have in its hands: a page of what is open and one of what has ended, or all that belongs to an event in every lane.
const ROWS_MAX: u64 = 2 * PAGE_ROWS as u64;

#[tokio::test]
async fn among_many_deliveries_every_statement_goes_by_the_indexes_that_it_names_and_reads_few_pages() {
    let given = Given::new().await;
    let mut endpoints = vec![given.endpoint];
    for _ in 1..LANES {
        endpoints.push(given.another_endpoint().await);
    }
    given.backing.node().await.make_partitions(NOW).await.unwrap();
    let rows = env::var("ROWS").map_or(ROWS, |rows| rows.parse().expect("`ROWS` is a number"));
    let session = Session::open(&given).await;
    let about = Middle::of(&given, &endpoints, rows);
    let measured = [about.claiming(), about.settling(), about.working(), about.lists(), about.look_ups()].concat();
    // Given plans that were made while there was nothing, as those of a node are that was there first.
    for statement in &measured {
        session.plan(statement).await;
    }
    let fill = include_str!("many_rows.sql").replace(":rows", &rows.to_string()).replace(":lanes", &LANES.to_string());
    given.tamper(&fill).await;
    let mut faults = Vec::new();
    for statement in &measured {
        faults.extend(session.faults_of(statement).await.map(|fault| format!("planned on empty tables, {fault}")));
    }
    // And plans that know the tables.
    given.tamper("ANALYZE").await;
    for statement in &measured {
        faults.extend(session.faults_of(statement).await);
    }
    faults.extend(against_their_headers(&Session::open(&given).await).await);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What is wrong with the plans of all statements: that one walks a table, or goes by other indexes than its header says.
async fn against_their_headers(session: &Session) -> Vec<String> {
    session.look_at_all_partitions().await;
    let mut faults = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/postgres/queries")).unwrap() {
        let path = entry.unwrap().path();
        let (name, sql) = (path.file_stem().unwrap().to_str().unwrap(), fs::read_to_string(&path).unwrap());
        // Commands have no plan. Those that walk the partition of a day, whose name they are given, do it page by page.
        let first = sql.lines().find(|line| !line.starts_with("--")).and_then(|line| line.split_whitespace().next()).unwrap_or_default();
        let has_plan = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"].contains(&first);
        if !has_plan || name == "take_longer" || sql.contains("{deliveries}") || sql.contains("{events}") {
            continue;
        }
        let plan = session.plan(&statement(name, vec!["NULL".to_owned(); parameters(&sql)])).await;
        if plan.steps().iter().any(Step::walks_a_table) {
            faults.push(format!("{name} walks a table:\n{plan}"));
        }
        let used: BTreeSet<&str> = plan.steps().iter().filter_map(|step| session.index_of(step)).collect();
        let missing: Vec<_> = session.named_in(&sql).into_iter().filter(|index| !used.contains(index)).collect();
        if !missing.is_empty() {
            faults.push(format!("{name} goes by {used:?}, and its header says {missing:?}:\n{plan}"));
        }
    }
    faults
}
