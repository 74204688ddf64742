//! From a manifest as it is kept to what calls go by: URLs parsed, schemas compiled, secrets opened.

use std::{hash::BuildHasher as _, sync::Arc};

use rustc_hash::{FxBuildHasher, FxHashMap};
use url::Url;

use super::Calls;
use crate::{
    gates::{AppKey, GateSettings},
    ids::{ApplicationId, LaneId, OrganizationId},
    limits::evaluations::EVALUATION_TIMEOUT,
    model::{Application, Capability, CapabilityName, FallbackStep, KeptManifest, Manifest, SealedSecrets, SigningKey, Target},
    policy::{
        calls::{
            deadline,
            manifest::{self, url_of},
        },
        schema::{CompileBudget, Schema},
    },
    ports::StoreError,
    signing::Keys,
};

/// What an opened capability takes in memory beside its texts.
const CAPABILITY_BYTES: usize = 4 << 10;

/// From how much of the app's time on an answer counts as slow.
const SLOW_PERCENTAGE: u32 = 80;

/// An application that can be called.
pub struct OpenApp {
    /// Which.
    pub application: ApplicationId,
    /// Whose.
    pub organization: OrganizationId,
    /// What it answers, by name.
    pub capabilities: FxHashMap<String, Arc<OpenCapability>>,
    /// What signs, if it has a manifest.
    pub(super) keys: Option<Arc<Keys>>,
    /// About what it takes in memory.
    pub(super) bytes: usize,
}

/// A capability that can be called.
pub struct OpenCapability {
    /// Its name.
    pub name: CapabilityName,
    /// Its lane.
    pub lane_id: LaneId,
    /// Whose.
    pub application: ApplicationId,
    /// The tenant.
    pub organization: OrganizationId,
    /// The version of its manifest.
    pub version: i64,
    /// What the manifest says.
    pub spec: Capability,
    /// What of it the gate goes by.
    pub gate_settings: GateSettings,
    /// Where it is; `None` if neither the manifest nor the application has a base URL.
    pub(super) target: Option<Arc<Target>>,
    /// Where its canary is, and how many in a hundred calls go there.
    pub(super) canary: Option<(Arc<Target>, u32)>,
    /// The URLs of its fallback, in the order of the steps.
    pub(super) fallback_targets: Vec<Option<Arc<Target>>>,
    /// What the data of answers must be.
    pub(super) schema: Option<Arc<Schema>>,
    /// What signs.
    pub(super) keys: Arc<Keys>,
}

impl OpenCapability {
    /// How much of a call's time is kept back for its fallback.
    pub(super) fn reserve(&self, timeout: std::time::Duration) -> std::time::Duration {
        deadline::reserve(timeout, &self.spec.fallback)
    }

    /// Whether answers are kept for later calls with the same key.
    pub(super) fn keeps_answers(&self) -> bool {
        self.spec.cache.is_used()
    }
}

/// Compiles the schemas of a manifest, in the order of the capabilities, within one budget.
///
/// # Errors
/// Which capability's is wrong, and how.
pub fn compile_schemas(manifest: &Manifest) -> Result<Vec<Option<Arc<Schema>>>, (CapabilityName, String)> {
    let mut budget = CompileBudget::of_manifest();
    let compile = |(name, capability): (&CapabilityName, &Capability)| match &capability.response_schema {
        Some(text) => {
            let compiled = Schema::compile_within(text, &mut budget);
            compiled.map(|schema| Some(Arc::new(schema))).map_err(|reason| (name.clone(), reason))
        }
        None => Ok(None),
    };
    manifest.capabilities.iter().map(compile).collect()
}

/// Opens an application.
pub(super) async fn open(
    calls: &Calls,
    of: &Application,
    kept: Option<KeptManifest>,
    secrets: Option<SealedSecrets>,
) -> Result<OpenApp, StoreError> {
    let (organization, application) = (of.organization, of.id);
    let mut app = OpenApp { application, organization, capabilities: FxHashMap::default(), keys: None, bytes: CAPABILITY_BYTES };
    // Both are written before anything can be called.
    let (Some(kept), Some(secrets)) = (kept, secrets) else { return Ok(app) };
    let unfit = |words: String| StoreError::corrupt(format!("the manifest of the application {application} cannot be opened: {words}"));
    let document = serde_json::from_str(&kept.document).map_err(|error| unfit(error.to_string()))?;
    // URLs were checked when the manifest was put; each address is vetted again on every connect.
    let read = manifest::read(&document, None, &calls.defaults, &|_| Ok(()));
    let manifest = read.map_err(|faults| {
        unfit(faults.into_iter().map(|fault| format!("`{}` {}", fault.field, fault.reason)).collect::<Vec<_>>().join("; "))
    })?;
    let keys = Arc::new(open_keys(calls, application, &secrets)?);
    app.keys = Some(keys.clone());
    let (manifest, schemas) = compile(calls, organization, manifest).await?;
    app.bytes += kept.document.len() * 4;
    let base_url = manifest.base_url(of).map(str::to_owned);
    let app_key = AppKey { application, base_url: hash_of(base_url.as_deref().unwrap_or_default()) };
    let app_concurrency_max = manifest.capabilities.values().map(|spec| spec.max_concurrency).max().unwrap_or(1);
    for ((name, spec), schema) in manifest.capabilities.into_iter().zip(schemas) {
        app.bytes += CAPABILITY_BYTES + schema.as_ref().map_or(0, |schema| usize::try_from(schema.memory_bytes()).unwrap_or(usize::MAX));
        let target = base_url.as_deref().map(|base_url| target(&url_of(base_url, &spec.path)).map_err(&unfit)).transpose()?;
        let canary = spec.canary.as_ref().filter(|canary| !canary.is_withdrawn);
        let canary =
            canary.map(|canary| Ok((self::target(&url_of(&canary.base_url, &spec.path))?, canary.percent))).transpose().map_err(&unfit)?;
        let canary_version = canary.is_some().then_some(kept.version);
        let of_step = |step: &FallbackStep| match step {
            FallbackStep::Http { url, .. } => self::target(url).map(Some),
            _ => Ok(None),
        };
        let fallback_targets = spec.fallback.iter().map(of_step).collect::<Result<_, _>>().map_err(&unfit)?;
        let gate_settings = GateSettings {
            breaker: spec.breaker,
            slow_calls: spec.slow_calls,
            slow_after: (spec.timeout - deadline::reserve(spec.timeout, &spec.fallback)) * SLOW_PERCENTAGE / 100,
            max_concurrency: spec.max_concurrency,
            app: app_key,
            app_concurrency_max,
            hedge: spec.hedge,
            canary_version,
        };
        let lane_id = name.lane(application);
        let (text, version, keys) = (name.as_str().to_owned(), kept.version, keys.clone());
        let capability = OpenCapability {
            name,
            lane_id,
            application,
            organization,
            version,
            spec,
            gate_settings,
            target,
            canary,
            fallback_targets,
            schema,
            keys,
        };
        app.capabilities.insert(text, Arc::new(capability));
    }
    Ok(app)
}

/// Compiles the schemas of a manifest off the threads that serve requests.
async fn compile(
    calls: &Calls,
    organization: OrganizationId,
    manifest: Manifest,
) -> Result<(Manifest, Vec<Option<Arc<Schema>>>), StoreError> {
    if manifest.capabilities.values().all(|capability| capability.response_schema.is_none()) {
        let none = manifest.capabilities.iter().map(|_| None).collect();
        return Ok((manifest, none));
    }
    let compiled = calls.evaluations.run(organization, EVALUATION_TIMEOUT, move || {
        let schemas = compile_schemas(&manifest);
        (manifest, schemas)
    });
    let (manifest, schemas) = compiled.await.map_err(StoreError::unavailable)?;
    let schemas = schemas.map_err(|(name, reason)| StoreError::corrupt(format!("the schema of the capability {name} {reason}")))?;
    Ok((manifest, schemas))
}

/// Tells the base URLs of one application apart.
fn hash_of(base_url: &str) -> u64 {
    FxBuildHasher.hash_one(base_url)
}

fn target(url: &str) -> Result<Arc<Target>, String> {
    let parsed = Url::parse(url).map_err(|error| error.to_string())?;
    Ok(Arc::new(Target { written: url.to_owned(), url: parsed }))
}

fn open_keys(calls: &Calls, application: ApplicationId, secrets: &SealedSecrets) -> Result<Keys, StoreError> {
    let open = |sealed| {
        let plain = calls.vault.open(application.as_uuid(), sealed).map_err(StoreError::corrupt)?;
        let text = String::from_utf8(plain).map_err(StoreError::corrupt)?;
        SigningKey::parse(&text).map_err(StoreError::corrupt)
    };
    let previous = match &secrets.previous {
        Some((sealed, until)) => Some((open(sealed)?, *until)),
        None => None,
    };
    Ok(Keys { current: open(&secrets.current)?, previous })
}
