//! Whether a lane lets a request start now: its breaker, its buckets, its pause, what the endpoint asked for, and what we lack ourselves. Pure.
//!
//! Each keeps its own "until"; what the lane does follows from the latest of them.

use crate::{
    ids::EventId,
    model::{BreakerState, KeptBreaker, KeptStage, KeptWindow, LanePolicy},
    policy::{
        breaker::{Admission, Breaker, CallOutcome, Pass, Transition},
        bucket::Bucket,
    },
    time::Timestamp,
};

/// What lets requests through, or does not.
pub(super) struct Gate {
    breaker: Breaker,
    /// The endpoint's own limit.
    bucket: Option<Bucket>,
    /// The rate at which what gathered during a pause is sent.
    drain: Option<Bucket>,
    /// Since when it is sent.
    drains_since: Timestamp,
    paused: bool,
    /// The endpoint asked to be left alone until then.
    held_until: Option<Timestamp>,
    /// A request could not be made for want of something on our side: another is tried then. The endpoint did not ask for it, and that is not reported.
    backs_off_until: Option<Timestamp>,
}

/// Whether something may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Now.
    Open,
    /// A little later: the rate is used up until then.
    Paced(Timestamp),
    /// Not before one of the requests under way has ended: as many as a breaker that is being tried out takes.
    Full,
    /// Not for a while: until the instant, or until somebody changes it.
    Shut(Option<Timestamp>),
}

impl Gate {
    /// A gate for an endpoint whose breaker was kept as given, if it was.
    pub(super) fn new(policy: &LanePolicy, kept: Option<&KeptBreaker>, now: Timestamp) -> Self {
        let breaker = match kept {
            Some(kept) => Breaker::restore(*kept, policy.breaker, now),
            None => Breaker::new(policy.breaker, now),
        };
        Self {
            breaker,
            bucket: policy.rate_limit.map(|limit| Bucket::new(limit, now)),
            drain: policy.drain.map(|limit| Bucket::new(limit, now)),
            drains_since: now,
            paused: policy.paused,
            held_until: None,
            backs_off_until: None,
        }
    }

    /// The endpoint was changed. Says what its breaker did, if it did something.
    pub(super) fn adopt(&mut self, policy: &LanePolicy, now: Timestamp) -> Option<Transition> {
        self.paused = policy.paused;
        if self.drain.is_none() {
            self.drains_since = now;
        }
        for (bucket, limit) in [(&mut self.bucket, policy.rate_limit), (&mut self.drain, policy.drain)] {
            match (bucket.as_mut(), limit) {
                (Some(bucket), Some(limit)) => bucket.change(limit, now),
                (_, limit) => *bucket = limit.map(|limit| Bucket::new(limit, now)),
            }
        }
        self.breaker.reconfigure(policy.breaker, now)
    }

    /// Somebody else decided about the breaker. A reset also ends what the endpoint asked for; forcing it does not.
    pub(super) fn restore(&mut self, kept: &KeptBreaker, policy: &LanePolicy, now: Timestamp) {
        self.breaker = Breaker::restore(*kept, policy.breaker, now);
        if kept.stage == KeptStage::Closed {
            self.held_until = None;
        }
    }

    /// The breaker goes on with what the lane's former owner has counted.
    pub(super) fn resume_window(&mut self, window: &KeptWindow, not_before: Option<Timestamp>) {
        self.breaker.resume_window(window, not_before);
    }

    /// The breaker, to be looked at.
    pub(super) fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Whether something may start.
    pub(super) fn flow(&self, now: Timestamp) -> Flow {
        if self.paused {
            return Flow::Shut(None);
        }
        if let Some(until) = self.held_until(now).max(self.backs_off_until(now)) {
            return Flow::Shut(Some(until));
        }
        if !self.breaker.may_begin(now) {
            return match self.breaker.state(now) {
                BreakerState::HalfOpen => Flow::Full,
                BreakerState::Open | BreakerState::Closed => Flow::Shut(self.breaker.flows_from(now)),
            };
        }
        let buckets = [&self.bucket, &self.drain].into_iter().flatten();
        match buckets.map(|bucket| bucket.flows_from(now)).max() {
            Some(from) if from > now => Flow::Paced(from),
            _ => Flow::Open,
        }
    }

    /// A request of this event starts. The caller saw that the gate is open.
    pub(super) fn begin(&mut self, event: EventId, now: Timestamp) -> Option<Pass> {
        let Admission::Flows(pass) = self.breaker.begin(now, event) else { return None };
        for bucket in [&mut self.bucket, &mut self.drain].into_iter().flatten() {
            // The gate was seen open, so that there is a token.
            let _ = bucket.try_take(now);
        }
        Some(pass)
    }

    /// A request ended.
    pub(super) fn end(&mut self, pass: Pass, outcome: CallOutcome, now: Timestamp) -> Option<Transition> {
        self.breaker.end(pass, outcome, now)
    }

    /// A request that was begun was not made.
    pub(super) fn unmade(&mut self, pass: Pass, now: Timestamp) {
        self.breaker.end(pass, CallOutcome::Ignored, now);
        for bucket in [&mut self.bucket, &mut self.drain].into_iter().flatten() {
            bucket.give_back();
        }
    }

    /// Nothing more is under way or due: a breaker that is being tried out decides on what there was.
    pub(super) fn nothing_waits(&mut self, now: Timestamp) -> Option<Transition> {
        self.breaker.nothing_more_waits(now)
    }

    /// How many requests may be under way at once, of the endpoint's own limit: fewer while a breaker that has just closed lets it recover.
    pub(super) fn concurrency(&self, max: u32) -> u32 {
        self.breaker.concurrency_limit().map_or(max, |limit| limit.min(max))
    }

    /// The endpoint asked to be left alone until the instant, or answered well, which ends that. Of several requests the longest holds. Says whether
    /// it changed.
    pub(super) fn hold(&mut self, until: Option<Timestamp>) -> bool {
        let until = until.max(self.held_until.filter(|_| until.is_some()));
        std::mem::replace(&mut self.held_until, until) != until
    }

    /// Until when the endpoint asked to be left alone.
    pub(super) fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.held_until.filter(|until| *until > now)
    }

    /// A request could not be made for want of something on our side: nothing is tried until the instant.
    pub(super) fn back_off(&mut self, until: Timestamp) {
        self.backs_off_until = self.backs_off_until.max(Some(until));
    }

    fn backs_off_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.backs_off_until.filter(|until| *until > now)
    }

    /// Since when what gathered during a pause is being sent, if it is.
    pub(super) fn drains_since(&self) -> Option<Timestamp> {
        self.drain.as_ref().map(|_| self.drains_since)
    }

    /// What gathered during a pause was sent.
    pub(super) fn end_drain(&mut self) {
        self.drain = None;
    }

    /// Whether a new gate would do the same: nothing is lost if it is forgotten.
    pub(super) fn is_pristine(&self, now: Timestamp) -> bool {
        let is_full = |bucket: &Option<Bucket>| bucket.as_ref().is_none_or(|bucket| bucket.is_full(now));
        let is_held = self.held_until(now).is_some() || self.backs_off_until(now).is_some();
        self.breaker.is_pristine(now) && is_full(&self.bucket) && is_full(&self.drain) && !is_held
    }
}
