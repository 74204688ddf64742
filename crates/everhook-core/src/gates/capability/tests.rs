//! What a gate lets through, and what ends of requests say.

use uuid::Uuid;

use super::*;
use crate::{gates::Gates, ids::LaneId, policy::calls::manifest::ManifestDefaults};

const MS: Duration = Duration::from_millis(1);

fn settings() -> GateSettings {
    GateSettings {
        breaker: ManifestDefaults::default().breaker,
        slow_calls: None,
        slow_after: 800 * MS,
        max_concurrency: 100,
        app: AppKey { application: crate::ids::ApplicationId::from_uuid(Uuid::nil()), base_url: 0 },
        app_concurrency_max: 100,
        hedge: None,
        canary_version: None,
    }
}

struct Given {
    gate: Arc<CapabilityGate>,
    slots: Arc<CallSlots>,
}

impl Given {
    fn new(settings: &GateSettings) -> Self {
        Self {
            gate: Arc::new(CapabilityGate::new(settings, AppLimit::new(settings.app_concurrency_max), None, Timestamp::EPOCH)),
            slots: CallSlots::new(512),
        }
    }

    fn begin(&self, call: u128, secs: i64) -> Result<CallPass, Standstill> {
        let organization = OrganizationId::from_uuid(Uuid::nil());
        self.gate.begin(EventId::from_uuid(Uuid::from_u128(call)), organization, &self.slots, Timestamp::from_secs(secs))
    }

    fn fail(&self, call: u128, secs: i64) -> Option<Transition> {
        self.begin(call, secs).ok().unwrap().end(RequestOutcome::Failed(FailureKind::Status, MS), Timestamp::from_secs(secs))
    }
}

#[test]
fn five_failures_open_it_one_call_probes_and_three_successes_close_it() {
    let given = Given::new(&settings());
    let opened: Vec<bool> = (0..5).map(|call| given.fail(call, 1).is_some()).collect();
    assert_eq!(opened, [false, false, false, false, true]);
    assert!(matches!(given.begin(9, 2), Err(Standstill::CircuitOpen { until: Some(until) }) if until == Timestamp::from_secs(61)));
    for round in 0..3 {
        let probe = given.begin(10 + round, 62).ok().unwrap();
        assert_eq!(probe.state, BreakerState::HalfOpen);
        assert!(matches!(given.begin(20 + round, 62), Err(Standstill::CircuitOpen { .. })), "one probes, the others have a fallback");
        probe.end(RequestOutcome::Answered(MS), Timestamp::from_secs(62));
    }
    assert_eq!(given.gate.breaker_state(Timestamp::from_secs(62)), BreakerState::Closed);
    let first = given.begin(30, 63).ok().unwrap();
    assert!(matches!(given.begin(31, 63), Err(Standstill::AtCapacity)), "it is given one at a time at first");
    drop(first);
}

#[test]
fn what_is_cancelled_gives_its_place_back_and_counts_for_nothing() {
    let given = Given::new(&GateSettings { max_concurrency: 1, ..settings() });
    for call in 0..100 {
        let pass = given.begin(call, 1).ok().unwrap();
        assert!(matches!(given.begin(1_000 + call, 1), Err(Standstill::AtCapacity)));
        drop(pass);
    }
    assert_eq!(given.gate.facts(Timestamp::from_secs(1)).breaker.failure_count_in_window, 0);
}

#[test]
fn an_app_that_says_itself_that_it_cannot_is_well() {
    let given = Given::new(&settings());
    for call in 0..100 {
        let pass = given.begin(call, 1).ok().unwrap();
        assert_eq!(pass.end(RequestOutcome::Failed(FailureKind::AppError, MS), Timestamp::from_secs(1)), None);
    }
}

#[test]
fn it_opens_as_it_is_open_elsewhere_unless_it_knows_better() {
    let at = Timestamp::from_secs;
    let row = |revision, until| BreakerRow {
        lane_id: crate::ids::LaneId::from_uuid(Uuid::nil()),
        revision,
        kept: KeptBreaker { stage: KeptStage::Open { until: at(until) }, since: at(10), failed_recoveries: 0 },
    };
    let given = Given::new(&settings());
    assert!(given.gate.may_open_for(&row(1, 70), at(20)));
    assert!(!given.gate.may_open_for(&row(1, 20), at(20)), "its sleep is over");
    assert!(!given.gate.may_open_for(&row(0, 70), at(20)), "it is not newer than what is known here");
    given.gate.open_for(&row(1, 70), at(20));
    assert!(given.begin(1, 69).is_err() && given.begin(1, 70).is_ok(), "after the sleep a call of this node probes");
    assert!(!given.gate.may_open_for(&row(2, 90), at(71)), "a probe is under way");
    let switched_off = BreakerConfig { enabled: false, ..settings().breaker };
    assert!(!Given::new(&GateSettings { breaker: switched_off, ..settings() }).gate.may_open_for(&row(1, 70), at(20)));
}

#[test]
fn failed_health_checks_open_it_unless_calls_are_answered_and_a_probe_closes_it() {
    let at = Timestamp::from_secs;
    let answering = Given::new(&settings());
    answering.begin(1, 10).ok().unwrap().end(RequestOutcome::Answered(MS), at(10));
    assert_eq!(answering.gate.app_is_away(at(10), at(20)), None);
    assert!(answering.gate.app_is_away(at(11), at(20)).is_some(), "it was before the checks failed");
    let unused = Given::new(&settings());
    let opened = unused.gate.app_is_away(at(10), at(20)).expect("nobody knows better");
    assert_eq!((opened.opens(), opened.cause.as_str()), (true, "failed_health_checks"));
    assert_eq!(unused.gate.app_is_away(at(10), at(21)), None, "it is open already");
    assert!(unused.begin(1, 79).is_err() && unused.begin(1, 80).is_ok(), "after its sleep a call probes");
    let switched_off = BreakerConfig { enabled: false, ..settings().breaker };
    assert_eq!(Given::new(&GateSettings { breaker: switched_off, ..settings() }).gate.app_is_away(at(10), at(20)), None);
}

#[test]
fn slow_answers_open_it_where_the_manifest_asks_for_that() {
    let rule = SlowCallRule { slower_than: 10 * MS, percentage: 50, calls_min: 20 };
    let given = Given::new(&GateSettings { slow_calls: Some(rule), ..settings() });
    let now = Timestamp::from_secs(1);
    let transitions = (0..20).filter_map(|call| given.begin(call, 1).ok().unwrap().end(RequestOutcome::Answered(11 * MS), now));
    assert_eq!(transitions.map(|transition| transition.cause.as_str()).collect::<Vec<_>>(), ["too_many_slow_calls"]);
    assert!(given.begin(99, 1).is_err());
}

#[test]
fn an_answer_after_the_deadline_is_a_slow_success_for_the_probe_that_it_answers() {
    let at = Timestamp::from_secs;
    let given = Given::new(&settings());
    (0..5).for_each(|call| _ = given.fail(call, 1));
    for round in 0..3 {
        let (late, transition) = given.begin(10 + round, 62).ok().unwrap().time_out(false, at(63));
        assert_eq!((transition, given.gate.breaker_state(at(63))), (None, BreakerState::HalfOpen), "nothing is decided yet");
        assert!(matches!(given.begin(20 + round, 63), Err(Standstill::CircuitOpen { .. })), "the others have their fallback meanwhile");
        let transition = late.expect("a probe is waited for").end(true, at(64));
        assert_eq!(transition.is_some_and(|transition| transition.closes()), round == 2);
    }
    assert_eq!(given.gate.facts(at(64)).in_flight, 0);
    // One that never answers opens it again.
    let given = Given::new(&settings());
    (0..5).for_each(|call| _ = given.fail(call, 1));
    let (late, _) = given.begin(10, 62).ok().unwrap().time_out(false, at(63));
    let reopened = late.unwrap().end(false, at(64)).expect("the recovery failed");
    assert_eq!((reopened.to, reopened.cause.as_str()), (BreakerState::Open, "recovery_failed"));
    // One of which nothing more is known gives its place back.
    let given = Given::new(&settings());
    (0..5).for_each(|call| _ = given.fail(call, 1));
    drop(given.begin(10, 62).ok().unwrap().time_out(false, at(63)));
    assert!(given.begin(11, 63).is_ok());
}

#[test]
fn timeouts_of_a_closed_breaker_count_at_once_and_few_requests_keep_their_places() {
    let at = Timestamp::from_secs;
    let given = Given::new(&GateSettings { breaker: BreakerConfig { enabled: false, ..settings().breaker }, ..settings() });
    let passes: Vec<_> = (0..20).map(|call| given.begin(call, 1).ok().unwrap()).collect();
    let mut late: Vec<_> = passes.into_iter().filter_map(|pass| pass.time_out(false, at(2)).0).collect();
    assert!((2..=10).contains(&late.len()), "{} of 20 are waited for", late.len());
    assert_eq!(given.gate.facts(at(2)).in_flight, u32::try_from(late.len()).unwrap(), "they are at the app still");
    late.pop().unwrap().end(true, at(3));
    drop(late);
    assert_eq!(given.gate.facts(at(4)).in_flight, 0);
    // Where the answer is kept, each one is waited for, but without a place beyond those few.
    let given = Given::new(&GateSettings { breaker: BreakerConfig { enabled: false, ..settings().breaker }, ..settings() });
    let passes: Vec<_> = (0..12).map(|call| given.begin(call, 5).ok().unwrap()).collect();
    let late: Vec<_> = passes.into_iter().filter_map(|pass| pass.time_out(true, at(6)).0).collect();
    assert!(late.len() == 12 && given.gate.facts(at(6)).in_flight < 12);
    drop(late);
    assert_eq!(given.gate.facts(at(7)).in_flight, 0);
    // Five in a row open it, whatever they answer later.
    let given = Given::new(&settings());
    let ends: Vec<_> = (0..5).map(|call| given.begin(call, 1).ok().unwrap().time_out(false, at(2))).collect();
    assert_eq!(ends.iter().filter(|(_, transition)| transition.is_some()).count(), 1);
    ends.into_iter().filter_map(|(late, _)| late).for_each(|late| _ = late.end(true, at(3)));
    assert_eq!(given.gate.breaker_state(at(3)), BreakerState::Open);
}

#[test]
fn nothing_is_hedged_while_more_than_a_tenth_of_the_answers_are_slow_whatever_the_manifest_says() {
    let hedge = Hedge { after: HedgeDelay::Fixed(MS), budget_percent: 100 };
    let given = Given::new(&GateSettings { hedge: Some(hedge), ..settings() });
    let answer = |took: Duration| {
        given.gate.called();
        given.begin(1, 1).ok().unwrap().end(RequestOutcome::Answered(took), Timestamp::from_secs(1));
    };
    let now = Timestamp::from_secs(1);
    (0..19).for_each(|_| answer(900 * MS));
    assert!(given.gate.take_hedge(now), "of fewer than twenty calls a percentage says nothing");
    answer(900 * MS);
    assert!(!given.gate.take_hedge(now));
    (0..100).for_each(|n| answer(if n % 10 == 0 { 900 * MS } else { MS }));
    assert!(given.gate.take_hedge(now), "one in ten is not more than one in ten");
    (0..5).for_each(|_| answer(900 * MS));
    assert!(!given.gate.take_hedge(now));
}

#[test]
fn capabilities_of_one_app_share_its_limit_and_each_finds_a_place() {
    let gates = Gates::new(crate::gates::CALLS_IN_FLIGHT_MAX);
    let now = Timestamp::from_secs(1);
    let gate = |lane: u128, settings: &GateSettings| gates.make(LaneId::from_uuid(Uuid::from_u128(lane)), settings, None, now);
    let begin = |gate: &Arc<CapabilityGate>, call: u128| {
        gate.begin(EventId::from_uuid(Uuid::from_u128(call)), OrganizationId::from_uuid(Uuid::nil()), &gates.slots, now)
    };
    let [one, two, three] = [1, 2, 3].map(|lane| gate(lane, &settings()));
    let of_one: Vec<_> = (0..100).map_while(|call| begin(&one, call).ok()).collect();
    assert_eq!(of_one.len(), 18, "two of twenty places are left to the others");
    let (_two, _three) = (begin(&two, 200).ok().unwrap(), begin(&three, 201).ok().unwrap());
    assert!(begin(&two, 202).is_err() && begin(&one, 203).is_err(), "twenty are at the app");
    // Another app of the same application, and this one after it has moved, have limits of their own.
    let moved = GateSettings { app: AppKey { base_url: 1, ..settings().app }, ..settings() };
    assert!(begin(&gate(4, &moved), 300).is_ok());
    let two = gates.get(LaneId::from_uuid(Uuid::from_u128(2)), &moved, now).unwrap();
    let of_two: Vec<_> = (400..500).map_while(|call| begin(&two, call).ok()).collect();
    assert!(of_two.len() > 10, "{}", of_two.len());
    drop((of_one, of_two));
    assert_eq!([&one, &two].map(|gate| gate.facts(now).in_flight), [0, 1]);
}
