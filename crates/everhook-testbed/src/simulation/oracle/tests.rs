//! The oracle is not blind: each rule has a short log that breaks it. Nor does it cry wolf: logs in which all is well break none.

use everhook_core::{
    ids::ScheduleVersion,
    model::{EventType, Fingerprint, OrderingMode, Priority, Stage},
    policy::presets,
};
use uuid::Uuid;

use super::*;
use crate::{
    simulation::{
        log::{Answered, PublicationNo, Publishing, RequestNo},
        settings::{Change, EndpointStatus, Settings},
    },
    world::BEGINNING,
};

pub(super) const E: EndpointNo = EndpointNo(0);

/// One event with its delivery, and what happened around them, second by second.
pub(super) struct Story {
    entries: Vec<Entry>,
    requests: usize,
    pub(super) stored: Stored,
    due_ends: BTreeMap<DeliveryId, Timestamp>,
}

pub(super) fn event() -> EventId {
    EventId::from_uuid(Uuid::from_u128(7))
}

pub(super) fn delivery(n: u128) -> DeliveryId {
    DeliveryId::from_uuid(Uuid::from_u128(n))
}

pub(super) fn endpoint() -> EndpointFacts {
    EndpointFacts {
        id: EndpointId::from_uuid(Uuid::from_u128(1)),
        organization: OrganizationId::from_uuid(Uuid::from_u128(1)),
        tenant: TenantNo(0),
        application: ApplicationId::from_uuid(Uuid::from_u128(1)),
        patterns: vec![EventTypePattern::Any],
        schedule: presets::preset("relay").expect("a preset"),
        breaker: BreakerConfig::window(),
    }
}

/// An endpoint that takes one request at once.
pub(super) fn made() -> Settings {
    Settings { status: EndpointStatus::Open, max_concurrency: 1, ordering: OrderingMode::None, rate_limit: None, paused: false }
}

impl Story {
    fn new() -> Self {
        let mut story = Self { entries: Vec::new(), requests: 0, stored: Stored::default(), due_ends: BTreeMap::new() };
        story.then(0, Happening::EndpointMade(E, made()));
        story
    }

    pub(super) fn then(&mut self, second: u64, what: Happening) -> &mut Self {
        let lived = Duration::from_secs(second);
        self.entries.push(Entry { at: BEGINNING + lived, lived, what });
        self
    }

    pub(super) fn published(&mut self, second: u64, key: &str, answer: Answered) -> &mut Self {
        self.published_saying(second, key, "{}", answer)
    }

    pub(super) fn published_saying(&mut self, second: u64, key: &str, data: &str, answer: Answered) -> &mut Self {
        let publication = PublicationNo(self.entries.len());
        let asked = Publishing {
            publication,
            application: 0,
            event_type: "order.paid".to_owned(),
            key: Some(key.to_owned()),
            ordering_key: None,
            fingerprint: Fingerprint::of(&EventType::parse("order.paid").unwrap(), data.as_bytes()),
            wanted_by: vec![E],
            perhaps_by: Vec::new(),
        };
        self.then(second, Happening::Publishing(Box::new(asked))).then(second, Happening::Answered(publication, answer))
    }

    pub(super) fn request(&mut self, second: u64, of: u128, attempt: u32) -> &mut Self {
        let request = RequestNo(self.requests);
        self.requests += 1;
        let began = Request { request, endpoint: E, event: event(), delivery: delivery(of), attempt };
        self.then(second, Happening::RequestBegan(Box::new(began)))
    }

    pub(super) fn reply(&mut self, second: u64, status: u16) -> &mut Self {
        self.ends(second, Reply::Status(status, None))
    }

    pub(super) fn ends(&mut self, second: u64, reply: Reply) -> &mut Self {
        let request = RequestNo(self.requests - 1);
        self.then(second, Happening::RequestEnded(request, E, reply))
    }

    pub(super) fn stores_event(&mut self, id: EventId, key: &str) -> &mut Self {
        let summary = EventSummary {
            id,
            application: endpoint().application,
            event_type: EventType::parse("order.paid").expect("a type"),
            content_type: Default::default(),
            priority: Priority::Normal,
            timestamp: BEGINNING,
            idempotency_key: key.to_owned(),
            source: None,
            sequence_number: 1,
            deliveries: 1,
            created_at: BEGINNING,
            erased_at: None,
        };
        self.stored.events.insert(id, summary);
        self
    }

    pub(super) fn stores_delivery(&mut self, n: u128, stage: Stage, attempts: u32) -> &mut Self {
        let EndpointFacts { id, organization, application, .. } = endpoint();
        self.stored.deliveries.push(Delivery {
            id: delivery(n),
            organization,
            application,
            event: event(),
            event_type: EventType::parse("order.paid").expect("a type"),
            lane_id: id.into(),
            kind: everhook_core::model::LaneKind::Endpoint,
            priority: Priority::Normal,
            retry_schedule: ScheduleVersion(1),
            stage,
            attempts,
            failure_category: None,
            last_error: None,
            replay_of: None,
            operation: None,
            created_at: BEGINNING,
        });
        self.stored.attempts.insert(delivery(n), (1..=attempts).collect());
        self
    }

    /// The rule that is broken, if one is.
    fn judged(&self, rules: &[Rule]) -> Option<&'static str> {
        let (endpoints, operational) = ([endpoint()], BTreeSet::new());
        let facts = Facts { endpoints: &endpoints, operational: &operational, stored: &self.stored, due_ends: &self.due_ends };
        judge(rules, &Evidence::new(&self.entries, facts)).err().map(|violation| violation.rule)
    }
}

/// Checks what the oracle says of a story; nothing if it is a good one.
pub(super) fn expect(rules: &[Rule], broken: Option<&str>, tell: impl FnOnce(&mut Story)) {
    let mut story = Story::new();
    tell(&mut story);
    assert_eq!(story.judged(rules), broken, "{:#?}", story.entries);
}

pub(super) fn died() -> Happening {
    Happening::Died("killed".to_owned())
}

#[test]
fn what_publishers_were_told_is_held_against_the_store() {
    let accepted = Answered::Accepted(event(), 1);
    let other = EventId::from_uuid(Uuid::from_u128(8));
    let waiting = || Stage::Waiting { due_at: BEGINNING };
    expect(ALWAYS, None, |story| {
        story.published(1, "k", accepted).published(2, "k", Answered::Duplicate(event()));
        story.stores_event(event(), "k").stores_delivery(1, waiting(), 0);
    });
    expect(ALWAYS, Some("every accepted event is in the store"), |story| {
        story.published(1, "k", accepted);
    });
    expect(ALWAYS, Some("every endpoint that matched has a delivery, and no other"), |story| {
        story.published(1, "k", accepted).stores_event(event(), "k");
    });
    expect(ALWAYS, Some("an idempotency key names one event"), |story| {
        story.stores_event(event(), "k").stores_event(other, "k");
    });
    expect(ALWAYS, Some("a key that was used finds its event"), |story| {
        story.published(1, "k", accepted).published(2, "k", Answered::Duplicate(other));
        story.stores_event(event(), "k").stores_event(other, "l").stores_delivery(1, waiting(), 0);
    });
    expect(ALWAYS, None, |story| {
        story.published(1, "k", accepted).published_saying(2, "k", "1", Answered::KeyReused(event()));
        story.then(3, Happening::Erasing(event())).published(4, "k", Answered::KeyReused(event()));
        story.stores_event(event(), "k").stores_delivery(1, waiting(), 0);
    });
    let swallowed = |data: &'static str, answer: Answered| {
        expect(ALWAYS, Some("a key that was used finds its event"), move |story| {
            story.published(1, "k", accepted).published_saying(2, "k", data, answer);
            story.stores_event(event(), "k").stores_delivery(1, waiting(), 0);
        });
    };
    swallowed("1", Answered::Duplicate(event()));
    swallowed("{}", Answered::KeyReused(event()));
    expect(ALWAYS, Some("a dead letter that was brought back has a delivery"), |story| {
        story.then(1, Happening::Recalled(delivery(1)));
    });
}

#[test]
fn attempts_are_counted() {
    expect(ALWAYS, None, |story| {
        story.request(1, 1, 1).reply(2, 500).request(3, 1, 2).reply(4, 200);
    });
    expect(ALWAYS, Some("no attempt goes beyond the schedule"), |story| {
        story.request(1, 1, 5);
    });
    expect(ALWAYS, Some("attempt numbers rise one by one"), |story| {
        story.request(1, 1, 1).reply(2, 500).request(9, 1, 3);
    });
    expect(ALWAYS, Some("a retry is not made before its time"), |story| {
        story.request(1, 1, 1).reply(2, 500).request(3, 1, 2).reply(4, 500).request(5, 1, 3);
    });
    expect(ALWAYS, Some("nothing is sent after a success was recorded"), |story| {
        story.request(1, 1, 1).reply(2, 200).request(9, 1, 2);
    });
}

#[test]
fn a_request_is_repeated_only_with_an_excuse() {
    let rule = Some("a request is repeated only if its outcome could not be written");
    expect(ALWAYS, rule, |story| {
        story.request(1, 1, 1).reply(2, 500).request(9, 1, 1);
    });
    expect(ALWAYS, rule, |story| {
        story.request(1, 1, 1).reply(2, 500).then(8, died()).request(9, 1, 1);
    });
    expect(ALWAYS, None, |story| {
        story.request(1, 1, 1).reply(2, 500).then(3, died()).request(9, 1, 1);
    });
    expect(ALWAYS, None, |story| {
        story.request(1, 1, 1).then(7, died()).ends(7, Reply::Abandoned).request(9, 1, 1);
    });
    expect(ALWAYS, None, |story| {
        story.then(1, Happening::DiskFilled).request(1, 1, 1).reply(2, 500).then(8, died()).then(8, Happening::DiskFreed).request(9, 1, 1);
    });
}

#[test]
fn a_request_begins_only_when_its_endpoint_takes_it() {
    expect(ALWAYS, Some("nothing is sent to a disabled or deleted endpoint"), |story| {
        story.then(1, Happening::Changed(E, Change::Disable)).request(2, 1, 1);
    });
    expect(ALWAYS, None, |story| {
        story.request(0, 1, 1).then(1, Happening::Changed(E, Change::Disable)).reply(2, 200);
        story.then(3, Happening::Changing(E, Change::Enable)).request(4, 2, 1);
    });
    expect(ALWAYS, Some("an endpoint that said it is gone is left alone"), |story| {
        story.request(1, 1, 1).reply(2, 410).request(3, 2, 1);
    });
    expect(ALWAYS, Some("no endpoint gets more requests at once than it takes"), |story| {
        story.request(1, 1, 1).request(2, 2, 1);
    });
    expect(ALWAYS, Some("an endpoint that asked for patience gets it"), |story| {
        story.request(1, 1, 1).ends(2, Reply::Status(429, Some(Duration::from_secs(60)))).request(3, 2, 1);
    });
    expect(ALWAYS, Some("nothing new is sent while outcomes cannot be written"), |story| {
        story.then(1, Happening::DiskFilled).request(1, 1, 1).reply(2, 200).request(4, 2, 1);
    });
}

#[test]
fn every_delivery_ends_for_a_reason() {
    let at = BEGINNING;
    let dead = || Stage::Dead { at, cause: everhook_core::model::DeathCause::RetriesExhausted };
    let cancelled = Stage::Cancelled { at, cause: everhook_core::model::CancelCause::EndpointDisabled };
    expect(AT_THE_END, None, |story| {
        story.request(1, 1, 1).reply(2, 200).stores_delivery(1, Stage::Delivered { at }, 1);
    });
    let cases = [
        ("every delivery has ended", Stage::Waiting { due_at: at }, 0),
        ("what counts as delivered was answered with a 2xx", Stage::Delivered { at }, 1),
        ("what is dead had no attempt left or was refused for good", dead(), 1),
        ("every dead delivery has a dead letter", dead(), 4),
        ("only what waited for a closed endpoint or was erased is cancelled", cancelled, 0),
    ];
    for (rule, stage, attempts) in cases {
        expect(AT_THE_END, Some(rule), |story| {
            story.stores_delivery(1, stage, attempts);
        });
    }
    expect(AT_THE_END, Some("after healing, every delivery ends within its schedule's time"), |story| {
        let at = BEGINNING + Duration::from_secs(9);
        story.request(1, 1, 1).reply(2, 200).stores_delivery(1, Stage::Delivered { at }, 1);
        story.due_ends.insert(delivery(1), BEGINNING);
    });
    expect(AT_THE_END, Some("every death is told once"), |story| {
        story.stores_delivery(1, dead(), 4).stored.dead_letters.insert(delivery(1));
    });
    expect(AT_THE_END, Some("the recorded attempts of a delivery are numbered without a gap"), |story| {
        story.request(1, 1, 1).reply(2, 200).stores_delivery(1, Stage::Delivered { at }, 1).stored.attempts.clear();
    });
}

#[test]
fn what_was_erased_is_gone_and_stays_gone() {
    let of_event = EventId::from_uuid(Uuid::nil());
    let erased = |story: &mut Story, id: EventId| {
        story.stores_event(id, "k");
        story.stored.events.get_mut(&id).expect("it is stored").erased_at = Some(BEGINNING);
    };
    expect(ALWAYS, None, |story| {
        story.request(1, 1, 1).then(2, Happening::Erasing(event())).then(3, Happening::Erased(event())).reply(4, 200);
        erased(story, event());
    });
    expect(ALWAYS, Some("nothing of an erased event is sent"), |story| {
        story.then(1, Happening::Erased(event())).request(2, 1, 1);
    });
    let rule = Some("what was erased stays erased, and nothing else is");
    expect(ALWAYS, rule, |story| {
        story.then(1, Happening::Erasing(event())).then(2, Happening::Erased(event())).stores_event(event(), "k");
    });
    expect(ALWAYS, rule, |story| erased(story, of_event));
}
