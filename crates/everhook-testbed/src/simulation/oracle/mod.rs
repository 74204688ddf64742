//! The oracle: what must be true of every run, one rule a function. It knows the log and what the store holds, never the engine's insides.
//!
//! A further rule is a function in the file that it belongs to and a line in one of the two tables below.

mod accepted;
mod attempts;
mod breaking;
mod called;
#[cfg(test)]
mod called_tests;
mod ending;
#[cfg(test)]
mod flow_tests;
mod handed_over;
#[cfg(test)]
mod handed_over_tests;
mod limits;
mod mailed;
#[cfg(test)]
mod mailed_tests;
mod order;
mod received;
#[cfg(test)]
mod received_tests;
mod sending;
mod signed;
#[cfg(test)]
mod signed_tests;
mod starting;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use everhook_core::{
    ids::{ApplicationId, ApprovalId, DeliveryId, EndpointId, EventId, OrganizationId},
    model::{BreakerConfig, Delivery, EventTypePattern, JobStatus, OpenPeriod, RetrySchedule},
    ports::EventSummary,
    time::Timestamp,
};

use super::log::{Decision, EndpointNo, Entry, Happening, Reply, Request, Summary, TenantNo};

/// How soon after its end the outcome of a request is on disk, also if the store fails once or twice on the way.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);

/// A sentence that must be true, and the function that looks whether it is. The function's error says what speaks against it.
#[derive(Clone, Copy)]
pub struct Rule {
    /// The sentence.
    pub words: &'static str,
    check: fn(&Evidence<'_>) -> Result<(), String>,
}

/// What must hold at every moment: looked at after each restart and at the end.
pub const ALWAYS: &[Rule] = &[
    Rule { words: "every accepted event is in the store", check: accepted::every_accepted_event_is_kept },
    Rule { words: "every endpoint that matched has a delivery, and no other", check: accepted::every_match_has_one_delivery },
    Rule { words: "an idempotency key names one event", check: accepted::a_key_names_one_event },
    Rule { words: "a key that was used finds its event", check: accepted::a_used_key_finds_its_event },
    Rule { words: "a dead letter that was brought back has a delivery", check: accepted::every_recall_is_kept },
    Rule { words: "every accepted push is one event", check: received::every_accepted_push_is_one_event },
    Rule { words: "no push is given up", check: received::no_push_is_given_up },
    Rule {
        words: "what is signed with a secret in force is not refused",
        check: signed::what_is_signed_with_a_secret_in_force_is_not_refused,
    },
    Rule { words: "what is signed with a former secret is not taken", check: signed::what_is_signed_with_a_former_secret_is_not_taken },
    Rule { words: "every signed push that was taken has one effect", check: signed::every_signed_push_that_was_taken_has_one_effect },
    Rule { words: "every caller is answered in time", check: called::every_caller_is_answered_in_time },
    Rule { words: "every queued call is one job", check: called::every_queued_call_is_one_job },
    Rule { words: "of several callbacks the first counts", check: called::only_the_first_callback_counts },
    Rule { words: "no app is asked to do what it has done", check: called::nothing_is_asked_after_its_callback },
    Rule { words: "whoever was asked may answer", check: called::whoever_was_asked_may_answer },
    Rule { words: "only what the app has answered is kept", check: handed_over::only_good_answers_are_kept },
    Rule { words: "no progress is taken of a job that its app has ended", check: handed_over::nothing_progresses_after_its_end },
    Rule { words: "of several decisions the first counts", check: handed_over::only_the_first_decision_counts },
    Rule { words: "a mail is repeated only if its end was not known", check: mailed::a_mail_is_repeated_only_if_its_end_was_not_known },
    Rule { words: "no attempt goes beyond the schedule", check: attempts::attempts_stay_within_the_schedule },
    Rule { words: "attempt numbers rise one by one", check: attempts::numbers_rise_one_by_one },
    Rule { words: "a request is repeated only if its outcome could not be written", check: attempts::repeats_have_an_excuse },
    Rule { words: "nothing is sent after a success was recorded", check: attempts::nothing_follows_a_success },
    Rule { words: "a retry is not made before its time", check: attempts::retries_wait_their_time },
    Rule { words: "nothing is sent to a disabled or deleted endpoint", check: sending::nothing_goes_to_a_closed_endpoint },
    Rule { words: "an endpoint that said it is gone is left alone", check: sending::the_gone_are_left_alone },
    Rule { words: "no endpoint gets more requests at once than it takes", check: limits::no_more_at_once_than_allowed },
    Rule { words: "an endpoint that asked for patience gets it", check: sending::retry_after_holds_the_endpoint },
    Rule { words: "nothing new is sent while outcomes cannot be written", check: sending::nothing_is_sent_while_outcomes_pile_up },
    Rule { words: "nothing is sent to a paused endpoint", check: sending::nothing_goes_to_a_paused_endpoint },
    Rule { words: "nothing of an erased event is sent", check: sending::nothing_of_an_erased_event_is_sent },
    Rule { words: "what was erased stays erased, and nothing else is", check: accepted::the_erased_stay_erased },
    Rule { words: "no endpoint gets more requests in a time than its rate allows", check: limits::no_endpoint_gets_more_a_minute },
    Rule { words: "no organization has more requests at once than it may", check: limits::no_organization_has_more_at_once },
    Rule { words: "no organization starts more requests in a time than it may", check: limits::no_organization_gets_more_a_minute },
    Rule { words: "nothing passes a breaker that is forced open", check: breaking::nothing_passes_a_breaker_forced_open },
    Rule { words: "a breaker that opened sleeps", check: breaking::an_open_breaker_sleeps },
    Rule { words: "only so many probes at once pass a breaker", check: breaking::only_probes_pass_a_breaker_that_is_not_closed },
    Rule { words: "a breaker decides on few probes, and sleeps before it tries again", check: breaking::few_probes_decide },
    Rule { words: "events have their places in the order of their acceptance", check: order::places_follow_acceptance },
    Rule { words: "a delivery has the key of its endpoint's mode and the place of its event", check: order::keys_follow_the_mode },
    Rule { words: "in an ordered lane nobody overtakes", check: order::nobody_overtakes },
    Rule { words: "of one key one request is under way at a time", check: order::one_at_a_time },
    Rule { words: "after a change of mode new deliveries wait for those before it", check: order::new_ones_wait_for_a_change_of_mode },
    Rule { words: "nothing is held for long with nothing before it", check: order::no_first_is_held_for_long },
    Rule {
        words: "an idle endpoint's first attempt starts within 100 ms, whatever others do",
        check: starting::the_idle_are_served_at_once,
    },
];

/// What must hold once everything is well and the schedules' time has passed.
pub const AT_THE_END: &[Rule] = &[
    Rule { words: "every delivery has ended", check: ending::every_delivery_has_ended },
    Rule { words: "after healing, every delivery ends within its schedule's time", check: ending::deliveries_end_in_time },
    Rule { words: "every push was processed", check: received::every_push_was_processed },
    Rule { words: "a metric says what was pushed last, and there is one", check: received::a_metric_says_what_was_pushed_last },
    Rule { words: "every job has ended as its app said", check: called::every_job_has_ended_as_its_app_said },
    Rule { words: "a job shows the progress that its app reported", check: handed_over::progress_is_what_the_app_reported },
    Rule {
        words: "every call that waits is decided once, and what is approved is one job",
        check: handed_over::every_approval_is_as_decided,
    },
    Rule { words: "every dead job is told once", check: called::every_dead_job_is_told_once },
    Rule {
        words: "every administrator has one mail of each notification",
        check: mailed::every_administrator_has_one_mail_of_each_notification,
    },
    Rule { words: "every mail was taken", check: mailed::every_mail_was_taken },
    Rule { words: "what counts as delivered was answered with a 2xx", check: ending::the_delivered_were_answered },
    Rule { words: "what is dead had no attempt left or was refused for good", check: ending::the_dead_had_a_reason },
    Rule { words: "every dead delivery has a dead letter", check: ending::the_dead_are_listed },
    Rule { words: "every death is told once", check: ending::every_death_is_told_once },
    Rule { words: "only what waited for a closed endpoint or was erased is cancelled", check: ending::the_cancelled_had_a_closed_endpoint },
    Rule { words: "the recorded attempts of a delivery are numbered without a gap", check: attempts::recorded_numbers_have_no_gap },
];

/// A rule that a run broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule, in words.
    pub rule: &'static str,
    /// What speaks against it.
    pub because: String,
}

/// Holds the rules against the evidence; the first that is broken is reported.
///
/// # Errors
/// The [`Violation`].
pub fn judge(rules: &[Rule], evidence: &Evidence<'_>) -> Result<(), Violation> {
    for rule in rules {
        (rule.check)(evidence).map_err(|because| Violation { rule: rule.words, because })?;
    }
    Ok(())
}

/// What is known of an endpoint from its making.
#[derive(Clone, Debug)]
pub struct EndpointFacts {
    /// Its identity.
    pub id: EndpointId,
    /// Its organization.
    pub organization: OrganizationId,
    /// The same, by its number.
    pub tenant: TenantNo,
    /// Its application.
    pub application: ApplicationId,
    /// Which events it wants.
    pub patterns: Vec<EventTypePattern>,
    /// Its schedule, which the run never changes.
    pub schedule: RetrySchedule,
    /// Its breaker's numbers, which the run never changes.
    pub breaker: BreakerConfig,
}

/// Where a delivery stands in an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Those of one endpoint that have the same go one after the other.
    pub key: String,
    /// In the order of this.
    pub position: i64,
}

/// A job, as whoever asks for it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredJob {
    /// Its status.
    pub status: JobStatus,
    /// Its result.
    pub result: Option<u64>,
    /// How far its app says that it is.
    pub progress: Option<u8>,
}

/// A call about which a person decides, as whoever asks for it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredApproval {
    /// What was decided.
    pub decision: Option<Decision>,
    /// The job that it became.
    pub job: Option<EventId>,
}

/// What the store holds.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Every event.
    pub events: BTreeMap<EventId, EventSummary>,
    /// Every delivery to an endpoint.
    pub deliveries: Vec<Delivery>,
    /// Every delivery to a processor.
    pub processed: Vec<Delivery>,
    /// Every delivery to an app.
    pub asked: Vec<Delivery>,
    /// Every delivery to an administrator.
    pub told: Vec<Delivery>,
    /// How many administrators are told of the events of an application that tells alerts.
    pub administrators: BTreeMap<ApplicationId, usize>,
    /// What became of jobs, read only at the end.
    pub jobs: BTreeMap<EventId, StoredJob>,
    /// What became of calls that wait for a person, read only at the end.
    pub approvals: BTreeMap<ApprovalId, StoredApproval>,
    /// What the processor made of what was pushed, read only at the end.
    pub summaries: Vec<Summary>,
    /// The dead letters' ids.
    pub dead_letters: BTreeSet<DeliveryId>,
    /// The places of those that have an order.
    pub places: BTreeMap<DeliveryId, Place>,
    /// When breakers were not closed.
    pub open_periods: Vec<(EndpointId, OpenPeriod)>,
    /// The numbers of the attempts that were recorded, read only at the end.
    pub attempts: BTreeMap<DeliveryId, Vec<u32>>,
}

/// What the oracle judges by.
pub struct Evidence<'a> {
    /// What happened.
    pub entries: &'a [Entry],
    /// The endpoints, by their number.
    pub endpoints: &'a [EndpointFacts],
    /// The applications that tell alerts.
    pub operational: &'a BTreeSet<ApplicationId>,
    /// What the store holds.
    pub stored: &'a Stored,
    /// When each delivery that waited at the healing must have ended.
    pub due_ends: &'a BTreeMap<DeliveryId, Timestamp>,
    requests: Vec<Requested<'a>>,
    /// When nothing could be written, in lived time.
    full: Vec<(Duration, Duration)>,
    by_delivery: BTreeMap<DeliveryId, Vec<usize>>,
    /// For each line, the latest time that the clock had shown until then.
    shown: Vec<Timestamp>,
    /// For each line, how often the process had gone away until then.
    lives: Vec<u32>,
}

/// A request with its two lines of the log.
#[derive(Clone, Copy)]
struct Requested<'a> {
    request: &'a Request,
    begun: usize,
    end: Option<(usize, Reply)>,
}

/// What an [`Evidence`] is made of.
pub struct Facts<'a> {
    /// See [`Evidence::endpoints`].
    pub endpoints: &'a [EndpointFacts],
    /// See [`Evidence::operational`].
    pub operational: &'a BTreeSet<ApplicationId>,
    /// See [`Evidence::stored`].
    pub stored: &'a Stored,
    /// See [`Evidence::due_ends`].
    pub due_ends: &'a BTreeMap<DeliveryId, Timestamp>,
}

impl<'a> Evidence<'a> {
    /// Sorts the log by request and delivery.
    pub fn new(entries: &'a [Entry], facts: Facts<'a>) -> Self {
        let mut requests: Vec<Requested<'a>> = Vec::new();
        let mut by_delivery: BTreeMap<DeliveryId, Vec<usize>> = BTreeMap::new();
        let mut full = Vec::new();
        let (mut shown, mut lives) = (Vec::with_capacity(entries.len()), Vec::with_capacity(entries.len()));
        for (line, entry) in entries.iter().enumerate() {
            let before_move = if let Happening::ClockMoved(by) = entry.what { entry.at.as_micros() - by } else { entry.at.as_micros() };
            let latest = entry.at.max(Timestamp::from_micros(before_move));
            shown.push(shown.last().copied().unwrap_or(latest).max(latest));
            lives.push(lives.last().copied().unwrap_or(0) + u32::from(entry.what.is_interruption()));
            match &entry.what {
                Happening::RequestBegan(request) => {
                    by_delivery.entry(request.delivery).or_default().push(requests.len());
                    requests.push(Requested { request, begun: line, end: None });
                }
                // Requests are numbered as they begin.
                Happening::RequestEnded(number, _, reply) => requests[number.0].end = Some((line, *reply)),
                Happening::DiskFilled => full.push((entry.lived, Duration::MAX)),
                Happening::DiskFreed => full.iter_mut().last().into_iter().for_each(|(_, until)| *until = entry.lived),
                _ => {}
            }
        }
        let Facts { endpoints, operational, stored, due_ends } = facts;
        Self { entries, endpoints, operational, stored, due_ends, requests, full, by_delivery, shown, lives }
    }

    fn facts(&self, endpoint: EndpointNo) -> &EndpointFacts {
        &self.endpoints[endpoint.0]
    }

    fn number_of(&self, id: EndpointId) -> Option<EndpointNo> {
        self.endpoints.iter().position(|facts| facts.id == id).map(EndpointNo)
    }

    /// The organization whose limits a request to this endpoint counts for. Everhook's own events are exempt.
    fn counted_tenant(&self, endpoint: EndpointNo) -> Option<usize> {
        let facts = self.facts(endpoint);
        (!self.operational.contains(&facts.application)).then_some(facts.tenant.0)
    }

    fn stored(&self, delivery: DeliveryId) -> Option<&Delivery> {
        self.stored.deliveries.iter().find(|row| row.id == delivery)
    }

    /// The requests of each delivery, in order.
    fn by_delivery(&self) -> impl Iterator<Item = Vec<Requested<'a>>> {
        self.by_delivery.values().map(|numbers| numbers.iter().map(|number| self.requests[*number]).collect())
    }

    /// When, in lived time, the outcome of a request that ended at `ended` is on disk, if nothing happens to the process.
    fn written_by(&self, ended: Duration) -> Duration {
        let later = |by: Duration, (from, until): &(Duration, Duration)| {
            if *from <= by && ended <= *until { until.saturating_add(SETTLED_WITHIN) } else { by }
        };
        self.full.iter().fold(ended + SETTLED_WITHIN, later)
    }

    /// Whether the outcome of a request may be lost: the process went away while the request was under way, or just after.
    fn may_be_unwritten(&self, requested: &Requested<'_>) -> bool {
        match requested.end {
            Some((_, Reply::Abandoned)) => true,
            end => self.may_be_lost(requested.begun, end.map(|(ended, _)| ended)),
        }
    }

    /// The same of anything that went out at one line and came to its end at another, if it did.
    fn may_be_lost(&self, begun: usize, ended: Option<usize>) -> bool {
        let Some(ended) = ended else { return true };
        let written_by = self.written_by(self.entries[ended].lived);
        let after = self.entries[begun..].iter().take_while(|entry| entry.lived <= written_by);
        after.into_iter().any(|entry| entry.what.is_interruption())
    }
}
