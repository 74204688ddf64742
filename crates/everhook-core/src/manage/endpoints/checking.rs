//! Checking an endpoint without writing it, for imports.

use std::collections::BTreeSet;

use super::{
    NewEndpoint,
    secret::{choose, key_kind, open_current},
    settings::Checked,
};
use crate::{
    ids::OrganizationId,
    line::Line,
    manage::{
        Change, Fault, Refusal, refuse_faults,
        schedules::{self, ScheduleChoice},
    },
    model::{BreakerConfig, Endpoint},
    policy::{json_text::is_same_option, target::TargetRules},
    ports::ScheduleRef,
};

/// Whether the endpoint that was found is already as asked; a new one never is. Schedules of these names will be there.
///
/// # Errors
/// [`Refusal::Invalid`] lists what is not acceptable.
pub(in crate::manage) async fn checked(
    line: &Line,
    rules: &TargetRules,
    organization: OrganizationId,
    asked: &NewEndpoint,
    found: Option<&Endpoint>,
    coming: &BTreeSet<String>,
) -> Result<bool, Refusal> {
    let mut faults = Vec::new();
    for (field, given) in [("url", asked.settings.url != Change::Keep), ("event_types", asked.settings.event_types != Change::Keep)] {
        if !given {
            faults.push(Fault::new(field, "is required"));
        }
    }
    let current = found.map_or(BreakerConfig::window(), |found| found.breaker);
    let checked = Checked::read(asked.settings.clone(), current, rules, &mut faults);
    match found {
        None => drop(choose(line, asked.secret.as_ref(), asked.signature_key.as_deref(), &mut faults)),
        Some(found) => check_key(line, asked, found, &mut faults)?,
    }
    let coming = match &checked.retry {
        Change::Set(ScheduleChoice::Schedule(ScheduleRef::Name(name), _)) => coming.get(name),
        _ => None,
    };
    let schedule = match &checked.retry {
        retry if *retry != Change::Keep && coming.is_none() => {
            schedules::choose(line, organization, retry.requested(), &mut faults).await?
        }
        _ => None,
    };
    refuse_faults(faults)?;
    let Some(found) = found else { return Ok(false) };
    // A schedule that the document brings is followed already if the endpoint's has its name: names are unique.
    let follows_it = match coming {
        Some(name) => line.catalog.schedule(organization, found.retry_schedule).await?.name.0 == *name,
        None => true,
    };
    let mut candidate = found.clone();
    checked.apply(&mut candidate, found.updated_at)?;
    if let Some(schedule) = schedule {
        schedule.apply(&mut candidate);
    }
    keep_format(&mut candidate, found);
    Ok(follows_it && candidate == *found)
}

/// JSON that was only written otherwise is no change.
fn keep_format(candidate: &mut Endpoint, found: &Endpoint) {
    for (text, kept) in [(&mut candidate.metadata, &found.metadata), (&mut candidate.filter, &found.filter)] {
        if is_same_option(text.as_deref(), kept.as_deref()) {
            text.clone_from(kept);
        }
    }
}

/// What signs is not changed by an import.
fn check_key(line: &Line, asked: &NewEndpoint, found: &Endpoint, faults: &mut Vec<Fault>) -> Result<(), Refusal> {
    if let Some(secret) = &asked.secret
        && open_current(line, found)?.text().expose() != secret.expose()
    {
        faults.push(Fault::new("secret", "differs from the endpoint's secret; use `POST …/secret/rotate` to change it"));
    }
    if asked.signature_key.as_deref().is_some_and(|kind| key_kind(line, found).is_ok_and(|known| known != kind)) {
        faults.push(Fault::new("signature_key", "differs from the endpoint's; rotate to a secret of the other kind to change it"));
    }
    Ok(())
}
