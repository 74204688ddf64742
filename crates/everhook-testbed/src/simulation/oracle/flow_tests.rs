//! The rules about order, rates, pauses and breakers, each with a short log that breaks it and one that does not.

use everhook_core::model::{OrderingMode, Stage};

use super::{
    tests::{E, Story, delivery, died, endpoint, event, expect, made},
    *,
};
use crate::{
    simulation::{
        log::{Answered, Happening},
        settings::{Change, Limits, Order, Rate, Settings},
    },
    world::BEGINNING,
};

const T: TenantNo = TenantNo(0);

fn at(second: u64) -> Timestamp {
    BEGINNING + Duration::from_secs(second)
}

impl Story {
    /// A delivery at this place, which ended at this second if it did.
    fn stores_ordered(&mut self, n: u128, key: &str, ended: Option<u64>) -> &mut Self {
        let stage = ended.map_or(Stage::Waiting { due_at: BEGINNING }, |second| Stage::Delivered { at: at(second) });
        self.stores_delivery(n, stage, u32::from(ended.is_some()));
        let position = i64::try_from(n).expect("a small number");
        self.stored.places.insert(delivery(n), Place { key: key.to_owned(), position });
        self
    }

    fn opened(&mut self, from: u64, until: Option<u64>) -> &mut Self {
        self.stored.open_periods.push((endpoint().id, OpenPeriod { opened_at: at(from), closed_at: until.map(at) }));
        self
    }

    fn takes_many(&mut self) -> &mut Self {
        self.then(0, Happening::Changing(E, Change::Limit(100))).then(0, Happening::Changed(E, Change::Limit(100)))
    }

    fn changes(&mut self, second: u64, change: Change) -> &mut Self {
        self.then(second, Happening::Changing(E, change)).then(second, Happening::Changed(E, change))
    }
}

#[test]
fn in_order_each_waits_for_the_one_before_it() {
    let rule = Some("in an ordered lane nobody overtakes");
    expect(ALWAYS, None, |story| {
        story.request(1, 1, 1).reply(2, 200).request(2, 2, 1).reply(3, 200);
        story.stores_ordered(1, "", Some(2)).stores_ordered(2, "", Some(3));
    });
    expect(ALWAYS, rule, |story| {
        story.request(1, 1, 1).reply(2, 500).request(3, 2, 1).reply(4, 200).request(9, 1, 2).reply(9, 200);
        story.stores_ordered(1, "", Some(9)).stores_ordered(2, "", Some(4));
    });
    expect(ALWAYS, rule, |story| {
        story.request(3, 2, 1).reply(4, 200).stores_ordered(1, "", None).stores_ordered(2, "", Some(4));
    });
    // Another key does not wait, and what was cancelled is no longer before anybody.
    expect(ALWAYS, None, |story| {
        story.request(3, 2, 1).reply(4, 200).stores_ordered(1, "a", None).stores_ordered(2, "b", Some(4));
    });
    // After a crash the last one is repeated; an older one never is.
    expect(ALWAYS, None, |story| {
        story.request(1, 1, 1).reply(2, 200).request(2, 2, 1).then(3, died()).ends(3, Reply::Abandoned).request(9, 2, 1);
        story.stores_ordered(1, "", Some(2)).stores_ordered(2, "", None);
    });
    expect(ALWAYS, rule, |story| {
        story.request(1, 1, 1).reply(2, 200).request(2, 2, 1).then(3, died()).ends(3, Reply::Abandoned).request(9, 1, 1);
        story.stores_ordered(1, "", Some(10)).stores_ordered(2, "", None);
    });
}

#[test]
fn of_one_key_one_is_under_way() {
    expect(ALWAYS, Some("of one key one request is under way at a time"), |story| {
        story.takes_many().request(3, 1, 1).request(3, 2, 1);
        // As if the first had ended before: then the other rule is content.
        story.stores_ordered(1, "", Some(3)).stores_ordered(2, "", None);
    });
}

#[test]
fn places_and_keys_are_those_of_publishing() {
    let other = EventId::from_uuid(uuid::Uuid::from_u128(8));
    expect(ALWAYS, Some("events have their places in the order of their acceptance"), |story| {
        story.published(1, "k", Answered::Accepted(event(), 1)).published(2, "l", Answered::Accepted(other, 1));
        // Both get the first place.
        story.stores_event(event(), "k").stores_event(other, "l");
        let waiting = Stage::Waiting { due_at: BEGINNING };
        story.stores_delivery(1, waiting.clone(), 0).stores_delivery(2, waiting, 0).stored.deliveries[1].event = other;
    });
    let strict = Settings { ordering: OrderingMode::Strict, ..made() };
    for (key, broken) in [("", None), ("order.paid", Some("a delivery has the key of its endpoint's mode and the place of its event"))] {
        expect(ALWAYS, broken, |story| {
            story.then(0, Happening::Found(E, strict)).published(1, "k", Answered::Accepted(event(), 1));
            story.stores_event(event(), "k").stores_ordered(1, key, None);
        });
    }
}

#[test]
fn after_a_change_of_mode_new_ones_wait() {
    let rule = Some("after a change of mode new deliveries wait for those before it");
    for (ended, broken) in [(None, rule), (Some(4), None)] {
        expect(ALWAYS, broken, |story| {
            let later = EventId::from_uuid(uuid::Uuid::from_u128(8));
            story.published(1, "k", Answered::Accepted(event(), 1)).changes(2, Change::Order(OrderingMode::Strict));
            story.published(3, "l", Answered::Accepted(later, 1)).request(5, 2, 1).reply(6, 200);
            story.stores_event(event(), "k").stores_event(later, "l");
            story.stored.events.entry(later).and_modify(|event| event.sequence_number = 2);
            let stage = ended.map_or(Stage::Waiting { due_at: BEGINNING }, |second| Stage::Delivered { at: at(second) });
            story.stores_delivery(1, stage, 0).stores_ordered(2, "", Some(6));
            story.stored.deliveries[1].event = later;
        });
    }
}

#[test]
fn the_first_of_a_key_is_soon_freed() {
    let held = || Happening::HeldFirst(vec![delivery(1)]);
    expect(ALWAYS, Some("nothing is held for long with nothing before it"), |story| {
        story.then(1, held()).then(20, held());
    });
    expect(ALWAYS, None, |story| {
        story.then(1, held()).then(9, held()).then(10, died()).then(20, held());
    });
}

#[test]
fn a_pause_and_a_rate_hold_requests_back() {
    expect(ALWAYS, Some("nothing is sent to a paused endpoint"), |story| {
        story.changes(1, Change::Pause).request(2, 1, 1);
    });
    expect(ALWAYS, None, |story| {
        story
            .request(1, 1, 1)
            .changes(1, Change::Pause)
            .reply(2, 200)
            .then(3, Happening::Changing(E, Change::Resume(None)))
            .request(3, 2, 1);
    });
    let rate = Rate { requests: 6, burst: 1 };
    for (second, broken) in [(10, Some("no endpoint gets more requests in a time than its rate allows")), (15, None)] {
        expect(ALWAYS, broken, |story| {
            story.changes(1, Change::Rate(Some(rate))).request(5, 1, 1).reply(5, 200).request(second, 2, 1);
        });
    }
    // A restart begins with a full bucket.
    expect(ALWAYS, None, |story| {
        story
            .changes(1, Change::Rate(Some(rate)))
            .request(5, 1, 1)
            .reply(5, 200)
            .then(9, died())
            .then(9, Happening::Started)
            .request(9, 2, 1);
    });
}

#[test]
fn an_organization_has_its_limits() {
    let limits = Limits { rate: Some(Rate { requests: 6, burst: 1 }), concurrency: Some(1) };
    let limited = |story: &mut Story| _ = story.takes_many().then(1, Happening::Limited(T, limits));
    expect(ALWAYS, Some("no organization starts more requests in a time than it may"), |story| {
        limited(story);
        story.request(5, 1, 1).reply(5, 200).request(10, 2, 1);
    });
    expect(ALWAYS, Some("no organization has more requests at once than it may"), |story| {
        limited(story);
        story.request(5, 1, 1).request(20, 2, 1);
    });
}

#[test]
fn a_breaker_that_is_not_closed_lets_few_pass() {
    let forced = Change::Breaker(Order::ForceOpen(Some(60)));
    for (second, broken) in [(10, Some("nothing passes a breaker that is forced open")), (62, None)] {
        expect(ALWAYS, broken, |story| {
            story.changes(1, forced).request(second, 1, 1);
        });
    }
    expect(ALWAYS, None, |story| {
        story.changes(1, forced).then(5, Happening::Changing(E, Change::Breaker(Order::Reset))).request(6, 1, 1);
    });
    // It sleeps 30 s, and then five may probe.
    for (second, broken) in [(29, Some("a breaker that opened sleeps")), (31, None)] {
        expect(ALWAYS, broken, |story| {
            story.opened(1, None).request(second, 1, 1);
        });
    }
    let probes = |story: &mut Story, last: u64| {
        story.takes_many().opened(1, None);
        (1..=5).for_each(|n| _ = story.request(40, n, 1));
        story.request(last, 6, 1);
    };
    expect(ALWAYS, Some("only so many probes at once pass a breaker"), |story| probes(story, 80));
    expect(ALWAYS, Some("a breaker decides on few probes, and sleeps before it tries again"), |story| {
        story.opened(1, None);
        (1..=6).for_each(|n| _ = story.request(40, n, 1).reply(40, 500));
    });
}

#[test]
fn an_idle_endpoint_is_served_at_once() {
    let rule = Some("an idle endpoint's first attempt starts within 100 ms, whatever others do");
    let due = || Happening::DueAtOnce(event());
    expect(ALWAYS, None, |story| {
        story.request(30, 1, 1).then(30, due()).reply(31, 200).then(40, due());
    });
    expect(ALWAYS, rule, |story| {
        story.then(30, due()).request(31, 1, 1).reply(31, 200);
    });
    // The process had just started, the store failed just before, or goes away; and what happens at the end of a log is not known.
    for (second, excuse) in [(25, Happening::Started), (29, Happening::DiskFreed), (29, Happening::ClockMoved(1)), (30, died())] {
        expect(ALWAYS, None, |story| {
            story.then(second, excuse).then(30, due()).request(31, 1, 1).reply(31, 200);
        });
    }
    expect(ALWAYS, None, |story| {
        story.then(30, due());
    });
}
