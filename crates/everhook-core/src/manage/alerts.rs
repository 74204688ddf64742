//! Alerts in a person's hand: silenced for a while, and no longer.

use std::time::Duration;

use serde_json::Value;

use super::{Fault, Noun, Refusal, audit};
use crate::{
    ids::{AlertStatusId, OrganizationId},
    line::Line,
    model::{AlertStatus, AuditAction, Author},
    policy::audit::{Facts, changed},
    time::Timestamp,
};

/// For how long an alert may be silenced. What should never be reported is disabled as a rule.
const SILENCE_MIN: Duration = Duration::from_secs(60);
const SILENCE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// An alert of an organization.
///
/// # Errors
/// [`Refusal::NotFound`] if there is none.
pub async fn find(line: &Line, organization: OrganizationId, id: AlertStatusId) -> Result<AlertStatus, Refusal> {
    line.ports.alerts.alert(organization, id).await?.ok_or(Refusal::NotFound(Noun::Alert))
}

/// Silences an alert: it is neither reported nor repeated for that long. Its end is reported, if its begin was.
///
/// # Errors
/// [`Refusal::Invalid`] if that is too short or too long; [`Refusal::NotFound`] if there is no such alert.
pub async fn silence(line: &Line, by: &Author, id: AlertStatusId, length: Duration) -> Result<AlertStatus, Refusal> {
    if !(SILENCE_MIN..=SILENCE_MAX).contains(&length) {
        return Err(Refusal::Invalid(vec![Fault::new("for", "must be from 1m to 30d")]));
    }
    let until = line.ports.clock.now() + length;
    set(line, by, id, AuditAction::AlertSilence, Some(until)).await
}

/// Lets an alert be reported again.
///
/// # Errors
/// [`Refusal::NotFound`] if there is no such alert.
pub async fn unsilence(line: &Line, by: &Author, id: AlertStatusId) -> Result<AlertStatus, Refusal> {
    set(line, by, id, AuditAction::AlertUnsilence, None).await
}

async fn set(line: &Line, by: &Author, id: AlertStatusId, action: AuditAction, until: Option<Timestamp>) -> Result<AlertStatus, Refusal> {
    let found = find(line, by.organization, id).await?;
    let facts = |until: Option<Timestamp>| {
        let until = until.map_or(Value::Null, |until| Value::from(until.to_string()));
        Facts::default().plain("silenced_until", until)
    };
    let note = changed(&facts(found.silenced_until), &facts(until));
    if note.says_nothing() {
        return Ok(found);
    }
    let entry = audit::entry(line, by, action, id.as_uuid(), note);
    if !line.ports.alerts.silence_alert(by.organization, id, until, entry).await? {
        return Err(Refusal::NotFound(Noun::Alert));
    }
    find(line, by.organization, id).await
}
