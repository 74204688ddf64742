//! That a claim, and writing its outcomes, cost the same however much has ended.

use std::{env, io::Write as _, time::Duration};

use super::{
    session::{Plan, Session},
    statements::{Outcomes, statement},
};
use crate::postgres::given::{Given, NOW};

/// How many deliveries have ended when it is measured, unless the variable `ENDED` says otherwise. The last takes some minutes and 2.5 GB.
const ENDED: &str = "10000,100000,1000000,5000000";
/// The days that they are spread over, each with its partitions.
const DAYS: u64 = 28;
/// The lanes that deliveries wait in.
const LANES: u64 = 1_000;
/// How many lanes are claimed from, at each size.
const CLAIMS: u64 = 50;
/// How much more pages the largest history may cost than the smallest: an index grows by a level from a page to thousands.
const GROWTH_MAX: f64 = 1.5;

#[tokio::test]
#[ignore = "it fills millions of rows: run it alone, by its name"]
async fn a_claim_costs_the_same_however_many_deliveries_have_ended() {
    let given = Given::new().await;
    let node = given.backing.node().await;
    for day in 0..=DAYS {
        node.make_partitions(NOW + Duration::from_secs(day * 86_400)).await.unwrap();
    }
    given.tamper(include_str!("waiting_rows.sql")).await;
    let sizes = env::var("ENDED").unwrap_or_else(|_| ENDED.to_owned());
    let sizes: Vec<u64> = sizes.split(',').map(|size| size.parse().expect("`ENDED` is a list of numbers")).collect();
    tell(
        "| ended | look at 1,000 lanes | next of a lane | their events | writing the outcomes | time of a claim |\n| --- | --- | --- | --- | --- | --- |",
    );
    let (mut filled, mut costs) = (0, Vec::new());
    for size in sizes {
        let fill = include_str!("ended_rows.sql").replace(":from", &filled.to_string()).replace(":to", &size.to_string());
        given.tamper(&fill).await;
        // What autovacuum does sooner or later: until then each first look at a row writes to its page.
        given.tamper("VACUUM ANALYZE").await;
        let cost = Cost::measure(&Session::open(&given).await).await;
        let Cost { look, due, events, settle, micros } = &cost;
        tell(&format!("| {size} | {look:.0} | {due:.1} | {events:.1} | {settle:.1} | {micros:.0} µs |"));
        filled = size;
        costs.push(cost);
    }
    let (first, last) = (costs.first().expect("a size"), costs.last().expect("a size"));
    assert!(last.pages() <= GROWTH_MAX * first.pages(), "{first:?} became {last:?}");
}

/// What a look at all lanes costs, and a claim in the mean of many: pages read or written, and time.
#[derive(Debug, Default)]
struct Cost {
    look: f64,
    due: f64,
    events: f64,
    settle: f64,
    micros: f64,
}

impl Cost {
    async fn measure(session: &Session) -> Self {
        let mut cost = Self::default();
        // The second look finds its plan made.
        session.run(&statement("lanes", vec!["-1".to_owned(), "'default'".to_owned()])).await;
        cost.look = session.run(&statement("lanes", vec!["-1".to_owned(), "'default'".to_owned()])).await.pages() as f64;
        for claim in 0..CLAIMS {
            let lane = claim * LANES / CLAIMS;
            let due = session
                .run(&statement(
                    "due_deliveries",
                    vec![format!("'{{{}}}'", lane + 1), "'{1}'".to_owned(), "'{64}'".to_owned(), "'{0}'".to_owned(), i64::MAX.to_string()],
                ))
                .await;
            assert_eq!(due.steps()[0].rows(), 5, "five wait in lane {}", lane + 1);
            let of_lane = |kind| (0..5).map(|k| waiting(kind, lane + LANES * k)).collect::<Vec<_>>();
            let events = session.run(&statement("events_for_sending", vec![format!("'{{{}}}'", of_lane(0x9000).join(","))])).await;
            assert_eq!(events.steps()[0].rows(), 5);
            let settled = session.run(&Outcomes { lane: lane + 1, deliveries: of_lane(0x8000) }.statement()).await;
            assert_eq!(settled.steps()[0].rows(), 5);
            let mean = |plan: &Plan| plan.pages() as f64 / CLAIMS as f64;
            cost.due += mean(&due);
            cost.events += mean(&events);
            cost.settle += mean(&settled);
            cost.micros += (due.micros() + events.micros()) / CLAIMS as f64;
        }
        cost
    }

    fn pages(&self) -> f64 {
        self.due + self.events + self.settle + self.look / LANES as f64
    }
}

/// The id of something that waits, as `waiting_rows.sql` makes it.
fn waiting(kind: u128, n: u64) -> String {
    let millisecond = u128::from(1_700_000_000_000 + 2_415_600_000 + n);
    uuid::Uuid::from_u128((millisecond << 80) | (0x7000 << 64) | (kind << 48) | u128::from(1_000_000_000 + n)).to_string()
}

fn tell(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}
