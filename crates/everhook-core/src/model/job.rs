//! Jobs: calls that an app is asked later, or answers later. A job is an event with one delivery to the lane of its capability; what is kept here is what
//! the app said about it, and who may say it.

use bytes::Bytes;

use crate::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OrganizationId, ScheduleVersion},
    model::RetrySchedule,
    time::Timestamp,
};

/// How many callback tokens of a job are good at once: one for each request that a delivery may make. The oldest is forgotten.
pub const JOB_TOKENS_MAX: usize = 10;

/// The SHA-256 of a callback token. The token itself is kept nowhere.
pub type TokenHash = [u8; 32];

/// What is kept of a job beside its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// The job: its event.
    pub id: EventId,
    /// The tenant.
    pub organization: OrganizationId,
    /// Whose capability it is for.
    pub application: ApplicationId,
    /// The capability's lane.
    pub lane_id: LaneId,
    /// The delivery that asks the app, or asked it last. Of a contract test, which has none, the id of the record.
    pub delivery: DeliveryId,
    /// Who may answer: hashes of the tokens that the app was given, the newest last.
    pub tokens: Vec<TokenHash>,
    /// What the app said.
    pub answer: Option<JobAnswer>,
    /// How far it said that it is, since it was last asked.
    pub progress: Option<JobProgress>,
    /// When the app was last asked.
    pub begun_at: Timestamp,
}

/// How far an app said that it is with a job. It ends nothing, and moves no deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProgress {
    /// In percent, up to 100.
    pub percent: u8,
    /// In the app's words.
    pub message: Option<String>,
    /// When it said so.
    pub at: Timestamp,
}

/// What an app said about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAnswer {
    /// What it means.
    pub outcome: JobOutcome,
    /// The result, or the error: a JSON text, sealed with the lane as its owner.
    pub data: Bytes,
    /// The SHA-256 of the result: repeating the same result gets the same response.
    pub hash: [u8; 32],
    /// When it came.
    pub at: Timestamp,
    /// The attempt that has found it, if one has: an answer that asks for another attempt holds for that one alone.
    pub found_by: Option<u32>,
}

/// What an app's answer means for its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// It is done.
    Completed,
    /// It failed, and asking again would not help.
    Failed,
    /// It failed, and the app asks to be asked again.
    Retry,
}

impl JobOutcome {
    const ALL: [Self; 3] = [Self::Completed, Self::Failed, Self::Retry];

    /// Its name in every store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Retry => "retry",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == name)
    }
}

/// An attempt at a job that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobAttempt {
    /// The job.
    pub job: EventId,
    /// The tenant.
    pub organization: OrganizationId,
    /// Whose capability it is for.
    pub application: ApplicationId,
    /// The capability's lane.
    pub lane_id: LaneId,
    /// The delivery.
    pub delivery: DeliveryId,
    /// Its attempt, from 1.
    pub number: u32,
    /// The token that its request carries.
    pub token: TokenHash,
    /// When.
    pub at: Timestamp,
}

impl JobRecord {
    /// Whether it is one of a contract test: no delivery asks the app, and it names itself instead of one.
    pub fn is_contract_test(&self) -> bool {
        self.delivery.as_uuid() == self.id.as_uuid()
    }

    /// What is kept once an attempt was begun. The answer that the attempt finds, if there is one that counts, is in it; then no request is made. An answer to another
    /// delivery does not count: the job is to be done again. An app that is asked again begins again.
    pub fn begin(before: Option<Self>, attempt: &JobAttempt) -> Self {
        let (mut tokens, answer, progress) = match before {
            Some(Self { tokens, answer, progress, delivery, .. }) => (tokens, answer.filter(|_| delivery == attempt.delivery), progress),
            None => (Vec::new(), None, None),
        };
        let answer = answer.and_then(|answer| answer.found(attempt.number));
        let progress = progress.filter(|_| answer.is_some());
        if answer.is_none() {
            tokens.push(attempt.token);
            let excess = tokens.len().saturating_sub(JOB_TOKENS_MAX);
            tokens.drain(..excess);
        }
        Self {
            id: attempt.job,
            organization: attempt.organization,
            application: attempt.application,
            lane_id: attempt.lane_id,
            delivery: attempt.delivery,
            tokens,
            answer,
            progress,
            begun_at: attempt.at,
        }
    }
}

impl JobAnswer {
    /// As an attempt finds it; `None` if it was another attempt's.
    fn found(self, by: u32) -> Option<Self> {
        match (self.outcome, self.found_by) {
            (JobOutcome::Retry, Some(other)) if other != by => None,
            _ => Some(Self { found_by: Some(by), ..self }),
        }
    }
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// The app is to be asked, for the first time or again.
    Queued,
    /// The app has it, and is expected to call back.
    Sent,
    /// It is done.
    Completed,
    /// The app said that it failed.
    Failed,
    /// It was given up: the app gave no valid answer. There is a dead letter.
    Dead,
    /// A person cancelled it, its event was erased, or its application was deleted.
    Cancelled,
}

impl JobStatus {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Queued, Self::Sent, Self::Completed, Self::Failed, Self::Dead, Self::Cancelled];

    /// Whether nothing more happens to it, unless a person brings it back.
    pub const fn has_ended(self) -> bool {
        match self {
            Self::Queued | Self::Sent => false,
            Self::Completed | Self::Failed | Self::Dead | Self::Cancelled => true,
        }
    }

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sent => "sent",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The lane of a capability, as publishing and sending go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapabilityLane {
    /// Its id.
    pub lane_id: LaneId,
    /// Whose capability.
    pub application: ApplicationId,
    /// The version of the retry schedule that new deliveries keep.
    pub retry_schedule: ScheduleVersion,
}

/// The lane of a capability, as a manifest asks for it; or the one in which the callers of an application's jobs are told.
#[derive(Clone, Debug, PartialEq)]
pub struct JobLane {
    /// Its id.
    pub lane_id: LaneId,
    /// How what is sent there is retried.
    pub schedule: RetrySchedule,
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn attempt(delivery: u128, number: u32) -> JobAttempt {
        JobAttempt {
            job: EventId::from_uuid(Uuid::from_u128(1)),
            organization: OrganizationId::from_uuid(Uuid::from_u128(2)),
            application: ApplicationId::from_uuid(Uuid::from_u128(3)),
            lane_id: LaneId::from_uuid(Uuid::from_u128(4)),
            delivery: DeliveryId::from_uuid(Uuid::from_u128(delivery)),
            number,
            token: [u8::try_from(number).unwrap(); 32],
            at: Timestamp::from_secs(i64::from(number)),
        }
    }

    fn answered(record: JobRecord, outcome: JobOutcome) -> JobRecord {
        let answer = JobAnswer { outcome, data: Bytes::new(), hash: [0; 32], at: Timestamp::EPOCH, found_by: None };
        JobRecord { answer: Some(answer), ..record }
    }

    #[test]
    fn an_answer_stands_for_its_delivery_and_one_that_asks_for_more_for_one_attempt() {
        use JobOutcome::{Completed, Failed, Retry};
        let begun = JobRecord::begin(None, &attempt(10, 1));
        assert_eq!((begun.tokens.len(), begun.answer.is_some()), (1, false));
        // outcome, found by attempts in this order → whether each finds it
        type Row<'a> = (JobOutcome, &'a [(u128, u32)], &'a [bool]);
        let table: [Row; 4] = [
            (Completed, &[(10, 2), (10, 3)], &[true, true]),
            (Failed, &[(10, 2), (11, 1), (11, 2)], &[true, false, false]),
            (Retry, &[(10, 2), (10, 2), (10, 3)], &[true, true, false]),
            (Retry, &[(11, 1)], &[false]),
        ];
        for (outcome, attempts, expected) in table {
            let mut record = answered(begun.clone(), outcome);
            let mut found = Vec::new();
            for (delivery, number) in attempts {
                record = JobRecord::begin(Some(record), &attempt(*delivery, *number));
                found.push(record.answer.is_some());
            }
            assert_eq!(found, expected, "{outcome:?}");
        }
    }

    #[test]
    fn progress_goes_when_the_app_is_asked_again_and_stays_beside_an_answer() {
        let progress = Some(JobProgress { percent: 40, message: None, at: Timestamp::EPOCH });
        let begun = JobRecord { progress: progress.clone(), ..JobRecord::begin(None, &attempt(10, 1)) };
        assert_eq!(JobRecord::begin(Some(begun.clone()), &attempt(10, 2)).progress, None);
        let done = answered(begun, JobOutcome::Completed);
        assert_eq!(JobRecord::begin(Some(done.clone()), &attempt(10, 2)).progress, progress);
        assert_eq!(JobRecord::begin(Some(done), &attempt(11, 1)).progress, None, "another delivery");
    }

    #[test]
    fn the_newest_tokens_are_good() {
        let record = (1..=12).fold(None, |record, number| Some(JobRecord::begin(record, &attempt(10, number)))).unwrap();
        assert_eq!(record.tokens.iter().map(|token| token[0]).collect::<Vec<_>>(), (3..=12).collect::<Vec<_>>());
    }
}
