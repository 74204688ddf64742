//! Roles that read one organization's reports: they see all that is its own, and nothing else, whatever they try.

mod locks;
mod readers;

use std::collections::BTreeSet;

use everhook_adapters::postgres::{PostgresSettings, PostgresStore};
use tokio_postgres::Client;
use uuid::Uuid;

use self::readers::{Login, Reports, connect, filling, grant, names, organization};
use crate::{
    database::{execute, server},
    postgres::given::{Given, NOW},
};

/// What such a role reads, and how its owner finds the rows of an organization (`:id`) there.
const COVERED: [(&str, &str); 24] = [
    ("organizations", "id = ':id'"),
    ("applications", "organization_id = ':id'"),
    ("manifests", "organization_id = ':id'"),
    ("draws", "organization_id = ':id'"),
    ("retry_schedules", "organization_id = ':id'"),
    // The first is the one that all endpoints of this test were written with.
    ("schedules", "version = 1 OR version IN (SELECT version FROM retry_schedules WHERE organization_id = ':id')"),
    ("event_types", "organization_id = ':id'"),
    ("lanes", "organization_id = ':id'"),
    ("channels", "organization_id = ':id'"),
    ("endpoints", "organization_id = ':id'"),
    ("sources", "organization_id = ':id'"),
    ("events", "organization_id = ':id'"),
    ("open_deliveries", OF_LANES),
    ("deliveries", OF_LANES),
    ("all_deliveries", OF_LANES),
    ("attempts", "delivery_id IN (SELECT id FROM endpoints WHERE organization_id = ':id')"),
    ("dead_letters", "organization_id = ':id'"),
    ("circuit_breakers", "endpoint_id IN (SELECT id FROM endpoints WHERE organization_id = ':id')"),
    ("open_periods", "endpoint_id IN (SELECT id FROM endpoints WHERE organization_id = ':id')"),
    ("rollups", OF_LANES),
    ("endpoint_activity", OF_LANES),
    ("operations", "organization_id = ':id'"),
    ("auto_replays", "organization_id = ':id'"),
    ("audit_log", "organization_id = ':id'"),
];
const OF_LANES: &str = "lane IN (SELECT lane FROM endpoints WHERE organization_id = ':id')";

/// What no such role reads: secrets, and what nodes keep for themselves.
const INTERNAL: [&str; 43] = [
    // Read through the API, which shows the default rules as well.
    "alert_rules",
    "alerts",
    "api_key_uses",
    "api_keys",
    // Read through the API, which adds how calls went.
    "app_checks",
    "application_counters",
    "application_secrets",
    // Calls that wait for people, and what these answered: read through the API.
    "approvals",
    "boots",
    "breaker_votes",
    "budget_slots",
    "budgets",
    "cached_answers",
    "changes",
    "deletions",
    "departures",
    "duties",
    "endpoint_revisions",
    "erasure_items",
    "event_aliases",
    "forgotten_changes",
    // Personal data: read through the API, which says who may.
    "health_connections",
    "health_metrics",
    "idempotency_keys",
    "installation",
    // Tokens of callbacks, and what apps said: read through the API.
    "jobs",
    "made_later",
    "moved_tables",
    "moves",
    "node_locks",
    "nodes",
    "operation_items",
    "pending_alerts",
    "provider_rates",
    "releases",
    "report_roles",
    "schema_migrations",
    "sealing",
    "shards",
    "source_activity",
    "source_rollups",
    // Not tables, but they tell how many endpoints or changes there are in all.
    "changes_number_seq",
    "lanes_lane_seq",
];

/// The columns of [`COVERED`] that are not granted: secrets, and headers, whose values may be credentials; and where a row lies.
const HIDDEN: [&str; 12] = [
    "channels.credentials",
    "endpoints.changed_version",
    "endpoints.config_bytes",
    "endpoints.headers",
    "endpoints.previous_secret",
    "endpoints.previous_secret_until",
    "endpoints.secret",
    "events.headers",
    "events.kept",
    "events.received_headers",
    "sources.secrets",
    "sources.verify_token",
];

#[tokio::test]
async fn every_table_is_either_shown_by_a_view_and_covered_by_a_policy_or_listed_as_internal() {
    let given = Given::new().await;
    let owner = connect(&given.backing.database()).await;
    // Sequences are refused like tables, whichever they are: only those that tell something are listed.
    let there = names(&owner, "SELECT relname FROM pg_class WHERE NOT relispartition AND relkind NOT IN ('i', 'I', 'S', 't') AND relnamespace = 'everhook'::regnamespace").await;
    let known: BTreeSet<String> =
        COVERED.iter().map(|(table, _)| *table).chain(INTERNAL).filter(|name| !name.ends_with("_seq")).map(str::to_owned).collect();
    assert_eq!(there, known, "a new table needs a policy, a grant and a view in a migration, or a line among the internal ones here");
    let covered: BTreeSet<String> = COVERED.iter().map(|(table, _)| (*table).to_owned()).collect();
    let readable = "SELECT relname FROM pg_class WHERE relnamespace = 'everhook_reports'::regnamespace AND relkind = 'v'
        AND has_table_privilege('public', oid, 'SELECT') AND pg_relation_is_updatable(oid, true) = 0";
    assert_eq!(names(&owner, readable).await, covered, "a view may be read, and nothing is written through it");
    assert_eq!(names(&owner, "SELECT relname FROM pg_class WHERE relnamespace = 'everhook_reports'::regnamespace").await, covered);
    // The internal ones have no policy, and every table, also each partition, shows nothing without one.
    let with_policy = names(&owner, "SELECT tablename FROM pg_policies").await;
    assert_eq!(with_policy, covered.into_iter().filter(|name| name != "all_deliveries").collect());
    given.backing.node().await.make_partitions(NOW).await.unwrap();
    let open =
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'everhook'::regnamespace AND NOT relrowsecurity";
    assert_eq!(names(&owner, open).await, BTreeSet::new());
    let public = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'everhook%' AND has_schema_privilege('public', oid, 'USAGE, CREATE')";
    assert_eq!(names(&owner, public).await, BTreeSet::new());
    // And what a view shows is subject to the policies of its tables.
    let trusting =
        "SELECT relname FROM pg_class WHERE relkind = 'v' AND relnamespace IN ('everhook'::regnamespace, 'everhook_reports'::regnamespace)
        AND NOT coalesce('security_invoker=true' = ANY(reloptions), false)";
    assert_eq!(names(&owner, trusting).await, BTreeSet::new());
}

#[tokio::test]
async fn a_role_sees_all_rows_of_its_own_organization_and_no_other() {
    let reports = Reports::new().await;
    for reader in &reports.readers {
        for (table, of_organization) in COVERED {
            let columns = Vec::from_iter(reader.columns(table).await).join(", ");
            let read = format!("SELECT md5(ROW({columns})::text) FROM {table}");
            let seen = names(&reader.client, &read).await;
            let own = names(&reports.owner, &format!("{read} WHERE {}", of_organization.replace(":id", &reader.organization))).await;
            assert!(!own.is_empty(), "{table} has rows of {}", reader.organization);
            assert_eq!(seen, own, "{table} as {} sees it", reader.organization);
        }
    }
}

#[tokio::test]
async fn a_role_sees_deliveries_of_every_kind_of_lane_of_its_own_organization_and_no_other() {
    let reports = Reports::new().await;
    let kinds = ["processor", "capability", "channel"];
    for digit in ['a', 'b'] {
        for (number, kind) in kinds.iter().enumerate() {
            reports.given.tamper(&other_lane(digit, number, kind)).await;
        }
    }
    for (reader, digit) in reports.readers.iter().zip(['a', 'b']) {
        let lanes = format!("SELECT lane FROM everhook.lanes WHERE kind <> 'endpoint' AND organization_id = '{}'", reader.organization);
        let lanes = names(&reports.owner, &lanes).await;
        assert_eq!(lanes.len(), kinds.len(), "they are there");
        let seen = "SELECT lane FROM lanes WHERE kind <> 'endpoint'";
        assert_eq!(names(&reader.client, seen).await, lanes, "{digit}");
        let of_others = "lane IN (SELECT lane FROM lanes WHERE kind <> 'endpoint')";
        for table in ["open_deliveries", "deliveries", "all_deliveries", "rollups", "endpoint_activity"] {
            assert_eq!(names(&reader.client, &format!("SELECT lane FROM {table} WHERE {of_others}")).await, lanes, "{digit}: {table}");
        }
        let ids: BTreeSet<String> = (0..kinds.len()).map(|number| other_id(digit, number, 1)).collect();
        let written = ids.iter().map(|id| format!("'{id}'")).collect::<Vec<_>>().join(", ");
        assert_eq!(names(&reader.client, &format!("SELECT delivery_id FROM attempts WHERE delivery_id IN ({written})")).await, ids);
        assert_eq!(names(&reader.client, "SELECT id FROM dead_letters WHERE kind <> 'endpoint'").await, ids, "{digit}");
        assert_eq!(names(&reader.client, &format!("SELECT endpoint_id FROM circuit_breakers WHERE endpoint_id IN ({written})")).await, ids);
    }
}

/// The id of a lane that leads to no endpoint (1), which is also that of a delivery that has ended, or of one that is open (2).
fn other_id(digit: char, number: usize, which: u8) -> String {
    format!("018bcfe5-6800-7000-9000-{digit}000000000{number}{which}")
}

/// A lane of this kind with a dead delivery, an open one, and what is counted of it, in the first application of an organization.
fn other_lane(digit: char, number: usize, kind: &str) -> String {
    let (lane, open) = (other_id(digit, number, 1), other_id(digit, number, 2));
    let (organization, application) = (organization(digit), format!("018bcfe5-6800-7000-8000-{digit}00000000001"));
    format!(
        "INSERT INTO lanes (id, kind, organization_id, application_id) VALUES ('{lane}', '{kind}', '{organization}', '{application}');
        INSERT INTO open_deliveries (lane, id, event_id, priority, stage, attempts, retry_schedule, due_at, created_at)
        SELECT lane, '{open}', '{application}', 1, 0, 1, 1, 1, 1 FROM lanes WHERE id = '{lane}';
        INSERT INTO deliveries (lane, id, event_id, priority, stage, attempts, retry_schedule, ended_at, created_at)
        SELECT lane, '{lane}', '{application}', 1, 1, 1, 1, 1, 1 FROM lanes WHERE id = '{lane}';
        INSERT INTO attempts (delivery_id, number, status, breaker, node, duration, scheduled_at, picked_after, executed_after)
        VALUES ('{lane}', 1, 0, 0, 1, 1, 1, 1, 1);
        INSERT INTO rollups SELECT lane, 1, 1, false, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, '' FROM lanes WHERE id = '{lane}';
        INSERT INTO endpoint_activity (lane, consecutive_failures) SELECT lane, 0 FROM lanes WHERE id = '{lane}';
        INSERT INTO dead_letters (
            id, organization_id, application_id, event_id, event_type, endpoint_id, kind, target, last_delivery_id, status, cause, failure_category,
            last_error, attempts, failures, first_failure_at, last_failure_at, recoverable
        ) VALUES ('{lane}', '{organization}', '{application}', '{application}', 'type.1', '{lane}', '{kind}', 'target', '{lane}', 'dead', 'given_up',
            'network', 'gone', 1, 1, 1, 1, true);
        INSERT INTO circuit_breakers (endpoint_id, revision, stage, since, failed_recoveries) VALUES ('{lane}', 1, 'closed', 1, 0);"
    )
}

#[tokio::test]
async fn secrets_internals_partitions_and_writes_are_refused() {
    let reports = Reports::new().await;
    let partitions = names(&reports.owner, "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'").await;
    assert!(partitions.len() >= 15, "{partitions:?}");
    for reader in &reports.readers {
        let mut hidden = BTreeSet::new();
        for (table, _) in COVERED {
            let of_table =
                format!("SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = 'everhook.{table}'::regclass AND attnum > 0");
            let shown = reader.columns(table).await;
            hidden.extend(names(&reports.owner, &of_table).await.difference(&shown).map(|column| format!("{table}.{column}")));
        }
        assert_eq!(
            hidden,
            HIDDEN.map(str::to_owned).into(),
            "a new column is granted and shown by a view of `everhook_reports`, or listed here"
        );
        let refused = format!(
            "SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
            WHERE c.oid IN ('everhook.channels'::regclass, 'everhook.endpoints'::regclass, 'everhook.events'::regclass, 'everhook.sources'::regclass)
            AND a.attnum > 0
            AND NOT has_column_privilege('{}', c.oid, a.attnum, 'SELECT')",
            reader.name
        );
        assert_eq!(names(&reports.owner, &refused).await, hidden, "and not granted either");
        for column in HIDDEN {
            let (table, column) = column.split_once('.').unwrap();
            let because = reader.error_of(&format!("SELECT {column} FROM {table}")).await;
            assert!(because.contains("does not exist"), "{because}");
        }
        let covered = COVERED.iter().map(|(table, _)| *table);
        for name in INTERNAL.into_iter().chain(partitions.iter().map(String::as_str)).chain(covered.clone()) {
            reader.is_refused(&format!("SELECT 1 FROM everhook.{name}")).await;
        }
        for table in covered.clone().chain(INTERNAL.into_iter().filter(|name| !name.ends_with("_seq"))) {
            reader.is_refused(&format!("DELETE FROM everhook.{table}")).await;
            reader.is_refused(&format!("INSERT INTO everhook.{table} DEFAULT VALUES")).await;
            reader.is_refused(&format!("TRUNCATE everhook.{table}")).await;
        }
        for view in covered {
            let because = reader.error_of(&format!("DELETE FROM {view}")).await;
            assert!(because.contains("cannot delete from view"), "{because}");
            reader.is_refused(&format!("CREATE OR REPLACE VIEW {view} AS SELECT 1")).await;
        }
        reader.is_refused("SELECT id FROM events FOR UPDATE").await;
    }
}

#[tokio::test]
async fn a_grant_of_everything_by_mistake_still_shows_no_internals_and_nothing_of_others() {
    let reports = Reports::new().await;
    let [reader, _] = &reports.readers;
    let mistake = format!("GRANT USAGE ON SCHEMA everhook TO {0}; GRANT SELECT ON ALL TABLES IN SCHEMA everhook TO {0}", reader.name);
    reports.owner.batch_execute(&mistake).await.unwrap();
    let partitions = names(&reports.owner, "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'").await;
    for name in INTERNAL.into_iter().filter(|name| !name.ends_with("_seq")).chain(partitions.iter().map(String::as_str)) {
        assert_eq!(reader.count(&format!("everhook.{name}")).await, 0, "{name}");
    }
    assert_eq!((reader.count("everhook.events").await, reader.count("events").await), (2, 2));
}

#[tokio::test]
async fn a_role_cannot_become_another_or_change_what_bounds_it() {
    let reports = Reports::new().await;
    let [reader, other] = &reports.readers;
    for refused in [
        format!("SET ROLE {}", other.name),
        format!("SET SESSION AUTHORIZATION {}", other.name),
        "SET ROLE pg_read_all_data".to_owned(),
        format!("SELECT everhook.everhook_grant_reports('{}', '{}')", reader.name, other.organization),
        format!("SELECT everhook.everhook_revoke_reports('{}')", other.name),
        format!("ALTER ROLE {} BYPASSRLS", reader.name),
        format!("ALTER ROLE {} CONNECTION LIMIT 100", reader.name),
        "ALTER TABLE everhook.events DISABLE ROW LEVEL SECURITY".to_owned(),
        "DROP POLICY of_organization ON everhook.events".to_owned(),
        "CREATE POLICY all_of_it ON everhook.events USING (true)".to_owned(),
        "CREATE POLICY all_of_it ON events USING (true)".to_owned(),
        "ALTER VIEW events SET (security_invoker = false)".to_owned(),
        "DROP VIEW events".to_owned(),
        "CREATE TABLE everhook_reports.mine (id uuid)".to_owned(),
        "CREATE TABLE everhook.mine (id uuid)".to_owned(),
        "CREATE SCHEMA mine".to_owned(),
        "COPY everhook.endpoints TO STDOUT".to_owned(),
        "COPY (SELECT id FROM events) TO PROGRAM 'cat'".to_owned(),
        // Without the policies there is an error, and no row.
        "SET row_security = off; SELECT id FROM events".to_owned(),
        "SELECT stavalues1 FROM pg_statistic".to_owned(),
    ] {
        reader.is_refused(&refused).await;
    }
    assert_eq!(names(&reader.client, "SELECT tablename FROM pg_stats WHERE schemaname LIKE 'everhook%'").await, BTreeSet::new());
    // A role that may become the other one goes on seeing what it logged in for: its session is the same.
    reports.owner.batch_execute(&format!("GRANT {} TO {}", other.name, reader.name)).await.unwrap();
    reader.client.batch_execute(&format!("SET ROLE {}", other.name)).await.unwrap();
    assert_eq!(reader.count("events").await, 2);
}

#[tokio::test]
async fn tables_functions_and_conditions_of_its_own_show_a_role_no_more() {
    let reports = Reports::new().await;
    let [reader, other] = &reports.readers;
    // Names of its own come first in its path, and lead nowhere.
    let names_of_its_own = format!(
        "CREATE TEMP TABLE report_roles AS SELECT session_user AS role, '{0}'::uuid AS organization_id;
        CREATE TEMP TABLE endpoints AS SELECT '{0}'::uuid AS organization_id, '{0}'::uuid AS id, lane FROM generate_series(1, 100) lane;
        CREATE FUNCTION pg_temp.everhook_report_organization() RETURNS uuid LANGUAGE sql AS $$SELECT '{0}'::uuid$$;
        CREATE FUNCTION pg_temp.always(uuid, uuid) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE OPERATOR pg_temp.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = pg_temp.always);
        SET search_path = pg_temp, everhook_reports, pg_catalog",
        other.organization
    );
    reader.client.batch_execute(&names_of_its_own).await.unwrap();
    for (table, own) in [("events", 2), ("all_deliveries", 2), ("attempts", 2), ("everhook_reports.endpoints", 2)] {
        assert_eq!(reader.count(table).await, own, "{table}");
    }
    // A condition of its own sees no row that it may not see, however cheap it claims to be.
    let peep = "CREATE FUNCTION pg_temp.peep(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS
        $$BEGIN IF $1 LIKE '%organization b%' THEN RAISE EXCEPTION 'seen'; END IF; RETURN true; END$$";
    reader.client.batch_execute(peep).await.unwrap();
    assert_eq!(reader.count("organizations WHERE pg_temp.peep(name)").await, 1);
    assert_eq!(reader.count("organizations WHERE 1 / (CASE name WHEN 'organization b' THEN 0 ELSE 1 END) = 1").await, 1);
}

#[tokio::test]
async fn only_a_plain_role_is_given_reports_of_one_organization_and_they_can_be_taken_away() {
    // The role comes first, so that it goes after the database that it gets rights in.
    let plain = Login::create("").await;
    let reports = Reports::new().await;
    let [reader, other] = &reports.readers;
    let (superuser, bypass) = (Login::create("SUPERUSER").await, Login::create("BYPASSRLS").await);
    let (replication, creator) = (Login::create("REPLICATION").await, Login::create("CREATEROLE").await);
    let member = Login::create("IN ROLE pg_read_all_data").await;
    let nobody = Uuid::nil().to_string();
    for (login, organization, because) in [
        ("no_such_role", reader.organization.as_str(), "there is no role"),
        (&plain.name, &nobody, "there is no organization"),
        (&superuser.name, &reader.organization, "may do more than read"),
        (&bypass.name, &reader.organization, "may do more than read"),
        (&replication.name, &reader.organization, "may do more than read"),
        (&creator.name, &reader.organization, "may do more than read"),
        (&member.name, &reader.organization, "is a member of other roles"),
        (&reader.name, &other.organization, "reads the reports of another organization"),
    ] {
        let refused = grant(&reports.owner, login, organization).await.unwrap_err();
        assert!(refused.contains(because), "{refused}");
    }
    let database = reports.given.backing.database().path().trim_start_matches('/').to_owned();
    reports.owner.batch_execute(&format!("GRANT CREATE ON DATABASE {database} TO {}", plain.name)).await.unwrap();
    let refused = grant(&reports.owner, &plain.name, &reader.organization).await.unwrap_err();
    assert!(refused.contains("may make schemas"), "{refused}");
    reports.owner.batch_execute(&format!("GRANT CREATE ON SCHEMA everhook_reports TO {}", plain.name)).await.unwrap();
    let refused = grant(&reports.owner, &plain.name, &reader.organization).await.unwrap_err();
    assert!(refused.contains("may make tables and functions"), "{refused}");
    reports.owner.batch_execute("GRANT USAGE ON SCHEMA everhook TO PUBLIC").await.unwrap();
    let refused = grant(&reports.owner, &plain.name, &reader.organization).await.unwrap_err();
    assert!(refused.contains("may use the schema of the tables"), "{refused}");
    reports.owner.batch_execute("REVOKE USAGE ON SCHEMA everhook FROM PUBLIC").await.unwrap();
    // Again is harmless; taken away, nothing is left, and it can be given for another.
    grant(&reports.owner, &reader.name, &reader.organization).await.unwrap();
    reports.owner.batch_execute(&format!("SELECT everhook.everhook_revoke_reports('{}')", reader.name)).await.unwrap();
    for (table, _) in COVERED {
        reader.is_refused(&format!("SELECT 1 FROM everhook_reports.{table}")).await;
    }
    grant(&reports.owner, &reader.name, &other.organization).await.unwrap();
    assert_eq!(reader.count("events").await, 3);
    // A role that may read the views, and was given no organization, sees none.
    reports.owner.batch_execute(&format!("GRANT USAGE ON SCHEMA everhook_reports TO {}", plain.name)).await.unwrap();
    let client = connect(&plain.at(&reports.given.backing.database())).await;
    for (table, _) in COVERED {
        assert_eq!(names(&client, &format!("SELECT 1 FROM {table}")).await, BTreeSet::new(), "{table}");
    }
}

#[tokio::test]
async fn a_role_does_not_find_the_channel_on_which_nodes_hint_each_other() {
    let reports = Reports::new().await;
    let [reader, _] = &reports.readers;
    // Given a node that listens, and one that has notified.
    let node = reports.given.backing.node().await;
    let _hints = node.hints();
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    while reports.owner.query_one(listening, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    let channel: String = reports.owner.query_one("SELECT hint_channel FROM installation", &[]).await.unwrap().get(0);
    // Then whatever the role can read of sessions, locks, statistics and channels does not name it.
    reader.is_refused("SELECT hint_channel FROM everhook.installation").await;
    for shown in [
        "SELECT a::text FROM pg_stat_activity a",
        "SELECT l::text FROM pg_locks l",
        "SELECT s::text FROM pg_stats s WHERE schemaname LIKE 'everhook%'",
        "SELECT pg_listening_channels()",
        "SELECT p::text FROM pg_prepared_statements p",
        "SELECT c::text FROM pg_class c",
        "SELECT coalesce(pg_get_expr(conbin, conrelid), '') FROM pg_constraint",
    ] {
        assert!(!names(&reader.client, shown).await.iter().any(|text| text.contains(&channel)), "{shown}");
    }
}

#[tokio::test]
async fn the_role_of_the_nodes_needs_no_more_than_to_own_its_database() {
    let (owner, reader) = (Login::create("").await, Login::create("").await);
    let database = format!("{}_own", owner.name);
    execute(&server(), &format!("CREATE DATABASE {database} OWNER {}", owner.name)).await;
    let mut url = owner.at(&server());
    url.set_path(&database);
    url.set_query(None);
    // When its nodes have made the tables and the partitions, and it gave a role an organization.
    let store = PostgresStore::open(&PostgresSettings { url: url.clone().into(), node: "node".to_owned(), pool: Default::default() })
        .await
        .unwrap();
    store.make_partitions(NOW).await.unwrap();
    // Its nodes found their schema by themselves; these look where they are told.
    url.set_query(Some("options=-c%20search_path%3Deverhook"));
    execute(&url, &filling('a', 2)).await;
    let client = connect(&url).await;
    grant(&client, &reader.name, &organization('a')).await.unwrap();
    // Then the role reads it, its owner goes on seeing everything, and nothing of this is in the plans of its statements.
    let seen = names(&connect(&reader.at(&url)).await, "SELECT id FROM events").await;
    assert_eq!((seen.len(), seen), (2, names(&client, "SELECT id FROM events").await));
    for (table, _) in COVERED {
        let plan = plan(&client, table).await;
        let unprotected = format!("BEGIN; ALTER TABLE {table} DISABLE ROW LEVEL SECURITY");
        if table != "all_deliveries" {
            client.batch_execute(&unprotected).await.unwrap();
            assert_eq!(plan, self::plan(&client, table).await);
            client.batch_execute("ROLLBACK").await.unwrap();
        }
        assert!(!plan.contains("everhook_report") && !plan.contains("Plan"), "{plan}");
    }
    drop(store);
    execute(&server(), &format!("DROP DATABASE {database} WITH (FORCE)")).await;
}

/// How the server would read a table.
async fn plan(client: &Client, table: &str) -> String {
    let steps = client.query(&format!("EXPLAIN (COSTS OFF) SELECT * FROM {table}"), &[]).await.unwrap();
    steps.iter().map(|step| step.get::<_, String>(0) + "\n").collect()
}
