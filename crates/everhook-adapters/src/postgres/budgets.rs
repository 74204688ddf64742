//! What nodes draw from together: the port `ThrottleStore`.
//!
//! An exchange is one transaction and two ways to the server and back: rows are locked in the order of their keys and read; what the core decides from that
//! is written and committed. It has connections of its own, so that nothing of the line waits for it, and its tables are never flushed.

use async_trait::async_trait;
use everhook_core::{
    ids::OrganizationId,
    model::{SlotRequest, TokenGrant, TokenRequest},
    policy::{
        shared_bucket::SharedBucket,
        shared_slots::{self, Holding},
    },
    ports::{Ask, Grant, StoreError, ThrottleStore, Wanted},
    time::Timestamp,
};
use rustc_hash::FxHashMap;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    collisions::retry_on_conflict,
    fault::{Fault, Outcome},
    pipeline::Pipeline,
    rows::{Columns, Key},
};

const MAKE: &str = include_str!("queries/make_budgets.sql");
const LOCK: &str = include_str!("queries/lock_budgets.sql");
const SLOTS: &str = include_str!("queries/slots_of_organizations.sql");
const KEEP: &str = include_str!("queries/keep_budgets.sql");
const KEEP_SLOTS: &str = include_str!("queries/keep_slots.sql");
const FORGET_SLOTS: &str = include_str!("queries/forget_slots.sql");

/// The kind of the row by which an organization's slots are locked.
const SLOTS_KIND: &str = "slots";

#[async_trait]
impl ThrottleStore for PostgresStore {
    async fn exchange(&self, asks: Vec<Ask>) -> Result<Vec<Grant>, StoreError> {
        Ok(retry_on_conflict(|| self.try_to_exchange(&asks)).await?)
    }
}

impl PostgresStore {
    async fn try_to_exchange(&self, asks: &[Ask]) -> Outcome<Vec<Grant>> {
        let pipeline = Pipeline::new(self.pools.counters().await?);
        let outcome = exchange_in(&pipeline, self.holder, asks).await;
        pipeline.finish(outcome).await
    }
}

async fn exchange_in(pipeline: &Pipeline, holder: Uuid, asks: &[Ask]) -> Outcome<Vec<Grant>> {
    let (make, lock, slots) = (pipeline.prepare(MAKE).await?, pipeline.prepare(LOCK).await?, pipeline.prepare(SLOTS).await?);
    let keep = (pipeline.prepare(KEEP).await?, pipeline.prepare(KEEP_SLOTS).await?, pipeline.prepare(FORGET_SLOTS).await?);
    let organizations: Vec<Uuid> = asks.iter().map(|ask| ask.organization.key()).collect();
    let kinds: Vec<&str> = asks.iter().map(|ask| kind_of(&ask.what)).collect();
    // Each statement sees what was committed before it: who holds slots is read when the locks are held.
    let (_, _, locked, held) = tokio::try_join!(
        biased;
        pipeline.send("BEGIN"),
        async { pipeline.execute(&make, &[&organizations, &kinds]).await },
        async { pipeline.query(&lock, &[&organizations, &kinds]).await },
        async { pipeline.query(&slots, &[&organizations]).await },
    )?;
    let mut exchange = Exchange::read(&locked, &held, holder)?;
    let grants = asks.iter().map(|ask| exchange.answer(ask)).collect();
    let Written { budgets, kinds, parts, as_of, slots, holders, held, wanted, until, left, leavers } = exchange.written;
    tokio::try_join!(
        biased;
        async { pipeline.execute_if(!budgets.is_empty(), &keep.0, &[&budgets, &kinds, &parts, &as_of]).await },
        async { pipeline.execute_if(!slots.is_empty(), &keep.1, &[&slots, &holders, &held, &wanted, &until]).await },
        async { pipeline.execute_if(!left.is_empty(), &keep.2, &[&left, &leavers]).await },
        pipeline.send("COMMIT"),
    )?;
    Ok(grants)
}

fn kind_of(wanted: &Wanted) -> &'static str {
    match wanted {
        Wanted::Tokens(budget, _) => budget.as_str(),
        Wanted::Slots(_) => SLOTS_KIND,
    }
}

/// What was read, and what is to be written.
struct Exchange {
    now: Timestamp,
    holder: Uuid,
    buckets: FxHashMap<(Uuid, String), SharedBucket>,
    holdings: FxHashMap<Uuid, Vec<Holding>>,
    written: Written,
}

/// What is to be written, a column each.
#[derive(Default)]
struct Written {
    budgets: Vec<Uuid>,
    kinds: Vec<&'static str>,
    parts: Vec<i64>,
    as_of: Vec<i64>,
    slots: Vec<Uuid>,
    holders: Vec<Uuid>,
    held: Vec<i64>,
    wanted: Vec<i64>,
    until: Vec<i64>,
    left: Vec<Uuid>,
    leavers: Vec<Uuid>,
}

impl Exchange {
    fn read(locked: &[Row], held: &[Row], holder: Uuid) -> Outcome<Self> {
        let now = held.first().ok_or_else(|| Fault::Impossible("the server knows no time".to_owned()))?.instant("store_time")?;
        let mut buckets = FxHashMap::default();
        for row in locked {
            if let Some(as_of) = row.instant_opt("as_of")? {
                buckets.insert((row.value("organization_id")?, row.value("kind")?), SharedBucket { parts: row.value("parts")?, as_of });
            }
        }
        let mut holdings: FxHashMap<Uuid, Vec<Holding>> = FxHashMap::default();
        for row in held {
            if let Some(organization) = row.value::<Option<Uuid>>("organization_id")? {
                holdings.entry(organization).or_default().push(holding_of_row(row)?);
            }
        }
        Ok(Self { now, holder, buckets, holdings, written: Written::default() })
    }

    fn answer(&mut self, ask: &Ask) -> Grant {
        match &ask.what {
            Wanted::Tokens(budget, draw) => Grant::Tokens(self.draw(ask.organization, budget.as_str(), draw)),
            Wanted::Slots(slots) => Grant::Slots(self.share(ask.organization, *slots)),
        }
    }

    fn draw(&mut self, organization: OrganizationId, kind: &'static str, draw: &TokenRequest) -> TokenGrant {
        let known = self.buckets.remove(&(organization.key(), kind.to_owned()));
        let mut bucket = known.unwrap_or_else(|| SharedBucket::new(draw.limit, self.now));
        let drawn = bucket.draw(draw, self.now);
        self.written.budgets.push(organization.key());
        self.written.kinds.push(kind);
        self.written.parts.push(bucket.parts);
        self.written.as_of.push(bucket.as_of.as_micros());
        drawn
    }

    fn share(&mut self, organization: OrganizationId, ask: SlotRequest) -> u32 {
        let organization = organization.key();
        let mut holdings = self.holdings.remove(&organization).unwrap_or_default();
        let before = holdings.clone();
        let allowed = shared_slots::share(&mut holdings, self.holder, ask, self.now);
        let is_left = |gone: &&Holding| holdings.iter().all(|holding| holding.holder != gone.holder);
        for gone in before.iter().filter(is_left) {
            self.written.left.push(organization);
            self.written.leavers.push(gone.holder);
        }
        // The asker's, as a rule.
        for changed in holdings.iter().filter(|holding| !before.contains(holding)) {
            self.written.slots.push(organization);
            self.written.holders.push(changed.holder);
            self.written.held.push(changed.held.into());
            self.written.wanted.push(changed.wanted.into());
            self.written.until.push(changed.until.as_micros());
        }
        allowed
    }
}

fn holding_of_row(row: &Row) -> Outcome<Holding> {
    Ok(Holding {
        holder: row.value("holder")?,
        held: row.number("held")?,
        wanted: row.number("wanted")?,
        until: row.instant("held_until")?,
    })
}
