//! Endpoints: made, changed, deleted; paused and resumed; their secrets rotated, their breakers overruled, their health examined; and tried out
//! with a sample event.
//!
//! A change is based on the row as it was read, and is made again on the newer row if somebody else was faster.

pub(in crate::manage) mod breaker;
mod checking;
mod flow;
mod health;
mod pause;
mod secret;
mod settings;
mod trial;
mod verification;

use url::Url;

pub use breaker::{BreakerOrder, command_breaker};
pub(super) use checking::checked;
pub use flow::{BreakerInput, RateInput, rule_name};
pub(super) use health::lane;
pub use health::{BACKLOG_COUNT_MAX, Health, HealthStatus, activity, health};
pub use pause::{pause, resume};
pub use secret::{Revealed, Rotation, key_kind, reveal, rotate_secret};
pub use settings::EndpointChange;
pub use trial::{TEST_EVENT_TYPE, TrialError, test};

use self::settings::Checked;
use super::{
    CHANGE_ROUNDS_MAX, Change, Conflict, Fault, Noun, Refusal, applications, audit, changed_at, no_such_application, refuse_faults,
    schedules::{self, Chosen},
};
use crate::{
    ids::{ApplicationId, EndpointId, OrganizationId, Ref, RevisionNumber, ScheduleVersion, Uid},
    line::Line,
    model::{
        ApplicationKind, AuditAction, AuditEntry, Author, BreakerConfig, ClockReset, DisabledReason, Endpoint, EndpointState, Ordering,
        PayloadStyle, Revision, SealedSecrets, Secret, SignatureStyle, Target,
    },
    policy::{
        audit::{Facts, changed, made, removed},
        labels::Labels,
        target::TargetRules,
    },
    ports::{APPLICATION_CONFIG_BYTES_MAX, Created, EndpointUpdated, StoreError},
    signing,
    time::Timestamp,
};

/// How many requests an endpoint takes at once, unless it says otherwise.
const CONCURRENCY_DEFAULT: u32 = 5;

/// An endpoint that somebody wants.
#[derive(Clone, Debug, Default)]
pub struct NewEndpoint {
    /// The application whose events it gets; the organization's default one if absent.
    pub application: Option<String>,
    /// Its secret; made if absent.
    pub secret: Option<Secret<String>>,
    /// What kind of secret to make: `hmac` or `ed25519`.
    pub signature_key: Option<String>,
    /// Everything that can also be changed later.
    pub settings: EndpointChange,
}

/// Makes an endpoint. Its secret is returned beside it, to be shown this once.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says what is taken.
pub async fn create(line: &Line, rules: &TargetRules, by: &Author, new: NewEndpoint) -> Result<(Endpoint, Secret<String>), Refusal> {
    let mut faults = Vec::new();
    for (field, given) in [("url", new.settings.url != Change::Keep), ("event_types", new.settings.event_types != Change::Keep)] {
        if !given {
            faults.push(Fault::new(field, "is required"));
        }
    }
    let checked = Checked::read(new.settings, BreakerConfig::window(), rules, &mut faults);
    let key = secret::choose(line, new.secret.as_ref(), new.signature_key.as_deref(), &mut faults);
    let application = find_application(line, by.organization, new.application, &mut faults).await?;
    let schedule = schedules::choose(line, by.organization, checked.retry.requested(), &mut faults).await?;
    let (Some(key), Some(application), Some(schedule), true) = (key, application, schedule, faults.is_empty()) else {
        return Err(Refusal::Invalid(faults));
    };

    let now = line.ports.clock.now();
    let id = EndpointId::from_uuid(line.ports.entropy.uuid(now));
    let secrets = SealedSecrets { current: line.ports.vault.seal(id.as_uuid(), key.text().expose().as_bytes()), previous: None };
    let mut endpoint = blank(id, by.organization, application, secrets, now);
    schedule.apply(&mut endpoint);
    checked.apply(&mut endpoint, now)?;
    if !signing::style_fits(endpoint.signature_style, &key) {
        return Err(Refusal::Invalid(vec![style_misfit()]));
    }
    if endpoint.verify_url {
        verification::verify(line, &endpoint).await?;
    }
    store(line, by, &endpoint).await?;
    announce(line, &endpoint);
    Ok((endpoint, key.text().clone()))
}

async fn store(line: &Line, by: &Author, endpoint: &Endpoint) -> Result<(), Refusal> {
    let note = made(&audit::of_endpoint(line, endpoint).await?);
    let entry = audit::entry(line, by, AuditAction::EndpointCreate, endpoint.id.as_uuid(), note);
    match line.ports.endpoints.create_endpoint(endpoint.clone(), entry).await? {
        Created::Created => Ok(()),
        Created::UidTaken | Created::NameTaken => Err(uid_taken(endpoint)),
        Created::NoSuchSchedule => Err(schedules::gone("retry_schedule")),
        Created::NoSuchApplication => Err(Refusal::Invalid(vec![no_such_application()])),
        Created::TooMany => {
            Err(Refusal::Conflict(Conflict::LimitReached, "the organization has reached its limit of endpoints".to_owned()))
        }
        Created::ConfigTooLarge => Err(config_too_large()),
    }
}

/// Changes the fields that are given of an endpoint that was [found](find), and leaves the others.
///
/// # Errors
/// [`Refusal`] lists what is wrong, or says what is taken, or that the endpoint was deleted meanwhile.
pub async fn change(line: &Line, rules: &TargetRules, by: &Author, found: Endpoint, asked: EndpointChange) -> Result<Endpoint, Refusal> {
    let mut faults = Vec::new();
    let checked = Checked::read(asked, found.breaker, rules, &mut faults);
    let schedule = match &checked.retry {
        Change::Keep => None,
        retry => schedules::choose(line, found.organization, retry.requested(), &mut faults).await?,
    };
    refuse_faults(faults)?;
    let mut candidate = found.clone();
    checked.clone().apply(&mut candidate, found.updated_at)?;
    let verified = verification::is_needed(&found, &candidate);
    if verified {
        verification::verify(line, &candidate).await?;
    }
    if checked.enables(&found) {
        // Before it is enabled: if that fails, nothing was sent meanwhile, and asking again does both again.
        breaker::reset(line, by, &found, clock_reset(&found)).await?;
    }
    let deed = EndpointAction { by, action: AuditAction::EndpointUpdate };
    update(line, deed, found, |endpoint, now| {
        let before = endpoint.clone();
        checked.clone().apply(endpoint, now)?;
        // Somebody else changed the URL or the setting while this one was asked: what it proved is not what would be stored.
        if verification::is_needed(&before, endpoint) && !(verified && endpoint.target == candidate.target) {
            return Err(Refusal::concurrent_change("endpoint"));
        }
        if let Some(schedule) = schedule {
            schedule.apply(endpoint);
        }
        let key = secret::open_current(line, endpoint)?;
        if signing::style_fits(endpoint.signature_style, &key) { Ok(()) } else { Err(Refusal::Invalid(vec![style_misfit()])) }
    })
    .await
}

/// Has an endpoint that was [found](find) follow another retry schedule.
pub(super) async fn follow(line: &Line, by: &Author, found: Endpoint, schedule: Chosen) -> Result<Endpoint, Refusal> {
    let followed = update(line, EndpointAction { by, action: AuditAction::EndpointUpdate }, found, |endpoint, _| {
        schedule.apply(endpoint);
        Ok(())
    });
    followed.await
}

/// Deletes an endpoint: nothing more is sent to it, and what waits is cancelled. The row stays for history.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has no such endpoint.
pub async fn delete(line: &Line, by: &Author, of: &Ref<EndpointId>) -> Result<(), Refusal> {
    let found = find(line, by.organization, of).await?;
    let deleted = update(line, EndpointAction { by, action: AuditAction::EndpointDelete }, found, |endpoint, now| {
        endpoint.state = EndpointState::Deleted { at: now };
        Ok(())
    });
    deleted.await.map(|_| ())
}

/// Finds an endpoint that is not deleted.
///
/// # Errors
/// [`Refusal::NotFound`] if the organization has none of this name.
pub async fn find(line: &Line, organization: OrganizationId, of: &Ref<EndpointId>) -> Result<Endpoint, Refusal> {
    let found = line.ports.endpoints.endpoint(organization, of).await?;
    let found = found.filter(|endpoint| !matches!(endpoint.state, EndpointState::Deleted { .. }));
    found.ok_or(Refusal::NotFound(Noun::Endpoint))
}

/// What is done to an endpoint, and by whom.
#[derive(Clone, Copy)]
struct EndpointAction<'a> {
    by: &'a Author,
    action: AuditAction,
}

impl EndpointAction<'_> {
    /// What the audit log gets.
    async fn entry(self, line: &Line, before: &Facts, after: &Endpoint) -> Result<AuditEntry, StoreError> {
        let note = match self.action {
            AuditAction::EndpointDelete => removed(before),
            _ => changed(before, &audit::of_endpoint(line, after).await?),
        };
        Ok(audit::entry(line, self.by, self.action, after.id.as_uuid(), note))
    }
}

/// Changes an endpoint as it was found and writes it back. If somebody else was faster, it is read again and the change made on the newer row.
async fn update(
    line: &Line,
    deed: EndpointAction<'_>,
    mut endpoint: Endpoint,
    mut edit: impl FnMut(&mut Endpoint, Timestamp) -> Result<(), Refusal>,
) -> Result<Endpoint, Refusal> {
    for _ in 0..CHANGE_ROUNDS_MAX {
        let (read, facts) = (endpoint.clone(), audit::of_endpoint(line, &endpoint).await?);
        let now = changed_at(line, read.updated_at);
        edit(&mut endpoint, now)?;
        endpoint.updated_at = now;
        endpoint.revision = Revision::number_after(&read, &endpoint);
        let entry = deed.entry(line, &facts, &endpoint).await?;
        // The order of headers is no fact of the log, but receivers can see it.
        if entry.note.says_nothing() && endpoint.headers == read.headers {
            return Ok(read);
        }
        match line.ports.endpoints.update_endpoint(endpoint.clone(), read.updated_at, entry).await? {
            EndpointUpdated::Updated => {
                announce(line, &endpoint);
                return Ok(endpoint);
            }
            EndpointUpdated::UidTaken => return Err(uid_taken(&endpoint)),
            EndpointUpdated::NoSuchSchedule => return Err(schedules::gone("retry_schedule")),
            EndpointUpdated::OrderSettles => {
                let why = "deliveries from before the last change of `ordering` are still open: try again when they have ended";
                return Err(Refusal::Conflict(Conflict::OrderingChangeInProgress, why.to_owned()));
            }
            EndpointUpdated::ConfigTooLarge => return Err(config_too_large()),
            EndpointUpdated::Changed => endpoint = find(line, endpoint.organization, &Ref::Id(endpoint.id)).await?,
        }
    }
    Err(Refusal::concurrent_change("endpoint"))
}

fn config_too_large() -> Refusal {
    let why = format!(
        "the endpoints of this application would have more than {} MiB of URLs, event types, labels, filters, headers and metadata together",
        APPLICATION_CONFIG_BYTES_MAX >> 20
    );
    Refusal::Conflict(Conflict::ApplicationTooLarge, why)
}

fn blank(id: EndpointId, organization: OrganizationId, application: ApplicationId, secrets: SealedSecrets, now: Timestamp) -> Endpoint {
    let url = Url::parse("https://unset.invalid/").expect("a constant URL parses");
    Endpoint {
        id,
        organization,
        application,
        uid: None,
        name: None,
        description: None,
        target: Target { written: url.to_string(), url },
        verify_url: false,
        event_types: Vec::new(),
        labels: Labels::new(),
        filter: None,
        secrets,
        signature_style: SignatureStyle::default(),
        payload_style: PayloadStyle::default(),
        headers: Vec::new(),
        revision: RevisionNumber::FIRST,
        metadata: None,
        retry_schedule: ScheduleVersion(0),
        follows: None,
        timeout: None,
        timeout_growth_factor: 1.0,
        max_concurrency: CONCURRENCY_DEFAULT,
        ordering: Ordering::default(),
        rate_limit: None,
        breaker: BreakerConfig::window(),
        drain: None,
        paused_at: None,
        state: EndpointState::Enabled,
        created_at: now,
        updated_at: now,
    }
}

async fn find_application(
    line: &Line,
    organization: OrganizationId,
    named: Option<String>,
    faults: &mut Vec<Fault>,
) -> Result<Option<ApplicationId>, StoreError> {
    let found = match named {
        None => line.ports.applications.built_in_application(organization, ApplicationKind::Default).await?,
        Some(name) => applications::find_named(line, organization, &name).await?,
    };
    if found.is_none() {
        faults.push(no_such_application());
    }
    Ok(found.map(|application| application.id))
}

fn announce(line: &Line, endpoint: &Endpoint) {
    line.catalog.forget(endpoint.application);
    line.wake_up.changed(endpoint.application, endpoint.id.into());
}

fn style_misfit() -> Fault {
    Fault::new("signature_style", "`sha256` and `hex` need an HMAC secret; with an ed25519 key use `timestamped`")
}

fn uid_taken(endpoint: &Endpoint) -> Refusal {
    Refusal::uid_taken(endpoint.uid.as_ref().map_or("", Uid::as_str))
}

/// An owner who was notified of failures is notified of the recovery.
fn clock_reset(found: &Endpoint) -> ClockReset {
    match found.state {
        EndpointState::Disabled { reason: DisabledReason::Gone | DisabledReason::Failing, .. } => ClockReset::AfterTrouble,
        _ => ClockReset::ByOwner,
    }
}

/// Enables or disables; an endpoint that is disabled already keeps the reason and the instant.
fn switch(state: &mut EndpointState, enabled: bool, now: Timestamp) {
    match (*state, enabled) {
        (EndpointState::Disabled { .. }, true) => *state = EndpointState::Enabled,
        (EndpointState::Enabled, false) => *state = EndpointState::Disabled { at: now, reason: DisabledReason::ByOwner },
        _ => {}
    }
}
