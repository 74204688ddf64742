//! A session that is set as those of the store are, and says how it would do or did a statement.

use std::{collections::BTreeMap, fmt, fs, path::Path, sync::Mutex};

use serde_json::Value;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::{PAGES_MAX, ROWS_MAX, statements::Statement};
use crate::postgres::given::Given;

/// How the sessions of the store are set.
const SETTINGS: &str = "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; SET enable_bitmapscan = off";
/// Tables that stay small, whatever is published: as many rows as there are nodes, shards or duties, or what nodes were told in the last hour.
const SMALL: [&str; 8] = ["boots", "shards", "duties", "forgotten_changes", "changes", "schema_migrations", "moves", "moved_tables"];
/// Every index of the tables, and the index of the partitioned table that it is a part of.
const INDEXES: &str = "SELECT c.relname, coalesce(p.relname, c.relname)
    FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
    WHERE c.relkind IN ('i', 'I') AND c.relnamespace = 'everhook'::regnamespace";

pub struct Session {
    client: Client,
    indexes: BTreeMap<String, String>,
    prepared: Mutex<Vec<String>>,
}

impl Session {
    pub async fn open(given: &Given) -> Self {
        let (client, connection) = tokio_postgres::connect(&given.backing.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(SETTINGS).await.unwrap();
        let indexes = client.query(INDEXES, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
        Self { client, indexes, prepared: Mutex::default() }
    }

    /// Has plans show every partition, also those that the values of a statement leave out.
    pub async fn look_at_all_partitions(&self) {
        self.client.batch_execute("SET enable_partition_pruning = off").await.unwrap();
    }

    /// How a statement would be done.
    pub async fn plan(&self, statement: &Statement) -> Plan {
        self.explain(statement, "FORMAT JSON").await
    }

    /// Does a statement, and takes back what it changed.
    pub async fn run(&self, statement: &Statement) -> Plan {
        self.client.batch_execute("BEGIN").await.unwrap();
        let plan = self.explain(statement, "ANALYZE, BUFFERS, FORMAT JSON").await;
        self.client.batch_execute("ROLLBACK").await.unwrap();
        plan
    }

    /// Does a statement, takes back what it changed, and says what was wrong about it.
    pub async fn faults_of(&self, statement: &Statement) -> Option<String> {
        let plan = self.run(statement).await;
        let slow = plan.steps().iter().any(|step| step.walks_a_table() || step.rows() > ROWS_MAX * statement.lists);
        let is_missing = statement.is_list && plan.steps()[0].rows() == 0;
        let wrong = slow || is_missing || plan.pages() > PAGES_MAX * statement.lists;
        wrong.then(|| format!("{} reads {} pages and finds {} rows:\n{plan}", statement.name, plan.pages(), plan.steps()[0].rows()))
    }

    /// The index that a step goes by, under the name that headers have for it.
    pub fn index_of(&self, step: &Step<'_>) -> Option<&str> {
        self.indexes.get(step.text("Index Name")?).map(String::as_str)
    }

    /// The indexes that a statement's header names as those that it reads: not those that a row enters or leaves.
    pub fn named_in<'s>(&'s self, sql: &str) -> Vec<&'s str> {
        let header: Vec<_> = sql.lines().take_while(|line| line.starts_with("--")).collect();
        let header = header.join(" ");
        let named = header.split_once("Index:").map_or("", |(_, named)| named);
        let read = [" Lock:", "leaves", "enters"].iter().fold(named, |named, end| named.split(end).next().unwrap_or(named));
        let is_written = sql.lines().any(|line| line.starts_with("INSERT"));
        let words = read.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|_| !is_written);
        words.filter_map(|word| self.indexes.get(word).map(String::as_str)).collect()
    }

    async fn explain(&self, statement: &Statement, how: &str) -> Plan {
        let Statement { name, values, .. } = statement;
        if !self.prepared.lock().unwrap().contains(name) {
            let sql = sql(name);
            let prepare = format!("PREPARE {name} AS {}", sql.trim_end().trim_end_matches(';'));
            self.client.batch_execute(&prepare).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            self.prepared.lock().unwrap().push(name.clone());
        }
        let values = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
        let rows = self.client.simple_query(&format!("EXPLAIN ({how}) EXECUTE {name} {values}")).await;
        let rows = rows.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let plan = rows.iter().find_map(|row| match row {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        Plan(serde_json::from_str(plan.expect("a plan")).unwrap())
    }
}

/// A statement's text, by the name of its file. A list has one file for both ways.
fn sql(name: &str) -> String {
    let queries = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/postgres/queries");
    let read = |name: &str| fs::read_to_string(queries.join(format!("{name}.sql"))).unwrap();
    match name.rsplit_once('_') {
        Some((list, "older")) => read(&format!("{list}_page")),
        Some((list, "newer")) => read(&format!("{list}_page")).replace("DESC", "ASC"),
        _ => read(name),
    }
}

/// How many values a statement takes.
pub fn parameters(sql: &str) -> usize {
    let numbers = sql.split('$').skip(1).map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    numbers.filter_map(|number| number.parse().ok()).max().unwrap_or(0)
}

/// How a statement would be done, or was.
#[derive(Debug)]
pub struct Plan(Value);

impl Plan {
    /// Its steps, the outermost first.
    pub fn steps(&self) -> Vec<Step<'_>> {
        let mut steps = vec![Step(&self.0[0]["Plan"])];
        let mut next = 0;
        while next < steps.len() {
            let below = steps[next].0["Plans"].as_array();
            steps.extend(below.into_iter().flatten().map(Step));
            next += 1;
        }
        steps
    }

    /// How many pages it read, from memory or from the disk. What a `WITH` writes for nobody to read is done after the outermost step has ended,
    /// and not counted there.
    pub fn pages(&self) -> u64 {
        let steps = self.steps();
        let read: Vec<_> = steps.iter().filter_map(|step| step.text("CTE Name")).collect();
        let name = |step: &Step<'_>| step.text("Subplan Name").and_then(|name| name.strip_prefix("CTE ")).map(str::to_owned);
        let unread = steps.iter().filter(|step| name(step).is_some_and(|name| !read.contains(&name.as_str())));
        steps[0].pages() + unread.map(Step::pages).sum::<u64>()
    }

    /// How long it took to do, if it was done.
    pub fn micros(&self) -> f64 {
        self.0[0]["Execution Time"].as_f64().unwrap_or(0.0) * 1_000.0
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps().iter().try_for_each(|step| writeln!(f, "    {step}"))
    }
}

/// One step of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Step<'p>(&'p Value);

impl Step<'_> {
    /// Whether it reads a table that grows from one end to the other.
    pub fn walks_a_table(&self) -> bool {
        let (kind, table) = (self.text("Node Type").unwrap_or_default(), self.text("Relation Name").unwrap_or_default());
        ["Seq Scan", "Bitmap Heap Scan"].contains(&kind) && !SMALL.contains(&table)
    }

    /// The rows that it had in its hands, also those that it did not pass on.
    pub fn rows(&self) -> u64 {
        let removed = ["Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter"];
        let each = self.number("Actual Rows") + removed.iter().map(|removed| self.number(removed)).sum::<u64>();
        each * self.number("Actual Loops")
    }

    /// How many pages it read, from memory or from the disk.
    fn pages(&self) -> u64 {
        self.number("Shared Hit Blocks") + self.number("Shared Read Blocks")
    }

    fn text(&self, of: &str) -> Option<&str> {
        self.0[of].as_str()
    }

    fn number(&self, of: &str) -> u64 {
        // Newer servers say rows with a fraction.
        self.0[of].as_f64().unwrap_or(0.0) as u64
    }
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |what| self.text(what).unwrap_or_default();
        write!(f, "{} {} {} ", of("Node Type"), of("Relation Name"), of("Index Name"))?;
        write!(f, "[{}] [{}]: {} rows, {} pages", of("Index Cond"), of("Filter"), self.rows(), self.pages())
    }
}
