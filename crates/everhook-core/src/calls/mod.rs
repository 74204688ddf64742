//! Calls: ask an app for an answer now, under a deadline; if it is slow or down, answer from a fallback.
//!
//! The API asks [`Calls::find`] for the capability and [`call::call`] for the answer. A call reads its cache (`cache`), joins or starts a flight (`flight`:
//! requests to the app with retries and hedges), waits for it no longer than its own deadline allows, and then goes through the fallback (`fallback`).
//! Nothing here waits for the store where a caller waits, but within a bound of milliseconds.

pub mod answered;
mod cache;
pub mod call;
mod checking;
pub mod contract;
mod draw_writes;
mod fallback;
mod fallback_uses;
mod flight;
mod job;
mod known;
mod opening;
mod quorum;
mod records;
mod request;
mod shadow;
mod spans;
mod until;

use std::sync::{Arc, Weak};

use bytes::Bytes;

use self::{
    cache::AnswerCache,
    draw_writes::DrawWrites,
    flight::Flights,
    known::{Changed, Known},
    records::Records,
};
pub(crate) use self::{checking::NOT_CHECKED, job::JobRequest};
pub use self::{
    opening::{OpenApp, OpenCapability, compile_schemas},
    quorum::CALLERS_NOTED_EVERY,
    records::{CALL_RECORDS_WRITTEN_EVERY, WithdrawnCanary},
    shadow::ShadowDifference,
};
use crate::{
    gates::{CapabilityGate, GateFacts, Gates},
    ids::{ApplicationId, LaneId, OrganizationId, Ref},
    limits::evaluations::Evaluations,
    metrics::Metrics,
    owned_tasks::OwnedTasks,
    policy::{breaker::Transition, calls::manifest::ManifestDefaults},
    ports::{
        ApplicationStore, BreakerChange, BreakerKept, BreakerStore, CallRecords, Clock, Entropy, ManifestStore, Ports, Spans, StoreError,
        Terms, Transport, Vault, within,
    },
    reading::Reading,
    time::Timestamp,
};

/// How long the store may take to say how a breaker stands: past it the breaker is taken for closed.
const BREAKER_PATIENCE: std::time::Duration = std::time::Duration::from_millis(20);

/// How often a breaker is written again because somebody else was faster.
const KEEP_ROUNDS_MAX: u32 = 5;

/// Everything that calls share on this node.
pub struct Calls {
    manifests: Arc<dyn ManifestStore>,
    applications: Arc<dyn ApplicationStore>,
    breakers: Arc<dyn BreakerStore>,
    call_records: Arc<dyn CallRecords>,
    transport: Arc<dyn Transport>,
    vault: Arc<dyn Vault>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    evaluations: Arc<Evaluations>,
    /// What holds where a manifest does not say.
    pub defaults: ManifestDefaults,
    user_agent: Bytes,
    known: Known,
    reading: Reading<ApplicationId, OpenApp>,
    gates: Gates,
    cache: AnswerCache,
    flights: Flights,
    /// Where requests to apps run, whoever waits for them.
    tasks: Weak<OwnedTasks>,
    shadows: shadow::Shadows,
    quorum: quorum::Quorum,
    draw_writes: DrawWrites,
    /// Where spans of traces go.
    spans: Option<Arc<dyn Spans>>,
    /// What calls leave to be written.
    pub records: Records,
}

/// What a call is for.
pub enum Found {
    /// This one.
    Capability(Arc<OpenCapability>),
    /// The organization has no such application.
    NoApplication,
    /// The application has no manifest, or none with this capability.
    NoCapability,
    /// It has no base URL, so that nothing can be called.
    NoBaseUrl,
}

impl Calls {
    /// Over these ports, with so many requests to apps under way at most.
    pub(crate) fn new(
        ports: &Ports,
        (evaluations, tasks): (Arc<Evaluations>, Weak<OwnedTasks>),
        defaults: ManifestDefaults,
        in_flight_max: u32,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            manifests: ports.manifests.clone(),
            applications: ports.applications.clone(),
            breakers: ports.breakers.clone(),
            call_records: ports.call_records.clone(),
            transport: ports.transport.clone(),
            vault: ports.vault.clone(),
            clock: ports.clock.clone(),
            entropy: ports.entropy.clone(),
            evaluations,
            defaults,
            user_agent: Bytes::from_static(concat!("Everhook/", env!("CARGO_PKG_VERSION")).as_bytes()),
            known: Known::default(),
            reading: Reading::default(),
            gates: Gates::new(in_flight_max),
            cache: AnswerCache::default(),
            flights: Flights::default(),
            tasks,
            shadows: shadow::Shadows::default(),
            quorum: quorum::Quorum::new(ports.breaker_votes.clone(), ports.leases.terms() == Terms::Shared),
            draw_writes: DrawWrites::default(),
            spans: ports.spans.clone(),
            records: Records::counting_in(metrics),
        }
    }

    /// Finds a capability of an application.
    ///
    /// # Errors
    /// [`StoreError`] if it had to be read and could not be.
    pub async fn find(&self, organization: OrganizationId, of: &Ref<ApplicationId>, capability: &str) -> Result<Found, StoreError> {
        let Some(app) = self.app(organization, of).await? else { return Ok(Found::NoApplication) };
        let Some(found) = app.capabilities.get(capability) else { return Ok(Found::NoCapability) };
        Ok(if found.target.is_some() { Found::Capability(found.clone()) } else { Found::NoBaseUrl })
    }

    /// Finds an application with its manifest, opened. One without a manifest has no capabilities.
    ///
    /// # Errors
    /// As [`Calls::find`].
    pub async fn app(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<Option<Arc<OpenApp>>, StoreError> {
        if let Some(app) = self.known.find(organization, of) {
            return Ok(Some(app));
        }
        // On the heap, because it is rare.
        Box::pin(self.read(organization, of)).await
    }

    async fn read(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Result<Option<Arc<OpenApp>>, StoreError> {
        let moment = self.known.moment();
        let Some(application) = self.applications.application(organization, of).await? else { return Ok(None) };
        let id = application.id;
        let open = async {
            let kept = self.manifests.manifest(id).await?;
            let secrets = self.manifests.application_secrets(id).await?;
            opening::open(self, &application, kept, secrets).await.map(|app| Some(Arc::new(app)))
        };
        let Some(app) = self.reading.read(id, open).await? else { return Ok(None) };
        for capability in app.capabilities.values() {
            self.apply_breaker(capability).await;
        }
        self.known.keep(&app, application.uid.as_ref(), moment);
        Ok(Some(app))
    }

    /// Takes note that an application, its manifest or its secrets were changed, or one of its breakers by hand.
    pub fn forget(&self, application: ApplicationId) {
        self.known.forget(Changed::Application(application));
    }

    /// Takes note that somebody changed the breaker of a lane by hand, if it is one of a capability that this node has called.
    pub fn breaker_changed(&self, application: ApplicationId, lane_id: LaneId) {
        if self.gates.find(lane_id).is_some() {
            self.forget(application);
        }
    }

    /// How many requests to apps may be under way.
    pub(crate) fn in_flight_max(&self) -> u32 {
        self.gates.slots.max()
    }

    /// How the gate of a capability stands on this node; `None` if nobody called it here.
    pub fn facts(&self, lane_id: LaneId) -> Option<GateFacts> {
        self.gates.find(lane_id).map(|gate| gate.facts(self.clock.now()))
    }

    /// Takes note that an organization was deleted.
    pub fn forget_organization(&self, organization: OrganizationId) {
        self.known.forget(Changed::Organization(organization));
    }

    /// Takes note that anything may have changed.
    pub fn forget_all(&self) {
        self.known.forget(Changed::Everything);
    }

    /// The gate of a capability. Made with its breaker as the store keeps it, where this node has none yet.
    pub async fn gate(&self, capability: &OpenCapability) -> Arc<CapabilityGate> {
        let now = self.clock.now();
        if let Some(gate) = self.gates.get(capability.lane_id, &capability.gate_settings, now) {
            return gate;
        }
        let read = within(&*self.clock, BREAKER_PATIENCE, self.breakers.breaker(capability.lane_id)).await;
        let kept = read.and_then(Result::ok).flatten();
        self.gates.make(capability.lane_id, &capability.gate_settings, kept.as_ref(), self.clock.now())
    }

    /// Takes note that an app fails its health checks since an instant: its breakers open here, so that the next callers need not wait for it. Those of
    /// capabilities that have answered since then stay as they are. Calls probe it as they do after every failure.
    ///
    /// # Errors
    /// As [`Calls::find`].
    pub(crate) async fn app_is_away(
        &self,
        organization: OrganizationId,
        application: ApplicationId,
        since: Timestamp,
    ) -> Result<(), StoreError> {
        let Some(app) = self.app(organization, &Ref::Id(application)).await? else { return Ok(()) };
        // Jobs nobody waits for: their lanes have breakers of their own.
        for capability in app.capabilities.values().filter(|capability| !capability.spec.is_async) {
            let gate = self.gate(capability).await;
            if let Some(transition) = gate.app_is_away(since, self.clock.now()) {
                self.write_breaker(capability, &gate, transition).await;
            }
        }
        Ok(())
    }

    /// Takes over what a person did to the breaker of a capability on another node, or what a quorum of nodes found out, if this node has a gate for it.
    async fn apply_breaker(&self, capability: &OpenCapability) {
        let Some(gate) = self.gates.find(capability.lane_id) else { return };
        if let Ok(Some(row)) = self.breakers.breaker(capability.lane_id).await {
            gate.apply_kept_breaker(&row, self.clock.now());
            self.apply_votes(capability, &gate, &row).await;
        }
    }

    /// Keeps how a breaker stands after a change, in the background: no caller waits for it.
    fn keep_breaker(self: &Arc<Self>, capability: &Arc<OpenCapability>, gate: &Arc<CapabilityGate>, transition: Transition) {
        let (calls, capability, gate) = (self.clone(), capability.clone(), gate.clone());
        tokio::spawn(async move { calls.write_breaker(&capability, &gate, transition).await });
    }

    /// Keeps how a breaker stands after a change, with what is to be told of it.
    async fn write_breaker(&self, capability: &Arc<OpenCapability>, gate: &CapabilityGate, transition: Transition) {
        let alerts = self.alerts_of(capability, transition);
        for _ in 0..KEEP_ROUNDS_MAX {
            let (kept, revision) = gate.to_keep();
            let change = BreakerChange {
                application: capability.application,
                lane_id: capability.lane_id,
                revision,
                kept,
                transition: Some(transition),
                alerts: alerts.clone(),
                entry: None,
            };
            match self.breakers.keep(vec![change]).await.as_deref() {
                Ok([BreakerKept::Outdated(row)]) => gate.kept(row.revision),
                Ok(_) => {
                    gate.kept(revision);
                    if !alerts.is_empty() {
                        self.records.alerts_recorded.notify_one();
                    }
                    return self.vote(capability, gate, transition).await;
                }
                Err(error) => {
                    let error = error as &dyn std::error::Error;
                    tracing::warn!(error, lane.id = %capability.lane_id, "cannot store a circuit breaker of a capability; after a restart it is as it was before");
                    return;
                }
            }
        }
    }
}
