//! Every error of the core as a problem, by an explicit conversion.

use std::error::Error;

use everhook_core::{
    line::{
        publish::PublishError,
        recall::{NotResendable, RecallError},
    },
    manage::{Conflict, Fault, Refusal, endpoints::TrialError, finding::SearchError},
    policy::{
        schema::Violation,
        work::{FILTER_UNITS_MAX, REQUEST_UNITS_MAX, SCHEMA_UNITS_MAX},
    },
    ports::{KeyReused, StoreError},
    spool::publishers::LookUpError,
};

use super::{ApiError, ProblemKind};
use crate::memory::NoRoom;

impl ApiError {
    /// 422: the idempotency key belongs to another event.
    fn key_reused(KeyReused { original, is_erased }: KeyReused) -> Self {
        let detail = if is_erased {
            format!("the idempotency key was used for the event {original}, whose data was erased: use another key")
        } else {
            format!("the idempotency key was used for the event {original}, which has another type or other data: use another key")
        };
        Self::new(ProblemKind::IdempotencyKeyReused, detail)
    }

    /// 422: the application that an event is for does not exist.
    pub fn unknown_application() -> Self {
        let fault = Fault::new("application_id", "is not an application of this organization");
        Self::new(ProblemKind::UnknownApplication, "`application_id` names no application of this organization").with_errors(vec![fault])
    }

    /// 422: one field is invalid, with a problem type of its own.
    fn of_field(kind: ProblemKind, detail: &str, fault: Fault) -> Self {
        Self::new(kind, detail).with_errors(vec![fault])
    }

    /// 503: schemas, filters and searches that take long are evaluated a few at a time, and this one would have waited for too long.
    pub fn evaluation_busy() -> Self {
        let words = "expensive schemas, filters or searches of this organization, or of others, are being evaluated: try again";
        Self::new(ProblemKind::EvaluationBusy, words)
    }

    /// 503: answers that their clients do not read hold the memory for large ones.
    pub fn unread_answers(no_room: NoRoom) -> Self {
        let words = match no_room {
            NoRoom::Organization => {
                "unread responses to this organization have reached the memory limit of one organization: read them first, or request fewer rows at a time"
            }
            NoRoom::Total => "unread responses have reached the memory limit: try again, or request fewer rows at a time",
        };
        Self::unavailable(words)
    }

    /// A question about a publisher that was not answered: 503 if the store is away and this node does not know the answer.
    pub fn of_look_up(noun: &str, error: LookUpError) -> Self {
        match error {
            LookUpError::Store(error) => error.into(),
            LookUpError::NotKnown(error) => Self::not_known(noun, &error),
        }
    }

    /// 503: the store is away, and this node has not read of it before.
    fn not_known(noun: &str, error: &StoreError) -> Self {
        tracing::warn!(
            error = error as &dyn Error,
            "refused a publish: the store is unavailable, and this node does not know its {noun} yet"
        );
        let words = format!("the database is unavailable, and this node does not know this {noun} yet: try again");
        Self::unavailable(words)
    }
}

impl From<NoRoom> for ApiError {
    fn from(no_room: NoRoom) -> Self {
        let words = match no_room {
            NoRoom::Organization => {
                "the requests of this organization in progress have reached the memory limit of one organization: try again"
            }
            NoRoom::Total => "the requests in progress have reached the memory limit: try again",
        };
        Self::unavailable(words)
    }
}

impl From<SearchError> for ApiError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Store(error) => error.into(),
            SearchError::Busy(_) => Self::evaluation_busy(),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            // The watcher of the disk logs it, once.
            error if error.full_disk().is_some() => {
                tracing::debug!(error = &error as &dyn Error, "refused a request: a disk is full");
                Self::new(ProblemKind::DiskFull, format!("{}: try again later", error.in_words()))
            }
            StoreError::Unavailable(_) | StoreError::Conflict => {
                tracing::warn!(error = &error as &dyn Error, "refused a request: the store is unavailable");
                Self::unavailable("the store is unavailable: try again")
            }
            StoreError::Corrupt(_) => {
                tracing::error!(error = &error as &dyn Error, "the store contains invalid data");
                Self::internal()
            }
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(faults) => Self::invalid(faults),
            Refusal::NotFound(noun) => Self::not_found(&noun.to_string()),
            Refusal::Forbidden(words) => Self::new(ProblemKind::InsufficientScope, words),
            Refusal::Conflict(conflict, words) => Self::new(conflict.into(), words),
            Refusal::VerificationFailed(fault) => {
                Self::of_field(ProblemKind::UrlVerificationFailed, "the URL could not be verified", fault)
            }
            Refusal::OnDemand(refusal) => Self::too_many(ProblemKind::TestRateLimit, refusal.to_string(), refusal.retry_after()),
            Refusal::Busy => Self::evaluation_busy(),
            Refusal::Store(error) => error.into(),
        }
    }
}

impl From<PublishError> for ApiError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::NoSuchApplication => Self::unknown_application(),
            PublishError::TooMany { retry_after } => Self::too_many(
                ProblemKind::EventRateLimit,
                "the organization has reached its limit `events_per_minute`: try again later",
                retry_after,
            ),
            PublishError::UnknownType(_) => {
                let fault =
                    Fault::new("type", "is not defined, and the application accepts only defined types: define it, or publish another");
                Self::of_field(ProblemKind::UnknownEventType, "the event type is not defined", fault)
            }
            PublishError::ArchivedType(_) => {
                let fault = Fault::new("type", "is archived: publish another, or set its `archived` to false");
                Self::of_field(ProblemKind::ArchivedEventType, "the event type is archived", fault)
            }
            PublishError::SchemaMismatch(Violation { path, reason }) => {
                let fault = Fault::new(format!("data{path}"), reason);
                Self::of_field(ProblemKind::SchemaMismatch, "`data` does not match the schema of its event type", fault)
            }
            PublishError::KeyReused(reused) => Self::key_reused(reused),
            PublishError::Operational => {
                let detail = "the application `operational` is reserved for Everhook's own events: publish to another application";
                Self::new(ProblemKind::OperationalApplication, detail)
            }
            PublishError::SchemaTooCostly => Self::new(
                ProblemKind::SchemaTooCostly,
                format!(
                    "validating `data` against the schema of its type exceeds the limit of {SCHEMA_UNITS_MAX} units of work per event: publish less data, or use fewer alternatives and patterns in the schema"
                ),
            ),
            PublishError::FilterTooCostly { endpoint } => Self::new(
                ProblemKind::FilterTooCostly,
                format!(
                    "evaluating the filters of the application's endpoints exceeds the limit of {FILTER_UNITS_MAX} units of work per event, at the filter of the endpoint {endpoint}: publish less data, or use fewer conditions on large values"
                ),
            ),
            PublishError::RequestTooCostly => Self::new(
                ProblemKind::RequestTooCostly,
                format!(
                    "schemas and filters of the preceding events have used up the limit of {REQUEST_UNITS_MAX} units of work per request: publish this event again in a smaller batch"
                ),
            ),
            PublishError::EvaluationBusy => Self::evaluation_busy(),
            PublishError::SourceBacklogFull => {
                Self::new(ProblemKind::SourceBacklogFull, format!("{error}: connect their users, or cancel them"))
            }
            PublishError::Store(error) => error.into(),
            PublishError::SpoolFull => {
                tracing::warn!("refused a publish: the spool is full");
                Self::unavailable("the database is unavailable and the spool is full: try again")
            }
            PublishError::NotKnown(error) => Self::not_known("application", &error),
        }
    }
}

impl From<TrialError> for ApiError {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Refused(refusal) => refusal.into(),
            TrialError::Publish(error) => error.into(),
        }
    }
}

impl From<RecallError> for ApiError {
    fn from(error: RecallError) -> Self {
        match error {
            RecallError::NotFound(noun) => Self::not_found(noun),
            RecallError::Unknown(ids) => {
                let fault = |id| Fault::new("delivery_ids", format!("{id} is not a delivery of this endpoint"));
                Self::invalid(ids.iter().map(fault).collect())
            }
            RecallError::NotDead(_) => Self::new(ProblemKind::DeadLetterNotDead, error.to_string()),
            RecallError::Refused(why) => Self::new(why.into(), error.to_string()),
            RecallError::NoneFailed => Self::new(ProblemKind::NoFailedDeliveries, error.to_string()),
            RecallError::TooMany(_) => Self::new(ProblemKind::TooManyDeliveries, error.to_string()),
            RecallError::TooOften(wait) => {
                Self::too_many(ProblemKind::RetryRateLimit, "too many manual retries: wait, or use an operation", wait)
            }
            RecallError::Store(error) => error.into(),
        }
    }
}

impl From<NotResendable> for ProblemKind {
    fn from(why: NotResendable) -> Self {
        match why {
            NotResendable::Open => Self::DeliveryOpen,
            NotResendable::EndpointClosed => Self::EndpointDisabled,
            NotResendable::EventGone => Self::EventRemoved,
            NotResendable::Erased => Self::EventErased,
            NotResendable::Held => Self::DeliveryHeld,
            NotResendable::Parked => Self::DeliveryParked,
            NotResendable::JustEnded => Self::DeliveryEnded,
        }
    }
}

impl From<Conflict> for ProblemKind {
    fn from(conflict: Conflict) -> Self {
        match conflict {
            Conflict::UidTaken => Self::UidTaken,
            Conflict::NameTaken => Self::NameTaken,
            Conflict::ConcurrentChange => Self::ConcurrentChange,
            Conflict::LimitReached => Self::LimitReached,
            Conflict::ApplicationTooLarge => Self::ApplicationTooLarge,
            Conflict::BuiltIn => Self::BuiltIn,
            Conflict::RetryScheduleInUse => Self::RetryScheduleInUse,
            Conflict::RotationInProgress => Self::RotationInProgress,
            Conflict::OrderingChangeInProgress => Self::OrderingChangeInProgress,
            Conflict::NoHandshakeKey => Self::NoHandshakeKey,
            Conflict::EndpointDisabled => Self::EndpointDisabled,
            Conflict::DeadLetterNotDead => Self::DeadLetterNotDead,
            Conflict::OperationEnded => Self::OperationEnded,
            Conflict::OperationRequired => Self::OperationRequired,
            Conflict::TooManyOperations => Self::TooManyOperations,
            Conflict::DeliveryEnded => Self::DeliveryEnded,
            Conflict::AttemptUnderWay => Self::AttemptUnderWay,
            Conflict::ApprovalDecided => Self::ApprovalDecided,
            Conflict::AppNotCallable => Self::AppNotCallable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_conflict_has_a_type_of_its_own() {
        #[rustfmt::skip]
        let table = [
            (ProblemKind::from(Conflict::UidTaken), "uid-taken"),
            (Conflict::NameTaken.into(), "name-taken"),
            (Conflict::ConcurrentChange.into(), "concurrent-change"),
            (Conflict::LimitReached.into(), "limit-reached"),
            (Conflict::ApplicationTooLarge.into(), "application-too-large"),
            (Conflict::BuiltIn.into(), "built-in"),
            (Conflict::RetryScheduleInUse.into(), "retry-schedule-in-use"),
            (Conflict::OrderingChangeInProgress.into(), "ordering-change-in-progress"),
            (Conflict::EndpointDisabled.into(), "endpoint-disabled"),
            (Conflict::DeadLetterNotDead.into(), "dead-letter-not-dead"),
            (Conflict::OperationEnded.into(), "operation-ended"),
            (Conflict::OperationRequired.into(), "operation-required"),
            (Conflict::DeliveryEnded.into(), "delivery-ended"),
            (Conflict::AttemptUnderWay.into(), "attempt-under-way"),
            (NotResendable::Open.into(), "delivery-open"),
            (NotResendable::EndpointClosed.into(), "endpoint-disabled"),
            (NotResendable::EventGone.into(), "event-removed"),
            (NotResendable::Erased.into(), "event-erased"),
            (NotResendable::Held.into(), "delivery-held"),
            (NotResendable::Parked.into(), "delivery-parked"),
            (NotResendable::JustEnded.into(), "delivery-ended"),
            (ApiError::from(RecallError::TooMany(1_001)).kind, "too-many-deliveries"),
        ];
        for (kind, code) in table {
            assert_eq!((kind.code(), kind.status()), (code, http::StatusCode::CONFLICT));
        }
    }
}
