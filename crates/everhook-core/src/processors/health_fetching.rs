//! The part of the health processor that asks providers: activities, pings, and whether what a push says about a user is true.

use serde_json::json;

use super::{
    health::{HealthProcessor, Task, done, failed, refused},
    provider_access::{Answer, Question, Unanswered},
};
use crate::{
    health::{self, Effect, GarminType, Mapped, Unmappable},
    model::{
        AfterExpiry, Expiry, FailureCategory, Parking, Sent, WaitsFor,
        health::{Permissions, Provider, RecordId},
    },
    ports::{RecordOf, StoreError},
    providers::{NoAnswer, NotRefreshed},
    time::Timestamp,
};

/// Whether what a push says about a user is true.
pub(super) enum Confirmed {
    /// The provider says the same, or cannot be asked because no token is stored.
    Yes,
    /// The provider says otherwise.
    No,
    /// Not known yet.
    NotYet(Sent),
}

impl HealthProcessor {
    /// Fetches an activity and writes it, unless the athlete does not share activities. One that is not there for us any more loses its metric.
    pub(super) async fn fetch_activity(&self, task: Task<'_>, id: RecordId) -> Result<Sent, StoreError> {
        if !any_allows(&task, Permissions::reads_strava_activities) {
            return Ok(not_allowed(&task));
        }
        let body = match self.access.ask(&task.user, &task.connected, Question::Activity(&id)).await {
            Ok(Answer::Body(body)) => body,
            Err(Unanswered::Provider(NoAnswer::NotFound)) => return self.delete_activity(&task, id).await,
            other => return unanswered(task.user.provider, other),
        };
        let mapped = health::map_activity(&body, &id, &task.user.external_user);
        self.write_fetched(task, mapped).await
    }

    /// Removes what was made of an activity.
    pub(super) async fn delete_activity(&self, task: &Task<'_>, record: RecordId) -> Result<Sent, StoreError> {
        let of = RecordOf { organization: task.user.organization, provider: task.user.provider, profiles: task.profiles(), record };
        let deleted = self.metrics.delete_record(of).await?;
        Ok(done(&task.report(json!({ "deleted": deleted }))))
    }

    /// Fetches the data of a ping and writes it, unless the user does not allow that any more.
    pub(super) async fn fetch_ping(&self, task: Task<'_>, data: GarminType, callback_url: &str) -> Result<Sent, StoreError> {
        if !may_fetch(&task, data) {
            return Ok(not_allowed(&task));
        }
        let body = match self.access.ask(&task.user, &task.connected, Question::Ping { data, callback_url }).await {
            Ok(Answer::Body(body)) => body,
            Err(Unanswered::Provider(NoAnswer::Blocked(fault))) => return Ok(refused(fault.to_string())),
            other => return unanswered(task.user.provider, other),
        };
        let mapped = health::map_fetched(data, &body, &task.user.external_user);
        self.write_fetched(task, mapped).await
    }

    async fn write_fetched(&self, mut task: Task<'_>, mapped: Result<Mapped, Unmappable>) -> Result<Sent, StoreError> {
        match mapped {
            Ok(Mapped { effect: Effect::Metrics(drafts), missing }) if !drafts.is_empty() => {
                task.missing.extend(missing);
                self.write(&task, drafts).await
            }
            Ok(_) => Ok(done(&task.report(json!({ "note": "the provider has no data for this" })))),
            Err(Unmappable::SomebodyElses) => Ok(refused(Unmappable::SomebodyElses.to_string())),
            // An answer may be malformed because the provider has trouble.
            Err(unmappable) => Ok(failed(&unmappable.to_string())),
        }
    }

    /// Asks whether a user withdrew, as an unsigned push says.
    pub(super) async fn confirm_withdrawal(&self, task: &Task<'_>) -> Result<Confirmed, StoreError> {
        let question = match task.user.provider {
            Provider::Garmin if !self.access.confirms_garmin() => return Ok(Confirmed::Yes),
            Provider::Garmin => Question::Permissions,
            Provider::Strava => Question::Athlete,
        };
        match self.access.ask(&task.user, &task.connected, question).await {
            Ok(_) => Ok(Confirmed::No),
            Err(Unanswered::NoToken | Unanswered::NotRefreshed(NotRefreshed::Refused)) => Ok(Confirmed::Yes),
            Err(Unanswered::Provider(NoAnswer::Unauthorized | NoAnswer::Forbidden)) => Ok(Confirmed::Yes),
            other => unanswered(task.user.provider, other).map(Confirmed::NotYet),
        }
    }

    /// What a user allows: what Garmin says when it is asked, else what the push says.
    pub(super) async fn confirm_permissions(
        &self,
        task: &Task<'_>,
        pushed: Option<Permissions>,
    ) -> Result<Result<Option<Permissions>, Sent>, StoreError> {
        if !self.access.confirms_garmin() {
            return Ok(Ok(pushed));
        }
        match self.access.ask(&task.user, &task.connected, Question::Permissions).await {
            Ok(Answer::Permissions(permissions)) => Ok(Ok(Some(permissions))),
            Err(Unanswered::NoToken) => Ok(Ok(pushed)),
            other => unanswered(task.user.provider, other).map(Err),
        }
    }
}

/// What the user switched off is not fetched. Where nobody said what is on, everything is.
fn may_fetch(task: &Task<'_>, data: GarminType) -> bool {
    let names: &[&str] = match data {
        GarminType::Activities | GarminType::ManuallyUpdatedActivities => &[Permissions::ACTIVITY_EXPORT],
        _ => &[Permissions::HEALTH_EXPORT, Permissions::WELLNESS_EXPORT],
    };
    any_allows(task, |permissions| names.iter().any(|name| permissions.has(name)))
}

/// Whether a connection of the user allows something, or nobody said what any of them allows.
fn any_allows(task: &Task<'_>, allows: impl FnMut(&Permissions) -> bool) -> bool {
    let mut known = task.connected.iter().filter_map(|connection| connection.permissions.as_ref()).peekable();
    known.peek().is_none() || known.any(allows)
}

fn not_allowed(task: &Task<'_>) -> Sent {
    done(&task.report(json!({ "note": "not fetched: the user's permissions do not include this data" })))
}

/// What came of asking in vain, as an attempt shows it.
fn unanswered(provider: Provider, answered: Result<Answer, Unanswered>) -> Result<Sent, StoreError> {
    match answered {
        Ok(_) => Ok(failed("the provider answered something else")),
        Err(Unanswered::Store(error)) => Err(error),
        Err(Unanswered::Limited { until }) => Ok(limited(provider, until)),
        Err(Unanswered::BeingRefreshed) => Ok(failed(&Unanswered::BeingRefreshed.to_string())),
        Err(Unanswered::Provider(NoAnswer::OutOfResources { error })) => Ok(Sent::OutOfResources { error }),
        Err(Unanswered::Provider(NoAnswer::Unavailable { category, error })) => Ok(Sent::Failed { category, error, response: None }),
        Err(other) => Ok(Sent::Failed { category: FailureCategory::ClientError, error: other.to_string(), response: None }),
    }
}

/// It waits until there is room, and its schedule does not count that. Others of the source that need no request go on.
fn limited(provider: Provider, until: Timestamp) -> Sent {
    let waits_for = WaitsFor::parse(&format!("limit:{}", provider.as_str())).expect("names of providers are short and plain");
    let expiry = Some(Expiry { at: until, then: AfterExpiry::TriesAgain });
    Sent::Parked { parking: Parking { waits_for, expiry }, response: None }
}
