//! Manifests: what applications answer when they are called. Put and shown; with them what signs the requests, and the breakers of capabilities.

mod breaker;
mod canary;
mod contract;
mod secret;

pub use self::{
    breaker::command_breaker,
    canary::withdraw_canary,
    contract::check_contract,
    secret::{reveal, rotate_secret},
};

use super::{CHANGE_ROUNDS_MAX, Conflict, Fault, Noun, Refusal, audit, owners};
use crate::{
    calls::{OpenApp, compile_schemas},
    ids::{ApplicationId, OrganizationId, Ref},
    limits::evaluations::EVALUATION_TIMEOUT,
    line::Line,
    model::{
        AppCheckPlan, Application, ApplicationKind, AttemptStatistics, AuditAction, Author, Capability, CapabilityName, CheckChange,
        FairDraw, JobLane, KeptManifest, Manifest, callback_lane,
    },
    policy::{
        audit::{Facts, changed, made},
        calls::{
            health,
            manifest::{self, ManifestFault},
        },
        presets,
        target::{self, TargetRules},
    },
    ports::{ManifestBounds, ManifestChange, ManifestPut, StoreError},
    time::Timestamp,
};

/// The largest manifest, as its JSON text.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// What the manifests of one organization may have together. Its lanes are read together whenever one of its applications is called or published to, and
/// the health checks of its apps take their turns among everybody's.
const BOUNDS: ManifestBounds = ManifestBounds { manifests: 2_000, bytes: 32 << 20, lanes: 10_000 };

/// Keeps a manifest for an application: all of it, in place of the one before.
///
/// # Errors
/// [`Refusal`] lists everything that is wrong with it, or says that there is no such application.
pub async fn put(
    line: &Line,
    by: &Author,
    of: &Ref<ApplicationId>,
    document: String,
    targets: &TargetRules,
) -> Result<KeptManifest, Refusal> {
    let mut application = find_application(line, by.organization, of).await?;
    if application.kind == ApplicationKind::Operational {
        return Err(Refusal::Invalid(vec![Fault::new("manifest", "the application `operational` cannot have a manifest")]));
    }
    let manifest = check(line, &application, &document, targets).await?;
    owners::check_count(line, by.organization, manifest.owner_email.as_ref()).await?;
    secret::ensure(line, by, application.id).await?;
    let lanes = lanes_of(line, &manifest, application.id);
    for _ in 0..CHANGE_ROUNDS_MAX {
        let old = line.ports.manifests.manifest(application.id).await?;
        let kept = KeptManifest {
            application: application.id,
            organization: by.organization,
            version: old.as_ref().map_or(0, |old| old.version) + 1,
            document: document.clone(),
            owner_email: manifest.owner_email.clone(),
            updated_at: line.ports.clock.now(),
        };
        let note = match &old {
            Some(old) => changed(&facts(old), &facts(&kept)),
            None => made(&facts(&kept)),
        };
        let entry = audit::entry(line, by, AuditAction::ApplicationPutManifest, application.id.as_uuid(), note);
        let check = check_plan(line, &application, &manifest);
        let change = ManifestChange { read: application.clone(), manifest: kept.clone() };
        let put = line.ports.manifests.put_manifest(change, lanes.clone(), check, Vec::new(), BOUNDS, entry).await?;
        if is_kept(put)? {
            line.health_checks_bell.notify_one();
            line.calls.forget(application.id);
            // The lanes of its capabilities are part of what the organization's applications share.
            line.catalog.forget_organization(by.organization);
            if old.and_then(|old| old.owner_email) != kept.owner_email {
                owners::announce_change(line, by.organization);
            }
            return Ok(kept);
        }
        // The application may have been changed or deleted meanwhile.
        application = find_application(line, by.organization, &Ref::Id(application.id)).await?;
    }
    Err(Refusal::concurrent_change("manifest"))
}

/// The lanes that an application with this manifest has, and how what is sent there is retried. What `retry` says of a call whose caller waits is not for the
/// job that it may become.
fn lanes_of(line: &Line, manifest: &Manifest, application: ApplicationId) -> Vec<JobLane> {
    let retry = line.calls.defaults.job_retry;
    let of_capability = |(name, capability): (&CapabilityName, &Capability)| {
        let schedule = if capability.is_async {
            presets::job_retried(retry, capability.attempts_max, capability.backoff)
        } else {
            presets::job_by(retry)
        };
        JobLane { lane_id: name.lane(application), schedule }
    };
    let of_callbacks = JobLane { lane_id: callback_lane(application), schedule: presets::relay() };
    manifest.capabilities.iter().map(of_capability).chain([of_callbacks]).collect()
}

/// Whether a manifest is kept; if not, and no bound of the organization is why, somebody else was faster.
fn is_kept(put: ManifestPut) -> Result<bool, Refusal> {
    let words = match put {
        ManifestPut::Kept => return Ok(true),
        ManifestPut::Outdated => return Ok(false),
        ManifestPut::TooMany => format!("an organization may have at most {} manifests", BOUNDS.manifests),
        ManifestPut::TooLarge => format!("the manifests of an organization may have at most {} bytes together", BOUNDS.bytes),
        ManifestPut::TooManyLanes => format!(
            "an organization may have at most {} capabilities, counting those that were removed from manifests for as long as their application is there",
            BOUNDS.lanes
        ),
    };
    Err(Refusal::Conflict(Conflict::LimitReached, words))
}

/// Where and when the health of the app is checked, if it is.
fn check_plan(line: &Line, application: &Application, manifest: &Manifest) -> Option<AppCheckPlan> {
    let (base_url, path) = (manifest.base_url(application)?, manifest.health_path(application)?);
    let phase = health::phase(application.id.as_uuid(), line.health_checks.interval);
    Some(AppCheckPlan { url: manifest::url_of(base_url, path), first_at: line.ports.clock.now() + phase })
}

/// What a change of an application does to the health check of its app.
pub(super) async fn check_change(line: &Line, read: &Application, changed: &Application) -> Result<CheckChange, Refusal> {
    if (&read.base_url, &read.health_path) == (&changed.base_url, &changed.health_path) {
        return Ok(CheckChange::Keep);
    }
    let Some(kept) = line.ports.manifests.manifest(changed.id).await? else {
        return Ok(CheckChange::Replace { manifest_version: 0, plan: None });
    };
    let plan = check_plan(line, changed, &manifest_of(line, &kept)?);
    Ok(CheckChange::Replace { manifest_version: kept.version, plan })
}

/// A manifest that is kept, opened. Its URLs were checked when it was put.
fn manifest_of(line: &Line, kept: &KeptManifest) -> Result<Manifest, Refusal> {
    let document = serde_json::from_str(&kept.document).map_err(StoreError::corrupt)?;
    let read = manifest::read(&document, None, &line.calls.defaults, &|_| Ok(()));
    Ok(read.map_err(|_| StoreError::corrupt(format!("the manifest of the application {} cannot be read", kept.application)))?)
}

/// The manifest of an application.
///
/// # Errors
/// [`Refusal::NotFound`] if there is no such application, or it has none.
pub async fn get(line: &Line, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<KeptManifest, Refusal> {
    let application = find_application(line, organization, of).await?;
    line.ports.manifests.manifest(application.id).await?.ok_or(Refusal::NotFound(Noun::Manifest))
}

/// An application with its capabilities, as calls go by them.
///
/// # Errors
/// [`Refusal::NotFound`] if there is no such application.
pub async fn opened(line: &Line, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<std::sync::Arc<OpenApp>, Refusal> {
    line.calls.app(organization, of).await?.ok_or(Refusal::NotFound(Noun::Application))
}

/// What happened at a capability in a time.
///
/// # Errors
/// [`Refusal::NotFound`] if there is no such application or capability name.
pub async fn statistics(
    line: &Line,
    organization: OrganizationId,
    of: &Ref<ApplicationId>,
    capability: &str,
    (from, to): (Timestamp, Timestamp),
) -> Result<AttemptStatistics, Refusal> {
    let application = find_application(line, organization, of).await?;
    let name = CapabilityName::parse(capability).ok_or(Refusal::NotFound(Noun::Capability))?;
    Ok(line.ports.statistics.attempt_statistics(name.lane(application.id), from, to).await?)
}

/// The draw of a call.
///
/// # Errors
/// [`Refusal::NotFound`] if the application has none of this call.
pub async fn draw(line: &Line, organization: OrganizationId, of: &Ref<ApplicationId>, request_id: &str) -> Result<FairDraw, Refusal> {
    let application = find_application(line, organization, of).await?;
    let id = request_id.parse().map_err(|_| Refusal::NotFound(Noun::Draw))?;
    let found = line.ports.call_records.draw(organization, id).await?;
    found.filter(|draw| draw.application == application.id).ok_or(Refusal::NotFound(Noun::Draw))
}

async fn find_application(line: &Line, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<Application, Refusal> {
    line.ports.applications.application(organization, of).await?.ok_or(Refusal::NotFound(Noun::Application))
}

/// Reads a manifest and checks everything of it, the schemas too.
async fn check(line: &Line, application: &Application, document: &str, targets: &TargetRules) -> Result<Manifest, Refusal> {
    if document.len() > DOCUMENT_BYTES_MAX {
        let reason = format!("must be at most {DOCUMENT_BYTES_MAX} bytes, and has {}", document.len());
        return Err(Refusal::Invalid(vec![Fault::new("manifest", reason)]));
    }
    let value = serde_json::from_str(document)
        .map_err(|error| Refusal::Invalid(vec![Fault::new("manifest", format!("cannot be read: {error}"))]))?;
    let check_url = |url: &str| target::check(url, targets).map(|_| ()).map_err(|fault| fault.to_string());
    let read = manifest::read(&value, application.base_url.as_deref(), &line.calls.defaults, &check_url);
    let manifest = read.map_err(|faults| Refusal::Invalid(faults.into_iter().map(fault).collect()))?;
    if manifest.capabilities.values().all(|capability| capability.response_schema.is_none()) {
        return Ok(manifest);
    }
    let compile = move || {
        let compiled = compile_schemas(&manifest).map(|_| ());
        (manifest, compiled)
    };
    let (manifest, compiled) =
        line.evaluations.run(application.organization, EVALUATION_TIMEOUT, compile).await.map_err(|_| Refusal::Busy)?;
    let fault = |(name, reason): (CapabilityName, String)| Fault::new(format!("capabilities.{name}.response_schema"), reason);
    compiled.map_err(|wrong| Refusal::Invalid(vec![fault(wrong)]))?;
    Ok(manifest)
}

fn fault(fault: ManifestFault) -> Fault {
    Fault { field: fault.field, reason: fault.reason }
}

fn facts(kept: &KeptManifest) -> Facts {
    let document: serde_json::Value = serde_json::from_str(&kept.document).unwrap_or_default();
    Facts::default().plain("version", kept.version).plain("manifest", document)
}
