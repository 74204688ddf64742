//! What is asked of a full database: rows from the middle of the tables, by every statement that deliveries or people wait for.

use everhook_core::ids::EndpointId;
use uuid::Uuid;

use super::{LANES, PAGE_ROWS};
use crate::postgres::given::Given;

/// A statement of the store, with what it is asked for here.
#[derive(Clone)]
pub struct Statement {
    pub name: String,
    /// As they are written in SQL.
    pub values: Vec<String>,
    /// Whether it must find something, so that the cost of a page is seen.
    pub is_list: bool,
    /// How many lists it merges: it may read a page of each.
    pub lists: u64,
}

pub fn statement(name: &str, values: Vec<String>) -> Statement {
    Statement { name: name.to_owned(), values, is_list: false, lists: 1 }
}

/// A value as it is written in SQL.
trait Sql {
    fn sql(&self) -> String;
}

impl Sql for i64 {
    fn sql(&self) -> String {
        self.to_string()
    }
}

impl Sql for &str {
    fn sql(&self) -> String {
        format!("'{self}'")
    }
}

impl Sql for String {
    fn sql(&self) -> String {
        format!("'{self}'")
    }
}

impl Sql for Uuid {
    fn sql(&self) -> String {
        format!("'{self}'")
    }
}

impl Sql for Option<i64> {
    fn sql(&self) -> String {
        self.map_or_else(|| "NULL".to_owned(), |value| value.sql())
    }
}

macro_rules! statement {
    ($name:literal, $($value:expr),* $(,)?) => {
        statement($name, vec![$(Sql::sql(&$value)),*])
    };
}

/// The two statements of a list, with the values that come after the bounds of the page.
macro_rules! list {
    ($name:literal, $pages:expr, $($value:expr),* $(,)?) => {
        $pages.both_ways($name, &[$(Sql::sql(&$value)),*])
    };
}

/// The endpoints whose lists the store merges at first, when it is asked for those of all.
const MERGED: usize = 8;
const NONE: Option<i64> = None;
const EVER: (i64, i64) = (i64::MIN + 1, i64::MAX);
const PAGE: i64 = PAGE_ROWS as i64;
/// The lane of the first endpoint.
const LANE: i64 = 1;

/// An array of one value, as often as a page has rows.
fn times(value: impl ToString + Clone) -> String {
    array(&vec![value; PAGE_ROWS])
}

fn array(values: &[impl ToString]) -> String {
    let values: Vec<_> = values.iter().map(ToString::to_string).collect();
    format!("{{{}}}", values.join(","))
}

/// Deliveries of a lane that were delivered at the first attempt.
pub struct Outcomes {
    pub lane: u64,
    pub deliveries: Vec<String>,
}

impl Outcomes {
    pub fn statement(&self) -> Statement {
        let times = |value: &str| array(&vec![value; self.deliveries.len()]).sql();
        let (none, one, zero) = (|| times("NULL"), || times("1"), || times("0"));
        let mut values = vec![times(&self.lane.to_string()), array(&self.deliveries).sql()];
        // The attempt's number, the stage and its times, and why it is so.
        values.extend([one(), one(), none(), one(), none(), none()]);
        // How the attempt ended, how the breaker stood, which node made it, and what came back.
        values.extend([zero(), zero(), one()]);
        values.extend(vec![none(); 6]);
        // How long it took, in all and in parts, and when it was.
        values.push(one());
        values.extend(vec![none(); 4]);
        values.extend([one(), zero(), zero(), none()]);
        // No boot, nothing cut, and the revision.
        values.extend(["NULL".to_owned(), none(), one()]);
        statement("settle_deliveries", values)
    }
}

/// The pages of an organization's list before and after a row.
struct Pages {
    organization: Uuid,
    middle: Uuid,
}

impl Pages {
    fn both_ways(&self, name: &str, rest: &[String]) -> [Statement; 2] {
        let (first, last) = (Uuid::nil(), Uuid::max());
        [("older", first, self.middle), ("newer", self.middle, last)].map(|(way, after, before)| {
            let bounds = [self.organization.sql(), after.sql(), before.sql(), PAGE.sql()];
            let values = bounds.into_iter().chain(rest.iter().cloned()).collect();
            Statement { is_list: true, ..statement(&format!("{name}_{way}"), values) }
        })
    }
}

/// What the statements ask for. `many_rows.sql` numbers the ids, and repeats itself every thousand deliveries.
pub struct Middle {
    rows: u64,
    organization: Uuid,
    application: Uuid,
    endpoints: Vec<Uuid>,
    /// The first delivery of a thousand in the middle.
    n: u64,
}

impl Middle {
    pub fn of(given: &Given, endpoints: &[EndpointId], rows: u64) -> Self {
        assert_eq!(endpoints.len(), LANES);
        let endpoints = endpoints.iter().map(|endpoint| *endpoint.as_uuid()).collect();
        let (organization, application) = (*given.organization.as_uuid(), *given.application.as_uuid());
        Self { rows, organization, application, endpoints, n: rows / 2 / 1_000 * 1_000 }
    }

    fn numbered(&self, kind: u128, n: u64) -> Uuid {
        let millisecond = u128::from(1_700_000_000_000 + n * 216_000_000 / self.rows);
        Uuid::from_u128((millisecond << 80) | (0x7000 << 64) | (kind << 48) | u128::from(n))
    }

    fn event(&self) -> Uuid {
        self.numbered(0x9000, self.n)
    }

    /// As many events as a page has rows.
    fn events(&self) -> String {
        array(&Vec::from_iter((0..PAGE_ROWS as u64).map(|k| self.numbered(0x9000, k * 1_000))))
    }

    fn delivery(&self) -> Uuid {
        self.numbered(0x8000, self.n)
    }

    /// A page of deliveries that wait in the first lane.
    fn waiting(&self) -> Vec<String> {
        (0..PAGE_ROWS as u64).map(|k| self.numbered(0x8000, k * 1_000).to_string()).collect()
    }

    /// One that died, in the first lane, and its event.
    fn dead(&self) -> (Uuid, Uuid) {
        (self.numbered(0x8000, self.n + LANES as u64), self.numbered(0x9000, self.n + LANES as u64))
    }

    /// A page of dead letters: their deliveries and their events.
    fn dead_letters(&self) -> (String, String) {
        let of = |kind| array(&Vec::from_iter((0..PAGE_ROWS as u64).map(|k| self.numbered(kind, k * 1_000 + LANES as u64))));
        (of(0x8000), of(0x9000))
    }

    fn endpoint(&self) -> Uuid {
        self.endpoints[0]
    }

    /// The operation that has items.
    fn operation(&self) -> Uuid {
        self.numbered(0xb000, 0)
    }

    /// Which lanes have work, what is due in them, and what is cancelled or freed there.
    pub fn claiming(&self) -> Vec<Statement> {
        vec![
            statement!("lanes", -1, "default"),
            statement!("due_deliveries", array(&[LANE]), "{1}", array(&[PAGE]), "{0}", i64::MAX),
            statement!("events_for_sending", self.events()),
            statement!("stranded_keys", "{}", PAGE, 0, ""),
            statement!("lanes_with_barrier", PAGE),
            statement!("open_of_keys", array(&[LANE]), "{key-40}"),
            statement!("open_in_lane", LANE),
            statement!("parked_for", self.organization, "key", PAGE),
            statement!("parked_until", i64::MAX, PAGE),
            statement!("releases_to_resume", i64::MAX, PAGE),
            statement!("ordered_lanes", times(LANE), array(&self.waiting())),
            statement!("free_first_of_keys", array(&[LANE]), "{key-40}", "{1}"),
            statement!("cancel_deliveries", times(LANE), array(&self.waiting()), 1, "endpoint_disabled"),
            statement!("open_delivery", times(LANE), array(&self.waiting())),
            statement!("bring_delivery_forward", times(LANE), array(&self.waiting()), 1),
            statement!("waiting_backlog", LANE, PAGE),
            statement!("waiting_from", LANE, 1, 0, uuid::Uuid::nil(), PAGE),
            statement!("cancel_open_deliveries", LANE, i64::MAX, PAGE, 1, "endpoint_disabled"),
        ]
    }

    /// What publishing, a settlement and a replay look up and change.
    pub fn settling(&self) -> Vec<Statement> {
        let (dead, of_dead) = self.dead();
        let (dead_letters, events) = self.dead_letters();
        let (lanes, endpoints, application) = (times(LANE), times(self.endpoint()), times(self.application));
        let keys = array(&Vec::from_iter((1..=PAGE).map(|n| format!("key-{n}"))));
        vec![
            Outcomes { lane: 1, deliveries: self.waiting() }.statement(),
            statement!(
                "bury_deliveries",
                array(&self.waiting()),
                lanes,
                self.events(),
                times("https://shop.example"),
                times("given_up"),
                times("network"),
                times("gone"),
                times(1),
                times(1),
                times(true)
            ),
            statement!("end_retries_of_dead_letters", dead_letters, lanes, events, times("resolved"), times(1)),
            statement!("requeue_dead_letters", events, endpoints, dead_letters, 1, "false"),
            statement!("statuses_of_dead_letters", events, endpoints),
            statement!("died_automatically", dead, of_dead, self.endpoint()),
            statement!("events_to_replay", self.events(), self.organization),
            statement!("open_of_events_and_lanes", self.events(), lanes, array(&self.waiting())),
            statement!("originals_of_given_keys", application, keys, times(0)),
            statement!("originals_of_made_keys", self.events(), times(0)),
            statement!("keep_idempotency_keys", application, keys, self.events(), times(1), times(i64::MAX), "{}"),
            statement!("forget_idempotency_keys", i64::MAX, PAGE),
            statement!("forget_keys_of_events", application, keys, self.events()),
            statement!("scopes_of_lanes", lanes),
            statement!("forget_source_rollups", i64::MAX, PAGE),
            statement!("lock_source_rollups", endpoints, array(&Vec::from_iter((0..PAGE).map(|minute| 28_333_333 + minute)))),
            statement!("lock_rollups", lanes, array(&Vec::from_iter((0..PAGE).map(|minute| 28_333_333 + minute)))),
            statement!("lock_longer_rollups", lanes, times(60), array(&Vec::from_iter((0..PAGE).map(|hour| 60 * (472_222 + hour))))),
        ]
    }

    /// What operations and erasures work off.
    pub fn working(&self) -> Vec<Statement> {
        let (_, of_dead) = self.dead();
        let (dead_letters, events) = self.dead_letters();
        let (lanes, endpoints) = (times(LANE), times(self.endpoint()));
        vec![
            statement!("take_operation_item", self.operation(), array(&Vec::from_iter(1..=PAGE)), lanes),
            statement!("clear_operation_items", self.operation(), PAGE),
            statement!("take_erasure_items", self.operation(), self.events()),
            statement!("clear_erasure_items", self.operation(), PAGE),
            statement!("deliveries_of_events", array(&[self.event()])),
            statement!("erase_events", self.events(), 1),
            statement!("erase_fingerprints", self.events()),
            statement!("erase_responses", dead_letters),
            statement!("discard_dead_letter_of", events, endpoints),
            statement!("discard_dead_letters_of_events", array(&[of_dead])),
            statement!("applications_of_events", self.events(), NONE),
            statement!("count_open_operations", self.organization),
            statement!("operations_with_work", PAGE),
            statement!("open_backfills", PAGE),
            statement!("orphaned_lanes", PAGE),
            statement!("backfill_by_id", self.organization, self.operation()),
            statement!("add_backfill_outcomes", self.operation(), 0_i64, "a", 1_i64, 0_i64, 0_i64),
        ]
    }

    /// Every list of history, both ways from its middle, and every scan of an operation.
    pub fn lists(&self) -> Vec<Statement> {
        let pages = |middle| Pages { organization: self.organization, middle };
        let (events, deliveries) = (pages(self.event()), pages(self.delivery()));
        let of_event = pages(self.numbered(0x8000, self.n + 5));
        let (entries, operations) = (pages(self.numbered(0xa000, self.n)), pages(self.numbered(0xb000, self.n)));
        let (one, some, event, (from, to)) = (array(&[self.endpoint()]), array(&self.endpoints[..MERGED]), self.event(), EVER);
        let lists = [
            list!("events", events, NONE, NONE, from, to),
            list!("received_of_source", events, NONE, from, to, self.endpoint()),
            list!("received_of_user", events, NONE, from, to, self.endpoint(), "user"),
            list!("deliveries_of_endpoint", deliveries, NONE, one, NONE, NONE, NONE, 0, NONE, from, to, NONE, NONE, NONE),
            list!("deliveries_of_endpoint", deliveries, NONE, some, NONE, NONE, NONE, 0, NONE, from, to, NONE, NONE, NONE)
                .map(|list| Statement { lists: MERGED as u64, ..list }),
            list!("deliveries_of_event", of_event, NONE, NONE, event, NONE, NONE, 0, NONE, from, to, NONE, NONE, NONE),
            list!("dead_letters_of_organization", deliveries, NONE, NONE, NONE, NONE, NONE, from, to, NONE),
            list!("dead_letters_of_endpoint", deliveries, NONE, self.endpoint(), NONE, NONE, NONE, from, to, NONE),
            list!("audit_log", entries, NONE, NONE, NONE, NONE, from, to),
            list!("audit_log_of_resource", entries, NONE, NONE, NONE, self.endpoint(), from, to),
            list!("operations", operations,),
            list!("endpoints", pages(self.endpoints[LANES / 2]), NONE, NONE, NONE, NONE, NONE, NONE),
            list!("endpoints_of_application", pages(self.endpoints[LANES / 2]), self.application, NONE, NONE, NONE, NONE, NONE),
        ];
        let scans = [
            statement!("events_after", self.organization, event, Uuid::max(), PAGE),
            statement!("events_to_erase_after", self.organization, event, Uuid::max(), PAGE),
            statement!("dead_letters_after", self.organization, self.delivery(), PAGE),
            statement!("due_dead_letters", self.organization, 1, i64::MAX, PAGE),
            statement!("next_operation_items", self.operation(), PAGE),
            statement!("next_erasure_items", self.operation(), PAGE),
            statement!("pending_alerts", PAGE),
            statement!(
                "rollups_of_endpoint",
                self.endpoint(),
                28_333_333,
                28_333_380,
                28_333_440,
                28_333_440,
                28_333_440,
                28_333_440 + PAGE / 2
            ),
            statement!("source_rollups", self.endpoint(), 28_333_333, 28_333_333 + PAGE),
            statement!("lane_minutes", 28_333_340, -1, PAGE),
            statement!("minutes_of_lane", self.endpoint(), 28_333_333, 28_333_333 + PAGE),
        ];
        lists.into_iter().flatten().chain(scans.map(|scan| Statement { is_list: true, ..scan })).collect()
    }

    /// One row of history, with what belongs to it.
    pub fn look_ups(&self) -> Vec<Statement> {
        let (organization, event, (dead, _)) = (self.organization, self.event(), self.dead());
        let last = self.numbered(0x8000, self.n + 9);
        let look_ups = [
            statement!("event_by_id", organization, event),
            statement!("event_with_stretch", organization, event),
            statement!("newest_deliveries_of_event", array(&[event]), self.delivery(), last, self.application),
            statement!("delivery_by_id", organization, self.delivery()),
            statement!("attempts_of_delivery", dead),
            statement!("dead_letter", organization, dead),
            statement!("endpoints_with_deliveries", organization, NONE),
            statement!("search_end_in_organization", organization, Uuid::nil(), Uuid::max(), 10_i64),
            statement!("search_end_in_application", self.application, Uuid::nil(), Uuid::max(), 10_i64),
            statement!("changed_endpoints", self.application, 0_i64, self.numbered(0, 0), 0_i64, 100_i64, 4_194_304_i64),
            statement!("lanes_of_endpoints", array(&self.endpoints)),
        ];
        look_ups.map(|look_up| Statement { is_list: true, ..look_up }).into()
    }
}
