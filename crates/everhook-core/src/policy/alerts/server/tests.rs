//! How rules about the server stand on a node, and what is kept of them for all nodes.

use std::time::Duration;

use uuid::Uuid;

use super::{
    ServerFacts, ServerReport,
    records::{recorded, renewed},
    statuses::{ABANDONED_AFTER, Known, ServerStatuses},
};
use crate::{
    ids::{AlertStatusId, OrganizationId},
    model::{AlertRule, AlertStage, AlertStatus},
    policy::alerts::{AlertReport, defaults::server_in_force},
    time::Timestamp,
};

const BEGIN: Timestamp = Timestamp::from_secs(1_800_000_000);

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn blank(rule: &AlertRule) -> AlertStatus {
    AlertStatus {
        id: AlertStatusId::from_uuid(Uuid::from_u128(1)),
        organization: OrganizationId::from_uuid(Uuid::from_u128(2)),
        rule: rule.clone(),
        target: Uuid::from_u128(2),
        application: None,
        stage: AlertStage::Ok,
        since: BEGIN,
        value: 0.0,
        updated_at: BEGIN,
        reported_at: None,
        silenced_until: None,
        episodes: Vec::new(),
        revision: 0,
    }
}

/// A node that sees these things, and a store that holds these records.
#[derive(Default)]
struct Node {
    statuses: ServerStatuses,
    records: Vec<AlertStatus>,
}

impl Node {
    fn sees(&mut self, facts: &ServerFacts, after: Duration) -> Vec<ServerReport> {
        let rules = server_in_force(&[]);
        self.statuses.evaluate(Known { rules: &rules, records: &self.records }, facts, BEGIN + after, blank)
    }

    /// The same, in words.
    fn says(&mut self, facts: &ServerFacts, after: Duration) -> Vec<String> {
        let word = |report: ServerReport| format!("{:?} {}", report.report, report.status.rule.name);
        self.sees(facts, after).into_iter().map(word).collect()
    }
}

fn away(database: Option<u64>, redis: Option<u64>, failures: u32) -> ServerFacts {
    let at = |after: u64| BEGIN + secs(after);
    ServerFacts {
        database_away_since: database.map(at),
        redis_away_since: redis.map(at),
        database_failures: failures,
        ..ServerFacts::default()
    }
}

const NONE: [&str; 0] = [];

#[test]
fn one_outage_of_the_database_is_one_report_whichever_rule_is_first() {
    let mut node = Node::default();
    assert_eq!(node.says(&away(Some(0), None, 4), secs(20)), NONE);
    assert_eq!(node.says(&away(Some(0), None, 5), secs(25)), ["Fired database_failures"]);
    assert_eq!(node.says(&away(Some(0), None, 7), secs(35)), NONE, "that it is away was said");
    assert_eq!(node.says(&away(None, None, 0), secs(40)), ["Resolved database_failures"]);
    // Reads that hang are few: the length comes first.
    assert_eq!(node.says(&away(Some(100), None, 3), secs(131)), ["Fired database_away"]);
    assert_eq!(node.says(&away(Some(100), None, 6), secs(160)), NONE);
    assert_eq!(node.says(&away(None, None, 0), secs(170)), ["Resolved database_away"]);
}

#[test]
fn both_away_is_one_report_until_one_of_them_is_back() {
    let mut node = Node::default();
    assert_eq!(node.says(&away(Some(0), Some(0), 1), secs(0)), NONE);
    assert_eq!(node.says(&away(Some(0), Some(0), 1), secs(5)), ["Fired infrastructure_dual_failure"]);
    assert_eq!(node.says(&away(Some(0), Some(0), 40), secs(400)), NONE, "each of them by itself is no news");
    // What still lasts is reported when it is alone.
    let redis_is_back = away(Some(0), None, 41);
    assert_eq!(node.says(&redis_is_back, secs(405)), ["Resolved infrastructure_dual_failure", "Fired database_away"]);
    assert_eq!(node.says(&away(None, None, 0), secs(410)), ["Resolved database_away"]);
}

#[test]
fn how_much_waits_is_not_known_while_the_store_is_away_and_that_is_no_end() {
    let mut node = Node::default();
    let waiting = |waiting| ServerFacts { waiting, ..ServerFacts::default() };
    assert_eq!(node.says(&waiting(Some(10_001)), secs(0)), ["Fired server_depth"]);
    assert_eq!(node.says(&waiting(None), secs(5)), NONE);
    assert_eq!(node.says(&waiting(Some(12_000)), secs(10)), NONE, "it was reported");
    assert_eq!(node.says(&waiting(Some(10_000)), secs(15)), ["Resolved server_depth"]);
}

/// One report of a node that was alone.
fn report(facts: &ServerFacts, after: Duration) -> ServerReport {
    let [report] = &Node::default().sees(facts, after)[..] else { panic!("one report") };
    report.clone()
}

#[test]
fn of_several_nodes_that_report_the_same_the_first_records_it() {
    let first = report(&away(None, Some(0), 0), secs(121));
    let second = report(&away(None, Some(2), 0), secs(124));
    let kept = recorded(None, &first).expect("nobody was earlier");
    assert_eq!((kept.stage, kept.episodes.len(), kept.reported_at), (AlertStage::Firing, 1, Some(first.at)));
    let kept = AlertStatus { revision: 1, ..kept };
    assert_eq!(recorded(Some(kept.clone()), &second), None);
    let end = |of: &ServerReport, after| ServerReport { report: AlertReport::Resolved, at: BEGIN + secs(after), ..of.clone() };
    let over = recorded(Some(kept.clone()), &end(&first, 300)).expect("it was open");
    assert_eq!((over.stage, over.reported_at, over.episodes[0].resolved_at), (AlertStage::Ok, None, Some(BEGIN + secs(300))));
    let over = AlertStatus { revision: 2, ..over };
    assert_eq!(recorded(Some(over.clone()), &end(&second, 301)), None);
    // What was noticed during it and is recorded only afterwards, because that node had no store, is the same trouble; what comes later is not.
    assert_eq!(recorded(Some(over.clone()), &second), None);
    let later = recorded(Some(over), &report(&away(None, Some(400), 0), secs(521))).expect("it is another outage");
    assert_eq!(later.episodes.len(), 2);
    // A repetition is due a day after the last, whoever made that.
    let again = |after| ServerReport { report: AlertReport::Repeated, at: BEGIN + secs(after), ..first.clone() };
    assert_eq!(recorded(Some(kept.clone()), &again(3_600)), None);
    assert_eq!(recorded(Some(kept), &again(121 + 86_400)).and_then(|kept| kept.reported_at), Some(BEGIN + secs(121 + 86_400)));
}

#[test]
fn an_alert_whose_node_died_is_ended_by_one_that_finds_it_fine() {
    let fired = report(&away(None, Some(0), 0), secs(121));
    let kept = AlertStatus { revision: 1, ..recorded(None, &fired).expect("it is recorded") };
    let fine = ServerFacts::default();
    let mut node = Node { records: vec![kept.clone()], ..Node::default() };
    assert_eq!(node.says(&fine, secs(200)), NONE, "another node may still have it");
    node.records = vec![renewed(&kept, 500.0, BEGIN + secs(500))];
    let abandoned = secs(500) + ABANDONED_AFTER;
    assert_eq!(node.says(&fine, abandoned), NONE);
    assert_eq!(node.says(&fine, abandoned + secs(1)), ["Resolved redis_away"]);
    assert_eq!(node.says(&fine, abandoned + secs(6)), NONE);
}

#[test]
fn what_ended_elsewhere_and_lasts_here_is_reported_anew() {
    let mut node = Node::default();
    let facts = away(None, Some(0), 0);
    let fired = node.sees(&facts, secs(121)).pop().expect("it fires");
    let over = AlertStatus { stage: AlertStage::Ok, since: BEGIN + secs(130), revision: 2, ..recorded(None, &fired).expect("recorded") };
    node.records = vec![over];
    assert_eq!(node.says(&facts, secs(200)), NONE);
    assert_eq!(node.says(&facts, secs(431)), ["Fired redis_away", "Fired redis_fallback"]);
}

#[test]
fn a_silenced_alert_is_not_reported() {
    let mut node = Node::default();
    let facts = away(None, Some(0), 0);
    let fired = report(&facts, secs(121));
    let silenced =
        AlertStatus { stage: AlertStage::Ok, silenced_until: Some(BEGIN + secs(250)), ..recorded(None, &fired).expect("recorded") };
    node.records = vec![silenced];
    assert_eq!(node.says(&facts, secs(125)), NONE);
    assert_eq!(node.says(&facts, secs(251)), ["Fired redis_away"]);
}

#[test]
fn the_node_that_recorded_an_alert_first_ends_it() {
    let mut node = Node::default();
    let fired = node.sees(&away(None, Some(0), 0), secs(121)).pop().expect("it fires");
    let record = AlertStatus { revision: 1, ..recorded(None, &fired).expect("recorded") };
    let is_followed = |node: &Node, after| node.statuses.is_followed("redis_away", &node.records, BEGIN + secs(after));
    node.statuses.note_begin("redis_away", false);
    assert!(!is_followed(&node, 130), "nobody is known to have it");
    node.records = vec![record];
    assert!(is_followed(&node, 130));
    assert!(!is_followed(&node, 121 + ABANDONED_AFTER.as_secs() + 1), "that node died");
    node.statuses.note_begin("redis_away", true);
    assert!(!is_followed(&node, 130));
}
